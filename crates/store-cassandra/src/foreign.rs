//! Tables that someone else made: looked at by token range and by partition, page by page, and never written to. What
//! is to be learned from them is for `anabranch_advise` to say.
//!
//! | module | what it holds |
//! |---|---|
//! | [`schema`] | columns of a table, and which of them says when a row happened |
//! | [`rows`] | rows as the bytes that the store keeps: no type of column can surprise us |
//! | [`literal`] | a key as CQL has it, to be pasted behind `WHERE` |

pub mod literal;
pub mod rows;
pub mod schema;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anabranch_runtime::Env;
use anabranch_store::hedge::Hedge;
use scylla::{
    client::{execution_profile::ExecutionProfileHandle, session::Session},
    response::PagingState,
    serialize::row::SerializeRow,
    statement::{Statement, prepared::PreparedStatement},
};
use thiserror::Error;

use crate::{CassandraOptions, ConnectError, Level, session};
use rows::{ForeignKey, ForeignPage, ForeignRow, KeyValues, pages_of};
use schema::{Column, ForeignSchema, TimeColumn};

/// Rows that are looked at to learn what the numbers of a column mean.
const LOOK_ROWS: i32 = 100;

/// Why a table can't be looked at.
#[derive(Debug, Error)]
pub enum ForeignError {
    /// The cluster can't be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no such keyspace.
    #[error("there is no keyspace `{keyspace}`; there are {}", listed(there))]
    NoKeyspace {
        /// The one that was asked for.
        keyspace: String,
        /// Those that are there.
        there: Vec<String>,
    },
    /// There is no such table.
    #[error("the keyspace `{keyspace}` has no table `{table}`; it has {}", listed(there))]
    NoTable {
        /// In which keyspace.
        keyspace: String,
        /// The one that was asked for.
        table: String,
        /// Those that are there.
        there: Vec<String>,
    },
    /// No column says when rows happened.
    #[error(
        "`{keyspace}.{table}` has no clustering column that is a time: {}; a history needs a timestamp, timeuuid or \
         date, or a bigint of seconds, milliseconds, microseconds or nanoseconds since 1970",
        if columns.is_empty() { "it has no clustering columns at all".to_owned() } else { format!("it has {}", columns.join(", ")) }
    )]
    NoTime {
        /// In which keyspace.
        keyspace: String,
        /// Which table.
        table: String,
        /// Its clustering columns with their types.
        columns: Vec<String>,
    },
    /// The column that was named is none of those that order rows.
    #[error("`{keyspace}.{table}` has no clustering column `{column}`; it has {}", listed(columns))]
    NoColumn {
        /// In which keyspace.
        keyspace: String,
        /// Which table.
        table: String,
        /// The one that was named.
        column: String,
        /// Its clustering columns with their types.
        columns: Vec<String>,
    },
    /// The cluster doesn't answer, or refuses.
    #[error("cannot read {what}: {reason}")]
    Unreadable {
        /// Which part of the cluster.
        what: String,
        /// What it said.
        reason: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Where a read of pages goes on.
#[derive(Clone, Debug)]
pub struct Cursor(PagingState);

/// Which end of a partition is read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// As the table has its rows: each is read with the least effort.
    Start,
    /// Whatever happened last.
    Newest,
    /// Whatever the table has last.
    End,
}

/// A table to look at. Every statement is a `SELECT`, at LOCAL_ONE: it asks as little of the cluster as it can.
pub struct ForeignTable {
    env: Env,
    session: Session,
    timeout: Duration,
    schema: ForeignSchema,
    heads: PreparedStatement,
    from_start: PreparedStatement,
    from_newest: PreparedStatement,
    from_end: PreparedStatement,
}

impl ForeignTable {
    /// Connects, and learns what the table is like. `time_column` names the clustering column to go by; without it the
    /// first that is a time is taken.
    pub async fn open(
        options: &CassandraOptions,
        env: Env,
        keyspace: &str,
        table: &str,
        time_column: Option<&str>,
        head_rows: usize,
    ) -> Result<Self, ForeignError> {
        let options = CassandraOptions { read_consistency: Level::LocalOne, ..options.clone() };
        let hedge = Arc::new(Hedge::new(0, options.hedge_after));
        let (session, profiles) = session::connect(&options, &hedge, &env).await?;
        let looker =
            Looker { session: &session, profile: &profiles.reads, env: &env, timeout: options.metadata_timeout };
        let mut schema = looker.schema(keyspace, table).await?;
        schema.time = Some(looker.time_column(&schema, time_column).await?);
        let heads = looker.prepare(&schema.heads_cql(head_rows)).await?;
        let from_start = looker.prepare(&schema.partition_cql(Begin::Start)).await?;
        let from_newest = looker.prepare(&schema.partition_cql(Begin::Newest)).await?;
        let from_end = looker.prepare(&schema.partition_cql(Begin::End)).await?;
        let timeout = options.metadata_timeout;
        Ok(ForeignTable { env, session, timeout, schema, heads, from_start, from_newest, from_end })
    }

    /// What it is like.
    pub fn schema(&self) -> &ForeignSchema {
        &self.schema
    }

    /// The first rows of each partition between two tokens, both included, in the order of tokens.
    pub async fn heads(
        &self,
        from: i64,
        to: i64,
        rows: usize,
        cursor: Option<Cursor>,
    ) -> Result<ForeignPage, ForeignError> {
        self.page(&self.heads, &(from, to), rows, cursor, |cells| self.schema.row_with_key(cells)).await
    }

    /// Rows of one partition.
    pub async fn partition(
        &self,
        key: &ForeignKey,
        from: Begin,
        rows: usize,
        cursor: Option<Cursor>,
    ) -> Result<ForeignPage, ForeignError> {
        let statement = match from {
            Begin::Start => &self.from_start,
            Begin::Newest => &self.from_newest,
            Begin::End => &self.from_end,
        };
        self.page(statement, &KeyValues(key), rows, cursor, |cells| self.schema.row_of(key, cells)).await
    }

    async fn page(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        rows: usize,
        cursor: Option<Cursor>,
        row: impl Fn(Vec<Option<bytes::Bytes>>) -> Option<ForeignRow>,
    ) -> Result<ForeignPage, ForeignError> {
        let mut statement = statement.clone();
        statement.set_page_size(i32::try_from(rows.max(1)).unwrap_or(i32::MAX));
        statement.set_request_timeout(Some(self.timeout));
        let state = cursor.map_or_else(PagingState::start, |Cursor(state)| state);
        let begun = self.env.monotonic();
        let answer = self.session.execute_single_page(&statement, values, state).await;
        let (answer, next) = answer.map_err(|error| self.unreadable(&error))?;
        let took = self.env.monotonic().saturating_sub(begun);
        let next = next.into_paging_control_flow().continue_value().map(Cursor);
        let cells = pages_of(answer).map_err(|error| self.unreadable(&error))?;
        Ok(ForeignPage { rows: cells.into_iter().filter_map(row).collect(), next, took })
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> ForeignError {
        ForeignError::Unreadable { what: self.schema.shown_name(), reason: error.to_string() }
    }
}

/// Asks the cluster about itself.
struct Looker<'a> {
    session: &'a Session,
    profile: &'a ExecutionProfileHandle,
    env: &'a Env,
    timeout: Duration,
}

type ColumnRow = (String, String, i32, String, String);

impl Looker<'_> {
    async fn schema(&self, keyspace: &str, table: &str) -> Result<ForeignSchema, ForeignError> {
        let named = (keyspace, table);
        let cql = "SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns \
                   WHERE keyspace_name = ? AND table_name = ?";
        let columns: Vec<ColumnRow> = self.rows(cql, &named, "system_schema.columns").await?;
        if columns.is_empty() {
            return Err(self.nothing_there(keyspace, table).await);
        }
        let cql = "SELECT default_time_to_live FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let lives: Vec<(Option<i32>,)> = self.rows(cql, &named, "system_schema.tables").await?;
        let life = lives.first().and_then(|(life,)| *life).and_then(|life| u32::try_from(life).ok());
        let columns = columns.into_iter().map(|(name, kind, position, order, data_type)| {
            let descends = order.eq_ignore_ascii_case("desc");
            (kind, position, Column { name, data_type, descends })
        });
        Ok(ForeignSchema::new(keyspace, table, life.filter(|life| *life > 0), columns.collect()))
    }

    /// What is there instead.
    async fn nothing_there(&self, keyspace: &str, table: &str) -> ForeignError {
        let all = "SELECT keyspace_name FROM system_schema.keyspaces";
        let keyspaces: Vec<(String,)> = match self.rows(all, &(), "system_schema.keyspaces").await {
            Ok(keyspaces) => keyspaces,
            Err(error) => return error,
        };
        let keyspaces: BTreeSet<String> = keyspaces.into_iter().map(|(name,)| name).collect();
        if !keyspaces.contains(keyspace) {
            let there = keyspaces.into_iter().filter(|name| !is_internal(name)).collect();
            return ForeignError::NoKeyspace { keyspace: keyspace.to_owned(), there };
        }
        let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
        match self.rows::<(String,)>(tables, &(keyspace,), "system_schema.tables").await {
            Ok(tables) => ForeignError::NoTable {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
                there: tables.into_iter().map(|(name,)| name).collect(),
            },
            Err(error) => error,
        }
    }

    /// The clustering column to go by: the one that was named, or the first that is a time. Numbers are looked at: a
    /// bigint may be anything.
    async fn time_column(&self, schema: &ForeignSchema, named: Option<&str>) -> Result<TimeColumn, ForeignError> {
        let (keyspace, table) = (schema.keyspace.clone(), schema.table.clone());
        let columns = || {
            schema.clustering.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect::<Vec<_>>()
        };
        if let Some(named) = named
            && schema.clustering.iter().all(|column| column.name != named)
        {
            return Err(ForeignError::NoColumn { keyspace, table, column: named.to_owned(), columns: columns() });
        }
        let mut look = None;
        for (index, column) in schema.clustering.iter().enumerate() {
            if named.is_some_and(|named| named != column.name) {
                continue;
            }
            if let Some(kind) = column.time_kind() {
                return Ok(TimeColumn { index, kind });
            }
            if !column.is_number() {
                continue;
            }
            if look.is_none() {
                look = Some(self.clustering_values(schema).await?);
            }
            let values = look.iter().flatten().filter_map(|row| row.get(index)?.as_deref());
            if let Some(kind) = schema::kind_of_numbers(values, named.is_some()) {
                return Ok(TimeColumn { index, kind });
            }
        }
        Err(ForeignError::NoTime { keyspace, table, columns: columns() })
    }

    async fn clustering_values(&self, schema: &ForeignSchema) -> Result<Vec<Vec<Option<bytes::Bytes>>>, ForeignError> {
        let unreadable = |reason: String| ForeignError::Unreadable { what: schema.shown_name(), reason };
        let statement = self.statement(&schema.look_cql(LOOK_ROWS));
        let answer = self.session.query_single_page(statement, (), PagingState::start()).await;
        let (answer, _) = answer.map_err(|error| unreadable(error.to_string()))?;
        pages_of(answer).map_err(|error| unreadable(error.to_string()))
    }

    async fn prepare(&self, cql: &str) -> Result<PreparedStatement, ForeignError> {
        let unreadable = |reason: String| ForeignError::Unreadable { what: cql.to_owned(), reason };
        match self.env.timeout(self.timeout, self.session.prepare(self.statement(cql))).await {
            Ok(prepared) => prepared.map_err(|error| unreadable(error.to_string())),
            Err(_) => Err(unreadable(format!("a node has not prepared it for {:?}", self.timeout))),
        }
    }

    async fn rows<R>(&self, cql: &str, values: &(impl SerializeRow + Sync), what: &str) -> Result<Vec<R>, ForeignError>
    where
        R: for<'f> scylla::deserialize::row::DeserializeRow<'f, 'f>,
    {
        let unreadable = |reason: String| ForeignError::Unreadable { what: what.to_owned(), reason };
        let mut rows = Vec::new();
        let mut state = PagingState::start();
        loop {
            let answer = self.session.query_single_page(self.statement(cql), values, state).await;
            let (answer, next) = answer.map_err(|error| unreadable(error.to_string()))?;
            let answer = answer.into_rows_result().map_err(|error| unreadable(error.to_string()))?;
            for row in answer.rows::<R>().map_err(|error| unreadable(error.to_string()))? {
                rows.push(row.map_err(|error| unreadable(error.to_string()))?);
            }
            match next.into_paging_control_flow().continue_value() {
                Some(next) => state = next,
                None => return Ok(rows),
            }
        }
    }

    fn statement(&self, cql: &str) -> Statement {
        let mut statement = Statement::new(cql).with_page_size(1000);
        statement.set_is_idempotent(true);
        statement.set_request_timeout(Some(self.timeout));
        statement.set_execution_profile_handle(Some(self.profile.clone()));
        statement
    }
}

/// Keyspaces that Cassandra has for itself.
fn is_internal(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}
