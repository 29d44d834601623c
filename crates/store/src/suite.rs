//! The contract as tests that every back end passes unchanged. [`contract_suite!`](crate::contract_suite) makes one
//! test of each promise, [`durable_suite!`](crate::durable_suite) one of each promise of a store that can be reopened.
#![allow(clippy::unwrap_used)] // this is test code

pub mod concurrency;
pub mod durable;
pub mod fixture;
pub mod limits;
pub mod metadata;
pub mod model;
pub mod paging;
pub mod partitions;
pub mod scans;
pub mod tables;
pub mod writes;

use std::sync::Arc;

use crate::Store;

/// Hands the list of all promises to a macro, after what that macro was given.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_promises {
    ($callback:ident, $($given:tt)*) => {
        $crate::$callback! { $($given)* ;
            tables::a_table_is_made_once_however_often_it_is_asked_for,
            tables::tables_are_listed_in_order,
            tables::a_dropped_table_is_gone_with_its_rows,
            tables::a_table_made_again_is_empty,
            tables::a_missing_table_is_named_by_every_call,
            tables::tables_of_other_namespaces_are_other_tables,
            tables::a_write_that_meets_a_drop_leaves_nothing_behind,
            scans::a_scan_is_in_table_order_or_its_exact_reverse,
            scans::interval_bounds_are_half_open,
            scans::an_empty_interval_holds_nothing,
            scans::a_scan_goes_on_after_an_event,
            scans::a_scan_goes_on_after_a_row,
            scans::a_place_outside_of_the_interval_does_not_widen_it,
            scans::items_of_one_event_are_read_from_a_bound_on,
            scans::an_empty_partition_is_an_empty_page,
            scans::values_and_metadata_come_back_as_they_were_written,
            limits::a_page_ends_at_its_row_limit,
            limits::a_page_ends_at_its_byte_limit,
            limits::a_row_above_the_byte_limit_is_answered_alone,
            limits::a_page_says_when_more_follows,
            limits::a_scan_of_no_rows_is_refused,
            paging::pages_of_every_size_join_to_the_whole,
            paging::any_scan_answers_what_a_list_would,
            writes::writing_the_same_row_twice_leaves_one,
            writes::of_two_values_for_one_key_one_stays,
            writes::each_batch_of_a_call_is_answered_in_its_place,
            writes::a_batch_without_rows_is_refused,
            writes::a_large_value_is_kept,
            writes::a_large_batch_is_kept,
            partitions::neighbours_do_not_leak_into_a_partition,
            partitions::occupied_partitions_are_found_in_order,
            partitions::occupied_partitions_of_other_series_are_not_found,
            partitions::a_sample_followed_to_its_end_holds_every_partition_once,
            partitions::a_sample_begins_at_the_place_it_was_asked_for,
            metadata::a_document_is_created_once,
            metadata::versions_rise_and_a_conflict_shows_what_is_there,
            metadata::a_deleted_document_can_be_created_again,
            metadata::documents_are_listed_in_order_of_their_names,
            metadata::scopes_do_not_see_each_other,
            metadata::odd_names_and_values_are_kept,
            metadata::concurrent_increments_lose_none,
            metadata::of_many_creators_one_succeeds,
            concurrency::readers_never_see_a_part_of_a_batch,
            concurrency::a_writer_reads_what_it_wrote_among_many,
            concurrency::a_retry_beside_its_first_attempt_leaves_one_row,
        }
    };
}

/// One test for each promise of the contract. Takes a function without arguments whose future makes a fresh, empty
/// store, as `(Arc<dyn Store>, guard)`; the guard (a temporary directory, say) is dropped after the store.
/// The tests use the crate `tokio` of whoever invokes it.
#[macro_export]
macro_rules! contract_suite {
    ($make:expr) => {
        $crate::contract_promises! { contract_tests, $make }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests {
    ($make:expr ; $($area:ident :: $promise:ident,)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            let (store, guard) = ($make)().await;
            $crate::suite::$area::$promise(store).await;
            drop(guard);
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_calls {
    ($make:expr ; $($area:ident :: $promise:ident,)*) => { $(
        let (store, guard) = ($make)().await;
        $crate::suite::$area::$promise(store).await;
        drop(guard);
    )* };
}

/// Checks every promise of the contract, one after the other: for runtimes that a test can't choose by attribute,
/// such as the simulation's.
pub async fn run_all<G>(make: impl AsyncFn() -> (Arc<dyn Store>, G)) {
    contract_promises! { contract_calls, make }
}

/// One test for each promise of a store that outlives its process. Takes a function without arguments that makes a
/// place (a temporary directory, say), and one from a reference to it to the future of an `Arc<dyn Store>` opened there.
#[macro_export]
macro_rules! durable_suite {
    ($place:expr, $open:expr) => {
        $crate::durable_suite! { $place, $open ;
            acknowledged_rows_are_there_after_reopening,
            metadata_is_there_after_reopening,
            tables_are_there_after_reopening_and_dropped_ones_are_not,
            a_store_that_was_not_closed_has_everything_acknowledged,
            a_reopened_store_takes_writes,
        }
    };
    ($place:expr, $open:expr ; $($promise:ident,)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            let place = ($place)();
            $crate::suite::durable::$promise(&place, $open).await;
        }
    )* };
}

#[cfg(test)]
mod tests {
    /// A promise that no back end is asked to keep would be a test that can't fail.
    #[test]
    fn every_promise_is_in_a_suite() {
        let this = include_str!("suite.rs");
        let areas = [
            ("concurrency::", include_str!("suite/concurrency.rs")),
            ("", include_str!("suite/durable.rs")),
            ("limits::", include_str!("suite/limits.rs")),
            ("metadata::", include_str!("suite/metadata.rs")),
            ("paging::", include_str!("suite/paging.rs")),
            ("partitions::", include_str!("suite/partitions.rs")),
            ("scans::", include_str!("suite/scans.rs")),
            ("tables::", include_str!("suite/tables.rs")),
            ("writes::", include_str!("suite/writes.rs")),
        ];
        for (area, text) in areas {
            let promises = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            let names: Vec<&str> = promises.map(|line| line.split(['(', '<']).next().unwrap()).collect();
            assert!(!names.is_empty(), "{area}");
            for name in names {
                let listed = format!("            {area}{name},\n");
                assert_eq!(this.matches(&listed).count(), 1, "{area}{name}");
            }
        }
    }
}
