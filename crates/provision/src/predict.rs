//! What settings lead to, over all drawn worlds: sizes of partitions, wide ids, fan-out, tables.

use serde::{Deserialize, Serialize};

use crate::{
    candidate::{Candidate, DENSITY_HIGH_BYTES},
    sizes::PartitionSizes,
    world::World,
};

/// Classes of sizes end at twice these powers of four, 2 KiB to 2 TiB, so that one of them is the density target.
const CLASS_POWERS: std::ops::RangeInclusive<u32> = 5..=20;

/// Where a number lies over all worlds: the middle one, and the ends between which nine of ten are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// One in twenty is below.
    pub low: f64,
    /// Half of them are below.
    pub mid: f64,
    /// One in twenty is above.
    pub high: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        Spread { low: at(0.05), mid: at(0.5), high: at(0.95) }
    }
}

/// What settings lead to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Tables of the namespace.
    pub tables: u32,
    /// Partitions that hold anything, over all that is kept.
    pub partitions: Spread,
    /// Percentiles of their sizes.
    pub partition_bytes: SizePercentiles,
    /// Ids that have wide partitions.
    pub wide_ids: Spread,
    /// The share of all bytes that lies in wide partitions.
    pub wide_share: Spread,
    /// The biggest partition.
    pub widest_partition_bytes: Spread,
    /// All that is kept of the busiest id.
    pub widest_id_bytes: Spread,
    /// Partitions that a usual read asks for.
    pub fan_out_typical: Spread,
    /// Partitions that the longest reads ask for.
    pub fan_out_longest: Spread,
    /// Which share of the partitions is of which size.
    pub sizes: Vec<SizeClass>,
}

/// Percentiles of partition sizes, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizePercentiles {
    /// Half of the partitions are smaller.
    pub p50: Spread,
    /// Nine of ten are smaller.
    pub p90: Spread,
    /// All but one in a hundred are smaller.
    pub p99: Spread,
    /// All but one in a thousand are smaller.
    pub p999: Spread,
}

/// The share of partitions in a class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The biggest size in it.
    pub up_to_bytes: u64,
    /// The share, averaged over all worlds.
    pub share: f64,
}

pub(crate) fn predict(worlds: &[World], chosen: &Candidate) -> Prediction {
    let ends: Vec<f64> = CLASS_POWERS.map(|power| 2.0 * 4_f64.powi(power as i32)).collect();
    let mut shares = vec![0.0; ends.len()];
    let mut columns: [Vec<f64>; 11] = Default::default();
    for world in worlds {
        let sizes = PartitionSizes::new(world, &world.zipf.groups(), chosen.bucket(), chosen.event_buckets());
        let mut before = 0.0;
        for (sum, up_to) in shares.iter_mut().zip(sizes.shares_up_to(&ends)) {
            *sum += (up_to - before) / worlds.len() as f64;
            before = up_to;
        }
        let (wide_ids, wide_share) = sizes.wide(DENSITY_HIGH_BYTES as f64);
        let all = sizes.partitions() * chosen.event_buckets() * (world.kept / chosen.bucket()).max(1.0);
        let values = [
            all,
            sizes.percentile(0.5),
            sizes.percentile(0.9),
            sizes.percentile(0.99),
            sizes.percentile(0.999),
            wide_ids,
            wide_share,
            sizes.bytes_at(1.0),
            world.bytes_per_second() * world.zipf.share(1.0) * world.kept,
            chosen.fan_out(world.typical),
            chosen.fan_out(world.longest),
        ];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    let tables = Spread::of(worlds.iter().map(|world| chosen.tables(world)).collect()).mid.ceil() as u32;
    let [partitions, p50, p90, p99, p999, wide_ids, wide_share, widest, widest_id, typical, longest] =
        columns.map(Spread::of);
    Prediction {
        tables,
        partitions,
        partition_bytes: SizePercentiles { p50, p90, p99, p999 },
        wide_ids,
        wide_share,
        widest_partition_bytes: widest,
        widest_id_bytes: widest_id,
        fan_out_typical: typical,
        fan_out_longest: longest,
        sizes: classes(&ends, &shares),
    }
}

/// Without the empty classes at both ends.
fn classes(ends: &[f64], shares: &[f64]) -> Vec<SizeClass> {
    let worth_showing = |share: &f64| *share >= 0.000_5;
    let first = shares.iter().position(worth_showing).unwrap_or(0);
    let last = shares.iter().rposition(worth_showing).unwrap_or(0);
    let classes = ends.iter().zip(shares).map(|(end, share)| SizeClass { up_to_bytes: *end as u64, share: *share });
    classes.take(last + 1).skip(first).collect()
}
