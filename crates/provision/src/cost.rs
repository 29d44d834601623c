//! What a candidate costs in a world: a sum of terms without a unit, of which 1 is as bad as keeping everything twice.
//! What a row costs to read was measured; other figures of the store are estimates, and weights are judgements.

use crate::{
    candidate::{Candidate, DENSITY_HIGH_BYTES, DENSITY_LOW_BYTES},
    sizes::PartitionSizes,
    world::World,
};

/// CPU of the store to open a partition and find a place in it: a page of ten rows took 0.46 ms.
pub(crate) const CALL_CPU_SECONDS: f64 = 0.3e-3;
/// CPU of the store to read a row, measured on Cassandra with pages of 1,000.
pub(crate) const ROW_READ_CPU_SECONDS: f64 = 3.3e-6;
/// CPU of the store to write a row and to compact it later.
pub(crate) const ROW_WRITE_CPU_SECONDS: f64 = 30e-6;
/// How long a read of one partition takes when nobody waits.
const CALL_SECONDS: f64 = 0.5e-3;
/// Partitions that a read asks at once.
const CALLS_AT_ONCE: f64 = 8.0;
/// Records of a page.
pub(crate) const PAGE_RECORDS: f64 = 1000.0;
/// Rows a second that one partition takes without its replicas being noticed by others.
const HOT_ROWS_PER_SECOND: f64 = 2000.0;

/// What a segment holds: 1,024 pieces of 4 MiB. Wider partitions need bigger pieces.
const MOST_SPLIT_BYTES: f64 = 1024.0 * 4.0 * 1_048_576.0;

/// Names of the terms, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// A slice is dropped whole, so that its events outlive their retention by up to its length.
    KeptLonger,
    /// Each table costs memory and work, empty or not.
    Tables,
    /// Partitions below the density target: lookups for little.
    Sparse,
    /// Partitions above the density target.
    Dense,
    /// Bytes in wide partitions are copied once more, and are slow until they are sealed and split.
    Wide,
    /// Partitions that usual reads ask for, as CPU.
    FanOut,
    /// Reads that miss their latency.
    Latency,
    /// One id's writes on one partition.
    Heat,
    /// Events of one time in several partitions: every page has to merge.
    Merging,
}

pub(crate) const TERMS: usize = Term::Merging as usize + 1;

/// Every term of a candidate in a world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) terms: [f64; TERMS],
}

impl Cost {
    pub(crate) fn total(&self) -> f64 {
        self.terms.iter().sum()
    }

    fn set(&mut self, term: Term, cost: f64) {
        self.terms[term as usize] = cost;
    }
}

/// The terms that depend on how time is cut into partitions, whatever the slice.
pub(crate) fn of_partitions(world: &World, sizes: &PartitionSizes<'_>, candidate: &Candidate) -> Cost {
    let mut cost = Cost::default();
    let p99 = sizes.percentile(0.99);
    // Near the target a step of the bucket can reach it; far below it nothing can, and little is gained.
    let sparse = doublings(DENSITY_LOW_BYTES as f64 / p99);
    cost.set(Term::Sparse, 0.06 * sparse.min(3.0) + 0.01 * (sparse - 3.0).max(0.0));
    cost.set(Term::Dense, 0.25 * doublings(p99 / DENSITY_HIGH_BYTES as f64));
    let (_, wide) = sizes.wide(DENSITY_HIGH_BYTES as f64);
    let unsealed = (world.accept / world.typical).min(1.0);
    let too_wide = doublings(sizes.bytes_at(1.0) / MOST_SPLIT_BYTES);
    cost.set(Term::Wide, wide * (0.12 + 0.12 * unsealed) + 0.05 * too_wide);
    let least = read_cpu(world, 1.0) + write_cpu(world);
    let typical = candidate.fan_out(world.typical);
    cost.set(Term::FanOut, 0.15 * doublings((read_cpu(world, typical) + write_cpu(world)) / least));
    let late = doublings(read_seconds(world, typical) / world.read_target)
        + 0.5 * doublings(read_seconds(world, candidate.fan_out(world.longest)) / world.read_max);
    cost.set(Term::Latency, if world.reads > 0.0 { 0.3 * late } else { 0.0 });
    let rows = world.writes * world.zipf.share(1.0) * world.items / candidate.event_buckets();
    let bearable = HOT_ROWS_PER_SECOND * (world.write_target / 0.1).clamp(0.25, 1.0);
    cost.set(Term::Heat, 0.3 * doublings(rows / bearable));
    // 64 buckets made a page 2.5 times as slow.
    cost.set(Term::Merging, 0.1 * doublings(candidate.event_buckets()));
    cost
}

/// The same with the terms of the slice.
pub(crate) fn with_slice(world: &World, candidate: &Candidate, mut cost: Cost) -> Cost {
    // The bigger the data, the more disk counts beside tables.
    let volume = world.bytes_per_second() * world.kept;
    let disk = (1.0 + 0.1 * (volume / 1e12).log10()).clamp(0.8, 1.5);
    cost.set(Term::KeptLonger, disk * candidate.slice() / world.kept);
    cost.set(Term::Tables, 0.04 * candidate.tables(world));
    cost
}

/// How often something doubles from 1 on; nothing below.
fn doublings(ratio: f64) -> f64 {
    ratio.max(1.0).log2()
}

/// CPU of the store for all reads of a second, when each asks for this many partitions.
pub(crate) fn read_cpu(world: &World, fan_out: f64) -> f64 {
    world.reads * (fan_out * CALL_CPU_SECONDS + rows_of_a_read(world) * ROW_READ_CPU_SECONDS)
}

/// CPU of the store for all writes of a second.
pub(crate) fn write_cpu(world: &World) -> f64 {
    world.writes * world.items * ROW_WRITE_CPU_SECONDS
}

/// How long a read takes that asks for this many partitions.
fn read_seconds(world: &World, fan_out: f64) -> f64 {
    (fan_out / CALLS_AT_ONCE).max(1.0) * CALL_SECONDS + rows_of_a_read(world) * ROW_READ_CPU_SECONDS
}

/// Rows that a usual read finds: those of a busy id, since busy ids are read more, up to a page.
fn rows_of_a_read(world: &World) -> f64 {
    let rank = (world.zipf.ids / 100.0).max(1.0);
    let events = world.writes * world.zipf.share(rank) * world.typical;
    events.min(PAGE_RECORDS) * world.items
}
