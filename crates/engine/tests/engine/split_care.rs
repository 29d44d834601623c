//! Care around splits: what is asked for, detected, compared and noticed, and what is left alone.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_engine::{Engine, EngineOptions, ReadRequest, SearchRequest, SplitOptions, SplitSelection};
use anabranch_model::{Interval, NamespaceConfig, Packing, ReadMode, Record, SplitSettings, Timestamp};
use anabranch_runtime::run_simulated;
use anabranch_split::{State, WideRow, WorkOptions};
use anabranch_store::MemoryStore;

use crate::{
    fixture::{START, World, event, history, run},
    slow_store::Slow,
    splits::{config, tamper},
};

/// A partition that is split already isn't suspected again by everybody who reads its tail: it is extended without being asked.
#[test]
fn a_partition_that_is_split_is_not_detected_again_by_every_read() {
    run(|world| async move {
        world.namespace(config()).await;
        world.fill(world.now(), 2000).await;
        world.env.sleep(Duration::from_secs(3000)).await;
        // A tail beyond the threshold, of which nothing is sealed for another hour.
        world.fill(world.now(), 1500).await;
        world.env.sleep(Duration::from_secs(900)).await;
        world.all().await;
        world.until("completed", |row| !row.served.is_empty()).await;
        world.env.sleep(Duration::from_secs(30)).await; // a sweep
        for mode in [ReadMode::On, ReadMode::Comparison] {
            world.mode(mode).await;
            let before = world.counted("anabranch_detections_total", "accepted");
            for _ in 0..10 {
                assert_eq!(world.all().await.len(), 3500);
            }
            assert_eq!(world.counted("anabranch_detections_total", "accepted"), before, "{mode}");
        }
        assert!(world.counted("anabranch_detections_total", "known") >= 10.0);
        world.env.sleep(Duration::from_secs(2 * 3600)).await;
        let extended = world.until("extended", |row| row.served.len() > 1).await;
        assert!(matches!(extended.state, State::Completed { .. }));
    });
}

/// Where the store can't list partitions, a record is made only for those that hold something, and a limited number at once.
#[test]
fn a_request_takes_up_what_is_there_and_says_what_it_left() {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()).without_ordered_partitions());
        let world = World::on(env, store).await;
        let split = SplitSettings { detect: false, ..config().split };
        world.namespace(NamespaceConfig { seconds_per_bucket: 60, split, ..config() }).await;
        let now = world.now();
        let minute = 60 * 1_000_000_000;
        let few = (0..3).map(|at| event("few", now - at * 10 * minute, "e", &[("k", "v")])).collect();
        world.write(few).await.unwrap();
        let of = |series: &str| SplitSelection { time_series_id: Some(series.to_owned()), ..SplitSelection::default() };
        let requested = world.engine.request_splits("plays", &of("few")).await.unwrap();
        assert_eq!((requested.rows.len(), requested.more), (3, false));
        assert_eq!(world.splits().await.len(), 3, "not one for each of 1,440 buckets");

        for hour in 0..3 {
            world.env.sleep(Duration::from_secs(3600)).await;
            let now = world.now();
            let many = (0..50).map(|at| event("many", now - at * minute, &format!("e{hour}"), &[("k", "v")])).collect();
            world.write(many).await.unwrap();
        }
        let requested = world.engine.request_splits("plays", &of("many")).await.unwrap();
        assert_eq!((requested.rows.len(), requested.more), (100, true));
        let one = SplitSelection { time_bucket: Some(requested.rows[0].partition.time_bucket), ..of("many") };
        let requested = world.engine.request_splits("plays", &one).await.unwrap();
        assert_eq!((requested.rows.len(), requested.more), (1, false));
    });
}

/// A window that opens while a split is compared explains any difference: nothing is condemned, and nobody is told that it was verified.
#[test]
fn a_comparison_that_a_backfill_ran_into_says_nothing() {
    run(|world| async move {
        let (before, row) = world.split(config()).await;
        world.mode(ReadMode::On).await;
        world.engine.shutdown().await.unwrap();
        let slow = Slow::new(world.store.clone(), world.env.clone());
        // In small steps, so that the event is altered before it is compared.
        let work = WorkOptions { fetch_bytes: 8 << 10, ..WorkOptions::default() };
        let options =
            EngineOptions { splits: SplitOptions { work, ..SplitOptions::default() }, ..EngineOptions::default() };
        let engine = Engine::start(slow.clone(), world.env.node(0), options).await.unwrap();
        let world = World { engine, ..world };
        slow.scan_millis.store(200, Ordering::Relaxed);
        let engine = world.engine.clone();
        let verifying =
            world.env.spawn(async move { engine.verify_splits("plays", &SplitSelection::default()).await.unwrap() });
        world.env.sleep(Duration::from_secs(1)).await;
        let oldest = &before.last().unwrap().position;
        let (hour, second) = (Duration::from_secs(3600), Duration::from_secs(1));
        let window = Interval::new(oldest.time.saturating_sub(hour), oldest.time.saturating_add(second));
        world.engine.open_backfill("plays", window, hour, "test").await.unwrap();
        let altered = event("wide", oldest.time.nanos(), oldest.id.as_str(), &[("body", "other bytes")]);
        world.write(vec![altered]).await.unwrap();
        let verified = verifying.await.unwrap();
        assert_eq!(verified.len(), 1);
        assert!(verified[0].difference.is_none() && verified[0].segments == 0, "{verified:?}");
        assert!(verified[0].skipped.is_some(), "{verified:?}");
        let now = world.splits().await;
        assert_eq!((now[0].generation, now[0].served.len()), (row.generation, 1), "not condemned");
        assert_eq!(world.engine.namespace("plays").unwrap().splits.mode, ReadMode::On);
    });
}

/// S2, R4: plain rows have no checksum, but their number is known: a row that is missing is noticed by whoever reads the piece,
/// without any comparison, before anything wrong is answered; the split isn't used any more.
#[test]
fn a_row_missing_from_a_plain_piece_is_noticed_by_a_read_alone() {
    for order in [anabranch_model::Order::LatestFirst, anabranch_model::Order::OldestFirst] {
        run(|world| async move {
            let split = SplitSettings { packing: Packing::Rows, compare_percent: 0, ..config().split };
            let (mut before, row) = world.split(NamespaceConfig { split, ..config() }).await;
            if order == anabranch_model::Order::OldestFirst {
                before.reverse();
            }
            world.mode(ReadMode::Exec).await;
            tamper(&world, &row, 3, "removed").await;
            let request = ReadRequest { page_size: 1000, order, ..history("wide") };
            let read: Vec<Record> = world.scan(request).await.0;
            assert!(world.counted("anabranch_split_fallbacks_total", "") >= 1.0);
            assert_eq!(read, before, "{order:?}");
            world.until("noticed", |row: &WideRow| row.generation.0 > 1).await;
        });
    }
}

/// R3: a search that goes on from history to history never answers more bytes than were asked for.
#[test]
fn a_search_over_several_histories_keeps_to_its_bytes() {
    run(|world| async move {
        world.namespace(config()).await;
        let now = world.now();
        let value = "x".repeat(700);
        let series = ["a", "b", "c", "d"];
        world.write(series.iter().map(|series| event(series, now, "e", &[("k", &value)])).collect()).await.unwrap();
        let mut request = SearchRequest {
            namespace: "plays".to_owned(),
            series: series.map(str::to_owned).to_vec(),
            page_bytes: 1800,
            ..SearchRequest::default()
        };
        let mut found = Vec::new();
        loop {
            let page = world.engine.search(&request).await.unwrap();
            let bytes: usize = page.records.iter().map(|(_, record)| record.bytes()).sum();
            assert!(bytes <= 1800 && !page.records.is_empty(), "{bytes} bytes");
            found.extend(page.records.into_iter().map(|(series, _)| series));
            match page.next_page_token {
                Some(token) => request.page_token = token,
                None => break,
            }
        }
        assert_eq!(found, series);
    });
}

/// Sweeps look only at slices in which something happened: there may be a million records that rest for ever.
#[test]
fn a_slice_in_which_everything_rests_is_not_listed_by_every_sweep() {
    run(|world| async move {
        let (_, row) = world.split(config()).await;
        // Until all of the day is sealed, and the tail was looked at for the last time.
        world.env.sleep(Duration::from_secs(20 * 3600)).await;
        let swept = |how: &str| world.counted("anabranch_slices_swept_total", how);
        let (listed, unchanged) = (swept("listed"), swept("unchanged"));
        world.env.sleep(Duration::from_secs(300)).await;
        assert!(swept("unchanged") >= unchanged + 25.0, "sweeps go on");
        assert!(swept("listed") <= listed + 2.0, "{} of them listed records", swept("listed") - listed);
        // What somebody changes is seen by the next sweep, and by those of other servers (S6).
        let store: Arc<dyn anabranch_store::Store> = world.store.clone();
        let other = Engine::start(store, world.env.node(0), EngineOptions::default()).await.unwrap();
        world.env.sleep(Duration::from_secs(60)).await;
        let states = |engine: &Engine| engine.split_summary("plays").unwrap().unwrap().states;
        assert_eq!(states(&other).get("COMPLETED"), Some(&1));
        world.engine.abandon_splits("plays", &SplitSelection::default(), "test").await.unwrap();
        world.env.sleep(Duration::from_secs(30)).await;
        assert_eq!(states(&other).get("PARKED"), Some(&1));
        assert_eq!(world.splits().await[0].partition, row.partition);
    });
}
