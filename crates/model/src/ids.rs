//! Names that clients choose. Each is checked when it is made, so that everything further in can rely on
//! what the key encoding needs: UTF-8, not empty, no U+0000, not too long. Every row that is read has two of them, so short ones
//! lie in place and cost no allocation.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// No id may be longer than this, whatever a namespace's limits say: keys of back ends have a limit too.
pub const MAX_ID_BYTES: usize = 4096;

/// Why a text can't be an id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdError {
    /// Nothing there.
    #[error("must not be empty")]
    Empty,
    /// Too many bytes.
    #[error("is {bytes} bytes long; at most {limit} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// U+0000 inside: it ends ids in keys.
    #[error("must not contain the character U+0000 (found at byte {at})")]
    Nul {
        /// Where.
        at: usize,
    },
    /// Namespaces become names of keyspaces and directories.
    #[error(
        "must be 1 to 48 characters of a-z, 0-9 and _, beginning with a letter (a namespace names a keyspace and metrics)"
    )]
    NamespaceSyntax,
}

#[inline]
fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { bytes: text.len(), limit: MAX_ID_BYTES });
    }
    // Every row that is read passes here twice: a look at all bytes, many at a time, is sooner done than one that may end early.
    if text.bytes().fold(false, |found, byte| found | (byte == 0)) {
        return Err(IdError::Nul { at: text.find('\0').unwrap_or_default() });
    }
    Ok(())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(CompactString);

        impl $name {
            /// Checks and takes a text.
            #[inline]
            pub fn new(text: impl Into<CompactString>) -> Result<Self, IdError> {
                let text = text.into();
                check(&text)?;
                Ok($name(text))
            }

            /// The text.
            #[inline]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, without a copy if it is long.
            pub fn into_string(self) -> String {
                self.0.into_string()
            }

            /// Its length in bytes.
            #[allow(clippy::len_without_is_empty)] // what a client names is never empty
            #[inline]
            pub fn len(&self) -> usize {
                self.0.len()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                $name::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.into_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// Whose history: `profile:123`, a device, an account.
    TimeSeriesId
);
id!(
    /// Tells apart events of one series and instant.
    EventId
);
id!(
    /// Names an item within its event. Only the key of a block is empty, and no item has it.
    EventItemKey
);

impl EventItemKey {
    /// The key of a block's row: empty, so that it sorts before every item at its position. Neither
    /// [`EventItemKey::new`] nor deserializing makes one, so that no client can name it.
    pub const fn block() -> Self {
        EventItemKey(CompactString::const_new(""))
    }

    /// Whether this is the key of a block's row.
    pub fn is_block(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of a dataset: the unit of configuration, retention, access and rollout.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceName(String);

impl NamespaceName {
    /// Longest name: the limit of a keyspace's name on Cassandra.
    pub const MAX_BYTES: usize = 48;

    /// Checks and takes a name.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let fits = text.len() <= Self::MAX_BYTES && text.starts_with(|c: char| c.is_ascii_lowercase());
        if fits && text.chars().all(letters) { Ok(NamespaceName(text)) } else { Err(IdError::NamespaceSyntax) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for NamespaceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceName {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        NamespaceName::new(text)
    }
}

impl From<NamespaceName> for String {
    fn from(name: NamespaceName) -> String {
        name.0
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_keys_could_not_hold_are_refused() {
        assert_eq!(TimeSeriesId::new(""), Err(IdError::Empty));
        assert_eq!(EventId::new("a\0b"), Err(IdError::Nul { at: 1 }));
        assert!(matches!(EventItemKey::new("x".repeat(5000)), Err(IdError::TooLong { bytes: 5000, .. })));
        assert!(TimeSeriesId::new("profile:123/ä\n").is_ok());
    }

    #[test]
    fn only_a_block_has_an_empty_item_key_and_it_sorts_before_every_item() {
        assert_eq!(EventItemKey::new(""), Err(IdError::Empty));
        assert!(serde_json::from_str::<EventItemKey>("\"\"").is_err());
        let block = EventItemKey::block();
        assert!(block.is_block() && block.as_str().is_empty());
        for text in ["\u{1}", "a", "é"] {
            let item = EventItemKey::new(text).unwrap();
            assert!(!item.is_block() && block < item);
        }
    }

    #[test]
    fn namespace_names_are_plain() {
        for good in ["plays", "a", "a_1"] {
            assert!(NamespaceName::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(49);
        for bad in ["", "Plays", "1a", "_a", "a-b", "a/b", "..", "ä", long.as_str()] {
            assert_eq!(NamespaceName::new(bad), Err(IdError::NamespaceSyntax), "{bad}");
        }
    }
}
