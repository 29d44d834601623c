//! Reading a partition: a scan becomes one slice of it, or two that follow each other, read page by page until the
//! scan's own page is full.

use std::{ops::Bound, sync::Arc, time::Duration};

use anabranch_model::{EventItemKey, Interval, PartitionKey, Position};
use anabranch_store::{After, Direction, Scan, ScanPage, ScanSpan, StoreError};
use futures_util::future::try_join;
use scylla::{
    response::{PagingState, query_result::QueryResult},
    serialize::{
        SerializationError,
        row::{RowSerializationContext, SerializeRow},
        writers::RowWriter,
    },
};

use crate::{
    error::{Failure, corrupt, unavailable},
    hedge::SecondRead,
    page::{PageBuilder, RowSize},
    rows::Rows,
    statements::{KnownTable, Shape, Slice},
    store::{Inside, Reach},
};

/// The values of a slice, after those of the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    Times { from: i64, before: i64 },
    AfterPosition { time: i64, id: String, bound: i64 },
    Event { time: i64, id: String },
    Items { time: i64, id: String, key: String, inclusive: bool },
}

impl Bounds {
    fn slice(&self) -> Slice {
        match self {
            Bounds::Times { .. } => Slice::Times,
            Bounds::AfterPosition { .. } => Slice::AfterPosition,
            Bounds::Event { .. } => Slice::Event,
            Bounds::Items { inclusive: true, .. } => Slice::ItemsFrom,
            Bounds::Items { inclusive: false, .. } => Slice::ItemsAfter,
        }
    }
}

/// The slices that a scan covers, in its direction.
pub(crate) fn slices(span: &ScanSpan, direction: Direction) -> Vec<Bounds> {
    match span {
        ScanSpan::Event { position, from } => vec![items_from(position, from)],
        ScanSpan::Interval { interval, .. } if interval.is_empty() => Vec::new(),
        ScanSpan::Interval { interval, after: None } => vec![times(interval)],
        ScanSpan::Interval { interval, after: Some(After::Event(position)) } => {
            after_position(interval, position, direction).into_iter().collect()
        }
        ScanSpan::Interval { interval, after: Some(After::Row(row)) } => {
            let rest_of_event = interval.contains(row.position.time).then(|| {
                let (time, id) = of_position(&row.position);
                Bounds::Items { time, id, key: row.item_key.as_str().to_owned(), inclusive: false }
            });
            rest_of_event.into_iter().chain(after_position(interval, &row.position, direction)).collect()
        }
    }
}

fn items_from(position: &Position, from: &Bound<EventItemKey>) -> Bounds {
    let (time, id) = of_position(position);
    match from {
        Bound::Unbounded => Bounds::Event { time, id },
        Bound::Included(key) => Bounds::Items { time, id, key: key.as_str().to_owned(), inclusive: true },
        Bound::Excluded(key) => Bounds::Items { time, id, key: key.as_str().to_owned(), inclusive: false },
    }
}

/// What lies after a position and inside the interval; a position outside doesn't widen it.
fn after_position(interval: &Interval, position: &Position, direction: Direction) -> Option<Bounds> {
    let before_start = position.time < interval.start;
    let at_or_after_end = position.time >= interval.end;
    match direction {
        Direction::Forward if at_or_after_end => return Some(times(interval)),
        Direction::Backward if before_start => return Some(times(interval)),
        _ if before_start || at_or_after_end => return None,
        _ => {}
    }
    let (time, id) = of_position(position);
    let bound = match direction {
        Direction::Forward => interval.start.nanos(),
        Direction::Backward => interval.end.nanos(),
    };
    Some(Bounds::AfterPosition { time, id, bound })
}

fn times(interval: &Interval) -> Bounds {
    Bounds::Times { from: interval.start.nanos(), before: interval.end.nanos() }
}

fn of_position(position: &Position) -> (i64, String) {
    (position.time.nanos(), position.id.as_str().to_owned())
}

/// The values of a read: the partition's, then the slice's.
struct ReadValues<'a> {
    partition: &'a PartitionKey,
    bounds: &'a Bounds,
}

impl SerializeRow for ReadValues<'_> {
    fn serialize(&self, ctx: &RowSerializationContext<'_>, writer: &mut RowWriter) -> Result<(), SerializationError> {
        let (series, time_bucket, event_bucket) = partition_values(self.partition);
        match self.bounds {
            Bounds::Times { from, before } => (series, time_bucket, event_bucket, from, before).serialize(ctx, writer),
            Bounds::AfterPosition { time, id, bound } => {
                (series, time_bucket, event_bucket, time, id, bound).serialize(ctx, writer)
            }
            Bounds::Event { time, id } => (series, time_bucket, event_bucket, time, id).serialize(ctx, writer),
            Bounds::Items { time, id, key, .. } => {
                (series, time_bucket, event_bucket, time, id, key).serialize(ctx, writer)
            }
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// As the columns have them. Buckets are unsigned, and Cassandra has no unsigned numbers: they are kept in longer ones.
pub(crate) fn partition_values(partition: &PartitionKey) -> (&str, i64, i64) {
    (partition.series.as_str(), i64::from(partition.time_bucket.0), i64::from(partition.event_bucket.0))
}

/// Until when an answer is wanted, and from whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) deadline: Duration,
    pub(crate) reach: Reach,
}

impl Inside {
    /// One page of a scan.
    pub(crate) async fn page(&self, table: &KnownTable, scan: &Scan, reach: Reach) -> Result<ScanPage, StoreError> {
        let terms = Terms { deadline: self.env.monotonic().saturating_add(scan.timeout), reach };
        match &slices(&scan.span, scan.direction)[..] {
            [] => self.empty_page(table, scan, terms.deadline).await,
            [one] => Ok(self.read_slice(table, scan, one, terms).await?.finish()),
            // The rest of an event is seldom more than nothing: asking for it beside the rest of the partition costs no time.
            [one, other, ..] => {
                let (one, other) =
                    (self.read_slice(table, scan, one, terms), self.read_slice(table, scan, other, terms));
                let (one, other) = try_join(one, other).await?;
                Ok(one.followed_by(other).finish())
            }
        }
    }

    /// Nothing to read, but a table that isn't there must be told.
    async fn empty_page(&self, table: &KnownTable, scan: &Scan, deadline: Duration) -> Result<ScanPage, StoreError> {
        match self.schema().exists(&table.place).await? {
            true => Ok(ScanPage::default()),
            false if self.is_gone(table, deadline).await => Err(self.no_such_table(&scan.table)),
            false => Err(unavailable(format!("nodes don't agree on whether {} is there", table.place))),
        }
    }

    async fn read_slice(
        &self,
        table: &KnownTable,
        scan: &Scan,
        bounds: &Bounds,
        terms: Terms,
    ) -> Result<PageBuilder, StoreError> {
        let mut page = PageBuilder::new(scan.max_rows, scan.max_bytes);
        let shape = Shape::Read(bounds.slice(), scan.direction);
        let values = ReadValues { partition: &scan.partition, bounds };
        let mut state = PagingState::start();
        loop {
            let wanted = page.wanted(&table.row_size);
            let answer = self.read_answer(table, shape, &values, wanted, state, terms).await;
            let (rows, next) = match answer {
                Ok(answer) => answer,
                Err(failure) => {
                    if failure.took_too_long() {
                        table.row_size.came_too_late();
                    }
                    return Err(self.explain_read(&scan.table, table, failure, terms.deadline).await);
                }
            };
            let all_taken = take_rows(rows, &mut page, &table.row_size)?;
            match next {
                _ if !all_taken => return Ok(page),
                Some(_) if page.is_full() => {
                    page.more_may_follow();
                    return Ok(page);
                }
                Some(next) => state = next,
                None => return Ok(page),
            }
        }
    }

    /// One answer of the server, and where the next one begins.
    pub(crate) async fn read_answer(
        &self,
        table: &KnownTable,
        shape: Shape,
        values: &(impl SerializeRow + Sync),
        rows: usize,
        state: PagingState,
        terms: Terms,
    ) -> Result<(QueryResult, Option<PagingState>), Failure> {
        let mut statement = self.statement(table, shape, terms.deadline).await?;
        let begun = self.env.monotonic();
        let left = terms.deadline.saturating_sub(begun);
        if left.is_zero() {
            return Err(Failure::Late);
        }
        statement.set_request_timeout(Some(left));
        statement.set_page_size(i32::try_from(rows).unwrap_or(i32::MAX));
        // A read that needs replicas of every data centre gains nothing from a second one beside it, nor does one that nobody else
        // could answer.
        let hedged = terms.reach == Reach::Here && self.session.get_cluster_state().get_nodes_info().len() > 1;
        let reservation = if hedged { self.hedge.reserve() } else { None };
        let profile = match (&reservation, terms.reach) {
            (Some(reservation), _) => {
                statement.set_history_listener(Arc::new(SecondRead(reservation.clone())));
                &self.profiles.hedged_reads
            }
            (None, Reach::Here) => &self.profiles.reads,
            (None, Reach::Everywhere) => &self.profiles.reads_everywhere,
        };
        statement.set_execution_profile_handle(Some(profile.clone()));
        let (answer, next) = self.session.execute_single_page(&statement, values, state).await?;
        if terms.reach == Reach::Here {
            self.hedge.took(self.env.monotonic().saturating_sub(begun));
        }
        Ok((answer, next.into_paging_control_flow().continue_value()))
    }
}

/// Puts the rows of an answer into a page, each where it will stay; whether all had room.
fn take_rows(answer: QueryResult, page: &mut PageBuilder, row_size: &RowSize) -> Result<bool, StoreError> {
    let answer = answer.into_rows_result().map_err(|error| corrupt("an answer without rows", error))?;
    page.reserve(answer.rows_num());
    let (mut largest, mut all_taken) = (0, true);
    for row in Rows::of(&answer)? {
        let row = row?;
        largest = largest.max(row.bytes());
        all_taken = page.offer(row);
        if !all_taken {
            break;
        }
    }
    if largest > 0 {
        row_size.saw(largest);
    }
    Ok(all_taken)
}

#[cfg(test)]
mod tests {
    use anabranch_store::suite::fixture::{interval, position, row_key};

    use super::*;

    #[test]
    fn after_a_row_the_rest_of_its_event_comes_before_other_events() {
        let span = ScanSpan::Interval { interval: interval(0, 10), after: Some(After::Row(row_key(5, "e", "k"))) };
        let rest = Bounds::Items { time: 5, id: "e".to_owned(), key: "k".to_owned(), inclusive: false };
        for (direction, bound) in [(Direction::Forward, 0), (Direction::Backward, 10)] {
            let others = Bounds::AfterPosition { time: 5, id: "e".to_owned(), bound };
            assert_eq!(slices(&span, direction), [rest.clone(), others]);
        }
    }

    #[test]
    fn a_place_outside_of_the_interval_begins_at_its_bound_or_ends_the_scan() {
        let whole = vec![Bounds::Times { from: 0, before: 10 }];
        for (time, forward, backward) in [(-1, vec![], whole.clone()), (10, whole.clone(), vec![])] {
            for after in [After::Event(position(time, "e")), After::Row(row_key(time, "e", "k"))] {
                let span = ScanSpan::Interval { interval: interval(0, 10), after: Some(after) };
                assert_eq!(slices(&span, Direction::Forward), forward);
                assert_eq!(slices(&span, Direction::Backward), backward);
            }
        }
    }
}
