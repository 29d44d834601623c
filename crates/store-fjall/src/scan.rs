//! Reads a page of a partition.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_model::Row;
use anabranch_runtime::{Env, let_others_run};
use anabranch_store::{Direction, Scan, ScanPage, StoreError};
use bytes::Bytes;
use fjall::{Guard, Readable};

use crate::{
    database::{Database, Table},
    error,
    layout::{decode, partition_prefix, span_keys},
};

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: usize = 16;
/// Rows until another thread may have the processor: some 20 µs.
const ROWS_PER_TURN: usize = 64;
/// No page takes more memory than this before its first row.
const MAX_RESERVED: usize = 1024;

/// Reads a page. `deadline` is a time of [`Env::monotonic`]; past it, the rows so far are the page.
pub(crate) fn page(database: &Database, scan: &Scan, env: &Env, deadline: Duration) -> Result<ScanPage, StoreError> {
    // Held until the end, although the table may be dropped meanwhile: fjall's iterators need it.
    let table: Arc<Table> = database.table(&scan.table)?;
    let prefix = partition_prefix(&scan.partition);
    let Some(keys) = span_keys(&prefix, &scan.span, scan.direction) else { return Ok(ScanPage::default()) };
    let entries = database.visible().range(&table.keyspace, keys);
    database.counters.seeks.fetch_add(1, Ordering::Relaxed);
    let collector = Collector { scan, prefix: prefix.len(), env, deadline };
    match scan.direction {
        Direction::Forward => collector.collect(entries),
        Direction::Backward => collector.collect(entries.rev()),
    }
}

struct Collector<'a> {
    scan: &'a Scan,
    prefix: usize,
    env: &'a Env,
    deadline: Duration,
}

impl Collector<'_> {
    fn collect(&self, mut entries: impl Iterator<Item = Guard>) -> Result<ScanPage, StoreError> {
        let mut rows: Vec<Row> = Vec::with_capacity(self.scan.max_rows.min(MAX_RESERVED));
        let mut bytes = 0;
        let mut more = false;
        while let Some(entry) = entries.next() {
            let (key, value) = entry.into_inner().map_err(|error| error::read(&error))?;
            let row = self.row(&key, value.into())?;
            bytes += row.bytes();
            rows.push(row);
            if rows.len() >= self.scan.max_rows || bytes >= self.scan.max_bytes {
                more = entries.next().is_some();
                break;
            }
            if rows.len().is_multiple_of(ROWS_PER_TURN) {
                let_others_run();
            }
            if rows.len().is_multiple_of(ROWS_PER_LOOK) && self.env.monotonic() >= self.deadline {
                more = true;
                break;
            }
        }
        Ok(ScanPage { rows, more })
    }

    fn row(&self, key: &[u8], value: Bytes) -> Result<Row, StoreError> {
        key.get(self.prefix..).and_then(|suffix| decode(suffix, value)).ok_or_else(|| StoreError::Corrupt {
            reason: format!("a row of table {} can't be read; its key is `{}`", self.scan.table, key.escape_ascii()),
        })
    }
}
