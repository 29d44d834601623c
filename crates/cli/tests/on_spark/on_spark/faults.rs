//! Faults, planted in the rows of pieces as they lie in Cassandra. What is packed is packed anew, so that nothing but the
//! comparison with the original can tell.

use std::{net::SocketAddr, time::Duration};

use anabranch_model::{
    EventBucket, EventId, Interval, NamespaceName, PartitionKey, Position, Row, TableName, TimeBucket, TimeSeriesId,
    Timestamp,
};
use anabranch_runtime::Env;
use anabranch_store::{
    Direction, PartitionBatch, Scan, ScanSpan, Store,
    block::{Block, BlockBuilder, Codec, MAX_TARGET_BYTES},
};
use anabranch_store_cassandra::{CassandraOptions, CassandraStore};
use bytes::Bytes;
use scylla::client::{session::Session, session_builder::SessionBuilder};
use serde_json::Value;
use tokio::runtime::Runtime;

const TIMEOUT: Duration = Duration::from_secs(30);

/// What can be wrong with a row of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Missing,
    Extra,
    Altered,
    Misplaced,
    /// A row of an older piece, in a newer one too: below everything that a read takes from there.
    OlderInNewer,
    /// A row of a newer piece, in an older one too: above everything that belongs there.
    NewerInOlder,
    /// Older than the whole history.
    BelowTheOldest,
    /// Where the segment ends, at the first instant that isn't its own.
    AtTheEnd,
}

impl Fault {
    pub(crate) const ALL: [Fault; 8] = [
        Fault::Missing,
        Fault::Extra,
        Fault::Altered,
        Fault::Misplaced,
        Fault::OlderInNewer,
        Fault::NewerInOlder,
        Fault::BelowTheOldest,
        Fault::AtTheEnd,
    ];

    /// The series that it is planted in.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Missing => "missing",
            Fault::Extra => "extra",
            Fault::Altered => "altered",
            Fault::Misplaced => "misplaced",
            Fault::OlderInNewer => "older-in-newer",
            Fault::NewerInOlder => "newer-in-older",
            Fault::BelowTheOldest => "below-the-oldest",
            Fault::AtTheEnd => "at-the-end",
        }
    }

    /// As the report of the job calls it: what the original doesn't have in that place is one row too many as well.
    pub(crate) fn kinds(self) -> &'static [&'static str] {
        match self {
            Fault::Missing => &["missing"],
            Fault::Extra => &["extra"],
            Fault::Altered => &["altered"],
            Fault::Misplaced => &["misplaced"],
            Fault::OlderInNewer | Fault::NewerInOlder | Fault::BelowTheOldest | Fault::AtTheEnd => {
                &["extra", "misplaced"]
            }
        }
    }
}

/// Whoever damages pieces: through the store, and through the driver for what the store never does.
pub(crate) struct Planter {
    runtime: Runtime,
    store: CassandraStore,
    session: Session,
    env: Env,
}

/// Where a piece lies.
struct Place {
    table: TableName,
    partition: PartitionKey,
}

impl Planter {
    pub(crate) fn connect(node: SocketAddr) -> Planter {
        let (runtime, env) = (Runtime::new().unwrap(), Env::system());
        let options = CassandraOptions::new([node.to_string()]);
        let (store, session) = runtime.block_on(async {
            let session = SessionBuilder::new().known_node(node.to_string()).build().await;
            (CassandraStore::connect(options, env.clone()).await.unwrap(), session.unwrap())
        });
        Planter { runtime, store, session, env }
    }

    /// Plants a fault in the middle of the split's second piece, or beside it a row that belongs elsewhere or nowhere.
    pub(crate) fn plant(&self, namespace: &str, split: &Value, fault: Fault) {
        let segment = &split["segments"][0]["postSplitData"];
        let pieces = segment["timeRangePartitionStrategy"]["pieces"].as_array().unwrap();
        assert!(pieces.len() > 2, "{split}");
        let place = |piece: &Value| {
            let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
            let table = segment["table"].as_str().unwrap().to_owned();
            Place {
                table: TableName { namespace: NamespaceName::new(namespace).unwrap(), table },
                partition: PartitionKey {
                    series: TimeSeriesId::new(split["timeSeriesId"].as_str().unwrap()).unwrap(),
                    time_bucket: TimeBucket(number(&split["timeBucket"])),
                    event_bucket: EventBucket(number(&piece["eventBucket"])),
                },
            }
        };
        let (piece, neighbour) = (place(&pieces[1]), place(&pieces[2]));
        let end: Timestamp = split["segments"][0]["interval"]["end"].as_str().unwrap().parse().unwrap();
        self.runtime.block_on(async {
            let rows = self.rows(&piece).await;
            let stored = &rows[rows.len() / 2];
            let mut held = unpacked(stored);
            let middle = held.len() / 2;
            let at = |time: Timestamp| Row {
                position: Position { time, ..held[middle].position.clone() },
                ..held[middle].clone()
            };
            match fault {
                Fault::OlderInNewer => {
                    let older = unpacked(&self.rows(&neighbour).await[0]);
                    return self.write(&piece, vec![older[older.len() / 2].clone()]).await;
                }
                Fault::NewerInOlder => return self.write(&neighbour, vec![held[middle].clone()]).await,
                Fault::BelowTheOldest => return self.write(&piece, vec![at(Timestamp::from_seconds(1))]).await,
                Fault::AtTheEnd => return self.write(&piece, vec![at(end)]).await,
                Fault::Missing => drop(held.remove(middle)),
                Fault::Extra => {
                    let mut row = held[middle].clone();
                    row.position.id = EventId::new(format!("{}x", row.position.id.as_str())).unwrap();
                    // Right above the event whose id it continues.
                    let at = held.iter().position(|other| other.position < row.position).unwrap();
                    held.insert(at, row);
                }
                // A row that is the same but for its metadata, or a value with one other byte.
                Fault::Altered if stored.item.key.is_block() => {
                    let mut value = held[middle].item.value.to_vec();
                    value[0] ^= 1;
                    held[middle].item.value = value.into();
                }
                Fault::Altered => held[middle].item.metadata = Some(Bytes::new()),
                Fault::Misplaced => self.write(&neighbour, vec![held.remove(middle)]).await,
            }
            self.replace(&piece, stored, held).await;
        });
    }

    /// All rows of a piece, as they are stored.
    async fn rows(&self, place: &Place) -> Vec<Row> {
        let scan = Scan {
            table: place.table.clone(),
            partition: place.partition.clone(),
            span: ScanSpan::Interval { interval: Interval::ALL, after: None },
            direction: Direction::Forward,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            timeout: TIMEOUT,
        };
        let page = self.store.scan(&scan).await.unwrap();
        assert!(!page.more && !page.rows.is_empty(), "{:?}", place.partition);
        page.rows
    }

    /// Puts rows into the place of a stored one: as they are, or packed again when they were.
    async fn replace(&self, place: &Place, stored: &Row, rows: Vec<Row>) {
        if !stored.item.key.is_block() {
            self.delete(place, stored).await;
            return match rows.is_empty() {
                true => (),
                false => self.write(place, rows).await,
            };
        }
        let mut builder = BlockBuilder::new(MAX_TARGET_BYTES, Codec::Lz4);
        for event in rows.chunk_by(|left, right| left.position == right.position) {
            builder.push(event).unwrap();
        }
        let above = Block::open(stored).unwrap().above().cloned();
        let block = builder.finish(above).unwrap();
        assert_eq!(block.position, stored.position, "it takes the place of the other");
        self.write(place, vec![block]).await;
    }

    async fn write(&self, place: &Place, rows: Vec<Row>) {
        let write_time_micros = self.env.now().nanos() / 1000;
        let batch =
            PartitionBatch { table: place.table.clone(), partition: place.partition.clone(), rows, write_time_micros };
        self.store.write(vec![batch], TIMEOUT).await.into_iter().for_each(|written| written.unwrap());
    }

    async fn delete(&self, Place { table, partition }: &Place, row: &Row) {
        let cql = format!(
            "DELETE FROM anabranch_{}.{} WHERE time_series_id = ? AND time_bucket = ? AND event_bucket = ? \
             AND event_time = ? AND event_id = ? AND event_item_key = ?",
            table.namespace, table.table
        );
        let key = (
            partition.series.as_str(),
            i64::from(partition.time_bucket.0),
            i64::from(partition.event_bucket.0),
            row.position.time.nanos(),
            row.position.id.as_str(),
            row.item.key.as_str(),
        );
        self.session.query_unpaged(cql, key).await.unwrap();
    }
}

/// The rows that a stored one holds.
fn unpacked(stored: &Row) -> Vec<Row> {
    if !stored.item.key.is_block() {
        return vec![stored.clone()];
    }
    let block = Block::open(stored).unwrap();
    block.rows(0..block.row_count(), Direction::Forward).unwrap().collect()
}
