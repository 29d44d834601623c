//! Nodes that crash and nodes that stand still: what was acknowledged stays, and what isn't known is told so.

use std::{sync::Arc, time::Duration};

use anabranch_runtime::Env;
use anabranch_store::{
    CasOutcome, Direction, ErrorKind, MetaKey, Store, StoreError,
    suite::fixture::{EVER, batch, contents, make_table, partition, row, scan, within, write},
};
use anabranch_store_cassandra::{CassandraOptions, CassandraStore, Replication};
use anabranch_testbed::Cassandra;
use bytes::Bytes;
use tokio::sync::Mutex;

const METADATA: Duration = Duration::from_secs(10);

/// One ring of its own at a time: three would leave each other no processor.
pub(super) static TURN: Mutex<()> = Mutex::const_new(());

async fn ring(nodes: u8) -> Cassandra {
    let started = Env::system().blocking(move || Cassandra::start(nodes)).await.expect("no panic");
    started.unwrap_or_else(|error| panic!("{error}"))
}

async fn connect(ring: &Cassandra, copies: u8, metadata_timeout: Duration) -> Arc<dyn Store> {
    let mut options = CassandraOptions::new(ring.addresses().iter().map(ToString::to_string));
    options.replication = Replication::Simple(copies);
    options.metadata_timeout = metadata_timeout;
    Arc::new(CassandraStore::connect(options, Env::system()).await.unwrap_or_else(|error| panic!("{error}")))
}

pub(super) async fn restart(mut ring: Cassandra, node: u8) -> Cassandra {
    let work = move || {
        ring.node(node).restart().unwrap_or_else(|error| panic!("{error}"));
        ring
    };
    Env::system().blocking(work).await.expect("the node comes back")
}

/// W1, and the same for documents: a lone node that is killed has everything that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_kill_of_a_node() {
    let _turn = TURN.lock().await;
    let mut ring = ring(1).await;
    let store = connect(&ring, 1, METADATA).await;
    let table = make_table(&store, "data_20260328").await;
    let (here, key) = (partition("s", 0, 0), MetaKey::new("scope", "count"));
    let env = Env::system();
    let writer = {
        let (store, table, here, key) = (store.clone(), table.clone(), here.clone(), key.clone());
        env.spawn(async move {
            let (mut rows, mut version) = (0, None);
            loop {
                let next = batch(&table, &here, &[row(rows, "e", "k", "v")]);
                if store.write(vec![next], Duration::from_secs(2)).await[0].is_err() {
                    return (rows, version);
                }
                rows += 1;
                match store.compare_and_set(&key, version, Some(Bytes::new())).await {
                    Ok(CasOutcome::Applied(applied)) => version = Some(applied),
                    Ok(CasOutcome::Conflict(there)) => panic!("nobody else writes: {there:?}"),
                    Err(_) => return (rows, version),
                }
            }
        })
    };
    let mut seen = 0;
    while seen < 100 {
        seen = contents(&store, &table, &here).await.len();
    }
    ring.node(1).process().kill().unwrap();
    let (acknowledged, version) = writer.await.expect("the writer notices and ends");

    let ring = restart(ring, 1).await;
    let store = connect(&ring, 1, METADATA).await;
    let found = contents(&store, &table, &here).await.len() as i64;
    assert!((acknowledged..=acknowledged + 1).contains(&found), "{found} rows, {acknowledged} acknowledged");
    let there = store.load(&key).await.unwrap().map(|document| document.version);
    assert!(there >= version, "{there:?} after {version:?} was acknowledged");
}

/// A node that stands still: a write's outcome isn't known and is told so, a read's failure can be tried again, both by
/// their deadline. Once it goes on, writing the same again settles it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_is_told_by_the_deadline_and_a_retry_settles_it() {
    let _turn = TURN.lock().await;
    let mut ring = ring(1).await;
    let store = connect(&ring, 1, Duration::from_secs(3)).await;
    let table = make_table(&store, "data_20260328").await;
    let here = partition("s", 0, 0);
    write(&store, &table, &here, &[row(1, "e", "k", "v")]).await;
    assert_eq!(contents(&store, &table, &here).await.len(), 1);

    ring.node(1).process().pause().unwrap();
    let env = Env::system();
    let begun = env.monotonic();
    let late = batch(&table, &here, &[row(2, "e", "k", "v")]);
    let answers = store.write(vec![late.clone()], Duration::from_secs(1)).await;
    assert!(matches!(answers[..], [Err(StoreError::Unknown { .. })]), "{answers:?}");
    let mut scan = scan(&table, &here, within(EVER), Direction::Forward);
    scan.timeout = Duration::from_secs(1);
    let read = store.scan(&scan).await.map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::Retry));
    let key = MetaKey::new("scope", "name");
    let change = store.compare_and_set(&key, None, Some(Bytes::new())).await;
    assert_eq!(change.map_err(|error| error.kind()), Err(ErrorKind::Unknown));
    assert!(env.monotonic() - begun < Duration::from_secs(30), "it took {:?}", env.monotonic() - begun);

    ring.node(1).process().resume().unwrap();
    let answers = store.write(vec![late], Duration::from_secs(20)).await;
    assert_eq!(answers, [Ok(())]);
    assert_eq!(contents(&store, &table, &here).await.len(), 2);
    let settled = store.load(&key).await.unwrap().map(|document| document.version);
    let again = store.compare_and_set(&key, settled, Some(Bytes::from_static(b"mine"))).await.unwrap();
    assert!(matches!(again, CasOutcome::Applied(_)), "{again:?}");
}

/// W1 at LOCAL_QUORUM: with one node of three killed, and then another standing still after the first is back, no call
/// fails and nothing acknowledged is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_ring_of_three_serves_on_without_any_one_of_its_nodes() {
    let _turn = TURN.lock().await;
    let mut ring = ring(3).await;
    let store = connect(&ring, 3, METADATA).await;
    let table = make_table(&store, "data_20260328").await;
    let (here, key) = (partition("s", 0, 0), MetaKey::new("scope", "count"));
    let mut version = None;
    let mut rows = 0;
    let mut serve = async |rows: &mut i64, why: &str| {
        for _ in 0..200 {
            write(&store, &table, &here, &[row(*rows, "e", "k", "v")]).await;
            *rows += 1;
        }
        assert_eq!(contents(&store, &table, &here).await.len() as i64, *rows, "{why}");
        let outcome = store.compare_and_set(&key, version, Some(Bytes::from(why.to_owned()))).await.unwrap();
        let CasOutcome::Applied(applied) = outcome else { panic!("{why}: {outcome:?}") };
        version = Some(applied);
    };
    serve(&mut rows, "all are well").await;
    ring.node(2).process().kill().unwrap();
    serve(&mut rows, "node 2 is gone").await;
    let mut ring = restart(ring, 2).await;
    serve(&mut rows, "node 2 is back").await;
    ring.node(3).process().pause().unwrap();
    serve(&mut rows, "node 3 stands still").await;
    ring.node(3).process().resume().unwrap();
    serve(&mut rows, "node 3 goes on").await;
}
