//! All that was found, as it is told to programs; people see it as a table.

use anabranch_provision::{Settings, SizeHistogram, Workload};
use anabranch_store_cassandra::{ForeignTable, foreign::schema::ForeignSchema};
use serde::Serialize;

use crate::{
    limits::{Budget, SpentBy},
    proposal,
    sizes::Sizes,
    walk::Findings,
};

/// What a table is like, and what would become of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which table.
    pub table: String,
    /// How its rows are named.
    pub key: KeyReport,
    /// How much of it was read.
    pub sample: Sample,
    /// How much there is of it, by what was read.
    pub estimated: Totals,
    /// Sizes of partitions.
    pub sizes: Vec<Percentile>,
    /// The widest partitions that were found, widest first.
    pub widest: Vec<Widest>,
    /// What each length of time bucket would make of the rows that were read.
    pub buckets: Vec<BucketReport>,
    /// Settings for a namespace of the same rows.
    pub proposal: Option<Proposal>,
    /// What deserves to be known besides.
    pub remarks: Vec<String>,
}

/// How rows are named, and what that would be here.
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// Columns of the partition key, and those that come before the time: a series.
    pub series: Vec<String>,
    /// The column that says when.
    pub time: String,
    /// How it says so.
    pub time_kind: &'static str,
    /// Columns after the time: they tell events of one time apart.
    pub event: Vec<String>,
    /// The other columns: items.
    pub items: Vec<String>,
}

/// How much was read.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Partitions that were measured.
    pub partitions: u64,
    /// Those of them that weren't read to their end.
    pub cut: u64,
    /// Rows that were read, over and over included.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Which share of the table's tokens was gone through.
    pub share_of_tokens: f64,
    /// Whether all of the table was read, each partition to its end.
    pub is_everything: bool,
    /// How long it took.
    pub seconds: f64,
    /// What ended it before the table did.
    pub stopped_by: Option<SpentBy>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Totals {
    /// Partitions.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of keys and values of rows, before any compression.
    pub bytes: u64,
    /// Whether there are more rows and bytes: of some partitions only what was read is counted.
    pub is_at_least: bool,
}

/// A percentile of the sizes of partitions.
#[derive(Clone, Debug, Serialize)]
pub struct Percentile {
    /// Which: `p99`.
    pub name: &'static str,
    /// Rows that this share of the partitions doesn't exceed.
    pub rows: u64,
    /// Bytes that this share of the partitions doesn't exceed.
    pub bytes: u64,
    /// Whether partitions that weren't read to their end could make it bigger.
    pub is_at_least: bool,
    /// The true one is hardly smaller.
    pub low_bytes: u64,
    /// The true one is hardly bigger; `None`: there is no telling.
    pub high_bytes: Option<u64>,
}

/// A wide partition.
#[derive(Clone, Debug, Serialize)]
pub struct Widest {
    /// The condition that finds it, in CQL.
    pub key: String,
    /// How many rows it has, at least.
    pub rows: u64,
    /// How many bytes, at least.
    pub bytes: u64,
    /// Whether rows and bytes are all of it.
    pub is_whole: bool,
    /// How many rows it likely has, when it wasn't read to its end and there is something to go by.
    pub likely_rows: Option<u64>,
    /// How many bytes it likely has.
    pub likely_bytes: Option<u64>,
    /// Of the rows that were read.
    pub oldest: String,
    /// Of the rows that were read.
    pub newest: String,
    /// What its newest page costs.
    pub newest_page: Option<PageCost>,
    /// How long all of it took, page after page, as far as it was read.
    pub whole_history_seconds: Option<f64>,
    /// What its rows would be packed to, where that was tried.
    pub packed: Option<Packed>,
}

/// What a page costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageCost {
    /// Rows of the page.
    pub rows: u64,
    /// How often it was read.
    pub reads: usize,
    /// Half of the reads were quicker.
    pub median_ms: f64,
    /// The slowest read.
    pub worst_ms: f64,
}

/// What rows would be packed to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Packed {
    /// Rows of the table that were packed.
    pub rows: u64,
    /// Their bytes as single rows, keys included.
    pub bytes: u64,
    /// How full a block is, before compression.
    pub block_bytes: u64,
    /// With lz4.
    pub lz4: PackedBy,
    /// With zstd.
    pub zstd: PackedBy,
}

/// What rows would be packed to, with one way to compress.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PackedBy {
    /// Bytes of what is stored.
    pub bytes: u64,
    /// Rows of what is stored: blocks, and what is too large for one.
    pub rows: u64,
}

/// What a length of time bucket would make.
#[derive(Clone, Debug, Serialize)]
pub struct BucketReport {
    /// How long a bucket is.
    pub seconds: u32,
    /// Partitions of the rows that were read.
    pub partitions: u64,
    /// Half of them are smaller.
    pub p50_bytes: u64,
    /// All but one in a hundred are smaller.
    pub p99_bytes: u64,
    /// The biggest.
    pub widest_bytes: u64,
    /// The share of bytes in partitions of more than 10 MiB: what is left for splitting.
    pub wide_share: f64,
}

/// Settings for a namespace of the same rows.
#[derive(Clone, Debug, Serialize)]
pub struct Proposal {
    /// What was seen, as `anabranch plan` takes it.
    pub workload: Workload,
    /// Whether there is more than was seen: of some partitions only what was read is counted.
    pub is_at_least: bool,
    /// What a namespace should be created with.
    pub settings: Settings,
    /// Why.
    pub reasons: Vec<String>,
    /// What to type to go on.
    pub commands: Vec<String>,
}

const PERCENTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("widest", 1.0)];

pub(crate) fn report(
    table: &ForeignTable,
    found: &Findings,
    widest: Vec<Widest>,
    stopped_by: Option<SpentBy>,
    budget: &Budget,
) -> Report {
    let schema = table.schema();
    let (partitions, bytes) = found.bytes.likely.extrapolated(found.share);
    let (_, rows) = found.rows.likely.extrapolated(found.share);
    let proposal = proposal::propose(schema, found);
    let mut remarks = remarks(schema, found, stopped_by);
    let proposal = match proposal {
        Ok(proposal) => Some(proposal),
        Err(_) if found.bytes.read.counted() == 0 && !found.is_everything => {
            remarks.push("No row was read: there is nothing to advise on.".to_owned());
            None
        }
        Err(_) if found.bytes.read.counted() == 0 => {
            remarks.push("The table is empty: there is nothing to advise on.".to_owned());
            None
        }
        Err(reason) => {
            remarks.push(format!("No settings are proposed: {reason}."));
            None
        }
    };
    Report {
        table: schema.shown_name(),
        key: key(schema),
        sample: Sample {
            partitions: found.bytes.read.counted(),
            cut: found.cut,
            rows: budget.rows,
            bytes: budget.bytes,
            share_of_tokens: found.share,
            is_everything: found.is_everything,
            seconds: budget.took().as_secs_f64(),
            stopped_by,
        },
        estimated: Totals { partitions, rows, bytes, is_at_least: found.unknown > 0 },
        sizes: sizes(found),
        widest,
        buckets: buckets(found),
        proposal,
        remarks,
    }
}

fn key(schema: &ForeignSchema) -> KeyReport {
    let names = |columns: &[anabranch_store_cassandra::foreign::schema::Column]| {
        columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    let time = schema.time();
    let mut series = names(&schema.partition_key);
    series.extend(names(&schema.clustering[..time.index]));
    KeyReport {
        series,
        time: schema.time_name().to_owned(),
        time_kind: time.kind.name(),
        event: names(&schema.clustering[time.index + 1..]),
        items: names(&schema.regular),
    }
}

fn sizes(found: &Findings) -> Vec<Percentile> {
    let everything = found.share >= 1.0;
    let of = |sizes: &Sizes, share: f64| match share < 1.0 {
        true => sizes.percentile(share, everything),
        false => sizes.widest(everything),
    };
    let percentiles = PERCENTILES.iter().filter_map(|(name, share)| {
        let (rows, bytes) = (of(&found.rows, *share)?, of(&found.bytes, *share)?);
        Some(Percentile {
            name,
            rows: rows.size,
            bytes: bytes.size,
            is_at_least: rows.is_at_least || bytes.is_at_least,
            low_bytes: bytes.low,
            high_bytes: bytes.high,
        })
    });
    percentiles.collect()
}

fn at(sizes: &SizeHistogram, share: f64) -> Option<u64> {
    sizes.percentile(share)
}

fn buckets(found: &Findings) -> Vec<BucketReport> {
    let all = found.seen.buckets.lengths().filter(|(_, sizes)| sizes.bytes.counted() > 0);
    let all = all.map(|(seconds, sizes)| BucketReport {
        seconds,
        partitions: sizes.bytes.counted(),
        p50_bytes: at(&sizes.bytes, 0.5).unwrap_or(0),
        p99_bytes: at(&sizes.bytes, 0.99).unwrap_or(0),
        widest_bytes: sizes.bytes.largest(),
        wide_share: sizes.wide_bytes as f64 / sizes.bytes.bytes().max(1) as f64,
    });
    all.collect()
}

/// A share as people read it; less than all of it never reads as all of it.
pub fn show_share(share: f64) -> String {
    format!("{:.2} %", (share * 1e4).floor() / 1e2)
}

/// What partitions that weren't read to their end mean for the numbers.
fn cut_off(found: &Findings) -> Vec<String> {
    let mut remarks = Vec::new();
    if found.cut > 0 {
        remarks.push(format!(
            "{} partitions weren't read to their end; their sizes are what they have at least.",
            found.cut
        ));
    }
    if found.cut > found.unknown {
        remarks.push(format!(
            "Of {} of those the last rows are known, too: the totals and the proposal go by what they likely have, from how \
             dense in time their rows are at both ends.",
            found.cut - found.unknown
        ));
    }
    if found.unknown > 0 {
        remarks.push(format!(
            "Of {} of those there is nothing to go by for the rest: only what was read of them is in the totals and in the \
             proposal, so take its writes per second and the share of the busiest as the least. Higher limits show more.",
            found.unknown
        ));
    }
    remarks
}

fn remarks(schema: &ForeignSchema, found: &Findings, stopped_by: Option<SpentBy>) -> Vec<String> {
    let mut remarks = Vec::new();
    if found.share < 1.0 && found.bytes.read.counted() > 0 {
        remarks.push(format!(
            "{} of the table was gone through: partitions wider than those told here may be in the rest.{}",
            show_share(found.share),
            if stopped_by.is_some() { " Higher limits show more." } else { "" }
        ));
    }
    remarks.extend(cut_off(found));
    if schema.time().index > 0 {
        remarks.push(format!(
            "Rows of a partition are in the order of {} before {}: each value of those would be a series of its own.",
            schema.clustering[..schema.time().index]
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            schema.time_name()
        ));
    }
    if let Some(finer) = schema.finer_time() {
        let day = schema.time_name();
        remarks.push(format!(
            "`{day}` tells no more than the day: all rows of a day count as of one time, so that no shorter bucket divides them. \
             `--time-column {finer}` goes by `{finer}`."
        ));
    }
    if schema.partition_key.len() > 1 {
        remarks.push(
            "Every partition key counts as a series. If one of its columns is a bucket of time, there are fewer and longer \
             series, and buckets of time would come from the settings instead: lower --ids in the plan."
                .to_owned(),
        );
    }
    if !schema.of_partition.is_empty() {
        remarks.push(format!(
            "Static columns are no part of events and were left out: {}.",
            schema.of_partition.join(", ")
        ));
    }
    remarks.extend(found.troubles.iter().cloned());
    if found.more_troubles > 0 {
        remarks.push(format!("{} more reads failed.", found.more_troubles));
    }
    remarks
}
