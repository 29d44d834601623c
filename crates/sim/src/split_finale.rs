//! The end of a seed, for splits: with nothing going wrong any more every record comes to rest (S5), every segment in use holds
//! what its original holds (S1, S2), and every server reads it (S6).

use std::{sync::Arc, time::Duration};

use anabranch_engine::{NamespaceRecord, ReadRequest, SplitSelection};
use anabranch_model::{Interval, ReadMode, Slice, SliceState};
use anabranch_split::{Segment, State, WideRow};

use crate::{
    dice::Dice,
    oracle::Violation,
    pieces::{compare, namespace_record, split_records},
    splits::change_mode,
    witness::{LONGEST_REST, name},
    world::World,
};

/// How often the records are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Brings all splits of a namespace to rest and looks at them.
pub(crate) async fn conclude_splits(world: &Arc<World>, dice: &Dice, namespace: usize) -> Result<(), Violation> {
    wait_for_rest(world, namespace).await?;
    verify(world, dice, namespace).await?;
    wait_for_rest(world, namespace).await?;
    let (record, rows) = all_records(world, namespace).await?;
    for (slice, row) in rows.iter().filter(|(slice, _)| slice.state == SliceState::Open) {
        for segment in usable(&record, slice, row) {
            if let Err(flaw) = compare(&world.store, &row.partition, segment).await {
                let what = format!("{} is served, but {}", name(&row.partition), flaw.words());
                return Err(Violation::new("S2, S1", what));
            }
        }
    }
    world.trace.log("finale", format_args!("{} split records of namespace {namespace} are at rest", rows.len()));
    use_all(world, dice, namespace).await
}

/// Segments that reads may use.
fn usable<'a>(record: &NamespaceRecord, slice: &Slice, row: &'a WideRow) -> impl Iterator<Item = &'a Segment> {
    let reopened = record.splits.reopened(slice.interval.start);
    row.served.iter().filter(move |segment| segment.as_of >= reopened)
}

async fn all_records(world: &World, namespace: usize) -> Result<(NamespaceRecord, Vec<(Slice, WideRow)>), Violation> {
    let name = world.namespace(namespace);
    let record = namespace_record(&world.store, name).await?;
    let record = record.ok_or_else(|| Violation::new("W1", format!("the record of {name} is gone")))?;
    let mut rows = Vec::new();
    for slice in record.slices.iter() {
        let of_slice = split_records(&world.store, name, slice).await?;
        rows.extend(of_slice.into_iter().map(|row| (slice.clone(), row)));
    }
    Ok((record, rows))
}

/// S5: no state is stuck.
async fn wait_for_rest(world: &World, namespace: usize) -> Result<(), Violation> {
    let begun = world.env.monotonic();
    loop {
        world.env.sleep(LOOK).await;
        let (record, rows) = all_records(world, namespace).await?;
        let open = rows.iter().filter(|(slice, _)| slice.state == SliceState::Open);
        let mut restless = open.filter(|(slice, row)| !rests(&record, slice, row));
        let Some((_, row)) = restless.next() else { return Ok(()) };
        if world.env.monotonic().saturating_sub(begun) > LONGEST_REST {
            let what = format!("{} does not come to rest: {:?}", name(&row.partition), row.state);
            return Err(Violation::new("S5", what));
        }
    }
}

fn rests(record: &NamespaceRecord, slice: &Slice, row: &WideRow) -> bool {
    let settled = matches!(row.state, State::Completed { .. } | State::NotWide { .. } | State::Parked { .. });
    // What was opened again is compared again, once no window is open.
    let checked = usable(record, slice, row).count() == row.served.len();
    settled && row.lease.is_none() && checked
}

/// Writes that were never acknowledged may have surfaced late: whatever differs is found by a recheck.
async fn verify(world: &World, dice: &Dice, namespace: usize) -> Result<(), Violation> {
    let Some(server) = world.any_server(dice) else { return Ok(()) };
    for _ in 0..20 {
        let asked = world.namespace(namespace).as_str().to_owned();
        let all = SplitSelection::default();
        let verified = server.call(|engine| async move { engine.verify_splits(&asked, &all).await }).await;
        match verified {
            Some(Ok(_)) => return Ok(()),
            other => world.trace.log("finale", format_args!("verifies: {}", crate::trace::words(other.as_ref()))),
        }
        world.env.sleep(LOOK).await;
    }
    Err(Violation::new("S5", "splits can't be verified though nothing is wrong any more"))
}

/// S6: once filters are built anew, every server reads what is split from pieces.
async fn use_all(world: &Arc<World>, dice: &Dice, namespace: usize) -> Result<(), Violation> {
    let Some(server) = world.any_server(dice) else { return Ok(()) };
    let mode = if dice.percent(50) { ReadMode::On } else { ReadMode::Exec };
    change_mode(world, &server, world.namespace(namespace).as_str().to_owned(), mode).await;
    let options = &world.plan.options;
    world.env.sleep((options.splits.sweep_interval + options.refresh_interval) * 3).await;
    let (record, rows) = all_records(world, namespace).await?;
    if record.splits.mode != mode {
        return Ok(()); // a rule was quicker
    }
    for (slice, row) in rows.iter().filter(|(slice, row)| slice.state == SliceState::Open && row.set_aside.is_none()) {
        // Blocked series can't be read; empty time isn't looked at.
        if world.oracle().may_be_blocked(namespace, &row.partition.time_series_id) {
            continue;
        }
        let Some(newest) = usable(&record, slice, row).last().and_then(|segment| segment.pieces.first()) else {
            continue;
        };
        let time = newest.newest.time;
        for index in 0..world.plan.servers {
            check_use(world, namespace, index, row, Interval::new(time, time.saturating_add(Duration::from_nanos(1))))
                .await?;
        }
    }
    Ok(())
}

async fn check_use(
    world: &World,
    namespace: usize,
    index: usize,
    row: &WideRow,
    span: Interval,
) -> Result<(), Violation> {
    let Some(server) = world.server(index) else { return Ok(()) };
    let request = ReadRequest {
        namespace: world.namespace(namespace).as_str().to_owned(),
        series: row.partition.time_series_id.as_str().to_owned(),
        start: Some(span.start),
        end: Some(span.end),
        ..ReadRequest::default()
    };
    let routes = || server.engine.metrics().split_routes.with_label_values(&["split"]).get();
    let before = routes();
    let answer = server.read(request).await;
    let closed = namespace_record(&world.store, world.namespace(namespace)).await?;
    let closed = closed.is_some_and(|record| span.start < record.closed_until);
    if routes() > before || closed || !matches!(answer, Some(Ok(_))) {
        return Ok(());
    }
    let what = format!("server {index} does not know that {} is split", name(&row.partition));
    Err(Violation::new("S6", what))
}
