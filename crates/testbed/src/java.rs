//! Which Java there is. Nothing is installed from here: `cargo xtask test --install` and `cargo xtask cluster up
//! --install` do that.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::TestbedError;

/// The versions that Cassandra 5.0 and Kafka 4 both run on.
const VERSIONS: std::ops::RangeInclusive<u32> = 17..=17;

/// A `java` of a version that the servers run on: that of `JAVA_HOME`, of the path, or of the system's folder of them.
pub fn java() -> Result<PathBuf, TestbedError> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin").join("java"));
    let on_path = Some(PathBuf::from("java"));
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let installed = installed.map(|entry| entry.path().join("bin").join("java"));
    let mut candidates = home.into_iter().chain(on_path).chain(installed);
    candidates.find(|java| version_of(java).is_some_and(|version| VERSIONS.contains(&version))).ok_or_else(|| {
        let advice = format!("the servers run on Java {}; {}", VERSIONS.end(), how_to_install());
        TestbedError::Missing { what: "a Java runtime", advice }
    })
}

/// Maven, which speaks to the package registry as this machine is set up to.
pub(crate) fn maven() -> Result<Command, TestbedError> {
    let found = Command::new("mvn").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(Command::new("mvn"));
    }
    Err(TestbedError::Missing { what: "Maven", advice: how_to_install() })
}

fn how_to_install() -> String {
    "`cargo xtask cluster up --install` installs it".to_owned()
}

fn version_of(java: &PathBuf) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stderr))
}

/// `openjdk version "17.0.15" 2025-04-15` is 17, `java version "1.8.0_392"` is 8.
fn parse_version(text: &str) -> Option<u32> {
    let quoted = text.split('"').nth(1)?;
    let mut parts = quoted.split(['.', '-', '_']).map(|part| part.parse().ok());
    match (parts.next()??, parts.next()) {
        (1, Some(second)) => second,
        (first, _) => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_old_and_new_runtimes_are_read() {
        assert_eq!(parse_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(parse_version("java version \"1.8.0_392\""), Some(8));
        assert_eq!(parse_version("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(parse_version("openjdk version \"24-ea\""), Some(24));
        assert_eq!(parse_version("sh: java: not found"), None);
    }
}
