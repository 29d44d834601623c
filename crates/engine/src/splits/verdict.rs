//! What follows from a difference between a split and its original. It is read once more before it counts; then it is kept, the
//! split is not used any more, and unless the original merely has more, the whole namespace trusts splits less.

use std::sync::Arc;

use anabranch_model::{NamespaceName, ReadMode, Row, Timestamp};
use anabranch_split::{Difference, Doubt, Generation, Served, WidePartition, WideRow};
use anabranch_store::{CasOutcome, MetaKey, StoreError};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{EngineError, NamespaceRecord, engine::Engine};

/// Differences that are kept for each namespace.
pub const KEPT_DIFFERENCES: usize = 100;
/// Of each side's value so many bytes are kept.
const KEPT_BYTES: usize = 4096;

/// Who noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// A comparison beside a read.
    Comparison,
    /// The recheck of a whole segment.
    Recheck,
}

/// Something that is believed to differ.
pub(crate) struct Suspect {
    pub(crate) doubt: Doubt,
    pub(crate) found_by: FoundBy,
}

/// A confirmed difference, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDifference {
    /// When it was confirmed.
    pub at: Timestamp,
    /// In which partition.
    pub partition: WidePartition,
    /// The time of the event.
    pub event_time: Timestamp,
    /// The id of the event.
    pub event_id: String,
    /// Who noticed.
    pub found_by: FoundBy,
    /// What is wrong with a piece that can't be read.
    pub damage: Option<String>,
    /// What the original holds there.
    pub original: Option<KeptRow>,
    /// What the split holds there.
    pub split: Option<KeptRow>,
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRow {
    /// Which item.
    pub event_item_key: String,
    /// The beginning of its value, in base64.
    pub value: String,
    /// How long the value is.
    pub value_bytes: usize,
    /// Its metadata, in base64.
    pub metadata: Option<String>,
}

impl KeptRow {
    fn of(row: &Row) -> Self {
        let head = |bytes: &Bytes| BASE64_STANDARD.encode(&bytes[..bytes.len().min(KEPT_BYTES)]);
        KeptRow {
            event_item_key: row.item.key.as_str().to_owned(),
            value: head(&row.item.value),
            value_bytes: row.item.value.len(),
            metadata: row.item.metadata.as_ref().map(head),
        }
    }
}

impl Engine {
    /// Reads a suspected difference once more, of the record as it is now. Answers what is certain.
    pub(crate) async fn confirm(&self, suspect: Suspect) -> Result<Option<KeptDifference>, EngineError> {
        let partition = suspect.doubt.served.row().partition.clone();
        let Some(loaded) = self.splits.records.load(&partition).await? else { return Ok(None) };
        let known = suspect.doubt.served.row();
        if loaded.row.generation != known.generation || loaded.row.served.is_empty() {
            self.splits.router.forget(&partition);
            return Ok(None); // it isn't served any more
        }
        let generation = loaded.row.generation;
        // Of what is there now, that which was doubted.
        let least = suspect.doubt.served.segments().map(|(_, segment)| segment.as_of).min().unwrap_or(0);
        let Some(served) = Served::since(Arc::new(loaded.row), least) else { return Ok(None) };
        let doubt = Doubt { served: Arc::new(served), ..suspect.doubt };
        let comparison = self.splits.scrubber.compare_everywhere(&doubt).await?;
        let Some(difference) = comparison.difference else {
            self.metrics.comparisons.with_label_values(&["not_confirmed"]).inc();
            return Ok(None);
        };
        // A window that was opened meanwhile explains it: then it is compared again when that is over.
        let changing = |record: &mut NamespaceRecord| Ok(self.why_not_rechecked(record, &partition).is_some());
        if self.registry.change(&partition.namespace, changing).await? {
            self.metrics.comparisons.with_label_values(&["inconclusive"]).inc();
            return Ok(None);
        }
        self.condemn(&partition, generation, &difference, suspect.found_by).await.map(Some)
    }

    async fn condemn(
        &self,
        partition: &WidePartition,
        generation: Generation,
        difference: &Difference,
        found_by: FoundBy,
    ) -> Result<KeptDifference, EngineError> {
        let kept = KeptDifference {
            at: self.env.now(),
            partition: partition.clone(),
            event_time: difference.position.time,
            event_id: difference.position.id.as_str().to_owned(),
            found_by,
            damage: difference.damage.clone(),
            original: difference.original.as_ref().map(KeptRow::of),
            split: difference.split.as_ref().map(KeptRow::of),
        };
        let late = difference.only_in_original();
        let what = if late { "only_in_original" } else { "differs" };
        self.metrics.comparisons.with_label_values(&[what]).inc();
        if !late {
            let found_by = match found_by {
                FoundBy::Comparison => "comparison",
                FoundBy::Recheck => "recheck",
            };
            self.metrics.checksum_mismatches.with_label_values(&[found_by]).inc();
        }
        tracing::error!(?partition, position = ?difference.position, damage = ?difference.damage, what, "a split differs");
        let series = &partition.time_series_id;
        let reason = match (&difference.damage, late) {
            (Some(damage), _) => format!("a piece of {series} can't be read: {damage}"),
            (None, true) => format!("the original of {series} has more than was split, at {:?}", difference.position),
            (None, false) => format!(
                "the split of {series} differed from the original at {}, event {}",
                difference.position.time, difference.position.id
            ),
        };
        // First the use ends, then it is talked about.
        if !late {
            self.demote(&partition.namespace, &reason).await?;
        }
        let invalidate = |row: &mut WideRow| {
            // Others may have found the same: a generation is given up once.
            let same = row.generation == generation && !row.served.is_empty();
            if same {
                row.invalidate(&reason);
            }
            same
        };
        self.splits.records.change(partition, invalidate).await?;
        self.splits.router.forget(partition);
        self.splits.payments.forget(partition);
        self.splits.doubts.forget_clean(&partition.namespace);
        self.keep(&kept).await?;
        Ok(kept)
    }

    async fn demote(&self, name: &NamespaceName, reason: &str) -> Result<(), EngineError> {
        let now = self.env.now();
        let demoted = self
            .registry
            .change(name, |record| {
                let serves = record.splits.mode.serves_splits();
                Ok(serves && record.splits.change_mode(ReadMode::Comparison, "rule", reason, now))
            })
            .await?;
        if demoted {
            self.metrics.mode_changes.with_label_values(&[name.as_str(), "COMPARISON"]).inc();
        }
        Ok(())
    }

    async fn keep(&self, kept: &KeptDifference) -> Result<(), EngineError> {
        let scope = scope(&kept.partition.namespace);
        let name = format!("{:020}.{:08x}", kept.at.nanos(), self.env.random_u64() as u32);
        let value = Bytes::from(serde_json::to_vec(kept).expect("differences are plain data"));
        self.store.compare_and_set(&MetaKey::new(scope.clone(), name), None, Some(value)).await?;
        let all = self.store.list(&scope, None, 2 * KEPT_DIFFERENCES).await?;
        let surplus = all.len().saturating_sub(KEPT_DIFFERENCES);
        for (name, document) in all.into_iter().take(surplus) {
            let removed: Result<CasOutcome, StoreError> =
                self.store.compare_and_set(&MetaKey::new(scope.clone(), name), Some(document.version), None).await;
            removed?;
        }
        Ok(())
    }

    /// Differences that were found in a namespace, latest first.
    pub async fn split_differences(&self, namespace: &str) -> Result<Vec<KeptDifference>, EngineError> {
        let name = self.registry.get(namespace)?.name.clone();
        let mut found = Vec::new();
        for (_, document) in self.store.list(&scope(&name), None, 2 * KEPT_DIFFERENCES).await? {
            found.extend(serde_json::from_slice::<KeptDifference>(&document.value).ok());
        }
        found.reverse();
        Ok(found)
    }
}

pub(crate) fn scope(namespace: &NamespaceName) -> String {
    format!("split_difference/{namespace}")
}
