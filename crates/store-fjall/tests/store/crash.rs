//! W1: a process that is killed in the middle of its writes has kept every row it acknowledged, and a journal that ends
//! anywhere is opened or refused, never met with a panic.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use anabranch_model::Row;
use anabranch_runtime::Env;
use anabranch_store::{
    Store,
    suite::fixture::{TIMEOUT, batch, contents, make_table, partition, row, table},
};
use proptest::prelude::*;

use crate::open;

const CHILD_DIR: &str = "ANABRANCH_TEST_CRASH_DIR";
const CHILD_RUN: &str = "ANABRANCH_TEST_CRASH_RUN";
const WRITERS: u32 = 4;
const ROWS: i64 = 20;

fn rows_of(writer: u32, round: i64) -> Vec<Row> {
    let value = format!("{writer}/{round}").repeat(40);
    (0..ROWS).map(|at| row(round * ROWS + at, &format!("w{writer}"), "k", &value)).collect()
}

/// The first rounds of a writer, in table order.
fn history(writer: u32, rounds: i64) -> Vec<Row> {
    (0..rounds).rev().flat_map(|round| rows_of(writer, round).into_iter().rev()).collect()
}

/// Not a test by itself: the process that the next one kills. Prints a line for every batch that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let (Ok(dir), Ok(run)) = (std::env::var(CHILD_DIR), std::env::var(CHILD_RUN)) else { return };
    let store: Arc<dyn Store> = Arc::new(open(Path::new(&dir)));
    let table = make_table(&store, "data_20260328").await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, table, partition) = (store.clone(), table.clone(), partition(&run, writer, 0));
            Env::system().spawn(async move {
                for round in 0.. {
                    let batch = batch(&table, &partition, &rows_of(writer, round));
                    store.write(vec![batch], TIMEOUT).await.remove(0).unwrap();
                    // Past the capture of the test harness, and in one piece.
                    std::io::stdout().lock().write_all(format!("\nack {writer} {round}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await;
    }
}

/// Runs the child until it has said so often that a batch is acknowledged; how many rounds of each writer are.
fn run_and_kill(dir: &Path, run: &str, kill_after: usize) -> [i64; WRITERS as usize] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_RUN, run)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    let mut rounds = [0; WRITERS as usize];
    // To the end: what it said before it died counts.
    for line in lines.map_while(Result::ok) {
        let Some(ack) = line.strip_prefix("ack ") else { continue };
        let (writer, round) = ack.split_once(' ').unwrap();
        rounds[writer.parse::<usize>().unwrap()] = round.parse::<i64>().unwrap() + 1;
        seen += 1;
        if seen == kill_after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= kill_after, "the child ended after {seen} acknowledgements");
    rounds
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_row_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    // The later ones are killed amid flushes.
    for (run, kill_after) in [("a", 30), ("b", 300), ("c", 1500)] {
        runs.push((run, run_and_kill(dir.path(), run, kill_after)));
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        for (run, acknowledged) in &runs {
            for (writer, acknowledged) in (0..).zip(acknowledged) {
                let found = contents(&store, &table("data_20260328"), &partition(run, writer, 0)).await;
                let rounds = found.len() as i64 / ROWS;
                assert!(
                    rounds >= *acknowledged,
                    "run {run}, writer {writer}: {rounds} of {acknowledged} rounds are left"
                );
                assert!(rounds <= acknowledged + 1, "run {run}, writer {writer} has more than it ever wrote");
                assert!(found == history(writer, rounds), "run {run}, writer {writer} has a part of a batch");
            }
        }
        store.close().await.unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A store with one journal of known batches, and the length of what was written to it.
fn written() -> (tempfile::TempDir, u64) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(open(dir.path()));
        let table = make_table(&store, "data_20260328").await;
        for round in 0..30 {
            let batch = batch(&table, &partition("s", 0, 0), &rows_of(0, round));
            store.write(vec![batch], TIMEOUT).await.remove(0).unwrap();
        }
        store.close().await.unwrap();
    });
    let journal = fs::read(dir.path().join("fjall/0.jnl")).unwrap();
    let length = journal.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    (dir, length)
}

/// Opens a copy with its journal changed; if that works, the rows must be a whole number of batches from the first on.
fn reopened(original: &Path, change: impl FnOnce(&mut fs::File)) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    copy(original, dir.path());
    let path = dir.path().join("fjall/0.jnl");
    change(&mut OpenOptions::new().read(true).write(true).open(path).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let opened = anabranch_store_fjall::FjallStore::open(dir.path(), crate::small(), Env::system());
        let store: Arc<dyn Store> = Arc::new(opened.map_err(|error| error.to_string())?);
        if store.tables().await.unwrap().is_empty() {
            return Ok(0);
        }
        let found = contents(&store, &table("data_20260328"), &partition("s", 0, 0)).await;
        assert_eq!(found.len() % ROWS as usize, 0, "a part of a batch");
        let rounds = (found.len() / ROWS as usize) as i64;
        assert!(found == history(0, rounds), "not the first {rounds} batches");
        Ok(rounds as usize)
    })
}

#[test]
fn a_journal_that_ends_anywhere_loses_only_its_end() {
    let (original, length) = written();
    assert_eq!(reopened(original.path(), |_| {}), Ok(30));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    runner
        .run(&(0..length), |cut| {
            let outcome = reopened(original.path(), |journal| journal.set_len(cut).unwrap());
            prop_assert!(outcome.is_ok(), "cut at {} of {}: {:?}", cut, length, outcome);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_journal_with_a_flipped_bit_is_cut_short_or_refused() {
    use std::os::unix::fs::FileExt;
    let (original, length) = written();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    runner
        .run(&(0..length, 0u8..8), |(at, bit)| {
            let _ = reopened(original.path(), |journal| {
                let mut byte = [0];
                journal.read_exact_at(&mut byte, at).unwrap();
                journal.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
            });
            Ok(())
        })
        .unwrap();
}
