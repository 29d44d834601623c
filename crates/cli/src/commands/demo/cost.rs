//! What reads of a history cost: a page here and there, the whole of it as a stream, and counting it in the server.

use std::time::Duration;

use anabranch_api::v1::{AggregateEventRecordsRequest, ReadEventRecordsRequest, TimeInterval};
use anabranch_client::Client;
use anabranch_model::Interval;
use anabranch_runtime::Env;
use futures_util::TryStreamExt;

use crate::{
    failure::{Failure, Outcome},
    output::table::Table,
    times::{show_bytes, show_count, to_wire},
    traffic::Dice,
};

/// Records in a page that is measured.
pub(super) const PAGE: u32 = 100;
/// Of a round.
const PAGES: usize = 9;
/// What differs by no more than this is within what two runs of the same differ by.
const ALIKE: f64 = 0.1;

/// Where and what to read.
pub(super) struct Reads<'a> {
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) namespace: &'a str,
    pub(super) series: &'a str,
    pub(super) interval: Interval,
}

/// Everything that was measured of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    pages: Vec<Taken>,
    wholes: Vec<Taken>,
    counts: Vec<Taken>,
}

/// One read, measured.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    time: Duration,
    bytes: u64,
    records: u64,
}

/// What a history takes in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Reads<'_> {
    /// One round. The same seed reads the same pages.
    pub(super) async fn measure(&self, cost: &mut Cost, seed: u64) -> Outcome {
        let mut dice = Dice::new(seed);
        for _ in 0..PAGES {
            cost.pages.push(self.page(dice.share()).await?);
        }
        cost.wholes.push(self.whole().await?);
        cost.counts.push(self.count().await?);
        Ok(())
    }

    /// All of it, once.
    pub(super) async fn everything(&self) -> Outcome {
        self.whole().await.map(drop)
    }

    /// A page that ends at this part of the span.
    pub(super) async fn one_page(&self, part: f64) -> Outcome {
        self.page(part).await.map(drop)
    }

    async fn page(&self, part: f64) -> Outcome<Taken> {
        let length = self.interval.end.since(self.interval.start);
        let end = self.interval.start.saturating_add(length.mul_f64(0.2 + 0.8 * part));
        let mut request = self.request(Interval::new(self.interval.start, end));
        request.page_size = PAGE;
        let begun = self.env.monotonic();
        let page = self.client.read(request).await?;
        let time = self.env.monotonic().saturating_sub(begun);
        let bytes = page.response_context.iter().map(|context| context.bytes_read).sum();
        Ok(Taken { time, bytes, records: page.records.len() as u64 })
    }

    async fn whole(&self) -> Outcome<Taken> {
        let begun = self.env.monotonic();
        let mut taken = Taken::default();
        let mut pages = self.client.stream(self.request(self.interval));
        while let Some(page) = pages.try_next().await? {
            taken.records += page.records.len() as u64;
            taken.bytes += page.response_context.iter().map(|context| context.bytes_read).sum::<u64>();
        }
        taken.time = self.env.monotonic().saturating_sub(begun);
        self.found(taken)
    }

    async fn count(&self) -> Outcome<Taken> {
        let begun = self.env.monotonic();
        let mut request = AggregateEventRecordsRequest {
            namespace: self.namespace.to_owned(),
            time_series_ids: vec![self.series.to_owned()],
            time_interval: Some(span(self.interval)),
            ..AggregateEventRecordsRequest::default()
        };
        let mut taken = Taken::default();
        loop {
            let answer = self.client.aggregate(request.clone()).await?;
            taken.records += answer.groups.iter().map(|group| group.records).sum::<u64>();
            if answer.next_page_token.is_empty() {
                break;
            }
            request.page_token = answer.next_page_token;
        }
        taken.time = self.env.monotonic().saturating_sub(begun);
        self.found(taken)
    }

    fn found(&self, taken: Taken) -> Outcome<Taken> {
        match taken.records {
            0 => Err(Failure::other(format!("nothing was found of `{}`", self.series))),
            _ => Ok(taken),
        }
    }

    fn request(&self, interval: Interval) -> ReadEventRecordsRequest {
        ReadEventRecordsRequest {
            namespace: self.namespace.to_owned(),
            time_series_id: self.series.to_owned(),
            time_interval: Some(span(interval)),
            ..ReadEventRecordsRequest::default()
        }
    }
}

fn span(interval: Interval) -> TimeInterval {
    TimeInterval { start: Some(to_wire(interval.start)), end: Some(to_wire(interval.end)) }
}

fn median(taken: &[Taken]) -> Taken {
    let mut taken = taken.to_vec();
    taken.sort_by_key(|taken| taken.time);
    taken.get(taken.len() / 2).copied().unwrap_or_default()
}

impl Cost {
    pub(super) fn told(&self) -> String {
        let (page, whole) = (median(&self.pages), median(&self.wholes));
        format!(
            "a page of {PAGE}: {}, {} from the store; all {} records: {}, {}",
            milliseconds(page.time),
            show_bytes(page.bytes),
            show_count(whole.records),
            milliseconds(whole.time),
            show_bytes(whole.bytes)
        )
    }

    /// Whether the same records were found, however often.
    pub(super) fn agrees_with(&self, other: &Cost) -> bool {
        let records = |cost: &Cost| {
            cost.wholes.iter().chain(&cost.counts).map(|taken| taken.records).collect::<std::collections::BTreeSet<_>>()
        };
        records(self).len() == 1 && records(self) == records(other)
    }
}

/// Before and after, side by side: what reads take, and what lies in the store.
pub(super) fn compared(before: (&Cost, Room), after: (&Cost, Room), colors: bool) -> String {
    let mut table = Table::new(&["", "original", "pieces", "ratio", ""]).align_right(&[1, 2, 3]).indented(2);
    let mut row = |name: &str, before: f64, after: f64, show: fn(f64) -> String, words: [&'static str; 2]| {
        let ratio = after / before.max(1e-9);
        let verdict = verdict(ratio, words).to_owned();
        table.row(vec![name.to_owned(), show(before), show(after), format!("{ratio:.2}"), verdict]);
    };
    let (times, sizes) = (["faster", "slower"], ["less", "more"]);
    let time = |taken: &[Taken]| median(taken).time.as_secs_f64();
    let bytes = |taken: &[Taken]| median(taken).bytes as f64;
    let ((old, old_room), (new, new_room)) = (before, after);
    row(
        "rows in the store",
        old_room.rows as f64,
        new_room.rows as f64,
        |rows| show_count(rows as u64),
        ["fewer", "more"],
    );
    row("bytes in the store", old_room.bytes as f64, new_room.bytes as f64, |bytes| show_bytes(bytes as u64), sizes);
    row("bytes read for all of it", bytes(&old.wholes), bytes(&new.wholes), |bytes| show_bytes(bytes as u64), sizes);
    let page = format!("bytes read for a page of {PAGE}");
    row(&page, bytes(&old.pages), bytes(&new.pages), |bytes| show_bytes(bytes as u64), sizes);
    let seconds = |seconds: f64| milliseconds(Duration::from_secs_f64(seconds));
    row("time to count all of it", time(&old.counts), time(&new.counts), seconds, times);
    row("time to stream all of it", time(&old.wholes), time(&new.wholes), seconds, times);
    row(&format!("time for a page of {PAGE}"), time(&old.pages), time(&new.pages), seconds, times);
    table.take_text(colors)
}

/// In words, so that nobody has to know which way the ratio goes.
fn verdict(ratio: f64, [less, more]: [&'static str; 2]) -> &'static str {
    match ratio {
        ratio if ratio > 1.0 + ALIKE => more,
        ratio if ratio < 1.0 - ALIKE => less,
        _ => "about the same",
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(page: u64, page_bytes: u64, whole: u64, records: u64) -> Cost {
        let taken = |time, bytes| Taken { time: Duration::from_micros(time), bytes, records };
        let odd = [taken(1, 1), taken(page, page_bytes), taken(900_000, 9)];
        Cost { pages: odd.to_vec(), wholes: vec![taken(whole, 1000)], counts: vec![taken(whole / 2, 0)] }
    }

    #[test]
    fn what_got_slower_is_called_slower() {
        let last = |told: &str| -> Vec<String> {
            told.lines().skip(1).filter_map(|line| line.rsplit("  ").next()).map(str::to_owned).collect()
        };
        let (much, little) = (Room { rows: 1000, bytes: 4096 }, Room { rows: 10, bytes: 1024 });
        let told = compared((&cost(1000, 2048, 9000, 10), much), (&cost(1200, 1024, 9100, 10), little), false);
        let same = "about the same";
        assert_eq!(last(&told), ["fewer", "less", same, "less", same, same, "slower"], "{told}");
        let told = compared((&cost(1000, 10, 9000, 10), little), (&cost(500, 10, 18000, 10), much), false);
        assert_eq!(last(&told), ["more", "more", same, same, "slower", "slower", "faster"], "{told}");
    }

    #[test]
    fn sides_that_found_other_records_do_not_agree() {
        assert!(cost(1, 1, 1, 10).agrees_with(&cost(2, 2, 2, 10)));
        assert!(!cost(1, 1, 1, 10).agrees_with(&cost(1, 1, 1, 9)));
        assert!(!Cost::default().agrees_with(&Cost::default()));
    }
}
