//! A plan for people: settings, what they lead to, what carries them, and why.

use std::time::Duration;

use anabranch_provision::{
    Plan, Settings,
    candidate::{DENSITY_HIGH_BYTES, DENSITY_LOW_BYTES},
    capacity::{Capacity, Machine},
    predict::{Prediction, Spread},
    quantity::{show_bytes, show_count},
};

use crate::{
    output::{bars::bars, table::Table},
    times::show_duration,
};

/// Everything that is worth reading.
pub(crate) fn text(plan: &Plan, colors: bool) -> String {
    let mut text = String::from("Settings\n");
    text += &settings(&plan.settings).take_text(colors);
    text += &format!("\nPredicted, over {} draws\n", show_count(plan.draws as f64));
    text += &prediction(&plan.predicted).take_text(colors);
    text += "\nSizes of partitions\n";
    text += &sizes(&plan.predicted);
    text += "\nNeeded\n";
    text += &capacity(&plan.capacity).take_text(colors);
    text += "\nWhy\n";
    plan.reasons.iter().chain(&plan.remarks).for_each(|reason| text += &wrapped(reason));
    text
}

pub(crate) fn settings(settings: &Settings) -> Table {
    let seconds = |seconds: u32| show_duration(Duration::from_secs(seconds.into()));
    let never = |length: Option<Duration>| length.map_or_else(|| "never".to_owned(), show_duration);
    let slo = |target: Duration, max: Duration| format!("{}, at most {}", show_duration(target), show_duration(max));
    let mut table = Table::new(&["setting", "value"]).indented(2).without_header();
    let rows = [
        ("slice", seconds(settings.seconds_per_slice)),
        ("time bucket", seconds(settings.seconds_per_bucket)),
        ("event buckets", settings.event_buckets.to_string()),
        ("accept limit", show_duration(settings.accept_limit)),
        ("closed after", never(settings.close_after)),
        ("deleted after", never(settings.delete_after)),
        ("split from", show_bytes(settings.split_threshold_bytes as f64)),
        ("piece", show_bytes(settings.split_target_piece_bytes as f64)),
        ("reads", slo(settings.read_target, settings.read_max)),
        ("writes", slo(settings.write_target, settings.write_max)),
    ];
    rows.into_iter().for_each(|(name, value)| table.row(vec![name.to_owned(), value]));
    table
}

fn prediction(predicted: &Prediction) -> Table {
    let mut table = Table::new(&["", "middle", "nine of ten draws"]).align_right(&[1]).indented(2);
    let mut row = |name: &str, spread: &Spread, show: fn(f64) -> String| {
        let range = if spread.low == spread.high {
            String::new()
        } else {
            format!("{} to {}", show(spread.low), show(spread.high))
        };
        table.row(vec![name.to_owned(), show(spread.mid), range]);
    };
    let sizes = &predicted.partition_bytes;
    row("partition size, p50", &sizes.p50, show_bytes);
    row("p90", &sizes.p90, show_bytes);
    row("p99", &sizes.p99, show_bytes);
    row("p99.9", &sizes.p999, show_bytes);
    row("widest", &predicted.widest_partition_bytes, show_bytes);
    row("ids with wide partitions", &predicted.wide_ids, show_count);
    row("share of bytes in those", &predicted.wide_share, |share| format!("{:.0} %", share * 100.0));
    row("history of the busiest id", &predicted.widest_id_bytes, show_bytes);
    row("partitions of a usual read", &predicted.fan_out_typical, show_count);
    row("partitions of the longest reads", &predicted.fan_out_longest, show_count);
    row("partitions", &predicted.partitions, show_count);
    table.row(vec!["tables".to_owned(), predicted.tables.to_string(), String::new()]);
    table
}

fn sizes(predicted: &Prediction) -> String {
    let rows = predicted.sizes.iter().map(|class| {
        let end = class.up_to_bytes;
        let mark = if end > DENSITY_LOW_BYTES && end <= DENSITY_HIGH_BYTES { "target" } else { "" };
        (format!("up to {}", show_bytes(end as f64)), class.share, mark)
    });
    bars(&rows.collect::<Vec<_>>())
}

fn capacity(capacity: &Capacity) -> Table {
    let machine = |machine: &Machine| {
        let (memory, disk) = (show_bytes(machine.memory_bytes as f64), show_bytes(machine.disk_bytes as f64));
        let cores = if machine.cores == 1 { "1 core".to_owned() } else { format!("{} cores", machine.cores) };
        format!("{cores}, {memory} of memory, {disk} of disk")
    };
    let cluster = &capacity.cluster;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let headroom = cluster.headroom;
    let mut table = Table::new(&["what", "how much"]).indented(2).without_header();
    let rows = [
        ("cluster", format!("{} nodes, each {}", cluster.nodes, machine(&cluster.node))),
        (
            "headroom",
            format!(
                "cores {}, memory {}, disk {}, beside peaks and compaction; enough in {} of the draws",
                percent(headroom.cores),
                percent(headroom.memory),
                percent(headroom.disk),
                percent(cluster.enough_in)
            ),
        ),
        ("or one embedded server", machine(&capacity.embedded)),
    ];
    rows.into_iter().for_each(|(name, value)| table.row(vec![name.to_owned(), value]));
    table
}

/// A paragraph of at most 100 columns, its first line marked.
pub(crate) fn wrapped(sentence: &str) -> String {
    let mut text = String::new();
    let mut line = String::from("  -");
    for word in sentence.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            text += &line;
            text.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
}
