//! Tells the story on the terminal, each line with the seconds since the beginning.

use std::time::Duration;

use anabranch_runtime::Env;
use clap::builder::styling::{AnsiColor, Effects, Style};

use crate::{
    failure::Outcome,
    output::{Out, paint},
    session::Session,
};

const STEP: Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);

pub(super) struct Narrator {
    env: Env,
    begun: Duration,
    colors: bool,
}

impl Narrator {
    pub(super) fn new(session: &Session) -> Self {
        Narrator { env: session.env.clone(), begun: session.env.monotonic(), colors: session.colors.stdout }
    }

    /// A step of the story: `12.3 s  split      …`.
    pub(super) fn step(&self, step: &str, text: &str) -> Outcome {
        let seconds = self.env.monotonic().saturating_sub(self.begun).as_secs_f64();
        let step = paint(&format!("{step:<10}"), STEP, self.colors);
        self.lines(&format!("{seconds:>5.1} s  {step} {text}"))
    }

    /// More about the last step.
    pub(super) fn more(&self, text: &str) -> Outcome {
        self.lines(&format!("                    {text}"))
    }

    pub(super) fn lines(&self, text: &str) -> Outcome {
        let mut out = Out::new();
        out.line(text)?;
        Ok(out.flush()?) // at once: it is told while it happens
    }
}
