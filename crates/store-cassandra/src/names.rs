//! Which keyspace and table of Cassandra a table of the contract is. Names are as readable as Cassandra's limit of 48
//! letters allows; the comment of a table holds the whole truth, and listing reads only that.

use anabranch_model::{NamespaceName, TableName};
use xxhash_rust::xxh3::xxh3_64;

use crate::CassandraOptions;

/// Cassandra's limit for the name of a keyspace or a table.
const MAX_LETTERS: usize = 48;
/// Begins the comment of every table that holds rows.
const COMMENT: &str = "anabranch rows of ";

/// A keyspace and a table in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) keyspace: String,
    pub(crate) table: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// Where a table lies, or an error that says what its name may be.
pub(crate) fn place(options: &CassandraOptions, table: &TableName) -> Result<Place, String> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if table.table.is_empty() || !table.table.chars().all(letters) {
        return Err(format!("`{}` can't name a table: a-z, 0-9 and _ can", table.table));
    }
    Ok(place_if(options.shared_keyspace.contains(&table.namespace), options, table))
}

/// Where a table lies for one who has chosen the other way for its namespace.
pub(crate) fn other_place(options: &CassandraOptions, table: &TableName) -> Place {
    place_if(!options.shared_keyspace.contains(&table.namespace), options, table)
}

fn place_if(shared: bool, options: &CassandraOptions, table: &TableName) -> Place {
    let prefix = &options.keyspace_prefix;
    match shared {
        true => Place { keyspace: prefix.clone(), table: fit(&format!("{}__{}", table.namespace, table.table)) },
        false => Place { keyspace: fit(&format!("{prefix}_{}", table.namespace)), table: fit(&table.table) },
    }
}

/// Whether a keyspace belongs to the store with this prefix. Another store's prefix may begin with ours: its tables
/// are told apart by their comments.
pub(crate) fn is_keyspace_of(prefix: &str, keyspace: &str) -> bool {
    keyspace.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// What the comment of a table says.
pub(crate) fn comment(prefix: &str, table: &TableName) -> String {
    format!("{COMMENT}{prefix}: {table}")
}

/// The table that a comment speaks of, if it is one of this store.
pub(crate) fn from_comment(prefix: &str, comment: &str) -> Option<TableName> {
    let (namespace, table) =
        comment.strip_prefix(COMMENT)?.strip_prefix(prefix)?.strip_prefix(": ")?.split_once('.')?;
    Some(TableName { namespace: NamespaceName::new(namespace).ok()?, table: table.to_owned() })
}

/// The name, or as much of it as fits with a hash that tells it from others that begin so.
fn fit(name: &str) -> String {
    if name.len() <= MAX_LETTERS {
        return name.to_owned();
    }
    let hash = format!("_{:016x}", xxh3_64(name.as_bytes()));
    format!("{}{hash}", &name[..MAX_LETTERS - hash.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(namespace: &str, table: &str) -> TableName {
        TableName { namespace: NamespaceName::new(namespace).unwrap(), table: table.to_owned() }
    }

    #[test]
    fn a_namespace_has_a_keyspace_of_its_own_or_shares_one() {
        let mut options = CassandraOptions::new(["a"]);
        let plays = table("plays", "data_20260328");
        assert_eq!(place(&options, &plays).unwrap().to_string(), "anabranch_plays.data_20260328");
        options.shared_keyspace.insert(plays.namespace.clone());
        assert_eq!(place(&options, &plays).unwrap().to_string(), "anabranch.plays__data_20260328");
        assert!(place(&options, &table("plays", "data;drop")).is_err());
    }

    #[test]
    fn names_that_are_too_long_stay_different_and_are_found_by_their_comment() {
        let options = CassandraOptions::new(["a"]);
        let long = "n".repeat(NamespaceName::MAX_BYTES - 1);
        let (one, other) = (table(&format!("{long}a"), "data_20260328"), table(&format!("{long}b"), "data_20260328"));
        let (place_one, place_other) = (place(&options, &one).unwrap(), place(&options, &other).unwrap());
        assert_ne!(place_one, place_other);
        assert_eq!(place_one.keyspace.len(), MAX_LETTERS);
        assert_eq!(from_comment("anabranch", &comment("anabranch", &one)), Some(one));
    }

    #[test]
    fn tables_of_others_are_not_taken_for_ours() {
        let plays = table("plays", "data_20260328");
        assert_eq!(from_comment("ana", &comment("ana_b", &plays)), None);
        assert_eq!(from_comment("ana", "made by hand"), None);
        assert!(is_keyspace_of("ana", "ana") && is_keyspace_of("ana", "ana_plays"));
        assert!(!is_keyspace_of("ana", "anabranch") && !is_keyspace_of("ana", "system"));
    }
}
