//! The end of a seed: the weather clears up, queues are drained, servers start anew, and everything is compared exactly:
//! what the servers answer, and what lies in the store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anabranch_engine::NamespaceRecord;
use anabranch_model::{Interval, Order, Position, RowKey, Slice, TableName};
use anabranch_store::{Direction, MetaKey, Scan, ScanSpan, Store, StoreError};
use tokio::sync::Notify;

use crate::{
    dice::Dice,
    faults::LATEST_CHANGE,
    oracle::{SeriesKey, Violation},
    plan::{SERIES, series_id},
    scans::{ScanSpec, scan},
    split_finale::conclude_splits,
    world::World,
};

/// Brings the world to rest and looks at all of it.
pub(crate) async fn conclude(world: &Arc<World>, dice: &Dice) {
    rest(world, dice).await;
    for namespace in 0..world.plan.namespaces.len() {
        let verdict = conclude_splits(world, dice, namespace).await;
        if !world.check("finale", verdict) {
            return;
        }
    }
    world.oracle().settle_all();
    world.trace.log("finale", format_args!("everything is at rest"));
    for namespace in 0..world.plan.namespaces.len() {
        let verdict = inspect(world, namespace).await;
        if !world.check("finale", verdict) {
            return;
        }
        for series in 0..SERIES {
            let key = (namespace, series_id(series));
            for order in [Order::LatestFirst, Order::OldestFirst] {
                if !read_whole(world, dice, key.clone(), order).await {
                    return;
                }
            }
        }
    }
}

/// No faults, nothing in queues, nothing on its way, fresh servers.
async fn rest(world: &Arc<World>, dice: &Dice) {
    world.sky.clear_up();
    for index in 0..world.plan.servers {
        if let Some(server) = world.server(index) {
            let ended = server.call(|engine| async move { engine.shutdown().await }).await;
            world
                .trace
                .log("finale", format_args!("server {index} shuts down: {:?}", ended.map(|ended| ended.is_ok())));
        }
        world.stop_server(index);
    }
    world.env.sleep(LATEST_CHANGE * 2).await;
    for index in 0..world.plan.servers {
        if world.start_server(index, dice, Arc::new(Notify::new())).await.is_none() {
            let what = format!("server {index} does not start though nothing is wrong any more");
            world.check("finale", Err(Violation::new("W1", what)));
        }
    }
}

/// Readers find everything, in either order, at any server; the oracle's settled values tell whether both agree.
async fn read_whole(world: &Arc<World>, dice: &Dice, key: SeriesKey, order: Order) -> bool {
    let spec = ScanSpec::whole(key.clone(), order);
    for _ in 0..20 {
        if Box::pin(scan(world, "finale", dice, spec.clone())).await {
            return true;
        }
        if world.oracle().violation().is_some() {
            return false;
        }
        // A blocked series can't be read until its block is over; that is as it should be.
        if world.oracle().may_be_blocked(key.0, &key.1) {
            return true;
        }
    }
    let what = format!("{key:?} can't be read though nothing is wrong any more");
    world.check("finale", Err(Violation::new("R2", what)));
    false
}

/// What lies in the store: every acknowledged row, each once and where it belongs, and nothing that was refused.
async fn inspect(world: &World, namespace: usize) -> Result<(), Violation> {
    let broken = |error: StoreError| Violation::new("W1", format!("the store fails: {error}"));
    let name = world.namespace(namespace);
    let document = world.store.load(&MetaKey::new("namespaces", name.as_str())).await.map_err(broken)?;
    let document = document.ok_or_else(|| Violation::new("W1", format!("the record of {name} is gone")))?;
    let record: NamespaceRecord = serde_json::from_slice(&document.value)
        .map_err(|error| Violation::new("W1", format!("the record of {name} is damaged: {error}")))?;
    world.oracle().check_closed(namespace, &record, world.env.now())?;
    world.oracle().check_windows(namespace, &record)?;
    let tables: BTreeSet<TableName> = world.store.tables().await.map_err(broken)?.into_iter().collect();
    let mut found: BTreeSet<(SeriesKey, Position)> = BTreeSet::new();
    for slice in record.slices.iter() {
        let table = slice.table(name);
        if !tables.contains(&table) {
            let dropping = slice.state == anabranch_model::SliceState::Dropping;
            if dropping {
                continue;
            }
            return Err(Violation::new("W1", format!("the table of slice {} is gone", slice.name())));
        }
        inspect_slice(world, namespace, slice, &table, &mut found).await?;
    }
    let oracle = world.oracle();
    for (key, history) in oracle.histories().filter(|(key, _)| key.0 == namespace) {
        for (position, state) in history {
            let must = state.is_acknowledged_before(u64::MAX) && position.time >= record.closed_until;
            if must && !found.contains(&(key.clone(), position.clone())) {
                let what = format!("{key:?} {position:?} was acknowledged and is not in the store");
                return Err(Violation::new("W1", what));
            }
        }
    }
    Ok(())
}

async fn inspect_slice(
    world: &World,
    namespace: usize,
    slice: &Slice,
    table: &TableName,
    found: &mut BTreeSet<(SeriesKey, Position)>,
) -> Result<(), Violation> {
    let broken = |error: StoreError| Violation::new("W1", format!("the store fails: {error}"));
    let sample = world.store.sample(table, 0, usize::MAX).await.map_err(broken)?;
    for partition in sample.partitions {
        let partition = partition.partition;
        let scan = Scan {
            table: table.clone(),
            partition: partition.clone(),
            span: ScanSpan::Interval { interval: Interval::ALL, after: None },
            direction: Direction::Forward,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            timeout: Duration::from_secs(1),
        };
        let rows = world.store.scan(&scan).await.map_err(broken)?.rows;
        let key: SeriesKey = (namespace, partition.series.clone());
        let oracle = world.oracle();
        for event in rows.chunk_by(|left, right| left.position == right.position) {
            let position = &event[0].position;
            let place = |what: &str| format!("{key:?} {position:?} in {table}: {what}");
            let belongs = slice.interval.contains(position.time) && slice.partition(&key.1, position) == partition;
            if !belongs {
                return Err(Violation::new("W2", place("it doesn't belong in this partition")));
            }
            let items: Vec<_> = event.iter().map(|row| row.item.clone()).collect();
            let state = oracle.event(&key, position);
            let state = state.ok_or_else(|| Violation::new("W3", place("nobody sent it")))?;
            state.check_whole(&items, u64::MAX).map_err(|wrong| Violation { what: place(&wrong.what), ..wrong })?;
            if !found.insert((key.clone(), position.clone())) {
                return Err(Violation::new("W2", place("it is stored twice")));
            }
        }
        let keys: BTreeSet<(Position, String)> = rows.iter().map(|row| distinct(row.key())).collect();
        if keys.len() != rows.len() {
            return Err(Violation::new("W2", format!("{key:?}: a row is stored twice in {table}")));
        }
    }
    Ok(())
}

fn distinct(key: RowKey) -> (Position, String) {
    (key.position, key.item_key.into_string())
}
