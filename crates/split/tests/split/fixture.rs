//! A partition full of events, and a worker to split it.

use std::{sync::Arc, time::Duration};

use anabranch_model::{
    EventId, EventItemKey, Interval, Item, NamespaceName, PartitionKey, Position, Row, Slice, SliceState, TimeBucket,
    TimeSeriesId, Timestamp,
};
use anabranch_runtime::{Env, run_simulated};
use anabranch_split::{Compression, Form, Ground, Loaded, Pace, State, Strategy, WidePartition, Work, WorkOptions};
use anabranch_store::{After, Direction, MemoryStore, PartitionBatch, Scan, ScanSpan, Store, block::Block};
use bytes::Bytes;

/// 2026-03-28T00:00:00Z
pub(crate) const MIDNIGHT: i64 = 1_774_656_000;
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) partition: WidePartition,
}

pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    run_simulated(11, Timestamp::from_seconds(MIDNIGHT + 30 * 3600), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()).with_sync_latency(Duration::from_millis(2)));
        let namespace = NamespaceName::new("plays").unwrap();
        let key = PartitionKey {
            series: TimeSeriesId::new("profile:123").unwrap(),
            time_bucket: TimeBucket(0),
            event_bucket: anabranch_model::EventBucket(2),
        };
        let partition = WidePartition::new(namespace, slice().name(), key);
        store.create_table(&partition.table()).await.unwrap();
        test(World { env, store, partition }).await;
    });
}

pub(crate) fn slice() -> Slice {
    let start = Timestamp::from_seconds(MIDNIGHT);
    let settings = anabranch_model::PartitionSettings { seconds_per_bucket: 86_400, event_buckets: 4 };
    let interval = Interval::new(start, Timestamp::from_seconds(MIDNIGHT + 86_400));
    Slice { interval, settings, state: SliceState::Open }
}

/// Everything is sealed; splits from 10 kB on, in pieces of 5 kB.
pub(crate) fn ground() -> Ground {
    Ground {
        bucket: slice().interval,
        sealed_until: Timestamp::from_seconds(MIDNIGHT + 86_400),
        threshold_bytes: 10_000,
        target_piece_bytes: 5_000,
        as_of: 0,
        event_buckets: 4,
        strategy: Strategy::TimeRange,
        form: Form::Blocks { codec: Compression::Lz4, block_bytes: 1000 },
    }
}

pub(crate) fn options() -> WorkOptions {
    WorkOptions { checkpoint_bytes: 6_000, fetch_bytes: 1_500, batch_bytes: 1_200, ..WorkOptions::default() }
}

impl World {
    pub(crate) fn worker(&self, name: &str) -> Work {
        self.worker_on(self.store.clone(), self.env.node(0), name)
    }

    pub(crate) fn worker_on(&self, store: Arc<dyn Store>, env: Env, name: &str) -> Work {
        Work::new(store, env, options(), name.to_owned(), Arc::new(Pace::new(1 << 30)))
    }

    /// Events `from..to`, one a second since midnight.
    pub(crate) async fn fill(&self, from: i64, to: i64) {
        let rows: Vec<Row> = (from..to).flat_map(rows).collect();
        let batch = PartitionBatch {
            table: self.partition.table(),
            partition: self.partition.key(),
            rows,
            write_time_micros: 1,
        };
        for result in self.store.write(vec![batch], TIMEOUT).await {
            result.unwrap();
        }
    }

    pub(crate) async fn detect(&self, work: &Work) -> Loaded {
        work.records().detect(&self.partition, None).await.unwrap()
    }

    pub(crate) async fn state(&self, work: &Work) -> State {
        work.records().load(&self.partition).await.unwrap().unwrap().row.state
    }

    /// All rows of the original.
    pub(crate) async fn original(&self) -> Vec<Row> {
        self.raw(self.partition.table(), self.partition.key()).await
    }

    pub(crate) async fn raw(&self, table: anabranch_model::TableName, partition: PartitionKey) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        loop {
            let after = rows.last().map(|row| After::Row(row.key()));
            let scan = Scan {
                table: table.clone(),
                partition: partition.clone(),
                span: ScanSpan::Interval { interval: Interval::ALL, after },
                direction: Direction::Forward,
                max_rows: 1000,
                max_bytes: 1 << 20,
                timeout: TIMEOUT,
            };
            let page = self.store.scan(&scan).await.unwrap();
            rows.extend(page.rows);
            if !page.more {
                return rows;
            }
        }
    }

    /// All rows of the served segments, unpacked, newest first.
    pub(crate) async fn served(&self, work: &Work) -> Vec<Row> {
        let record = work.records().load(&self.partition).await.unwrap().unwrap().row;
        let mut rows = Vec::new();
        for segment in record.served.iter().rev() {
            for piece in &segment.pieces {
                let table = segment.generation.table(&self.partition.namespace, &self.partition.time_slice);
                for row in self.raw(table, self.partition.piece(piece.ordinal)).await {
                    if row.item.key.is_block() {
                        let block = Block::open(&row).unwrap();
                        rows.extend(block.rows(0..block.row_count(), Direction::Forward).unwrap());
                    } else {
                        rows.push(row);
                    }
                }
            }
        }
        rows
    }
}

/// The rows of event `at`: usually one, sometimes three.
pub(crate) fn rows(at: i64) -> Vec<Row> {
    let time = Timestamp::from_seconds(MIDNIGHT + at);
    let position = Position { time, id: EventId::new(format!("e{at}")).unwrap() };
    let items = if at % 7 == 0 { 3 } else { 1 };
    let item = |item: i64| Item {
        key: EventItemKey::new(format!("k{item}")).unwrap(),
        value: Bytes::from(format!("{{\"at\":{at},\"item\":{item},\"title\":\"{}\"}}", "x".repeat((at % 90) as usize))),
        metadata: (at % 3 == 0).then(|| Bytes::from_static(b"json")),
    };
    (0..items).map(|number| Row { position: position.clone(), item: item(number) }).collect()
}
