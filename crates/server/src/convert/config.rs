//! Settings of a namespace: a message changes those that are present in it, and sets back those that are to be cleared.

use anabranch_api::{v1, wkt::DurationError};
use anabranch_engine::EngineError;
use anabranch_model::{BlockedSeries, NamespaceConfig, TimeSeriesId, Timestamp};

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
                Err(error) => violations.add(format!("config.{}", setting.name), error.to_string()),
            }
        }
        let block_list = block_list(&message.block_list, &mut violations);
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
    take: fn(&v1::NamespaceConfig, &mut NamespaceConfig) -> Result<bool, DurationError>,
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

fn number<T>(number: T) -> Result<T, DurationError> {
    Ok(number)
}

fn time(time: anabranch_api::wkt::Duration) -> Result<std::time::Duration, DurationError> {
    time.try_into()
}

fn optional_time(time: anabranch_api::wkt::Duration) -> Result<Option<std::time::Duration>, DurationError> {
    time.try_into().map(Some)
}

const SETTINGS: &[Setting] = &[
    setting!(number seconds_per_slice),
    setting!(number seconds_per_bucket),
    setting!(number event_buckets),
    setting!(time accept_limit),
    setting!(time drift_limit),
    setting!(optional_time close_after),
    setting!(optional_time delete_after),
    setting!(time seal_margin),
    setting!(number slices_ahead),
    setting!(time read_slo.target),
    setting!(time read_slo.max),
    setting!(time write_slo.target),
    setting!(time write_slo.max),
    setting!(number page_limits.default_page_size),
    setting!(number page_limits.max_page_size),
    setting!(number page_limits.default_page_bytes),
    setting!(number page_limits.max_page_bytes),
    setting!(number page_limits.max_record_bytes),
    setting!(number write_limits.max_events_per_request),
    setting!(number write_limits.max_request_bytes),
    setting!(number write_limits.max_items_per_event),
    setting!(number write_limits.max_item_bytes),
    setting!(number write_limits.max_id_bytes),
    setting!(number split.threshold_bytes),
    setting!(number split.target_piece_bytes),
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

fn block_list(list: &[v1::BlockedSeries], violations: &mut Violations) -> Vec<BlockedSeries> {
    let mut blocked = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let at = |field: &str| format!("config.block_list[{index}].{field}");
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
        }),
        write_limits: Some(v1::WriteLimits {
            max_events_per_request: Some(writes.max_events_per_request),
            max_request_bytes: Some(writes.max_request_bytes),
            max_items_per_event: Some(writes.max_items_per_event),
            max_item_bytes: Some(writes.max_item_bytes),
            max_id_bytes: Some(writes.max_id_bytes),
        }),
        split: Some(v1::SplitSettings {
            threshold_bytes: Some(config.split.threshold_bytes),
            target_piece_bytes: Some(config.split.target_piece_bytes),
        }),
        block_list: config.block_list.iter().map(blocked_message).collect(),
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
