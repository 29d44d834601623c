//! What is stored where: shared keyspaces, names that are too long, several servers on one cluster, batches that are
//! too large for one mutation.

use std::{sync::Arc, time::Duration};

use anabranch_model::{NamespaceName, Row};
use anabranch_runtime::Env;
use anabranch_store::{
    CasOutcome, ErrorKind, MetaKey, Store,
    suite::fixture::{batch, contents, make_table, partition, row, table_of, try_write, write},
};
use anabranch_store_cassandra::CassandraStore;
use bytes::Bytes;
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    value::{CqlValue, Row as CqlRow},
};

use super::fixture::{fresh_prefix, fresh_store, open, options};

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_that_share_a_keyspace_are_kept_apart() {
    let prefix = fresh_prefix();
    let mut options = options(&prefix).await;
    for shared in ["a", "a_b"] {
        options.shared_keyspace.insert(NamespaceName::new(shared).unwrap());
    }
    let store: Arc<dyn Store> = Arc::new(CassandraStore::connect(options, Env::system()).await.unwrap());
    let tables = ["a", "a_b", "own"].map(|namespace| table_of(namespace, "data_20260328"));
    let partition = partition("s", 0, 0);
    for table in &tables {
        store.create_table(table).await.unwrap();
        write(&store, table, &partition, &[row(1, "e", "k", table.namespace.as_str())]).await;
    }
    assert_eq!(store.tables().await, Ok(tables.to_vec()));
    for table in &tables {
        assert_eq!(contents(&store, table, &partition).await, [row(1, "e", "k", table.namespace.as_str())]);
    }
    store.drop_table(&tables[0]).await.unwrap();
    assert_eq!(store.tables().await, Ok(tables[1..].to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_names_are_kept_apart_and_found_again() {
    let (store, ()) = fresh_store().await;
    let long = "n".repeat(NamespaceName::MAX_BYTES - 1);
    let tables = ["a", "b"].map(|end| table_of(&format!("{long}{end}"), "wide_data_20260328t0400_7"));
    let partition = partition("s", 0, 0);
    for table in &tables {
        store.create_table(table).await.unwrap();
        write(&store, table, &partition, &[row(1, "e", "k", table.namespace.as_str())]).await;
    }
    assert_eq!(store.tables().await, Ok(tables.to_vec()));
    for table in &tables {
        assert_eq!(contents(&store, table, &partition).await, [row(1, "e", "k", table.namespace.as_str())]);
    }
}

/// W2: two requests of one microsecond leave one of their items, not a value of one with the metadata of the other.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_writes_at_one_instant_no_mixture_stays() {
    let (store, ()) = fresh_store().await;
    let table = make_table(&store, "data_20260328").await;
    let item = |value: &'static str, metadata: Option<&'static str>| {
        let mut row = row(1, "e", "k", value);
        row.item.metadata = metadata.map(Bytes::from);
        row
    };
    // Cell by cell the greater bytes would stay: the value of one, the metadata of the other.
    let pairs = [
        [item("a", Some("z")), item("b", Some("y"))],
        [item("a", Some("")), item("b", None)],
        [item("a", None), item("", Some("m"))],
    ];
    for (time_bucket, pair) in (0..).zip(pairs) {
        for turned in [false, true] {
            let partition = partition("s", time_bucket, u32::from(turned));
            let mut order = pair.to_vec();
            if turned {
                order.reverse();
            }
            for row in &order {
                write(&store, &table, &partition, std::slice::from_ref(row)).await;
            }
            let kept = contents(&store, &table, &partition).await;
            assert!(kept.len() == 1 && pair.contains(&kept[0]), "{kept:?} of {pair:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_above_the_bound_is_stored_whole_and_too_large_an_event_is_refused() {
    let (store, ()) = fresh_store().await;
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let value = "v".repeat(100_000);
    let rows: Vec<Row> = (0..60).rev().map(|time| row(time, "e", "k", &value)).collect();
    write(&store, &table, &partition, &rows).await;
    assert!(contents(&store, &table, &partition).await == rows, "other rows came back");

    let huge = row(100, "huge", "k", &"v".repeat(17 << 20));
    let answer = try_write(&store, batch(&table, &partition, &[huge])).await;
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Refused));
    assert_eq!(contents(&store, &table, &partition).await.len(), 60);
}

/// Two servers that start at once on an empty cluster find one table of documents, and each other's changes.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_together_share_documents_and_tables() {
    let prefix = fresh_prefix();
    let env = Env::system();
    let starts: Vec<_> = (0..3)
        .map(|_| {
            let prefix = prefix.clone();
            env.spawn(async move { open(&prefix).await })
        })
        .collect();
    let mut stores = Vec::new();
    for start in starts {
        stores.push(start.await.expect("the store opens"));
    }
    let key = MetaKey::new("lease", "lifecycle");
    let mut version = None;
    for store in stores.iter().cycle().take(9) {
        let outcome = store.compare_and_set(&key, version, Some(Bytes::from_static(b"mine"))).await.unwrap();
        let CasOutcome::Applied(next) = outcome else { panic!("{outcome:?}") };
        version = Some(next);
        for other in &stores {
            assert_eq!(other.load(&key).await.unwrap().map(|document| document.version), version);
        }
    }
    let table = make_table(&stores[0], "data_20260328").await;
    write(&stores[1], &table, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    assert_eq!(contents(&stores[2], &table, &partition("s", 0, 0)).await.len(), 1);
    stores[0].drop_table(&table).await.unwrap();
    let after = try_write(&stores[1], batch(&table, &partition("s", 0, 0), &[row(2, "e", "k", "v")])).await;
    assert_eq!(after.map_err(|error| error.kind()), Err(ErrorKind::NoSuchTable));
}

async fn id_of(node: &Session, keyspace: &str, table: &str) -> Option<u128> {
    let look = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found = node.query_unpaged(look, (keyspace, table)).await.unwrap().into_rows_result().unwrap();
    let row = found.maybe_first_row::<CqlRow>().unwrap()?;
    let Some(CqlValue::Uuid(id)) = &row.columns[0] else { panic!("{row:?}") };
    Some(id.as_u128())
}

/// W1: who makes a table takes the id that another one, which perhaps makes it at this moment, has agreed on; and one that is made
/// again after it was dropped isn't the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_has_the_id_that_all_agree_on_who_make_it() {
    let prefix = fresh_prefix();
    let (one, other) = (open(&prefix).await, open(&prefix).await);
    let node = SessionBuilder::new().known_nodes(options(&prefix).await.contact_points).build().await.unwrap();
    let table = table_of("plays", "data_20260328");
    let keyspace = format!("{prefix}_plays");
    let key = MetaKey::new("table_ids", format!("{keyspace}.data_20260328"));
    let agreed = 0x0123_4567_89ab_4def_8123_4567_89ab_cdef_u128;
    other.compare_and_set(&key, None, Some(Bytes::copy_from_slice(&agreed.to_be_bytes()))).await.unwrap();
    one.create_table(&table).await.unwrap();
    assert_eq!(id_of(&node, &keyspace, "data_20260328").await, Some(agreed));
    other.create_table(&table).await.unwrap();
    other.drop_table(&table).await.unwrap();
    assert_eq!(id_of(&node, &keyspace, "data_20260328").await, None);
    let (_, _) = tokio::join!(one.create_table(&table), other.create_table(&table));
    let again = id_of(&node, &keyspace, "data_20260328").await.expect("it was made again");
    assert_ne!(again, agreed);
    let known = one.load(&key).await.unwrap().expect("it was agreed on");
    assert_eq!(known.value.as_ref(), again.to_be_bytes());
}

/// L1: what lies where a table should lie, and is another's, is neither used nor dropped.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_a_store_whose_names_collide_is_left_alone() {
    let short = fresh_prefix();
    let (one, other) = (open(&short).await, open(&format!("{short}_b")).await);
    let (mine, theirs) = (table_of("b_plays", "data_20260328"), table_of("plays", "data_20260328"));
    other.create_table(&theirs).await.unwrap();
    write(&other, &theirs, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    for refused in [one.create_table(&mine).await, one.drop_table(&mine).await] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("another prefix"), "{error}");
    }
    assert_eq!(contents(&other, &theirs, &partition("s", 0, 0)).await.len(), 1);
}

/// W1: rows would seem to be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_was_given_another_place_is_not_served() {
    let prefix = fresh_prefix();
    let store = open(&prefix).await;
    store.create_table(&table_of("plays", "data_20260328")).await.unwrap();
    let mut moved = options(&prefix).await;
    moved.shared_keyspace.insert(NamespaceName::new("plays").unwrap());
    let Err(error) = CassandraStore::connect(moved, Env::system()).await else { panic!("it was served") };
    assert!(error.to_string().contains("shared_keyspace"), "{error}");
    open(&prefix).await;
}

/// W1: two servers that both run before the namespace is made, and disagree on where it lies.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_not_made_in_two_places_by_servers_of_other_settings_w1() {
    let prefix = fresh_prefix();
    let mut shared = options(&prefix).await;
    shared.shared_keyspace.insert(NamespaceName::new("plays").unwrap());
    let stores = [open(&prefix).await, Arc::new(CassandraStore::connect(shared, Env::system()).await.unwrap())];
    for (day, [one, other]) in [(1, [&stores[0], &stores[1]]), (2, [&stores[1], &stores[0]])] {
        let table = table_of("plays", &format!("data_2026032{day}"));
        one.create_table(&table).await.unwrap();
        let error = other.create_table(&table).await.unwrap_err().to_string();
        assert!(error.contains("shared_keyspace"), "{error}");
    }
}

/// No version of a name comes twice, or who expects an old one would change another document.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_made_again_has_a_version_of_its_own() {
    let (store, ()) = fresh_store().await;
    let key = MetaKey::new("lease", "sweeper");
    let mut last = None;
    for _ in 0..3 {
        let CasOutcome::Applied(made) = store.compare_and_set(&key, None, Some(Bytes::new())).await.unwrap() else {
            panic!("it was deleted")
        };
        assert!(Some(made) > last);
        let CasOutcome::Applied(_) = store.compare_and_set(&key, Some(made), None).await.unwrap() else {
            panic!("nobody else changes it")
        };
        last = Some(made);
    }
}

/// What the nodes reckon of a table comes near the truth once it lies in files.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_own_estimate_is_near_the_truth() {
    const PARTITIONS: u32 = 2000;
    let prefix = fresh_prefix();
    let store = open(&prefix).await;
    let table = make_table(&store, "data_20260328").await;
    let value = "v".repeat(1000);
    for series in 0..PARTITIONS {
        write(&store, &table, &partition(&format!("s{series}"), 0, 0), &[row(1, "e", "k", &value)]).await;
    }
    assert!(store.estimate(&table).await.unwrap().is_some_and(|found| found.partitions <= u64::from(PARTITIONS)));
    // A table that is flushed every second lies in files soon.
    let node = SessionBuilder::new().known_nodes(options(&prefix).await.contact_points).build().await.unwrap();
    let place = format!("{prefix}_{}.{}", table.namespace, table.table);
    node.query_unpaged(format!("ALTER TABLE {place} WITH memtable_flush_period_in_ms = 1000"), ()).await.unwrap();
    let env = Env::system();
    let found = env.timeout(Duration::from_secs(60), async {
        loop {
            let found = store.estimate(&table).await.unwrap().unwrap();
            if found.partitions > 0 {
                return found;
            }
            env.sleep(Duration::from_millis(200)).await;
        }
    });
    let found = found.await.expect("the node reckons every two seconds");
    let near = |found: u64, truth: u64| (truth / 2..truth * 2).contains(&found);
    assert!(near(found.partitions, u64::from(PARTITIONS)), "{found:?}");
    assert!(near(found.bytes / found.partitions, 1000), "{found:?}");
    let missing = table_of("nobody", "data_20260328");
    assert_eq!(store.estimate(&missing).await.map_err(|error| error.kind()), Err(ErrorKind::NoSuchTable));
}
