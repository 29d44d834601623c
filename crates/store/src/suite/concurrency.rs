//! Promises about many at once: whole batches for readers, and everyone sees what was acknowledged.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch_model::{PartitionKey, Row, TableName};
use anabranch_runtime::Env;

use super::{
    fixture::{
        DIRECTIONS, EVER, batch, contents, let_others_go_on, make_table, page, partition, row, scan, try_write, within,
        write,
    },
    model::Rows,
};
use crate::{Direction, Store};

const BATCH_ROWS: i64 = 50;
const GENERATIONS: u64 = 200;

fn generation_of(row: &Row) -> u64 {
    std::str::from_utf8(&row.item.value).unwrap().trim_start_matches('0').parse().unwrap()
}

fn rows_of(generation: u64) -> Vec<Row> {
    (0..BATCH_ROWS).map(|at| row(at, "e", "k", &format!("{generation:0200}"))).collect()
}

/// A batch written over and over is seen whole: all of one generation, and never one older than the last acknowledged.
pub async fn readers_never_see_a_part_of_a_batch(store: Arc<dyn Store>) {
    let env = Env::system();
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    write(&store, &table, &partition, &rows_of(1)).await;
    let acknowledged = Arc::new(AtomicU64::new(1));
    let readers: Vec<_> = DIRECTIONS
        .into_iter()
        .cycle()
        .take(4)
        .map(|direction| {
            let (store, table, partition) = (store.clone(), table.clone(), partition.clone());
            let acknowledged = acknowledged.clone();
            env.spawn(async move { read_generations(&store, &table, &partition, direction, &acknowledged).await })
        })
        .collect();
    for generation in 2..=GENERATIONS {
        let mut batch = batch(&table, &partition, &rows_of(generation));
        batch.write_time_micros = generation as i64;
        try_write(&store, batch).await.unwrap();
        acknowledged.store(generation, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    for reader in readers {
        reader.await.expect("no reader panics");
    }
}

async fn read_generations(
    store: &Arc<dyn Store>,
    table: &TableName,
    partition: &PartitionKey,
    direction: Direction,
    acknowledged: &AtomicU64,
) {
    for turn in 0.. {
        let least = acknowledged.load(Ordering::SeqCst);
        let page = page(store, &scan(table, partition, within(EVER), direction)).await;
        assert_eq!(page.rows.len() as i64, BATCH_ROWS);
        let generations: Vec<u64> = page.rows.iter().map(generation_of).collect();
        assert!(generations.iter().all(|generation| *generation == generations[0]), "a mix: {generations:?}");
        assert!(generations[0] >= least, "generation {} after {least} was acknowledged", generations[0]);
        if least == GENERATIONS {
            return;
        }
        let_others_go_on(turn).await;
    }
}

/// Each of many writers, to partitions of its own and to shared ones, finds its rows as soon as they are acknowledged;
/// in the end all are there.
pub async fn a_writer_reads_what_it_wrote_among_many(store: Arc<dyn Store>) {
    const WRITERS: i64 = 8;
    const WRITES: i64 = 25;
    let env = Env::system();
    let table = make_table(&store, "data_20260328").await;
    let row_of = |writer: i64, at: i64| row(at, &format!("w{writer}"), "k", &format!("{writer} {at}"));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, table) = (store.clone(), table.clone());
            env.spawn(async move {
                for at in 0..WRITES {
                    let row = row_of(writer, at);
                    for partition in [partition("own", writer as u32, 0), partition("shared", (at % 3) as u32, 0)] {
                        write(&store, &table, &partition, std::slice::from_ref(&row)).await;
                        assert!(contents(&store, &table, &partition).await.contains(&row), "{row:?} is gone");
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    for writer in 0..WRITERS {
        let rows = Rows::new((0..WRITES).map(|at| row_of(writer, at)).collect());
        assert_eq!(contents(&store, &table, &partition("own", writer as u32, 0)).await, rows.as_slice());
    }
    for time_bucket in 0..3 {
        let times = (0..WRITES).filter(|at| at % 3 == time_bucket);
        let rows = Rows::new(times.flat_map(|at| (0..WRITERS).map(move |writer| row_of(writer, at))).collect());
        assert_eq!(contents(&store, &table, &partition("shared", time_bucket as u32, 0)).await, rows.as_slice());
    }
}

/// W2: a client that didn't wait for the answer and writes again, at the same time as its first attempt.
pub async fn a_retry_beside_its_first_attempt_leaves_one_row(store: Arc<dyn Store>) {
    let env = Env::system();
    let table = make_table(&store, "data_20260328").await;
    let partition = partition("s", 0, 0);
    let rows = Rows::new((0..20).map(|at| row(at, "e", "k", "v")).collect());
    for _ in 0..10 {
        let attempts: Vec<_> = (0..4)
            .map(|_| {
                let (store, batch) = (store.clone(), batch(&table, &partition, rows.as_slice()));
                env.spawn(async move { try_write(&store, batch).await })
            })
            .collect();
        for attempt in attempts {
            assert_eq!(attempt.await, Some(Ok(())));
        }
        assert_eq!(contents(&store, &table, &partition).await, rows.as_slice());
    }
}
