//! Gives slices that were made ahead of time the settings that new slices get: only those that no write can have reached, nor will
//! before every server knows (T1). They are empty, so that nothing moves.

use anabranch_model::{
    NamespaceName, Slice, SliceMap, SliceState, TableName, Timestamp, config::MAX_SLICES, slice::doublings,
};

use crate::{EngineError, NamespaceRecord, engine::Engine};

/// Slices to be taken out, and those that come instead.
#[derive(Debug, PartialEq, Eq)]
struct Replacement {
    out: Vec<Slice>,
    instead: Vec<Slice>,
}

impl Engine {
    /// Replaces slices ahead where the tuner changed what new ones get; answers how many there are instead.
    pub(crate) async fn retune_slices_ahead(&self, name: &NamespaceName) -> Result<usize, EngineError> {
        let namespace = self.registry.get(name.as_str())?;
        let history = self.tuner_history(name, namespace.record.incarnation).await?;
        let config = namespace.record.config_at(self.env.now());
        let in_force = history.applied().is_some_and(|proposal| {
            proposal.new_settings == config.partition_settings()
                && proposal.new_seconds_per_slice == config.seconds_per_slice
        });
        if in_force { self.replace_slices_ahead(name).await } else { Ok(0) }
    }

    /// Gives slices that no write can reach yet the settings that new ones get; answers how many there are instead.
    pub async fn replace_slices_ahead(&self, name: &NamespaceName) -> Result<usize, EngineError> {
        self.check_ready()?;
        self.heartbeat.check_vouched()?;
        let namespace = self.registry.get(name.as_str())?;
        let planned = replacement(&namespace.record, self.unreachable_from(&namespace.record), self.env.now())?;
        if planned.out == planned.instead {
            return Ok(0);
        }
        // As ever: a slice that can be seen can be used.
        for slice in &planned.instead {
            self.lifecycle.make_table(&slice.table(name)).await?;
        }
        let replaced = self
            .registry
            .change(name, |record| {
                // T1: a clock that was set back meanwhile would take slices for unreachable that writes are in.
                self.heartbeat.check_vouched()?;
                let found = replacement(record, self.unreachable_from(record), self.env.now())?;
                if record.deleting || found != planned {
                    return Ok(false); // somebody was quicker, or time has passed: the next look plans anew
                }
                found.out.iter().for_each(|slice| record.slices.remove(slice.interval));
                for slice in found.instead {
                    record.slices.insert(slice)?;
                }
                Ok(true)
            })
            .await?;
        self.drop_what_is_not_needed(name, &planned).await?;
        Ok(if replaced { planned.instead.len() } else { 0 })
    }

    /// Slices that begin later can't have been reached by any write, nor will before the change is everywhere.
    fn unreachable_from(&self, record: &NamespaceRecord) -> Timestamp {
        // The change itself takes its time: an answer that is lost is asked for once more.
        let under_way = self.options.meta_timeout * 2;
        let notice = self.registry.notice() + under_way;
        #[cfg(feature = "plant")]
        if anabranch_split::plant::is_planted(anabranch_split::plant::Bug::TunesTooLate) {
            return self.env.now();
        }
        record.reachable_until(self.env.now(), notice, self.options.max_clock_skew)
    }

    /// Empty tables that no slice has, whether the replacement was done or not.
    async fn drop_what_is_not_needed(&self, name: &NamespaceName, planned: &Replacement) -> Result<(), EngineError> {
        let namespace = self.registry.get(name.as_str())?;
        let used: Vec<TableName> = namespace.record.slices.iter().map(|slice| slice.table(name)).collect();
        for slice in planned.out.iter().chain(&planned.instead) {
            let table = slice.table(name);
            if !used.contains(&table) {
                self.lifecycle.drop_table(&table).await?;
            }
        }
        Ok(())
    }
}

/// What the slices that begin after `unreachable_from` would be if they were made now.
fn replacement(
    record: &NamespaceRecord,
    unreachable_from: Timestamp,
    now: Timestamp,
) -> Result<Replacement, EngineError> {
    let ahead = |slice: &&Slice| slice.interval.start > unreachable_from && slice.state == SliceState::Open;
    let out: Vec<Slice> = record.slices.iter().filter(ahead).cloned().collect();
    let (Some(first), Some(last)) = (out.first(), out.last()) else {
        return Ok(Replacement { out, instead: Vec::new() });
    };
    let mut slices: SliceMap = record.slices.clone();
    out.iter().for_each(|slice| slices.remove(slice.interval));
    let config = record.config_at(now);
    let mut instead = Vec::new();
    let mut time = first.interval.start;
    while time < last.interval.end {
        let longer = doublings(slices.len(), MAX_SLICES);
        let slice = slices.plan(time, config.seconds_per_slice, config.partition_settings(), MAX_SLICES, longer)?;
        time = slice.interval.end;
        slices.insert(slice.clone())?;
        instead.push(slice);
    }
    Ok(Replacement { out, instead })
}
