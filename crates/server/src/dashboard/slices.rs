//! The slices of a namespace on an axis of time: past, current, made ahead. Time without slices is drawn short, with its length.

use std::time::Duration;

use anabranch_api::v1::{Namespace, Slice, slice};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{layout, show};

const LEAST_WIDTH: f64 = 14.0;
const MOST_WIDTH: f64 = 120.0;
/// Where there are many: as wide as a tick.
const MANY_WIDTH: f64 = 72.0;
const GAP: f64 = 56.0;

/// What a slice is to the present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Past,
    Current,
    Ahead,
    Closed,
}

impl When {
    fn of(slice: &Slice, now: Timestamp) -> When {
        let nanos = |time: Option<&anabranch_api::wkt::Timestamp>| time.and_then(|time| time.to_nanos().ok());
        match () {
            () if slice.state() != slice::State::Open => When::Closed,
            () if nanos(slice.start.as_ref()).is_some_and(|start| start > now.nanos()) => When::Ahead,
            () if nanos(slice.end.as_ref()).is_some_and(|end| end <= now.nanos()) => When::Past,
            () => When::Current,
        }
    }

    fn name(self) -> &'static str {
        match self {
            When::Past => "past",
            When::Current => "current",
            When::Ahead => "ahead",
            When::Closed => "closed",
        }
    }
}

/// A slice, or a time without one, on the axis.
enum Mark<'a> {
    Slice { slice: &'a Slice, when: When, x: f64, width: f64 },
    Gap { x: f64, length: Duration },
}

pub(super) fn section(namespace: &Namespace, now: Timestamp) -> Markup {
    let slices = &namespace.slices;
    html! {
        section aria-labelledby="slices" {
            h2 #slices { "Slices" }
            p { "Spans of time, a table each, with the partition settings that they were made with." }
            @if slices.is_empty() { p.more { "There is none yet." } } @else {
                (axis(slices, now))
                p.legend {
                    span.key.past { "past" } " " span.key.current { "current" } " "
                    span.key.ahead { "made ahead" } " " span.key.closed { "past retention" } " "
                    span.key.now { "now" }
                }
                details #slice-details {
                    summary { "All " (slices.len()) " slices and their settings" }
                    (table(slices, now))
                }
            }
        }
    }
}

fn nanos(time: Option<&anabranch_api::wkt::Timestamp>) -> i64 {
    time.and_then(|time| time.to_nanos().ok()).unwrap_or_default()
}

fn length(slice: &Slice) -> Duration {
    Duration::from_nanos((nanos(slice.end.as_ref()) - nanos(slice.start.as_ref())).max(1) as u64)
}

fn marks(slices: &[Slice], now: Timestamp) -> (Vec<Mark<'_>>, f64) {
    let longest = slices.iter().map(length).max().unwrap_or_default();
    let (mut marks, mut x, mut end) = (Vec::new(), 0.0, None);
    for slice in slices {
        let start = nanos(slice.start.as_ref());
        if let Some(end) = end.filter(|end| *end < start) {
            marks.push(Mark::Gap { x, length: Duration::from_nanos((start - end) as u64) });
            x += GAP;
        }
        let width = (length(slice).div_duration_f64(longest) * MOST_WIDTH).max(LEAST_WIDTH);
        // Many slices are drawn narrower, so that a screen shows them.
        let width = if slices.len() > 12 { width.min(MANY_WIDTH) } else { width };
        marks.push(Mark::Slice { slice, when: When::of(slice, now), x, width });
        x += width;
        end = Some(nanos(slice.end.as_ref()));
    }
    (marks, x)
}

fn axis(slices: &[Slice], now: Timestamp) -> Markup {
    let (marks, width) = marks(slices, now);
    let current = slices.iter().filter(|slice| When::of(slice, now) == When::Current).count();
    let about = format!("{} slices on an axis of time, {current} of them current", slices.len());
    html! {
        div.scroll tabindex="0" role="region" aria-label="Slices over time" #slice-axis {
            svg.axis viewBox=(format!("0 0 {width:.0} 66")) width=(format!("{width:.0}")) height="66" role="img" aria-label=(about) {
                @for mark in &marks { (drawn(mark, now)) }
            }
        }
    }
}

fn drawn(mark: &Mark<'_>, now: Timestamp) -> Markup {
    match mark {
        Mark::Gap { x, length } => html! {
            line.gap x1=(format!("{:.1}", x + 6.0)) y1="26" x2=(format!("{:.1}", x + GAP - 6.0)) y2="26" {}
            text.tick x=(format!("{:.1}", x + GAP / 2.0)) y="18" text-anchor="middle" { (show::length(*length)) }
        },
        Mark::Slice { slice, when, x, width } => html! {
            rect class=(format!("slice {}", when.name())) x=(format!("{:.1}", x + 1.0)) y="8"
                width=(format!("{:.1}", width - 2.0)) height="36" rx="3" {
                title { (told(slice, *when)) }
            }
            @if *when == When::Current { (needle(slice, *x, *width, now)) }
            @if *width >= MANY_WIDTH { text.tick x=(format!("{:.1}", x + 2.0)) y="60" { (show::tick(slice.start.as_ref(), length(slice))) } }
        },
    }
}

/// Where the present is.
fn needle(slice: &Slice, x: f64, width: f64, now: Timestamp) -> Markup {
    let (start, end) = (nanos(slice.start.as_ref()), nanos(slice.end.as_ref()));
    let at = x + width * (now.nanos() - start) as f64 / (end - start).max(1) as f64;
    let at = format!("{at:.1}");
    html! { @for part in ["now-ground", "now"] { line class=(part) x1=(at) y1="2" x2=(at) y2="50" { title { "now" } } } }
}

fn told(slice: &Slice, when: When) -> String {
    format!(
        "{} ({}): {} to {}, time buckets of {}, {} event buckets",
        slice.name,
        when.name(),
        show::second(slice.start.as_ref()),
        show::second(slice.end.as_ref()),
        show::length(Duration::from_secs(slice.seconds_per_bucket.into())),
        slice.event_buckets
    )
}

fn table(slices: &[Slice], now: Timestamp) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="All slices" #slice-table {
            table.cards {
                (layout::columns(&["Slice", "State", "From", "Until", "Time bucket#", "Event buckets#"]))
                tbody {
                    @for slice in slices.iter().rev() {
                        @let when = When::of(slice, now);
                        tr {
                            th scope="row" { code { (slice.name) } }
                            td data-label="State" { (layout::badge(if when == When::Current { "good" } else { "plain" }, when.name())) }
                            td data-label="From" { (show::second(slice.start.as_ref())) }
                            td data-label="Until" { (show::second(slice.end.as_ref())) }
                            td.number data-label="Time bucket" { (show::length(Duration::from_secs(slice.seconds_per_bucket.into()))) }
                            td.number data-label="Event buckets" { (slice.event_buckets) }
                        }
                    }
                }
            }
        }
    }
}
