//! What is sent and when, decided by the seed alone.

use std::time::Duration;

use anabranch_api::v1::{Event, ReadEventRecordsRequest, WriteEventRecordsRequest};
use anabranch_model::Timestamp;

use crate::{
    args::LoadArgs,
    times::to_wire,
    traffic::{self, Dice, Zipf},
};

#[derive(Debug, PartialEq)]
pub(super) enum Call {
    Write(Write),
    Read(ReadEventRecordsRequest),
}

/// Events that have no time yet.
#[derive(Debug, PartialEq)]
pub(super) struct Write {
    namespace: String,
    events: Vec<Event>,
}

impl Write {
    pub(super) fn at(self, now: Timestamp) -> WriteEventRecordsRequest {
        let mut events = self.events;
        events.iter_mut().for_each(|event| event.event_time = Some(to_wire(now)));
        WriteEventRecordsRequest { namespace: self.namespace, events }
    }
}

pub(super) struct Schedule {
    args: LoadArgs,
    zipf: Zipf,
    /// Of their own, so that the rate of the one doesn't change what the other sends.
    write_dice: Dice,
    read_dice: Dice,
    writes: u64,
    reads: u64,
}

impl Schedule {
    pub(super) fn new(args: &LoadArgs) -> Self {
        Schedule {
            zipf: Zipf::new(args.ids as usize, args.zipf),
            write_dice: Dice::new(args.seed),
            read_dice: Dice::new(!args.seed),
            args: args.clone(),
            writes: 0,
            reads: 0,
        }
    }

    fn write(&mut self) -> Write {
        let (batch, mean) = (u64::from(self.args.batch), self.args.value_bytes);
        let first = self.writes * batch;
        let events = (first..first + batch).map(|number| {
            let series = traffic::series(self.zipf.draw(&mut self.write_dice));
            let bytes = mean / 2 + self.write_dice.below(mean + 1);
            // With the seed in the number, runs with other seeds write other events at the same time.
            let number = (self.args.seed << 40) ^ number;
            traffic::event(&mut self.write_dice, series, Timestamp::EARLIEST, number, bytes.max(1) as usize)
        });
        Write { namespace: self.args.namespace.clone(), events: events.collect() }
    }

    fn read(&mut self) -> ReadEventRecordsRequest {
        let sizes = &self.args.page_size;
        let page_size = sizes[self.read_dice.below(sizes.len() as u64) as usize];
        ReadEventRecordsRequest {
            namespace: self.args.namespace.clone(),
            time_series_id: traffic::series(self.zipf.draw(&mut self.read_dice)),
            page_size,
            ..ReadEventRecordsRequest::default()
        }
    }
}

/// When the request of this number is due, at so many per second.
fn due(number: u64, per_second: f64) -> Duration {
    if per_second > 0.0 { Duration::from_secs_f64(number as f64 / per_second) } else { Duration::MAX }
}

impl Iterator for Schedule {
    type Item = (Duration, Call);

    /// In the order of their time, until it is over.
    fn next(&mut self) -> Option<(Duration, Call)> {
        let write = due(self.writes, f64::from(self.args.writes_per_second) / f64::from(self.args.batch));
        let read = due(self.reads, f64::from(self.args.reads_per_second));
        if write.min(read) >= self.args.duration {
            return None;
        }
        if write <= read {
            let call = Call::Write(self.write());
            self.writes += 1;
            return Some((write, call));
        }
        let call = Call::Read(self.read());
        self.reads += 1;
        Some((read, call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(seed: u64, reads_per_second: u32) -> LoadArgs {
        LoadArgs {
            namespace: "plays".to_owned(),
            ids: 50,
            zipf: 1.1,
            writes_per_second: 100,
            batch: 10,
            value_bytes: 40,
            reads_per_second,
            page_size: vec![10, 20],
            duration: Duration::from_secs(2),
            concurrency: 4,
            seed,
        }
    }

    #[test]
    fn the_seed_decides_what_is_sent_and_the_rates_how_much() {
        let calls = |seed, reads| Schedule::new(&args(seed, reads)).collect::<Vec<_>>();
        let (first, again, other) = (calls(1, 5), calls(1, 5), calls(2, 5));
        assert_eq!(first, again);
        assert_ne!(first, other);
        let is_write = |call: &&(Duration, Call)| matches!(call.1, Call::Write(_));
        assert_eq!((first.iter().filter(is_write).count(), first.len()), (20, 30));
        assert!(first.is_sorted_by_key(|(due, _)| *due));
        // More reads don't change the writes.
        let many = calls(1, 50);
        assert!(first.iter().filter(is_write).eq(many.iter().filter(is_write)));
        assert!(calls(1, 0).iter().all(|call| is_write(&call)));
    }
}
