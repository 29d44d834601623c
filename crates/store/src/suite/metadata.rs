//! Promises about metadata: changed only by compare-and-set, listed in order.

use std::sync::Arc;

use anabranch_runtime::Env;
use bytes::Bytes;

use crate::{CasOutcome, MetaKey, Store, Version, Versioned};

async fn set(
    store: &Arc<dyn Store>,
    key: &MetaKey,
    expected: Option<Version>,
    value: Option<&'static str>,
) -> CasOutcome {
    store.compare_and_set(key, expected, value.map(Bytes::from)).await.unwrap()
}

async fn create(store: &Arc<dyn Store>, key: &MetaKey, value: &'static str) -> Version {
    match set(store, key, None, Some(value)).await {
        CasOutcome::Applied(version) => version,
        CasOutcome::Conflict(there) => panic!("{key:?} is there already: {there:?}"),
    }
}

fn document(version: Version, value: &'static str) -> Versioned {
    Versioned { version, value: Bytes::from_static(value.as_bytes()) }
}

/// What isn't there loads as nothing; creating it works once, and who comes second sees what is there.
pub async fn a_document_is_created_once(store: Arc<dyn Store>) {
    let key = MetaKey::new("namespace", "plays");
    assert_eq!(store.load(&key).await, Ok(None));
    let version = create(&store, &key, "one").await;
    let there = document(version, "one");
    assert_eq!(store.load(&key).await, Ok(Some(there.clone())));
    assert_eq!(set(&store, &key, None, Some("two")).await, CasOutcome::Conflict(Some(there.clone())));
    assert_eq!(set(&store, &key, None, None).await, CasOutcome::Conflict(Some(there.clone())));
    assert_eq!(store.load(&key).await, Ok(Some(there)));
}

/// Each change has a greater version; one made for an older version is refused with what is there, and does nothing.
pub async fn versions_rise_and_a_conflict_shows_what_is_there(store: Arc<dyn Store>) {
    let key = MetaKey::new("namespace", "plays");
    let first = create(&store, &key, "one").await;
    let CasOutcome::Applied(second) = set(&store, &key, Some(first), Some("two")).await else {
        panic!("nobody else changes it")
    };
    assert!(second > first);
    let there = document(second, "two");
    for stale in [Some(first), None, Some(Version(second.0 + 1))] {
        for value in [Some("three"), None] {
            assert_eq!(set(&store, &key, stale, value).await, CasOutcome::Conflict(Some(there.clone())));
        }
    }
    assert_eq!(store.load(&key).await, Ok(Some(there)));
    // The same bytes again are a change too: a nonce inside tells whose.
    let CasOutcome::Applied(third) = set(&store, &key, Some(second), Some("two")).await else {
        panic!("nobody else changes it")
    };
    assert!(third > second);
}

/// Deleting needs the version too. After it there is nothing to load, list or change, but a new one can be created.
pub async fn a_deleted_document_can_be_created_again(store: Arc<dyn Store>) {
    let key = MetaKey::new("lease", "sweeper");
    let version = create(&store, &key, "one").await;
    assert_eq!(set(&store, &key, Some(version), None).await, CasOutcome::Applied(version));
    assert_eq!(store.load(&key).await, Ok(None));
    assert_eq!(store.list("lease", None, 10).await, Ok(vec![]));
    assert_eq!(set(&store, &key, Some(version), Some("two")).await, CasOutcome::Conflict(None));
    assert_eq!(set(&store, &key, Some(version), None).await, CasOutcome::Conflict(None));
    let version = create(&store, &key, "three").await;
    assert_eq!(store.load(&key).await, Ok(Some(document(version, "three"))));
}

/// A scope's documents by name, after a name (there or not), up to a limit.
pub async fn documents_are_listed_in_order_of_their_names(store: Arc<dyn Store>) {
    let mut names = ["b", "a", "ab", "é", "z", "a\u{1}", "B", "日本", "a/b"];
    for name in names {
        create(&store, &MetaKey::new("scope", name), name).await;
    }
    names.sort_unstable();
    let listed = |after: Option<&'static str>, limit| {
        let store = store.clone();
        async move {
            let found = store.list("scope", after, limit).await.unwrap();
            for (name, document) in &found {
                assert_eq!(document.value, name.as_bytes());
            }
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(None, 100).await, names);
    for limit in 0..=names.len() {
        assert_eq!(listed(None, limit).await, names[..limit]);
    }
    for (at, name) in names.into_iter().enumerate() {
        assert_eq!(listed(Some(name), 100).await, names[at + 1..], "after {name}");
        assert_eq!(listed(Some(name), 1).await, names[at + 1..names.len().min(at + 2)], "one after {name}");
    }
    assert_eq!(listed(Some("aa"), 1).await, ["ab"]);
    assert_eq!(listed(Some("\u{10FFFF}"), 1).await, [""; 0]);
}

/// Scopes whose names begin with each other hold documents of the same names apart.
pub async fn scopes_do_not_see_each_other(store: Arc<dyn Store>) {
    let scopes = ["s", "s/", "s/a", "ss", "t"];
    for scope in scopes {
        for name in ["a", "b"] {
            create(&store, &MetaKey::new(scope, name), scope).await;
        }
    }
    for scope in scopes {
        let found = store.list(scope, None, 100).await.unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"], "{scope}");
        assert!(found.iter().all(|(_, document)| document.value == scope.as_bytes()), "{scope}");
        assert_eq!(store.list(scope, Some("b"), 100).await, Ok(vec![]), "{scope}");
    }
    assert_eq!(store.list("r", None, 100).await, Ok(vec![]));
    assert_eq!(store.list("sa", None, 100).await, Ok(vec![]));
}

/// Any UTF-8 names a document, and any bytes, also none, are one.
pub async fn odd_names_and_values_are_kept(store: Arc<dyn Store>) {
    let long = "n".repeat(5000);
    let names = [" ", "..", "a b", "a'b\"c", "%00", "\n\t", "\u{1}", "\u{7f}", "é", "e\u{301}", "\u{10FFFF}", &long];
    let values: [Bytes; 3] = [Bytes::new(), (0..=255).collect(), vec![7; 100_000].into()];
    for (at, name) in names.iter().enumerate() {
        for scope in ["plain", "s p/a'c\"é"] {
            let key = MetaKey::new(scope, *name);
            let value = values[at % values.len()].clone();
            let outcome = store.compare_and_set(&key, None, Some(value.clone())).await.unwrap();
            let CasOutcome::Applied(version) = outcome else { panic!("{key:?}: {outcome:?}") };
            assert_eq!(store.load(&key).await, Ok(Some(Versioned { version, value })), "{key:?}");
        }
    }
    let mut sorted = names;
    sorted.sort_unstable();
    let listed: Vec<String> = store.list("plain", None, 100).await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, sorted);
}

/// Many who read, add one and try again on a conflict arrive at the right sum.
pub async fn concurrent_increments_lose_none(store: Arc<dyn Store>) {
    const TASKS: u64 = 8;
    const TIMES: u64 = 25;
    let key = MetaKey::new("counter", "c");
    let env = Env::system();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            env.spawn(async move {
                for _ in 0..TIMES {
                    increment(&store, &key).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    let last = store.load(&key).await.unwrap().unwrap();
    assert_eq!(number(&last.value), TASKS * TIMES);
}

async fn increment(store: &Arc<dyn Store>, key: &MetaKey) {
    let mut current = store.load(key).await.unwrap();
    loop {
        let next = current.as_ref().map_or(0, |document| number(&document.value)) + 1;
        let expected = current.as_ref().map(|document| document.version);
        let value = Bytes::copy_from_slice(&next.to_be_bytes());
        match store.compare_and_set(key, expected, Some(value)).await.unwrap() {
            CasOutcome::Applied(_) => return,
            CasOutcome::Conflict(there) => current = there,
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Of many who create the same document at once, one is told that it did, and its bytes are there.
pub async fn of_many_creators_one_succeeds(store: Arc<dyn Store>) {
    let env = Env::system();
    for round in 0..10 {
        let key = MetaKey::new("lease", format!("r{round}"));
        let tasks: Vec<_> = (0..8u8)
            .map(|task| {
                let (store, key) = (store.clone(), key.clone());
                env.spawn(async move { store.compare_and_set(&key, None, Some(vec![task].into())).await.unwrap() })
            })
            .collect();
        let mut outcomes = Vec::new();
        for task in tasks {
            outcomes.push(task.await.expect("no task panics"));
        }
        let there = store.load(&key).await.unwrap().unwrap();
        let winner = usize::from(there.value[0]);
        for (task, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                CasOutcome::Applied(version) => assert_eq!((task, version), (winner, there.version)),
                CasOutcome::Conflict(seen) => {
                    assert_ne!(task, winner);
                    assert_eq!(seen, Some(there.clone()));
                }
            }
        }
    }
}
