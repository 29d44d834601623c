//! Numbers of a block: LEB128 varints and big-endian ones, read by a cursor that never goes past the end.

/// Appends a number in groups of seven bits, the lowest first.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next varint; `None` when it is cut short or doesn't fit 64 bits.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        match self.0.split_first()? {
            (byte, rest) if *byte < 0x80 => {
                self.0 = rest;
                Some(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    /// Up to eight bytes at once and without a branch per byte: lengths vary, and guessing them wrong costs more.
    fn long_varint(&mut self) -> Option<u64> {
        let word = self.0.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        let last_bytes = !word & 0x8080_8080_8080_8080;
        if last_bytes == 0 {
            return self.any_varint();
        }
        let bits = last_bytes.trailing_zeros() + 1;
        let sevens = word & (u64::MAX >> (64 - bits)) & 0x7F7F_7F7F_7F7F_7F7F;
        let pairs = (sevens & 0x007F_007F_007F_007F) | (sevens & 0x7F00_7F00_7F00_7F00) >> 1;
        let fours = (pairs & 0x0000_3FFF_0000_3FFF) | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
        let value = (fours & 0x0FFF_FFFF) | (fours & 0x0FFF_FFFF_0000_0000) >> 4;
        self.0 = &self.0[bits as usize / 8..];
        Some(value)
    }

    /// Near the end of the bytes, or longer than eight.
    fn any_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            if at == 9 && *byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }

    /// The next varint, as the length of something.
    #[inline]
    pub(super) fn length(&mut self) -> Option<usize> {
        self.varint().and_then(|length| usize::try_from(length).ok())
    }

    /// Goes past so many varints and answers a cursor that stands at the first of them.
    pub(super) fn column(&mut self, count: usize) -> Option<Cursor<'a>> {
        let column = *self;
        let (ahead, rest) = self.0.split_at_checked(count)?;
        if ahead.iter().fold(0, |all, byte| all | byte) < 0x80 {
            // The usual case, in one go: every number takes a byte.
            self.0 = rest;
            return Some(column);
        }
        let mut left = count;
        let mut at = 0;
        while left > 0 {
            left -= usize::from(self.0.get(at)? & 0x80 == 0);
            at += 1;
        }
        self.0 = &self.0[at..];
        Some(column)
    }

    /// The next bytes.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next bytes, as many as a number has.
    pub(super) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive(values in prop::collection::vec(any::<u64>().prop_flat_map(|top| 0..=top), 0..20)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| put(&mut bytes, *value));
            let mut skipping = Cursor(&bytes);
            let mut cursor = skipping.column(values.len()).unwrap();
            prop_assert!(skipping.is_at_end());
            for value in values {
                prop_assert_eq!(cursor.varint(), Some(value));
            }
            prop_assert!(cursor.is_at_end() && cursor.varint().is_none() && cursor.column(1).is_none());
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert_eq!((bytes.len(), Cursor(&bytes).varint()), (10, Some(u64::MAX)));
        bytes[9] = 2;
        assert_eq!(Cursor(&bytes).varint(), None);
        assert_eq!(Cursor(&[0x80; 11]).varint(), None);
    }
}
