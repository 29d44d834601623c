//! A node that knows its clients, and tables of known sizes on it.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Output},
    sync::OnceLock,
    time::Duration,
};

use anabranch_runtime::Env;
use anabranch_testbed::{Cassandra, Shape};
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    statement::batch::{Batch, BatchType},
    value::{CqlTimestamp, CqlTimeuuid},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");
const NOON_MILLIS: i64 = 1_774_699_200_000;
const BODY_BYTES: usize = 100;

/// Ends with the process: a watchdog sees to it.
static NODE: OnceLock<Cassandra> = OnceLock::new();
static PREPARED: OnceCell<()> = OnceCell::const_new();

/// A test's view of the node, which all tests of this process share; each has tables of its own.
pub(crate) struct Place {
    address: String,
    owner: Session,
    reader: Session,
    directory: TempDir,
}

/// How the rows of a planted table say when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Timestamp,
    TimeUuid,
    Millis,
    Seconds,
    Composite,
}

/// Partitions with their numbers of rows: most are small, some are large, three are wide.
pub(crate) struct Planted {
    pub(crate) partitions: Vec<(String, u64)>,
}

impl Planted {
    pub(crate) fn new(count: usize) -> Self {
        let mut partitions: Vec<(String, u64)> = (0..count)
            .map(|index| {
                (
                    format!("p-{index}"),
                    if index % 20 == 0 { 40 + (index as u64 / 20) % 5 } else { 2 + (index as u64) % 4 },
                )
            })
            .collect();
        // Apostrophes are where literals go wrong.
        for (name, rows) in [("wide-1 (it's big)", 9000), ("wide-2", 6000), ("wide-3", 3000)] {
            partitions.push((name.to_owned(), rows));
        }
        Planted { partitions }
    }

    /// The three, as CQL writes their names.
    pub(crate) fn widest(&self) -> [(&'static str, u64); 3] {
        [("wide-1 (it''s big)", 9000), ("wide-2", 6000), ("wide-3", 3000)]
    }

    /// Time, number, title and body.
    pub(crate) fn row_bytes(&self) -> u64 {
        (8 + 4 + "title".len() + BODY_BYTES) as u64
    }

    /// Rows and bytes that a share of the partitions doesn't exceed.
    pub(crate) fn percentile(&self, share: f64) -> (u64, u64) {
        let mut rows: Vec<u64> = self.partitions.iter().map(|(_, rows)| *rows).collect();
        rows.sort_unstable();
        let rank = ((share * rows.len() as f64).ceil() as usize).clamp(1, rows.len());
        (rows[rank - 1], rows[rank - 1] * self.row_bytes())
    }
}

impl Kind {
    pub(crate) fn told(self) -> &'static str {
        match self {
            Kind::Timestamp => "timestamp",
            Kind::TimeUuid => "timeuuid",
            Kind::Millis | Kind::Composite => "milliseconds since 1970",
            Kind::Seconds => "seconds since 1970",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            Kind::Timestamp => {
                "(profile text, at timestamp, id int, title text, body blob, PRIMARY KEY (profile, at, id)) \
                 WITH CLUSTERING ORDER BY (at DESC, id ASC)"
            }
            Kind::TimeUuid => "(profile text, at timeuuid, title text, body blob, PRIMARY KEY (profile, at))",
            Kind::Millis | Kind::Seconds => {
                "(profile text, at bigint, title text, body blob, PRIMARY KEY (profile, at))"
            }
            Kind::Composite => {
                "(tenant int, device text, sensor text, at bigint, title text, body blob, \
                 PRIMARY KEY ((tenant, device), sensor, at))"
            }
        }
    }

    fn insert(self) -> &'static str {
        match self {
            Kind::Timestamp => "(profile, at, id, title, body) VALUES (?, ?, 1, 'title', ?)",
            Kind::TimeUuid | Kind::Millis | Kind::Seconds => "(profile, at, title, body) VALUES (?, ?, 'title', ?)",
            Kind::Composite => "(tenant, device, sensor, at, title, body) VALUES (7, ?, 'heat', ?, 'title', ?)",
        }
    }
}

/// The node, and connections of this test's own: they end with its runtime.
pub(crate) async fn place() -> Place {
    let shape = Shape { logins: true, ..Shape::of_nodes(1) };
    let start =
        || NODE.get_or_init(|| Cassandra::start_as(shape).unwrap_or_else(|error| panic!("{error}"))).addresses();
    let address = Env::system().blocking(start).await.expect("the node starts")[0].to_string();
    let owner = connect(&address, "cassandra", "cassandra").await;
    let prepare = async || {
        for cql in [
            "CREATE KEYSPACE advise WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE ROLE reader WITH PASSWORD = 'only reads' AND LOGIN = true",
            "GRANT SELECT ON KEYSPACE advise TO reader",
        ] {
            owner.query_unpaged(cql, ()).await.unwrap();
        }
    };
    PREPARED.get_or_init(prepare).await;
    let reader = connect(&address, "reader", "only reads").await;
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("password"), "only reads\n").unwrap();
    let config = "[cassandra]\nuser = \"reader\"\npassword_file = \"password\"\n";
    fs::write(directory.path().join("anabranch.toml"), config).unwrap();
    Place { address, owner, reader, directory }
}

/// The first roles are made a moment after the node answers.
async fn connect(address: &str, user: &str, password: &str) -> Session {
    let env = Env::system();
    for _ in 0..100 {
        match SessionBuilder::new().known_node(address).user(user, password).build().await {
            Ok(session) => return session,
            Err(_) => env.sleep(Duration::from_millis(200)).await,
        }
    }
    panic!("{user} isn't let in");
}

impl Place {
    pub(crate) async fn cql(&self, cql: &str) {
        self.owner.query_unpaged(cql, ()).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// What the one who may only read is told.
    pub(crate) async fn as_reader(&self, cql: &str) -> Result<(), String> {
        self.reader.query_unpaged(cql, ()).await.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Makes a table and its rows: one a second, back from noon.
    pub(crate) async fn plant(&self, table: &str, kind: Kind, planted: &Planted) {
        self.cql(&format!("CREATE TABLE advise.{table} {}", kind.schema())).await;
        let insert = self.owner.prepare(format!("INSERT INTO advise.{table} {}", kind.insert())).await.unwrap();
        let body: Vec<u8> = (0..BODY_BYTES).map(|index| (index % 7) as u8).collect();
        for (name, rows) in &planted.partitions {
            let times: Vec<i64> = (0..*rows as i64).map(|back| NOON_MILLIS - back * 1000).collect();
            for times in times.chunks(200) {
                let mut batch = Batch::new(BatchType::Unlogged);
                times.iter().for_each(|_| batch.append_statement(insert.clone()));
                let done = match kind {
                    Kind::Timestamp => {
                        let values: Vec<_> = times.iter().map(|at| (name, CqlTimestamp(*at), &body)).collect();
                        self.owner.batch(&batch, values).await
                    }
                    Kind::TimeUuid => {
                        let values: Vec<_> = times.iter().map(|at| (name, uuid_at(*at), &body)).collect();
                        self.owner.batch(&batch, values).await
                    }
                    Kind::Millis | Kind::Composite => {
                        let values: Vec<_> = times.iter().map(|at| (name, *at, &body)).collect();
                        self.owner.batch(&batch, values).await
                    }
                    Kind::Seconds => {
                        let values: Vec<_> = times.iter().map(|at| (name, *at / 1000, &body)).collect();
                        self.owner.batch(&batch, values).await
                    }
                };
                done.unwrap();
            }
        }
    }

    /// Deletes more rows of a partition than Cassandra is willing to skip, so that its range of tokens can't be read.
    pub(crate) async fn bury(&self, table: &str) {
        const GRAVES: i64 = 101_000;
        let delete = format!("DELETE FROM advise.{table} WHERE profile = 'graves' AND at = ? AND id = 1");
        let delete = self.owner.prepare(delete).await.unwrap();
        let times: Vec<(CqlTimestamp,)> = (0..GRAVES).map(|back| (CqlTimestamp(NOON_MILLIS - back),)).collect();
        for times in times.chunks(500) {
            let mut batch = Batch::new(BatchType::Unlogged);
            times.iter().for_each(|_| batch.append_statement(delete.clone()));
            self.owner.batch(&batch, times).await.unwrap();
        }
    }

    async fn run(&self, keyspace: &str, table: &str, more: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.directory.path()).env("NO_COLOR", "1");
        command.args(["advise", "--store", &format!("cassandra://{}", self.address)]);
        command.args(["--keyspace", keyspace, "--table", table]).args(more);
        Env::system().blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// The report, for programs.
    pub(crate) async fn advise(&self, table: &str, more: &[&str]) -> Value {
        let more: Vec<&str> = more.iter().copied().chain(["--output", "json"]).collect();
        let output = self.run("advise", table, &more).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The report, for people.
    pub(crate) async fn advise_text(&self, table: &str, more: &[&str]) -> String {
        let output = self.run("advise", table, more).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// How a look that fails ends.
    pub(crate) async fn refused(&self, keyspace: &str, table: &str) -> (i32, String) {
        let output = self.run(keyspace, table, &[]).await;
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// Rows that a condition finds.
    pub(crate) async fn count(&self, table: &str, condition: &str) -> u64 {
        let cql = format!("SELECT count(*) FROM advise.{table} WHERE {condition}");
        let answer = self.owner.query_unpaged(cql.clone(), ()).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
        let (count,) = answer.into_rows_result().unwrap().single_row::<(i64,)>().unwrap();
        count as u64
    }

    /// Writes that the node has counted for a table.
    pub(crate) async fn writes(&self, table: &str) -> i64 {
        let cql =
            "SELECT count FROM system_views.local_write_latency WHERE keyspace_name = 'advise' AND table_name = ?";
        let answer = self.owner.query_unpaged(cql, (table,)).await.unwrap();
        answer.into_rows_result().unwrap().single_row::<(i64,)>().unwrap().0
    }

    /// All tables there are.
    pub(crate) async fn tables(&self) -> BTreeSet<(String, String)> {
        let cql = "SELECT keyspace_name, table_name FROM system_schema.tables";
        let answer = self.owner.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap();
        answer.rows::<(String, String)>().unwrap().map(Result::unwrap).collect()
    }

    /// Keyspaces that a store of ours would have made.
    pub(crate) async fn keyspaces_of_ours(&self) -> usize {
        self.tables().await.iter().filter(|(keyspace, _)| keyspace.starts_with("anabranch")).count()
    }
}

/// A version 1 UUID of this time.
fn uuid_at(millis: i64) -> CqlTimeuuid {
    let steps = (millis * 10_000 + 0x01B2_1DD2_1381_4000) as u64;
    let mut bytes = [7_u8; 16];
    bytes[..4].copy_from_slice(&(steps as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((steps >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&(((steps >> 48) as u16) | 0x1000).to_be_bytes());
    bytes[8] = 0x80;
    CqlTimeuuid::from_bytes(bytes)
}
