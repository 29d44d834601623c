//! Pinned jars from the package registry, by Maven, kept in the cache and checked against a digest of them all.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::{
    cache,
    error::{TestbedError, cannot},
    java,
};

/// Pinned too, so that the same jars are chosen everywhere.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
/// How often a registry that fails is asked again, for a connection that broke half-way.
const ATTEMPTS: usize = 3;
/// How long a download by another process is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(900);

/// A set of jars: some artifacts and everything that they depend on.
#[derive(Clone, Copy, Debug)]
pub struct Jars {
    /// Names the set in the cache: `cassandra-5.0.9`.
    pub name: &'static str,
    /// Each as `group:artifact:version`.
    pub artifacts: &'static [&'static str],
    /// SHA-256 over the sorted lines `digest  file` of all jars: what [`digest_of`] computes.
    pub sha256: &'static str,
}

impl Jars {
    /// The folder that holds the jars; downloads them when it isn't there. Only one process does at a time.
    pub fn fetch(&self) -> Result<PathBuf, TestbedError> {
        let root = cache::directory()?.join("jars");
        fs::create_dir_all(&root).map_err(cannot(format!("make {}", root.display())))?;
        let directory = root.join(self.name);
        if directory.is_dir() {
            return Ok(directory);
        }
        let lock = root.join(format!("{}.lock", self.name));
        let lock = fs::File::create(&lock).map_err(cannot(format!("make {}", lock.display())))?;
        take_lock(&lock)?;
        if directory.is_dir() {
            return Ok(directory);
        }
        cache::check_room(&root)?;
        let partial = root.join(format!("{}.partial", self.name));
        self.download_to(&partial)?;
        fs::rename(&partial, &directory).map_err(cannot(format!("rename {}", partial.display())))?;
        Ok(directory)
    }

    fn download_to(&self, partial: &Path) -> Result<(), TestbedError> {
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            let _ = fs::remove_dir_all(partial);
            fs::create_dir_all(partial).map_err(cannot(format!("make {}", partial.display())))?;
            match self.run_maven(partial)? {
                Ok(()) => return self.check(partial),
                Err(complaint) => reason = complaint,
            }
        }
        Err(self.failed(reason))
    }

    /// The inner error is Maven's complaint.
    fn run_maven(&self, partial: &Path) -> Result<Result<(), String>, TestbedError> {
        let pom = partial.join("pom.xml");
        fs::write(&pom, self.pom()).map_err(cannot(format!("write {}", pom.display())))?;
        let mut command = java::maven()?;
        command.args(["--batch-mode", "--quiet", "--strict-checksums", "--file"]).arg(&pom).arg(PLUGIN);
        command.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", partial.display()));
        let output = command.output().map_err(cannot("start Maven"))?;
        fs::remove_file(&pom).map_err(cannot(format!("delete {}", pom.display())))?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("ERROR")).take(3).collect();
        Ok(Err(lines.join(" ")))
    }

    fn check(&self, directory: &Path) -> Result<(), TestbedError> {
        let found = digest_of(directory)?;
        if found == self.sha256 {
            return Ok(());
        }
        Err(self.failed(format!("the digest of all its jars is {found}, not {}", self.sha256)))
    }

    fn failed(&self, reason: String) -> TestbedError {
        TestbedError::Download { artifact: self.artifacts.join(", "), reason }
    }

    fn pom(&self) -> String {
        let mut dependencies = String::new();
        for artifact in self.artifacts {
            let mut parts = artifact.splitn(3, ':');
            for (tag, close) in [("groupId", ""), ("artifactId", ""), ("version", "</dependency>")] {
                let open = if tag == "groupId" { "<dependency>" } else { "" };
                let part = parts.next().unwrap_or_default();
                let _ = write!(dependencies, "{open}<{tag}>{part}</{tag}>{close}");
            }
        }
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
             <groupId>anabranch</groupId><artifactId>testbed</artifactId><version>1</version>\
             <dependencies>{dependencies}</dependencies></project>"
        )
    }
}

pub(crate) fn take_lock(lock: &fs::File) -> Result<(), TestbedError> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    while let Err(error) = flock(lock, FlockOperation::NonBlockingLockExclusive) {
        if Instant::now() > deadline {
            return Err(cannot("wait for another download")(error.into()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// SHA-256 over the sorted lines `digest  file` of everything in a folder, as `sha256sum * | sort -k2 | sha256sum` says.
pub fn digest_of(directory: &Path) -> Result<String, TestbedError> {
    let entries = fs::read_dir(directory).map_err(cannot(format!("list {}", directory.display())))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut lines = String::new();
    for file in files {
        let bytes = fs::read(&file).map_err(cannot(format!("read {}", file.display())))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(lines, "{}  {name}", hex(&Sha256::digest(&bytes)));
    }
    Ok(hex(&Sha256::digest(lines.as_bytes())))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JARS: Jars = Jars { name: "n", artifacts: &["g.h:a-b:1.0", "x:y:2"], sha256: "0" };

    #[test]
    fn the_pom_names_every_artifact() {
        let pom = JARS.pom();
        assert!(pom.contains("<groupId>g.h</groupId><artifactId>a-b</artifactId><version>1.0</version></dependency>"));
        assert!(pom.contains("<groupId>x</groupId><artifactId>y</artifactId><version>2</version></dependency>"));
    }

    #[test]
    fn a_jar_that_differs_or_is_too_many_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.jar"), "a").unwrap();
        let first = digest_of(place.path()).unwrap();
        assert!(JARS.check(place.path()).unwrap_err().to_string().contains(&first));
        fs::write(place.path().join("a.jar"), "b").unwrap();
        let other = digest_of(place.path()).unwrap();
        fs::write(place.path().join("b.jar"), "b").unwrap();
        let more = digest_of(place.path()).unwrap();
        assert!(first != other && other != more);
    }
}
