//! Opening a directory: what is refused, and in which words; looking at one without opening it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anabranch_runtime::Env;
use anabranch_store::{
    Store, StoreError,
    suite::fixture::{contents, make_table, partition, row, table, write},
};
use anabranch_store_fjall::{FjallOptions, FjallStore, OpenError, inspect};

use crate::{fresh, open, small};

fn refusal(dir: &Path) -> OpenError {
    match FjallStore::open(dir, small(), Env::system()) {
        Ok(_) => panic!("{} was opened", dir.display()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_second_open_is_refused_and_names_the_directory_and_the_process() {
    let (store, dir) = fresh();
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let expected = format!(
        "{} is in use by another process (pid {}); stop it first, or name another directory",
        dir.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    store.close().await.unwrap();
    open(dir.path());
}

#[test]
fn an_unknown_format_is_refused_and_names_both() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "anabranch-store 1\n");
    fs::write(dir.path().join("FORMAT"), "anabranch-store 2\n").unwrap();
    let error = refusal(dir.path());
    assert!(matches!(&error, OpenError::UnknownFormat { found, .. } if found == "anabranch-store 2"), "{error}");
    let text = error.to_string();
    assert!(text.contains("has the format `anabranch-store 2`") && text.contains("`anabranch-store 1`"), "{text}");
}

#[test]
fn a_directory_with_other_content_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = refusal(dir.path());
    assert!(matches!(&error, OpenError::OtherContent { found, .. } if found == "`letter.txt`"), "{error}");
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["letter.txt"]);
}

#[test]
fn a_file_is_not_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = refusal(&path);
        assert!(matches!(error, OpenError::NotADirectory { .. }), "{error:?}");
    }
}

#[test]
fn a_directory_that_is_not_writable_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let may_write_anyway = fs::write(dir.path().join("probe"), "").is_ok(); // root may
    if !may_write_anyway {
        let error = refusal(dir.path());
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { journal_bytes: 1 << 20, ..small() };
    let error = FjallStore::open(dir.path(), options, Env::system()).err().unwrap();
    assert_eq!(error.to_string(), "the option `journal_bytes` of the embedded store must be at least 64 MiB");
}

#[test]
fn an_open_that_was_cut_short_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    // As if the power had failed after fjall's journal was made and before its version was written.
    fs::remove_file(dir.path().join("PARTS")).unwrap();
    fs::remove_file(dir.path().join("fjall/version")).unwrap();
    fs::remove_dir_all(dir.path().join("fjall/keyspaces")).unwrap();
    drop(open(dir.path()));
    // With tables there it isn't that.
    fs::remove_file(dir.path().join("fjall/version")).unwrap();
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

/// W1: fjall would take what is left for a store that was never finished, and delete it.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lacks_a_part_is_refused_and_nothing_of_it_is_deleted_w1() {
    let (store, dir) = fresh();
    let shared: std::sync::Arc<dyn Store> = store.clone();
    let made = make_table(&shared, "data_20260328").await;
    write(&shared, &made, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    store.close().await.unwrap();
    drop((shared, store));

    let fjall = dir.path().join("fjall");
    let aside = dir.path().parent().unwrap().join(format!("{}-aside", dir.path().file_name().unwrap().display()));
    let journals = fs::read_dir(&fjall).unwrap().map(|entry| entry.unwrap().path());
    let journals: Vec<_> = journals.filter(|path| path.extension().is_some_and(|kind| kind == "jnl")).collect();
    assert_eq!(journals.len(), 1);
    let parts = fs::read_to_string(dir.path().join("PARTS")).unwrap();
    assert_eq!(parts.lines().count(), 3);
    let manifests = parts.lines().map(|part| fjall.join("keyspaces").join(part).join("current"));
    for lost in manifests.chain(journals).chain([fjall.clone()]) {
        fs::rename(&lost, &aside).unwrap();
        let error = refusal(dir.path());
        assert!(matches!(error, OpenError::Damaged { .. }) && error.to_string().contains("is missing"), "{error}");
        fs::rename(&aside, &lost).unwrap();
    }
    let stray = fjall.join("keyspaces/notes");
    fs::create_dir(&stray).unwrap();
    assert!(refusal(dir.path()).to_string().contains("`notes`, which is no part of a store"));
    fs::remove_dir(&stray).unwrap();

    fs::remove_file(fjall.join("lock")).unwrap();
    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(open(dir.path()));
    assert_eq!(contents(&store, &made, &partition("s", 0, 0)).await, [row(1, "e", "k", "v")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_refuses_every_call() {
    let (store, _dir) = fresh();
    let shared: std::sync::Arc<dyn Store> = store.clone();
    let table = make_table(&shared, "data_20260328").await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    let closed = StoreError::Unavailable { reason: "the store is closed".to_owned() };
    assert_eq!(store.create_table(&table).await, Err(closed.clone()));
    assert_eq!(store.tables().await, Err(closed.clone()));
    assert_eq!(store.sample(&table, 0, 1).await, Err(closed.clone()));
    let batch = anabranch_store::suite::fixture::batch(&table, &partition("s", 0, 0), &[row(1, "e", "k", "v")]);
    assert_eq!(store.write(vec![batch], anabranch_store::suite::fixture::TIMEOUT).await, [Err(closed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_inspected_without_being_changed() {
    let (store, dir) = fresh();
    let shared: std::sync::Arc<dyn Store> = store.clone();
    let made = make_table(&shared, "data_20260328").await;
    write(&shared, &made, &partition("s", 0, 0), &[row(1, "e", "k", "v")]).await;
    let seen = inspect(dir.path()).unwrap();
    assert!(seen.understood && seen.locked && seen.pid == Some(std::process::id()), "{seen:?}");
    assert_eq!(seen.tables.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&table("data_20260328")]);
    assert!(seen.journal_bytes > 0 && seen.disk_bytes >= seen.journal_bytes && seen.free_bytes > 0, "{seen:?}");
    let stats = store.stats().unwrap();
    assert!(stats.disk_bytes > 0 && stats.tables[0].memtable_bytes > 0, "{stats:?}");
    assert!(store.free_bytes().unwrap() > 0);
    drop((shared, store));
    let seen = inspect(dir.path()).unwrap();
    assert!(!seen.locked && seen.pid.is_none(), "{seen:?}");
    assert!(inspect(tempfile::tempdir().unwrap().path()).unwrap().format.is_none());
}

/// So that a start doesn't take longer the more was written before.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_closed_has_no_journal_to_replay() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition("s", 0, 0);
    let value = "v".repeat(1 << 10);
    let mut expected = Vec::new();
    for round in 0..3 {
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(open(dir.path()));
        let table = make_table(&store, "data_20260328").await;
        assert!(contents(&store, &table, &partition).await == expected, "round {round}");
        for part in 0..8 {
            let times = (round * 8 + part) * 1000..(round * 8 + part + 1) * 1000;
            let rows: Vec<_> = times.rev().map(|at| row(at, "e", "k", &value)).collect();
            write(&store, &table, &partition, &rows).await;
            expected.splice(0..0, rows);
        }
        assert!(inspect(dir.path()).unwrap().journal_bytes > 4 << 20);
        store.close().await.unwrap();
        let left = inspect(dir.path()).unwrap().journal_bytes;
        assert!(left < 1 << 20, "{left} bytes of journal are left");
    }
}
