//! Slices are made ahead of need, closed and dropped by age, and a scan that loses rows to that says so.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_engine::{
    AggregateRequest, EngineOptions, ErrorKind, GroupBy, GroupKey, NamespaceRecord, PartialReason, ReadRequest,
    SearchRequest, SplitOptions,
};
use anabranch_model::{Interval, NamespaceConfig, NamespaceName, Order, TableName, Timestamp};
use anabranch_runtime::run_simulated;
use anabranch_store::{MemoryStore, MetaKey, Store};

use crate::{
    fixture::{START, World, event, history, run},
    slow_store::run_slow_shared,
};

fn short_lived() -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: 3600,
        seconds_per_bucket: 600,
        accept_limit: Duration::from_secs(600),
        close_after: Some(Duration::from_secs(7200)),
        delete_after: Some(Duration::from_secs(10_800)),
        ..NamespaceConfig::default()
    }
}

#[test]
fn slices_are_made_ahead_closed_and_dropped() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        for _ in 0..100 {
            let (now, record) = (world.env.now(), world.engine.namespace("plays").unwrap());
            let ahead = record.slices.iter().filter(|slice| slice.interval.start > now).count();
            assert!(ahead >= 1, "{ahead} slices ahead at {now}");
            world.write(vec![event("a", now.nanos(), "e", &[("k", "v")])]).await.unwrap();
            world.env.sleep(Duration::from_secs(600)).await;
        }
        let record = world.engine.namespace("plays").unwrap();
        assert!(record.slices.len() <= 8, "{}", record.slices.len());
        assert_eq!(world.store.tables().await.unwrap().len(), record.slices.len());
        let (records, _) = world.scan(history("a")).await;
        let hours = records.len() as u64 * 600 / 3600;
        assert!((2..=4).contains(&hours), "{hours} hours are left");
    });
}

/// R1, R2
#[test]
fn a_scan_that_loses_rows_to_retention_says_so() {
    for order in [Order::LatestFirst, Order::OldestFirst] {
        run(|world| async move {
            world.namespace(short_lived()).await;
            for at in 0..12 {
                world.write(vec![event("a", world.now(), &format!("e{at}"), &[("k", "v")])]).await.unwrap();
                world.env.sleep(Duration::from_secs(600)).await;
            }
            let mut request = ReadRequest { order, page_size: 2, ..history("a") };
            let first = world.read(request.clone()).await.unwrap();
            assert_eq!(first.partial, None);
            request.page_token = first.next_page_token.unwrap();
            world.env.sleep(Duration::from_secs(5000)).await;
            let mut reasons = Vec::new();
            loop {
                let page = world.read(request.clone()).await.unwrap();
                reasons.extend(page.partial.map(|partial| partial.reason));
                let Some(token) = page.next_page_token else { break };
                request.page_token = token;
            }
            assert_eq!(reasons, [PartialReason::Retention], "{order:?}");
            // A scan that begins now covers what is there, and is whole.
            assert_eq!(world.read(history("a")).await.unwrap().partial, None);
        });
    }
}

/// R2: an answer over several histories has room for one reason, and the next history may have another to be short.
#[test]
fn a_search_that_loses_rows_to_retention_says_so_before_it_goes_on() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        for at in 0..12 {
            let both = ["a", "b"].map(|series| event(series, world.now(), &format!("e{at}"), &[("k", "v")]));
            world.write(both.into()).await.unwrap();
            world.env.sleep(Duration::from_secs(600)).await;
        }
        let series = ["a", "b"].map(str::to_owned).to_vec();
        let mut request =
            SearchRequest { namespace: "plays".to_owned(), series, page_size: 2, ..SearchRequest::default() };
        request.page_token = world.engine.search(&request).await.unwrap().next_page_token.unwrap();
        world.env.sleep(Duration::from_secs(5000)).await;
        request.page_size = 1000;
        let short = world.engine.search(&request).await.unwrap();
        assert_eq!(short.partial.map(|partial| partial.reason), Some(PartialReason::Retention));
        assert!(!short.records.is_empty() && short.records.iter().all(|(series, _)| series == "a"), "{short:?}");
        request.page_token = short.next_page_token.unwrap();
        let rest = world.engine.search(&request).await.unwrap();
        assert!(rest.records.iter().all(|(series, _)| series == "b") && rest.partial.is_none(), "{rest:?}");
        assert!(rest.next_page_token.is_none());
    });
}

/// R2: the same of what is counted.
#[test]
fn an_aggregate_that_loses_rows_to_retention_says_so_before_it_goes_on() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        // More groups than one answer has.
        for at in 0..12 {
            let value = |number: usize| format!("{at}/{number}");
            let many = |number: usize| event("a", world.now(), &value(number), &[("k", &value(number))]);
            world
                .write((0..900).map(many).chain([event("b", world.now(), "e", &[("k", "b")])]).collect())
                .await
                .unwrap();
            world.env.sleep(Duration::from_secs(600)).await;
        }
        let group_by = GroupBy { item_key: Some("k".to_owned()), ..GroupBy::default() };
        let series = ["a", "b"].map(str::to_owned).to_vec();
        let mut request =
            AggregateRequest { namespace: "plays".to_owned(), series, group_by, ..AggregateRequest::default() };
        let full = world.engine.aggregate(&request).await.unwrap();
        assert_eq!(full.partial, None);
        request.page_token = full.next_page_token.unwrap();
        world.env.sleep(Duration::from_secs(5000)).await;
        let short = world.engine.aggregate(&request).await.unwrap();
        assert_eq!(short.partial.map(|partial| partial.reason), Some(PartialReason::Retention));
        let is_b = |group: &GroupKey| group.value.as_deref() == Some(b"b");
        assert!(!short.groups.keys().any(is_b));
        request.page_token = short.next_page_token.unwrap();
        let rest = world.engine.aggregate(&request).await.unwrap();
        assert!(rest.groups.keys().all(is_b) && !rest.groups.is_empty() && rest.partial.is_none(), "{rest:?}");
    });
}

#[test]
fn closed_time_takes_no_backfill() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        world.env.sleep(Duration::from_secs(20_000)).await;
        let closed = world.engine.namespace("plays").unwrap().closed_until;
        let interval = Interval::new(closed.saturating_sub(Duration::from_secs(60)), closed);
        let refused = world.engine.open_backfill("plays", interval, Duration::from_secs(60), "").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("retention"), "{refused}");
    });
}

/// A worker that was too late, or a server that died while it made a slice, leaves a table behind.
#[test]
fn tables_without_a_slice_are_dropped_and_no_others() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        let plays = NamespaceName::new("plays").unwrap();
        let table = |namespace: &NamespaceName, table: &str| TableName {
            namespace: namespace.clone(),
            table: table.to_owned(),
        };
        let gone = NamespaceName::new("gone").unwrap();
        for left in
            [table(&plays, "wide_data_20200101_0"), table(&plays, "data_20200101"), table(&gone, "data_20200101")]
        {
            world.store.create_table(&left).await.unwrap();
        }
        world.env.sleep(Duration::from_secs(500)).await;
        assert_eq!(world.store.tables().await.unwrap().len(), 3 + 2, "they may still be claimed");
        world.env.sleep(Duration::from_secs(1000)).await;
        let slices = world.engine.namespace("plays").unwrap().slices;
        let live: Vec<TableName> = slices.iter().map(|slice| slice.table(&plays)).collect();
        assert_eq!(world.store.tables().await.unwrap(), live);
    });
}

/// A month of slices that are made, closed and dropped on two servers while events come and are read: what was acknowledged is there until
/// its slice closes (W1), no write waits for a slice, and nothing piles up.
#[test]
fn a_month_of_slices_passes_while_events_come_and_go() {
    let options = EngineOptions {
        refresh_interval: Duration::from_secs(10),
        lifecycle_interval: Duration::from_secs(300),
        splits: SplitOptions { concurrent: 0, sweep_interval: Duration::from_secs(3600), ..SplitOptions::default() },
        ..EngineOptions::default()
    };
    run_simulated(11, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()));
        let world = World::with(env.clone(), store.clone(), options.clone()).await;
        let other = World::with(env.clone(), store, options).await;
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let config = NamespaceConfig {
            seconds_per_slice: 4 * 3600,
            seconds_per_bucket: 3600,
            accept_limit: hours(1),
            close_after: Some(hours(24)),
            delete_after: Some(hours(26)),
            slices_ahead: 2,
            ..NamespaceConfig::default()
        };
        world.namespace(config).await;
        env.sleep(Duration::from_secs(60)).await;
        let mut written: BTreeMap<Timestamp, String> = BTreeMap::new();
        for at in 0..30 * 24 * 2 {
            let (now, id) = (env.now(), format!("e{at}"));
            let writer = if at % 2 == 0 { &world } else { &other };
            writer.write(vec![event("a", now.nanos(), &id, &[("k", "v")])]).await.unwrap();
            assert_eq!(env.now(), now, "a write never waits for a slice to be made");
            written.insert(now, id);
            if at % 7 == 0 {
                let reader = if at % 3 == 0 { &world } else { &other };
                let closed = reader.engine.namespace("plays").unwrap().closed_until;
                let (records, _) = reader.scan(ReadRequest { order: Order::OldestFirst, ..history("a") }).await;
                let found: Vec<&str> = records.iter().map(|record| record.position.id.as_str()).collect();
                let expected: Vec<&str> = written.range(closed..).map(|(_, id)| id.as_str()).collect();
                assert_eq!(found, expected, "at {now}");
            }
            env.sleep(Duration::from_secs(1800)).await;
        }
        let record = world.engine.namespace("plays").unwrap();
        assert!((8..=11).contains(&record.slices.len()), "{} slices", record.slices.len());
        assert_eq!(world.store.tables().await.unwrap().len(), record.slices.len());
        assert!(record.closed_until > Timestamp::from_seconds(START + 28 * 86_400), "{}", record.closed_until);
        let measured = world.store.list("slice_sizes/plays", None, 1000).await.unwrap();
        assert!(measured.len() <= record.slices.len(), "{} measurements", measured.len());
    });
}

/// W1: a table that nobody needed is made again for whoever has claimed it while it was dropped, also when it isn't known whether it was.
#[test]
fn a_table_that_is_claimed_while_it_is_dropped_is_there_again_whatever_the_drop_answered() {
    run_slow_shared(|world, slow| async move {
        let options = EngineOptions { orphans_after: Duration::ZERO, ..EngineOptions::default() };
        let other = World::with(world.env.clone(), world.store.clone(), options).await;
        let old = Timestamp::from_seconds(START - 200 * 86_400);
        let slice = Interval::new(old, old.saturating_add(Duration::from_secs(86_400)));
        other.engine.open_backfill("plays", slice, Duration::from_secs(86_400), "").await.unwrap();
        world.env.sleep(Duration::from_secs(10)).await;
        // The claim to it was given up once.
        let late = || vec![event("late", old.nanos(), "e", &[("k", "v")])];
        let probe = other.write(late()).await;
        assert_eq!(probe.unwrap_err().kind(), ErrorKind::Unavailable, "the slice is new");
        let table = other.engine.namespace("plays").unwrap().slices.at(old).unwrap().table(&name());
        forget_slice(&world, old).await;
        world.env.sleep(Duration::from_secs(10)).await;

        slow.drop_millis.store(30_000, Ordering::Relaxed);
        while slow.drops.load(Ordering::Relaxed) == 0 {
            world.env.sleep(Duration::from_millis(100)).await;
        }
        assert!(world.store.tables().await.unwrap().contains(&table));
        world.env.sleep(Duration::from_secs(28)).await;
        assert_eq!(other.write(late()).await.unwrap_err().kind(), ErrorKind::Unavailable, "the slice is new");
        world.env.sleep(Duration::from_secs(5)).await;
        other.write(late()).await.unwrap();
        assert_eq!(other.scan(history("late")).await.0.len(), 1);
    });
}

fn name() -> NamespaceName {
    NamespaceName::new("plays").unwrap()
}

/// Takes a slice out of the namespace's record, and leaves its table.
async fn forget_slice(world: &World, at: Timestamp) {
    let key = MetaKey::new("namespaces", "plays");
    let found = world.store.load(&key).await.unwrap().unwrap();
    let mut record: NamespaceRecord = serde_json::from_slice(&found.value).unwrap();
    let slice = record.slices.at(at).unwrap().interval;
    record.slices.remove(slice);
    let value = serde_json::to_vec(&record).unwrap().into();
    world.store.compare_and_set(&key, Some(found.version), Some(value)).await.unwrap();
}
