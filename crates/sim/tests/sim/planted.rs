//! Bugs that are planted on purpose, each found by ordinary random runs within a stated number of seeds.

use anabranch_sim::{Options, Plant, run_seed};
use anabranch_split::plant::{Bug, plant};

/// A planted bug must be found by ordinary random runs, as the breach of the promise that it breaks.
fn assert_found(plant: Plant, within_seeds: u64, invariant: &str) {
    search(&format!("{plant:?}"), Some(plant), within_seeds, invariant);
}

/// As [`assert_found`], of a bug that has to sit inside of the product.
fn assert_found_inside(bug: Bug, within_seeds: u64, invariant: &str) {
    plant(Some(bug));
    search(&format!("{bug:?}"), None, within_seeds, invariant);
    plant(None);
}

fn search(name: &str, plant: Option<Plant>, within_seeds: u64, invariant: &str) {
    let mut others = Vec::new();
    for seed in 0..within_seeds {
        let report = run_seed(Options { plant, ..Options::new(seed) });
        match report.violation {
            Some(violation) if violation.invariant.contains(invariant) => return,
            Some(violation) => others.push((seed, violation)),
            None => {}
        }
    }
    panic!("{name} did not break {invariant} within {within_seeds} seeds; it broke {others:?}");
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
    assert_found(Plant::SetsWithoutComparing, 200, "record");
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

#[test]
fn verification_from_the_write_stream_is_found_s2() {
    assert_found(Plant::VerifiesWrites, 20, "S2");
}

#[test]
fn a_row_in_the_wrong_piece_is_found_s2() {
    assert_found(Plant::MovesRow, 20, "S2");
}

#[test]
fn a_record_without_fencing_is_found_s4() {
    assert_found(Plant::FencesNothing, 40, "S4");
}

#[test]
fn a_plain_checkpoint_write_is_found_s4() {
    assert_found(Plant::WritesCheckpointsPlainly, 40, "S4");
}

#[test]
fn a_checkpoint_before_its_rows_is_found_s2() {
    assert_found(Plant::ChecksBeforeRows, 20, "S2");
}

#[test]
fn a_cut_inside_an_event_is_found_s2() {
    assert_found_inside(Bug::CutsInsideEvent, 20, "S2");
}

#[test]
fn a_watermark_one_instant_too_late_is_found_s3() {
    assert_found_inside(Bug::PlansPastTheSeal, 20, "S3");
}

#[test]
fn a_plan_made_from_one_replica_is_found_s2() {
    assert_found(Plant::PlansFromOneReplica, 20, "S2");
}

#[test]
fn a_filter_that_is_believed_for_ever_is_found_s6() {
    assert_found_inside(Bug::KeepsOldFilter, 120, "S6");
}

#[test]
fn a_fallback_that_begins_anew_is_found_r1() {
    assert_found_inside(Bug::FallsBackToTheBeginning, 100, "R1");
}

#[test]
fn a_token_of_the_last_position_served_is_found_r2() {
    assert_found_inside(Bug::TokenOfLastServed, 40, "R2");
}

#[test]
fn pieces_read_during_a_backfill_are_found_r1() {
    assert_found_inside(Bug::IgnoresReopening, 100, "R1");
}

#[test]
fn other_settings_for_a_slice_that_writes_reach_are_found_t1() {
    assert_found_inside(Bug::TunesTooLate, 40, "T1");
}

#[test]
fn an_acknowledgement_after_a_pause_is_found_s3() {
    assert_found_inside(Bug::AcknowledgesLate, 100, "S3");
}

#[test]
fn time_that_is_sealed_too_early_is_found_s3() {
    assert_found_inside(Bug::SealsEarly, 40, "S3");
}
