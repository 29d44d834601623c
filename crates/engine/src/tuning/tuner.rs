//! The slice tuner: a background task that compares what was measured with the density target and proposes other settings for
//! slices to come, or applies them. What operators ask of it is here, too.

use anabranch_model::{NamespaceName, Slice, TunerMode};
use anabranch_provision::tuner::{self, Current, Decision, Proposal, ReadEvidence, SliceEvidence, Verdict};

use crate::{
    EngineError, NamespaceRecord, SliceSizes,
    engine::Engine,
    registry::Namespace,
    tasks::INTERVAL,
    tuning::history::{DecisionOutcome, History, TuningDecision},
};

/// Who applies what nobody was asked about.
const TUNER: &str = "tuner";

impl Engine {
    /// Tunes until the engine stops.
    pub(crate) async fn run_tuner(&self) {
        let mut waits_for = INTERVAL.to_owned();
        while !self.is_stopping() {
            self.pause("tuner", &waits_for, self.tuning.options.tune_interval).await;
            match self.tune().await {
                Ok(Some(namespaces)) => {
                    self.tasks.ended("tuner", &format!("looked at {namespaces} namespaces"), self.env.now());
                    INTERVAL.clone_into(&mut waits_for);
                }
                Ok(None) => {
                    self.tasks.ended("tuner", "left it to another server", self.env.now());
                    waits_for = self.tuning.tuning.waits_for();
                }
                Err(error) => self.task_failed("tuner", &error),
            }
        }
    }

    /// One look at every namespace; answers how many. `None` where another server does it.
    async fn tune(&self) -> Result<Option<usize>, EngineError> {
        self.check_ready()?;
        let ours = self.tuning.tuning.take().await?;
        let mut looked = 0;
        for namespace in self.registry.snapshot().values().filter(|known| !known.record.deleting) {
            let mode = namespace.record.config_at(self.env.now()).tuner;
            // Reads of every server count, whoever decides.
            let reads = self.store_reads(namespace).await?;
            if !ours || mode == TunerMode::Off {
                continue;
            }
            self.tune_namespace(namespace, mode, reads).await?;
            looked += 1;
        }
        Ok(ours.then_some(looked))
    }

    async fn store_reads(&self, namespace: &Namespace) -> Result<Option<ReadEvidence>, EngineError> {
        let incarnation = namespace.record.incarnation;
        let stored = self.tuning.reads.store(self.store.as_ref(), &namespace.name, incarnation, self.env.now());
        Ok(stored.await?)
    }

    async fn tune_namespace(
        &self,
        namespace: &Namespace,
        mode: TunerMode,
        reads: Option<ReadEvidence>,
    ) -> Result<(), EngineError> {
        let decision = self.decide(namespace, reads).await?;
        let proposed = decision.outcome == DecisionOutcome::Proposed;
        if proposed && mode == TunerMode::Apply {
            self.apply_decision(&namespace.name, decision.number, TUNER).await?;
        }
        self.retune_slices_ahead(&namespace.name).await?;
        Ok(())
    }

    /// Decides, and takes it down.
    async fn decide(&self, namespace: &Namespace, reads: Option<ReadEvidence>) -> Result<TuningDecision, EngineError> {
        let (name, record) = (&namespace.name, &namespace.record);
        let sizes = self.slice_sizes(name.as_str(), None).await?;
        let evidence: Vec<SliceEvidence> = sizes.iter().filter_map(|(slice, sizes)| evidence(slice, sizes)).collect();
        let now = self.env.now();
        self.change_history(name, record.incarnation, |history| {
            let current = current(record, history, &self.tuning.options.rules);
            note_what_is_in_force(history, &current, now);
            let mut decision = tuner::decide(&current, &evidence, reads, &self.tuning.options.rules);
            if let Verdict::Propose(proposal) = &decision.verdict
                && history.is_rejected(proposal)
            {
                decision.verdict = Verdict::Keep { reason: format!("Rejected before: {proposal}") };
            }
            Ok(history.record(decision, now))
        })
        .await
    }

    /// Decides now, whatever the namespace lets the tuner do by itself.
    pub async fn propose_tuning(&self, namespace: &str) -> Result<TuningDecision, EngineError> {
        self.check_ready()?;
        let namespace = self.registry.get(namespace)?;
        let reads = self.store_reads(&namespace).await?;
        self.decide(&namespace, reads).await
    }

    /// What was decided for a namespace, latest first.
    pub async fn tuning_decisions(&self, namespace: &str) -> Result<Vec<TuningDecision>, EngineError> {
        let namespace = self.registry.get(namespace)?;
        let mut history = self.tuner_history(&namespace.name, namespace.record.incarnation).await?;
        history.decisions.reverse();
        Ok(history.decisions)
    }

    /// Gives slices that no write can reach yet the settings that wait, or those of the decision with this number.
    pub async fn apply_tuning(
        &self,
        namespace: &str,
        number: Option<u64>,
        by: &str,
    ) -> Result<TuningDecision, EngineError> {
        self.check_ready()?;
        let namespace = self.registry.get(namespace)?;
        let waiting = self.waiting(&namespace, number).await?;
        let applied = self.apply_decision(&namespace.name, waiting.number, by).await?;
        self.retune_slices_ahead(&namespace.name).await?;
        Ok(applied)
    }

    /// Says no to the proposal that waits, or to that with this number. The same isn't proposed again.
    pub async fn reject_tuning(
        &self,
        namespace: &str,
        number: Option<u64>,
        by: &str,
        reason: &str,
    ) -> Result<TuningDecision, EngineError> {
        let namespace = self.registry.get(namespace)?;
        let waiting = self.waiting(&namespace, number).await?;
        let outcome = DecisionOutcome::Rejected { at: self.env.now(), by: by.to_owned(), reason: reason.to_owned() };
        self.conclude(&namespace.name, namespace.record.incarnation, waiting.number, &outcome).await
    }

    async fn waiting(&self, namespace: &Namespace, number: Option<u64>) -> Result<TuningDecision, EngineError> {
        let mut history = self.tuner_history(&namespace.name, namespace.record.incarnation).await?;
        let name = &namespace.name;
        match (history.pending().cloned(), number) {
            (Some(waiting), None) => Ok(waiting),
            (Some(waiting), Some(number)) if waiting.number == number => Ok(waiting),
            (Some(waiting), Some(number)) => {
                let reason = format!("decision {number} of `{name}` doesn't wait; {} does", waiting.number);
                Err(EngineError::invalid("number", reason))
            }
            (None, _) => Err(EngineError::NothingProposed { namespace: name.clone() }),
        }
    }

    /// Changes the settings for slices to come, then takes down that it was done. Cut off between the two, the next look finds the
    /// settings in force.
    async fn apply_decision(&self, name: &NamespaceName, number: u64, by: &str) -> Result<TuningDecision, EngineError> {
        let incarnation = self.registry.get(name.as_str())?.record.incarnation;
        let mut history = self.tuner_history(name, incarnation).await?;
        let waiting = history.pending().filter(|pending| pending.number == number);
        let Some(proposal) = waiting.and_then(|pending| pending.proposal().cloned()) else {
            return Err(EngineError::NothingProposed { namespace: name.clone() });
        };
        self.change_config(name, |config| {
            let found = (config.seconds_per_slice, config.partition_settings());
            if found != (proposal.old_seconds_per_slice, proposal.old_settings) {
                let reason = "the settings were changed since it was proposed; `anabranch tune propose` looks again";
                return Err(EngineError::invalid("number", reason));
            }
            config.seconds_per_slice = proposal.new_seconds_per_slice;
            config.seconds_per_bucket = proposal.new_settings.seconds_per_bucket;
            config.event_buckets = proposal.new_settings.event_buckets;
            Ok(())
        })
        .await?;
        tracing::info!(namespace = %name, %proposal, by, "slices to come get other settings");
        self.metrics.tunings.with_label_values(&[name.as_str()]).inc();
        let outcome = DecisionOutcome::Applied { at: self.env.now(), by: by.to_owned() };
        self.conclude(name, incarnation, number, &outcome).await
    }

    async fn conclude(
        &self,
        name: &NamespaceName,
        incarnation: u64,
        number: u64,
        outcome: &DecisionOutcome,
    ) -> Result<TuningDecision, EngineError> {
        self.change_history(name, incarnation, |history| {
            let found = history.decisions.iter_mut().find(|kept| kept.number == number);
            let Some(kept) = found.filter(|kept| kept.outcome == DecisionOutcome::Proposed) else {
                return Err(EngineError::NothingProposed { namespace: name.clone() });
            };
            kept.outcome = outcome.clone();
            Ok(kept.clone())
        })
        .await
    }
}

/// What new slices have, or will have, and how they came to it.
fn current(record: &NamespaceRecord, history: &History, rules: &tuner::Rules) -> Current {
    let config = record.next.as_ref().map_or(&record.config, |next| &next.config);
    let settings = config.partition_settings();
    let in_force = |proposal: &Proposal| {
        proposal.new_settings == settings && proposal.new_seconds_per_slice == config.seconds_per_slice
    };
    // Somebody who changes settings by hand begins anew.
    let by_tuner = history.applied().is_some_and(in_force);
    let (latest_change, changes_in_a_row) = if by_tuner { history.run(rules) } else { (None, 0) };
    Current {
        seconds_per_slice: config.seconds_per_slice,
        settings,
        retention_seconds: config.close_after.or(config.delete_after).map(|kept| kept.as_secs()),
        latest_change,
        changes_in_a_row,
    }
}

/// A proposal whose settings are in force was applied, also where its maker couldn't say so any more.
fn note_what_is_in_force(history: &mut History, current: &Current, now: anabranch_model::Timestamp) {
    let Some(pending) = history.pending() else { return };
    let there = pending.proposal().is_some_and(|proposal| {
        (proposal.new_seconds_per_slice, proposal.new_settings) == (current.seconds_per_slice, current.settings)
    });
    if there {
        pending.outcome = DecisionOutcome::Applied { at: now, by: TUNER.to_owned() };
    }
}

fn evidence(slice: &Slice, sizes: &Option<SliceSizes>) -> Option<SliceEvidence> {
    let sizes = sizes.as_ref()?;
    Some(SliceEvidence {
        slice: slice.name(),
        seconds_per_slice: u32::try_from(slice.interval.length().as_secs()).unwrap_or(u32::MAX),
        settings: slice.settings,
        partitions: sizes.counted.partitions(),
        p99_bytes: sizes.counted.bytes.percentile(0.99).unwrap_or(0),
        ended: sizes.measured >= slice.interval.end,
        backfilled: sizes.backfilled,
    })
}

/// For those who read a decision: what it comes to, in a sentence.
pub fn describe(decision: &Decision) -> String {
    match &decision.verdict {
        Verdict::Keep { reason } => reason.clone(),
        Verdict::Propose(proposal) => proposal.to_string(),
    }
}
