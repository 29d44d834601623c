//! Fills one page: opens groups a wave at a time, merges the records of each group, filters, and ends at a limit, at
//! the deadline or at the end of the history.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
    ops::ControlFlow,
    time::Duration,
};

use anabranch_model::{Order, PartitionKey, Progress, Record, Timestamp};
use anabranch_store::ReadClass;
use futures_util::future::try_join_all;
use tracing::{Instrument as _, Span};

use crate::{
    EngineError, ErrorKind, Page, Partial, PartialReason, ReadRequest, TRACE,
    engine::Engine,
    read::{
        Caller,
        groups::{Group, Groups},
        records::{Fetching, Head, RecordReader, Stop},
        request::Plan,
        shape::Shape,
    },
    splits::Routing,
};

/// Partitions in flight while nothing is known of a namespace.
const FIRST_FAN_OUT: usize = 8;
/// Rows fetched at once when filters make it unknown how many are needed.
const FILTERED_ROWS: usize = 1024;
/// The least that is fetched from a partition that may not be needed.
const LEAST_ROWS: usize = 16;
const LEAST_BYTES: usize = 64 << 10;

pub(crate) async fn read_page(engine: &Engine, request: &ReadRequest, caller: Caller) -> Result<Page, EngineError> {
    let mut plan = Plan::check(engine, request)?;
    if let Caller::Search { max_record_bytes } = caller {
        plan.class = ReadClass::Bulk;
        plan.max_record_bytes = max_record_bytes as usize;
    }
    let page = fill(engine, &plan).await?;
    engine.tuning.reads.note(&plan, page.next.as_ref(), engine.env.now());
    Ok(page)
}

/// Reads one page of what a plan has left.
pub(crate) async fn fill(engine: &Engine, plan: &Plan) -> Result<Page, EngineError> {
    engine.registry.check_fresh()?;
    let fetching = Fetching { env: &engine.env, metrics: &engine.metrics, deadline: plan.deadline };
    let remaining = plan.deadline.saturating_sub(engine.env.monotonic());
    let _place = engine.admission.page(&engine.env, plan.class, remaining).await?;
    let mut filling = Filling::new(engine, plan, fetching);
    let run = filling.run().await;
    filling.report();
    let in_time = match run {
        Ok(()) => true,
        Err(Stop::Deadline) => false,
        // What was emitted before the store had no room for more is a page.
        Err(Stop::Failed(error)) if error.kind() == ErrorKind::ResourceExhausted && filling.progress().is_some() => {
            false
        }
        Err(Stop::Failed(error)) => return Err(error),
    };
    filling.conclude(in_time)
}

/// A page being filled.
struct Filling<'a> {
    engine: &'a Engine,
    plan: &'a Plan,
    fetching: Fetching<'a>,
    groups: Groups,
    /// Groups that were opened and not finished, in order.
    wave: VecDeque<OpenGroup>,
    fan_out: usize,
    rows_per_record: f64,
    page: Page,
    page_bytes: usize,
    /// Everything up to here has been examined.
    reached: Reached,
    /// Whole records served on this page.
    served: u64,
    /// Which partitions come from pieces.
    routing: Option<Routing<'a>>,
    /// Bytes of each original in the group that the page stands in, as far as this scan has examined them: before this page, and
    /// on it.
    carried: u64,
    group_bytes: u64,
    finished: bool,
    /// What this page has seen, for the next one.
    seen: Shape,
}

/// How far a page has come.
enum Reached {
    /// No further than the one before.
    Nothing,
    /// The last record of the page.
    Served,
    /// Further: past records that a filter left out, or time without any.
    Further(Progress),
}

struct OpenGroup {
    group: Group,
    readers: Vec<RecordReader>,
    /// For each reader: below which time its rows come from pieces, and how many bytes of its original were examined.
    originals: Vec<Original>,
    heads: BinaryHeap<Candidate>,
    primed: bool,
    /// What a trace shows of it.
    span: Span,
}

#[derive(Clone, Copy)]
struct Original {
    pieces_below: Option<Timestamp>,
    examined: u64,
}

/// Whether the page takes more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    /// It ends after this record.
    Full,
    /// It ended before this record, which would not fit.
    Overfull,
}

impl<'a> Filling<'a> {
    fn new(engine: &'a Engine, plan: &'a Plan, fetching: Fetching<'a>) -> Self {
        let shape = engine.shapes.get(&plan.namespace.name);
        let rows_per_record = shape.map_or(1.0, |shape| shape.rows_per_record());
        let needed = plan.page_size as f64 * rows_per_record;
        let fan_out = shape.map_or(FIRST_FAN_OUT, |shape| shape.partitions(needed));
        let fan_out = fan_out.clamp(1, engine.options.max_fan_out);
        Filling {
            engine,
            plan,
            fetching,
            groups: Groups::new(engine.admission.store(plan.class).clone(), plan, fan_out),
            wave: VecDeque::new(),
            fan_out,
            rows_per_record,
            page: Page::default(),
            page_bytes: 0,
            reached: Reached::Nothing,
            served: 0,
            routing: Some(Routing::new(engine, plan)),
            carried: plan.partition_bytes,
            group_bytes: 0,
            finished: false,
            seen: Shape::default(),
        }
    }

    async fn run(&mut self) -> Result<(), Stop> {
        if self.plan.interval.is_empty() || self.plan.records_left == Some(0) {
            self.finished = true;
            return Ok(());
        }
        loop {
            self.hurry();
            self.open_wave().await?;
            if self.wave.is_empty() {
                self.finished = true;
                return Ok(());
            }
            while let Some(mut open) = self.wave.pop_front() {
                let span = open.span.clone();
                let drained = self.drain(&mut open).instrument(span).await;
                self.close(&open);
                let flow = drained?;
                if flow != Flow::GoOn {
                    self.finished = flow == Flow::Full && self.is_last(&open).await;
                    return Ok(());
                }
                let bound = match self.plan.order {
                    Order::LatestFirst => open.group.interval.start,
                    Order::OldestFirst => open.group.interval.end,
                };
                self.reached = Reached::Further(Progress::Time(bound));
                (self.carried, self.group_bytes) = (0, 0);
            }
            // A whole wave did not fill the page: partitions are sparse.
            self.fan_out = (self.fan_out * 2).min(self.engine.options.max_fan_out);
        }
    }

    /// Opens the next groups and fetches the beginning of each of their partitions at once.
    async fn open_wave(&mut self) -> Result<(), Stop> {
        let mut partitions = 0;
        while partitions < self.fan_out {
            let Some(group) = self.next_group().await? else { break };
            partitions += group.event_buckets.len();
            let first = self.wave.is_empty() && matches!(self.reached, Reached::Nothing);
            let open = self.open(group, first).await;
            self.wave.push_back(open);
        }
        self.page.partitions_read += partitions as u32;
        let (rows, bytes) = self.fetch_limits(self.wave.front().map_or(1, |open| open.readers.len()));
        let ahead_rows = (2 * rows / self.fan_out).clamp(LEAST_ROWS.min(rows), rows);
        let ahead_bytes = (2 * bytes / self.fan_out).clamp(LEAST_BYTES.min(bytes), bytes);
        let fetching = self.fetching;
        let fetches = self.wave.iter_mut().enumerate().flat_map(|(at, open)| {
            let (rows, bytes) = if at == 0 { (rows, bytes) } else { (ahead_rows, ahead_bytes) };
            let span = &open.span;
            open.readers
                .iter_mut()
                .filter(|reader| reader.wants_fetch(0))
                .map(move |reader| reader.fetch(fetching, rows, bytes).instrument(span.clone()))
        });
        // Of futures whose number isn't known, `try_join_all` wakes the task that waits for them as soon as it has begun to.
        let fetches: Vec<_> = fetches.collect();
        try_join_all(fetches).await?;
        Ok(())
    }

    /// A page that has come anywhere ends when it should, any other when it must.
    fn hurry(&mut self) {
        if !matches!(self.reached, Reached::Nothing) {
            self.fetching.deadline = self.plan.soft_deadline;
        }
    }

    async fn next_group(&mut self) -> Result<Option<Group>, Stop> {
        let mut attempt = 0;
        loop {
            match self.fetching.timed(self.groups.next()).await? {
                Ok(group) => return Ok(group),
                Err(error) => self.fetching.again(attempt, error).await?,
            }
            attempt += 1;
        }
    }

    async fn open(&mut self, group: Group, first: bool) -> OpenGroup {
        let plan = self.plan;
        let within = match &plan.begun_at {
            Some(Progress::Item(position, key)) if first && group.slice.interval.contains(position.time) => {
                Some((group.slice.partition(&plan.series, position), position, key))
            }
            _ => None,
        };
        let span = tracing::trace_span!(target: TRACE, "slice", table = group.table.table, bucket = group.bucket.0);
        let (mut readers, mut originals) = (Vec::new(), Vec::new());
        for event_bucket in &group.event_buckets {
            let partition =
                PartitionKey { series: plan.series.clone(), time_bucket: group.bucket, event_bucket: *event_bucket };
            let resumed = within.as_ref().filter(|(holder, _, _)| *holder == partition);
            let Some(routing) = &mut self.routing else { break };
            let after = plan.after().filter(|_| first);
            let (reader, pieces_below) =
                routing.open(&group, partition, plan.order, after).instrument(span.clone()).await;
            let mut reader = RecordReader::new(reader, plan.order, plan.max_record_bytes);
            if let Some((_, position, key)) = resumed {
                reader.resume_within((*position).clone(), (*key).clone());
            }
            readers.push(reader);
            originals.push(Original { pieces_below, examined: 0 });
        }
        OpenGroup { group, readers, originals, heads: BinaryHeap::new(), primed: false, span }
    }

    /// How much to fetch of each of `partitions` that share what the page still needs.
    fn fetch_limits(&self, partitions: usize) -> (usize, usize) {
        let records = self.plan.page_size - self.page.records.len().min(self.plan.page_size);
        let records = self.plan.records_left.map_or(records, |left| records.min((left - self.served) as usize));
        // One row more than needed tells whether the history goes on.
        let mut rows = (records as f64 * self.rows_per_record).ceil() as usize + 1;
        if !self.plan.condition.is_trivial() {
            rows = rows.max(FILTERED_ROWS);
        }
        let bytes = self.plan.page_bytes.saturating_sub(self.page_bytes) + LEAST_BYTES;
        match partitions {
            0 | 1 => (rows, bytes),
            // Hashing spreads evenly, but not perfectly.
            many => (rows / many + rows / many / 4 + LEAST_ROWS, bytes / many + LEAST_BYTES),
        }
    }

    /// Takes records out of a group, in order, until it is empty or the page is full.
    async fn drain(&mut self, open: &mut OpenGroup) -> Result<Flow, Stop> {
        if let ([_], false) = (&open.readers[..], open.primed) {
            return self.drain_one(open).await;
        }
        if !open.primed {
            for at in 0..open.readers.len() {
                self.advance(open, at).await?;
            }
            open.primed = true;
        }
        while let Some(Candidate { head, reader, .. }) = open.heads.pop() {
            let flow = self.examine(head, &mut open.readers[reader], &mut open.originals[reader]).await?;
            if flow != Flow::GoOn {
                return Ok(flow);
            }
            // A record is emitted only when every partition of the group has shown its next one.
            self.advance(open, reader).await?;
        }
        Ok(Flow::GoOn)
    }

    /// As [`Filling::drain`] where there is nothing to merge: what was fetched goes straight into the page.
    async fn drain_one(&mut self, open: &mut OpenGroup) -> Result<Flow, Stop> {
        loop {
            let room = self.plan.page_size.saturating_sub(self.page.records.len());
            self.page.records.reserve(open.readers[0].fetched().min(room));
            let original = &mut open.originals[0];
            let ready = open.readers[0].each_ready(|record| {
                let matches = self.plan.condition.matches(&record);
                match self.take(record, matches, original) {
                    Flow::GoOn => ControlFlow::Continue(()),
                    end => ControlFlow::Break(end),
                }
            });
            if let ControlFlow::Break(end) = ready {
                return Ok(end);
            }
            self.advance(open, 0).await?;
            let Some(Candidate { head, .. }) = open.heads.pop() else { return Ok(Flow::GoOn) };
            let flow = self.examine(head, &mut open.readers[0], &mut open.originals[0]).await?;
            if flow != Flow::GoOn {
                return Ok(flow);
            }
        }
    }

    /// Brings the next record of one partition forward; fetches for its neighbours too when they are about to need it.
    async fn advance(&mut self, open: &mut OpenGroup, at: usize) -> Result<(), Stop> {
        self.hurry();
        let (rows, bytes) = self.fetch_limits(open.readers.len());
        let fetching = self.fetching;
        if open.readers.len() > 1 && open.readers[at].wants_fetch(0) {
            let low = rows / 4;
            let wanting = open.readers.iter_mut().filter(|reader| reader.wants_fetch(low));
            try_join_all(wanting.map(|reader| reader.fetch(fetching, rows, bytes))).await?;
        }
        if let Some(head) = open.readers[at].next(fetching, rows, bytes).await? {
            open.heads.push(Candidate { head, reader: at, order: self.plan.order });
        }
        Ok(())
    }

    async fn examine(&mut self, head: Head, reader: &mut RecordReader, original: &mut Original) -> Result<Flow, Stop> {
        let Head { record, first_part } = head;
        let condition = &self.plan.condition;
        let matches = if condition.is_trivial() {
            true
        } else if first_part {
            reader.parts_match(self.fetching, &record.position, condition).await?
        } else if self.is_later_part(&record) {
            true // its first part passed
        } else {
            condition.matches(&record)
        };
        if !matches {
            reader.skip_parts();
        }
        Ok(self.take(record, matches, original))
    }

    /// Takes a record into the page, or passes it by.
    #[inline]
    fn take(&mut self, record: Record, matches: bool, original: &mut Original) -> Flow {
        let bytes = record.bytes();
        if !matches {
            self.examined(&record, bytes, original);
            self.reached = Reached::Further(Progress::Event(record.position));
            return Flow::GoOn;
        }
        if !self.page.records.is_empty() && self.page_bytes + bytes > self.plan.page_bytes {
            self.page.bytes_full = true;
            return Flow::Overfull;
        }
        self.examined(&record, bytes, original);
        self.reached = Reached::Served;
        self.page_bytes += bytes;
        self.served += u64::from(!record.continued);
        self.page.records.push(record);
        let all_served = self.plan.records_left.is_some_and(|left| self.served >= left);
        if all_served || self.page.records.len() >= self.plan.page_size { Flow::Full } else { Flow::GoOn }
    }

    /// Whether a record goes on with what was served before: on this page, or at the end of the one before.
    fn is_later_part(&self, record: &Record) -> bool {
        match self.reached {
            Reached::Served => {
                self.page.records.last().is_some_and(|last| last.continued && last.position == record.position)
            }
            Reached::Nothing => {
                matches!(&self.plan.begun_at, Some(Progress::Item(position, _)) if *position == record.position)
            }
            Reached::Further(_) => false,
        }
    }

    #[inline]
    fn examined(&mut self, record: &Record, bytes: usize, original: &mut Original) {
        if original.pieces_below.is_none_or(|below| record.position.time >= below) {
            original.examined += bytes as u64;
        }
        self.seen.rows += record.items.len() as f64;
        if !record.continued {
            self.seen.records += 1.0;
        }
    }

    /// Takes down what a group cost, how full it was, and what of it looks wide.
    fn close(&mut self, open: &OpenGroup) {
        let (plan, group) = (self.plan, &open.group);
        for (original, event_bucket) in open.originals.iter().zip(&group.event_buckets) {
            let partition =
                PartitionKey { series: plan.series.clone(), time_bucket: group.bucket, event_bucket: *event_bucket };
            let bytes = self.carried + original.examined;
            self.engine.detect(&plan.namespace, group, &partition, self.carried, bytes);
        }
        let examined: u64 = open.originals.iter().map(|original| original.examined).sum();
        self.group_bytes = self.carried + examined / open.originals.len().max(1) as u64;
        let bucket = group.slice.bucket_interval(group.bucket);
        let to_the_end = match plan.order {
            Order::LatestFirst => group.interval.start == bucket.start,
            Order::OldestFirst => group.interval.end == bucket.end,
        };
        for (reader, event_bucket) in open.readers.iter().zip(&group.event_buckets) {
            if let Some(error) = reader.fallback() {
                self.engine.note_fallback(&plan.namespace, group, *event_bucket, &plan.series, error);
            }
            self.page.bytes_read += reader.bytes_read();
            if to_the_end && reader.bytes_read() > 0 && reader.is_done() {
                self.seen.ends += 1.0;
            }
        }
    }

    /// Whether it is certain that nothing follows: then the answer needs no token. Looks for other partitions only where these have
    /// ended with the page.
    async fn is_last(&mut self, open: &OpenGroup) -> bool {
        let done = |open: &OpenGroup| open.heads.is_empty() && open.readers.iter().all(RecordReader::is_done);
        done(open) && self.wave.iter().all(done) && matches!(self.next_group().await, Ok(None))
    }

    /// Lets what is done beside a read know how far it came.
    fn report(&mut self) {
        let Some(routing) = self.routing.take() else { return };
        let last = match &self.reached {
            Reached::Served => self.page.records.last().map(|record| &record.position),
            Reached::Further(Progress::Event(position) | Progress::Item(position, _)) => Some(position),
            Reached::Further(Progress::Time(_)) | Reached::Nothing => None,
        };
        routing.conclude(self.seen.rows as u64, last);
    }

    fn conclude(mut self, in_time: bool) -> Result<Page, EngineError> {
        // What was fetched ahead and not needed costs too, but says nothing of how full partitions are.
        let ahead = self.wave.iter().flat_map(|open| &open.readers);
        self.page.bytes_read += ahead.map(RecordReader::bytes_read).sum::<u64>();
        if self.seen.rows > 0.0 {
            self.engine.shapes.learn(&self.plan.namespace.name, self.seen);
        }
        let progress = self.progress();
        if !in_time && progress.is_none() {
            return Err(EngineError::DeadlineExceeded { what: "the read" });
        }
        let all_served = self.plan.records_left.is_some_and(|left| self.served >= left);
        self.page.partial = self.partial(in_time, progress.as_ref());
        if !self.finished && !all_served {
            // Nothing examined and yet full can't be: the first record always fits.
            let progress = progress.or_else(|| self.plan.begun_at.clone());
            #[cfg(feature = "plant")]
            let progress = if anabranch_split::plant::is_planted(anabranch_split::plant::Bug::TokenOfLastServed) {
                let last = self.page.records.last().filter(|last| !last.continued);
                let served = last.map(|last| Progress::Event(last.position.clone()));
                served.or_else(|| self.plan.begun_at.clone()).or(progress)
            } else {
                progress
            };
            let token = progress.map(|progress| self.plan.token(progress, self.served, self.group_bytes));
            self.page.next_page_token = token.as_ref().map(|token| token.seal(&self.engine.token_key));
            self.page.next = token;
        }
        Ok(self.page)
    }

    /// Everything up to here has been examined.
    fn progress(&self) -> Option<Progress> {
        match &self.reached {
            Reached::Nothing => None,
            Reached::Further(progress) => Some(progress.clone()),
            Reached::Served => self.page.records.last().map(Progress::after),
        }
    }

    fn partial(&self, in_time: bool, progress: Option<&Progress>) -> Option<Partial> {
        let closed_until = self.plan.namespace.record.closed_until;
        let lost = closed_until > self.plan.floor;
        // Oldest first, rows that were still to come and are closed now are gone, whatever else cut the page short.
        if lost
            && self.plan.order == Order::OldestFirst
            && let Some(begun) = &self.plan.begun_at
        {
            let complete_until = complete_until(self.plan.order, begun);
            if complete_until < closed_until {
                return Some(Partial { reason: PartialReason::Retention, complete_until });
            }
        }
        match self.plan.order {
            _ if !in_time => {
                let complete_until = complete_until(self.plan.order, progress?);
                Some(Partial { reason: PartialReason::Slo, complete_until })
            }
            Order::LatestFirst if lost && self.finished => {
                Some(Partial { reason: PartialReason::Retention, complete_until: closed_until })
            }
            _ => None,
        }
    }
}

/// How far an answer is complete once everything up to `progress` was examined.
fn complete_until(order: Order, progress: &Progress) -> Timestamp {
    match (order, progress) {
        (_, Progress::Time(time)) => *time,
        // Others of the same instant may come after it.
        (Order::LatestFirst, Progress::Event(position) | Progress::Item(position, _)) => {
            position.time.saturating_add(Duration::from_nanos(1))
        }
        (Order::OldestFirst, Progress::Event(position) | Progress::Item(position, _)) => position.time,
    }
}

/// The next record of one partition of a group; the heap yields the first in the read's order.
struct Candidate {
    head: Head,
    reader: usize,
    order: Order,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_position = self.order.compare(&self.head.record.position, &other.head.record.position);
        by_position.reverse().then_with(|| other.reader.cmp(&self.reader))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
