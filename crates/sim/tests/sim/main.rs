//! The simulation itself: the same seed gives the same run, ordinary seeds keep every promise (W1, W2, W3, R1, R2, R3, R4,
//! S1, S2, S3, S4, S5, S6, S7, T1), and planted bugs are found.

mod model;
mod planted;

use anabranch_sim::{Options, Reached, Report, run_seed};

fn assert_kept(report: &Report) {
    if let Some(violation) = &report.violation {
        let trace = report.trace.join("\n");
        panic!("seed {} breaks {}: {}\n{trace}", report.seed, violation.invariant, violation.what);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_another() {
    let mut hashes = Vec::new();
    for seed in [3, 14, 159, 2653] {
        let (first, second) = (run_seed(Options::new(seed)), run_seed(Options::new(seed)));
        assert_eq!((first.hash, first.lines), (second.hash, second.lines), "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        hashes.push(first.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 4);
}

#[test]
fn ordinary_seeds_keep_every_promise() {
    for seed in 100_000..100_020 {
        assert_kept(&run_seed(Options::new(seed)));
    }
}

/// Partitions do split themselves in ordinary runs, through everything that goes wrong.
#[test]
fn ordinary_seeds_split_partitions() {
    let reports: Vec<Report> = (100_000..100_020).map(|seed| run_seed(Options::new(seed))).collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (completed, pieces) = (sum(|report| report.figures.completed), sum(|report| report.figures.pieces));
    let (extended, invalidated) = (sum(|report| report.figures.extended), sum(|report| report.figures.invalidated));
    let (failed, taken_over) = (sum(|report| report.figures.failed), sum(|report| report.figures.taken_over));
    assert!(completed > 100 && pieces > 2 * completed, "{completed} segments of {pieces} pieces");
    assert!(extended > 10 && invalidated > 3, "{extended} extended, {invalidated} invalidated");
    assert!(failed > 10 && taken_over > 3, "{failed} attempts failed, {taken_over} taken over");
    let (crashed, retuned) = (sum(|report| report.figures.crashed_in_backfill), sum(|report| report.figures.retuned));
    assert!(crashed > 20, "{crashed} servers crashed in the middle of a backfill");
    assert!(retuned > 20, "{retuned} slices got other settings before a write reached them");
    // A fault that never happens proves nothing.
    let met = reports.iter().fold(Reached::default(), |met, report| met.and(report.reached));
    assert!(met.wrong_clocks > 5 && met.refused_by_clock > 10, "{met:?}");
    assert!(met.torn_batches > 0 && met.torn_seen > 0 && met.torn_missed > 0, "{met:?}");
    assert!(met.undecided_sets > 2 && met.decided_sets > 0, "{met:?}");
    assert!(met.bulk_pages > 500 && met.bulk_broken_off > 10, "{met:?}");
    assert!(met.search_pages > 100 && met.long_searches > 10, "{met:?}");
}
