//! Spark on this machine: Python packages in an environment of the project's own, and the jars that read Cassandra.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::{
    cache,
    error::{TestbedError, cannot},
    java,
    maven::{Jars, hex, take_lock},
};

/// The connector, for the Scala that the packages' Spark is built with. There is none for Spark 4.
pub const JARS: Jars = Jars {
    name: "spark-cassandra-connector-3.5.1",
    artifacts: &["com.datastax.spark:spark-cassandra-connector_2.12:3.5.1"],
    sha256: "3901821290f03a056a61dd4c544acbcf2351546d844c504d1695062ac44eb0bc",
};

/// What the jobs of this repository are pinned to.
const REQUIREMENTS: &str = include_str!("../../../jobs/verify/requirements.txt");
/// How often a registry that fails is asked again.
const ATTEMPTS: usize = 3;
/// Settings for one small machine, where nobody else may connect.
const SETTINGS: [&str; 5] = [
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.memory=768m",
    "spark.ui.enabled=false",
    "spark.sql.shuffle.partitions=4",
];

/// Spark, ready to run jobs.
#[derive(Clone, Debug)]
pub struct Spark {
    environment: PathBuf,
    jars: PathBuf,
}

impl Spark {
    /// Downloads what isn't there.
    pub fn fetch() -> Result<Self, TestbedError> {
        Ok(Spark { environment: environment()?, jars: JARS.fetch()? })
    }

    /// Where the Python packages lie.
    pub fn environment(&self) -> &Path {
        &self.environment
    }

    /// A Python that has the packages.
    pub fn python(&self) -> Command {
        Command::new(self.program("python"))
    }

    /// `spark-submit` on this machine, with the connector; the job and its arguments are still to come.
    pub fn submit(&self) -> Result<Command, TestbedError> {
        let java = java::java()?;
        let home = java.parent().and_then(Path::parent).filter(|home| home.is_absolute());
        let mut command = Command::new(self.program("spark-submit"));
        // It looks for Python on the path.
        let mut path = OsString::from(self.environment.join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).env("PYSPARK_PYTHON", self.program("python")).env_remove("SPARK_HOME");
        // Jobs lie in the tree, where nothing is left behind.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        match home {
            Some(home) => command.env("JAVA_HOME", home),
            None => command.env_remove("JAVA_HOME"),
        };
        command.args(["--master", "local[2]", "--jars"]).arg(self.jar_list()?);
        command.args(SETTINGS.iter().flat_map(|setting| ["--conf", setting]));
        Ok(command)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.environment.join("bin").join(name)
    }

    fn jar_list(&self) -> Result<OsString, TestbedError> {
        let entries = fs::read_dir(&self.jars).map_err(cannot(format!("list {}", self.jars.display())))?;
        let mut jars: Vec<OsString> = entries.flatten().map(|entry| entry.path().into_os_string()).collect();
        jars.sort();
        Ok(jars.join(&OsString::from(",")))
    }
}

/// The environment, made when it isn't there. Its name tells which packages it has; it can't be moved once it is made.
fn environment() -> Result<PathBuf, TestbedError> {
    let root = cache::directory()?.join("python");
    fs::create_dir_all(&root).map_err(cannot(format!("make {}", root.display())))?;
    let digest = hex(&Sha256::digest(REQUIREMENTS.as_bytes()));
    let name = format!("verify-{}", &digest[..16]);
    let (directory, complete) = (root.join(&name), root.join(format!("{name}.complete")));
    if complete.exists() {
        return Ok(directory);
    }
    let lock = root.join(format!("{name}.lock"));
    let lock = fs::File::create(&lock).map_err(cannot(format!("make {}", lock.display())))?;
    take_lock(&lock)?;
    if !complete.exists() {
        cache::check_room(&root)?;
        make_environment(&directory)?;
        fs::write(&complete, REQUIREMENTS).map_err(cannot(format!("write {}", complete.display())))?;
    }
    Ok(directory)
}

fn make_environment(directory: &Path) -> Result<(), TestbedError> {
    let advice = "`cargo xtask test --tier spark --install` installs it".to_owned();
    let missing = || TestbedError::Missing { what: "Python 3 with venv", advice: advice.clone() };
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Err(missing());
    }
    let requirements = directory.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(cannot(format!("write {}", requirements.display())))?;
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        let mut pip = Command::new(directory.join("bin").join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]).arg(&requirements);
        let output = pip.output().map_err(cannot("start pip"))?;
        if output.status.success() {
            return Ok(());
        }
        reason = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Err(TestbedError::Download { artifact: "the Python packages of jobs/verify".to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version() {
        let packages: Vec<&str> = REQUIREMENTS.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.iter().any(|package| package.starts_with("pyspark==3.5.")), "{packages:?}");
        assert!(packages.iter().all(|package| package.split("==").count() == 2), "{packages:?}");
    }
}
