//! What can be taken away, and which two of them at once a seed draws.

use std::time::{SystemTime, UNIX_EPOCH};

/// Says which pairs; without it, the clock does.
const SEED: &str = "ANABRANCH_RING_SEED";
const NODES: u8 = 3;
const SERVERS: usize = 2;

/// Something that goes away, until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A Cassandra node ends as by a crash.
    NodeKilled(u8),
    /// A Cassandra node stands still, its connections open.
    NodeStill(u8),
    /// The disk of the last node is full.
    NodeFull,
    /// The broker ends as by a crash.
    BrokerKilled,
    /// Both workers end as by a crash.
    WorkersKilled,
    /// A server ends as by a crash.
    ServerKilled(usize),
}

impl Fault {
    fn all(with_small_disk: bool) -> Vec<Fault> {
        let mut all = vec![Fault::BrokerKilled, Fault::WorkersKilled];
        all.extend((1..=NODES).flat_map(|node| [Fault::NodeKilled(node), Fault::NodeStill(node)]));
        all.extend((0..SERVERS).map(Fault::ServerKilled));
        all.extend(with_small_disk.then_some(Fault::NodeFull));
        all
    }

    fn node(self) -> Option<u8> {
        match self {
            Fault::NodeKilled(node) | Fault::NodeStill(node) => Some(node),
            Fault::NodeFull => Some(NODES),
            _ => None,
        }
    }
}

/// Whether clients can be served with both: a majority of the nodes, and a server.
pub(crate) fn leave_enough(pair: [Fault; 2]) -> bool {
    let nodes = pair.iter().filter(|fault| fault.node().is_some()).count();
    let servers = pair.iter().filter(|fault| matches!(fault, Fault::ServerKilled(_))).count();
    nodes < 2 && servers < SERVERS
}

/// The seed that was asked for, or one of this moment.
pub(crate) fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED} is a number, not `{text}`")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    }
}

/// Pairs of faults without an end, the same for the same seed.
pub(crate) struct Pairs {
    faults: Vec<Fault>,
    state: u64,
}

impl Pairs {
    pub(crate) fn new(seed: u64, with_small_disk: bool) -> Self {
        Pairs { faults: Fault::all(with_small_disk), state: seed }
    }

    /// SplitMix64.
    fn draw(&mut self) -> Fault {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.faults[((mixed ^ (mixed >> 31)) % self.faults.len() as u64) as usize]
    }
}

impl Iterator for Pairs {
    type Item = [Fault; 2];

    /// Two that don't befall the same.
    fn next(&mut self) -> Option<[Fault; 2]> {
        let first = self.draw();
        loop {
            let second = self.draw();
            if first != second && (first.node().is_none() || first.node() != second.node()) {
                return Some([first, second]);
            }
        }
    }
}

/// Nothing of a ring is needed to see what a seed draws.
#[test]
fn a_seed_draws_the_same_pairs_again_and_never_two_faults_of_one_node() {
    let pairs = |seed| Pairs::new(seed, true).take(200).collect::<Vec<_>>();
    assert_eq!(pairs(7), pairs(7));
    assert_ne!(pairs(7), pairs(8));
    let drawn = pairs(7);
    assert!(drawn.iter().all(|[a, b]| a != b && (a.node().is_none() || a.node() != b.node())), "{drawn:?}");
    assert!(drawn.iter().any(|pair| !leave_enough(*pair)) && drawn.iter().any(|pair| leave_enough(*pair)));
    for fault in Fault::all(true) {
        assert!(drawn.iter().flatten().any(|drawn| *drawn == fault), "{fault:?} is never drawn");
    }
}
