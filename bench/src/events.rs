//! The events that are written: 256 bytes of value in one item. Values can't be compressed, so that disk and cache see all
//! of them; ids have a fixed length, so that every row is as long as any other.

use anabranch_api::{v1, wkt};
use anabranch_engine::{EventInput, ItemInput, TimeInput};
use anabranch_model::{
    EventBucket, EventId, EventItemKey, PartitionKey, Position, RowKey, TimeBucket, TimeSeriesId, Timestamp,
    key::{encode_partition, encode_row},
};
use anyhow::Result;
use bytes::Bytes;

use crate::args::IngestLoad;

pub(crate) const VALUE_BYTES: usize = 256;
pub(crate) const ITEM_KEY: &str = "payload";
/// What a row counts for: time, id, key, value.
pub(crate) const ROW_BYTES: u64 = (8 + 12 + ITEM_KEY.len() + VALUE_BYTES) as u64;

/// An event of one item.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) series: String,
    pub(crate) time: Timestamp,
    pub(crate) id: String,
    pub(crate) value: Bytes,
}

impl Event {
    pub(crate) fn new(series: String, time: Timestamp, number: u64, random: &mut Random) -> Event {
        Event { series, time, id: format!("e-{number:010}"), value: random.value() }
    }

    /// The same with a value as services write them: compressible, but no two alike.
    pub(crate) fn json(series: String, time: Timestamp, number: u64, random: &mut Random) -> Event {
        Event { series, time, id: format!("e-{number:010}"), value: random.json() }
    }

    pub(crate) fn into_message(self) -> v1::Event {
        v1::Event {
            time_series_id: self.series,
            event_time: Some(wkt::Timestamp::from_nanos(self.time.nanos())),
            event_id: self.id,
            event_items: vec![v1::EventItem {
                event_item_key: ITEM_KEY.to_owned(),
                event_item_value: self.value,
                value_metadata: None,
            }],
        }
    }

    pub(crate) fn into_input(self) -> EventInput {
        EventInput {
            series: self.series,
            time: Some(TimeInput::Nanos(self.time.nanos())),
            id: self.id,
            items: vec![ItemInput { key: ITEM_KEY.to_owned(), value: self.value, metadata: None }],
        }
    }

    /// Key and value, byte for byte as the embedded store writes them: no metadata is a marker of 0.
    pub(crate) fn into_row(self) -> Result<(Bytes, Bytes)> {
        let partition = PartitionKey {
            series: TimeSeriesId::new(self.series)?,
            time_bucket: TimeBucket(0),
            event_bucket: EventBucket(0),
        };
        let position = Position { time: self.time, id: EventId::new(self.id)? };
        let mut key = Vec::with_capacity(80);
        encode_partition(&partition, &mut key);
        encode_row(&RowKey { position, item_key: EventItemKey::new(ITEM_KEY)? }, &mut key);
        let mut value = Vec::with_capacity(VALUE_BYTES + 1);
        value.push(0);
        value.extend_from_slice(&self.value);
        Ok((key.into(), value.into()))
    }
}

/// The events of one ingest request: of the writer's series in turn, a microsecond apart.
pub(crate) fn ingest_request(load: &IngestLoad, begin: Timestamp, writer: u32, request: u32) -> Vec<Event> {
    let mut random = Random::new(u64::from(writer) << 32 | u64::from(request));
    let first = u64::from(request) * u64::from(load.events);
    let event = |number: u64| {
        let series = format!("device:{writer:02}-{:03}", number % u64::from(load.series));
        let time = Timestamp::from_nanos(begin.nanos() + number as i64 * 1000);
        Event::new(series, time, number, &mut random)
    };
    (first..first + u64::from(load.events)).map(event).collect()
}

/// The same random numbers in every run (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which isn't 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// As long as the other values.
    fn json(&mut self) -> Bytes {
        const DEVICES: [&str; 4] = ["tv-living-room", "tablet-blue", "phone-of-anna", "browser-firefox"];
        const KINDS: [&str; 4] = ["play", "pause", "seek", "heartbeat"];
        let mut value = format!(
            concat!(
                r#"{{"type":"{}","device":"{}","session":"{:016x}","title_id":{},"position_ms":{},"bitrate_kbps":{},"#,
                r#""buffered_ms":{},"dropped_frames":{},"country":"NL","app_version":"9.{}.{}","network":"wifi","#,
                r#""audio":"en-5.1","subtitles":null,"#,
            ),
            KINDS[self.below(4) as usize],
            DEVICES[self.below(4) as usize],
            self.next(),
            80_000_000 + self.below(1_000_000),
            self.below(7_200_000),
            self.below(16_000),
            self.below(30_000),
            self.below(4),
            self.below(10),
            self.below(10),
        )
        .into_bytes();
        value.truncate(VALUE_BYTES - 1);
        value.resize(VALUE_BYTES - 1, b' ');
        value.push(b'}');
        value.into()
    }

    fn value(&mut self) -> Bytes {
        let mut value = Vec::with_capacity(VALUE_BYTES);
        while value.len() < VALUE_BYTES {
            value.extend_from_slice(&self.next().to_le_bytes());
        }
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch_model::{Item, NamespaceName, Row, TableName};
    use anabranch_runtime::Env;
    use anabranch_store::{PartitionBatch, Store};
    use anabranch_store_fjall::{FjallOptions, FjallStore};
    use fjall::Readable;

    use super::*;

    fn event() -> Event {
        let load = IngestLoad { writers: 1, requests: 1, warm_up: 0, events: 1, series: 1 };
        ingest_request(&load, Timestamp::from_seconds(1_800_000_000), 0, 0).remove(0)
    }

    #[tokio::test]
    async fn prepared_rows_are_byte_for_byte_what_the_store_writes() {
        let directory = tempfile::tempdir().unwrap();
        let table = TableName { namespace: NamespaceName::new("a").unwrap(), table: "data".to_owned() };
        let store = FjallStore::open(directory.path(), FjallOptions::default(), Env::system()).unwrap();
        store.create_table(&table).await.unwrap();
        let partition = PartitionKey {
            series: TimeSeriesId::new(event().series).unwrap(),
            time_bucket: TimeBucket(0),
            event_bucket: EventBucket(0),
        };
        let position = Position { time: event().time, id: EventId::new(event().id).unwrap() };
        let item = Item { key: EventItemKey::new(ITEM_KEY).unwrap(), value: event().value, metadata: None };
        let row = Row { position, item };
        assert_eq!(row.bytes() as u64, ROW_BYTES);
        let batch = PartitionBatch { table, partition, rows: vec![row], write_time_micros: 0 };
        store.write(vec![batch], Duration::from_secs(5)).await.remove(0).unwrap();
        store.close().await.unwrap();

        let database = fjall::Database::builder(directory.path().join("fjall")).open().unwrap();
        let names = database.list_keyspace_names();
        let name = names.iter().find(|name| name.starts_with("a.data")).unwrap();
        let keyspace = database.keyspace(name, fjall::KeyspaceCreateOptions::default).unwrap();
        let (key, value) = database.snapshot().iter(&keyspace).next().unwrap().into_inner().unwrap();
        let (expected_key, expected_value) = event().into_row().unwrap();
        assert_eq!(&*key, &*expected_key);
        assert_eq!(&*value, &*expected_value);
    }
}
