//! Aggregates: what several histories hold is counted once, in whatever pages and from wherever it is read.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use anabranch_engine::{
    Aggregate, AggregateRequest, Counts, EngineError, ErrorKind, EventInput, Filter, GroupBy, GroupKey, ItemInput,
    PartialReason, Query, TimeInput,
};
use anabranch_model::{NamespaceConfig, ReadMode, Record, Timestamp};
use bytes::Bytes;

use crate::{
    fixture::{World, event, history, run},
    slow_store::run_slow,
    splits::config,
};

const SECOND: i64 = 1_000_000_000;

fn request(series: &[&str]) -> AggregateRequest {
    let series = series.iter().map(|&series| series.to_owned()).collect();
    AggregateRequest { namespace: "plays".to_owned(), series, ..AggregateRequest::default() }
}

/// All answers, added up, and how many there were.
async fn aggregate(world: &World, mut request: AggregateRequest) -> (BTreeMap<GroupKey, Counts>, usize) {
    let mut groups: BTreeMap<GroupKey, Counts> = BTreeMap::new();
    for answers in 1..10_000 {
        let Aggregate { groups: more, next_page_token, .. } = world.engine.aggregate(&request).await.unwrap();
        for (key, counts) in more {
            groups.entry(key).and_modify(|known| known.add(&counts)).or_insert(counts);
        }
        match next_page_token {
            Some(token) => request.page_token = token,
            None => return (groups, answers),
        }
    }
    panic!("the aggregate does not end");
}

/// The same, counted from what a scan reads.
fn counted(records: &[Record], key: impl Fn(&Record) -> GroupKey) -> BTreeMap<GroupKey, Counts> {
    let mut groups: BTreeMap<GroupKey, Counts> = BTreeMap::new();
    for record in records {
        let (time, bytes) = (record.position.time, record.bytes() as u64);
        let one = Counts { records: 1, items: record.items.len() as u64, bytes, earliest: time, latest: time };
        groups.entry(key(record)).and_modify(|known| known.add(&one)).or_insert(one);
    }
    groups
}

#[test]
fn a_history_is_counted_by_time_whether_it_is_split_or_not() {
    run(|world| async move {
        let (before, _) = world.split(config()).await;
        for mode in [ReadMode::Off, ReadMode::On] {
            world.mode(mode).await;
            let (all, _) = aggregate(&world, request(&["wide"])).await;
            assert_eq!(all, counted(&before, |_| GroupKey::default()), "{mode:?}");
            let minutes = GroupBy { step: Some(Duration::from_secs(60)), ..GroupBy::default() };
            let (by_minute, _) = aggregate(&world, AggregateRequest { group_by: minutes, ..request(&["wide"]) }).await;
            let minute = |record: &Record| {
                Some(Timestamp::from_nanos(record.position.time.nanos() / (60 * SECOND) * 60 * SECOND))
            };
            let expected = counted(&before, |record| GroupKey { start: minute(record), ..GroupKey::default() });
            assert!(expected.len() > 30);
            assert_eq!(by_minute, expected, "{mode:?}");
        }
        let half = AggregateRequest { start: Some(before[999].position.time), ..request(&["wide"]) };
        assert_eq!(aggregate(&world, half).await.0.values().map(|counts| counts.records).sum::<u64>(), 1000);
    });
}

#[test]
fn groups_are_told_apart_by_series_and_by_the_value_of_an_item() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        let mut events = Vec::new();
        for (series, device, count) in
            [("a", Some("phone"), 3), ("a", Some("tv"), 2), ("b", Some("tv"), 4), ("b", None, 1)]
        {
            for at in 0..count {
                let items: Vec<(&str, &str)> =
                    device.map(|device| ("device", device)).into_iter().chain([("k", "v")]).collect();
                events.push(event(series, now - at, &format!("{device:?}"), &items));
            }
        }
        world.write(events).await.unwrap();
        let records = |groups: BTreeMap<GroupKey, Counts>| -> Vec<(Option<String>, Option<Bytes>, u64)> {
            groups.into_iter().map(|(key, counts)| (key.series, key.value, counts.records)).collect()
        };
        let (phone, tv) = (Some(Bytes::from("phone")), Some(Bytes::from("tv")));
        let group_by = GroupBy { item_key: Some("device".to_owned()), ..GroupBy::default() };
        let both = AggregateRequest { group_by, ..request(&["a", "b", "nobody"]) };
        let (groups, _) = aggregate(&world, both.clone()).await;
        assert_eq!(records(groups), [(None, None, 1), (None, phone.clone(), 3), (None, tv.clone(), 6)]);
        let by_both = AggregateRequest { group_by: GroupBy { series: true, ..both.group_by.clone() }, ..both.clone() };
        let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
        let expected = [(a.clone(), phone, 3), (a, tv.clone(), 2), (b.clone(), None, 1), (b, tv.clone(), 4)];
        assert_eq!(records(aggregate(&world, by_both).await.0), expected);
        let only = Query::Item(Filter { key: "device".to_owned(), value: tv.clone() });
        let (groups, _) = aggregate(&world, AggregateRequest { query: Some(only), ..both }).await;
        assert_eq!(records(groups), [(None, tv, 6)]);
    });
}

/// R1, R2: an answer that runs out of time says so, and what it hadn't counted is counted by the next, once.
#[test]
fn answers_that_run_out_of_time_add_up() {
    run_slow(|world, slow| async move {
        for series in ["a", "b"] {
            for first in (0..5000).step_by(500) {
                let some = (first..first + 500).map(|at| event(series, world.now() - at, "e", &[("k", "value")]));
                world.write(some.collect()).await.unwrap();
            }
        }
        let short: Vec<String> = (0..40).map(|at| format!("short-{at}")).collect();
        for series in &short {
            world.write(vec![event(series, world.now(), "e", &[("k", "value")])]).await.unwrap();
        }
        slow.scan_millis.store(100, Ordering::Relaxed);
        // The time runs out between two histories.
        let short: Vec<&str> = short.iter().map(String::as_str).collect();
        for millis in [330, 370, 410, 450] {
            let each = AggregateRequest { timeout: Some(Duration::from_millis(millis)), ..request(&short) };
            let (groups, answers) = aggregate(&world, each).await;
            assert!(answers > 2, "{answers} answers");
            assert_eq!(groups[&GroupKey::default()].records, 40, "within {millis} ms");
        }
        let both = AggregateRequest { timeout: Some(Duration::from_millis(400)), ..request(&["a", "b"]) };
        let first = world.engine.aggregate(&both).await.unwrap();
        assert_eq!(first.partial.unwrap().reason, PartialReason::Slo);
        assert!(first.next_page_token.is_some() && !first.groups.is_empty(), "{first:?}");
        let (groups, answers) = aggregate(&world, both.clone()).await;
        assert!(answers > 2, "{answers} answers");
        assert_eq!(groups[&GroupKey::default()].records, 10_000);
        slow.scan_millis.store(1000, Ordering::Relaxed);
        let nothing = world.engine.aggregate(&both).await.unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::DeadlineExceeded, "{nothing}");
    });
}

/// An event that is too large for one record is one record all the same, in the group of an item that comes late.
#[test]
fn an_event_in_parts_is_counted_once() {
    run(|world| async move {
        let mut config = NamespaceConfig::default();
        config.page_limits.max_record_bytes = 4096;
        config.page_limits.default_page_size = 3;
        world.namespace(config).await;
        let item = |at: u8| ItemInput { key: format!("part{at:02}"), value: vec![at; 1500].into(), metadata: None };
        let large = |at: i64| EventInput {
            series: "large".to_owned(),
            time: Some(TimeInput::Nanos(world.now() - at)),
            id: format!("e{at}"),
            items: (0..20).map(item).collect(),
        };
        world.write((0..10).map(large).collect()).await.unwrap();
        let parts = world.scan(history("large")).await.0;
        assert!(parts.len() > 50, "{} parts", parts.len());
        let group_by = GroupBy { item_key: Some("part19".to_owned()), ..GroupBy::default() };
        let (groups, _) = aggregate(&world, AggregateRequest { group_by, ..request(&["large"]) }).await;
        let (key, counts) = groups.first_key_value().unwrap();
        assert_eq!((groups.len(), key.value.clone()), (1, Some(Bytes::from(vec![19; 1500]))));
        assert_eq!((counts.records, counts.items), (10, 200));
    });
}

/// Memory is bounded: an answer ends after so many groups, and the next goes on.
#[test]
fn an_answer_of_many_groups_ends_and_goes_on() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        for first in (0..25_000).step_by(1000) {
            let some = (first..first + 1000).map(|at| event("a", now - at * 1000, "e", &[("k", "v")]));
            world.write(some.collect()).await.unwrap();
        }
        let group_by = GroupBy { step: Some(Duration::from_micros(1)), ..GroupBy::default() };
        let first = world.engine.aggregate(&AggregateRequest { group_by: group_by.clone(), ..request(&["a"]) }).await;
        let first = first.unwrap();
        assert!((10_000..12_000).contains(&first.groups.len()), "{} groups", first.groups.len());
        assert_eq!(first.partial, None, "nothing is missing from what it says");
        let (groups, answers) = aggregate(&world, AggregateRequest { group_by, ..request(&["a"]) }).await;
        assert_eq!((groups.len(), answers), (25_000, 3));
        assert!(groups.values().all(|counts| counts.records == 1));
    });
}

#[test]
fn what_can_not_be_counted_is_refused_with_the_reason() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let refused =
            async |request: AggregateRequest| -> EngineError { world.engine.aggregate(&request).await.unwrap_err() };
        let nobody = refused(request(&[])).await;
        assert!(
            nobody.kind() == ErrorKind::Unimplemented && nobody.to_string().contains("time_series_ids"),
            "{nobody}"
        );
        let step = GroupBy { step: Some(Duration::ZERO), ..GroupBy::default() };
        let nothing = refused(AggregateRequest { group_by: step, ..request(&["a"]) }).await;
        assert!(nothing.to_string().contains("group_by.time_step"), "{nothing}");
        for token in ["7.x", "x", "0.forged", "-1."] {
            let error = refused(AggregateRequest { page_token: token.to_owned(), ..request(&["a"]) }).await;
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{token}: {error}");
        }
        let elsewhere = refused(AggregateRequest { namespace: "elsewhere".to_owned(), ..request(&["a"]) }).await;
        assert_eq!(elsewhere.kind(), ErrorKind::NotFound);
    });
}
