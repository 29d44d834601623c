//! The beginning of an lz4 block: a reader that wants the first rows needn't decode all of them.

use super::varint::Cursor;

/// A match is at least this long.
const SHORTEST_MATCH: usize = 4;

/// Decodes the first `wanted` bytes, or nothing when the input isn't lz4 or has fewer.
pub(super) fn decode_prefix(stored: &[u8], wanted: usize) -> Option<Vec<u8>> {
    let mut input = Cursor(stored);
    let mut out = Vec::with_capacity(wanted);
    while out.len() < wanted {
        let [token] = input.chunk()?;
        let literals = length(usize::from(token >> 4), &mut input)?;
        let bytes = input.take(literals)?;
        out.extend_from_slice(&bytes[..literals.min(wanted - out.len())]);
        if out.len() == wanted {
            break;
        }
        let distance = usize::from(u16::from_le_bytes(input.chunk()?));
        let repeated = length(usize::from(token & 15), &mut input)?.checked_add(SHORTEST_MATCH)?;
        let room = wanted - out.len();
        repeat(&mut out, distance, repeated.min(room))?;
    }
    Some(out)
}

/// A length of 15 goes on in the following bytes, up to one that isn't 255.
fn length(nibble: usize, input: &mut Cursor<'_>) -> Option<usize> {
    let mut length = nibble;
    let mut goes_on = nibble == 15;
    while goes_on {
        let [more] = input.chunk()?;
        length = length.checked_add(usize::from(more))?;
        goes_on = more == 255;
    }
    Some(length)
}

/// Copies what begins `distance` bytes before the end; it may reach into what it copies itself.
fn repeat(out: &mut Vec<u8>, distance: usize, mut length: usize) -> Option<()> {
    let start = out.len().checked_sub(distance).filter(|_| distance > 0)?;
    while length > 0 {
        let step = length.min(out.len() - start);
        out.extend_from_within(start..start + step);
        length -= step;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_prefix_is_what_the_whole_begins_with(
            words in prop::collection::vec("[a-c]{1,40}", 0..60), cut in 0.0..=1.0,
        ) {
            let raw = words.concat().into_bytes();
            let stored = lz4_flex::block::compress(&raw);
            let wanted = (raw.len() as f64 * cut) as usize;
            prop_assert_eq!(decode_prefix(&stored, wanted), Some(raw[..wanted].to_vec()));
            prop_assert_eq!(decode_prefix(&stored, raw.len() + 1), None);
        }

        #[test]
        fn any_input_is_survived(bytes: Vec<u8>, wanted in 0usize..5000) {
            if let Some(prefix) = decode_prefix(&bytes, wanted) {
                prop_assert_eq!(prefix.len(), wanted);
            }
        }
    }
}
