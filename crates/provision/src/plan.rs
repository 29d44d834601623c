//! The Monte Carlo: a thousand worlds, every candidate in each of them, and the one that is least regretted.

use std::{thread, time::Duration};

use anabranch_model::{NamespaceConfig, Slo};
use serde::{Deserialize, Serialize};

use crate::{
    candidate::{Candidate, candidates},
    capacity::{self, Capacity},
    cost::{self, Cost, TERMS},
    predict::{self, Prediction},
    quantity::{duration_text, optional_duration_text, to_duration},
    reasons,
    sizes::PartitionSizes,
    workload::{Workload, WorkloadProblem},
    world::{self, World},
};

/// Worlds that a plan draws.
pub const DRAWS: usize = 1000;
/// The seed of a plan when none is given.
pub const DEFAULT_SEED: u64 = 1;
/// Bytes a second that a read gets out of a piece.
const PIECE_BYTES_PER_SECOND: f64 = 64e6;
const MIB: u64 = 1 << 20;
/// Pieces that a segment has at most.
const MOST_PIECES: f64 = 1024.0;

/// The answer: settings for a namespace, what they will lead to, and why they were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the draws: the same gives the same plan.
    pub seed: u64,
    /// How many worlds were drawn.
    pub draws: usize,
    /// Why these settings.
    pub reasons: Vec<String>,
    /// What deserves to be known besides.
    pub remarks: Vec<String>,
    /// What a namespace should be created with.
    pub settings: Settings,
    /// What is needed to carry it.
    pub capacity: Capacity,
    /// What the settings lead to.
    pub predicted: Prediction,
    /// What was planned for.
    pub workload: Workload,
}

/// The settings of a namespace that a plan decides on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Length of slices.
    pub seconds_per_slice: u32,
    /// Length of a time bucket.
    pub seconds_per_bucket: u32,
    /// Over how many partitions the events of a time bucket are spread.
    pub event_buckets: u32,
    /// How old an event may be when it is written.
    #[serde(with = "duration_text")]
    pub accept_limit: Duration,
    /// How long after its end a slice stops being read.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_duration_text")]
    pub close_after: Option<Duration>,
    /// How long after its end a slice is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_duration_text")]
    pub delete_after: Option<Duration>,
    /// How long after the accept limit a span counts as sealed.
    #[serde(with = "duration_text")]
    pub seal_margin: Duration,
    /// What reads should take.
    #[serde(with = "duration_text")]
    pub read_target: Duration,
    /// What reads may take.
    #[serde(with = "duration_text")]
    pub read_max: Duration,
    /// What writes should take.
    #[serde(with = "duration_text")]
    pub write_target: Duration,
    /// What writes may take.
    #[serde(with = "duration_text")]
    pub write_max: Duration,
    /// A partition is wide from this many bytes on.
    pub split_threshold_bytes: u64,
    /// The size that pieces should have.
    pub split_target_piece_bytes: u64,
}

impl Settings {
    /// A whole configuration: these settings, and defaults for the rest.
    pub fn to_config(&self) -> NamespaceConfig {
        let mut config = NamespaceConfig {
            seconds_per_slice: self.seconds_per_slice,
            seconds_per_bucket: self.seconds_per_bucket,
            event_buckets: self.event_buckets,
            accept_limit: self.accept_limit,
            close_after: self.close_after,
            delete_after: self.delete_after,
            seal_margin: self.seal_margin,
            read_slo: Slo { target: self.read_target, max: self.read_max },
            write_slo: Slo { target: self.write_target, max: self.write_max },
            ..NamespaceConfig::default()
        };
        config.split.threshold_bytes = self.split_threshold_bytes;
        config.split.target_piece_bytes = self.split_target_piece_bytes;
        config
    }
}

/// Plans a namespace for `workload`. The answer depends on the seed alone, not on the number of threads.
pub fn plan(workload: &Workload, seed: u64, threads: usize) -> Result<Plan, Vec<WorkloadProblem>> {
    let problems = workload.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    let worlds = world::draw(workload, DRAWS, seed);
    let middle = world::middle(workload);
    let candidates = candidates(&middle);
    let verdicts = judge(&worlds, &candidates, threads);
    let best = least_regretted(&verdicts);
    let chosen = candidates[best];
    let predicted = predict::predict(&worlds, &chosen);
    let settings = settings(workload, &chosen, predicted.widest_partition_bytes.mid);
    let mut remarks = workload.remarks();
    remarks.extend(reasons::remarks(&predicted, &chosen));
    Ok(Plan {
        seed,
        draws: DRAWS,
        reasons: reasons::reasons(&middle, &candidates, &verdicts, best, &settings),
        remarks,
        capacity: capacity::size(&worlds, &chosen),
        settings,
        predicted,
        workload: workload.clone(),
    })
}

/// How a candidate fared over all worlds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// Mean of every term.
    pub(crate) mean: Cost,
    /// Root of the mean square of what it cost more than the best candidate of each world: being far off in a few
    /// worlds counts more than being a little off in many.
    pub(crate) regret: f64,
    /// In which share of the worlds each term costs anything.
    pub(crate) costs_in: [f64; TERMS],
}

fn judge(worlds: &[World], candidates: &[Candidate], threads: usize) -> Vec<Verdict> {
    let chunk = worlds.len().div_ceil(threads.clamp(1, worlds.len()));
    // Each world gives a row of its own, and rows are summed in their order: the same sums for any number of threads.
    let rows: Vec<Vec<Cost>> = thread::scope(|scope| {
        let parts: Vec<_> = worlds
            .chunks(chunk)
            .map(|part| scope.spawn(|| part.iter().map(|world| costs(world, candidates)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("costs are arithmetic, which doesn't panic")).collect()
    });
    let mut verdicts = vec![Verdict::default(); candidates.len()];
    for row in &rows {
        let least = row.iter().map(Cost::total).fold(f64::INFINITY, f64::min);
        for (verdict, cost) in verdicts.iter_mut().zip(row) {
            for term in 0..TERMS {
                verdict.mean.terms[term] += cost.terms[term] / rows.len() as f64;
                verdict.costs_in[term] += f64::from(u8::from(cost.terms[term] > 0.0)) / rows.len() as f64;
            }
            verdict.regret += (cost.total() - least).powi(2) / rows.len() as f64;
        }
    }
    for verdict in &mut verdicts {
        verdict.regret = verdict.regret.sqrt();
    }
    verdicts
}

/// What every candidate costs in one world. Candidates that differ only in their slice share their partitions.
fn costs(world: &World, candidates: &[Candidate]) -> Vec<Cost> {
    let ranks = world.zipf.groups();
    let mut known: Vec<(Candidate, Cost)> = Vec::new();
    let mut costs = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let found = known.iter().find(|(other, _)| other.partitions == candidate.partitions).map(|(_, cost)| *cost);
        let of_partitions = found.unwrap_or_else(|| {
            let sizes = PartitionSizes::new(world, &ranks, candidate.bucket(), candidate.event_buckets());
            let cost = cost::of_partitions(world, &sizes, candidate);
            known.push((*candidate, cost));
            cost
        });
        costs.push(cost::with_slice(world, candidate, of_partitions));
    }
    costs
}

fn least_regretted(verdicts: &[Verdict]) -> usize {
    let all = verdicts.iter().enumerate();
    let best = all.min_by(|(_, one), (_, other)| one.regret.total_cmp(&other.regret));
    best.map(|(index, _)| index).expect("there is always a candidate: the longest slices are never left out")
}

fn settings(workload: &Workload, chosen: &Candidate, widest_bytes: f64) -> Settings {
    let read_max = to_duration(workload.read_max.mid());
    let write_max = to_duration(workload.write_max.mid());
    let seal_margin = Duration::from_secs(60).max(write_max + Duration::from_secs(30));
    let accept_limit = to_duration(workload.accept_seconds().mid().ceil());
    let close_after = workload.retention.map(|retention| {
        // A slice that still takes writes can't be closed.
        to_duration(retention.mid().ceil()).max(accept_limit + seal_margin)
    });
    let gap = read_max.max(write_max) + Duration::from_secs(600);
    let (split_threshold_bytes, split_target_piece_bytes) = split_sizes(workload.read_target.mid(), widest_bytes);
    Settings {
        seconds_per_slice: chosen.seconds_per_slice,
        seconds_per_bucket: chosen.partitions.seconds_per_bucket,
        event_buckets: chosen.partitions.event_buckets,
        accept_limit,
        close_after,
        delete_after: close_after.map(|close_after| close_after + gap),
        seal_margin,
        read_target: to_duration(workload.read_target.mid()),
        read_max,
        write_target: to_duration(workload.write_target.mid()),
        write_max,
        split_threshold_bytes,
        split_target_piece_bytes,
    }
}

/// Pieces that a read gets through in a small part of its target, and of which a segment needs no more than it may
/// have; a partition is worth splitting from two and a half of them on.
fn split_sizes(read_target: f64, widest_bytes: f64) -> (u64, u64) {
    let quick = (read_target * PIECE_BYTES_PER_SECOND / 4.0 / MIB as f64).clamp(1.0, 4.0);
    let quick = 1_u64 << (quick.log2().floor() as u32);
    let needed = (widest_bytes / MOST_PIECES / MIB as f64).ceil().max(1.0) as u64;
    let piece = quick.max(needed.next_power_of_two()) * MIB;
    ((quick * MIB * 5 / 2).max(piece), piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_the_read_target_and_the_widest_partition() {
        assert_eq!(split_sizes(0.5, 1e9), (10 * MIB, 4 * MIB));
        assert_eq!(split_sizes(0.15, 1e9), (5 * MIB, 2 * MIB));
        assert_eq!(split_sizes(0.01, 1e6), (5 * MIB / 2, MIB));
        assert_eq!(split_sizes(0.5, 30e9), (32 * MIB, 32 * MIB));
    }
}
