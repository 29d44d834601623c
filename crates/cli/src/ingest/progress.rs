//! A progress bar on a terminal, and nothing anywhere else.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::times::show_count;

/// How far a file has been worked through.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// `bytes` is the size of the file, where it is known.
    pub(crate) fn new(what: &'static str, bytes: Option<u64>) -> Self {
        let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(bytes, target);
        let template = match bytes {
            Some(_) => "{prefix} {bar:30} {binary_bytes}/{binary_total_bytes}  {msg}  {elapsed}, {eta} to go",
            None => "{prefix} {spinner} {binary_bytes}  {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(what);
        Progress { bar }
    }

    pub(crate) fn set(&self, events: u64, bytes_read: u64) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(bytes_read);
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        let rate = (events as f64 / seconds) as u64;
        self.bar.set_message(format!("{} events, {}/s", show_count(events), show_count(rate)));
    }

    /// Leaves no trace on the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
