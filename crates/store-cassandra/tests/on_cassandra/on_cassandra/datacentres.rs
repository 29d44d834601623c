//! Two data centres of one node each, replication between them held up: a split made in one is never short in the other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_model::{Interval, NamespaceName, Order, Row, TableName, Timestamp};
use anabranch_runtime::Env;
use anabranch_split::{
    Compression, Doubt, Effort, Form, Ground, HistoryReader, Loaded, Pace, Served, State, Strategy, WidePartition,
    Work, WorkOptions,
};
use anabranch_store::{
    Direction, ReadLimits, Store,
    suite::fixture::{batch, contents, partition, row, scan, table_of, within},
};
use anabranch_store_cassandra::{CassandraOptions, CassandraStore, Replication};
use anabranch_testbed::{Cassandra, Shape};

use super::faults::{TURN, restart};

const PREFIX: &str = "dcs";
const NAMESPACE: &str = "plays";
const SLICE: &str = "data_20260328";
const WRITE: Duration = Duration::from_secs(30);
const HOUR: i64 = 3_600_000_000_000;
/// Nodes that were just started on a busy machine take their time to see each other.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A server's store in one of the data centres, at LOCAL_QUORUM.
async fn store_in(ring: &Cassandra, number: usize) -> Arc<dyn Store> {
    let mut options = CassandraOptions::new([ring.addresses()[number - 1].to_string()]);
    options.keyspace_prefix = PREFIX.to_owned();
    options.local_datacenter = Some(format!("dc{number}"));
    options.replication = Replication::PerDatacenter(BTreeMap::from([("dc1".to_owned(), 1), ("dc2".to_owned(), 1)]));
    Arc::new(CassandraStore::connect(options, Env::system()).await.unwrap_or_else(|error| panic!("{error}")))
}

/// Records of splits lie in the first data centre only, so that holding up the rows doesn't hold up them.
async fn keep_documents_in_the_first(ring: &Cassandra) {
    let mut options = CassandraOptions::new([ring.addresses()[0].to_string()]);
    options.keyspace_prefix = PREFIX.to_owned();
    options.local_datacenter = Some("dc1".to_owned());
    options.replication = Replication::PerDatacenter(BTreeMap::from([("dc1".to_owned(), 1)]));
    CassandraStore::connect(options, Env::system()).await.unwrap_or_else(|error| panic!("{error}"));
}

fn rows(from: i64, to: i64) -> Vec<Row> {
    (from..to).map(|at| row(at * 1_000_000, "e", "k", &format!("{at} {}", "x".repeat(100)))).collect()
}

/// Writes rows as a server of that data centre does; it may have to find its node again first.
async fn write(store: &Arc<dyn Store>, table: &TableName, rows: &[Row]) {
    let answers = store.write(vec![batch(table, &partition("s", 0, 0), rows)], WRITE).await;
    answers.into_iter().collect::<Result<(), _>>().unwrap();
}

fn ground() -> Ground {
    let bucket = Interval::new(Timestamp::from_nanos(0), Timestamp::from_nanos(HOUR));
    Ground {
        bucket,
        sealed_until: bucket.end,
        threshold_bytes: 10_000,
        target_piece_bytes: 20_000,
        as_of: 0,
        event_buckets: 1,
        strategy: Strategy::TimeRange,
        form: Form::Blocks { codec: Compression::Lz4, block_bytes: 4000 },
    }
}

fn worker(store: &Arc<dyn Store>) -> Work {
    let options = WorkOptions {
        call_timeout: Duration::from_secs(4),
        first_retry: Duration::from_millis(1),
        longest_retry: Duration::from_millis(1),
        max_attempts: 1,
        ..WorkOptions::default()
    };
    Work::new(store.clone(), Env::system(), options, "w".to_owned(), Arc::new(Pace::new(1 << 30)))
}

/// Tries until something is there.
async fn eventually<T>(mut attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
    let env = Env::system();
    let begun = env.monotonic();
    loop {
        match attempt().await {
            Ok(found) => return found,
            Err(why) => {
                assert!(env.monotonic() - begun < PATIENCE, "never: {why}");
                env.sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// One effort of a worker, to where it rests. The record's own table may need a moment on a node that was just started.
async fn advance(work: &Work, partition: &WidePartition) -> Loaded {
    eventually(async || {
        let loaded = work.records().load(partition).await.map_err(|error| error.to_string())?;
        let loaded = loaded.expect("it was detected");
        match work.advance(&loaded, &ground()).await.map_err(|error| error.to_string())? {
            Effort::Rests(loaded) => Ok(*loaded),
            Effort::Elsewhere => Err("a lease that nobody gave back has to end first".to_owned()),
        }
    })
    .await
}

/// Waits until a node reaches the replicas of all data centres.
async fn reaches_all(store: &Arc<dyn Store>, table: &TableName) {
    let everywhere = store.clone().everywhere();
    let look = scan(table, &partition("nobody", 0, 0), within(Interval::ALL), Direction::Forward);
    eventually(async || everywhere.scan(&look).await.map(drop).map_err(|error| error.to_string())).await;
}

/// Waits until a node knows that the other data centre is away. Before that, what it writes waits for the other one to come
/// back, for a while.
async fn knows_it_is_alone(store: &Arc<dyn Store>, table: &TableName) {
    let everywhere = store.clone().everywhere();
    let look = scan(table, &partition("nobody", 0, 0), within(Interval::ALL), Direction::Forward);
    eventually(async || match everywhere.scan(&look).await {
        Err(error) if error.to_string().contains("Not enough nodes are alive") => Ok(()),
        other => Err(format!("it was asked: {:?}", other.map(drop))),
    })
    .await;
}

/// What a read in that data centre answers from pieces alone.
async fn from_pieces(store: &Arc<dyn Store>, served: &Arc<Served>) -> Vec<Row> {
    let mut reader =
        HistoryReader::strict(store.clone(), Env::system(), served.clone(), Interval::ALL, Order::LatestFirst, None);
    let mut rows = Vec::new();
    while !reader.is_exhausted() {
        reader.fetch(ReadLimits { rows: 10_000, bytes: 1 << 20, timeout: WRITE }).await.unwrap();
        while let Some(row) = reader.take() {
            rows.push(row);
        }
    }
    assert_eq!(reader.original_bytes(), 0, "all of it is served from pieces");
    rows
}

fn newest_first(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|one, other| other.position.cmp(&one.position));
    rows
}

/// W1: each asks its own node, and neither knows of the other.
async fn tables_that_both_make_at_once_are_one(one: &Arc<dyn Store>, two: &Arc<dyn Store>) {
    let [one, two] = [one, two].map(|store| store.clone().everywhere());
    for at in 0..4 {
        let table = table_of("both", &format!("data_2026032{at}"));
        let (first, second) = tokio::join!(one.create_table(&table), two.create_table(&table));
        first.and(second).unwrap();
        for (store, at) in [(&one, 0), (&two, 100)] {
            write(store, &table, &rows(at, at + 100)).await;
        }
        for store in [&one, &two] {
            assert_eq!(contents(store, &table, &partition("s", 0, 0)).await, newest_first(rows(0, 200)));
        }
    }
}

/// S2, W1: what was acknowledged in either data centre is in pieces that both can read, though neither original has all of
/// it; while one of them is away, the split waits and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_split_is_never_short_in_another_data_centre() {
    let _turn = TURN.lock().await;
    let shape = Shape { datacenters: vec![1, 1], hints: false, ..Shape::of_nodes(2) };
    let started = Env::system().blocking(move || Cassandra::start_as(shape)).await.expect("no panic");
    let mut ring = started.unwrap_or_else(|error| panic!("{error}"));
    keep_documents_in_the_first(&ring).await;
    let (one, two) = (store_in(&ring, 1).await, store_in(&ring, 2).await);
    let wide = WidePartition::new(NamespaceName::new(NAMESPACE).unwrap(), SLICE.to_owned(), partition("s", 0, 0));
    let table = wide.table();
    one.create_table(&table).await.unwrap();
    reaches_all(&one, &table).await;
    tables_that_both_make_at_once_are_one(&one, &two).await;
    // At LOCAL_QUORUM the second might not have got them before it is killed.
    write(&one.clone().everywhere(), &table, &rows(0, 300)).await;

    // Written in the first while the second is away; hints are off.
    ring.node(2).process().kill().unwrap();
    knows_it_is_alone(&one, &table).await;
    write(&one, &table, &rows(300, 400)).await;
    let work = worker(&one);
    work.records().detect(&wide, None).await.unwrap();
    for _ in 0..2 {
        let waiting = advance(&work, &wide).await;
        let State::Failed(failure) = &waiting.row.state else { panic!("{:?}", waiting.row.state) };
        println!("the split waits: {}", failure.reason);
        assert!(failure.reason.contains("not available"), "{}", failure.reason);
        assert!(waiting.row.served.is_empty());
    }
    assert_eq!(contents(&one, &table, &partition("s", 0, 0)).await, newest_first(rows(0, 400)), "reads go on");

    // And the other way round.
    let mut ring = restart(ring, 2).await;
    ring.node(1).process().kill().unwrap();
    knows_it_is_alone(&two, &table).await;
    write(&two, &table, &rows(400, 500)).await;
    let ring = restart(ring, 1).await;
    let (one, two) = (store_in(&ring, 1).await, store_in(&ring, 2).await);
    for store in [&one, &two] {
        reaches_all(store, &table).await;
    }
    let here = partition("s", 0, 0);
    let in_two: Vec<Row> = rows(0, 300).into_iter().chain(rows(400, 500)).collect();
    for (store, there) in [(&one, rows(0, 400)), (&two, in_two)] {
        assert!(contents(store, &table, &here).await == newest_first(there), "replication was to be held up");
    }

    let work = worker(&one);
    let done = eventually(async || {
        let rests = advance(&work, &wide).await;
        match &rests.row.state {
            State::Completed { .. } => Ok(rests),
            State::Failed(failure) => Err(failure.reason.clone()),
            other => panic!("{other:?}"),
        }
    })
    .await;
    let served = Arc::new(Served::of(Arc::new(done.row), 0).unwrap());
    let everything = newest_first(rows(0, 500));
    for (place, store) in [("the first", &one), ("the second", &two)] {
        let found = from_pieces(store, &served).await;
        assert_eq!(found.len(), everything.len(), "a short read in {place} data centre");
        assert_eq!(found, everything, "{place}");
    }
    let doubt = Doubt {
        served,
        interval: Interval::ALL,
        order: Order::LatestFirst,
        after: None,
        max_rows: u64::MAX,
        original_first: true,
        beyond_bounds: true,
    };
    let comparison = worker(&two).compare_everywhere(&doubt).await.unwrap();
    assert_eq!((comparison.rows, comparison.difference), (500, None));
}
