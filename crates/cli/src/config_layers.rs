//! The server's configuration from its layers: defaults, then a TOML file, then the environment, then flags; and where
//! each value came from.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use anabranch_server::{Config, ConfigError};

use crate::{
    args::ServerFlags,
    failure::{Exit, Failure, Outcome},
    spelling::closest,
};

/// The file that is read when none is named.
const USUAL_FILE: &str = "anabranch.toml";
const PREFIX: &str = "ANABRANCH_";
/// Variables that are not settings of the server.
const OTHER_VARIABLES: [&str; 3] = ["ANABRANCH_SERVER", "ANABRANCH_CONFIG", "ANABRANCH_TLS_CA"];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file:{}", path.display()),
            Origin::Environment(name) => write!(f, "environment:{name}"),
            Origin::Flag(flag) => write!(f, "flag:{flag}"),
        }
    }
}

/// The result of all layers. It may still break rules: see `Config::validate`.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) config: Config,
    pub(crate) file: Option<PathBuf>,
    origins: BTreeMap<String, Origin>,
    /// Variables that look like settings but are none, each with what may have been meant.
    pub(crate) unknown_variables: Vec<String>,
}

impl Layers {
    /// Where the value of a setting came from.
    pub(crate) fn origin(&self, path: &str) -> &Origin {
        self.origins.get(path).unwrap_or(&Origin::Default)
    }

    /// Refuses a configuration that breaks rules, naming all of them and where the values came from.
    pub(crate) fn check(&self) -> Outcome {
        let Err(problems) = self.config.validate() else { return Ok(()) };
        let mut failure = Failure::new(Exit::Usage, "the configuration can't be used");
        for problem in problems {
            failure = failure.detail(format!("{problem} (from {})", self.origin(problem.path)));
        }
        Err(failure.hint("`anabranch config` shows every value and where it came from"))
    }
}

/// Reads all layers of this process.
pub(crate) fn load(flags: &ServerFlags) -> Outcome<Layers> {
    // Values that aren't Unicode can't be settings; their names still count as unknown.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    load_from(flags, Path::new(USUAL_FILE), environment)
}

fn load_from(
    flags: &ServerFlags,
    usual_file: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Outcome<Layers> {
    let mut layers =
        Layers { config: Config::default(), file: None, origins: BTreeMap::new(), unknown_variables: Vec::new() };
    layers.apply_file(flags.config.as_deref(), usual_file)?;
    let mut variables: Vec<(String, String)> = environment.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, value) in variables {
        layers.apply_variable(name, &value)?;
    }
    for (path, flag, value) in flags.given() {
        layers.set(path, &value, Origin::Flag(flag))?;
    }
    Ok(layers)
}

impl Layers {
    fn apply_file(&mut self, named: Option<&Path>, usual: &Path) -> Outcome {
        let path = named.unwrap_or(usual);
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::file("read the configuration", path, &error)),
        };
        let broken = |error: ConfigError| Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
        let mut paths = Config::paths_in(&text).map_err(broken)?;
        paths.sort();
        refuse_unknown(path, &paths)?;
        self.config = Config::from_toml(&text).map_err(broken)?;
        let origins = paths.into_iter().map(|setting| (setting, Origin::File(path.to_owned())));
        self.origins.extend(origins);
        self.file = Some(path.to_owned());
        Ok(())
    }

    fn apply_variable(&mut self, name: String, value: &str) -> Outcome {
        if OTHER_VARIABLES.contains(&name.as_str()) {
            return Ok(());
        }
        let fields = self.config.fields();
        let variables: Vec<String> = fields.iter().map(|field| variable_name(&field.path)).collect();
        let Some(index) = variables.iter().position(|variable| *variable == name) else {
            let known = variables.iter().map(String::as_str).chain(OTHER_VARIABLES);
            let meant = closest(&name, known).map(|meant| format!("; is {meant} meant?")).unwrap_or_default();
            self.unknown_variables.push(format!("{name} is no setting{meant}"));
            return Ok(());
        };
        self.set(&fields[index].path, value, Origin::Environment(name))
    }

    fn set(&mut self, path: &str, value: &str, origin: Origin) -> Outcome {
        let wrong = |error: ConfigError| Failure::new(Exit::Usage, format!("{error} (from {origin})"));
        self.config.set(path, value).map_err(wrong)?;
        self.origins.insert(path.to_owned(), origin);
        Ok(())
    }
}

/// `listen.grpc` is `ANABRANCH_LISTEN_GRPC`.
pub(crate) fn variable_name(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// All that a file names and nobody knows, at once, with what may have been meant.
fn refuse_unknown(file: &Path, paths: &[String]) -> Outcome {
    let fields = Config::default().fields();
    let known = || fields.iter().map(|field| field.path.as_str());
    let unknown: Vec<&String> = paths.iter().filter(|path| !known().any(|known| known == path.as_str())).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::new(Exit::Usage, format!("{} has settings that don't exist", file.display()));
    for path in unknown {
        let meant = closest(path, known()).map(|meant| format!("; is `{meant}` meant?")).unwrap_or_default();
        failure = failure.detail(format!("`{path}`{meant}"));
    }
    Err(failure.hint("`anabranch config` in an empty directory lists all settings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(file: &str, environment: &[(&str, &str)], flags: &ServerFlags) -> Outcome<Layers> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(USUAL_FILE);
        fs::write(&path, file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        load_from(flags, &path, environment)
    }

    #[test]
    fn later_layers_win_and_say_so() {
        let file = "[listen]\ngrpc = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:2\"\n[store]\ncache = \"32 MiB\"\n";
        let environment =
            [("ANABRANCH_LISTEN_HTTP", "127.0.0.1:3"), ("ANABRANCH_STORE_CACHE", "64 MiB"), ("HOME", "/x")];
        let flags = ServerFlags { http: Some("127.0.0.1:4".to_owned()), ..ServerFlags::default() };
        let layers = layers(file, &environment, &flags).unwrap();
        assert_eq!(layers.config.listen.grpc.port(), 1);
        assert_eq!(layers.config.listen.http.port(), 4);
        assert_eq!(layers.config.store.cache.0, 64 << 20);
        assert!(matches!(layers.origin("listen.grpc"), Origin::File(_)));
        assert_eq!(*layers.origin("listen.http"), Origin::Flag("--http"));
        assert_eq!(*layers.origin("store.cache"), Origin::Environment("ANABRANCH_STORE_CACHE".to_owned()));
        assert_eq!(*layers.origin("store.workers"), Origin::Default);
    }

    #[test]
    fn what_nobody_knows_is_named_with_what_was_meant() {
        let failure = layers("[store]\ncahce = 1\n[listne]\ngrpc = \"x\"\n", &[], &ServerFlags::default()).unwrap_err();
        assert_eq!(
            failure.details,
            ["`listne.grpc`; is `listen.grpc` meant?", "`store.cahce`; is `store.cache` meant?"]
        );
        let environment = [("ANABRANCH_SERVER", "http://x"), ("ANABRANCH_LISTEN_GPRC", "y"), ("ANABRANCH_FOO", "")];
        let layers = layers("", &environment, &ServerFlags::default()).unwrap();
        let expected =
            ["ANABRANCH_FOO is no setting", "ANABRANCH_LISTEN_GPRC is no setting; is ANABRANCH_LISTEN_GRPC meant?"];
        assert_eq!(layers.unknown_variables, expected);
    }

    #[test]
    fn a_wrong_value_says_where_it_came_from() {
        let failure = layers("", &[("ANABRANCH_STORE_CACHE", "much")], &ServerFlags::default()).unwrap_err();
        assert!(failure.message.contains("(from environment:ANABRANCH_STORE_CACHE)"), "{}", failure.message);
        let layers = layers("[store]\nworkers = 0\n", &[], &ServerFlags::default()).unwrap();
        let failure = layers.check().unwrap_err();
        assert!(failure.details[0].starts_with("store.workers: ") && failure.details[0].contains("from file:"));
    }
}
