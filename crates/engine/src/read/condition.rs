//! Which records a read keeps: items that are there, or have a certain value, joined by "and" and "or".

use anabranch_model::{EventItemKey, Record};
use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::Filter;

/// How deep conditions may be nested, and how many items they may name.
pub const MAX_DEPTH: usize = 16;
/// See [`MAX_DEPTH`].
pub const MAX_LEAVES: usize = 256;

/// A question to records, as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// An item is there, and has this value where one is given.
    Item(Filter),
    /// All of them hold; true when there are none.
    All(Vec<Query>),
    /// One of them holds; false when there are none.
    Any(Vec<Query>),
}

/// A checked question.
#[derive(Clone)]
pub(crate) enum Condition {
    Item(ItemFilter),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// A checked filter.
#[derive(Clone)]
pub(crate) struct ItemFilter {
    pub(crate) key: EventItemKey,
    pub(crate) value: Option<Bytes>,
}

impl ItemFilter {
    fn matches(&self, record: &Record) -> bool {
        let found = record.items.binary_search_by(|item| item.key.cmp(&self.key));
        found.is_ok_and(|at| self.accepts(&record.items[at].value))
    }

    pub(crate) fn accepts(&self, value: &Bytes) -> bool {
        self.value.as_ref().is_none_or(|wanted| wanted == value)
    }
}

impl Condition {
    /// Checks filters, of which all must match, and a query beside them. `refuse` is told of everything that is wrong.
    pub(crate) fn check(
        filters: &[Filter],
        query: Option<&Query>,
        mut refuse: impl FnMut(String, String),
    ) -> Condition {
        let mut all = Vec::with_capacity(filters.len() + 1);
        for (at, filter) in filters.iter().enumerate() {
            all.extend(leaf(filter, &format!("event_filters[{at}].match_event_item_key"), &mut refuse));
        }
        if let Some(query) = query {
            let mut leaves = 0;
            all.extend(tree(query, "search_query", 1, &mut leaves, &mut refuse));
        }
        Condition::All(all)
    }

    /// Whether every record fulfils it.
    pub(crate) fn is_trivial(&self) -> bool {
        matches!(self, Condition::All(all) if all.is_empty())
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        self.holds(&mut |filter| filter.matches(record))
    }

    /// Whether it holds, where `item` answers for each item. Asks no more than it needs to, from left to right.
    pub(crate) fn holds(&self, item: &mut impl FnMut(&ItemFilter) -> bool) -> bool {
        match self {
            Condition::Item(filter) => item(filter),
            Condition::All(all) => all.iter().all(|condition| condition.holds(item)),
            Condition::Any(any) => any.iter().any(|condition| condition.holds(item)),
        }
    }

    /// Every item that it asks for, from left to right.
    pub(crate) fn leaves<'a>(&'a self, found: &mut Vec<&'a ItemFilter>) {
        match self {
            Condition::Item(filter) => found.push(filter),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().for_each(|part| part.leaves(found)),
        }
    }
}

fn leaf(filter: &Filter, field: &str, refuse: &mut impl FnMut(String, String)) -> Option<Condition> {
    match EventItemKey::new(filter.key.clone()) {
        Ok(key) => Some(Condition::Item(ItemFilter { key, value: filter.value.clone() })),
        Err(error) => {
            refuse(field.to_owned(), error.to_string());
            None
        }
    }
}

fn tree(
    query: &Query,
    field: &str,
    depth: usize,
    leaves: &mut usize,
    refuse: &mut impl FnMut(String, String),
) -> Option<Condition> {
    if depth > MAX_DEPTH {
        refuse(field.to_owned(), format!("is nested deeper than {MAX_DEPTH}"));
        return None;
    }
    let (parts, word) = match query {
        Query::Item(filter) => {
            *leaves += 1;
            if *leaves == MAX_LEAVES + 1 {
                refuse("search_query".to_owned(), format!("names more than {MAX_LEAVES} items"));
            }
            return leaf(filter, &format!("{field}.equals.event_item_key"), refuse);
        }
        Query::All(parts) => (parts, "and"),
        Query::Any(parts) => (parts, "or"),
    };
    if parts.is_empty() {
        refuse(format!("{field}.{word}.queries"), "needs at least one query".to_owned());
    }
    let parts = parts.iter().enumerate().take(MAX_LEAVES);
    let checked = parts
        .filter_map(|(at, part)| tree(part, &format!("{field}.{word}.queries[{at}]"), depth + 1, leaves, refuse))
        .collect();
    Some(if word == "and" { Condition::All(checked) } else { Condition::Any(checked) })
}

/// Mixes a question into the fingerprint of a request.
pub(crate) fn fingerprint(query: &Query, hasher: &mut Xxh3Default) {
    let (kind, parts): (u8, &[Query]) = match query {
        Query::Item(_) => (1, &[]),
        Query::All(parts) => (2, parts),
        Query::Any(parts) => (3, parts),
    };
    hasher.update(&[kind]);
    hasher.update(&(parts.len() as u64).to_be_bytes());
    if let Query::Item(filter) = query {
        for bytes in [Some(filter.key.as_bytes()), filter.value.as_deref()] {
            hasher.update(&[u8::from(bytes.is_some())]);
            let bytes = bytes.unwrap_or_default();
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
    }
    parts.iter().for_each(|part| fingerprint(part, hasher));
}
