//! Spreads a segment by hash: pure, fed with events in table order.
//!
//! While it is read nobody knows how big it is, so it is counted in as many buckets as there may be pieces; those are then joined
//! into the number that is wanted. Both are powers of two, so a bucket falls into one piece as a whole.

use anabranch_model::{Checksum, Position, Row, TimeSeriesId, event_hash};

use crate::record::{Content, MAX_PIECES, Piece, Strategy};

/// Which of `pieces` an event belongs to; every original of the time bucket has its own.
pub(crate) fn piece_of(position: &Position, event_buckets: u32, pieces: u32) -> u32 {
    ((event_hash(position) / u64::from(event_buckets.max(1))) % u64::from(pieces.max(1))) as u32
}

/// Counts events in buckets.
pub(crate) struct Spreader {
    series: TimeSeriesId,
    event_buckets: u32,
    /// In the order of their numbers, which stand where ordinals will.
    buckets: Vec<Piece>,
}

impl Spreader {
    /// Goes on with buckets that were counted before.
    pub(crate) fn new(series: TimeSeriesId, event_buckets: u32, buckets: Vec<Piece>) -> Self {
        Spreader { series, event_buckets, buckets }
    }

    /// Takes the next row in.
    pub(crate) fn push(&mut self, row: &Row) {
        let number = piece_of(&row.position, self.event_buckets, MAX_PIECES as u32);
        let mut sum = Checksum::default();
        sum.add(&self.series, row);
        let piece = Piece {
            ordinal: number,
            newest: row.position.clone(),
            oldest: row.position.clone(),
            content: Content::from(sum),
        };
        match self.buckets.binary_search_by_key(&number, |bucket| bucket.ordinal) {
            Ok(at) => join(&mut self.buckets[at], piece),
            Err(at) => self.buckets.insert(at, piece),
        }
    }

    /// The last event that was taken in.
    pub(crate) fn last(&self) -> Option<&Position> {
        self.buckets.iter().map(|bucket| &bucket.oldest).min()
    }

    /// Bytes taken in.
    pub(crate) fn bytes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.content.bytes).sum()
    }

    /// The buckets so far.
    pub(crate) fn into_buckets(self) -> Vec<Piece> {
        self.buckets
    }

    /// Joins buckets into pieces of about this size, numbered from `first_ordinal` on; none is empty.
    pub(crate) fn into_pieces(self, piece_bytes: u64, first_ordinal: u32) -> (Strategy, Vec<Piece>) {
        let wanted = self.bytes().div_ceil(piece_bytes.max(1)).clamp(2, MAX_PIECES as u64);
        let count = wanted.next_power_of_two() as u32;
        let mut pieces: Vec<Piece> = Vec::new();
        for mut bucket in self.buckets {
            bucket.ordinal = first_ordinal + bucket.ordinal % count;
            match pieces.binary_search_by_key(&bucket.ordinal, |piece| piece.ordinal) {
                Ok(at) => join(&mut pieces[at], bucket),
                Err(at) => pieces.insert(at, bucket),
            }
        }
        let event_buckets = self.event_buckets;
        (Strategy::EventBucket { pieces: count, first_ordinal, event_buckets }, pieces)
    }
}

fn join(piece: &mut Piece, other: Piece) {
    let mut content = Checksum::from(piece.content);
    content.merge(&other.content.into());
    piece.content = content.into();
    if other.newest > piece.newest {
        piece.newest = other.newest;
    }
    if other.oldest < piece.oldest {
        piece.oldest = other.oldest;
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{EventId, EventItemKey, Item, Timestamp};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn every_event_falls_into_the_piece_that_counts_it() {
        let series = TimeSeriesId::new("s").unwrap();
        let rows: Vec<Row> = (0..3000i64)
            .map(|at| Row {
                position: Position { time: Timestamp::from_nanos(-at), id: EventId::new(format!("e{at}")).unwrap() },
                item: Item { key: EventItemKey::new("k").unwrap(), value: Bytes::from(vec![1; 100]), metadata: None },
            })
            .collect();
        let mut spreader = Spreader::new(series.clone(), 3, Vec::new());
        for (at, row) in rows.iter().enumerate() {
            if at == 1000 {
                assert_eq!(spreader.last(), Some(&rows[999].position));
                spreader = Spreader::new(series.clone(), 3, spreader.into_buckets()); // a checkpoint
            }
            spreader.push(row);
        }
        let (strategy, pieces) = spreader.into_pieces(50_000, 7);
        let Strategy::EventBucket { pieces: count, first_ordinal, event_buckets } = strategy else { panic!() };
        assert_eq!((count, first_ordinal, event_buckets), (8, 7, 3));
        for piece in &pieces {
            let mut sum = Checksum::default();
            let of_piece = rows.iter().filter(|row| 7 + piece_of(&row.position, 3, 8) == piece.ordinal);
            of_piece.for_each(|row| sum.add(&series, row));
            assert_eq!(piece.content, Content::from(sum));
        }
        assert_eq!(pieces.iter().map(|piece| piece.content.rows).sum::<u64>(), 3000);
    }
}
