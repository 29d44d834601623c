//! What a worker must know of a partition before it plans. Sealed time is stored as such before it is handed out (S3), and
//! nothing is planned where a backfill window may still bring events.

use anabranch_model::{Interval, Packing, SliceState, SplitStrategy};
use anabranch_split::{Compression, Form, Ground, Strategy, WidePartition};

use crate::{EngineError, NamespaceRecord, engine::Engine};

impl Engine {
    /// `None` when nothing may be planned there now: its slice is gone or closed, or a window is open.
    pub(crate) async fn ground(&self, partition: &WidePartition) -> Result<Option<Ground>, EngineError> {
        self.check_ready()?;
        self.heartbeat.check_vouched()?;
        let now = self.env.now();
        let notice = self.registry.notice();
        let seal = |record: &mut NamespaceRecord| {
            let Some(bucket) = bucket(record, partition) else { return Ok(None) };
            if record.may_be_backfilled(bucket, now, notice) {
                return Ok(None);
            }
            // What is sealed already needn't be written down again.
            if record.sealed_until < bucket.end {
                record.seal(now);
            }
            Ok(Some((bucket, record.sealed_until, record.splits.reopenings)))
        };
        let known = self.registry.get(partition.namespace.as_str())?;
        let Some((bucket, sealed_until, as_of)) = self.registry.change(&known.name, seal).await? else {
            return Ok(None);
        };
        #[cfg(feature = "plant")]
        let sealed_until = if anabranch_split::plant::is_planted(anabranch_split::plant::Bug::PlansPastTheSeal) {
            sealed_until.saturating_add(std::time::Duration::from_nanos(1))
        } else {
            sealed_until
        };
        let record = &self.registry.get(partition.namespace.as_str())?.record;
        let settings = record.config_at(now).split;
        let event_buckets = slice(record, partition).map_or(1, |slice| slice.settings.event_buckets);
        let compression = match settings.packing {
            Packing::Rows => None,
            Packing::Plain => Some(Compression::None),
            Packing::Lz4 => Some(Compression::Lz4),
            Packing::Zstd => Some(Compression::Zstd),
        };
        let (strategy, form) = match (settings.strategy, compression) {
            (SplitStrategy::EventBucket, _) => {
                (Strategy::EventBucket { pieces: 0, first_ordinal: 0, event_buckets }, Form::Rows)
            }
            (SplitStrategy::TimeRange, None) => (Strategy::TimeRange, Form::Rows),
            (SplitStrategy::TimeRange, Some(codec)) => {
                (Strategy::TimeRange, Form::Blocks { codec, block_bytes: settings.block_bytes })
            }
        };
        Ok(Some(Ground {
            bucket,
            sealed_until,
            threshold_bytes: settings.threshold_bytes,
            target_piece_bytes: settings.target_piece_bytes,
            as_of,
            event_buckets,
            strategy,
            form,
        }))
    }
}

fn slice<'a>(record: &'a NamespaceRecord, partition: &WidePartition) -> Option<&'a anabranch_model::Slice> {
    let open =
        |slice: &&anabranch_model::Slice| slice.state == SliceState::Open && slice.name() == partition.time_slice;
    record.slices.iter().find(open)
}

/// The time that a partition covers, if its slice is open.
pub(crate) fn bucket(record: &NamespaceRecord, partition: &WidePartition) -> Option<Interval> {
    let bucket = slice(record, partition)?.bucket_interval(partition.key().time_bucket);
    (!record.deleting && !bucket.is_empty()).then_some(bucket)
}

/// Whether a slice is open and has no such partition.
pub(crate) fn is_nowhere(record: &NamespaceRecord, partition: &WidePartition) -> bool {
    slice(record, partition).is_some() && !record.deleting && bucket(record, partition).is_none()
}
