//! Whole histories: what lies in pieces is read ahead, several pieces at once, and delivered in order. Memory is bounded by the
//! read-ahead; every page carries the token to go on after it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anabranch_model::{
    EventBucket, Interval, Order, PageToken, PartitionKey, Progress, Slice, SliceState, TimeBucket, Timestamp, TokenKey,
};
use anabranch_runtime::Task;
use anabranch_split::{Served, WidePartition};
use anabranch_store::ReadClass;

use crate::{
    EngineError, Page, PartialReason, ReadRequest,
    engine::Engine,
    read::{
        count,
        page::fill,
        request::{Plan, time_to_read},
    },
};

/// Pieces that are read at once.
const READ_AHEAD: usize = 4;
/// A piece bigger than this is read page by page.
const MAX_AHEAD_BYTES: u64 = 16 << 20;
/// What is read of a piece before it is cut into pages. Where a chunk ends, some of what was fetched is thrown away and fetched again.
const CHUNK_RECORDS: usize = 16 << 10;
const CHUNK_BYTES: usize = 2 << 20;
/// How long a page may take, its turn at the store included. A page on its own is refused much sooner; here giving up would cost all that
/// was read before it, and how many wait is bounded by how many streams there are.
const PAGE_TIME: Duration = Duration::from_secs(60);
/// A slice with more time buckets than this isn't searched for splits.
const MAX_BUCKETS: u32 = 100_000;

/// A part of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    interval: Interval,
    /// Whether it is known to be small enough to be held in memory.
    bounded: bool,
}

type Pages = Vec<Result<Page, EngineError>>;

/// A whole history under way.
pub struct BulkRead {
    engine: Arc<Engine>,
    plan: Arc<Plan>,
    /// Not begun, in the read's order.
    stretches: VecDeque<Stretch>,
    /// Begun ahead of time; they come before `stretches`.
    ahead: VecDeque<Task<Pages>>,
    /// The one that is read page by page, and how far it has come.
    current: Option<(Stretch, Option<PageToken>)>,
    ready: VecDeque<Result<Page, EngineError>>,
    ended: bool,
}

impl Engine {
    /// Reads all that a request asks for, a page at a time.
    pub async fn bulk_read(self: &Arc<Self>, request: &ReadRequest) -> Result<BulkRead, EngineError> {
        self.registry.check_fresh()?;
        let time = time_to_read(request.timeout.unwrap_or(PAGE_TIME).min(PAGE_TIME));
        let plan = Arc::new(Plan { class: ReadClass::Bulk, time, ..Plan::check(self, request)? });
        // Where records are counted over all pages, each page must know how many came before.
        let parallel = plan.records_left.is_none();
        let mut stretches = if parallel { self.stretches(&plan).await } else { Vec::new() };
        if stretches.is_empty() {
            stretches.push(Stretch { interval: plan.interval, bounded: false });
        }
        if plan.order == Order::LatestFirst {
            stretches.reverse();
        }
        Ok(BulkRead {
            engine: self.clone(),
            plan,
            stretches: stretches.into(),
            ahead: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
            ended: false,
        })
    }

    /// The history cut where pieces begin, oldest first. Without any gap: together they are all that is left to read.
    async fn stretches(&self, plan: &Plan) -> Vec<Stretch> {
        let mut cuts: Vec<(Interval, bool)> = Vec::new();
        if plan.namespace.record.splits.mode.serves_splits() {
            let slices = plan.namespace.record.slices.overlapping(plan.interval);
            for slice in slices.iter().filter(|slice| slice.state == SliceState::Open) {
                self.cut_slice(plan, slice, &mut cuts).await;
            }
        }
        let mut stretches = Vec::new();
        let mut end = plan.interval.start;
        for (piece, bounded) in cuts {
            let piece = piece.intersect(&Interval::new(end, plan.interval.end));
            if piece.is_empty() {
                continue;
            }
            if piece.start > end {
                stretches.push(Stretch { interval: Interval::new(end, piece.start), bounded: false });
            }
            stretches.push(Stretch { interval: piece, bounded });
            end = piece.end;
        }
        if end < plan.interval.end {
            stretches.push(Stretch { interval: Interval::new(end, plan.interval.end), bounded: false });
        }
        stretches
    }

    /// The time that each piece of a series covers in a slice, oldest first.
    async fn cut_slice(&self, plan: &Plan, slice: &Slice, cuts: &mut Vec<(Interval, bool)>) {
        let table = slice.table(&plan.namespace.name);
        let Some(filter) = self.splits.router.filter(&table) else { return };
        let both = slice.interval.intersect(&plan.interval);
        let first = slice.time_bucket(both.start).0;
        let last = slice.time_bucket(Timestamp::from_nanos(both.end.nanos() - 1)).0;
        if last - first > MAX_BUCKETS {
            return;
        }
        let reopened = plan.namespace.record.splits.reopened(slice.interval.start);
        for bucket in first..=last {
            // Originals of one time bucket are alike: the pieces of the first that is split cut for all.
            for event_bucket in 0..slice.settings.event_buckets {
                let key = PartitionKey {
                    series: plan.series.clone(),
                    time_bucket: TimeBucket(bucket),
                    event_bucket: EventBucket(event_bucket),
                };
                if !filter.may_hold(&key) {
                    continue;
                }
                let wide = WidePartition::new(plan.namespace.name.clone(), table.table.clone(), key);
                let Ok(Some(row)) = self.splits.router.record(&wide).await else { continue };
                let Some(served) = Served::of(row, reopened) else { continue };
                for (_, segment) in served.segments() {
                    let share = u64::from(slice.settings.event_buckets);
                    for piece in segment.pieces.iter().rev() {
                        let start = cuts.last().map_or(segment.span.start, |(last, _)| last.end);
                        let end = piece.newest.time.saturating_add(Duration::from_nanos(1));
                        let bounded = piece.content.bytes * share <= MAX_AHEAD_BYTES;
                        cuts.push((Interval::new(start.max(segment.span.start), end), bounded));
                    }
                }
                break;
            }
        }
    }
}

impl BulkRead {
    /// The next page; `None` after the last, or after an error.
    pub async fn next(&mut self) -> Option<Result<Page, EngineError>> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(page) = self.ready.pop_front() {
                self.ended = page.is_err();
                return Some(page);
            }
            self.begin_ahead();
            if let Some(task) = self.ahead.pop_front() {
                let pages = task.await;
                self.begin_ahead();
                let failed = || vec![Err(EngineError::NotServing { reason: "reading ahead was cut short".to_owned() })];
                self.ready.extend(pages.unwrap_or_else(failed));
                continue;
            }
            let (stretch, next) = match self.current.take() {
                Some(current) => current,
                None => (self.stretches.pop_front()?, None),
            };
            let page = read_stretch(&self.engine, &self.plan, stretch, next, self.is_last(stretch)).await;
            let page = page.map(|(page, next)| {
                self.current = next.map(|next| (stretch, Some(next)));
                page
            });
            self.ended = page.is_err();
            return Some(page);
        }
    }

    /// Begins reading the next pieces, as long as nothing comes before them that is read page by page.
    fn begin_ahead(&mut self) {
        while self.current.is_none()
            && self.ahead.len() < READ_AHEAD
            && self.stretches.front().is_some_and(|stretch| stretch.bounded)
        {
            let Some(stretch) = self.stretches.pop_front() else { return };
            let (engine, plan, last) = (self.engine.clone(), self.plan.clone(), self.is_last(stretch));
            let task =
                self.engine.env.spawn_in_background(async move { read_ahead(&engine, &plan, stretch, last).await });
            self.ahead.push_back(task);
        }
    }

    fn is_last(&self, stretch: Stretch) -> bool {
        match self.plan.order {
            Order::LatestFirst => stretch.interval.start <= self.plan.interval.start,
            Order::OldestFirst => stretch.interval.end >= self.plan.interval.end,
        }
    }
}

/// All pages of a stretch, read in chunks; an error comes last.
async fn read_ahead(engine: &Engine, plan: &Plan, stretch: Stretch, last: bool) -> Pages {
    let (page_size, page_bytes) = (plan.page_size.max(CHUNK_RECORDS), plan.page_bytes.max(CHUNK_BYTES));
    let chunks = Plan { page_size, page_bytes, ..plan.clone() };
    let mut cutter =
        Cutter { plan, key: &engine.token_key, page: Page::default(), bytes: 0, served: 0, pages: Vec::new() };
    let mut next = None;
    loop {
        match read_stretch(engine, &chunks, stretch, next, last).await {
            Ok((chunk, token)) => {
                next = token;
                cutter.take(chunk, next.is_none());
            }
            Err(error) => return cutter.fail(error),
        }
        if next.is_none() {
            return cutter.pages;
        }
    }
}

/// Cuts what was read at once into pages of the size asked for, each with the token for what comes after its last record.
struct Cutter<'a> {
    plan: &'a Plan,
    key: &'a TokenKey,
    /// Not full yet.
    page: Page,
    bytes: usize,
    /// Whole records, of all pages.
    served: u64,
    pages: Pages,
}

impl Cutter<'_> {
    /// Takes a chunk in. Where it is the last, or falls short, a page ends with it and tells what it says of its end.
    fn take(&mut self, mut chunk: Page, last: bool) {
        let mut records = std::mem::take(&mut chunk.records).into_iter();
        while let Some(record) = records.next() {
            let bytes = record.bytes();
            if self.page.records.len() >= self.plan.page_size || self.bytes + bytes > self.plan.page_bytes {
                self.end_page();
            }
            self.bytes += bytes;
            self.served += u64::from(!record.continued);
            if self.page.records.is_empty()
                && let Some(Ok(before)) = self.pages.last()
            {
                self.page.records.reserve(before.records.len().min(1 + records.len())); // pages are much alike
            }
            self.page.records.push(record);
        }
        self.page.partitions_read += chunk.partitions_read;
        self.page.bytes_read += chunk.bytes_read;
        if last || chunk.partial.is_some() {
            let Page { records, partitions_read, bytes_read, .. } = std::mem::take(&mut self.page);
            self.bytes = 0;
            self.pages.push(Ok(Page { records, partitions_read, bytes_read, ..chunk }));
        }
    }

    /// Ends a page after its last record, if it has any.
    fn end_page(&mut self) {
        let Some(record) = self.page.records.last() else { return };
        let token = self.plan.token(Progress::after(record), self.served, 0);
        self.page.next_page_token = Some(token.seal(self.key));
        self.bytes = 0;
        self.pages.push(Ok(std::mem::take(&mut self.page)));
    }

    fn fail(mut self, error: EngineError) -> Pages {
        self.end_page();
        self.pages.push(Err(error));
        self.pages
    }
}

/// One page of a stretch, and how to go on within it. The last page of any stretch but the last has a token too: that of the
/// whole request.
async fn read_stretch(
    engine: &Engine,
    plan: &Plan,
    stretch: Stretch,
    next: Option<PageToken>,
    last: bool,
) -> Result<(Page, Option<PageToken>), EngineError> {
    let begun = engine.env.monotonic();
    // What was examined before the request began lies in the first stretch; every other one begins at its bound.
    let bound = match plan.order {
        Order::LatestFirst => stretch.interval.end,
        Order::OldestFirst => stretch.interval.start,
    };
    let first = match plan.order {
        Order::LatestFirst => bound >= plan.interval.end,
        Order::OldestFirst => bound <= plan.interval.start,
    };
    let beginning = || if first { plan.begun_at.clone() } else { Some(Progress::Time(bound)) };
    let begun_at = next.as_ref().map(|token| token.progress.clone()).or_else(beginning);
    let bytes = next.as_ref().map_or(plan.partition_bytes, |token| token.partition_bytes);
    let served = next.as_ref().map_or(0, |token| token.records_served - plan.records_served);
    let result = match plan.page_of(engine, stretch.interval, begun_at, bytes) {
        Ok(mut page_plan) => {
            page_plan.records_served += served;
            page_plan.records_left = plan.records_left.map(|left| left.saturating_sub(served));
            fill(engine, &page_plan).await
        }
        Err(error) => Err(error),
    };
    count(engine, plan.namespace.name.as_str(), plan.series.as_str(), begun, &result);
    let mut page = result?;
    let next = page.next.take();
    if next.is_none() && !last {
        let bound = match plan.order {
            Order::LatestFirst => stretch.interval.start,
            Order::OldestFirst => stretch.interval.end,
        };
        let token = plan.token(Progress::Time(bound), 0, 0);
        page.next_page_token = Some(token.seal(&engine.token_key));
        // What the retention took lies at the end of the whole, not of this stretch.
        page.partial = page
            .partial
            .filter(|partial| partial.reason != PartialReason::Retention || plan.order == Order::OldestFirst);
    }
    Ok((page, next))
}
