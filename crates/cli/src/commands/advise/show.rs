//! The report for people.

use std::time::Duration;

use anabranch_advise::{
    Report,
    limits::SpentBy,
    report::{BucketReport, Packed, Sample, Widest, show_share},
};
use anabranch_model::SplitSettings;
use anabranch_provision::quantity::{show_bytes, show_count};

use crate::{
    output::{table::Table, text::escaped},
    planning,
    times::{show_duration, show_elapsed},
};

/// Lengths of buckets that are shown: those around the one where wide partitions begin.
const SHOWN_BUCKETS: usize = 5;

pub(crate) fn text(report: &Report, colors: bool) -> String {
    let mut text = format!("{}\n", escaped(&report.table));
    text += &about(report).take_text(colors);
    if !report.sizes.is_empty() {
        text += "\nSizes of partitions\n";
        text += &sizes(report).take_text(colors);
        text += "\nThe widest that were found\n";
        report.widest.iter().for_each(|wide| text += &format!("  {}\n", escaped(&wide.key)));
        text += "\nWhat they cost\n";
        text += &costs(report).take_text(colors);
        text += "\nWhat time buckets would make of the rows that were read\n";
        text += &buckets(report).take_text(colors);
        let mut packing = packing(report);
        if !packing.is_empty() {
            text += "\nWhat splitting and packing would make of the widest, tried on their newest rows\n";
            text += &packing.take_text(colors);
        }
    }
    if let Some(proposal) = &report.proposal {
        text += match proposal.is_at_least {
            true => "\nProposed, for no more than what was read: there is more\n",
            false => "\nProposed\n",
        };
        text += &planning::settings(&proposal.settings).take_text(colors);
    }
    if !report.remarks.is_empty() {
        text += "\nTo be known\n";
        report.remarks.iter().for_each(|remark| text += &planning::wrapped(&escaped(remark)));
    }
    if let Some(proposal) = &report.proposal {
        text += "\nWhat to type next\n";
        proposal.commands.iter().for_each(|command| text += &format!("  {}\n", escaped(command)));
    }
    text
}

fn about(report: &Report) -> Table {
    let mut table = Table::new(&["what", "how"]).indented(2).without_header();
    let key = &report.key;
    let named = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => escaped(&names.join(", ")),
    };
    let sample = &report.sample;
    let whole = &report.estimated;
    let of_rows = match (whole.is_at_least, sample.cut > 0 && sample.share_of_tokens >= 1.0) {
        (true, _) => "≥ ",
        (false, true) => "about ",
        (false, false) => "",
    };
    let rows = [
        ("series", named(&key.series)),
        ("time", format!("{} ({})", escaped(&key.time), key.time_kind)),
        ("event", named(&key.event)),
        ("items", named(&key.items)),
        (
            "read",
            format!(
                "{} partitions, {} rows, {} in {}: {}",
                show_count(sample.partitions as f64),
                show_count(sample.rows as f64),
                show_bytes(sample.bytes as f64),
                show_elapsed(Duration::from_secs_f64(sample.seconds)),
                reached(sample),
            ),
        ),
        (
            "in all",
            format!(
                "{}{} partitions, {of_rows}{} rows, {of_rows}{}",
                if sample.share_of_tokens < 1.0 { "about " } else { "" },
                show_count(whole.partitions as f64),
                show_count(whole.rows as f64),
                show_bytes(whole.bytes as f64)
            ),
        ),
    ];
    rows.into_iter().for_each(|(name, value)| table.row(vec![name.to_owned(), value]));
    table
}

/// How much of the table was read, and what ended it.
fn reached(sample: &Sample) -> String {
    if sample.is_everything {
        return "everything".to_owned();
    }
    let mut text = format!("{} of the table", show_share(sample.share_of_tokens));
    if sample.cut > 0 {
        text += &format!(", {} of the partitions not to their end", show_count(sample.cut as f64));
    }
    text += match sample.stopped_by {
        Some(SpentBy::Bytes) => ", until --max-bytes",
        Some(SpentBy::Rows) => ", until --max-rows",
        Some(SpentBy::Time) => ", until --max-time",
        None => "; the rest couldn't be read",
    };
    text
}

fn sizes(report: &Report) -> Table {
    let mut table = Table::new(&["", "rows", "bytes", "19 of 20 times between"]).align_right(&[1, 2]).indented(2);
    for size in &report.sizes {
        let range = match size.high_bytes {
            Some(high) if high == size.low_bytes => String::new(),
            Some(high) => format!("{} and {}", show_bytes(size.low_bytes as f64), show_bytes(high as f64)),
            None => format!("{} and more", show_bytes(size.low_bytes as f64)),
        };
        let mark = if size.is_at_least { "≥ " } else { "" };
        let (rows, bytes) = (show_count(size.rows as f64), show_bytes(size.bytes as f64));
        table.row(vec![size.name.to_owned(), format!("{mark}{rows}"), format!("{mark}{bytes}"), range]);
    }
    table
}

fn at_least(wide: &Widest, text: String) -> String {
    if wide.is_whole { text } else { format!("≥ {text}") }
}

/// A number that was worked out from what it likely has.
fn likely(wide: &Widest, text: String) -> String {
    if wide.likely_rows.is_some() { format!("about {text}") } else { at_least(wide, text) }
}

fn costs(report: &Report) -> Table {
    let headers = ["", "rows", "bytes", "from", "to", "newest 1,000, median", "worst", "whole history"];
    let mut table = Table::new(&headers).align_right(&[1, 2, 5, 6, 7]).indented(2);
    for (place, wide) in (1..).zip(&report.widest) {
        let millis = |millis: f64| format!("{millis:.1} ms");
        let page = wide.newest_page;
        let dash = || "-".to_owned();
        table.row(vec![
            place.to_string(),
            at_least(wide, show_count(wide.rows as f64)),
            bytes(wide),
            date(&wide.oldest),
            date(&wide.newest),
            page.map_or_else(dash, |page| millis(page.median_ms)),
            page.map_or_else(dash, |page| millis(page.worst_ms)),
            wide.whole_history_seconds
                .map_or_else(dash, |seconds| at_least(wide, show_elapsed(Duration::from_secs_f64(seconds)))),
        ]);
    }
    table
}

/// What was read of it, and what it likely has.
fn bytes(wide: &Widest) -> String {
    let read = at_least(wide, show_bytes(wide.bytes as f64));
    wide.likely_bytes.map_or(read.clone(), |likely| format!("{read}, likely {}", show_bytes(likely as f64)))
}

/// The day is enough beside sizes.
fn date(time: &str) -> String {
    time.split('T').next().unwrap_or(time).to_owned()
}

fn buckets(report: &Report) -> Table {
    let headers = ["bucket", "partitions", "p50", "p99", "widest", "bytes in wide ones"];
    let mut table = Table::new(&headers).align_right(&[1, 2, 3, 4, 5]).indented(2);
    for bucket in shown(&report.buckets) {
        table.row(vec![
            show_duration(Duration::from_secs(bucket.seconds.into())),
            show_count(bucket.partitions as f64),
            show_bytes(bucket.p50_bytes as f64),
            show_bytes(bucket.p99_bytes as f64),
            show_bytes(bucket.widest_bytes as f64),
            format!("{:.0} %", bucket.wide_share * 100.0),
        ]);
    }
    table
}

/// A few around the longest that leaves nothing wide: shorter ones make more partitions, longer ones wide ones.
fn shown(buckets: &[BucketReport]) -> &[BucketReport] {
    let longest = buckets.iter().rposition(|bucket| bucket.wide_share == 0.0).unwrap_or(0);
    let start = longest.saturating_sub(SHOWN_BUCKETS / 2).min(buckets.len().saturating_sub(SHOWN_BUCKETS));
    &buckets[start..(start + SHOWN_BUCKETS).min(buckets.len())]
}

fn packing(report: &Report) -> Table {
    let headers = ["", "pieces", "rows", "as rows", "blocks", "with lz4", "with zstd", "rows of a page of 1,000"];
    let mut table = Table::new(&headers).align_right(&[1, 2, 3, 4, 5, 6, 7]).indented(2);
    let piece = report
        .proposal
        .as_ref()
        .map_or(SplitSettings::default().target_piece_bytes, |proposal| proposal.settings.split_target_piece_bytes);
    for (place, wide) in (1..).zip(&report.widest) {
        if let Some(packed) = &wide.packed {
            table.row(packing_row(place, wide, packed, piece));
        }
    }
    table
}

fn packing_row(place: usize, wide: &Widest, packed: &Packed, piece: u64) -> Vec<String> {
    // What was packed stands for all of it.
    let rows = wide.likely_rows.unwrap_or(wide.rows);
    let scale = rows as f64 / packed.rows.max(1) as f64;
    let bytes = packed.bytes as f64 * scale;
    let share = |packed_bytes: u64| {
        format!(
            "{} ({:.0} %)",
            show_bytes(packed_bytes as f64 * scale),
            100.0 * packed_bytes as f64 / packed.bytes.max(1) as f64
        )
    };
    let per_block = packed.rows as f64 / packed.lz4.rows.max(1) as f64;
    vec![
        place.to_string(),
        likely(wide, show_count((bytes / piece as f64).ceil())),
        likely(wide, show_count(rows as f64)),
        likely(wide, show_bytes(bytes)),
        likely(wide, show_count((packed.lz4.rows as f64 * scale).ceil())),
        share(packed.lz4.bytes),
        share(packed.zstd.bytes),
        show_count((1000.0 / per_block).ceil() + 1.0),
    ]
}
