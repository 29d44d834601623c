//! `anabranch slice`: slices, and how big their partitions are.

use anabranch_api::v1::{
    DensityTarget, GetSliceRequest, ListSlicesRequest, MeasuredSlice, Percentiles, Slice, SliceMeasurement,
};

use crate::{
    args::SliceCommand,
    failure::Outcome,
    output::{Format, Out, bars::bars, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_duration, show_time},
};

pub(crate) async fn run(session: &Session, command: SliceCommand) -> Outcome {
    let client = session.connect().await?;
    let mut out = Out::new();
    match command {
        SliceCommand::List { namespace, latest } => {
            let request = ListSlicesRequest { namespace, latest: latest.unwrap_or_default() };
            let answer = client.list_slices(request).await?;
            match session.format {
                Format::Json => out.json(&answer)?,
                Format::Jsonl => answer.slices.iter().try_for_each(|slice| out.json_line(slice))?,
                Format::Table => out.text(&table(&answer.slices).take_text(session.colors.stdout))?,
            }
        }
        SliceCommand::Show { namespace, slice } => {
            let answer = client.get_slice(GetSliceRequest { namespace, time_slice: slice }).await?;
            match session.format {
                Format::Json => out.json(&answer)?,
                Format::Jsonl => out.json_line(&answer)?,
                Format::Table => show(session, &answer, &mut out)?,
            }
        }
    }
    Ok(out.flush()?)
}

fn table(slices: &[MeasuredSlice]) -> Table {
    let headers = ["slice", "state", "bucket", "event buckets", "partitions", "bytes", "p50", "p99", "max", "measured"];
    let mut table = Table::new(&headers).align_right(&[2, 3, 4, 5, 6, 7, 8]);
    for measured in slices {
        let slice = measured.slice.clone().unwrap_or_default();
        let mut row = vec![escaped(&slice.name), state(&slice), bucket(&slice), slice.event_buckets.to_string()];
        match &measured.measurement {
            Some(found) => {
                let sizes = found.partition_bytes.unwrap_or_default();
                row.extend([show_count(found.partitions), show_bytes(found.bytes)]);
                row.extend([sizes.p50, sizes.p99, sizes.max].map(show_bytes));
                row.push(show_time(found.measure_time.as_ref()));
            }
            None => row.extend(["-", "-", "-", "-", "-", "not yet"].map(str::to_owned)),
        }
        table.row(row);
    }
    table
}

fn state(slice: &Slice) -> String {
    slice.state().as_str_name().to_ascii_lowercase()
}

fn bucket(slice: &Slice) -> String {
    show_duration(std::time::Duration::from_secs(slice.seconds_per_bucket.into()))
}

fn show(session: &Session, measured: &MeasuredSlice, out: &mut Out) -> Outcome {
    let slice = measured.slice.clone().unwrap_or_default();
    let (start, end) = (show_time(slice.start.as_ref()), show_time(slice.end.as_ref()));
    out.line(format!("{}, {}, from {start} to {end}", escaped(&slice.name), state(&slice)))?;
    out.line(format!("time buckets of {}, event buckets: {}", bucket(&slice), slice.event_buckets))?;
    if let Some(nodes) = &measured.nodes_estimate {
        let (partitions, mean) = (show_count(nodes.partitions), show_bytes(nodes.mean_partition_bytes));
        out.line(format!("the nodes' own estimate: {partitions} partitions, {mean} on average, as they lie on disk"))?;
    }
    let Some(found) = &measured.measurement else {
        out.line("not measured yet; `anabranch tasks` shows when slices were last measured")?;
        return Ok(());
    };
    let colors = session.colors.stdout;
    out.line("")?;
    out.text(&facts(found).take_text(colors))?;
    out.line("")?;
    out.text(&percentiles(found).take_text(colors))?;
    let target = measured.density_target.unwrap_or_default();
    let (low, high) = (show_bytes(target.low_bytes), show_bytes(target.high_bytes));
    out.line(format!("\nPartitions by size; the target is a p99 from {low} to {high}"))?;
    out.text(&histogram(found, target))?;
    out.line("\nHeaviest ids, each by its heaviest partition")?;
    out.text(&heaviest(found).take_text(colors))?;
    Ok(())
}

fn facts(found: &SliceMeasurement) -> Table {
    let mut table = Table::new(&["fact", "value"]).indented(2).without_header();
    let sample = if found.share >= 1.0 { "all of it".to_owned() } else { format!("{:.1} %", found.share * 100.0) };
    let when = if found.settled { ", sealed: it will not change" } else { "" };
    table.row(vec!["measured".to_owned(), format!("{}{when}", show_time(found.measure_time.as_ref()))]);
    table.row(vec!["counted".to_owned(), sample]);
    table.row(vec!["partitions".to_owned(), show_count(found.partitions)]);
    table.row(vec!["bytes".to_owned(), show_bytes(found.bytes)]);
    if found.backfilled {
        table.row(vec!["backfilled".to_owned(), "yes: the tuner doesn't count it".to_owned()]);
    }
    table
}

fn percentiles(found: &SliceMeasurement) -> Table {
    let mut table =
        Table::new(&["partition", "p50", "p90", "p99", "p99.9", "max"]).indented(2).align_right(&[1, 2, 3, 4, 5]);
    let mut row = |name: &str, of: Option<Percentiles>, show: fn(u64) -> String| {
        let of = of.unwrap_or_default();
        let mut row = vec![name.to_owned()];
        row.extend([of.p50, of.p90, of.p99, of.p999, of.max].map(show));
        table.row(row);
    };
    row("bytes", found.partition_bytes, show_bytes);
    row("rows", found.partition_rows, show_count);
    table
}

fn histogram(found: &SliceMeasurement, target: DensityTarget) -> String {
    let all: u64 = found.classes.iter().map(|class| class.partitions).sum();
    let row = |class: &anabranch_api::v1::SizeClass| {
        let share = class.partitions as f64 / all.max(1) as f64;
        let mark = match class.up_to_bytes {
            up_to if up_to / 2 >= target.high_bytes => "above the target",
            up_to if up_to > target.low_bytes => "target",
            _ => "",
        };
        (format!("up to {}", show_bytes(class.up_to_bytes)), share, mark)
    };
    bars(&found.classes.iter().map(row).collect::<Vec<_>>())
}

fn heaviest(found: &SliceMeasurement) -> Table {
    let mut table = Table::new(&["series", "bucket", "bytes", "rows"]).indented(2).align_right(&[1, 2, 3]);
    for heavy in &found.heaviest {
        table.row(vec![
            escaped(&heavy.time_series_id),
            format!("{}.{}", heavy.time_bucket, heavy.event_bucket),
            show_bytes(heavy.bytes),
            show_count(heavy.rows),
        ]);
    }
    table
}
