//! The story: traffic, an old history, what reads cost; detected, planned, split, verified, promoted; what they cost then.

use std::{collections::BTreeMap, time::Duration};

use anabranch_api::v1::{
    CloseBackfillRequest, GetNamespaceRequest, ListSplitsRequest, ReadMode, SetReadModeRequest, VerifySplitRequest,
    WriteEventRecordsRequest,
};
use anabranch_model::{Interval, Timestamp};

use super::{
    cost::{Cost, Reads, Room, compared},
    narrator::Narrator,
    pipeline::Pipeline,
    stage::{ACCEPT_LIMIT, PIECE_BYTES, PROMOTE_COMPARISONS, SEAL_MARGIN, Stage, THRESHOLD_BYTES},
};
use crate::{
    args::DemoArgs,
    commands::backfill,
    failure::{Exit, Failure, Outcome},
    output::bars::bars,
    session::Session,
    times::{show_bytes, show_count, show_duration},
    traffic::{self, Dice, Zipf},
};

const IDS: usize = 200;
const EXPONENT: f64 = 1.2;
const TRAFFIC_EVENTS: u64 = 16_000;
const HISTORY_EVENTS: u64 = 24_000;
/// The history lies so long ago, and its events so far apart.
const HISTORY_AGO: Duration = Duration::from_secs(90 * 86_400);
const HISTORY_STEP: Duration = Duration::from_secs(2);
const VALUE_BYTES: usize = 300;
const BATCH: u64 = 500;
/// No step takes longer, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// The history's, and that of the traffic.
const SPLITS: usize = 2;
const LOOK: Duration = Duration::from_millis(20);
/// In which originals and pieces are measured, after one that warms both.
const ROUNDS: u64 = 7;

pub(super) struct Story<'a> {
    session: &'a Session,
    args: &'a DemoArgs,
    stage: &'a Stage,
    narrator: Narrator,
    dice: Dice,
    zipf: Zipf,
    hero: String,
    pipeline: Pipeline,
}

impl<'a> Story<'a> {
    pub(super) fn new(session: &'a Session, args: &'a DemoArgs, stage: &'a Stage, narrator: Narrator) -> Self {
        let (dice, zipf) = (Dice::new(args.seed), Zipf::new(IDS, EXPONENT));
        Story { session, args, stage, narrator, dice, zipf, hero: traffic::series(1), pipeline: Pipeline::default() }
    }

    pub(super) async fn tell(&mut self) -> Outcome {
        self.introduce()?;
        let sealed_from = self.play_traffic().await?;
        let history = self.import_history().await?;
        self.wait_until_sealed(sealed_from).await?;
        self.watch_the_split().await?;
        self.verify().await?;
        self.promote(history).await?;
        let (before, after) = self.compare(history).await?;
        if !before.agrees_with(&after) {
            return Err(Failure::other("originals and pieces answered another number of records"));
        }
        self.narrator.step("after", &after.told())?;
        self.narrator.lines("")?;
        let what = format!(
            "`{}` from {} on, original and pieces, on {}, medians of {ROUNDS} rounds:",
            self.hero, history.start, self.stage.back_end
        );
        self.narrator.lines(&what)?;
        let (original, pieces) = self.rooms(history).await?;
        let told = compared((&before, original), (&after, pieces), self.session.colors.stdout);
        self.narrator.lines(told.trim_end())?;
        self.narrator.lines(self.stage.lesson())?;
        self.tell_what_was_set_aside().await
    }

    /// In turns, so that a busy machine slows both.
    async fn compare(&self, history: Interval) -> Outcome<(Cost, Cost)> {
        let (mut before, mut after) = (Cost::default(), Cost::default());
        for round in 0..=ROUNDS {
            let warming = round == 0; // what is cold is warm from here on, on both sides
            for (mode, cost) in [(ReadMode::Off, &mut before), (ReadMode::On, &mut after)] {
                self.set_mode(mode, "to measure originals and pieces in turns").await?;
                let cost = if warming { &mut Cost::default() } else { cost };
                self.reads(history).measure(cost, self.args.seed.wrapping_add(round)).await?;
            }
        }
        Ok((before, after))
    }

    /// What the history takes in the store, as it was written and in pieces.
    async fn rooms(&self, history: Interval) -> Outcome<(Room, Room)> {
        let request = ListSplitsRequest {
            namespace: self.stage.namespace.clone(),
            time_series_id: self.hero.clone(),
            ..ListSplitsRequest::default()
        };
        let splits = self.stage.client.list_splits(request).await?.splits;
        let segments = splits.iter().flat_map(|split| &split.segments);
        let old = segments.filter(|segment| {
            let start = segment.interval.and_then(|interval| interval.start).and_then(|start| start.to_nanos().ok());
            start.is_some_and(|start| start < history.end.nanos())
        });
        let (mut original, mut pieces) = (Room::default(), Room::default());
        for segment in old {
            let (before, after) = (segment.pre_split_data.as_ref(), segment.post_split_data.as_ref());
            original.rows += before.map_or(0, |data| data.rows);
            original.bytes += before.map_or(0, |data| data.bytes);
            pieces.rows += after.map_or(0, |data| data.rows);
            pieces.bytes += after.map_or(0, |data| data.bytes);
        }
        Ok((original, pieces))
    }

    /// A split that doesn't pay isn't read: what was measured for pieces is the original then, and has to be called so.
    async fn tell_what_was_set_aside(&self) -> Outcome {
        let request = ListSplitsRequest { namespace: self.stage.namespace.clone(), ..ListSplitsRequest::default() };
        for split in self.stage.client.list_splits(request).await?.splits {
            if !split.set_aside_reason.is_empty() {
                self.narrator.lines(&format!(
                    "The split in {} was set aside, so that its reads came from the original: {}",
                    split.time_slice, split.set_aside_reason
                ))?;
            }
        }
        Ok(())
    }

    fn introduce(&self) -> Outcome {
        self.narrator.lines(&format!("Anabranch {}: how a wide partition splits itself", env!("CARGO_PKG_VERSION")))?;
        self.narrator.lines("")?;
        self.narrator.lines(&format!("  back end   {}", self.stage.back_end))?;
        self.narrator.lines(&format!("  gRPC       http://{}", self.stage.server.grpc_addr()))?;
        self.narrator.lines(&format!("  dashboard  http://{}/", self.stage.server.http_addr()))?;
        self.narrator.lines(&format!(
            "  namespace  `{}`: wide from {} on, pieces of {}, sealed after {}",
            self.stage.namespace,
            show_bytes(THRESHOLD_BYTES),
            show_bytes(PIECE_BYTES),
            show_duration(ACCEPT_LIMIT + SEAL_MARGIN)
        ))?;
        self.narrator.lines("")
    }

    /// Skewed traffic of now. Answers when its last event happened.
    async fn play_traffic(&mut self) -> Outcome<Timestamp> {
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        let mut last = self.session.now();
        for batch in 0..TRAFFIC_EVENTS / BATCH {
            last = self.session.now();
            let mut events = Vec::new();
            for number in batch * BATCH..(batch + 1) * BATCH {
                let rank = self.zipf.draw(&mut self.dice);
                *counts.entry(rank).or_default() += 1;
                events.push(traffic::event(&mut self.dice, traffic::series(rank), last, number, VALUE_BYTES));
            }
            self.write(events).await?;
        }
        let events = show_count(TRAFFIC_EVENTS);
        self.narrator.step("traffic", &format!("{events} events, written now, of {IDS} series; some are busier:"))?;
        let rows: Vec<(String, f64, &str)> = (1..=5)
            .map(|rank| {
                let share = counts.get(&rank).copied().unwrap_or_default() as f64 / TRAFFIC_EVENTS as f64;
                (traffic::series(rank), share, "")
            })
            .collect();
        self.narrator.lines(bars(&rows).trim_end())?;
        Ok(last)
    }

    /// An old history of the busiest series. While its window is open nothing there is split: the time to measure.
    async fn import_history(&mut self) -> Outcome<Interval> {
        let client = &self.stage.client;
        let start = self.session.now().saturating_sub(HISTORY_AGO);
        let length = HISTORY_STEP * u32::try_from(HISTORY_EVENTS).unwrap_or(u32::MAX);
        let start = day_that_holds(start, length);
        let history = Interval::new(start, start.saturating_add(length));
        let (name, expires) = (&self.stage.namespace, Duration::from_secs(600));
        let opened = backfill::open(client, name, history, expires, "the demo's old history").await?;
        backfill::wait_until_open(self.session, client, name, &opened).await?;
        for batch in 0..HISTORY_EVENTS / BATCH {
            let mut events = Vec::new();
            for number in batch * BATCH..(batch + 1) * BATCH {
                let time = start.saturating_add(HISTORY_STEP * u32::try_from(number).unwrap_or(u32::MAX));
                let number = TRAFFIC_EVENTS + number;
                events.push(traffic::event(&mut self.dice, self.hero.clone(), time, number, VALUE_BYTES));
            }
            self.write(events).await?;
        }
        let (events, bytes) = (show_count(HISTORY_EVENTS), show_bytes(HISTORY_EVENTS * VALUE_BYTES as u64));
        let text =
            format!("{events} old events of `{}` from {start} on, {bytes}, through a backfill window", self.hero);
        self.narrator.step("history", &text)?;
        let mut before = Cost::default();
        self.reads(history).measure(&mut before, self.args.seed).await?;
        self.narrator.step("before", &before.told())?;
        let request = CloseBackfillRequest { namespace: name.clone(), id: opened.id };
        self.look().await?;
        self.stage.client.close_backfill(request).await?;
        Ok(history)
    }

    /// Only what no write can reach any more is split; the history is, its window being closed.
    async fn wait_until_sealed(&mut self, time: Timestamp) -> Outcome {
        let sealed = time.saturating_add(ACCEPT_LIMIT + SEAL_MARGIN + Duration::from_secs(1));
        if self.session.now() < sealed {
            self.narrator.step("sealing", "the traffic of before waits until no write can reach it any more")?;
        }
        while self.session.now() < sealed {
            self.look().await?;
            self.session.env.sleep(LOOK).await;
        }
        Ok(())
    }

    /// Tells what happened to splits since the last look. Answers whether all are served.
    async fn look(&mut self) -> Outcome<bool> {
        self.pipeline.look(&self.stage.client, &self.stage.namespace, &self.narrator).await
    }

    async fn watch_the_split(&mut self) -> Outcome {
        let begun = self.session.env.monotonic();
        self.narrator.step("reading", &format!("everything of `{}`, as any client would", self.hero))?;
        self.reads(Interval::new(Timestamp::EARLIEST, self.session.now())).everything().await?;
        while !(self.look().await? && self.pipeline.count() >= SPLITS) {
            self.check_patience(begun, "not everything was split")?;
            self.session.env.sleep(LOOK).await;
        }
        Ok(())
    }

    async fn verify(&self) -> Outcome {
        let request = VerifySplitRequest { namespace: self.stage.namespace.clone(), ..VerifySplitRequest::default() };
        let begun = self.session.env.monotonic();
        let segments = loop {
            let found = self.stage.client.verify_split(request.clone()).await?.verifications;
            if let Some(different) = found.iter().find(|found| found.difference.is_some()) {
                return Err(Failure::other(format!("a split differs from its original, in {}", different.time_slice)));
            }
            if found.iter().all(|found| found.skipped_reason.is_empty()) {
                break found.iter().map(|found| found.segments_equal).sum::<u32>();
            }
            self.check_patience(begun, "the splits can't be compared")?;
            self.session.env.sleep(LOOK).await;
        };
        let text = format!("{segments} segments are the same as their originals, row by row");
        self.narrator.step("verified", &text)
    }

    async fn promote(&mut self, history: Interval) -> Outcome {
        let begun = self.session.env.monotonic();
        let name = self.stage.namespace.clone();
        let text =
            format!("reads are answered from originals and compared with pieces; {PROMOTE_COMPARISONS} must agree");
        self.narrator.step("comparing", &text)?;
        let change = loop {
            let part = self.dice.share();
            self.reads(history).one_page(part).await?;
            let namespace = self.stage.client.get_namespace(GetNamespaceRequest { name: name.clone() }).await?;
            let splits = namespace.splits.unwrap_or_default();
            if splits.read_mode() == ReadMode::Exec {
                break splits.history.into_iter().next().unwrap_or_default();
            }
            self.check_patience(begun, "the namespace wasn't promoted")?;
            self.session.env.sleep(LOOK).await;
        };
        let text = format!("COMPARISON to EXEC, reads are answered from pieces now: {}", change.reason);
        self.narrator.step("promoted", &text)?;
        self.narrator
            .more("now to OFF and to ON and back, as an operator could: originals and pieces are measured in turns")
    }

    async fn set_mode(&self, mode: ReadMode, reason: &str) -> Outcome {
        let request = SetReadModeRequest {
            namespace: self.stage.namespace.clone(),
            read_mode: mode.into(),
            reason: reason.to_owned(),
            by: "demo".to_owned(),
        };
        self.stage.client.set_read_mode(request).await?;
        Ok(())
    }

    /// Some traffic until somebody ends it.
    pub(super) async fn go_on(&mut self) -> Outcome {
        self.narrator.lines("")?;
        self.narrator.lines(&format!(
            "The server stays, with some traffic: look at http://{}/, or type `anabranch --server http://{} top`. Ctrl-C ends it.",
            self.stage.server.http_addr(),
            self.stage.server.grpc_addr()
        ))?;
        let mut number = TRAFFIC_EVENTS + HISTORY_EVENTS;
        loop {
            let now = self.session.now();
            let rank = self.zipf.draw(&mut self.dice);
            let event = traffic::event(&mut self.dice, traffic::series(rank), now, number, VALUE_BYTES);
            self.write(vec![event]).await?;
            let part = self.dice.share();
            let recent = Interval::new(now.saturating_sub(Duration::from_secs(3600)), now);
            let series = traffic::series(self.zipf.draw(&mut self.dice));
            Reads { series: &series, ..self.reads(recent) }.one_page(part).await?;
            number += 1;
            self.session.env.sleep(5 * LOOK).await;
        }
    }

    fn reads(&self, interval: Interval) -> Reads<'_> {
        Reads {
            client: &self.stage.client,
            env: &self.session.env,
            namespace: &self.stage.namespace,
            series: &self.hero,
            interval,
        }
    }

    async fn write(&self, events: Vec<anabranch_api::v1::Event>) -> Outcome {
        let request = WriteEventRecordsRequest { namespace: self.stage.namespace.clone(), events };
        self.stage.client.write_sync(request).await?;
        Ok(())
    }

    fn check_patience(&self, begun: Duration, what: &str) -> Outcome {
        if self.session.env.monotonic().saturating_sub(begun) < PATIENCE {
            return Ok(());
        }
        Err(Failure::new(Exit::Unavailable, format!("{what} within {}", show_duration(PATIENCE))))
    }
}

/// The same time, or that day's beginning where the span would reach into the next day: a partition holds one day.
fn day_that_holds(start: Timestamp, length: Duration) -> Timestamp {
    let day = Duration::from_secs(86_400).as_nanos() as i64;
    let into = start.nanos().rem_euclid(day);
    match into + length.as_nanos() as i64 > day {
        true => Timestamp::from_nanos(start.nanos() - into),
        false => start,
    }
}
