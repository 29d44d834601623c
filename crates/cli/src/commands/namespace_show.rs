//! `anabranch namespace show`: one namespace for people.

use anabranch_api::v1::{Namespace, NamespaceConfig, namespace_config::TunerMode};

use super::{backfill, block, split};
use crate::{
    failure::Outcome,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_duration, show_time, show_wire_duration},
};

pub(crate) fn print(session: &Session, namespace: &Namespace) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(namespace)?,
        Format::Jsonl => out.json_line(namespace)?,
        Format::Table => print_tables(session, namespace, &mut out)?,
    }
    Ok(out.flush()?)
}

fn print_tables(session: &Session, namespace: &Namespace, out: &mut Out) -> Outcome {
    let colors = session.colors.stdout;
    out.line(format!("{}, created {}", escaped(&namespace.name), show_time(namespace.create_time.as_ref())))?;
    out.line("")?;
    out.text(&settings(namespace).take_text(colors))?;

    let config = namespace.config.clone().unwrap_or_default();
    if !config.block_list.is_empty() {
        out.line("\nBlocked series")?;
        out.text(&block::table(&config.block_list).indented(2).take_text(colors))?;
    }
    if !namespace.workload.is_empty() {
        out.line("\nPlanned for")?;
        for line in namespace.workload.lines() {
            out.line(format!("  {}", escaped(line)).trim_end())?;
        }
    }
    print_use(session, namespace, out)?;
    out.line(format!("\nSlices ({})", namespace.slices.len()))?;
    let mut slices = slices(namespace);
    if !slices.is_empty() {
        out.text(&slices.take_text(colors))?;
    }
    if !namespace.backfills.is_empty() {
        out.line("\nBackfill windows")?;
        out.text(&backfill::table(&namespace.backfills, 2).take_text(colors))?;
    }
    Ok(())
}

/// How splits are used, and what is sealed.
fn print_use(session: &Session, namespace: &Namespace, out: &mut Out) -> Outcome {
    let Some(splits) = &namespace.splits else { return Ok(()) };
    out.line("\nSplits")?;
    let mut facts = Table::new(&["fact", "value"]).indented(2).without_header();
    let mode = splits.read_mode().as_str_name();
    facts.row(vec!["read mode".to_owned(), format!("{mode} since {}", show_time(splits.since.as_ref()))]);
    let sealed = namespace.sealed_until.map_or_else(|| "nothing yet".to_owned(), |until| format!("until {until}"));
    facts.row(vec!["sealed".to_owned(), sealed]);
    out.text(&facts.take_text(session.colors.stdout))?;
    if !splits.history.is_empty() {
        out.line("\nRead modes")?;
        out.text(&split::history(splits).take_text(session.colors.stdout))?;
    }
    Ok(())
}

/// All settings, and what those on their way will be.
fn settings(namespace: &Namespace) -> Table {
    let now = setting_rows(&namespace.config.clone().unwrap_or_default());
    let next = namespace.next_config.as_ref().map(setting_rows);
    let mut table = Table::new(&["setting", "value", "next"]).indented(2).without_header();
    for (index, (name, value)) in now.into_iter().enumerate() {
        let next = next.as_ref().map(|rows| rows[index].1.as_str()).filter(|next| *next != value);
        let at = show_time(namespace.next_config_time.as_ref());
        let change = next.map(|next| format!("(from {at} on: {next})")).unwrap_or_default();
        table.row(vec![name.to_owned(), value, change]);
    }
    table
}

fn setting_rows(config: &NamespaceConfig) -> Vec<(&'static str, String)> {
    let seconds = |value: Option<u32>| {
        value.map_or_else(dash, |seconds| show_duration(std::time::Duration::from_secs(seconds.into())))
    };
    let count = |value: Option<u32>| value.map_or_else(dash, |count| count.to_string());
    let bytes = |value: Option<u64>| value.map_or_else(dash, show_bytes);
    let whether = |value: Option<bool>| value.map_or_else(dash, |value| value.to_string());
    let never = |value: Option<_>| value.map_or_else(|| "never".to_owned(), |value| show_wire_duration(Some(&value)));
    let read = config.read_slo.unwrap_or_default();
    let write = config.write_slo.unwrap_or_default();
    let pages = config.page_limits.unwrap_or_default();
    let limits = config.write_limits.unwrap_or_default();
    let split = config.split.unwrap_or_default();
    vec![
        ("seconds_per_slice", seconds(config.seconds_per_slice)),
        ("seconds_per_bucket", seconds(config.seconds_per_bucket)),
        ("event_buckets", count(config.event_buckets)),
        ("accept_limit", show_wire_duration(config.accept_limit.as_ref())),
        ("drift_limit", show_wire_duration(config.drift_limit.as_ref())),
        ("close_after", never(config.close_after)),
        ("delete_after", never(config.delete_after)),
        ("seal_margin", show_wire_duration(config.seal_margin.as_ref())),
        ("slices_ahead", count(config.slices_ahead)),
        ("read_slo.target", show_wire_duration(read.target.as_ref())),
        ("read_slo.max", show_wire_duration(read.max.as_ref())),
        ("write_slo.target", show_wire_duration(write.target.as_ref())),
        ("write_slo.max", show_wire_duration(write.max.as_ref())),
        ("page_limits.default_page_size", count(pages.default_page_size)),
        ("page_limits.max_page_size", count(pages.max_page_size)),
        ("page_limits.default_page_bytes", bytes(pages.default_page_bytes)),
        ("page_limits.max_page_bytes", bytes(pages.max_page_bytes)),
        ("page_limits.max_record_bytes", bytes(pages.max_record_bytes)),
        ("page_limits.partial_at_target", whether(pages.partial_at_target)),
        ("write_limits.max_events_per_request", count(limits.max_events_per_request)),
        ("write_limits.max_request_bytes", bytes(limits.max_request_bytes)),
        ("write_limits.max_items_per_event", count(limits.max_items_per_event)),
        ("write_limits.max_item_bytes", bytes(limits.max_item_bytes)),
        ("write_limits.max_id_bytes", count(limits.max_id_bytes)),
        ("split.threshold_bytes", bytes(split.threshold_bytes)),
        ("split.target_piece_bytes", bytes(split.target_piece_bytes)),
        ("split.detect", whether(split.detect)),
        ("split.strategy", split.strategy.map_or_else(dash, |_| split.strategy().as_str_name().to_ascii_lowercase())),
        ("split.packing", split.packing.map_or_else(dash, |_| split.packing().as_str_name().to_ascii_lowercase())),
        ("split.block_bytes", bytes(split.block_bytes.map(u64::from))),
        ("split.compare_percent", count(split.compare_percent)),
        ("split.promote", whether(split.promote)),
        ("split.promote_comparisons", count(split.promote_comparisons)),
        ("split.promote_over", show_wire_duration(split.promote_over.as_ref())),
        ("split.must_pay", whether(split.must_pay)),
        ("tuner", config.tuner.map_or_else(dash, |_| tuner_name(config.tuner()).to_owned())),
    ]
}

fn tuner_name(mode: TunerMode) -> &'static str {
    match mode {
        TunerMode::Off => "off",
        TunerMode::Propose => "propose",
        TunerMode::Apply => "apply",
        TunerMode::Unspecified => "-",
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn slices(namespace: &Namespace) -> Table {
    let headers = ["table", "state", "start", "end", "bucket", "event buckets"];
    let mut table = Table::new(&headers).indented(2).align_right(&[4, 5]);
    for slice in &namespace.slices {
        table.row(vec![
            escaped(&slice.name),
            slice.state().as_str_name().to_ascii_lowercase(),
            show_time(slice.start.as_ref()),
            show_time(slice.end.as_ref()),
            show_duration(std::time::Duration::from_secs(slice.seconds_per_bucket.into())),
            slice.event_buckets.to_string(),
        ]);
    }
    table
}
