//! What is needed to carry a workload: one server on the embedded store, or a cluster.

use serde::{Deserialize, Serialize};

use crate::{
    candidate::{Candidate, DENSITY_HIGH_BYTES},
    cost::{read_cpu, write_cpu},
    predict::Spread,
    sizes::PartitionSizes,
    world::World,
};

const GIB: f64 = 1_073_741_824.0;
/// Copies that a cluster keeps of everything.
const REPLICAS: f64 = 3.0;
/// Replicas that a read at quorum asks.
const READ_REPLICAS: f64 = 2.0;
/// What is left of rows once they are compressed on disk.
const COMPRESSED_SHARE: f64 = 0.5;
/// What is left of rows once they are packed into the blocks of pieces.
const PACKED_SHARE: f64 = 0.3;
/// Room on a disk that compaction needs.
const DISK_USE: f64 = 0.6;
/// CPU that may be used on average, so that there is some for peaks, repair and compaction.
const CPU_USE: f64 = 0.5;
/// Memory of a process before it holds anything.
const BASE_MEMORY: f64 = 4.0 * GIB;
/// Memory of a table that takes writes.
const MEMORY_PER_OPEN_TABLE: f64 = 64.0 * 1_048_576.0;
/// Share of what usual reads cover that is worth keeping in memory.
const CACHED_SHARE: f64 = 0.02;
/// Memory that no cache outgrows, per node.
const MOST_CACHE: f64 = 64.0 * GIB;
/// Nodes come in these sizes: cores, and TiB of disk. Memory grows with the cores.
const NODES: [(f64, f64); 8] =
    [(4.0, 0.5), (4.0, 1.0), (4.0, 2.0), (8.0, 1.0), (8.0, 4.0), (16.0, 2.0), (16.0, 8.0), (32.0, 8.0)];
const MEMORY_PER_CORE: f64 = 8.0 * GIB;
/// What a node costs beside its cores, in cores.
const PRICE_OF_A_NODE: f64 = 2.0;
/// What a TiB of disk costs, in cores.
const PRICE_OF_DISK: f64 = 1.0;
/// A node too few is regretted more than a node too many.
const PRICE_OF_LACKING: f64 = 10.0;

/// What is needed to carry a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// A cluster of Cassandra nodes, three copies of everything.
    pub cluster: Cluster,
    /// One server on the embedded store.
    pub embedded: Machine,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// How many.
    pub nodes: u32,
    /// What each of them has.
    pub node: Machine,
    /// In which share of the worlds it is enough.
    pub enough_in: f64,
    /// What stays unused in the middle world, of what may be used.
    pub headroom: Headroom,
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores.
    pub cores: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Disk.
    pub disk_bytes: u64,
}

/// The share of each resource that stays unused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// Of the CPU, peaks and compaction not counted.
    pub cores: f64,
    /// Of the memory.
    pub memory: f64,
    /// Of the disk, room for compaction not counted.
    pub disk: f64,
}

/// What a world needs, added up over all machines and with the room that must stay free.
#[derive(Clone, Copy, Debug)]
struct Need {
    cores: f64,
    cache: f64,
    disk: f64,
    /// Memory that every machine needs for itself.
    own_memory: f64,
}

pub(crate) fn size(worlds: &[World], chosen: &Candidate) -> Capacity {
    let clustered: Vec<Need> = worlds.iter().map(|world| need(world, chosen, REPLICAS, READ_REPLICAS)).collect();
    let alone: Vec<Need> = worlds.iter().map(|world| need(world, chosen, 1.0, 1.0)).collect();
    Capacity { cluster: cluster(&clustered), embedded: machine(&alone) }
}

fn need(world: &World, chosen: &Candidate, copies: f64, read_copies: f64) -> Need {
    let sizes = PartitionSizes::new(world, &world.zipf.groups(), chosen.bucket(), chosen.event_buckets());
    let (_, wide) = sizes.wide(DENSITY_HIGH_BYTES as f64);
    let kept = world.bytes_per_second() * (world.kept + chosen.slice());
    let cpu = write_cpu(world) * copies + read_cpu(world, chosen.fan_out(world.typical)) * read_copies;
    let open_tables = world.accept / chosen.slice() + 2.0;
    let cached = world.bytes_per_second() * world.typical * CACHED_SHARE;
    Need {
        cores: cpu / CPU_USE,
        cache: cached * copies,
        disk: kept * (COMPRESSED_SHARE + wide * PACKED_SHARE) * copies / DISK_USE,
        own_memory: BASE_MEMORY + open_tables * MEMORY_PER_OPEN_TABLE,
    }
}

/// A size of node that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Size {
    cores: f64,
    memory: f64,
    disk: f64,
    price: f64,
}

impl Size {
    fn new((cores, disk): (f64, f64)) -> Self {
        let price = cores + disk * PRICE_OF_DISK + PRICE_OF_A_NODE;
        Size { cores, memory: cores * MEMORY_PER_CORE, disk: disk * 1024.0 * GIB, price }
    }

    /// How many of them it takes, at least as many as there are copies.
    fn nodes(&self, need: &Need) -> f64 {
        let busy = (need.cores / self.cores).max(need.disk / self.disk);
        // A cache that is too small costs time, not data: it asks for at most twice the nodes.
        let cache = (need.cache / (self.memory - need.own_memory).max(GIB)).min(2.0 * busy);
        busy.max(cache).ceil().max(REPLICAS)
    }
}

/// The cluster of least regret: its price against that of the one that each world would have needed.
fn cluster(needs: &[Need]) -> Cluster {
    let sizes = NODES.map(Size::new);
    let price_needed = |need: &Need| {
        let prices = sizes.iter().map(|size| size.nodes(need) * size.price);
        prices.fold(f64::INFINITY, f64::min)
    };
    let cheapest: Vec<f64> = needs.iter().map(price_needed).collect();
    let mut best: Option<(f64, f64, Size)> = None;
    for size in sizes {
        let wanted: Vec<f64> = needs.iter().map(|need| size.nodes(need)).collect();
        let mut counts = wanted.clone();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        let step = counts.len().div_ceil(100);
        for &nodes in counts.iter().step_by(step).chain(counts.last()) {
            let regret = |(wanted, cheapest): (&f64, &f64)| {
                let lacking = (wanted - nodes).max(0.0) * size.price * PRICE_OF_LACKING;
                let over = (nodes * size.price - cheapest).max(0.0);
                // In units of what was needed, so that big worlds don't count more than small ones.
                ((lacking + over) / cheapest).powi(2)
            };
            let regret: f64 = wanted.iter().zip(&cheapest).map(regret).sum();
            if best.is_none_or(|(least, _, _)| regret < least) {
                best = Some((regret, nodes, size));
            }
        }
    }
    let (_, nodes, size) = best.expect("there is a world, and a size of nodes");
    let node = Machine { cores: size.cores as u32, memory_bytes: size.memory as u64, disk_bytes: size.disk as u64 };
    let enough = needs.iter().filter(|need| size.nodes(need) <= nodes).count();
    let used = |part: fn(&Need) -> f64| Spread::of(needs.iter().map(part).collect()).mid / nodes;
    let own = used(|need| need.own_memory) * nodes;
    let cache = used(|need| need.cache).min(MOST_CACHE);
    let left = |used: f64, has: f64| (1.0 - used / has).max(0.0);
    Cluster {
        nodes: nodes as u32,
        enough_in: enough as f64 / needs.len() as f64,
        headroom: Headroom {
            cores: left(used(|need| need.cores), size.cores),
            memory: left(own + cache, node.memory_bytes as f64),
            disk: left(used(|need| need.disk), node.disk_bytes as f64),
        },
        node,
    }
}

/// One machine that is enough in nine of ten worlds.
fn machine(needs: &[Need]) -> Machine {
    let high = |part: fn(&Need) -> f64| Spread::of(needs.iter().map(part).collect()).high;
    let memory = high(|need| need.own_memory) / 4.0 + high(|need| need.cache).min(MOST_CACHE);
    Machine {
        cores: high(|need| need.cores).ceil().max(1.0) as u32,
        memory_bytes: ((memory / GIB).ceil() * GIB) as u64,
        disk_bytes: ((high(|need| need.disk) / GIB).ceil() * GIB) as u64,
    }
}
