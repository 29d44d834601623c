//! Files of other systems as events: columns and fields, and how times are written there.

pub(crate) mod csv;
pub(crate) mod input;
pub(crate) mod jsonl;
pub(crate) mod mapping;
mod quotes;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod time_format;
