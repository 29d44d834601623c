//! What the tuner decided for a namespace, with its evidence: one document, changed by compare-and-set.

use anabranch_model::{NamespaceName, Timestamp};
use anabranch_provision::tuner::{Decision, Direction, Proposal, Rules, Verdict};
use anabranch_store::{CasOutcome, MetaKey, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{EngineError, engine::Engine};

/// Decisions that are kept for each namespace.
pub const KEPT_DECISIONS: usize = 50;
/// Slices that didn't count, of which a decision says why.
const KEPT_UNCOUNTED: usize = 20;
const CHANGE_ATTEMPTS: usize = 8;

/// A decision, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningDecision {
    /// Counts the decisions of a namespace.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What was decided, from which evidence.
    pub decision: Decision,
    /// What became of it.
    pub outcome: DecisionOutcome,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DecisionOutcome {
    /// Nothing was to be changed.
    Kept,
    /// It waits for somebody to apply or reject it.
    Proposed,
    /// Slices to come have the proposed settings.
    Applied {
        /// When.
        at: Timestamp,
        /// Who did it: an operator, or `tuner`.
        by: String,
    },
    /// Somebody didn't want it. The same isn't proposed again.
    Rejected {
        /// When.
        at: Timestamp,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Later evidence, or other settings, made it void.
    Superseded {
        /// When.
        at: Timestamp,
    },
}

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    incarnation: u64,
    next_number: u64,
    /// Oldest first.
    pub(crate) decisions: Vec<TuningDecision>,
}

impl TuningDecision {
    /// What is proposed, where something is.
    pub fn proposal(&self) -> Option<&Proposal> {
        match &self.decision.verdict {
            Verdict::Propose(proposal) => Some(proposal),
            Verdict::Keep { .. } => None,
        }
    }
}

impl History {
    /// The proposal that waits.
    pub(crate) fn pending(&mut self) -> Option<&mut TuningDecision> {
        self.decisions.iter_mut().rev().find(|decision| decision.outcome == DecisionOutcome::Proposed)
    }

    /// The latest proposal that was applied.
    pub(crate) fn applied(&self) -> Option<&Proposal> {
        let applied = |it: &&TuningDecision| matches!(it.outcome, DecisionOutcome::Applied { .. });
        self.decisions.iter().rev().find(applied).and_then(TuningDecision::proposal)
    }

    /// Where the latest changes went, and how many in a row since sizes were last near enough to the target.
    pub(crate) fn run(&self, rules: &Rules) -> (Option<Direction>, u32) {
        let (mut direction, mut count) = (None, 0);
        for kept in self.decisions.iter().rev() {
            match (&kept.outcome, kept.proposal()) {
                (DecisionOutcome::Applied { .. }, Some(proposal)) => {
                    if *direction.get_or_insert(proposal.direction) != proposal.direction {
                        break;
                    }
                    count += 1;
                }
                _ if kept.decision.is_near_target(rules) => {
                    // It still says where the latest change went, for the reversal.
                    let earlier = self.applied().map(|proposal| proposal.direction);
                    return (direction.or(earlier), count);
                }
                _ => {}
            }
        }
        (direction, count)
    }

    /// Whether the very same change was rejected, and nothing changed since.
    pub(crate) fn is_rejected(&self, proposal: &Proposal) -> bool {
        let of_proposals = self.decisions.iter().rev().filter(|kept| kept.proposal().is_some());
        let mut latest = of_proposals.filter(|kept| !matches!(kept.outcome, DecisionOutcome::Superseded { .. }));
        latest.next().is_some_and(|kept| {
            let same = kept.proposal().is_some_and(|known| same_change(known, proposal));
            same && matches!(kept.outcome, DecisionOutcome::Rejected { .. })
        })
    }

    /// Takes a decision down. One that says the same as the latest from the same slices isn't taken down twice; a proposal that
    /// waits gets the later evidence.
    pub(crate) fn record(&mut self, mut decision: Decision, at: Timestamp) -> TuningDecision {
        let surplus = decision.uncounted.len().saturating_sub(KEPT_UNCOUNTED);
        decision.uncounted.drain(..surplus);
        if let Verdict::Propose(proposal) = &decision.verdict
            && let Some(pending) = self.pending()
            && pending.proposal().is_some_and(|known| same_change(known, proposal))
        {
            pending.decision = decision;
            return pending.clone();
        }
        if let Some(pending) = self.pending() {
            pending.outcome = DecisionOutcome::Superseded { at };
        }
        if let Some(latest) = self.decisions.last_mut()
            && latest.outcome == DecisionOutcome::Kept
            && latest.decision.verdict == decision.verdict
            && latest.decision.counted == decision.counted
        {
            latest.decision.uncounted.clone_from(&decision.uncounted);
            return TuningDecision { decision, ..latest.clone() };
        }
        let outcome = match decision.verdict {
            Verdict::Keep { .. } => DecisionOutcome::Kept,
            Verdict::Propose(_) => DecisionOutcome::Proposed,
        };
        let kept = TuningDecision { number: self.next_number.max(1), at, decision, outcome };
        self.next_number = kept.number + 1;
        self.decisions.push(kept.clone());
        self.forget_old();
        kept
    }

    /// What was changed, and what waits, is kept longer than what was not.
    fn forget_old(&mut self) {
        while self.decisions.len() > KEPT_DECISIONS {
            let kept = self.decisions.iter().position(|kept| kept.outcome == DecisionOutcome::Kept);
            self.decisions.remove(kept.unwrap_or(0));
        }
    }
}

/// Whether two proposals lead to the same settings.
pub(crate) fn same_change(one: &Proposal, other: &Proposal) -> bool {
    let what = |it: &Proposal| (it.old_seconds_per_slice, it.new_seconds_per_slice, it.old_settings, it.new_settings);
    what(one) == what(other)
}

fn key(name: &NamespaceName) -> MetaKey {
    MetaKey::new(super::scope(name), "history")
}

impl Engine {
    /// What the tuner decided for this very namespace so far.
    pub(crate) async fn tuner_history(&self, name: &NamespaceName, incarnation: u64) -> Result<History, EngineError> {
        Ok(self.load_history(name, incarnation).await?.0)
    }

    async fn load_history(
        &self,
        name: &NamespaceName,
        incarnation: u64,
    ) -> Result<(History, Option<anabranch_store::Version>), EngineError> {
        let Some(document) = self.store.load(&key(name)).await? else {
            return Ok((History { incarnation, ..History::default() }, None));
        };
        let history: History = serde_json::from_slice(&document.value).map_err(|error| StoreError::Corrupt {
            reason: format!("the tuner's decisions can't be read (perhaps written by a newer version): {error}"),
        })?;
        let same = history.incarnation == incarnation;
        let history = if same { history } else { History { incarnation, ..History::default() } };
        Ok((history, Some(document.version)))
    }

    /// Changes the history. `apply` may be called several times, on what is stored at that moment.
    pub(crate) async fn change_history<T>(
        &self,
        name: &NamespaceName,
        incarnation: u64,
        apply: impl Fn(&mut History) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        for _ in 0..CHANGE_ATTEMPTS {
            let (before, version) = self.load_history(name, incarnation).await?;
            let mut after = before.clone();
            let result = apply(&mut after)?;
            if after == before {
                return Ok(result);
            }
            let value = Bytes::from(serde_json::to_vec(&after).expect("decisions are plain data"));
            match self.store.compare_and_set(&key(name), version, Some(value)).await? {
                CasOutcome::Applied(_) => return Ok(result),
                CasOutcome::Conflict(_) => {}
            }
        }
        Err(EngineError::Contended { name: name.clone() })
    }
}
