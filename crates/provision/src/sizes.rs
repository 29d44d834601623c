//! Sizes of partitions that a world makes of given settings. An id is taken to write evenly over time, as often as its
//! rank says; a partition exists once it holds an event.

use crate::{world::World, zipf::RankGroup};

/// How the partitions of a world are sized when time is cut into buckets.
pub(crate) struct PartitionSizes<'a> {
    world: &'a World,
    /// Events of all ids that fall into one time bucket and one event bucket.
    events: f64,
    /// Per group of ranks: its last rank, and how many partitions a bucket has up to there.
    groups: Vec<(f64, f64)>,
}

impl<'a> PartitionSizes<'a> {
    /// `ranks` are the groups of the world's ids, which don't depend on the settings.
    pub(crate) fn new(world: &'a World, ranks: &[RankGroup], seconds_per_bucket: f64, event_buckets: f64) -> Self {
        let events = world.writes * seconds_per_bucket / event_buckets;
        let mut groups = Vec::with_capacity(ranks.len());
        let mut partitions = 0.0;
        for group in ranks {
            partitions += group.ids * chance_of_any(events * group.share);
            groups.push((group.last, partitions));
        }
        PartitionSizes { world, events, groups }
    }

    /// Partitions that one time bucket has, for one event bucket.
    pub(crate) fn partitions(&self) -> f64 {
        self.groups.last().map_or(0.0, |(_, partitions)| *partitions)
    }

    /// The mean bytes of a partition of the id of this rank.
    pub(crate) fn bytes_at(&self, rank: f64) -> f64 {
        let events = self.events * self.world.zipf.share(rank);
        // Given that it holds at least one.
        (events / chance_of_any(events)).max(1.0) * self.world.event_bytes
    }

    /// The size that this share of the partitions doesn't exceed.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let wanted = self.partitions() * (1.0 - share);
        let at = self.groups.partition_point(|(_, partitions)| *partitions < wanted);
        let Some(&(end, partitions)) = self.groups.get(at) else { return self.bytes_at(self.world.zipf.ids) };
        let (before, partitions_before) = if at == 0 { (0.0, 0.0) } else { self.groups[at - 1] };
        let part = if partitions > partitions_before {
            (wanted - partitions_before) / (partitions - partitions_before)
        } else {
            1.0
        };
        self.bytes_at((before + part * (end - before)).max(1.0))
    }

    /// How many ids have partitions above `threshold`, and which share of all bytes lies in those.
    pub(crate) fn wide(&self, threshold_bytes: f64) -> (f64, f64) {
        let share = threshold_bytes / self.world.event_bytes / self.events;
        let ids = self.world.zipf.ids_with(share);
        (ids, if ids < 1.0 { 0.0 } else { self.world.zipf.share_up_to(ids) })
    }

    /// The share of the partitions that are not bigger than each of these sizes.
    pub(crate) fn shares_up_to(&self, sizes: &[f64]) -> Vec<f64> {
        let all = self.partitions();
        let bigger = |size: f64| {
            let end = self.groups.partition_point(|(end, _)| self.bytes_at(*end) > size);
            if end == 0 { 0.0 } else { self.groups[end - 1].1 }
        };
        sizes.iter().map(|size| 1.0 - bigger(*size) / all).collect()
    }
}

/// The chance that something that happens `mean` times on average happens at all.
fn chance_of_any(mean: f64) -> f64 {
    -(-mean).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Estimate, Skew, Workload, world};

    fn world(writes: f64, ids: f64, exponent: f64) -> World {
        let mut workload = Workload::new(Estimate::one(writes), Estimate::one(968.0), Estimate::one(ids));
        workload.skew = Skew::Zipf(Estimate::one(exponent));
        world::middle(&workload)
    }

    #[test]
    fn even_ids_have_even_partitions() {
        // 100 ids, 1,000 events a second of 1,000 bytes: 10 events a second each.
        let world = world(1000.0, 100.0, 0.0);
        let sizes = PartitionSizes::new(&world, &world.zipf.groups(), 100.0, 1.0);
        assert!((sizes.percentile(0.5) / 1e6 - 1.0).abs() < 0.01, "{}", sizes.percentile(0.5));
        assert!((sizes.percentile(0.99) / 1e6 - 1.0).abs() < 0.01);
        assert!((sizes.partitions() - 100.0).abs() < 1e-6);
        assert_eq!(sizes.wide(0.9e6).0, 100.0);
        assert_eq!(sizes.wide(1.1e6), (0.0, 0.0));
    }

    #[test]
    fn sparse_ids_have_a_partition_for_each_event() {
        let world = world(1.0, 1e6, 0.0);
        let sizes = PartitionSizes::new(&world, &world.zipf.groups(), 60.0, 1.0);
        assert!((sizes.partitions() - 60.0).abs() < 0.1, "{}", sizes.partitions());
        assert!((sizes.percentile(0.99) - 1000.0).abs() < 1.0);
    }

    #[test]
    fn percentiles_agree_with_counting() {
        let world = world(5000.0, 20_000.0, 0.9);
        let sizes = PartitionSizes::new(&world, &world.zipf.groups(), 3600.0, 2.0);
        let mut counted: Vec<f64> = (1..=20_000).map(|rank| sizes.bytes_at(f64::from(rank))).collect();
        counted.sort_by(f64::total_cmp);
        for share in [0.5, 0.9, 0.99] {
            let exact = counted[(share * 20_000.0) as usize];
            assert!((sizes.percentile(share) / exact - 1.0).abs() < 0.03, "p{share}");
        }
        let (ids, bytes) = sizes.wide(10e6);
        assert!((ids - counted.iter().filter(|size| **size >= 10e6).count() as f64).abs() <= 1.0);
        let wide: f64 = counted.iter().filter(|size| **size >= 10e6).sum();
        assert!((bytes - wide / counted.iter().sum::<f64>()).abs() < 0.01);
    }
}
