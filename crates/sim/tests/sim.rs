//! The simulation itself: the same seed gives the same run, ordinary seeds keep every promise (W1, W2, W3, R1, R2, R3),
//! and planted bugs are found.

use anabranch_sim::{Options, Plant, Report, run_seed};

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

/// A planted bug must be found by ordinary random runs, as the breach of the promise that it breaks.
fn assert_found(plant: Plant, within_seeds: u64, invariant: &str) {
    let mut others = Vec::new();
    for seed in 0..within_seeds {
        let report = run_seed(Options { plant: Some(plant), ..Options::new(seed) });
        match report.violation {
            Some(violation) if violation.invariant.contains(invariant) => return,
            Some(violation) => others.push((seed, violation)),
            None => {}
        }
    }
    panic!("{plant:?} did not break {invariant} within {within_seeds} seeds; it broke {others:?}");
}

#[test]
fn an_acknowledgement_before_the_sync_is_found_w1() {
    assert_found(Plant::AcksBeforeSync, 30, "W1");
}

#[test]
fn a_lost_write_is_found_w1() {
    assert_found(Plant::LosesWrite, 10, "W1");
}

#[test]
fn a_row_left_out_of_a_batch_is_found_r1() {
    assert_found(Plant::DropsRowOfBatch, 10, "R1");
}

#[test]
fn a_row_repeated_across_fetches_is_found_w2() {
    assert_found(Plant::RepeatsRow, 20, "W2");
}

#[test]
fn an_interval_that_starts_late_is_found_w1() {
    assert_found(Plant::StartsLate, 10, "W1");
}

#[test]
fn an_interval_that_ends_late_is_found_r1() {
    assert_found(Plant::EndsLate, 20, "R1");
}

#[test]
fn swapped_values_are_found_r1() {
    assert_found(Plant::SwapsValues, 10, "R1");
}

#[test]
fn a_scan_that_begins_anew_is_found_r1() {
    assert_found(Plant::IgnoresAfter, 20, "R1");
}

#[test]
fn an_end_that_comes_too_early_is_found_r1() {
    assert_found(Plant::EndsEarly, 20, "R1");
}

#[test]
fn a_partition_missing_from_a_list_is_found_r1() {
    assert_found(Plant::MissesOccupied, 20, "R1");
}

#[test]
fn a_compare_and_set_that_does_not_compare_is_found() {
    // W1 survives it nearly always: a slice that gets lost is made anew before anything is written to it.
    assert_found(Plant::SetsWithoutComparing, 100, "record");
}

#[test]
fn good_events_of_a_refused_request_are_found_w3() {
    assert_found(Plant::StoresRefused, 10, "W3");
}

#[test]
fn a_page_with_a_record_too_many_is_found_r3() {
    assert_found(Plant::OverfillsPage, 10, "R3");
}

#[test]
fn a_short_page_that_does_not_say_so_is_found_r2() {
    assert_found(Plant::HidesPartial, 30, "R2");
}

#[test]
fn a_lost_token_is_found_r1() {
    assert_found(Plant::LosesToken, 10, "R1");
}

#[test]
fn a_forgotten_limit_over_all_pages_is_found_r3() {
    assert_found(Plant::ForgetsTotal, 20, "R3");
}
