//! Starting other programs: echoed as a line that can be typed again, their output streamed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that started this process, run in `directory`, as if it were typed: without what `cargo run` tells the programs
/// that it starts. Build scripts look at some of it, and so would build anew what a plain `cargo build` has built.
pub(crate) fn cargo(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory).args(args);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_told_by_cargo(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Whether a variable comes from `cargo run`, rather than from whoever typed it: `CARGO_BUILD_JOBS`, `CARGO_HOME`, `RUSTC_WRAPPER`
/// and the like are settings, and stay.
fn is_told_by_cargo(name: &str) -> bool {
    let told = ["CARGO", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR", "RUST_RECURSION_COUNT"];
    let beginnings = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_FEATURE_"];
    told.contains(&name) || beginnings.iter().any(|beginning| name.starts_with(beginning))
}

/// Runs a command with its output on ours. `false`: it ran and failed.
pub(crate) fn run(command: &mut Command) -> Result<bool> {
    echo(command);
    let status = command.status().with_context(|| cannot_start(command))?;
    Ok(status.success())
}

/// Like [`run`], and shows each line of standard output to `watch` as it passes.
pub(crate) fn run_watched(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<bool> {
    echo(command);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| cannot_start(command))?;
    let output = child.stdout.take().context("standard output was piped")?;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    // By bytes: a test may print what isn't UTF-8.
    while output.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        std::io::stdout().flush()?;
        watch(text.trim_end());
        line.clear();
    }
    Ok(child.wait()?.success())
}

/// Runs a command silently and returns what it printed; a failure is an error with its last words.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}", as_typed(command), complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is there and answers with success. Prints nothing.
pub(crate) fn answers(command: &mut Command) -> bool {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Beside what the command prints: that may be read by another program, which may stop reading before the command is done.
fn echo(command: &Command) {
    let _ = writeln!(std::io::stderr(), "$ {}", as_typed(command));
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", as_typed(command))
}

/// The command as a person would type it: the program's name without its folder, then its arguments.
fn as_typed(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(program).chain(command.get_args()).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_command_shows_every_line_and_how_it_ended() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let success = run_watched(&mut command, |line| lines.push(line.to_owned())).unwrap();
        assert!(!success);
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn cargo_is_started_as_if_it_were_typed() {
        let command = cargo(Path::new("."), &["check"]);
        let removed: Vec<String> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        // A test is started by cargo, too.
        for name in ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(removed.iter().any(|removed| removed == name), "{name} stays: {removed:?}");
        }
        for name in ["CARGO_BUILD_JOBS", "CARGO_HOME", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTFLAGS", "PATH"] {
            assert!(!is_told_by_cargo(name), "{name} is a setting");
        }
    }

    #[test]
    fn a_failed_command_tells_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no space left >&2; exit 1"]);
        let error = output(&mut command).unwrap_err().to_string();
        assert!(error.contains("no space left"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_does_not_answer() {
        assert!(answers(Command::new("sh").args(["-c", "true"])));
        assert!(!answers(&mut Command::new("no-such-program-anywhere")));
    }
}
