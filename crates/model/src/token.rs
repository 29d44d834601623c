//! The page token: everything that the next page needs, sealed, so that servers keep no state between pages and any
//! of them can go on.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

use crate::{EventId, EventItemKey, Position, Record, Timestamp};

const VERSION: u8 = 1;
const TAG_BYTES: usize = 16;

/// The key that seals tokens. It lies in the store; all servers share it.
#[derive(Clone)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// Takes 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        TokenKey(bytes)
    }

    fn tag(&self, payload: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(payload);
        mac
    }
}

/// Where a scan stands between two pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// Of everything in the request that must not change between pages.
    pub fingerprint: u64,
    /// How far the scan has come.
    pub progress: Progress,
    /// Records served so far, over all pages.
    pub records_served: u64,
    /// The oldest time that the scan covered when it began; retention may have moved since.
    pub floor: Timestamp,
    /// Bytes that this scan has read of the partition it stands in.
    pub partition_bytes: u64,
}

/// How far a scan has come: everything up to here was *examined*, whether served or filtered out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Latest first: everything at or after this time. Oldest first: everything before it.
    Time(Timestamp),
    /// Up to and including this event.
    Event(Position),
    /// Up to and including this item of this event: the rest of its record comes first.
    Item(Position, EventItemKey),
}

impl Progress {
    /// Up to and including this record.
    pub fn after(record: &Record) -> Progress {
        match record.items.last() {
            Some(item) if record.continued => Progress::Item(record.position.clone(), item.key.clone()),
            _ => Progress::Event(record.position.clone()),
        }
    }
}

/// Why a token can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Not one of ours: damaged, altered, or made by another store.
    #[error("the page token is damaged or was not made by this store; begin again without one")]
    Forged,
    /// Made by another version of the format.
    #[error("the page token was made by another version of Anabranch; begin again without one")]
    Version,
    /// A genuine token, of another request.
    #[error(
        "the page token belongs to another request: namespace, series, interval, order, filters and total limit must stay \
         the same from page to page"
    )]
    OtherRequest,
}

impl PageToken {
    /// The text that clients carry from page to page.
    pub fn seal(&self, key: &TokenKey) -> String {
        let (time, id, within) = match &self.progress {
            Progress::Time(time) => (*time, "", ""),
            Progress::Event(position) => (position.time, position.id.as_str(), ""),
            Progress::Item(position, key) => (position.time, position.id.as_str(), key.as_str()),
        };
        let mut bytes = Vec::with_capacity(1 + 5 * 8 + 4 + id.len() + within.len() + TAG_BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.fingerprint.to_be_bytes());
        bytes.extend_from_slice(&self.records_served.to_be_bytes());
        bytes.extend_from_slice(&self.floor.nanos().to_be_bytes());
        bytes.extend_from_slice(&self.partition_bytes.to_be_bytes());
        bytes.extend_from_slice(&time.nanos().to_be_bytes());
        for part in [id, within] {
            // Ids are at most 4096 bytes long; an absent one is written as an empty one, which none is.
            bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        let tag = key.tag(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag[..TAG_BYTES]);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token back, if it was sealed with this key for the request with this fingerprint.
    pub fn open(text: &str, key: &TokenKey, fingerprint: u64) -> Result<Self, TokenError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Forged)?;
        let split = bytes.len().checked_sub(TAG_BYTES).ok_or(TokenError::Forged)?;
        let (payload, tag) = bytes.split_at(split);
        key.tag(payload).verify_truncated_left(tag).map_err(|_| TokenError::Forged)?;
        if payload.first() != Some(&VERSION) {
            return Err(TokenError::Version);
        }
        let token = parse(&payload[1..]).ok_or(TokenError::Forged)?;
        if token.fingerprint == fingerprint { Ok(token) } else { Err(TokenError::OtherRequest) }
    }
}

fn parse(bytes: &[u8]) -> Option<PageToken> {
    let mut rest = bytes;
    let mut number = || {
        let (head, tail) = rest.split_first_chunk::<8>()?;
        rest = tail;
        Some(u64::from_be_bytes(*head))
    };
    let fingerprint = number()?;
    let records_served = number()?;
    let floor = Timestamp::from_nanos(number()? as i64);
    let partition_bytes = number()?;
    let time = Timestamp::from_nanos(number()? as i64);
    let mut text = || {
        let (head, tail) = rest.split_first_chunk::<2>()?;
        let (text, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*head)))?;
        rest = tail;
        String::from_utf8(text.to_vec()).ok()
    };
    let progress = match (text()?, text()?) {
        (id, key) if id.is_empty() && key.is_empty() => Progress::Time(time),
        (id, key) if key.is_empty() => Progress::Event(Position { time, id: EventId::new(id).ok()? }),
        (id, key) => Progress::Item(Position { time, id: EventId::new(id).ok()? }, EventItemKey::new(key).ok()?),
    };
    rest.is_empty().then_some(PageToken { fingerprint, progress, records_served, floor, partition_bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> TokenKey {
        TokenKey::new([7; 32])
    }

    fn any_token() -> impl Strategy<Value = PageToken> {
        let numbers = (any::<u64>(), any::<i64>(), any::<u64>(), any::<i64>(), any::<u64>());
        (numbers, 0..3, "[^\0]{1,20}", "[^\0]{1,20}").prop_map(|(numbers, kind, id, key)| {
            let time = Timestamp::from_nanos(numbers.1);
            let position = Position { time, id: EventId::new(id).unwrap() };
            PageToken {
                fingerprint: numbers.0,
                progress: match kind {
                    0 => Progress::Time(time),
                    1 => Progress::Event(position),
                    _ => Progress::Item(position, EventItemKey::new(key).unwrap()),
                },
                records_served: numbers.2,
                floor: Timestamp::from_nanos(numbers.3),
                partition_bytes: numbers.4,
            }
        })
    }

    proptest! {
        #[test]
        fn tokens_survive_sealing(token in any_token()) {
            prop_assert_eq!(PageToken::open(&token.seal(&key()), &key(), token.fingerprint), Ok(token));
        }

        #[test]
        fn an_altered_token_is_refused(token in any_token(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token.seal(&key())).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let altered = BASE64_URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(PageToken::open(&altered, &key(), token.fingerprint), Err(TokenError::Forged));
        }

        #[test]
        fn any_text_is_refused_without_a_panic(text in ".*") {
            prop_assert!(PageToken::open(&text, &key(), 0).is_err());
        }
    }

    #[test]
    fn tokens_of_other_stores_and_requests_are_refused() {
        let token = PageToken {
            fingerprint: 1,
            progress: Progress::Event(Position {
                time: Timestamp::from_nanos(1_774_692_000_123_456_789),
                id: EventId::new("e-1").unwrap(),
            }),
            records_served: 1000,
            floor: Timestamp::EARLIEST,
            partition_bytes: 301_224,
        };
        let sealed = token.seal(&key());
        assert_eq!(PageToken::open(&sealed, &TokenKey::new([8; 32]), 1), Err(TokenError::Forged));
        assert_eq!(PageToken::open(&sealed, &key(), 2), Err(TokenError::OtherRequest));
        assert_eq!(sealed, "AQAAAAAAAAABAAAAAAAAA-iAH06ANnoAAAAAAAAABJioGKD4-K0WDRUAA2UtMQAAkXMGyVuTRWDRS19FKwQ7LA");
    }
}
