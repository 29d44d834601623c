//! What reads of a history cost: a page here and there, and the whole of it.

use std::time::Duration;

use anabranch_api::v1::{ReadEventRecordsRequest, TimeInterval};
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
const PAGES: usize = 41;
const WHOLES: usize = 5;
/// What differs by no more than this is within what two runs of the same differ by.
const ALIKE: f64 = 0.05;

/// Where and what to read.
pub(super) struct Reads<'a> {
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) namespace: &'a str,
    pub(super) series: &'a str,
    pub(super) interval: Interval,
}

/// Medians.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    page: Duration,
    page_bytes: u64,
    whole: Duration,
    whole_bytes: u64,
    pub(super) records: u64,
}

/// One read, measured.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    time: Duration,
    bytes: u64,
    records: u64,
}

impl Reads<'_> {
    /// The same reads every time: the seed says where the pages are.
    pub(super) async fn measure(&self, seed: u64) -> Outcome<Cost> {
        self.whole().await?; // what is cold is warm from here on, before as well as after
        let mut dice = Dice::new(seed);
        let mut pages = Vec::new();
        for _ in 0..PAGES {
            pages.push(self.page(dice.share()).await?);
        }
        let mut wholes = Vec::new();
        for _ in 0..WHOLES {
            wholes.push(self.whole().await?);
        }
        let (page, whole) = (median(pages), median(wholes));
        Ok(Cost {
            page: page.time,
            page_bytes: page.bytes,
            whole: whole.time,
            whole_bytes: whole.bytes,
            records: whole.records,
        })
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
        match taken.records {
            0 => Err(Failure::other(format!("nothing was found of `{}`", self.series))),
            _ => Ok(taken),
        }
    }

    fn request(&self, interval: Interval) -> ReadEventRecordsRequest {
        ReadEventRecordsRequest {
            namespace: self.namespace.to_owned(),
            time_series_id: self.series.to_owned(),
            time_interval: Some(TimeInterval {
                start: Some(to_wire(interval.start)),
                end: Some(to_wire(interval.end)),
            }),
            ..ReadEventRecordsRequest::default()
        }
    }
}

fn median(mut taken: Vec<Taken>) -> Taken {
    taken.sort_by_key(|taken| taken.time);
    taken[taken.len() / 2]
}

impl Cost {
    pub(super) fn told(&self) -> String {
        format!(
            "a page of {PAGE}: {}, {} from the store; all {} records: {}, {}",
            milliseconds(self.page),
            show_bytes(self.page_bytes),
            show_count(self.records),
            milliseconds(self.whole),
            show_bytes(self.whole_bytes)
        )
    }
}

/// Before and after, side by side.
pub(super) fn compared(before: &Cost, after: &Cost, colors: bool) -> String {
    let mut table = Table::new(&["read", "original", "pieces", "ratio", ""]).align_right(&[1, 2, 3]).indented(2);
    let mut row = |name: String, before: String, after: String, ratio: f64, words: [&'static str; 2]| {
        table.row(vec![name, before, after, format!("{ratio:.2}"), verdict(ratio, words).to_owned()]);
    };
    let (times, sizes) = (["faster", "slower"], ["less", "more"]);
    let time = |before: Duration, after: Duration| after.as_secs_f64() / before.as_secs_f64().max(1e-9);
    let size = |before: u64, after: u64| after as f64 / before.max(1) as f64;
    row(
        format!("a page of {PAGE}, time"),
        milliseconds(before.page),
        milliseconds(after.page),
        time(before.page, after.page),
        times,
    );
    row(
        format!("a page of {PAGE}, bytes from the store"),
        show_bytes(before.page_bytes),
        show_bytes(after.page_bytes),
        size(before.page_bytes, after.page_bytes),
        sizes,
    );
    row(
        "the whole history, time".to_owned(),
        milliseconds(before.whole),
        milliseconds(after.whole),
        time(before.whole, after.whole),
        times,
    );
    row(
        "the whole history, bytes from the store".to_owned(),
        show_bytes(before.whole_bytes),
        show_bytes(after.whole_bytes),
        size(before.whole_bytes, after.whole_bytes),
        sizes,
    );
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

    #[test]
    fn what_got_slower_is_called_slower() {
        let cost = |page, page_bytes, whole, whole_bytes| Cost {
            page: Duration::from_micros(page),
            page_bytes,
            whole: Duration::from_micros(whole),
            whole_bytes,
            records: 10,
        };
        let told = compared(&cost(1000, 2048, 9000, 10), &cost(1200, 1024, 9100, 20), false);
        let last: Vec<&str> = told.lines().skip(1).filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(last, ["slower", "less", "about the same", "more"], "{told}");
        let told = compared(&cost(1000, 10, 9000, 10), &cost(500, 10, 18000, 10), false);
        let last: Vec<&str> = told.lines().skip(1).filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(last, ["faster", "about the same", "slower", "about the same"], "{told}");
    }
}
