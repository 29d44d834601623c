//! Settings of a namespace: a message changes those that are present in it, and sets back those that are to be cleared.

use anabranch_api::v1;
use anabranch_engine::{EngineError, NamespaceRecord};
use anabranch_model::{BlockedSeries, NamespaceConfig, Packing, SplitStrategy, TimeSeriesId, Timestamp, TunerMode};

use super::{Violations, bound, duration, timestamp};

/// A checked change of settings, to be applied to whatever is stored at that moment.
pub(crate) struct ConfigPatch {
    message: v1::NamespaceConfig,
    cleared: Vec<&'static Setting>,
    clears_block_list: bool,
    /// Replaces the old list when it isn't empty.
    block_list: Vec<BlockedSeries>,
}

impl ConfigPatch {
    /// Checks what can be known without the namespace: lengths of time, ids, and names to clear.
    pub(crate) fn new(message: v1::NamespaceConfig, clear: &[String]) -> Result<ConfigPatch, EngineError> {
        let mut violations = Violations::default();
        let mut scratch = NamespaceConfig::default();
        let mut present = Vec::new();
        for setting in SETTINGS {
            match (setting.take)(&message, &mut scratch) {
                Ok(true) => present.push(setting.name),
                Ok(false) => {}
                Err(reason) => violations.add(format!("config.{}", setting.name), reason),
            }
        }
        let block_list = block_list("config.block_list", &message.block_list, &mut violations);
        let (mut cleared, mut clears_block_list) = (Vec::new(), false);
        for (index, name) in clear.iter().enumerate() {
            let name = snake_case(name);
            let named: Vec<&Setting> = SETTINGS.iter().filter(|setting| setting.is(&name)).collect();
            let is_block_list = name == BLOCK_LIST;
            let both = named.iter().any(|setting| present.contains(&setting.name));
            if named.is_empty() && !is_block_list {
                violations.add(format!("clear[{index}]"), unknown_setting(&name));
            } else if both || is_block_list && !message.block_list.is_empty() {
                violations
                    .add(format!("clear[{index}]"), format!("`{name}` is set in `config` too; take one of the two"));
            }
            cleared.extend(named);
            clears_block_list |= is_block_list;
        }
        violations.into_result()?;
        Ok(ConfigPatch { message, cleared, clears_block_list, block_list })
    }

    /// Changes what the message says, and nothing else.
    pub(crate) fn apply(&self, config: &mut NamespaceConfig, now: Timestamp) {
        let defaults = NamespaceConfig::default();
        self.cleared.iter().for_each(|setting| (setting.clear)(config, &defaults));
        for setting in SETTINGS {
            // Checked when the patch was made.
            let _ = (setting.take)(&self.message, config);
        }
        if self.clears_block_list {
            config.block_list.clear();
        }
        if !self.block_list.is_empty() {
            let before = std::mem::replace(&mut config.block_list, self.block_list.clone());
            for blocked in &mut config.block_list {
                let known = before.iter().find(|known| known.series == blocked.series);
                blocked.since = known.map_or(now, |known| known.since);
            }
        }
    }
}

const BLOCK_LIST: &str = "block_list";

/// One setting that isn't a list.
struct Setting {
    /// As in the proto: `read_slo.target`.
    name: &'static str,
    /// Takes over the message's value, and says whether it has one.
    take: fn(&v1::NamespaceConfig, &mut NamespaceConfig) -> Result<bool, String>,
    /// Sets it back.
    clear: fn(&mut NamespaceConfig, &NamespaceConfig),
}

impl Setting {
    /// Whether a name means this setting, or the group it belongs to.
    fn is(&self, name: &str) -> bool {
        self.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

macro_rules! setting {
    (@ $name:expr, $get:expr, $convert:expr, $($place:ident).+) => {
        Setting {
            name: $name,
            take: |message, config| {
                let get: fn(&v1::NamespaceConfig) -> _ = $get;
                let Some(value) = get(message) else { return Ok(false) };
                config.$($place).+ = $convert(value)?;
                Ok(true)
            },
            clear: |config, defaults| config.$($place).+ = defaults.$($place).+,
        }
    };
    ($convert:ident $field:ident) => {
        setting!(@ stringify!($field), |message| message.$field, $convert, $field)
    };
    ($convert:ident $group:ident.$field:ident) => {
        setting!(
            @ concat!(stringify!($group), ".", stringify!($field)),
            |message| message.$group.as_ref().and_then(|group| group.$field), $convert, $group.$field
        )
    };
}

/// What is taken as it is.
fn plain<T>(value: T) -> Result<T, String> {
    Ok(value)
}

fn time(time: anabranch_api::wkt::Duration) -> Result<std::time::Duration, String> {
    time.try_into().map_err(|error: anabranch_api::wkt::DurationError| error.to_string())
}

fn optional_time(length: anabranch_api::wkt::Duration) -> Result<Option<std::time::Duration>, String> {
    time(length).map(Some)
}

fn strategy(value: i32) -> Result<SplitStrategy, String> {
    match v1::split_settings::Strategy::try_from(value) {
        Ok(v1::split_settings::Strategy::TimeRange) => Ok(SplitStrategy::TimeRange),
        Ok(v1::split_settings::Strategy::EventBucket) => Ok(SplitStrategy::EventBucket),
        _ => Err(format!("{value} is no strategy; take TIME_RANGE or EVENT_BUCKET")),
    }
}

fn packing(value: i32) -> Result<Packing, String> {
    match v1::split_settings::Packing::try_from(value) {
        Ok(v1::split_settings::Packing::Rows) => Ok(Packing::Rows),
        Ok(v1::split_settings::Packing::Plain) => Ok(Packing::Plain),
        Ok(v1::split_settings::Packing::Lz4) => Ok(Packing::Lz4),
        Ok(v1::split_settings::Packing::Zstd) => Ok(Packing::Zstd),
        _ => Err(format!("{value} is no packing; take ROWS, PLAIN, LZ4 or ZSTD")),
    }
}

fn tuner_mode(value: i32) -> Result<TunerMode, String> {
    match v1::namespace_config::TunerMode::try_from(value) {
        Ok(v1::namespace_config::TunerMode::Off) => Ok(TunerMode::Off),
        Ok(v1::namespace_config::TunerMode::Propose) => Ok(TunerMode::Propose),
        Ok(v1::namespace_config::TunerMode::Apply) => Ok(TunerMode::Apply),
        _ => Err(format!("{value} is no mode of the tuner; take OFF, PROPOSE or APPLY")),
    }
}

const SETTINGS: &[Setting] = &[
    setting!(plain seconds_per_slice),
    setting!(plain seconds_per_bucket),
    setting!(plain event_buckets),
    setting!(time accept_limit),
    setting!(time drift_limit),
    setting!(optional_time close_after),
    setting!(optional_time delete_after),
    setting!(time seal_margin),
    setting!(plain slices_ahead),
    setting!(time read_slo.target),
    setting!(time read_slo.max),
    setting!(time write_slo.target),
    setting!(time write_slo.max),
    setting!(plain page_limits.default_page_size),
    setting!(plain page_limits.max_page_size),
    setting!(plain page_limits.default_page_bytes),
    setting!(plain page_limits.max_page_bytes),
    setting!(plain page_limits.max_record_bytes),
    setting!(plain page_limits.partial_at_target),
    setting!(plain write_limits.max_events_per_request),
    setting!(plain write_limits.max_request_bytes),
    setting!(plain write_limits.max_items_per_event),
    setting!(plain write_limits.max_item_bytes),
    setting!(plain write_limits.max_id_bytes),
    setting!(plain split.threshold_bytes),
    setting!(plain split.target_piece_bytes),
    setting!(plain split.detect),
    setting!(strategy split.strategy),
    setting!(packing split.packing),
    setting!(plain split.block_bytes),
    setting!(plain split.compare_percent),
    setting!(plain split.promote),
    setting!(plain split.promote_comparisons),
    setting!(time split.promote_over),
    setting!(plain split.must_pay),
    setting!(tuner_mode tuner),
];

fn unknown_setting(name: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in SETTINGS.iter().map(|setting| setting.name).chain([BLOCK_LIST]) {
        let group = name.split('.').next().unwrap_or(name);
        if known.last() != Some(&group) {
            known.push(group);
        }
    }
    format!("there is no setting `{name}`; known are {}", known.join(", "))
}

/// `readSlo.max` → `read_slo.max`
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn block_list(field: &str, list: &[v1::BlockedSeries], violations: &mut Violations) -> Vec<BlockedSeries> {
    let mut blocked = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let at = |name: &str| format!("{field}[{index}].{name}");
        let series = violations.take(&at("time_series_id"), TimeSeriesId::new(entry.time_series_id.as_str()));
        let expires = entry.expires.and_then(|time| violations.take(&at("expires"), bound(time)));
        let Some(series) = series else { continue };
        let (writes, reads, reason) = (entry.writes, entry.reads, entry.reason.clone());
        // The moment is known only when the change is applied.
        let since = Timestamp::EARLIEST;
        blocked.push(BlockedSeries { series, writes, reads, reason, since, expires });
    }
    blocked
}

/// Series to put on the block list.
pub(crate) fn blocked_series(list: &[v1::BlockedSeries]) -> Result<Vec<BlockedSeries>, EngineError> {
    let mut violations = Violations::default();
    if list.is_empty() {
        violations.add("series".to_owned(), "names none".to_owned());
    }
    let list = block_list("series", list, &mut violations);
    violations.into_result()?;
    Ok(list)
}

/// Ids of series in a list of a request.
pub(crate) fn series_ids(field: &str, ids: &[String]) -> Result<Vec<TimeSeriesId>, EngineError> {
    let mut violations = Violations::default();
    if ids.is_empty() {
        violations.add(field.to_owned(), "names none".to_owned());
    }
    let checked = ids.iter().enumerate();
    let checked =
        checked.filter_map(|(index, id)| violations.take(&format!("{field}[{index}]"), TimeSeriesId::new(id.as_str())));
    let checked = checked.collect();
    violations.into_result()?;
    Ok(checked)
}

/// The block list with changes on their way.
pub(crate) fn block_list_message(record: &NamespaceRecord) -> v1::BlockList {
    let config = record.next.as_ref().map_or(&record.config, |next| &next.config);
    v1::BlockList { block_list: config_message(config).block_list }
}

/// Settings as they are answered: every field that has a value is present.
pub(crate) fn config_message(config: &NamespaceConfig) -> v1::NamespaceConfig {
    let slo = |slo: anabranch_model::Slo| v1::Slo { target: duration(slo.target), max: duration(slo.max) };
    let pages = &config.page_limits;
    let writes = &config.write_limits;
    v1::NamespaceConfig {
        seconds_per_slice: Some(config.seconds_per_slice),
        seconds_per_bucket: Some(config.seconds_per_bucket),
        event_buckets: Some(config.event_buckets),
        accept_limit: duration(config.accept_limit),
        drift_limit: duration(config.drift_limit),
        close_after: config.close_after.and_then(duration),
        delete_after: config.delete_after.and_then(duration),
        seal_margin: duration(config.seal_margin),
        slices_ahead: Some(config.slices_ahead),
        read_slo: Some(slo(config.read_slo)),
        write_slo: Some(slo(config.write_slo)),
        page_limits: Some(v1::PageLimits {
            default_page_size: Some(pages.default_page_size),
            max_page_size: Some(pages.max_page_size),
            default_page_bytes: Some(pages.default_page_bytes),
            max_page_bytes: Some(pages.max_page_bytes),
            max_record_bytes: Some(pages.max_record_bytes),
            partial_at_target: Some(pages.partial_at_target),
        }),
        write_limits: Some(v1::WriteLimits {
            max_events_per_request: Some(writes.max_events_per_request),
            max_request_bytes: Some(writes.max_request_bytes),
            max_items_per_event: Some(writes.max_items_per_event),
            max_item_bytes: Some(writes.max_item_bytes),
            max_id_bytes: Some(writes.max_id_bytes),
        }),
        split: Some(split_message(&config.split)),
        block_list: config.block_list.iter().map(blocked_message).collect(),
        tuner: Some(tuner_message(config.tuner).into()),
    }
}

fn tuner_message(mode: TunerMode) -> v1::namespace_config::TunerMode {
    match mode {
        TunerMode::Off => v1::namespace_config::TunerMode::Off,
        TunerMode::Propose => v1::namespace_config::TunerMode::Propose,
        TunerMode::Apply => v1::namespace_config::TunerMode::Apply,
    }
}

fn split_message(split: &anabranch_model::SplitSettings) -> v1::SplitSettings {
    let strategy = match split.strategy {
        SplitStrategy::TimeRange => v1::split_settings::Strategy::TimeRange,
        SplitStrategy::EventBucket => v1::split_settings::Strategy::EventBucket,
    };
    v1::SplitSettings {
        threshold_bytes: Some(split.threshold_bytes),
        target_piece_bytes: Some(split.target_piece_bytes),
        detect: Some(split.detect),
        strategy: Some(strategy.into()),
        packing: Some(packing_message(split.packing).into()),
        block_bytes: Some(split.block_bytes),
        compare_percent: Some(split.compare_percent),
        promote: Some(split.promote),
        promote_comparisons: Some(split.promote_comparisons),
        promote_over: duration(split.promote_over),
        must_pay: Some(split.must_pay),
    }
}

/// How rows lie in pieces.
pub(crate) fn packing_message(packing: Packing) -> v1::split_settings::Packing {
    match packing {
        Packing::Rows => v1::split_settings::Packing::Rows,
        Packing::Plain => v1::split_settings::Packing::Plain,
        Packing::Lz4 => v1::split_settings::Packing::Lz4,
        Packing::Zstd => v1::split_settings::Packing::Zstd,
    }
}

fn blocked_message(blocked: &BlockedSeries) -> v1::BlockedSeries {
    v1::BlockedSeries {
        time_series_id: blocked.series.to_string(),
        writes: blocked.writes,
        reads: blocked.reads,
        reason: blocked.reason.clone(),
        since: timestamp(blocked.since),
        expires: blocked.expires.and_then(timestamp),
    }
}

#[cfg(test)]
mod tests;
