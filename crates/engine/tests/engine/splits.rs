//! Wide partitions are noticed, split, verified, compared and served, and whoever reads sees one history throughout.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{EngineOptions, EventInput, ItemInput, ReadRequest, SplitOptions, SplitSelection, TimeInput};
use anabranch_model::{
    Interval, NamespaceConfig, Order, Packing, ReadMode, Record, Slo, SplitSettings, SplitStrategy, Timestamp,
};
use anabranch_runtime::run_simulated;
use anabranch_split::{State, WideRow};
use anabranch_store::{Direction, MemoryStore, PartitionBatch, Scan, ScanSpan, Store};
use bytes::Bytes;

use crate::fixture::{START, World, history, run};

const SECOND: i64 = 1_000_000_000;

pub(crate) fn config() -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: 86_400,
        seconds_per_bucket: 86_400,
        accept_limit: Duration::from_secs(3600),
        seal_margin: Duration::from_secs(10),
        read_slo: Slo { target: Duration::from_secs(5), max: Duration::from_secs(60) },
        split: SplitSettings {
            threshold_bytes: 64 << 10,
            target_piece_bytes: 16 << 10,
            block_bytes: 2048,
            promote_comparisons: 3,
            promote_over: Duration::ZERO,
            must_pay: false,
            ..SplitSettings::default()
        },
        ..NamespaceConfig::default()
    }
}

/// `count` events, one a second, the newest at `until`.
fn events(until: i64, count: i64) -> Vec<EventInput> {
    (0..count)
        .map(|at| EventInput {
            series: "wide".to_owned(),
            time: Some(TimeInput::Nanos(until - at * SECOND)),
            id: format!("e{at:05}"),
            items: vec![ItemInput {
                key: "body".to_owned(),
                value: Bytes::from(format!("{{\"at\":{at},\"text\":\"{}\"}}", "water ".repeat(20))),
                metadata: None,
            }],
        })
        .collect()
}

impl World {
    pub(crate) async fn fill(&self, until: i64, count: i64) {
        for chunk in events(until, count).chunks(500) {
            self.write(chunk.to_vec()).await.unwrap();
        }
    }

    pub(crate) async fn all(&self) -> Vec<Record> {
        self.scan(ReadRequest { page_size: 100, ..history("wide") }).await.0
    }

    pub(crate) async fn splits(&self) -> Vec<WideRow> {
        self.engine.split_records("plays", &SplitSelection::default()).await.unwrap()
    }

    /// Waits until the one split of the namespace fulfils a condition.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&WideRow) -> bool) -> WideRow {
        for _ in 0..600 {
            if let Some(row) = self.splits().await.into_iter().find(&holds) {
                return row;
            }
            self.env.sleep(Duration::from_secs(1)).await;
        }
        panic!("never {what}: {:?}", self.splits().await.iter().map(|row| row.state.name()).collect::<Vec<_>>());
    }

    pub(crate) async fn mode(&self, mode: ReadMode) {
        self.engine.set_read_mode("plays", mode, "test", "").await.unwrap();
    }

    /// A wide partition, all of it sealed, split.
    pub(crate) async fn split(&self, config: NamespaceConfig) -> (Vec<Record>, WideRow) {
        self.namespace(config).await;
        self.fill(self.now(), 2000).await;
        self.env.sleep(Duration::from_secs(2 * 3600)).await;
        let before = self.all().await;
        assert_eq!(before.len(), 2000);
        let row = self.until("completed", |row| !row.served.is_empty()).await;
        (before, row)
    }

    pub(crate) fn counted(&self, name: &str, label: &str) -> f64 {
        let families = self.engine.metrics().registry.gather();
        let of_name = families.iter().filter(|family| family.name() == name);
        let of_name = of_name.flat_map(prometheus::proto::MetricFamily::get_metric);
        let labelled =
            of_name.filter(|metric| label.is_empty() || metric.get_label().iter().any(|pair| pair.value() == label));
        labelled.map(|metric| metric.get_counter().get_value()).sum()
    }

    fn gauged(&self, name: &str) -> i64 {
        let families = self.engine.metrics().registry.gather();
        let family = families.iter().find(|family| family.name() == name).expect("it is registered");
        family.get_metric().iter().map(|metric| metric.get_gauge().get_value() as i64).sum()
    }

    /// How often a histogram was told something.
    fn observed(&self, name: &str) -> u64 {
        let families = self.engine.metrics().registry.gather();
        let family = families.iter().find(|family| family.name() == name).expect("it is registered");
        family.get_metric().iter().map(|metric| metric.get_histogram().get_sample_count()).sum()
    }
}

#[test]
fn a_wide_partition_is_noticed_while_it_is_read_and_split() {
    run(|world| async move {
        let (_, row) = world.split(config()).await;
        let segment = &row.served[0];
        assert!(segment.pieces.len() > 10, "{} pieces", segment.pieces.len());
        assert!(segment.post_split_data.bytes * 10 < segment.pre_split_data.bytes * 8, "packed: {segment:?}");
        assert_eq!(segment.pre_split_data.rows, 2000);
        assert!(matches!(row.state, State::Completed { .. }));
        assert!(world.counted("anabranch_detections_total", "accepted") >= 1.0);
    });
}

/// On a store that is far away. A whole history neither fills that memory nor is read from it.
#[test]
fn pages_of_a_split_that_were_read_before_come_from_memory() {
    run_simulated(7, Timestamp::from_seconds(START), |env| async {
        let splits = SplitOptions { block_cache_bytes: 1 << 20, ..SplitOptions::default() };
        let store = Arc::new(MemoryStore::new(env.clone()));
        let world = World::with(env, store, EngineOptions { splits, ..EngineOptions::default() }).await;
        let (before, _) = world.split(config()).await;
        world.mode(ReadMode::On).await;
        let kept = || async {
            world.env.sleep(Duration::from_secs(30)).await; // a sweep takes the figures down
            ["hits", "misses", "bytes"].map(|what| world.gauged(&format!("anabranch_block_cache_{what}")))
        };
        let mut stream = world.engine.bulk_read(&history("wide")).await.unwrap();
        let mut records = Vec::new();
        while let Some(page) = stream.next().await {
            records.extend(page.unwrap().records);
        }
        assert_eq!(records, before);
        assert_eq!(kept().await, [0, 0, 0]);
        let page = ReadRequest { page_size: 100, end: Some(before[700].position.time), ..history("wide") };
        let first = world.engine.read(page.clone()).await.unwrap().records;
        assert_eq!(first, before[701..801]);
        let [hits, misses, bytes] = kept().await;
        assert!(misses > 0 && bytes > 0, "{hits} {misses} {bytes}");
        assert_eq!(world.engine.read(page.clone()).await.unwrap().records, first);
        let again = kept().await;
        assert!(again[0] > hits, "{again:?}");
        assert_eq!(again[1..], [misses, bytes]);
    });
}

/// What a scan has read of one partition doesn't count for the next.
#[test]
fn partitions_that_are_wide_only_together_are_not_noticed() {
    run(|world| async move {
        // Twenty minutes each, of about 40 KiB: below the threshold, which two of them pass.
        world.namespace(NamespaceConfig { seconds_per_bucket: 1200, ..config() }).await;
        for bucket in 0..3 {
            world.fill(world.now() - bucket * 1200 * SECOND, 240).await;
        }
        world.env.sleep(Duration::from_secs(12 * 3600)).await;
        let read: usize = world.all().await.iter().map(Record::bytes).sum();
        assert!(read > 64 << 10, "{read} bytes are more than the threshold");
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.counted("anabranch_detections_total", "accepted"), 0.0);
        assert!(world.splits().await.is_empty());
    });
}

/// R4: every read mode returns the same bytes, whatever the order, the page size and the interval.
#[test]
fn every_mode_answers_the_same() {
    run(|world| async move {
        let (before, row) = world.split(config()).await;
        let until = row.served[0].span.end;
        world.fill(world.now(), 50).await;
        world.mode(ReadMode::Off).await;
        let middle = before[700].position.time;
        let requests: Vec<ReadRequest> = [Order::LatestFirst, Order::OldestFirst]
            .into_iter()
            .flat_map(|order| {
                [(None, None, 100), (Some(middle), None, 7), (None, Some(middle), 333), (Some(until), None, 10)]
                    .map(|(start, end, page_size)| ReadRequest { order, start, end, page_size, ..history("wide") })
            })
            .collect();
        let mut expected = Vec::new();
        for request in &requests {
            expected.push(world.scan(request.clone()).await.0);
        }
        assert_eq!(expected[0].len(), 2050);
        for mode in [ReadMode::Shadow, ReadMode::Comparison, ReadMode::Exec, ReadMode::On] {
            world.mode(mode).await;
            for (request, expected) in requests.iter().zip(&expected) {
                assert_eq!(&world.scan(request.clone()).await.0, expected, "{mode} {request:?}");
            }
        }
        assert!(world.counted("anabranch_split_routes_total", "split") > 0.0, "EXEC and ON read pieces");
        assert_eq!(world.counted("anabranch_split_fallbacks_total", ""), 0.0);
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.counted("anabranch_comparisons_total", "differs"), 0.0);
    });
}

/// R1: a page token stays valid when a split completes or the mode changes between pages.
#[test]
fn a_scan_goes_on_across_a_split_and_mode_changes() {
    run(|world| async move {
        world.namespace(config()).await;
        world.fill(world.now(), 2000).await;
        world.env.sleep(Duration::from_secs(2 * 3600)).await;
        for order in [Order::LatestFirst, Order::OldestFirst] {
            let mut request = ReadRequest { page_size: 90, order, ..history("wide") };
            let (mut found, mut page_number) = (Vec::new(), 0);
            loop {
                let page = world.read(request.clone()).await.unwrap();
                found.extend(page.records);
                let Some(token) = page.next_page_token else { break };
                request.page_token = token;
                page_number += 1;
                match page_number % 4 {
                    1 => world.mode(ReadMode::On).await,
                    2 => world.env.sleep(Duration::from_secs(5)).await,
                    3 => world.mode(ReadMode::Comparison).await,
                    _ => {}
                }
            }
            let mut ids: Vec<&str> = found.iter().map(|record| record.position.id.as_str()).collect();
            if order == Order::OldestFirst {
                ids.reverse();
            }
            let expected: Vec<String> = (0..2000).map(|at| format!("e{at:05}")).collect();
            assert_eq!(ids, expected);
            world.until("completed", |row| !row.served.is_empty()).await;
        }
    });
}

#[test]
fn comparisons_without_a_difference_promote_a_namespace() {
    run(|world| async move {
        world.split(config()).await;
        let splits = || world.engine.namespace("plays").unwrap().splits;
        assert_eq!(splits().mode, ReadMode::Comparison);
        world.all().await;
        for _ in 0..60 {
            world.env.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(splits().mode, ReadMode::Exec);
        let change = splits().history.last().cloned().unwrap();
        assert_eq!((change.from, change.to, change.by.as_str()), (ReadMode::Comparison, ReadMode::Exec, "rule"));
        assert!(change.reason.contains("without a difference"), "{}", change.reason);
    });
}

/// Alters, moves or removes what a piece holds, behind everybody's back.
pub(crate) async fn tamper(world: &World, row: &WideRow, piece: usize, how: &str) {
    let segment = &row.served[0];
    let table = segment.generation.table(&row.partition.namespace, &row.partition.time_slice);
    let partition = row.partition.piece(segment.pieces[piece].ordinal);
    let scan = Scan {
        table: table.clone(),
        partition: partition.clone(),
        span: ScanSpan::Interval { interval: Interval::ALL, after: None },
        direction: Direction::Forward,
        max_rows: usize::MAX,
        max_bytes: usize::MAX,
        timeout: Duration::from_secs(5),
    };
    let mut rows = world.store.scan(&scan).await.unwrap().rows;
    let put = |rows: Vec<anabranch_model::Row>| {
        let batch =
            PartitionBatch { table: table.clone(), partition: partition.clone(), rows, write_time_micros: i64::MAX };
        let store = world.store.clone();
        async move { store.write(vec![batch], Duration::from_secs(5)).await[0].clone().unwrap() }
    };
    match how {
        "altered" => {
            let at = rows.len() / 2;
            let mut value = rows[at].item.value.to_vec();
            let middle = value.len() / 2;
            value[middle] ^= 1;
            rows[at].item.value = value.into();
            put(vec![rows[at].clone()]).await;
        }
        "moved" => {
            let at = rows.len() / 2;
            rows[at].item.value = rows[at - 1].item.value.clone();
            rows[at].item.metadata = rows[at - 1].item.metadata.clone();
            put(vec![rows[at].clone()]).await;
        }
        "removed" => world.store.forget_row(&table, &partition, &rows[rows.len() / 2].key()),
        other => panic!("{other}"),
    }
}

/// S2, R4: what is wrong with a piece is noticed, never served once noticed, and split anew; reads are right throughout.
#[test]
fn a_tampered_piece_is_noticed_and_never_served_again() {
    for how in ["altered", "moved", "removed"] {
        for mode in [ReadMode::Comparison, ReadMode::Exec] {
            for packing in [Packing::Lz4, Packing::Rows] {
                run(|world| async move {
                    let config = NamespaceConfig { split: SplitSettings { packing, ..config().split }, ..config() };
                    let (before, row) = world.split(config).await;
                    let case = format!("{how} {mode} {packing}");
                    world.mode(mode).await;
                    tamper(&world, &row, 3, how).await;
                    let read = world.all().await;
                    // Rows have no checksum of their own: what is altered in them is only noticed by comparing.
                    assert!(packing == Packing::Rows || mode == ReadMode::Comparison || read == before, "{case}");
                    let noticed = |row: &WideRow| row.generation.0 > 1;
                    world.until(&format!("noticed ({case})"), noticed).await;
                    assert_eq!(world.all().await, before, "{case}");
                    let anew = world.until("split anew", |row| row.generation.0 == 2 && !row.served.is_empty()).await;
                    assert_eq!(anew.served[0].generation.0, 2, "{case}");
                    world.mode(ReadMode::On).await;
                    assert_eq!(world.all().await, before, "{case}");
                    let differences = world.engine.split_differences("plays").await.unwrap();
                    assert_eq!(differences.len(), 1, "{case}");
                    assert_eq!(differences[0].partition, row.partition, "{case}");
                });
            }
        }
    }
}

/// What doesn't hold its checksum is counted, by who noticed it.
#[test]
fn checksum_mismatches_are_counted_by_who_noticed() {
    let rows = || NamespaceConfig { split: SplitSettings { packing: Packing::Rows, ..config().split }, ..config() };
    let mismatches = |world: &World| {
        ["verifier", "read", "comparison", "recheck"]
            .map(|who| world.counted("anabranch_checksum_mismatches_total", who))
    };
    run(|world| async move {
        let (before, row) = world.split(config()).await;
        assert_eq!(mismatches(&world), [0.0; 4]);
        world.mode(ReadMode::Exec).await;
        tamper(&world, &row, 3, "altered").await;
        assert_eq!(world.all().await, before);
        assert!(mismatches(&world)[1] >= 1.0, "a block whose checksum is wrong: {:?}", mismatches(&world));
    });
    run(|world| async move {
        let (_, row) = world.split(rows()).await;
        world.mode(ReadMode::Comparison).await;
        tamper(&world, &row, 3, "altered").await;
        world.all().await;
        world.until("noticed", |row| row.generation.0 > 1).await;
        assert_eq!(mismatches(&world), [0.0, 0.0, 1.0, 0.0]);
    });
    run(|world| async move {
        let (_, row) = world.split(rows()).await;
        world.mode(ReadMode::Off).await;
        tamper(&world, &row, 3, "altered").await;
        world.engine.verify_splits("plays", &SplitSelection::default()).await.unwrap();
        assert_eq!(mismatches(&world), [0.0, 0.0, 0.0, 1.0]);
    });
    run(|world| async move {
        let (_, row) = world.split(rows()).await;
        // Somebody has written to where the next generation's pieces will be.
        let mut stray = world.original_row(&row, 500).await;
        stray.position.time = Timestamp::from_nanos(stray.position.time.nanos() + 1);
        let inside = |piece: &&anabranch_split::Piece| piece.oldest <= stray.position && stray.position <= piece.newest;
        let piece = row.served[0].pieces.iter().find(inside).expect("all of it is in pieces");
        let table = row.generation.next().table(&row.partition.namespace, &row.partition.time_slice);
        let partition = row.partition.piece(piece.ordinal);
        world.store.create_table(&table).await.unwrap();
        let batch = PartitionBatch { table, partition, rows: vec![stray], write_time_micros: 1 };
        world.store.write(vec![batch], Duration::from_secs(5)).await.remove(0).unwrap();
        let all = SplitSelection::default();
        world.engine.abandon_splits("plays", &all, "").await.unwrap();
        world.engine.retry_splits("plays", &all).await.unwrap();
        let anew = world.until("split anew", |row| !row.served.is_empty() && row.generation.0 > 1).await;
        assert_eq!(anew.generation.0, 3, "what didn't fit was never served (S2)");
        assert_eq!(mismatches(&world), [1.0, 0.0, 0.0, 0.0]);
    });
}

/// Every page is counted with its bytes; lookups in filters are timed for some pages, not for all.
#[test]
fn pages_are_counted_with_their_bytes_and_some_lookups_are_timed() {
    run(|world| async move {
        world.split(config()).await;
        world.mode(ReadMode::Exec).await;
        for _ in 0..3 {
            world.all().await;
        }
        let pages = world.counted("anabranch_pages_read_total", "") as u64;
        assert!(pages >= 60, "{pages}");
        assert_eq!(world.observed("anabranch_read_page_bytes"), pages);
        let timed = world.observed("anabranch_filter_check_seconds");
        assert!((1..=pages / 8).contains(&timed), "{timed} of {pages}");
    });
}

/// What a background task waits for is said as it is.
#[test]
fn tasks_say_what_they_wait_for() {
    run(|world| async move {
        let task = |world: &World, name: &str| world.engine.tasks().into_iter().find(|task| task.name == name).unwrap();
        let (_, row) = world.split(config()).await;
        world.env.sleep(Duration::from_secs(15)).await;
        assert_eq!(task(&world, "splits").waits_for, "a partition that is due");
        assert_eq!(task(&world, "comparisons").waits_for, "the next read of a split");
        let sweep = task(&world, "sweep");
        let now = world.env.now();
        assert_eq!(sweep.waits_for, "its interval, or an operator");
        let next = sweep.next_run.expect("it has an interval");
        assert!(next > now && next <= now.saturating_add(Duration::from_secs(10)), "{next} at {now}");

        // A window over what is split: nothing goes on until it is closed.
        let window = row.served[0].span;
        let opened = world.engine.open_backfill("plays", window, Duration::from_secs(3600), "").await.unwrap();
        world.env.sleep(Duration::from_secs(15)).await;
        assert_eq!(task(&world, "splits").waits_for, "the end of a backfill, for example of `plays`, for 1");
        world.engine.close_backfill("plays", &opened.id).await.unwrap();
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(task(&world, "splits").waits_for, "a partition that is due");

        // What one server does, another one waits for: it is asked right after the first has begun.
        let due = task(&world, "measure").next_run.expect("it has an interval");
        world.env.sleep(due.since(world.env.now()) + Duration::from_secs(1)).await;
        let other = World::on(world.env.clone(), world.store.clone()).await;
        other.env.sleep(Duration::from_secs(1)).await;
        let waiting = task(&other, "measure");
        assert_eq!(waiting.did, "left it to another server");
        assert!(waiting.waits_for.contains(", which has the lease until 2026-"), "{waiting:?}");
        assert!(waiting.next_run.is_some_and(|next| next > other.env.now()), "{waiting:?}");
    });
}

#[test]
fn an_operator_can_verify_a_split() {
    run(|world| async move {
        let (_, row) = world.split(config()).await;
        let all = SplitSelection::default();
        let verified = world.engine.verify_splits("plays", &all).await.unwrap();
        assert!(verified.len() == 1 && verified[0].difference.is_none() && verified[0].segments == 1, "{verified:?}");
        tamper(&world, &row, 0, "removed").await;
        let verified = world.engine.verify_splits("plays", &all).await.unwrap();
        assert!(verified[0].difference.is_some(), "{verified:?}");
        assert!(world.splits().await[0].served.is_empty());
    });
}

/// A difference that is more than a late write takes the trust from all splits of the namespace, at once.
#[test]
fn a_difference_demotes_the_namespace_but_a_late_write_does_not() {
    run(|world| async move {
        let (_, row) = world.split(config()).await;
        world.mode(ReadMode::On).await;
        // A write that was never acknowledged surfaces in the original.
        let mut late = world.original_row(&row, 500).await;
        late.position.time = Timestamp::from_nanos(late.position.time.nanos() + 1);
        world.put_original(&row, late).await;
        world.engine.verify_splits("plays", &SplitSelection::default()).await.unwrap();
        assert_eq!(world.engine.namespace("plays").unwrap().splits.mode, ReadMode::On);
        let row = world.until("split anew", |row| !row.served.is_empty() && row.generation.0 == 2).await;
        assert_eq!(world.all().await.len(), 2001, "the late write is served once it is known");
        tamper(&world, &row, 0, "altered").await;
        world.engine.verify_splits("plays", &SplitSelection::default()).await.unwrap();
        assert_eq!(world.engine.namespace("plays").unwrap().splits.mode, ReadMode::Comparison);
    });
}

impl World {
    async fn original_row(&self, row: &WideRow, at: usize) -> anabranch_model::Row {
        let scan = Scan {
            table: row.partition.table(),
            partition: row.partition.key(),
            span: ScanSpan::Interval { interval: Interval::ALL, after: None },
            direction: Direction::Forward,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            timeout: Duration::from_secs(5),
        };
        self.store.scan(&scan).await.unwrap().rows[at].clone()
    }

    async fn put_original(&self, row: &WideRow, late: anabranch_model::Row) {
        let batch = PartitionBatch {
            table: row.partition.table(),
            partition: row.partition.key(),
            rows: vec![late],
            write_time_micros: 1,
        };
        let store: Arc<dyn Store> = self.store.clone();
        store.write(vec![batch], Duration::from_secs(5)).await[0].clone().unwrap();
    }
}

#[test]
fn rows_spread_by_hash_are_served_like_any_other() {
    run(|world| async move {
        let split = SplitSettings { strategy: SplitStrategy::EventBucket, ..config().split };
        world.namespace(NamespaceConfig { split, ..config() }).await;
        world.fill(world.now(), 2000).await;
        world.env.sleep(Duration::from_secs(30 * 3600)).await;
        let before = world.all().await;
        let row = world.until("completed", |row| !row.served.is_empty()).await;
        let pieces = row.served[0].pieces.len();
        assert!(pieces.is_power_of_two() && pieces > 4, "{pieces} pieces");
        world.mode(ReadMode::On).await;
        assert_eq!(world.all().await, before);
        let mut backwards =
            world.scan(ReadRequest { order: Order::OldestFirst, page_size: 70, ..history("wide") }).await.0;
        backwards.reverse();
        assert_eq!(backwards, before);
        assert!(world.counted("anabranch_split_routes_total", "split") > 0.0);
        assert_eq!(world.counted("anabranch_split_fallbacks_total", ""), 0.0);
    });
}

/// L1: a slice takes its pieces and records with it, and nothing else.
#[test]
fn a_dropped_slice_takes_its_pieces_and_records_along() {
    run(|world| async move {
        let keep = NamespaceConfig {
            close_after: Some(Duration::from_secs(86_400)),
            delete_after: Some(Duration::from_secs(2 * 86_400)),
            ..config()
        };
        let (_, row) = world.split(keep).await;
        let pieces = row.served[0].generation.table(&row.partition.namespace, &row.partition.time_slice);
        assert!(world.store.tables().await.unwrap().contains(&pieces));
        world.env.sleep(Duration::from_secs(4 * 86_400)).await;
        assert!(!world.store.tables().await.unwrap().contains(&pieces));
        let scopes = (0..16).map(|shard| format!("wide_row/plays/{}/{shard:02x}", row.partition.time_slice));
        for scope in scopes {
            assert!(world.store.list(&scope, None, 10).await.unwrap().is_empty());
        }
    });
}

#[test]
fn a_split_is_given_up_and_begun_again_by_an_operator() {
    run(|world| async move {
        let (before, _) = world.split(config()).await;
        world.mode(ReadMode::On).await;
        let all = SplitSelection::default();
        let given_up = world.engine.abandon_splits("plays", &all, "not wanted").await.unwrap();
        assert!(
            matches!(&given_up[0].state, State::Parked { reason, given_up: true } if reason.contains("not wanted"))
        );
        world.env.sleep(Duration::from_secs(120)).await;
        assert_eq!(world.all().await, before);
        assert!(world.splits().await[0].served.is_empty(), "parked splits stay where they are");
        world.engine.retry_splits("plays", &all).await.unwrap();
        world.until("split again", |row| !row.served.is_empty()).await;
        assert_eq!(world.all().await, before);
    });
}

#[test]
fn a_request_names_a_series_or_a_slice() {
    run(|world| async move {
        let split = SplitSettings { detect: false, ..config().split };
        world.namespace(NamespaceConfig { split, ..config() }).await;
        world.fill(world.now(), 2000).await;
        world.env.sleep(Duration::from_secs(2 * 3600)).await;
        world.all().await;
        assert!(world.splits().await.is_empty(), "nothing is looked for");
        let nothing = world.engine.request_splits("plays", &SplitSelection::default()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        let slice = world.engine.namespace("plays").unwrap().slices.iter().next().unwrap().name();
        let of_slice = SplitSelection { time_slice: Some(slice), ..SplitSelection::default() };
        assert_eq!(world.engine.request_splits("plays", &of_slice).await.unwrap().rows.len(), 1);
        world.until("completed", |row| !row.served.is_empty()).await;
        let of_series = SplitSelection { time_series_id: Some("nobody".to_owned()), ..SplitSelection::default() };
        let requested = world.engine.request_splits("plays", &of_series).await.unwrap();
        assert!(requested.rows.is_empty() && !requested.more, "{requested:?}");
    });
}
