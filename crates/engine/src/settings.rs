//! Changes of a namespace's settings: made on what is stored at that moment, by compare-and-set, and in force when every server
//! knows them. Two who change different things at once both get what they asked for.

use anabranch_model::{BlockedSeries, NamespaceConfig, NamespaceName, TimeSeriesId, Timestamp, config::Surroundings};

use crate::{Engine, EngineError, NamespaceRecord, Violation, error::ErrorKind, namespace::NextConfig};

impl Engine {
    /// Changes settings. What decides which events are accepted, and where they go, comes into force only when
    /// every server knows it; everything else at once. `edit` may be called several times.
    pub async fn update_namespace(
        &self,
        name: &str,
        edit: impl Fn(&mut NamespaceConfig),
    ) -> Result<NamespaceRecord, EngineError> {
        self.check_ready()?;
        let name = self.registry.get(name)?.name.clone();
        self.change_config(&name, unfailing(edit)).await
    }

    /// What [`update_namespace`](Self::update_namespace) would make of a namespace. Changes nothing.
    pub fn preview_update(
        &self,
        name: &str,
        edit: impl Fn(&mut NamespaceConfig),
    ) -> Result<NamespaceRecord, EngineError> {
        let mut record = self.registry.get(name)?.record.clone();
        self.edit_record(&mut record, unfailing(edit), self.env.now())?;
        Ok(record)
    }

    /// Puts series on the block list; those that are on it already get the new entry, and keep since when they are.
    pub async fn block_series(&self, name: &str, series: Vec<BlockedSeries>) -> Result<NamespaceRecord, EngineError> {
        self.check_ready()?;
        let name = self.registry.get(name)?.name.clone();
        let now = self.env.now();
        let edit = |config: &mut NamespaceConfig| {
            for blocked in &series {
                let known = config.block_list.iter().position(|known| known.series == blocked.series);
                let before = known.map(|at| config.block_list.remove(at).since);
                config.block_list.push(BlockedSeries { since: before.unwrap_or(now), ..blocked.clone() });
            }
            Ok(())
        };
        self.change_config(&name, edit).await
    }

    /// Takes series off the block list. All of them must be on it.
    pub async fn unblock_series(&self, name: &str, series: &[TimeSeriesId]) -> Result<NamespaceRecord, EngineError> {
        self.check_ready()?;
        let name = self.registry.get(name)?.name.clone();
        let edit = |config: &mut NamespaceConfig| {
            for series in series {
                let known = config.block_list.iter().position(|known| known.series == *series);
                let known = known.ok_or_else(|| EngineError::NotBlocked { series: series.to_string() })?;
                config.block_list.remove(known);
            }
            Ok(())
        };
        self.change_config(&name, edit).await
    }

    /// The same for an edit that may find that it doesn't fit any more.
    pub(crate) async fn change_config(
        &self,
        name: &NamespaceName,
        edit: impl Fn(&mut NamespaceConfig) -> Result<(), EngineError>,
    ) -> Result<NamespaceRecord, EngineError> {
        let now = self.env.now();
        self.registry.change(name, |record| self.edit_record(record, &edit, now)).await?;
        self.wake_lifecycle.notify_one();
        self.namespace(name.as_str())
    }

    fn edit_record(
        &self,
        record: &mut NamespaceRecord,
        edit: impl Fn(&mut NamespaceConfig) -> Result<(), EngineError>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let notice = self.registry.notice();
        record.settle(now);
        let mut wanted = record.next.as_ref().map_or_else(|| record.config.clone(), |next| next.config.clone());
        edit(&mut wanted)?;
        let wanted = self.checked(wanted)?;
        if notice.is_zero() {
            record.replace_config(wanted, now);
            return Ok(());
        }
        apply_at_once(&wanted, &mut record.config);
        let same = record.config == wanted;
        record.next = (!same).then(|| NextConfig { at: now.saturating_add(notice), config: wanted });
        Ok(())
    }

    /// The settings, completed where others say what is meant; refused with every rule that they break.
    pub(crate) fn checked(&self, mut config: NamespaceConfig) -> Result<NamespaceConfig, EngineError> {
        let around = Surroundings { max_clock_skew: self.options.max_clock_skew, lease: self.options.lease };
        if let (None, Some(delete_after)) = (config.close_after, config.delete_after) {
            config.close_after = delete_after.checked_sub(config.least_drop_gap(&around));
        }
        let problems = config.problems(&around);
        if problems.is_empty() {
            return Ok(config);
        }
        let violation = |problem: anabranch_model::ConfigProblem| Violation {
            field: format!("config.{}", problem.field),
            reason: problem.reason,
            kind: ErrorKind::InvalidArgument,
        };
        Err(EngineError::Refused(problems.into_iter().map(violation).collect()))
    }
}

fn unfailing(edit: impl Fn(&mut NamespaceConfig)) -> impl Fn(&mut NamespaceConfig) -> Result<(), EngineError> {
    move |config| {
        edit(config);
        Ok(())
    }
}

/// What may differ between servers for a moment without harm.
fn apply_at_once(wanted: &NamespaceConfig, config: &mut NamespaceConfig) {
    let later = config.clone();
    *config = wanted.clone();
    config.seconds_per_slice = later.seconds_per_slice;
    config.seconds_per_bucket = later.seconds_per_bucket;
    config.event_buckets = later.event_buckets;
    config.accept_limit = later.accept_limit;
    config.drift_limit = later.drift_limit;
    config.seal_margin = later.seal_margin;
    config.write_slo = later.write_slo;
}
