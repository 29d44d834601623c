//! The driver alone, on the very tables that the server made: prepared statements, one session, the same level.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    response::PagingState,
    statement::{
        Consistency,
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};

use super::wide::Wide;
use crate::events::{Event, ITEM_KEY};

/// A series has one partition in a slice: its time bucket is as long as the slice, and has one event bucket.
const PARTITION: &str = "time_series_id = ? AND time_bucket = 0 AND event_bucket = 0";
const ROW: &str = "event_time, event_id, event_item_key, event_item";

type RowValues<'a> = (&'a str, i64, &'a str, &'static str, (&'a [u8], Option<&'a [u8]>));

/// Connects.
pub(crate) async fn connect(node: SocketAddr) -> Result<Session> {
    let profile = ExecutionProfile::builder().consistency(Consistency::LocalQuorum).build();
    let session = SessionBuilder::new().known_node_addr(node).default_execution_profile_handle(profile.into_handle());
    session.build().await.with_context(|| format!("cannot connect to {node}"))
}

async fn prepare(session: &Session, cql: &str) -> Result<PreparedStatement> {
    let mut statement = session.prepare(cql).await?;
    statement.set_is_idempotent(true);
    statement.set_use_cached_result_metadata(true);
    Ok(statement)
}

/// Reads histories of one table.
pub(crate) struct BareReader {
    session: Session,
    before: PreparedStatement,
    all: PreparedStatement,
}

impl BareReader {
    pub(crate) async fn open(node: SocketAddr, table: &str) -> Result<BareReader> {
        let session = connect(node).await?;
        let all = format!("SELECT {ROW} FROM {table} WHERE {PARTITION}");
        let before = prepare(&session, &format!("{all} AND event_time < ?")).await?;
        let all = prepare(&session, &all).await?;
        Ok(BareReader { session, before, all })
    }

    /// The page right before an event; how long it took until all of it had come.
    pub(crate) async fn page(&self, history: &Wide, place: u64, size: u32) -> Result<Duration> {
        let mut statement = self.before.clone();
        statement.set_page_size(i32::try_from(size)?);
        let values = (&history.series, history.time(place).nanos());
        let began = Instant::now();
        let (answer, _) = self.session.execute_single_page(&statement, values, PagingState::start()).await?;
        let took = began.elapsed();
        let rows = answer.into_rows_result()?.rows_num();
        ensure!(rows == size as usize, "a page held {rows} rows");
        Ok(took)
    }

    /// All of a history, page after page. Tells how many rows each page has.
    pub(crate) async fn whole(&self, history: &Wide, page: u32, mut each: impl FnMut(u64)) -> Result<()> {
        let mut statement = self.all.clone();
        statement.set_page_size(i32::try_from(page)?);
        let mut state = PagingState::start();
        loop {
            let (answer, next) = self.session.execute_single_page(&statement, (&history.series,), state).await?;
            each(answer.into_rows_result()?.rows_num() as u64);
            match next.into_paging_control_flow().continue_value() {
                Some(next) => state = next,
                None => return Ok(()),
            }
        }
    }
}

/// Writes to one table.
pub(crate) struct BareWriter {
    session: Session,
    table: String,
    insert: PreparedStatement,
}

impl BareWriter {
    pub(crate) async fn open(node: SocketAddr, table: &str) -> Result<BareWriter> {
        let session = connect(node).await?;
        let columns = "time_series_id, time_bucket, event_bucket, event_time, event_id, event_item_key, event_item";
        let insert = format!("INSERT INTO {table} ({columns}) VALUES (?, 0, 0, ?, ?, ?, ?)");
        let insert = prepare(&session, &insert).await?;
        Ok(BareWriter { session, table: table.to_owned(), insert })
    }

    /// Writes events of one series in one batch.
    pub(crate) async fn write(&self, series: &str, events: &[Event]) -> Result<()> {
        let statements = vec![BatchStatement::from(self.insert.clone()); events.len()];
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        let row = |event| row_values(series, event);
        let values: Vec<RowValues<'_>> = events.iter().map(row).collect();
        self.session.batch(&batch, values).await?;
        Ok(())
    }

    /// Empties the table.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.session.query_unpaged(format!("TRUNCATE {}", self.table), ()).await?;
        Ok(())
    }
}

fn row_values<'a>(series: &'a str, event: &'a Event) -> RowValues<'a> {
    (series, event.time.nanos(), &event.id, ITEM_KEY, (&event.value, None))
}
