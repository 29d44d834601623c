//! What pieces and originals really hold, read from the store behind every server's back.

use std::time::Duration;

use anabranch_engine::NamespaceRecord;
use anabranch_model::{Interval, NamespaceName, PartitionKey, Row, Slice, TableName};
use anabranch_split::{Segment, State, Strategy, WidePartition, WideRow, record::Target};
use anabranch_store::{Block, Direction, ErrorKind, MemoryStore, MetaKey, Scan, ScanSpan, Store, StoreError};

use crate::oracle::Violation;

/// The first place where a segment isn't what it should be.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// A piece can't be read, or holds what doesn't belong there.
    Piece(String),
    /// Pieces and original differ.
    Differs(String),
    /// The slice was dropped meanwhile.
    Gone,
}

impl Flaw {
    pub(crate) fn words(&self) -> &str {
        match self {
            Flaw::Piece(what) | Flaw::Differs(what) => what,
            Flaw::Gone => "its table is gone",
        }
    }
}

pub(crate) fn broken(error: &StoreError) -> Violation {
    Violation::new("W1", format!("the store fails: {error}"))
}

/// All rows of a partition in a span, in table order, as they are stored.
pub(crate) async fn stored_rows(
    store: &MemoryStore,
    table: &TableName,
    partition: &PartitionKey,
    span: Interval,
) -> Result<Vec<Row>, StoreError> {
    let scan = Scan {
        table: table.clone(),
        partition: partition.clone(),
        span: ScanSpan::Interval { interval: span, after: None },
        direction: Direction::Forward,
        max_rows: usize::MAX,
        max_bytes: usize::MAX,
        timeout: Duration::from_secs(1),
    };
    Ok(store.scan(&scan).await?.rows)
}

/// Compares a segment with its original, row by row.
pub(crate) async fn compare(store: &MemoryStore, partition: &WidePartition, segment: &Segment) -> Result<(), Flaw> {
    let failed = |error: StoreError| match error.kind() {
        ErrorKind::NoSuchTable => Flaw::Gone,
        _ => Flaw::Piece(error.to_string()),
    };
    let table = segment.generation.table(&partition.namespace, &partition.time_slice);
    let mut held: Vec<Row> = Vec::new();
    for piece in &segment.pieces {
        let rows = stored_rows(store, &table, &partition.piece(piece.ordinal), Interval::ALL).await.map_err(failed)?;
        let rows = unpacked(rows).map_err(Flaw::Piece)?;
        let stray = |row: &&Row| row.position < piece.oldest || piece.newest < row.position;
        if let Some(row) = rows.iter().find(stray).filter(|_| segment.strategy == Strategy::TimeRange) {
            let what = format!("{:?} lies in piece {}, which ends elsewhere", row.position, piece.ordinal);
            return Err(Flaw::Piece(what));
        }
        if rows.len() as u64 != piece.content.rows {
            let what = format!("piece {} holds {} rows instead of {}", piece.ordinal, rows.len(), piece.content.rows);
            return Err(Flaw::Piece(what));
        }
        held.extend(rows);
    }
    let in_table_order =
        |left: &Row, right: &Row| right.position.cmp(&left.position).then(left.item.key.cmp(&right.item.key));
    held.sort_by(in_table_order);
    let original = stored_rows(store, &partition.table(), &partition.key(), segment.span).await.map_err(failed)?;
    let first = (0..held.len().max(original.len())).find(|at| held.get(*at) != original.get(*at));
    match first {
        None => Ok(()),
        Some(at) => {
            let shown = |row: Option<&Row>| row.map(|row| format!("{:?} `{}`", row.position, row.item.key));
            let (split, original) = (shown(held.get(at)), shown(original.get(at)));
            Err(Flaw::Differs(format!("row {at}: the pieces have {split:?}, the original {original:?}")))
        }
    }
}

fn unpacked(rows: Vec<Row>) -> Result<Vec<Row>, String> {
    let mut all = Vec::new();
    for row in rows {
        if row.item.key.is_block() {
            let block = Block::open(&row).map_err(|error| error.to_string())?;
            let rows = block.rows(0..block.row_count(), Direction::Forward).map_err(|error| error.to_string())?;
            all.extend(rows);
        } else {
            all.push(row);
        }
    }
    Ok(all)
}

/// A namespace's record as it is stored.
pub(crate) async fn namespace_record(
    store: &MemoryStore,
    name: &NamespaceName,
) -> Result<Option<NamespaceRecord>, Violation> {
    let document = store.load(&MetaKey::new("namespaces", name.as_str())).await.map_err(|error| broken(&error))?;
    let damaged = |error| Violation::new("W1", format!("the record of {name} is damaged: {error}"));
    document.map(|document| serde_json::from_slice(&document.value).map_err(damaged)).transpose()
}

/// All split records of a slice.
pub(crate) async fn split_records(
    store: &MemoryStore,
    name: &NamespaceName,
    slice: &Slice,
) -> Result<Vec<WideRow>, Violation> {
    let mut found = Vec::new();
    for shard in 0..anabranch_split::records::SHARDS {
        let scope = format!("wide_row/{name}/{}/{shard:02x}", slice.name());
        for (key, document) in store.list(&scope, None, usize::MAX).await.map_err(|error| broken(&error))? {
            let damaged = |error| Violation::new("S5", format!("the split record {key} is damaged: {error}"));
            found.push(serde_json::from_slice(&document.value).map_err(damaged)?);
        }
    }
    Ok(found)
}

/// What the next segment of a record will cover, once that is decided.
pub(crate) fn target(state: &State) -> Option<&Target> {
    match state {
        State::Planning(draft) => Some(&draft.target),
        State::Planned(plan) => Some(&plan.target),
        State::Splitting(copying) => Some(&copying.plan.target),
        State::Verifying(checking) => Some(&checking.plan.target),
        _ => None,
    }
}
