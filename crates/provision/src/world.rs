//! One world: every number of a description drawn once. A thousand of them stand for what may be true.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    workload::{Skew, Workload},
    zipf::Zipf,
};

/// What a row adds to the values in it: `event_time`, and usual lengths of `event_id` and `event_item_key`.
pub(crate) const ROW_OVERHEAD_BYTES: f64 = 32.0;
/// Numbers that are drawn for a world.
const DIMENSIONS: usize = 12;

/// A workload of which every number is known.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) writes: f64,
    pub(crate) items: f64,
    /// Bytes of an event as they count everywhere: keys, times, values.
    pub(crate) event_bytes: f64,
    pub(crate) zipf: Zipf,
    pub(crate) kept: f64,
    pub(crate) reads: f64,
    pub(crate) typical: f64,
    pub(crate) longest: f64,
    pub(crate) accept: f64,
    pub(crate) read_target: f64,
    pub(crate) read_max: f64,
    pub(crate) write_target: f64,
}

impl World {
    fn from_chances(workload: &Workload, chances: [f64; DIMENSIONS]) -> Self {
        let [writes, items, bytes, ids, skew, kept, reads, typical, longest, accept, target, max] = chances;
        let items = workload.items_per_event.quantile(items).max(1.0);
        let ids = workload.ids.quantile(ids);
        let zipf = match &workload.skew {
            Skew::Zipf(exponent) => Zipf::new(ids, exponent.quantile(skew)),
            Skew::TopOnePercent(share) => Zipf::with_top_one_percent(ids, share.quantile(skew)),
        };
        let kept = workload.kept_seconds().quantile(kept);
        let longest = workload.longest_seconds().quantile(longest).min(kept);
        World {
            writes: workload.writes_per_second.quantile(writes),
            items,
            event_bytes: workload.event_bytes.quantile(bytes) + items * ROW_OVERHEAD_BYTES,
            zipf,
            kept,
            reads: workload.reads().quantile(reads),
            typical: workload.typical_seconds().quantile(typical).min(longest),
            longest,
            accept: workload.accept_seconds().quantile(accept).min(kept),
            read_target: workload.read_target.quantile(target),
            read_max: workload.read_max.quantile(max),
            write_target: workload.write_target.quantile(max),
        }
    }

    /// Bytes that are written in a second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.writes * self.event_bytes
    }
}

/// Draws worlds. Each number is drawn once from each of `count` equally likely spans (a Latin hypercube), so that few
/// worlds stand for all. The same seed gives the same worlds.
pub(crate) fn draw(workload: &Workload, count: usize, seed: u64) -> Vec<World> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut chances = vec![[0.0; DIMENSIONS]; count];
    for dimension in 0..DIMENSIONS {
        let mut spans: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            spans.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        for (world, span) in chances.iter_mut().zip(spans) {
            let within = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            world[dimension] = (span as f64 + within) / count as f64;
        }
    }
    chances.into_iter().map(|chances| World::from_chances(workload, chances)).collect()
}

/// The world of which every number is the middle one, for sentences.
pub(crate) fn middle(workload: &Workload) -> World {
    World::from_chances(workload, [0.5; DIMENSIONS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    #[test]
    fn drawn_numbers_follow_the_description() {
        let writes = Estimate::range(100.0, 1000.0, 2000.0, 0.8);
        let workload = Workload::new(writes, Estimate::one(500.0), Estimate::one(1e6));
        let worlds = draw(&workload, 1000, 7);
        let below = |limit: f64| worlds.iter().filter(|world| world.writes < limit).count();
        assert_eq!((below(100.0), below(1000.0), below(2000.0)), (100, 500, 900));
        assert!(worlds.iter().all(|world| world.event_bytes == 532.0));
    }

    #[test]
    fn the_same_seed_draws_the_same_worlds() {
        let workload = Workload::new(Estimate::range(1.0, 2.0, 3.0, 0.5), Estimate::one(500.0), Estimate::one(1e6));
        let writes = |seed| draw(&workload, 50, seed).iter().map(|world| world.writes).collect::<Vec<_>>();
        assert_eq!(writes(1), writes(1));
        assert_ne!(writes(1), writes(2));
    }
}
