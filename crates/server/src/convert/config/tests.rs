//! Settings survive the way to the engine and back, and a change changes what it says and nothing else.

use std::time::Duration;

use anabranch_model::{PageLimits, Slo, SplitSettings, WriteLimits};
use proptest::prelude::*;

use super::*;

fn any_duration() -> impl Strategy<Value = Duration> {
    (0u64..315_576_000_000, 0u32..1_000_000_000).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn any_slo() -> impl Strategy<Value = Slo> {
    (any_duration(), any_duration()).prop_map(|(target, max)| Slo { target, max })
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (Timestamp::EARLIEST.nanos()..=Timestamp::LATEST.nanos()).prop_map(Timestamp::from_nanos)
}

fn any_block_list() -> impl Strategy<Value = Vec<BlockedSeries>> {
    let entry = (any::<bool>(), any::<bool>(), ".{0,8}", any_time(), proptest::option::of(any_time()));
    proptest::collection::vec(entry, 0..4).prop_map(|entries| {
        let blocked = |(index, (writes, reads, reason, since, expires))| BlockedSeries {
            series: TimeSeriesId::new(format!("series:{index}")).unwrap(),
            writes,
            reads,
            reason,
            since,
            expires,
        };
        entries.into_iter().enumerate().map(blocked).collect()
    })
}

prop_compose! {
    fn any_split()(
        (threshold_bytes, target_piece_bytes) in any::<(u64, u64)>(),
        (block_bytes, compare_percent, promote_comparisons) in any::<(u32, u32, u32)>(),
        (detect, promote, must_pay) in any::<(bool, bool, bool)>(),
        strategy in prop_oneof![Just(SplitStrategy::TimeRange), Just(SplitStrategy::EventBucket)],
        packing in prop_oneof![Just(Packing::Rows), Just(Packing::Plain), Just(Packing::Lz4), Just(Packing::Zstd)],
        promote_over in any_duration(),
    ) -> SplitSettings {
        SplitSettings {
            threshold_bytes,
            target_piece_bytes,
            detect,
            strategy,
            packing,
            block_bytes,
            compare_percent,
            promote,
            promote_comparisons,
            promote_over,
            must_pay,
        }
    }
}

prop_compose! {
    fn any_limits()(
        small in any::<[u32; 5]>(), big in any::<[u64; 5]>(), partial_at_target in any::<bool>(),
    ) -> (PageLimits, WriteLimits) {
        let pages = PageLimits {
            default_page_size: small[0],
            max_page_size: small[1],
            default_page_bytes: big[0],
            max_page_bytes: big[1],
            max_record_bytes: big[2],
            partial_at_target,
        };
        let writes = WriteLimits {
            max_events_per_request: small[2],
            max_request_bytes: big[3],
            max_items_per_event: small[3],
            max_item_bytes: big[4],
            max_id_bytes: small[4],
        };
        (pages, writes)
    }
}

prop_compose! {
    fn any_config()(
        numbers in any::<[u32; 4]>(),
        (accept_limit, drift_limit, seal_margin) in (any_duration(), any_duration(), any_duration()),
        close_after in proptest::option::of(any_duration()),
        delete_after in proptest::option::of(any_duration()),
        (read_slo, write_slo) in (any_slo(), any_slo()),
        (page_limits, write_limits) in any_limits(),
        split in any_split(),
        tuner in prop::sample::select(vec![TunerMode::Off, TunerMode::Propose, TunerMode::Apply]),
        block_list in any_block_list(),
    ) -> NamespaceConfig {
        NamespaceConfig {
            seconds_per_slice: numbers[0],
            seconds_per_bucket: numbers[1],
            event_buckets: numbers[2],
            slices_ahead: numbers[3],
            accept_limit,
            drift_limit,
            close_after,
            delete_after,
            seal_margin,
            read_slo,
            write_slo,
            page_limits,
            write_limits,
            split,
            tuner,
            block_list,
        }
    }
}

const NOW: Timestamp = Timestamp::from_seconds(1_774_692_000);

fn patched(config: &NamespaceConfig, message: v1::NamespaceConfig, clear: &[&str]) -> NamespaceConfig {
    let clear: Vec<String> = clear.iter().map(|name| (*name).to_owned()).collect();
    let mut config = config.clone();
    ConfigPatch::new(message, &clear).unwrap().apply(&mut config, NOW);
    config
}

proptest! {
    #[test]
    fn settings_survive_the_way_to_the_engine_and_back(config in any_config()) {
        let message = config_message(&config);
        // The time since when a series is blocked is the server's: it is kept from the list that was there.
        let before = NamespaceConfig { block_list: config.block_list.clone(), ..NamespaceConfig::default() };
        let back = patched(&before, message.clone(), &[]);
        prop_assert_eq!(config_message(&back), message);
        prop_assert_eq!(back, config);
    }

    #[test]
    fn an_empty_change_changes_nothing(config in any_config()) {
        prop_assert_eq!(patched(&config, v1::NamespaceConfig::default(), &[]), config);
    }

    #[test]
    fn clearing_everything_gives_the_defaults(config in any_config()) {
        let mut names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        names.push("blockList");
        prop_assert_eq!(patched(&config, v1::NamespaceConfig::default(), &names), NamespaceConfig::default());
    }
}

#[test]
fn groups_merge_field_by_field() {
    let message = v1::NamespaceConfig {
        read_slo: Some(v1::Slo { target: None, max: duration(Duration::from_secs(9)) }),
        page_limits: Some(v1::PageLimits { max_page_size: Some(7), ..Default::default() }),
        ..Default::default()
    };
    let mut expected = NamespaceConfig::default();
    expected.read_slo.max = Duration::from_secs(9);
    expected.page_limits.max_page_size = 7;
    assert_eq!(patched(&NamespaceConfig::default(), message, &[]), expected);
}

#[test]
fn groups_and_single_settings_are_cleared_by_either_spelling() {
    let defaults = NamespaceConfig::default();
    let mut config = defaults.clone();
    config.read_slo = Slo { target: Duration::from_secs(1), max: Duration::from_secs(2) };
    config.delete_after = Some(Duration::from_secs(3));
    config.event_buckets = 8;
    let cleared = patched(&config, v1::NamespaceConfig::default(), &["readSlo", "delete_after"]);
    assert_eq!(cleared, NamespaceConfig { event_buckets: 8, ..defaults.clone() });
    let cleared = patched(&config, v1::NamespaceConfig::default(), &["readSlo.max", "eventBuckets"]);
    assert_eq!(cleared.read_slo, Slo { max: defaults.read_slo.max, ..config.read_slo });
    assert_eq!(cleared.event_buckets, 1);
}

#[test]
fn a_blocked_series_keeps_the_moment_since_when_it_is() {
    let entry = |series: &str| v1::BlockedSeries {
        time_series_id: series.to_owned(),
        writes: true,
        since: timestamp(Timestamp::from_seconds(5)),
        ..Default::default()
    };
    let mut config = NamespaceConfig::default();
    let known = Timestamp::from_seconds(1_000);
    config.block_list = vec![BlockedSeries {
        series: TimeSeriesId::new("old").unwrap(),
        writes: false,
        reads: true,
        reason: String::new(),
        since: known,
        expires: None,
    }];
    let message = v1::NamespaceConfig { block_list: vec![entry("old"), entry("new")], ..Default::default() };
    let since: Vec<Timestamp> = patched(&config, message, &[]).block_list.iter().map(|entry| entry.since).collect();
    assert_eq!(since, [known, NOW]);
}

#[test]
fn everything_that_cannot_be_is_named() {
    let negative = Some(anabranch_api::wkt::Duration { seconds: -1, nanos: 0 });
    let message = v1::NamespaceConfig {
        accept_limit: negative,
        write_slo: Some(v1::Slo { target: None, max: negative }),
        split: Some(v1::SplitSettings { strategy: Some(0), packing: Some(9), ..Default::default() }),
        event_buckets: Some(2),
        block_list: vec![v1::BlockedSeries::default()],
        ..Default::default()
    };
    let clear = ["colour".to_owned(), "eventBuckets".to_owned(), "blockList".to_owned()];
    let Err(EngineError::Refused(violations)) = ConfigPatch::new(message, &clear) else { panic!("must be refused") };
    let lines: Vec<String> = violations.iter().map(|found| format!("{}: {}", found.field, found.reason)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    config.accept_limit: a duration must not be negative, as -1s is
    config.write_slo.max: a duration must not be negative, as -1s is
    config.split.strategy: 0 is no strategy; take TIME_RANGE or EVENT_BUCKET
    config.split.packing: 9 is no packing; take ROWS, PLAIN, LZ4 or ZSTD
    config.block_list[0].time_series_id: must not be empty
    clear[0]: there is no setting `colour`; known are seconds_per_slice, seconds_per_bucket, event_buckets, accept_limit, drift_limit, close_after, delete_after, seal_margin, slices_ahead, read_slo, write_slo, page_limits, write_limits, split, tuner, block_list
    clear[1]: `event_buckets` is set in `config` too; take one of the two
    clear[2]: `block_list` is set in `config` too; take one of the two
    ");
}
