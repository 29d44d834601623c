//! Finds the cuts of a segment: pure, fed with events in table order.

use anabranch_model::{Checksum, Position, Row, TimeSeriesId};

use crate::record::{Content, MAX_PIECES, Piece};

/// Cuts a stream of events into pieces of about the same size. An event is never cut (an event is all rows of one position).
pub(crate) struct Cutter {
    series: TimeSeriesId,
    pieces: Vec<Piece>,
    piece_bytes: u64,
}

impl Cutter {
    /// Goes on with pieces that were cut before; the last one still grows.
    pub(crate) fn new(series: TimeSeriesId, pieces: Vec<Piece>, piece_bytes: u64) -> Self {
        Cutter { series, pieces, piece_bytes }
    }

    /// Takes the next row in. Rows of an event come one after another.
    pub(crate) fn push(&mut self, row: &Row) {
        let mut sum = Checksum::default();
        sum.add(&self.series, row);
        let same_event = self.last() == Some(&row.position);
        #[cfg(feature = "plant")]
        let same_event = same_event && !crate::plant::is_planted(crate::plant::Bug::CutsInsideEvent);
        match self.pieces.last_mut() {
            Some(piece) if same_event || piece.content.bytes < self.piece_bytes => {
                if piece.oldest != row.position {
                    piece.oldest = row.position.clone();
                }
                let mut content = Checksum::from(piece.content);
                content.merge(&sum);
                piece.content = Content::from(content);
            }
            _ => self.open(&row.position, sum),
        }
    }

    fn open(&mut self, position: &Position, sum: Checksum) {
        if self.pieces.len() == MAX_PIECES {
            self.halve();
        }
        let ordinal = 0; // given at the end, when their number is known
        let piece = Piece { ordinal, newest: position.clone(), oldest: position.clone(), content: Content::from(sum) };
        self.pieces.push(piece);
    }

    /// Joins neighbours, so that there are half as many, each twice as big.
    fn halve(&mut self) {
        self.piece_bytes *= 2;
        let pieces = std::mem::take(&mut self.pieces);
        let mut pieces = pieces.into_iter();
        while let Some(mut piece) = pieces.next() {
            if let Some(next) = pieces.next() {
                let mut content = Checksum::from(piece.content);
                content.merge(&next.content.into());
                piece.content = content.into();
                piece.oldest = next.oldest;
            }
            self.pieces.push(piece);
        }
    }

    /// The last event that was taken in.
    pub(crate) fn last(&self) -> Option<&Position> {
        self.pieces.last().map(|piece| &piece.oldest)
    }

    /// Bytes taken in.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.content.bytes).sum()
    }

    /// The pieces so far, and the size that they are cut at.
    pub(crate) fn into_parts(self) -> (Vec<Piece>, u64) {
        (self.pieces, self.piece_bytes)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{EventId, EventItemKey, Item, Timestamp};
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn rows(sizes: &[(u8, u16)]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, (items, size)) in sizes.iter().enumerate() {
            for item in 0..=*items % 3 {
                let item = Item {
                    key: EventItemKey::new(format!("k{item}")).unwrap(),
                    value: Bytes::from(vec![7; usize::from(*size)]),
                    metadata: None,
                };
                let time = Timestamp::from_nanos(-(at as i64));
                rows.push(Row { position: Position { time, id: EventId::new("e").unwrap() }, item });
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn pieces_hold_every_row_once_and_never_cut_an_event(
            sizes in prop::collection::vec((any::<u8>(), 0u16..2000), 0..200), target in 1u64..20_000, stop in 0usize..200,
        ) {
            let series = TimeSeriesId::new("s").unwrap();
            let rows = rows(&sizes);
            let mut cutter = Cutter::new(series.clone(), Vec::new(), target);
            for (at, row) in rows.iter().enumerate() {
                if at == stop {
                    // A checkpoint: everything goes through the record.
                    let (pieces, bytes) = cutter.into_parts();
                    cutter = Cutter::new(series.clone(), pieces, bytes);
                }
                cutter.push(row);
            }
            let total = cutter.bytes();
            let (pieces, _) = cutter.into_parts();
            prop_assert_eq!(total, rows.iter().map(|row| row.bytes() as u64).sum::<u64>());
            let mut whole = Checksum::default();
            rows.iter().for_each(|row| whole.add(&series, row));
            let mut sum = Checksum::default();
            pieces.iter().for_each(|piece| sum.merge(&piece.content.into()));
            prop_assert_eq!(sum, whole);
            for pair in pieces.windows(2) {
                prop_assert!(pair[0].oldest > pair[1].newest);
                prop_assert!(pair[0].content.bytes >= target);
            }
        }
    }

    #[test]
    fn there_are_never_too_many_pieces() {
        let series = TimeSeriesId::new("s").unwrap();
        let mut cutter = Cutter::new(series, Vec::new(), 1);
        for row in rows(&vec![(0, 10); 5000]) {
            cutter.push(&row);
        }
        let (pieces, bytes) = cutter.into_parts();
        assert!(pieces.len() <= MAX_PIECES && pieces.len() > MAX_PIECES / 4, "{}", pieces.len());
        assert!(bytes > 1);
    }
}
