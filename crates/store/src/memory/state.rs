//! What the store in memory holds, and the undo log that takes a crash back to what was synced.

use std::collections::BTreeMap;

use anabranch_model::{PartitionKey, Row, RowKey, TableName, key};
use bytes::Bytes;

use super::range;
use crate::{
    CasOutcome, Direction, MetaKey, PartitionBatch, PartitionSize, Scan, ScanPage, StoreError, Version, Versioned,
};

#[derive(Default)]
pub(super) struct State {
    tables: BTreeMap<TableName, Table>,
    documents: BTreeMap<MetaKey, Versioned>,
    /// What was replaced since the last sync, oldest first.
    undo: Vec<Undo>,
    crashes: u64,
}

/// Partitions by their encoded keys; none is empty.
#[derive(Default)]
pub(super) struct Table(BTreeMap<Vec<u8>, Partition>);

pub(super) struct Partition {
    pub(super) key: PartitionKey,
    rows: BTreeMap<Vec<u8>, StoredRow>,
}

struct StoredRow {
    row: Row,
    write_time_micros: i64,
}

/// What was there before a change; `None` when nothing was.
enum Undo {
    Table { name: TableName, before: Option<Table> },
    Row { table: TableName, partition: PartitionKey, key: Vec<u8>, before: Option<StoredRow> },
    Document { key: MetaKey, before: Option<Versioned> },
}

impl State {
    pub(super) fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Everything applied so far is durable.
    pub(super) fn sync(&mut self) {
        self.undo.clear();
    }

    /// Takes back, latest first, everything that wasn't synced.
    pub(super) fn crash(&mut self) {
        self.crashes += 1;
        self.take_back(0);
    }

    /// Takes back, latest first, all but the first `kept` changes since the last sync.
    fn take_back(&mut self, kept: usize) {
        while self.undo.len() > kept {
            let Some(undo) = self.undo.pop() else { return };
            match undo {
                Undo::Table { name, before } => {
                    put(&mut self.tables, name, before);
                }
                Undo::Document { key, before } => {
                    put(&mut self.documents, key, before);
                }
                Undo::Row { table, partition, key, before } => {
                    if let Some(table) = self.tables.get_mut(&table) {
                        table.put_row(&partition, key, before);
                    }
                }
            }
        }
    }

    /// Who learns of a change that isn't synced may act on it, so it must not be lost any more.
    fn sync_if(&mut self, learns_of: impl Fn(&Undo) -> bool) {
        if self.undo.iter().any(learns_of) {
            self.sync();
        }
    }

    pub(super) fn create_table(&mut self, name: &TableName) {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.clone(), Table::default());
            self.undo.push(Undo::Table { name: name.clone(), before: None });
        }
    }

    pub(super) fn drop_table(&mut self, name: &TableName) {
        if let Some(table) = self.tables.remove(name) {
            self.undo.push(Undo::Table { name: name.clone(), before: Some(table) });
        }
    }

    pub(super) fn table_names(&mut self) -> Vec<TableName> {
        self.sync_if(|undo| matches!(undo, Undo::Table { .. }));
        self.tables.keys().cloned().collect()
    }

    pub(super) fn table(&self, name: &TableName) -> Result<&Table, StoreError> {
        self.tables.get(name).ok_or_else(|| StoreError::NoSuchTable { table: name.clone() })
    }

    /// Writes a batch, or nothing of it.
    pub(super) fn apply(&mut self, batch: PartitionBatch) -> Result<(), StoreError> {
        let PartitionBatch { table: name, partition, rows, write_time_micros } = batch;
        if rows.is_empty() {
            return Err(StoreError::Refused { reason: format!("a batch without rows for {name}") });
        }
        let Some(table) = self.tables.get_mut(&name) else {
            return Err(StoreError::NoSuchTable { table: name });
        };
        for row in rows {
            let key = range::row_key(&row.key());
            let stored = StoredRow { row, write_time_micros };
            if table.row(&partition, &key).is_some_and(|there| there.wins_over(&stored)) {
                continue;
            }
            let before = table.put_row(&partition, key.clone(), Some(stored));
            self.undo.push(Undo::Row { table: name.clone(), partition: partition.clone(), key, before });
        }
        Ok(())
    }

    pub(super) fn forget_row(&mut self, table: &TableName, partition: &PartitionKey, key: &RowKey) {
        if let Some(table) = self.tables.get_mut(table) {
            table.put_row(partition, range::row_key(key), None);
        }
    }

    pub(super) fn scan_as_if(&mut self, scan: &Scan, written: Vec<PartitionBatch>) -> Result<ScanPage, StoreError> {
        let kept = self.undo.len();
        let applied = written.into_iter().try_for_each(|batch| self.apply(batch));
        let page = applied.and_then(|()| self.scan(scan));
        self.take_back(kept);
        page
    }

    pub(super) fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        let table = self.table(&scan.table)?;
        let keys = range::of_span(&scan.span, scan.direction);
        let (Some(keys), Some(partition)) = (keys, table.0.get(&partition_bytes(&scan.partition))) else {
            return Ok(ScanPage::default());
        };
        let rows = partition.rows.range(keys).map(|(_, stored)| &stored.row);
        Ok(match scan.direction {
            Direction::Forward => page(rows, scan),
            Direction::Backward => page(rows.rev(), scan),
        })
    }

    pub(super) fn load(&mut self, wanted: &MetaKey) -> Option<Versioned> {
        self.sync_if(|undo| matches!(undo, Undo::Document { key, .. } if key == wanted));
        self.documents.get(wanted).cloned()
    }

    pub(super) fn list(&mut self, scope: &str, after: Option<&str>, limit: usize) -> Vec<(String, Versioned)> {
        self.sync_if(|undo| matches!(undo, Undo::Document { key, .. } if key.scope == scope));
        let documents = self.documents.range(MetaKey::new(scope, after.unwrap_or_default())..);
        let documents = documents.take_while(|(key, _)| key.scope == scope);
        let documents = documents.filter(|(key, _)| after.is_none_or(|after| key.name.as_str() > after));
        documents.take(limit).map(|(key, document)| (key.name.clone(), document.clone())).collect()
    }

    pub(super) fn compare_and_set(
        &mut self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> CasOutcome {
        let current = self.documents.get(key);
        let version = current.map(|document| document.version);
        if version != expected {
            return CasOutcome::Conflict(current.cloned());
        }
        let last = version.unwrap_or(Version(0));
        let (version, after) = match value {
            Some(value) => (Version(last.0 + 1), Some(Versioned { version: Version(last.0 + 1), value })),
            None => (last, None),
        };
        let before = put(&mut self.documents, key.clone(), after);
        self.undo.push(Undo::Document { key: key.clone(), before });
        CasOutcome::Applied(version)
    }
}

impl Table {
    pub(super) fn partitions(&self) -> &BTreeMap<Vec<u8>, Partition> {
        &self.0
    }

    fn row(&self, partition: &PartitionKey, key: &[u8]) -> Option<&StoredRow> {
        self.0.get(&partition_bytes(partition))?.rows.get(key)
    }

    /// Puts a row, or takes it away, and gives back what was there.
    fn put_row(&mut self, partition: &PartitionKey, key: Vec<u8>, row: Option<StoredRow>) -> Option<StoredRow> {
        let bytes = partition_bytes(partition);
        let make = || Partition { key: partition.clone(), rows: BTreeMap::new() };
        let entry = self.0.entry(bytes.clone()).or_insert_with(make);
        let before = put(&mut entry.rows, key, row);
        if entry.rows.is_empty() {
            self.0.remove(&bytes);
        }
        before
    }
}

impl Partition {
    pub(super) fn size(&self) -> PartitionSize {
        PartitionSize {
            partition: self.key.clone(),
            rows: self.rows.len() as u64,
            bytes: self.rows.values().map(|stored| stored.row.bytes() as u64).sum(),
        }
    }
}

impl StoredRow {
    /// The later write stays; of two at the same time the one with the greater bytes, whatever order they came in.
    fn wins_over(&self, other: &StoredRow) -> bool {
        let rank = |stored: &StoredRow| {
            let item = &stored.row.item;
            (stored.write_time_micros, item.value.clone(), item.metadata.clone())
        };
        rank(self) >= rank(other)
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

fn partition_bytes(partition: &PartitionKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode_partition(partition, &mut bytes);
    bytes
}

fn page<'a>(rows: impl Iterator<Item = &'a Row>, scan: &Scan) -> ScanPage {
    let mut rows = rows.peekable();
    let mut page = ScanPage::default();
    let mut bytes = 0;
    while let Some(row) = rows.next() {
        bytes += row.bytes();
        page.rows.push(row.clone());
        if page.rows.len() == scan.max_rows || bytes >= scan.max_bytes {
            page.more = rows.peek().is_some();
            break;
        }
    }
    page
}
