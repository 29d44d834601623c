//! Sees every change of a split record and of a namespace's slices at the moment it is made, and every write to an original, and
//! checks S2, S3, S4, S5, S7 and T1 there and then.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_engine::NamespaceRecord;
use anabranch_model::{Interval, NamespaceName, PartitionKey, Slice, SliceState, TableName, Timestamp};
use anabranch_runtime::Env;
use anabranch_split::{
    Generation, Piece, Segment, State, WidePartition, WideRow,
    record::{Plan, Target},
};
use anabranch_store::{MemoryStore, PartitionBatch};
use tokio::sync::Notify;

use crate::{
    oracle::Violation,
    pieces::{Flaw, compare, namespace_record, target},
    plan::MAX_CLOCK_SKEW,
    trace::Trace,
};

/// Ends of segments that clients are told of.
const KEPT_BOUNDS: usize = 12;

/// One life of a server: another one after every start.
pub(crate) type Life = u64;

/// Whoever watches over all split records of a world.
pub(crate) struct Witness {
    env: Env,
    trace: Trace,
    failed: Arc<Notify>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    violation: Option<Violation>,
    /// Which life of a server each worker belongs to.
    workers: BTreeMap<String, Life>,
    /// What every piece that was ever planned must hold (S7).
    pieces: BTreeMap<(WidePartition, Generation, u32), Piece>,
    /// When which time of an original was written to.
    writes: BTreeMap<(TableName, PartitionKey), Vec<Touch>>,
    crashed: Vec<Timestamp>,
    /// When the last of the backfill windows so far closes.
    windows_until: Option<Timestamp>,
    bounds: VecDeque<(NamespaceName, Timestamp)>,
    figures: Figures,
}

struct Touch {
    at: Timestamp,
    oldest: Timestamp,
    newest: Timestamp,
}

/// What happened to splits in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Segments that came to be served.
    pub completed: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Leases taken from a worker that had not let go.
    pub taken_over: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Records whose segments were taken out of use.
    pub invalidated: u64,
    /// Segments added to a partition that had one.
    pub extended: u64,
    /// Slices that were taken out because they got other settings before any write reached them.
    pub retuned: u64,
    /// Servers that crashed in the middle of a backfill.
    pub crashed_in_backfill: u64,
}

impl Witness {
    pub(crate) fn new(env: Env, trace: Trace, failed: Arc<Notify>) -> Self {
        Witness { env, trace, failed, inside: Mutex::default() }
    }

    /// Never held over an await.
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first broken promise.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.inside().violation.clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        self.inside().figures
    }

    /// Where segments of a namespace end, lately.
    pub(crate) fn bounds(&self, namespace: &NamespaceName) -> Vec<Timestamp> {
        self.inside().bounds.iter().filter(|(of, _)| of == namespace).map(|(_, bound)| *bound).collect()
    }

    /// A batch goes into the store now.
    pub(crate) fn writes(&self, batch: &PartitionBatch) {
        if batch.table.pieces_of().is_some() {
            return;
        }
        let times = || batch.rows.iter().map(|row| row.position.time);
        let (Some(oldest), Some(newest)) = (times().min(), times().max()) else { return };
        let touch = Touch { at: self.env.now(), oldest, newest };
        self.inside().writes.entry((batch.table.clone(), batch.partition.clone())).or_default().push(touch);
    }

    /// The store lost what wasn't synced.
    pub(crate) fn store_crashed(&self) {
        let now = self.env.now();
        self.inside().crashed.push(now);
    }

    /// A backfill window is opened, until then.
    pub(crate) fn window_opens(&self, until: Timestamp) {
        let windows_until = &mut self.inside().windows_until;
        *windows_until = (*windows_until).max(Some(until));
    }

    /// A server dies in the middle of what it does.
    pub(crate) fn server_crashed(&self) {
        let now = self.env.now();
        let mut inside = self.inside();
        inside.figures.crashed_in_backfill += u64::from(inside.windows_until > Some(now));
    }

    /// T1: a slice that is taken out of a namespace's record, or gets other settings, was never written to. Slices that age out
    /// are closed and dropped before.
    pub(crate) fn changes_slices(&self, name: &str, before: &NamespaceRecord, after: &NamespaceRecord) {
        if before.incarnation != after.incarnation {
            return;
        }
        let Ok(name) = NamespaceName::new(name) else { return };
        let open = before.slices.iter().filter(|slice| slice.state == SliceState::Open);
        let same =
            |old: &&Slice| after.slices.iter().any(|new| new.interval == old.interval && new.settings == old.settings);
        for slice in open.filter(|slice| !same(slice)) {
            let table = slice.table(&name);
            let mut inside = self.inside();
            inside.figures.retuned += 1;
            if inside.writes.keys().any(|(written, _)| *written == table) {
                let what = format!("the slice {} of {name} gets other settings though it was written to", slice.name());
                inside.violation.get_or_insert(Violation::new("T1", what));
                self.failed.notify_one();
            }
        }
    }

    /// Whether a span of an original may have changed since a moment by some server's clock.
    fn changed_since(&self, partition: &WidePartition, span: Interval, since: Timestamp) -> bool {
        let since = since.saturating_sub(MAX_CLOCK_SKEW);
        let inside = self.inside();
        let touches = inside.writes.get(&(partition.table(), partition.key()));
        let touched = touches
            .into_iter()
            .flatten()
            .any(|touch| touch.at >= since && touch.oldest < span.end && touch.newest >= span.start);
        touched || inside.crashed.iter().any(|at| *at >= since)
    }

    /// A change of a record is made now, by this life of a server.
    pub(crate) async fn changes(&self, store: &MemoryStore, before: Option<&WideRow>, after: &WideRow, life: Life) {
        self.note(before, after, life);
        if let Err(violation) = self.judge(store, before, after, life).await {
            self.report(after, &violation);
        }
    }

    /// A change of a namespace's record is made now. S3: nobody seals what a server with a good clock may still be writing to.
    pub(crate) fn seals(&self, name: &str, before: &NamespaceRecord, after: &NamespaceRecord) {
        let latest = self.env.now().saturating_add(MAX_CLOCK_SKEW);
        let bound = before.sealable_until(latest);
        if after.sealed_until > before.sealed_until && after.sealed_until > bound {
            let what = format!("{name} is sealed until {}, though only {bound} may be", after.sealed_until);
            self.trace.log("witness", format_args!("VIOLATION of S3: {what}"));
            self.inside().violation.get_or_insert(Violation::new("S3", what));
            self.failed.notify_one();
        }
    }

    /// A change of a record is made, and durable.
    pub(crate) fn changed(&self, after: &WideRow) {
        if let Err(violation) = self.check_keys(after) {
            self.report(after, &violation);
        }
    }

    fn report(&self, row: &WideRow, violation: &Violation) {
        let what = format!("{}: {}", name(&row.partition), violation.what);
        self.trace.log("witness", format_args!("VIOLATION of {}: {what}", violation.invariant));
        self.inside().violation.get_or_insert(Violation { what, invariant: violation.invariant });
        self.failed.notify_one();
    }

    fn note(&self, before: Option<&WideRow>, after: &WideRow, life: Life) {
        let from = before.map_or("nothing", |before| before.state.name());
        let worker = after.lease.as_ref().map_or("nobody", |lease| lease.worker.as_str());
        let reason = match &after.state {
            State::Failed(failure) => failure.reason.as_str(),
            State::Parked { reason, .. } | State::Invalidated { reason } => reason.as_str(),
            _ => "",
        };
        self.trace.log(
            "witness",
            format_args!(
                "{} {from} → {} {reason}, epoch {}, generation {}, {} served, held by {worker}",
                name(&after.partition),
                after.state.name(),
                after.epoch.0,
                after.generation.0,
                after.served.len(),
            ),
        );
        let mut inside = self.inside();
        let Some(before) = before else { return };
        if let Some(lease) = after.lease.as_ref().filter(|_| after.epoch > before.epoch) {
            inside.workers.insert(lease.worker.clone(), life);
            inside.figures.taken_over += u64::from(before.lease.is_some());
        }
        inside.figures.failed += u64::from(matches!(after.state, State::Failed(_)));
        inside.figures.invalidated += u64::from(after.served.is_empty() && !before.served.is_empty());
        if after.served.len() > before.served.len()
            && let Some(segment) = after.served.last()
        {
            inside.figures.completed += 1;
            inside.figures.pieces += segment.pieces.len() as u64;
            inside.figures.extended += u64::from(!before.served.is_empty());
            if inside.bounds.len() == KEPT_BOUNDS {
                inside.bounds.pop_front();
            }
            inside.bounds.push_back((after.partition.namespace.clone(), segment.span.end));
        }
    }

    async fn judge(
        &self,
        store: &MemoryStore,
        before: Option<&WideRow>,
        after: &WideRow,
        life: Life,
    ) -> Result<(), Violation> {
        let Some(before) = before else { return Ok(()) };
        self.check_owner(before, after, life)?;
        check_served(before, after)?;
        check_progress(before, after)?;
        self.check_failure(before, after)?;
        check_generation(before, after)?;
        if let Some(target) = target(&after.state).filter(|_| target(&before.state).is_none()) {
            check_sealed(store, before, after, target).await?;
        }
        match (&before.state, after.served.last()) {
            (State::Verifying(checking), Some(segment)) if after.served.len() > before.served.len() => {
                self.check_segment(store, &after.partition, &checking.plan, segment).await
            }
            (_, Some(_)) if after.served.len() > before.served.len() => {
                Err(Violation::new("S2", "a segment is served that was not verified"))
            }
            _ => Ok(()),
        }
    }

    /// S4: whoever lost the lease changes nothing.
    fn check_owner(&self, before: &WideRow, after: &WideRow, life: Life) -> Result<(), Violation> {
        if after.epoch < before.epoch {
            let what = format!("the epoch goes back from {} to {}", before.epoch.0, after.epoch.0);
            return Err(Violation::new("S4", what));
        }
        if after.epoch > before.epoch {
            return Ok(());
        }
        let Some(lease) = &before.lease else {
            let worked = after.lease.is_some();
            return if worked { Err(Violation::new("S4", "work without a lease")) } else { Ok(()) };
        };
        let stranger = self.inside().workers.get(&lease.worker).is_some_and(|owner| *owner != life);
        // An operator may let a failed one begin again earlier.
        let hurried = matches!((&before.state, &after.state), (State::Failed(_), State::Failed(_)));
        let moved = (before.state != after.state && !hurried)
            || before.lease != after.lease
            || before.next_ordinal != after.next_ordinal
            || before.generation != after.generation;
        if stranger && moved {
            let what = format!("{} holds the lease, and somebody else made it {}", lease.worker, after.state.name());
            return Err(Violation::new("S4", what));
        }
        Ok(())
    }

    /// S2: what is planned of an honest store can be read back from it.
    fn check_failure(&self, before: &WideRow, after: &WideRow) -> Result<(), Violation> {
        let reason = match &after.state {
            State::Failed(failure) => failure.reason.as_str(),
            State::Parked { reason, .. } => reason.as_str(),
            _ => return Ok(()),
        };
        let Some(target) = target(&before.state).filter(|_| reason.contains("don't hold what was planned")) else {
            return Ok(());
        };
        if self.changed_since(&before.partition, target.span, target.begun) {
            return Ok(());
        }
        Err(Violation::new("S2", format!("nothing was written since it was planned, and yet {reason}")))
    }

    /// S2: the segment is what was planned, and holds what the original holds, unless that changed since.
    async fn check_segment(
        &self,
        store: &MemoryStore,
        partition: &WidePartition,
        plan: &Plan,
        segment: &Segment,
    ) -> Result<(), Violation> {
        if segment.span != plan.target.span || segment.pieces != plan.pieces {
            return Err(Violation::new("S2", "the segment is not the one that was planned"));
        }
        match compare(store, partition, segment).await {
            Ok(()) => Ok(()),
            Err(Flaw::Gone) => Ok(()),
            Err(Flaw::Differs(_)) if self.changed_since(partition, plan.target.span, plan.target.begun) => Ok(()),
            Err(flaw) => Err(Violation::new("S2", format!("served, but {}", flaw.words()))),
        }
    }

    /// S7: a piece's key belongs to one plan for ever.
    fn check_keys(&self, after: &WideRow) -> Result<(), Violation> {
        let plan = match &after.state {
            State::Planned(plan) => Some(plan),
            State::Splitting(copying) => Some(&copying.plan),
            State::Verifying(checking) => Some(&checking.plan),
            _ => None,
        };
        let planned = plan.into_iter().flat_map(|plan| plan.pieces.iter().map(|piece| (plan.target.generation, piece)));
        let served =
            after.served.iter().flat_map(|segment| segment.pieces.iter().map(|piece| (segment.generation, piece)));
        let mut inside = self.inside();
        for (generation, piece) in planned.chain(served) {
            let key = (after.partition.clone(), generation, piece.ordinal);
            let known = inside.pieces.entry(key).or_insert_with(|| piece.clone());
            if known != piece {
                let what = format!("two plans share piece {} of generation {}", piece.ordinal, generation.0);
                return Err(Violation::new("S7", what));
            }
        }
        Ok(())
    }
}

/// Nothing but invalidation takes a segment away, and none changes.
fn check_served(before: &WideRow, after: &WideRow) -> Result<(), Violation> {
    let same = |left: &Segment, right: &Segment| {
        (left.span, left.generation, &left.pieces) == (right.span, right.generation, &right.pieces)
    };
    let kept = after.served.len() >= before.served.len()
        && before.served.iter().zip(&after.served).all(|(left, right)| same(left, right));
    if !kept && after.epoch == before.epoch {
        return Err(Violation::new("S5", "a served segment is lost"));
    }
    let touching = after.served.windows(2).all(|pair| pair[0].span.end == pair[1].span.start);
    if touching { Ok(()) } else { Err(Violation::new("S2", "served segments don't follow each other")) }
}

/// S7: there are few generations; none is given up in which nothing was made.
fn check_generation(before: &WideRow, after: &WideRow) -> Result<(), Violation> {
    let idle = matches!(before.state, State::Invalidated { .. }) && matches!(after.state, State::Invalidated { .. });
    if idle && after.generation > before.generation {
        return Err(Violation::new("S7", "a generation is given up in which nothing was made"));
    }
    Ok(())
}

/// S5: work goes on from its checkpoint, never behind it.
fn check_progress(before: &WideRow, after: &WideRow) -> Result<(), Violation> {
    let back = match (&before.state, &after.state) {
        (State::Splitting(from), State::Splitting(to)) if from.plan == to.plan => match (&from.copied, &to.copied) {
            (Some(from), Some(to)) => to > from, // newest first
            (Some(_), None) => true,
            (None, _) => false,
        },
        (State::Verifying(from), State::Verifying(to)) if from.plan == to.plan => to.proven < from.proven,
        (State::Planning(from), State::Planning(to)) if from.target == to.target => {
            let rows = |pieces: &[Piece]| pieces.iter().map(|piece| piece.content.rows).sum::<u64>();
            rows(&to.pieces) < rows(&from.pieces)
        }
        _ => false,
    };
    if back { Err(Violation::new("S5", "a checkpoint goes back")) } else { Ok(()) }
}

/// S3: only sealed time is in a segment, and it begins where the one before ends.
async fn check_sealed(
    store: &MemoryStore,
    before: &WideRow,
    after: &WideRow,
    target: &Target,
) -> Result<(), Violation> {
    let Some(record) = namespace_record(store, &after.partition.namespace).await? else { return Ok(()) };
    if target.span.end > record.sealed_until {
        let what = format!("planned up to {}, but sealed only up to {}", target.span.end, record.sealed_until);
        return Err(Violation::new("S3", what));
    }
    match before.served.last() {
        Some(last) if last.span.end != target.span.start => Err(Violation::new(
            "S2",
            format!("the next segment begins at {}, not at {}", target.span.start, last.span.end),
        )),
        _ => Ok(()),
    }
}

/// A partition, shortly.
pub(crate) fn name(partition: &WidePartition) -> String {
    let WidePartition { namespace, time_slice, time_series_id, time_bucket, event_bucket } = partition;
    format!("{namespace}/{time_slice}/{time_series_id}/{time_bucket}/{event_bucket}")
}

/// Longer than anything that a store at rest is waited for.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(900);
