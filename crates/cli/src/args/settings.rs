//! One flag for every setting of a namespace, and how they become a request.

use std::time::Duration;

use anabranch_api::{
    v1::{NamespaceConfig, PageLimits, Slo, SplitSettings, WriteLimits, namespace_config, split_settings},
    wkt,
};
use anabranch_model::{Packing, SplitStrategy, TunerMode};
use anabranch_provision::Settings;
use clap::Args;

use crate::times::{parse_bytes, parse_duration, parse_seconds};

/// Settings of a namespace. What isn't given keeps its value, or takes its default in a new one.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingArgs {
    /// Length of new slices: `1d`, `12h` or seconds; a multiple of a minute [default: 7d]
    #[arg(long, value_name = "TIME", alias = "slice", value_parser = parse_seconds)]
    seconds_per_slice: Option<u32>,
    /// Length of a time bucket, never longer than the slice [default: 1d]
    #[arg(long, value_name = "TIME", visible_alias = "bucket", value_parser = parse_seconds)]
    seconds_per_bucket: Option<u32>,
    /// Over how many partitions the events of a time bucket are spread [default: 1]
    #[arg(long, value_name = "N")]
    event_buckets: Option<u32>,
    /// How old an event may be when it is written [default: 36h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    accept_limit: Option<Duration>,
    /// How far in the future an event may be when it is written [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drift_limit: Option<Duration>,
    /// How long after its end a slice stops being read [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    close_after: Option<Duration>,
    /// How long after its end a slice is dropped [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delete_after: Option<Duration>,
    /// How long after the accept limit a span counts as sealed [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    seal_margin: Option<Duration>,
    /// How many slices are made ahead of time [default: 1]
    #[arg(long, value_name = "N")]
    slices_ahead: Option<u32>,
    /// What reads should take [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    read_slo_target: Option<Duration>,
    /// What reads may take; then they return what they have [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    read_slo_max: Option<Duration>,
    /// What writes should take [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    write_slo_target: Option<Duration>,
    /// What writes may take; then they are given up [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    write_slo_max: Option<Duration>,
    /// Records in a page whose request doesn't say [default: 1000]
    #[arg(long, value_name = "N")]
    default_page_size: Option<u32>,
    /// Most records that a request may ask for [default: 10000]
    #[arg(long, value_name = "N")]
    max_page_size: Option<u32>,
    /// Bytes in a page whose request doesn't say [default: 2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    default_page_bytes: Option<u64>,
    /// Most bytes that a request may ask for [default: 3MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_page_bytes: Option<u64>,
    /// Records bigger than this are delivered in parts [default: 2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_record_bytes: Option<u64>,
    /// Whether a page that holds something ends at the target of reads, instead of at their max [default: false]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    partial_at_target: Option<bool>,
    /// Most events in a write request [default: 10000]
    #[arg(long, value_name = "N")]
    max_events_per_request: Option<u32>,
    /// Most bytes in a write request [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_request_bytes: Option<u64>,
    /// Most items in an event [default: 1000]
    #[arg(long, value_name = "N")]
    max_items_per_event: Option<u32>,
    /// Most bytes of value and metadata of one item [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_item_bytes: Option<u64>,
    /// Most bytes of a series, an event id and an item key each [default: 256]
    #[arg(long, value_name = "N")]
    max_id_bytes: Option<u32>,
    /// A partition is wide from this size on [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    split_threshold_bytes: Option<u64>,
    /// The size that pieces of a wide partition should have [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    split_target_piece_bytes: Option<u64>,
    /// Whether reads look for wide partitions [default: true]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    split_detect: Option<bool>,
    /// How rows are divided among pieces: `time_range`, or `event_bucket` [default: time_range]
    #[arg(long, value_name = "STRATEGY")]
    split_strategy: Option<SplitStrategy>,
    /// How rows lie in pieces: one by one (`rows`), or in blocks: `plain`, `lz4`, `zstd` [default: lz4]
    #[arg(long, value_name = "PACKING")]
    split_packing: Option<Packing>,
    /// How big a block should be before compression [default: 16KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_block_bytes)]
    split_block_bytes: Option<u32>,
    /// Of how many in a hundred split partitions reads are compared with the original [default: 100]
    #[arg(long, value_name = "N")]
    split_compare_percent: Option<u32>,
    /// Whether the read mode goes from COMPARISON to EXEC by itself [default: true]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    split_promote: Option<bool>,
    /// After so many comparisons without a difference [default: 200]
    #[arg(long, value_name = "N")]
    split_promote_comparisons: Option<u32>,
    /// Over at least this time [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    split_promote_over: Option<Duration>,
    /// Whether splits that turn out slower than the original are set aside [default: true]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    split_must_pay: Option<bool>,
    /// What the slice tuner may do: nothing (`off`), `propose`, or `apply` what it proposes [default: propose]
    #[arg(long, value_name = "MODE")]
    tuner: Option<TunerMode>,
}

/// For clap: the size of a block.
fn parse_block_bytes(text: &str) -> Result<u32, String> {
    u32::try_from(parse_bytes(text)?).map_err(|_| format!("`{text}` is too much for a block"))
}

impl SettingArgs {
    /// With the values of a plan where no flag was given.
    #[must_use]
    pub(crate) fn or_planned(&self, planned: &Settings) -> Self {
        SettingArgs {
            seconds_per_slice: self.seconds_per_slice.or(Some(planned.seconds_per_slice)),
            seconds_per_bucket: self.seconds_per_bucket.or(Some(planned.seconds_per_bucket)),
            event_buckets: self.event_buckets.or(Some(planned.event_buckets)),
            accept_limit: self.accept_limit.or(Some(planned.accept_limit)),
            close_after: self.close_after.or(planned.close_after),
            delete_after: self.delete_after.or(planned.delete_after),
            seal_margin: self.seal_margin.or(Some(planned.seal_margin)),
            read_slo_target: self.read_slo_target.or(Some(planned.read_target)),
            read_slo_max: self.read_slo_max.or(Some(planned.read_max)),
            write_slo_target: self.write_slo_target.or(Some(planned.write_target)),
            write_slo_max: self.write_slo_max.or(Some(planned.write_max)),
            split_threshold_bytes: self.split_threshold_bytes.or(Some(planned.split_threshold_bytes)),
            split_target_piece_bytes: self.split_target_piece_bytes.or(Some(planned.split_target_piece_bytes)),
            ..self.clone()
        }
    }

    /// As in a request; `Err` names a length of time that no request can hold.
    pub(crate) fn to_config(&self) -> Result<NamespaceConfig, wkt::DurationError> {
        let length = |value: Option<Duration>| value.map(wkt::Duration::try_from).transpose();
        let slo = |target, max| -> Result<Option<Slo>, wkt::DurationError> {
            Ok(some_if_set(Slo { target: length(target)?, max: length(max)? }))
        };
        Ok(NamespaceConfig {
            seconds_per_slice: self.seconds_per_slice,
            seconds_per_bucket: self.seconds_per_bucket,
            event_buckets: self.event_buckets,
            accept_limit: length(self.accept_limit)?,
            drift_limit: length(self.drift_limit)?,
            close_after: length(self.close_after)?,
            delete_after: length(self.delete_after)?,
            seal_margin: length(self.seal_margin)?,
            slices_ahead: self.slices_ahead,
            read_slo: slo(self.read_slo_target, self.read_slo_max)?,
            write_slo: slo(self.write_slo_target, self.write_slo_max)?,
            page_limits: some_if_set(PageLimits {
                default_page_size: self.default_page_size,
                max_page_size: self.max_page_size,
                default_page_bytes: self.default_page_bytes,
                max_page_bytes: self.max_page_bytes,
                max_record_bytes: self.max_record_bytes,
                partial_at_target: self.partial_at_target,
            }),
            write_limits: some_if_set(WriteLimits {
                max_events_per_request: self.max_events_per_request,
                max_request_bytes: self.max_request_bytes,
                max_items_per_event: self.max_items_per_event,
                max_item_bytes: self.max_item_bytes,
                max_id_bytes: self.max_id_bytes,
            }),
            split: some_if_set(SplitSettings {
                threshold_bytes: self.split_threshold_bytes,
                target_piece_bytes: self.split_target_piece_bytes,
                detect: self.split_detect,
                strategy: self.split_strategy.map(|strategy| strategy_message(strategy).into()),
                packing: self.split_packing.map(|packing| packing_message(packing).into()),
                block_bytes: self.split_block_bytes,
                compare_percent: self.split_compare_percent,
                promote: self.split_promote,
                promote_comparisons: self.split_promote_comparisons,
                promote_over: length(self.split_promote_over)?,
                must_pay: self.split_must_pay,
            }),
            block_list: Vec::new(),
            tuner: self.tuner.map(|mode| tuner_message(mode).into()),
        })
    }
}

fn strategy_message(strategy: SplitStrategy) -> split_settings::Strategy {
    match strategy {
        SplitStrategy::TimeRange => split_settings::Strategy::TimeRange,
        SplitStrategy::EventBucket => split_settings::Strategy::EventBucket,
    }
}

fn tuner_message(mode: TunerMode) -> namespace_config::TunerMode {
    match mode {
        TunerMode::Off => namespace_config::TunerMode::Off,
        TunerMode::Propose => namespace_config::TunerMode::Propose,
        TunerMode::Apply => namespace_config::TunerMode::Apply,
    }
}

fn packing_message(packing: Packing) -> split_settings::Packing {
    match packing {
        Packing::Rows => split_settings::Packing::Rows,
        Packing::Plain => split_settings::Packing::Plain,
        Packing::Lz4 => split_settings::Packing::Lz4,
        Packing::Zstd => split_settings::Packing::Zstd,
    }
}

/// Absent when nothing in it is set.
fn some_if_set<M: Default + PartialEq>(message: M) -> Option<M> {
    (message != M::default()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::{show_bytes, show_duration};

    #[test]
    fn help_tells_the_defaults_that_namespaces_really_get() {
        let config = anabranch_model::NamespaceConfig::default();
        let seconds = |seconds: u32| show_duration(Duration::from_secs(seconds.into()));
        let size = |bytes: u64| show_bytes(bytes).replace(' ', "");
        let never = |length: Option<Duration>| length.map_or_else(|| "never".to_owned(), show_duration);
        let (pages, writes) = (config.page_limits, config.write_limits);
        let defaults = [
            ("seconds_per_slice", seconds(config.seconds_per_slice)),
            ("seconds_per_bucket", seconds(config.seconds_per_bucket)),
            ("event_buckets", config.event_buckets.to_string()),
            ("accept_limit", show_duration(config.accept_limit)),
            ("drift_limit", show_duration(config.drift_limit)),
            ("close_after", never(config.close_after)),
            ("delete_after", never(config.delete_after)),
            ("seal_margin", show_duration(config.seal_margin)),
            ("slices_ahead", config.slices_ahead.to_string()),
            ("read_slo_target", show_duration(config.read_slo.target)),
            ("read_slo_max", show_duration(config.read_slo.max)),
            ("write_slo_target", show_duration(config.write_slo.target)),
            ("write_slo_max", show_duration(config.write_slo.max)),
            ("default_page_size", pages.default_page_size.to_string()),
            ("max_page_size", pages.max_page_size.to_string()),
            ("default_page_bytes", size(pages.default_page_bytes)),
            ("max_page_bytes", size(pages.max_page_bytes)),
            ("max_record_bytes", size(pages.max_record_bytes)),
            ("partial_at_target", pages.partial_at_target.to_string()),
            ("max_events_per_request", writes.max_events_per_request.to_string()),
            ("max_request_bytes", size(writes.max_request_bytes)),
            ("max_items_per_event", writes.max_items_per_event.to_string()),
            ("max_item_bytes", size(writes.max_item_bytes)),
            ("max_id_bytes", writes.max_id_bytes.to_string()),
            ("split_threshold_bytes", size(config.split.threshold_bytes)),
            ("split_target_piece_bytes", size(config.split.target_piece_bytes)),
            ("split_detect", config.split.detect.to_string()),
            ("split_strategy", config.split.strategy.to_string()),
            ("split_packing", config.split.packing.to_string()),
            ("split_block_bytes", size(config.split.block_bytes.into())),
            ("split_compare_percent", config.split.compare_percent.to_string()),
            ("split_promote", config.split.promote.to_string()),
            ("split_promote_comparisons", config.split.promote_comparisons.to_string()),
            ("split_promote_over", show_duration(config.split.promote_over)),
            ("split_must_pay", config.split.must_pay.to_string()),
            ("tuner", config.tuner.to_string()),
        ];
        let command = SettingArgs::augment_args(clap::Command::new("settings"));
        assert_eq!(command.get_arguments().count(), defaults.len());
        for (name, default) in defaults {
            let argument = command.get_arguments().find(|argument| argument.get_id() == name).unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{name} is {default} by default: {help}");
        }
    }
}
