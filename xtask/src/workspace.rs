//! What cargo knows about this workspace: where it lies, its packages and the arrows between them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The workspace that the current directory belongs to.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Its members, in cargo's order.
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name in its manifest: `anabranch-store`.
    pub(crate) name: String,
    /// The name of its folder, by which the architecture page calls it: `store`.
    pub(crate) short: String,
    /// Its manifest, relative to the root.
    pub(crate) manifest: String,
    /// The packages of this workspace that it is built from; what only its tests use doesn't count.
    pub(crate) depends_on: Vec<String>,
}

impl Workspace {
    /// Asks cargo. Needs no network and no lock on the build.
    pub(crate) fn find() -> Result<Self> {
        let here = std::env::current_dir().context("the current directory is gone")?;
        let args = ["metadata", "--no-deps", "--format-version", "1"];
        let text = process::output(&mut process::cargo(&here, &args))?;
        Self::from_metadata(&text).context("`cargo metadata` answered in an unknown form")
    }

    fn from_metadata(text: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(text)?;
        let root = PathBuf::from(string(&metadata, "workspace_root")?);
        let target = PathBuf::from(string(&metadata, "target_directory")?);
        let packages = array(&metadata, "packages")?
            .iter()
            .map(|package| Package::from_metadata(package, &root))
            .collect::<Result<_>>()?;
        Ok(Self { root, target, packages })
    }

    /// Where cargo leaves a built binary of a profile's folder, `debug` or `release`.
    pub(crate) fn binary(&self, profile: &str, name: &str) -> PathBuf {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        self.target.join(profile).join(file)
    }
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> Result<Self> {
        let manifest = Path::new(string(package, "manifest_path")?).strip_prefix(root)?;
        let short = manifest.parent().and_then(Path::file_name).context("a member lies in a folder of its own")?;
        let depends_on = array(package, "dependencies")?
            .iter()
            .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
            .map(|dependency| Ok(string(dependency, "name")?.to_owned()))
            .collect::<Result<_>>()?;
        Ok(Self {
            name: string(package, "name")?.to_owned(),
            short: short.to_string_lossy().into_owned(),
            manifest: manifest.to_string_lossy().replace('\\', "/"),
            depends_on,
        })
    }
}

fn string<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no text in its field `{field}`"))
}

fn array<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("no list in its field `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_and_build_dependencies_are_arrows_and_those_of_tests_are_not() {
        let text = r#"{"workspace_root":"/r","target_directory":"/r/target","packages":[{
            "name":"anabranch-store","manifest_path":"/r/crates/store/Cargo.toml","dependencies":[
                {"name":"anabranch-model","kind":null,"path":"/r/crates/model"},
                {"name":"anabranch-api","kind":"build","path":"/r/crates/api"},
                {"name":"anabranch-sim","kind":"dev","path":"/r/crates/sim"},
                {"name":"bytes","kind":null}]}]}"#;
        let workspace = Workspace::from_metadata(text).unwrap();
        let expected = Package {
            name: "anabranch-store".to_owned(),
            short: "store".to_owned(),
            manifest: "crates/store/Cargo.toml".to_owned(),
            depends_on: vec!["anabranch-model".to_owned(), "anabranch-api".to_owned()],
        };
        assert_eq!(workspace.packages, [expected]);
    }

    #[test]
    fn an_answer_in_an_unknown_form_names_the_missing_field() {
        let error = Workspace::from_metadata("{}").unwrap_err().to_string();
        assert!(error.contains("workspace_root"), "{error}");
    }
}
