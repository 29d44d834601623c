//! What commands print: to stdout what was asked for, to stderr what is said about it.

pub(crate) mod bars;
pub(crate) mod screen;
pub(crate) mod table;
pub(crate) mod text;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::builder::styling::{AnsiColor, Effects, Style};
use serde::Serialize;

use crate::{args::ColorChoice, failure::Failure};

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
}

/// Which colours to use, decided once for each of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colors {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

impl Colors {
    /// On a terminal, unless the user or `NO_COLOR` says otherwise.
    pub(crate) fn decide(choice: ColorChoice) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let decide = |terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !unwanted,
        };
        Colors { stdout: decide(io::stdout().is_terminal()), stderr: decide(io::stderr().is_terminal()) }
    }
}

const ERROR: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
const HINT: Style = AnsiColor::Cyan.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// Text in a style, or plain.
pub(crate) fn paint(text: &str, style: Style, colors: bool) -> String {
    if colors { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Standard output: buffered, and with an error where `println!` would panic.
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Out { stdout: BufWriter::new(io::stdout()) }
    }

    /// One line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        self.stdout.write_all(line.as_ref().as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    /// Text as it is.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes())
    }

    /// A message as a JSON document over several lines.
    pub(crate) fn json(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.line(serde_json::to_string_pretty(message)?)
    }

    /// A message as JSON in one line.
    pub(crate) fn json_line(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.line(serde_json::to_string(message)?)
    }

    /// Everything is with the reader, or it is known why not.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Something worth knowing that is no failure, for stderr.
pub(crate) fn note(colors: Colors, text: &str) {
    eprintln!("{} {text}", paint("note:", NOTE, colors.stderr));
}

/// What went wrong and what to do, for stderr.
pub(crate) fn show_failure(failure: &Failure, colors: Colors) {
    if failure.is_reader_gone() {
        return;
    }
    eprintln!("{} {}", paint("error:", ERROR, colors.stderr), text::printable(&failure.message));
    for detail in &failure.details {
        eprintln!("  - {}", text::printable(detail));
    }
    for hint in &failure.hints {
        eprintln!("{} {}", paint("hint:", HINT, colors.stderr), text::printable(hint));
    }
}
