//! Making and dropping tables, and how they are laid out. Within this process one schema change runs at a time; what several
//! servers make at once is the same to the last bit, its id included (`ids`).

use anabranch_model::TableName;
use anabranch_store::StoreError;
use scylla::{
    client::session::Session,
    statement::{Consistency, unprepared::Statement},
};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    CassandraOptions, ConnectError,
    error::{Fate, corrupt, fate, read_error, refused, unavailable, unknown},
    names::{self, Place},
};

/// Rows as one page of `system_schema` brings them.
const PAGE: i32 = 1000;

/// The columns of a table of rows. Value and metadata are one cell, for Cassandra settles two writes of one row cell by
/// cell: in cells of their own, one write's value could stay with the other's metadata (W2).
const COLUMNS: &str = "
    time_series_id text,
    time_bucket bigint,
    event_bucket bigint,
    event_time bigint,
    event_id text,
    event_item_key text,
    event_item frozen<tuple<blob, blob>>,
    PRIMARY KEY ((time_series_id, time_bucket, event_bucket), event_time, event_id, event_item_key)";

/// - Compaction: rows are added, hardly ever replaced and never deleted one by one, so compaction has nothing to clear
///   away: it only keeps the number of files per read small. Tiered (`T4`) does that with the fewest rewrites; levels
///   would pay for replaced rows that there aren't, and windows of time for expiry that dropping the table does at once.
/// - Compression: LZ4, since every row costs the server CPU before it costs disk. Blocks are compressed already: a chunk
///   that doesn't shrink by a tenth is stored as it is, and read without a second pass. [`chunk_kib`] says how long they are.
/// - Read repair off: repairing the rows that one read happened to touch would put a part of an unacknowledged batch on
///   a replica. Without it a replica has all of a batch or nothing; acknowledged rows are on a quorum anyway.
/// - Speculative retry, the server's own hedge: the default waits for half of the read time-out while a table is too young
///   to have a percentile, and every slice is a young table. One that stands still is passed over after 50 ms instead.
/// - `gc_grace_seconds` stays as it is, though nothing is deleted: it also limits how long hints are kept.
const SETTINGS: &str = "CLUSTERING ORDER BY (event_time DESC, event_id DESC, event_item_key ASC)
    AND compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}
    AND read_repair = 'NONE'
    AND speculative_retry = 'MIN(99PERCENTILE,50ms)'";

/// How much is compressed, checked and kept in the node's memory as one. Blocks are read whole, and most often many in a row.
fn chunk_kib(table: &TableName) -> u32 {
    if table.pieces_of().is_some() { 64 } else { 16 }
}

/// Metadata. Its id is the same whoever makes it, so that two servers that start at once make one table.
const DOCUMENTS: &str = "
    scope text,
    name text,
    version bigint,
    nonce bigint,
    value blob,
    PRIMARY KEY (scope, name)";

/// As for rows. Read repair stays on: it is a part of how transactions are read.
const DOCUMENTS_SETTINGS: &str = "speculative_retry = 'MIN(99PERCENTILE,50ms)'";

/// The name of the table of documents, in the keyspace that is called as the prefix.
pub(crate) const DOCUMENTS_TABLE: &str = "documents";

/// How to see that a change was made.
#[derive(Clone, Copy)]
enum Goal<'a> {
    There(&'a Place),
    Gone(&'a Place),
    /// Nobody looks: the same change again is fine.
    Unseen,
}

/// A change that wasn't made, or isn't known to be.
struct ChangeFailure {
    fate: Fate,
    reason: String,
}

impl From<ChangeFailure> for StoreError {
    fn from(failure: ChangeFailure) -> Self {
        match failure.fate {
            Fate::NotDone => unavailable(failure.reason),
            // The node that was asked hasn't heard of the keyspace yet, which another one has just made.
            Fate::NotUnderstood if failure.reason.contains("exist") => unavailable(failure.reason),
            Fate::NotUnderstood | Fate::Refused => refused(failure.reason),
            Fate::Unknown => unknown(failure.reason),
        }
    }
}

/// Changes and looks at the schema.
pub(crate) struct Schema<'a> {
    pub(crate) session: &'a Session,
    pub(crate) options: &'a CassandraOptions,
}

impl Schema<'_> {
    /// Makes the keyspace and the table of documents, unless they are there.
    pub(crate) async fn prepare_documents(&self) -> Result<(), ConnectError> {
        let keyspace = &self.options.keyspace_prefix;
        let place = Place { keyspace: keyspace.clone(), table: DOCUMENTS_TABLE.to_owned() };
        if self.exists(&place).await? {
            return Ok(());
        }
        self.create_keyspace(keyspace).await.map_err(|failure| self.not_prepared(failure))?;
        let id = as_uuid(xxh3_128(place.to_string().as_bytes()));
        let cql = format!("CREATE TABLE IF NOT EXISTS {place} ({DOCUMENTS}) WITH id = {id} AND {DOCUMENTS_SETTINGS}");
        self.change(&cql, Goal::There(&place)).await.map_err(|failure| self.not_prepared(failure))
    }

    /// Rights that are missing don't come by waiting.
    fn not_prepared(&self, failure: ChangeFailure) -> ConnectError {
        if failure.fate != Fate::Refused {
            return ConnectError::Schema(failure.into());
        }
        let nodes = self.options.contact_points.join(", ");
        let advice = "the role that cassandra.user names may not make keyspaces: GRANT CREATE ON ALL KEYSPACES to it";
        ConnectError::Refused { nodes, reason: failure.reason, advice: advice.to_owned() }
    }

    /// Whether a table of rows is there. Refuses one that another store made (L1).
    pub(crate) async fn is_there(&self, table: &TableName, place: &Place) -> Result<bool, StoreError> {
        let Some(comment) = self.comment(place).await? else { return Ok(false) };
        if names::from_comment(&self.options.keyspace_prefix, &comment).as_ref() != Some(table) {
            return Err(refused(format!(
                "{place} is not the table {table} of this store (its comment is `{comment}`): take another prefix in store.url"
            )));
        }
        Ok(true)
    }

    /// Refuses to make a table that lies elsewhere already: a server with another `shared_keyspace` has made it, and neither would
    /// see what the other writes.
    pub(crate) async fn check_elsewhere(&self, table: &TableName) -> Result<(), StoreError> {
        let elsewhere = names::other_place(self.options, table);
        let comment = self.comment(&elsewhere).await?.unwrap_or_default();
        match names::from_comment(&self.options.keyspace_prefix, &comment) {
            Some(there) if there == *table => Err(refused(format!(
                "another server has made the table {table} as {elsewhere}: shared_keyspace must be the same for all servers"
            ))),
            _ => Ok(()),
        }
    }

    /// Makes a table of rows, unless it is there. `id` is what all agree on who make it now.
    pub(crate) async fn create_table(&self, table: &TableName, place: &Place, id: u128) -> Result<(), StoreError> {
        self.create_keyspace(&place.keyspace).await?;
        let comment = names::comment(&self.options.keyspace_prefix, table);
        let id = as_uuid(id);
        let chunk = chunk_kib(table);
        let compression =
            format!("{{'class': 'LZ4Compressor', 'chunk_length_in_kb': {chunk}, 'min_compress_ratio': 1.1}}");
        let settings = format!("id = {id} AND {SETTINGS} AND compression = {compression} AND comment = '{comment}'");
        let cql = format!("CREATE TABLE IF NOT EXISTS {place} ({COLUMNS}) WITH {settings}");
        Ok(self.change(&cql, Goal::There(place)).await?)
    }

    /// Drops a table.
    pub(crate) async fn drop_table(&self, place: &Place) -> Result<(), StoreError> {
        Ok(self.change(&format!("DROP TABLE IF EXISTS {place}"), Goal::Gone(place)).await?)
    }

    /// All tables of rows of this store, in order.
    pub(crate) async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        let mut tables: Vec<TableName> = self.places().await?.into_iter().map(|(table, _)| table).collect();
        tables.sort();
        Ok(tables)
    }

    /// Refuses options by which a table would lie elsewhere than it does: its rows would seem to be gone.
    pub(crate) async fn check_places(&self) -> Result<(), ConnectError> {
        for (table, place) in self.places().await? {
            if names::place(self.options, &table).is_ok_and(|wanted| wanted != place) {
                let reason = format!(
                    "the table {table} lies in {place}: leave shared_keyspace as it was when its namespace was created"
                );
                return Err(ConnectError::Options { reason });
            }
        }
        Ok(())
    }

    /// All tables of rows of this store, and where they lie.
    async fn places(&self) -> Result<Vec<(TableName, Place)>, StoreError> {
        let prefix = &self.options.keyspace_prefix;
        let statement = self.look("SELECT keyspace_name, table_name, comment FROM system_schema.tables");
        let found = self.session.query_unpaged(statement, ()).await.map_err(|error| read_error(&error))?;
        let rows = found.into_rows_result().map_err(|error| corrupt("the list of tables", error))?;
        let rows = rows.rows::<(&str, &str, Option<&str>)>().map_err(|error| corrupt("the list of tables", error))?;
        let mut places = Vec::new();
        for row in rows {
            let (keyspace, name, comment) = row.map_err(|error| corrupt("the list of tables", error))?;
            if names::is_keyspace_of(prefix, keyspace)
                && let Some(table) = names::from_comment(prefix, comment.unwrap_or_default())
            {
                places.push((table, Place { keyspace: keyspace.to_owned(), table: name.to_owned() }));
            }
        }
        Ok(places)
    }

    /// Whether a table is there, as the node that answers knows it.
    pub(crate) async fn exists(&self, place: &Place) -> Result<bool, StoreError> {
        Ok(self.comment(place).await?.is_some())
    }

    /// The comment of a table, if it is there.
    async fn comment(&self, place: &Place) -> Result<Option<String>, StoreError> {
        let cql = "SELECT comment FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let found = self.session.query_unpaged(self.look(cql), (&place.keyspace, &place.table)).await;
        let found = found.map_err(|error| read_error(&error))?;
        let rows = found.into_rows_result().map_err(|error| corrupt("the list of tables", error))?;
        let row = rows.maybe_first_row::<(Option<String>,)>().map_err(|error| corrupt("the list of tables", error))?;
        Ok(row.map(|(comment,)| comment.unwrap_or_default()))
    }

    async fn create_keyspace(&self, keyspace: &str) -> Result<(), ChangeFailure> {
        let replication = self.options.replication.to_cql();
        let cql = format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}");
        self.change(&cql, Goal::Unseen).await
    }

    /// Sends a change and waits until all nodes agree on it. After an unknown outcome, the goal tells.
    async fn change(&self, cql: &str, goal: Goal<'_>) -> Result<(), ChangeFailure> {
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(self.options.schema_timeout));
        let Err(error) = self.session.query_unpaged(statement, ()).await else { return Ok(()) };
        match fate(&error) {
            Fate::Unknown if self.is_reached(goal).await => Ok(()),
            fate => Err(ChangeFailure { fate, reason: error.to_string() }),
        }
    }

    async fn is_reached(&self, goal: Goal<'_>) -> bool {
        let (place, wanted) = match goal {
            Goal::There(place) => (place, true),
            Goal::Gone(place) => (place, false),
            Goal::Unseen => return false,
        };
        self.session.await_schema_agreement().await.is_ok() && self.exists(place).await == Ok(wanted)
    }

    fn look(&self, cql: &str) -> Statement {
        let mut statement = Statement::new(cql).with_page_size(PAGE);
        statement.set_is_idempotent(true);
        // `system_schema` is local to each node.
        statement.set_consistency(Consistency::One);
        statement.set_request_timeout(Some(self.options.metadata_timeout));
        statement
    }
}

fn as_uuid(number: u128) -> String {
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use anabranch_store::ErrorKind;

    use super::*;

    #[test]
    fn a_node_that_is_behind_with_the_schema_is_waited_for() {
        let refused = |reason: &str| {
            StoreError::from(ChangeFailure { fate: Fate::NotUnderstood, reason: reason.to_owned() }).kind()
        };
        assert_eq!(refused("Error message: Keyspace 'anabranch' doesn't exist"), ErrorKind::Retry);
        assert_eq!(refused("Error message: Unrecognized strategy option {esat}"), ErrorKind::Refused);
    }

    #[test]
    fn an_id_has_the_form_of_a_uuid() {
        assert_eq!(as_uuid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef), "01234567-89ab-cdef-0123-456789abcdef");
    }
}
