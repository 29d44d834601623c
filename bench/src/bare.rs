//! fjall alone: as many threads as there are connections commit the same batches, each followed by a sync. Runs in a
//! process of its own, so that its CPU time can be told apart. Says `ready`, waits for a line, writes, says how many
//! seconds that took, and stays until its input ends.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anabranch_model::Timestamp;
use anabranch_store_fjall::FjallOptions;
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    config::{BlockSizePolicy, CompressionPolicy, FilterPolicy},
};

use crate::{
    args::{BareArgs, IngestLoad},
    events,
    process::Process,
};

type Batch = Vec<(Bytes, Bytes)>;

/// The process, as the bench sees it.
pub(crate) struct BareFjall {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BareFjall {
    /// Starts it on an empty directory and waits until its batches are prepared and it is warm.
    pub(crate) fn start(directory: &Path, load: &IngestLoad) -> Result<BareFjall> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare-fjall").arg("--dir").arg(directory).args(load.as_flags());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("standard input was piped")?;
        let output = BufReader::new(child.stdout.take().context("standard output was piped")?);
        let mut bare = BareFjall { child, input, output };
        anyhow::ensure!(bare.line()? == "ready", "fjall alone could not be prepared");
        Ok(bare)
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Lets it write everything once; says how many seconds it took.
    pub(crate) fn go(&mut self) -> Result<f64> {
        self.input.write_all(b"go\n")?;
        self.line()?.parse().context("fjall alone could not be measured")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for BareFjall {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What the process does.
pub(crate) fn run(args: &BareArgs) -> Result<()> {
    let options = FjallOptions::default();
    let database = Database::builder(&args.dir)
        .cache_size(options.cache_bytes)
        .worker_threads(options.workers)
        .max_journaling_size(options.journal_bytes)
        .open()?;
    let keyspace = database.keyspace("data", || keyspace_options(&options))?;
    let batches = prepare(&args.load)?;
    let (warm_up, timed): (Vec<_>, Vec<_>) = batches
        .into_iter()
        .map(|mut batches| {
            let timed = batches.split_off(args.load.warm_up as usize);
            (batches, timed)
        })
        .unzip();
    commit_all(&database, &keyspace, warm_up)?;
    say("ready")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let began = Instant::now();
    commit_all(&database, &keyspace, timed)?;
    say(&began.elapsed().as_secs_f64().to_string())?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// The same as the embedded store gives its tables.
fn keyspace_options(options: &FjallOptions) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(options.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
}

/// The batches of each writer.
fn prepare(load: &IngestLoad) -> Result<Vec<Vec<Batch>>> {
    let begin = Timestamp::from_seconds(1_800_000_000);
    let batch = |writer, request| {
        let events = events::ingest_request(load, begin, writer, request);
        events.into_iter().map(events::Event::into_row).collect::<Result<Batch>>()
    };
    let writer = |writer| (0..load.warm_up + load.requests).map(|request| batch(writer, request)).collect();
    (0..load.writers).map(writer).collect()
}

fn commit_all(database: &Database, keyspace: &Keyspace, writers: Vec<Vec<Batch>>) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.into_iter().map(|batches| scope.spawn(|| commit(database, keyspace, batches))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a writer panicked"))?)
    })
}

fn commit(database: &Database, keyspace: &Keyspace, batches: Vec<Batch>) -> Result<()> {
    for rows in batches {
        let mut batch = database.batch();
        for (key, value) in rows {
            batch.insert(keyspace, key, value);
        }
        batch.commit()?;
        database.persist(PersistMode::SyncData)?;
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}
