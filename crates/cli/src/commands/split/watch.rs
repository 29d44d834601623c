//! `anabranch split list --watch`: the splits on their way, with bytes, rate and time left, until none is any more.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stdout},
    time::Duration,
};

use anabranch_api::v1::{GetSplitRequest, Split, SplitProgress, split::State};
use anabranch_client::{Client, ErrorKind};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::list::{fetch, remark, sizes};
use crate::{
    args::ListArgs,
    failure::Outcome,
    output::{Format, Out, text::escaped},
    session::Session,
    times::{show_bytes, show_duration, show_elapsed},
};

/// States in which something is still to be done.
const ON_THE_WAY: [State; 7] = [
    State::Detected,
    State::Planning,
    State::Planned,
    State::Splitting,
    State::Verifying,
    State::Failed,
    State::Invalidated,
];

/// A partition among those of the namespace: slice, series, time bucket, event bucket.
type Place = (String, String, u32, u32);

pub(crate) async fn run(session: &Session, client: &Client, args: &ListArgs) -> Outcome {
    let terminal = session.format == Format::Table && stdout().is_terminal();
    let mut watch = Watch { bars: terminal.then(Bars::new), format: session.format, known: BTreeMap::new() };
    loop {
        let (running, _) = fetch(client, &args.which, &ON_THE_WAY, args.limit as usize).await?;
        watch.show_ended(client, &args.which.namespace, &running).await?;
        if running.is_empty() {
            return watch.finish();
        }
        for split in &running {
            watch.show(split, session.env.monotonic())?;
        }
        session.env.sleep(args.interval).await;
    }
}

struct Watch {
    bars: Option<Bars>,
    format: Format,
    known: BTreeMap<Place, Pace>,
}

/// How one state of one split goes on.
struct Pace {
    state: State,
    /// When the watch first saw this state, and how much was done by then.
    first: (Duration, u64),
    /// When it last saw that more was done, and how much.
    last: (Duration, u64),
    last_line: String,
}

impl Pace {
    fn new(split: &Split, now: Duration) -> Self {
        let seen = (now, done(split));
        Pace { state: split.state(), first: seen, last: seen, last_line: String::new() }
    }

    fn see(&mut self, split: &Split, now: Duration) {
        if self.state != split.state() {
            *self = Pace::new(split, now);
        } else if done(split) != self.last.1 {
            self.last = (now, done(split));
        }
    }

    /// Bytes per second in this state, once that can be told.
    fn rate(&self) -> Option<u64> {
        let seconds = self.last.0.saturating_sub(self.first.0).as_secs_f64();
        let bytes = self.last.1.saturating_sub(self.first.1);
        (seconds > 0.0).then(|| (bytes as f64 / seconds) as u64).filter(|rate| *rate > 0)
    }
}

fn done(split: &Split) -> u64 {
    split.progress.map_or(0, |progress| progress.bytes_done)
}

/// How long until the segment is served, if it goes on like this: what is verified is read once more.
fn time_left(state: State, progress: &SplitProgress, rate: u64) -> Option<Duration> {
    let total = progress.bytes_total?;
    let left = total.saturating_sub(progress.bytes_done);
    let left = if state == State::Splitting { left + total } else { left };
    Some(Duration::from_secs(left.div_ceil(rate)))
}

impl Watch {
    fn show(&mut self, split: &Split, now: Duration) -> Outcome {
        if self.format != Format::Table {
            let mut out = Out::new();
            out.json_line(split)?;
            return Ok(out.flush()?);
        }
        let pace = self.known.entry(place(split)).or_insert_with(|| Pace::new(split, now));
        pace.see(split, now);
        let speed = speed(split, pace);
        match &mut self.bars {
            Some(bars) => bars.show(split, &speed),
            None => {
                let line = line(split, &speed);
                if line != pace.last_line {
                    let mut out = Out::new();
                    out.line(&line)?;
                    out.flush()?;
                    pace.last_line = line;
                }
            }
        }
        Ok(())
    }

    /// Says what became of those that aren't on their way any more.
    async fn show_ended(&mut self, client: &Client, namespace: &str, running: &[Split]) -> Outcome {
        let running: Vec<Place> = running.iter().map(place).collect();
        let ended: Vec<Place> = self.known.keys().filter(|known| !running.contains(known)).cloned().collect();
        for at in ended {
            self.known.remove(&at);
            self.bars.iter_mut().for_each(|bars| bars.end(&at));
            let request = GetSplitRequest {
                namespace: namespace.to_owned(),
                time_slice: at.0,
                time_series_id: at.1,
                time_bucket: at.2,
                event_bucket: at.3,
            };
            let split = match client.get_split(request).await {
                Ok(split) => split,
                Err(error) if error.kind() == ErrorKind::NotFound => continue, // gone with its slice
                Err(error) => return Err(error.into()),
            };
            self.say(&ending(&split))?;
        }
        Ok(())
    }

    fn say(&self, line: &str) -> Outcome {
        let print = || {
            let mut out = Out::new();
            out.line(line)?;
            out.flush()
        };
        let printed = match &self.bars {
            Some(bars) => bars.all.suspend(print),
            None => print(),
        };
        Ok(printed?)
    }

    fn finish(&self) -> Outcome {
        if self.format == Format::Table { self.say("no split is on its way") } else { Ok(()) }
    }
}

fn place(split: &Split) -> Place {
    (split.time_slice.clone(), split.time_series_id.clone(), split.time_bucket, split.event_bucket)
}

fn name(split: &Split) -> String {
    let (series, slice) = (escaped(&split.time_series_id), escaped(&split.time_slice));
    format!("{series} {slice} {}.{}", split.time_bucket, split.event_bucket)
}

/// `12 MiB/s, 3m20s left`
fn speed(split: &Split, pace: &Pace) -> String {
    let (Some(progress), Some(rate)) = (&split.progress, pace.rate()) else { return String::new() };
    let left = time_left(split.state(), progress, rate);
    let left = left.map(|left| format!(", {} left", show_duration(left))).unwrap_or_default();
    format!("{}/s{left}", show_bytes(rate))
}

/// One split on its way, where there is no terminal.
fn line(split: &Split, speed: &str) -> String {
    let parts = [split.state().as_str_name().to_owned(), name(split), remark(split), speed.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}

/// What became of one.
fn ending(split: &Split) -> String {
    let state = split.state().as_str_name();
    let Some(segment) = split.segments.last().filter(|_| split.state() == State::Completed) else {
        return line(split, "");
    };
    let (before, after, pieces) = sizes(std::slice::from_ref(segment));
    let took = segment.time_taken.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
    format!(
        "{state}  {}  {} into {pieces} pieces of {} in {}",
        name(split),
        show_bytes(before),
        show_bytes(after),
        show_elapsed(took)
    )
}

/// A bar for each split on its way.
struct Bars {
    all: MultiProgress,
    bars: BTreeMap<Place, ProgressBar>,
}

impl Bars {
    fn new() -> Self {
        Bars { all: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()), bars: BTreeMap::new() }
    }

    fn show(&mut self, split: &Split, speed: &str) {
        let all = &self.all;
        let bar = self.bars.entry(place(split)).or_insert_with(|| all.add(ProgressBar::new(0)));
        let progress = split.progress.unwrap_or_default();
        bar.set_length(progress.bytes_total.unwrap_or_default());
        bar.set_position(progress.bytes_done);
        let template = match progress.bytes_total {
            Some(_) => "{prefix} {bar:30} {binary_bytes}/{binary_total_bytes}  {msg}",
            None => "{prefix} {spinner} {binary_bytes}  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(format!("{:<10} {}", split.state().as_str_name(), name(split)));
        bar.set_message(if progress.begin_time.is_some() { speed.to_owned() } else { remark(split) });
        bar.tick();
    }

    fn end(&mut self, at: &Place) {
        if let Some(bar) = self.bars.remove(at) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_counts_what_is_still_to_be_read() {
        let progress = SplitProgress { bytes_done: 250, bytes_total: Some(1000), begin_time: None };
        assert_eq!(time_left(State::Splitting, &progress, 100), Some(Duration::from_secs(18)));
        assert_eq!(time_left(State::Verifying, &progress, 100), Some(Duration::from_secs(8)));
        assert_eq!(time_left(State::Planning, &SplitProgress { bytes_total: None, ..progress }, 100), None);
    }

    #[test]
    fn a_rate_needs_two_looks_at_the_same_state() {
        let split = Split {
            state: State::Splitting.into(),
            progress: Some(SplitProgress { bytes_done: 1 << 20, bytes_total: Some(8 << 20), begin_time: None }),
            ..Split::default()
        };
        let mut pace = Pace::new(&split, Duration::from_secs(10));
        assert_eq!(speed(&split, &pace), "");
        let progress = Some(SplitProgress { bytes_done: 5 << 20, ..split.progress.unwrap() });
        let later = Split { progress, time_series_id: "s".to_owned(), time_slice: "data_20260328".to_owned(), ..split };
        pace.see(&later, Duration::from_secs(12));
        // Between two checkpoints nothing is known to have changed.
        pace.see(&later, Duration::from_secs(14));
        let speed = speed(&later, &pace);
        assert_eq!(speed, "2 MiB/s, 6s left");
        assert_eq!(line(&later, &speed), "SPLITTING  s data_20260328 0.0  62 % of 8 MiB  2 MiB/s, 6s left");
    }
}
