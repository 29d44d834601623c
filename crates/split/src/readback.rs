//! Reads a piece back from the store, block by block, and adds up what it holds. Nothing of what was written is trusted.

use anabranch_model::{Checksum, Interval, Position, Row};
use anabranch_store::{After, Direction, Scan, ScanSpan, block::Block};

use crate::{
    SplitError,
    record::{Piece, Stored, Strategy, Target, WidePartition},
    spread::piece_of,
    work::{Breath, Tenure, timed},
};

/// What a piece holds.
pub(crate) struct Found {
    /// Its rows, whether packed or not.
    pub(crate) content: Checksum,
    /// What they take.
    pub(crate) stored: Stored,
}

/// Reads all of a piece, however long that takes. Every row must lie inside the piece's bounds (and bucket) and below the one before.
pub(crate) async fn read_back(tenure: &mut Tenure<'_>, target: &Target, piece: &Piece) -> Result<Found, SplitError> {
    let work = tenure.work;
    let partition = tenure.loaded.row.partition.clone();
    let mut found = Found { content: Checksum::default(), stored: Stored::default() };
    let mut last: Option<Row> = None;
    let mut breath = Breath::default();
    let mut scan = Scan {
        table: target.generation.table(&partition.namespace, &partition.time_slice),
        partition: partition.piece(piece.ordinal),
        span: ScanSpan::Interval { interval: Interval::ALL, after: None },
        direction: Direction::Forward,
        max_rows: usize::MAX,
        max_bytes: work.options.fetch_bytes,
        timeout: work.options.call_timeout,
    };
    loop {
        let page = timed(&work.env, scan.timeout, work.everywhere.scan(&scan)).await?;
        let mut bytes = 0;
        let after = page.rows.last().map(|row| After::Row(row.key()));
        for row in page.rows {
            breath.after(row.bytes()).await;
            bytes += row.bytes() as u64;
            found.stored.rows += 1;
            found.stored.bytes += row.bytes() as u64;
            if !row.item.key.is_block() {
                add(&mut found.content, &partition, target, piece, &mut last, row)?;
                continue;
            }
            let block = Block::open(&row).map_err(|error| damaged(piece, &row.position, &error))?;
            let rows = block.rows(0..block.row_count(), Direction::Forward);
            for row in rows.map_err(|error| damaged(piece, &row.position, &error))? {
                breath.after(row.bytes()).await;
                add(&mut found.content, &partition, target, piece, &mut last, row)?;
            }
        }
        work.pace(bytes).await;
        tenure.keep().await?;
        match after {
            Some(after) if page.more => scan.span = ScanSpan::Interval { interval: Interval::ALL, after: Some(after) },
            _ => return Ok(found),
        }
    }
}

fn add(
    content: &mut Checksum,
    partition: &WidePartition,
    target: &Target,
    piece: &Piece,
    last: &mut Option<Row>,
    row: Row,
) -> Result<(), SplitError> {
    let at_home = match target.strategy {
        Strategy::TimeRange => true,
        Strategy::EventBucket { pieces, first_ordinal, event_buckets } => {
            first_ordinal + piece_of(&row.position, event_buckets, pieces) == piece.ordinal
        }
    };
    let inside = at_home && piece.oldest <= row.position && row.position <= piece.newest;
    let below = last.as_ref().is_none_or(|last| {
        row.position < last.position || (row.position == last.position && row.item.key > last.item.key)
    });
    if !inside || !below {
        let reason = format!("piece {} holds a row at {:?} that doesn't belong there", piece.ordinal, row.position);
        return Err(SplitError::Mismatch { reason });
    }
    content.add(&partition.time_series_id, &row);
    *last = Some(row);
    Ok(())
}

fn damaged(piece: &Piece, position: &Position, error: &dyn std::fmt::Display) -> SplitError {
    let reason = format!("the block of piece {} at {position:?} can't be read: {error}", piece.ordinal);
    SplitError::Mismatch { reason }
}
