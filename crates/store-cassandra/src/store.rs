//! [`CassandraStore`]: the contract, on top of everything else in this crate.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_model::{EventBucket, TableName, TimeBucket, TimeSeriesId};
use anabranch_runtime::Env;
use anabranch_store::{
    Capabilities, CasOutcome, Direction, MetaKey, PartitionBatch, Sample, Scan, ScanPage, Store, StoreError,
    TableEstimate, Version, Versioned,
    hedge::{Hedge, HedgeCount},
};
use async_trait::async_trait;
use bytes::Bytes;
use scylla::{client::session::Session, errors::ExecutionError, statement::prepared::PreparedStatement};
use tokio::sync::Mutex;

use crate::{
    CassandraOptions, ConnectError,
    datacenters::Found,
    documents::Documents,
    error::{Failure, read_failure, refused, unavailable},
    names,
    schema::Schema,
    session::{self, Profiles},
    statements::{KnownTable, KnownTables, Shape},
};

/// The least time for a look at whether a table is gone, after a call that took all of its own.
const LEAST_LOOK: Duration = Duration::from_millis(500);

/// The store on a Cassandra cluster, which other servers may use at the same time.
pub struct CassandraStore {
    inside: Arc<Inside>,
    closed: Arc<AtomicBool>,
    reach: Reach,
}

/// Whom a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// As many replicas as the levels of the options say.
    Here,
    /// Enough of them in every data centre.
    Everywhere,
}

/// What the parts of the store share.
pub(crate) struct Inside {
    pub(crate) env: Env,
    pub(crate) options: CassandraOptions,
    pub(crate) session: Session,
    pub(crate) profiles: Profiles,
    pub(crate) hedge: Arc<Hedge>,
    pub(crate) documents: Documents,
    tables: KnownTables,
    /// One schema change at a time.
    schema_turn: Mutex<()>,
}

impl CassandraStore {
    /// Connects to a cluster. Makes the keyspace of documents when it isn't there.
    pub async fn connect(options: CassandraOptions, env: Env) -> Result<Self, ConnectError> {
        options.check()?;
        let hedge = Arc::new(Hedge::new(options.hedge_permille, options.hedge_after));
        let (session, profiles) = session::connect(&options, &hedge, &env).await?;
        Found::of(&session.get_cluster_state(), &options).check(&options)?;
        let schema = Schema { session: &session, options: &options };
        schema.prepare_documents().await?;
        schema.check_places().await?;
        let (prefix, timeout) = (&options.keyspace_prefix, options.metadata_timeout);
        let documents = env.timeout(timeout, Documents::prepare(&session, prefix, &profiles, timeout)).await;
        let reason = match documents {
            Ok(Ok(documents)) => Ok(documents),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("a node that is connected has not prepared statements for {timeout:?}")),
        };
        let documents = reason.map_err(|reason| ConnectError::Schema(unavailable(reason)))?;
        let (tables, schema_turn) = (KnownTables::default(), Mutex::default());
        let inside = Inside { env, options, session, profiles, hedge, documents, tables, schema_turn };
        Ok(CassandraStore { inside: Arc::new(inside), closed: Arc::default(), reach: Reach::Here })
    }

    fn inside(&self) -> Result<&Inside, StoreError> {
        if self.closed.load(Ordering::Relaxed) { Err(refused("the store is closed")) } else { Ok(&self.inside) }
    }
}

impl Inside {
    pub(crate) fn schema(&self) -> Schema<'_> {
        Schema { session: &self.session, options: &self.options }
    }

    /// What is known about a table; whether it is there isn't.
    pub(crate) fn table(&self, table: &TableName) -> Result<Arc<KnownTable>, StoreError> {
        self.tables.get(table, || names::place(&self.options, table).map_err(refused))
    }

    /// The error for a table that isn't there. What was known about it is forgotten.
    pub(crate) fn no_such_table(&self, table: &TableName) -> StoreError {
        self.tables.forget(table);
        StoreError::NoSuchTable { table: table.clone() }
    }

    /// The statement of a shape for a table, prepared by then.
    pub(crate) async fn statement(
        &self,
        table: &KnownTable,
        shape: Shape,
        deadline: Duration,
    ) -> Result<PreparedStatement, Failure> {
        if let Some(prepared) = table.prepared(shape) {
            return Ok(prepared);
        }
        let left = deadline.saturating_sub(self.env.monotonic());
        // Boxed: it is seldom needed, and would make every read's future larger.
        let preparing = Box::pin(table.prepare(&self.session, shape));
        let prepared = self.env.timeout(left, preparing).await.map_err(|_| Failure::Late)?;
        prepared.map_err(|error| ExecutionError::from(error).into())
    }

    /// Whether a table is gone, as far as the node that answers knows.
    pub(crate) async fn is_missing(&self, table: &KnownTable) -> bool {
        self.schema().exists(&table.place).await == Ok(false)
    }

    /// Whether a table was dropped. A node that came back just now may not know one that others do, with all that was written into it.
    pub(crate) async fn is_gone(&self, table: &KnownTable, deadline: Duration) -> bool {
        let left = deadline.saturating_sub(self.env.monotonic()).max(LEAST_LOOK);
        let look = Box::pin(async {
            self.is_missing(table).await
                && self.session.await_schema_agreement().await.is_ok()
                && self.is_missing(table).await
        });
        self.env.timeout(left, look).await == Ok(true)
    }

    /// What to answer for a read that failed.
    pub(crate) async fn explain_read(
        &self,
        name: &TableName,
        table: &KnownTable,
        failure: Failure,
        deadline: Duration,
    ) -> StoreError {
        match failure {
            Failure::Driver(_) if self.is_gone(table, deadline).await => self.no_such_table(name),
            failure => read_failure(failure.fate(), failure.to_string()),
        }
    }
}

#[async_trait]
impl Store for CassandraStore {
    fn capabilities(&self) -> Capabilities {
        let max_tables = self.inside.options.max_tables;
        Capabilities { name: "cassandra", shared: true, ordered_partitions: false, max_tables }
    }

    fn everywhere(self: Arc<Self>) -> Arc<dyn Store> {
        let (inside, closed) = (self.inside.clone(), self.closed.clone());
        Arc::new(CassandraStore { inside, closed, reach: Reach::Everywhere })
    }

    async fn create_table(&self, table: &TableName) -> Result<(), StoreError> {
        let inside = self.inside()?;
        let known = inside.table(table)?;
        let _turn = inside.schema_turn.lock().await;
        if inside.schema().is_there(table, &known.place).await? {
            // Another one may have made it just now. Where nodes can't agree, what is written waits for them, not this.
            let _ = inside.session.await_schema_agreement().await;
            return Ok(());
        }
        inside.schema().check_elsewhere(table).await?;
        let id = inside.agree_on_id(&known.place).await?;
        inside.schema().create_table(table, &known.place, id).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<(), StoreError> {
        let inside = self.inside()?;
        let known = inside.table(table)?;
        let _turn = inside.schema_turn.lock().await;
        let there = inside.schema().is_there(table, &known.place).await?;
        inside.forget_id(&known.place).await?;
        let dropped = if there { inside.schema().drop_table(&known.place).await } else { Ok(()) };
        inside.tables.forget(table);
        dropped
    }

    async fn tables(&self) -> Result<Vec<TableName>, StoreError> {
        let inside = self.inside()?;
        // Whoever drops all that are there may not miss one because the node that answers hasn't heard of it.
        let agreed = inside.session.await_schema_agreement().await;
        agreed.map_err(|error| unavailable(format!("nodes don't agree on which tables are there: {error}")))?;
        inside.schema().tables().await
    }

    async fn write(&self, batches: Vec<PartitionBatch>, timeout: Duration) -> Vec<Result<(), StoreError>> {
        match self.inside() {
            Ok(inside) => inside.write(batches, timeout, self.reach).await,
            Err(error) => vec![Err(error); batches.len()],
        }
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        if scan.max_rows == 0 {
            return Err(refused("a scan of no rows"));
        }
        let inside = self.inside()?;
        inside.page(&*inside.table(&scan.table)?, scan, self.reach).await
    }

    async fn occupied(
        &self,
        _: &TableName,
        _: &TimeSeriesId,
        _: RangeInclusive<TimeBucket>,
        _: Direction,
        _: usize,
    ) -> Result<Vec<(TimeBucket, EventBucket)>, StoreError> {
        Err(refused("partitions of Cassandra lie in no order"))
    }

    async fn sample(&self, table: &TableName, from: u64, limit: usize) -> Result<Sample, StoreError> {
        self.inside()?.sample(table, from, limit).await
    }

    async fn estimate(&self, table: &TableName) -> Result<Option<TableEstimate>, StoreError> {
        self.inside()?.estimate(table).await.map(Some)
    }

    fn hedging(&self) -> Option<HedgeCount> {
        Some(self.inside.hedge.count())
    }

    fn metadata_retries(&self) -> u64 {
        self.inside.documents.retries.load(Ordering::Relaxed)
    }

    async fn load(&self, key: &MetaKey) -> Result<Option<Versioned>, StoreError> {
        self.inside()?.load(key).await
    }

    async fn list(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.inside()?.list(scope, after, limit).await
    }

    async fn compare_and_set(
        &self,
        key: &MetaKey,
        expected: Option<Version>,
        value: Option<Bytes>,
    ) -> Result<CasOutcome, StoreError> {
        self.inside()?.compare_and_set(key, expected, value.as_ref()).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Everything acknowledged is in the cluster already; connections close with the last use of the store.
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}
