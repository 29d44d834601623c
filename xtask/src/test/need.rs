//! What a tier needs besides cargo, how to see whether it is there, and how to install it when that
//! is allowed.

use std::process::Command;

use super::report::Skip;
use crate::process;

/// A program that a tier can't do without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    name: &'static str,
    /// A command that succeeds when it is there.
    probe: &'static [&'static str],
    source: Source,
}

/// Where a program comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A component of the Rust toolchain.
    Toolchain,
    /// A package of the system, of the same name in every package manager.
    System,
    /// A package of the system, by package manager.
    Packages(&'static [(&'static str, &'static str)]),
    /// The package registry, by way of the probe itself, which fetches what isn't there. Nothing is installed.
    Registry,
}

/// Whether programs may be installed on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Granted,
    Denied,
}

pub(crate) const RUSTFMT: Need =
    Need { name: "rustfmt", probe: &["cargo", "fmt", "--version"], source: Source::Toolchain };

pub(crate) const CLIPPY: Need =
    Need { name: "clippy", probe: &["cargo", "clippy", "--version"], source: Source::Toolchain };

pub(crate) const GIT: Need = Need { name: "git", probe: &["git", "--version"], source: Source::System };

/// The Java that Cassandra 5.0 and Kafka 4 both run on.
pub(crate) const JAVA: Need = Need {
    name: "Java 17",
    probe: &[
        "sh",
        "-c",
        "for java in \"$JAVA_HOME/bin/java\" java /usr/lib/jvm/*/bin/java; do \
         \"$java\" -version 2>&1 | grep -q 'version \"17' && exit 0; done; exit 1",
    ],
    source: Source::Packages(&[
        ("apt-get", "openjdk-17-jre-headless"),
        ("dnf", "java-17-openjdk-headless"),
        ("apk", "openjdk17-jre-headless"),
        ("pacman", "jre17-openjdk-headless"),
        ("zypper", "java-17-openjdk-headless"),
        ("brew", "openjdk@17"),
    ]),
};

/// The browser that the dashboard is tried in, found as the tests start it.
pub(crate) const CHROMIUM: Need = Need {
    name: "Chromium",
    probe: &["chromium", "--version"],
    source: Source::Packages(&[
        ("apt-get", "chromium"),
        ("dnf", "chromium"),
        ("apk", "chromium"),
        ("pacman", "chromium"),
        ("zypper", "chromium"),
        ("brew", "chromium"),
    ]),
};

pub(crate) const MAVEN: Need = Need { name: "maven", probe: &["mvn", "--version"], source: Source::System };

/// The jars, so that a registry that is away is told as such and not as failing tests.
pub(crate) const CASSANDRA: Need = Need { name: "cassandra", probe: &FETCH_CASSANDRA, source: Source::Registry };

pub(crate) const KAFKA: Need = Need { name: "kafka", probe: &FETCH_KAFKA, source: Source::Registry };

/// Python, with what makes environments: some systems leave that out.
pub(crate) const PYTHON: Need = Need {
    name: "Python 3 with venv",
    probe: &["python3", "-c", "import ensurepip, venv"],
    source: Source::Packages(&[
        ("apt-get", "python3-venv"),
        ("dnf", "python3"),
        ("apk", "python3"),
        ("pacman", "python"),
        ("zypper", "python3"),
        ("brew", "python3"),
    ]),
};

pub(crate) const SPARK: Need = Need { name: "spark", probe: &FETCH_SPARK, source: Source::Registry };

const FETCH_CASSANDRA: [&str; 8] = fetch("cassandra");
const FETCH_KAFKA: [&str; 8] = fetch("kafka");
const FETCH_SPARK: [&str; 8] = fetch("spark");

const fn fetch(server: &'static str) -> [&'static str; 8] {
    let package = "anabranch-testbed";
    ["cargo", "run", "--quiet", "--package", package, "--", "fetch", server]
}

/// Package managers by the program that shows they are there, and the line that installs with each.
const PACKAGE_MANAGERS: &[(&str, &str)] = &[
    ("apt-get", "{sudo}apt-get update && {sudo}apt-get install --yes {package}"),
    ("dnf", "{sudo}dnf install --assumeyes {package}"),
    ("apk", "{sudo}apk add {package}"),
    ("pacman", "{sudo}pacman --sync --noconfirm {package}"),
    ("zypper", "{sudo}zypper --non-interactive install {package}"),
    ("brew", "brew install {package}"),
];

impl Permission {
    /// By the flag, or for root on a build server, whose machine is thrown away.
    pub(crate) fn given(install: bool, ci: bool) -> Self {
        if install || (ci && is_root()) { Self::Granted } else { Self::Denied }
    }
}

impl Need {
    /// Makes sure that the program is there, or says why the tier must be skipped.
    pub(crate) fn provide(&self, tier: &str, permission: Permission) -> Result<(), Skip> {
        if self.is_met() {
            return Ok(());
        }
        let line = self.install_line();
        let name = self.name;
        let why = match (permission, &line) {
            _ if matches!(self.source, Source::Registry) => format!("`{name}` can't be fetched from the registry"),
            (Permission::Denied, _) => format!("`{name}` is not installed"),
            (Permission::Granted, None) => format!("no package manager is known for `{name}`"),
            (Permission::Granted, Some(line)) => match run_line(line) {
                true if self.is_met() => return Ok(()),
                _ => format!("`{name}` could not be installed"),
            },
        };
        let line = line.unwrap_or_else(|| format!("install {name}"));
        Err(Skip { count: 1, what: tier.to_owned(), why, line })
    }

    fn is_met(&self) -> bool {
        process::answers(Command::new(self.probe[0]).args(&self.probe[1..]))
    }

    /// The line to type, `None` when no package manager is known here.
    fn install_line(&self) -> Option<String> {
        match self.source {
            Source::Toolchain => Some(format!("rustup component add {}", self.name)),
            Source::System => package_line(|_| Some(self.name)),
            Source::Packages(names) => package_line(|manager| {
                names.iter().find(|(program, _)| *program == manager).map(|(_, package)| *package)
            }),
            Source::Registry => Some(self.probe.join(" ")),
        }
    }
}

/// The line for the package manager that is here, which may call the package by a name of its own.
fn package_line(package: impl Fn(&str) -> Option<&'static str>) -> Option<String> {
    let is_here = |program| process::answers(Command::new(program).arg("--version"));
    let (manager, template) = PACKAGE_MANAGERS.iter().find(|(program, _)| is_here(program))?;
    Some(fill(template, package(manager)?, is_root()))
}

fn fill(template: &str, package: &str, root: bool) -> String {
    let sudo = if root { "" } else { "sudo " };
    template.replace("{sudo}", sudo).replace("{package}", package)
}

fn run_line(line: &str) -> bool {
    process::run(Command::new("sh").args(["-c", line])).unwrap_or(false)
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need { name: "absent", probe: &["no-such-program-anywhere"], source: Source::Toolchain };

    #[test]
    fn without_permission_a_missing_program_is_a_skip_with_the_line_to_type() {
        let skip = ABSENT.provide("fmt", Permission::Denied).unwrap_err();
        assert_eq!(skip.what, "fmt");
        assert_eq!(skip.line, "rustup component add absent");
    }

    #[test]
    fn a_program_that_is_there_is_no_reason_to_skip() {
        let present = Need { probe: &["sh", "-c", "true"], ..ABSENT };
        assert_eq!(present.provide("fmt", Permission::Denied), Ok(()));
    }

    #[test]
    fn what_the_system_installs_needs_sudo_unless_root_does_it() {
        let (_, apt) = PACKAGE_MANAGERS[0];
        assert_eq!(fill(apt, "git", false), "sudo apt-get update && sudo apt-get install --yes git");
        assert_eq!(fill(apt, "git", true), "apt-get update && apt-get install --yes git");
    }

    #[test]
    fn what_the_registry_does_not_give_is_a_skip_whoever_asks() {
        let away = Need { probe: &["no-such-program-anywhere", "fetch"], source: Source::Registry, ..ABSENT };
        for permission in [Permission::Denied, Permission::Granted] {
            let skip = away.provide("cassandra", permission).unwrap_err();
            assert!(skip.why.contains("can't be fetched"), "{}", skip.why);
            assert_eq!(skip.line, "no-such-program-anywhere fetch");
        }
    }

    #[test]
    fn every_package_manager_has_a_name_for_what_is_called_differently() {
        for need in [JAVA, CHROMIUM, PYTHON] {
            let Source::Packages(names) = need.source else { panic!("{} has a name in every system", need.name) };
            assert!(PACKAGE_MANAGERS.iter().all(|(manager, _)| names.iter().any(|(name, _)| name == manager)));
        }
    }

    #[test]
    fn nothing_is_installed_without_being_asked() {
        assert_eq!(Permission::given(true, false), Permission::Granted);
        assert_eq!(Permission::given(false, false), Permission::Denied);
    }
}
