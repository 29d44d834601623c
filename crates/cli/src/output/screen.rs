//! The whole terminal, for a command that draws again and again: every picture fits it, a key ends it, and it is given back as it was.

use std::{
    io::{self, IsTerminal, Read as _, Write as _, stdin, stdout},
    time::Duration,
};

use anabranch_runtime::Env;
use rustix::termios::{
    self, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    failure::{Failure, Outcome},
    interrupt::Signals,
};

/// A screen of its own, without a cursor, on which long lines are cut off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// How often keys are looked for.
const KEY_INTERVAL: Duration = Duration::from_millis(50);
/// Lines where the terminal doesn't say how many it has.
const USUAL_ROWS: usize = 24;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To end it.
    Quit,
    /// To see it again: the terminal has another size.
    Redraw,
}

/// The terminal, until this is dropped. Where there is none, pictures follow each other.
pub(crate) struct Screen {
    is_terminal: bool,
    /// How the keyboard was set, where there is one.
    before: Option<Termios>,
    signals: Signals,
    resized: Signal,
}

impl Screen {
    pub(crate) fn open() -> Outcome<Screen> {
        let failed = |error: io::Error| Failure::other(format!("can't use the terminal: {error}"));
        let mut screen = Screen {
            is_terminal: stdout().is_terminal(),
            before: None,
            signals: Signals::listen()?,
            resized: signal(SignalKind::window_change()).map_err(failed)?,
        };
        if screen.is_terminal && stdin().is_terminal() {
            let before = tcgetattr(stdin()).map_err(|error| failed(error.into()))?;
            let mut raw = before.clone();
            // Keys come one by one and unseen. Ctrl-C stays a signal; Ctrl-Z would leave the terminal as it is now.
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(stdin(), OptionalActions::Now, &raw).map_err(|error| failed(error.into()))?;
            screen.before = Some(before);
        }
        if screen.is_terminal {
            write(ENTER)?;
        }
        Ok(screen)
    }

    /// Whether somebody watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Shows a picture, as much of it as there is room for.
    pub(crate) fn draw(&self, picture: &str) -> Outcome {
        if !self.is_terminal {
            return Ok(write(picture)?);
        }
        let rows = tcgetwinsize(stdout()).map_or(USUAL_ROWS, |size: termios::Winsize| usize::from(size.ws_row).max(1));
        Ok(write(&fitted(picture, rows))?)
    }

    /// Waits for somebody to want something.
    pub(crate) async fn wish(&mut self, env: &Env) -> Wish {
        let has_keys = self.before.is_some();
        let keys = async {
            while !(has_keys && quit_was_pressed()) {
                env.sleep(KEY_INTERVAL).await;
            }
        };
        tokio::select! {
            _ = self.signals.next() => Wish::Quit,
            _ = self.resized.recv() => Wish::Redraw,
            () = keys => Wish::Quit,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell when it fails.
        if self.is_terminal {
            let _ = write(LEAVE);
        }
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Whether `q` or the end of input was among the keys; never waits.
fn quit_was_pressed() -> bool {
    let mut keys = [0; 64];
    let count = stdin().read(&mut keys).unwrap_or(0);
    keys[..count].iter().any(|key| matches!(key, b'q' | b'Q' | 0x04))
}

/// Lines of a picture for a terminal with so many rows, each over what was there before. What doesn't fit is said.
fn fitted(picture: &str, rows: usize) -> String {
    let lines: Vec<&str> = picture.lines().collect();
    let hidden = lines.len().saturating_sub(rows);
    let mut shown: Vec<String> = lines.iter().take(rows).map(|line| (*line).to_owned()).collect();
    if hidden > 0
        && let Some(last) = shown.last_mut()
    {
        *last = format!("… {} lines more: make the window higher", hidden + 1);
    }
    format!("\x1b[H{}\x1b[K\x1b[J", shown.join("\x1b[K\r\n"))
}

#[cfg(test)]
mod tests {
    use super::fitted;

    #[test]
    fn a_picture_never_has_more_lines_than_the_terminal() {
        assert_eq!(fitted("a\nb\n", 5), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(fitted("a\nb\n", 2), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(fitted("a\nb\nc\nd", 2), "\x1b[Ha\x1b[K\r\n… 3 lines more: make the window higher\x1b[K\x1b[J");
        assert_eq!(fitted("a\nb", 1), "\x1b[H… 2 lines more: make the window higher\x1b[K\x1b[J");
    }
}
