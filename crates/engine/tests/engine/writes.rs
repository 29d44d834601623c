//! Writes: everything is checked first, retries leave one row, refused requests store nothing, old events need a window.

use std::time::Duration;

use anabranch_engine::{EngineError, ErrorKind, EventInput, ItemInput, TimeInput, WriteRequest};
use anabranch_model::{BlockedSeries, Interval, NamespaceConfig, TimeSeriesId, Timestamp};
use bytes::Bytes;

use crate::fixture::{event, history, ids, run};

const HOUR: i64 = 3_600_000_000_000;

/// W1
#[test]
fn an_acknowledged_event_is_read_back_with_its_bytes() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let mut written = event("a", world.now(), "e", &[("k", "v"), ("b", "")]);
        written.items[0].metadata = Some(Bytes::new());
        world.write(vec![written]).await.unwrap();
        let page = world.read(history("a")).await.unwrap();
        let items = &page.records[0].items;
        assert_eq!((items[0].key.as_str(), items[1].key.as_str()), ("b", "k"));
        assert_eq!((items[0].metadata.as_ref(), items[1].metadata.as_ref()), (None, Some(&Bytes::new())));
        assert_eq!(page.next_page_token, None);
    });
}

/// W1
#[test]
fn acknowledged_events_survive_a_crash_of_the_store() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        world.store.crash();
        let again = crate::fixture::World::on(world.env.clone(), world.store.clone()).await;
        assert_eq!(again.scan(history("a")).await.0.len(), 1);
    });
}

/// W2
#[test]
fn a_retry_of_a_write_leaves_one_row() {
    run(|world| async move {
        world.namespace(NamespaceConfig { event_buckets: 7, ..NamespaceConfig::default() }).await;
        let now = world.now();
        for _ in 0..3 {
            world.write(vec![event("a", now, "e", &[("k", "v"), ("l", "w")])]).await.unwrap();
        }
        let (records, _) = world.scan(history("a")).await;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].items.len(), 2);
    });
}

/// W3
#[test]
fn a_refused_request_stores_nothing_and_names_every_reason() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        let twins = event("a", now, "e3", &[("k", "1"), ("k", "2")]);
        let no_time = EventInput { time: None, ..event("a", now, "e4", &[("k", "v")]) };
        let far = EventInput { time: Some(TimeInput::Unrepresentable), ..event("a", now, "e5", &[("k", "v")]) };
        let big = EventInput {
            items: vec![ItemInput { key: "k".into(), value: vec![0; 2 << 20].into(), metadata: None }],
            ..event("a", now, "e6", &[])
        };
        let events = vec![
            event("a", now, "good", &[("k", "v")]),
            event("", now, "", &[]),
            event("a", now - 40 * HOUR, "old", &[("k", "v")]),
            twins,
            no_time,
            far,
            big,
            event("a", now + HOUR, "ahead", &[("", "v")]),
            event(&"x".repeat(300), now, "nul\0", &[("k", "v")]),
        ];
        let Err(EngineError::Refused(violations)) = world.write(events).await else { panic!("not refused") };
        let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
        let expected = [
            "events[1].time_series_id",
            "events[1].event_id",
            "events[1].event_items",
            "events[2].event_time",
            "events[3].event_items[1].event_item_key",
            "events[4].event_time",
            "events[5].event_time",
            "events[6].event_items[0].event_item_value",
            "events[7].event_time",
            "events[7].event_items[0].event_item_key",
            "events[8].time_series_id",
            "events[8].event_id",
        ];
        assert_eq!(fields, expected);
        let old = &violations[3].reason;
        assert!(old.contains("anabranch import") && old.contains("anabranch backfill open"), "{old}");
        assert_eq!(world.scan(history("a")).await.0.len(), 0);
    });
}

#[test]
fn limits_of_a_request_are_configuration() {
    run(|world| async move {
        let mut config = NamespaceConfig::default();
        config.write_limits.max_events_per_request = 2;
        config.write_limits.max_request_bytes = 1024;
        config.write_limits.max_item_bytes = 1024;
        world.namespace(config).await;
        let now = world.now();
        let three = (0..3).map(|at| event("a", now + at, "e", &[("k", "v")])).collect();
        assert!(world.write(three).await.unwrap_err().to_string().contains("at most 2"));
        let value = "x".repeat(700);
        let two = (0..2).map(|at| event("a", now + at, "e", &[("k", value.as_str())])).collect();
        assert!(world.write(two).await.unwrap_err().to_string().contains("at most 1024"));
        assert!(world.write(Vec::new()).await.unwrap_err().to_string().contains("at least one event"));
    });
}

#[test]
fn the_window_has_exact_edges() {
    run(|world| async move {
        let config = NamespaceConfig::default();
        let (accept, drift) = (config.accept_limit.as_nanos() as i64, config.drift_limit.as_nanos() as i64);
        world.namespace(config).await;
        // The slice at the old edge has to be made and known everywhere before its time can be written to the nanosecond.
        world.write(vec![event("a", world.now() - accept + 60_000_000_000, "first", &[("k", "v")])]).await.unwrap();
        for (offset, taken) in [(-accept, true), (drift, true), (-accept - 1, false), (drift + 1, false)] {
            let result = world.write(vec![event("a", world.now() + offset, "e", &[("k", "v")])]).await;
            assert_eq!(result.is_ok(), taken, "{offset} {result:?}");
            let kind = result.err().map(|error| error.kind());
            assert!(kind.is_none() || kind == Some(ErrorKind::OutOfRange), "{kind:?}");
        }
    });
}

/// The window is checked again when the batch goes to the store: waiting may have moved an event out of it.
#[test]
fn an_event_that_leaves_the_window_while_it_waits_is_refused() {
    run(|world| async move {
        let config = NamespaceConfig { seconds_per_slice: 3600, seconds_per_bucket: 60, ..NamespaceConfig::default() };
        let accept = config.accept_limit.as_nanos() as i64;
        world.namespace(config).await;
        // Its slice has yet to be made, and to become known everywhere: that takes two seconds.
        let late = world.write(vec![event("a", world.now() - accept + 1_000_000_000, "e", &[("k", "v")])]).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::OutOfRange);
        assert_eq!(world.scan(history("a")).await.0.len(), 0);
    });
}

#[test]
fn a_blocked_series_is_refused_with_reason_and_since_when() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let since = world.env.now();
        let blocked = BlockedSeries {
            series: TimeSeriesId::new("bot").unwrap(),
            writes: true,
            reads: true,
            reason: "runaway device".to_owned(),
            since,
            expires: Some(since.saturating_add(Duration::from_secs(60))),
        };
        world.engine.update_namespace("plays", |config| config.block_list = vec![blocked.clone()]).await.unwrap();
        let written = world.write(vec![event("bot", world.now(), "e", &[("k", "v")])]).await.unwrap_err();
        assert_eq!(written.kind(), ErrorKind::PermissionDenied);
        let read = world.read(history("bot")).await.unwrap_err();
        for error in [written, read] {
            let text = error.to_string();
            assert!(text.contains("runaway device") && text.contains(&since.to_string()), "{text}");
        }
        world.write(vec![event("other", world.now(), "e", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(61)).await;
        world.write(vec![event("bot", world.now(), "e", &[("k", "v")])]).await.unwrap();
    });
}

#[test]
fn a_backfill_window_takes_old_events_until_it_ends() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let old: Timestamp = "2019-05-01T12:00:00Z".parse().unwrap();
        let write = |id: &'static str| world.write(vec![event("a", old.nanos(), id, &[("k", "v")])]);
        assert_eq!(write("early").await.unwrap_err().kind(), ErrorKind::OutOfRange);
        let interval = Interval::new("2019-01-01T00:00:00Z".parse().unwrap(), "2020-01-01T00:00:00Z".parse().unwrap());
        let opened =
            world.engine.open_backfill("plays", interval, Duration::from_secs(600), "migration").await.unwrap();
        world.env.sleep(Duration::from_secs(3)).await;
        write("in").await.unwrap();
        world.engine.close_backfill("plays", &opened.id).await.unwrap();
        assert_eq!(write("late").await.unwrap_err().kind(), ErrorKind::OutOfRange);

        // A second one expires by itself, also when the server that opened it is gone.
        world.engine.open_backfill("plays", interval, Duration::from_secs(60), "").await.unwrap();
        let world = crate::fixture::World::on(world.env.clone(), world.store.clone()).await;
        world.env.sleep(Duration::from_secs(30)).await;
        world.write(vec![event("a", old.nanos(), "in2", &[("k", "v")])]).await.unwrap();
        world.env.sleep(Duration::from_secs(60)).await;
        let late = world.write(vec![event("a", old.nanos(), "late", &[("k", "v")])]).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::OutOfRange);
        assert_eq!(ids(&world.scan(history("a")).await.0), ["in2", "in"]);
    });
}

/// A request of which no answer came is sent again: with an id of the client's, that opens no second window.
#[test]
fn a_window_that_is_opened_again_under_its_id_is_the_same_window() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let year = Interval::new(time("2019-01-01T00:00:00Z"), time("2020-01-01T00:00:00Z"));
        let open = |id: &'static str, interval| {
            world.engine.open_backfill_as(id, "plays", interval, Duration::from_secs(600), "migration")
        };
        let opened = open("mine.1", year).await.unwrap();
        world.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(open("mine.1", year).await.unwrap(), opened);
        assert_eq!(world.engine.namespace("plays").unwrap().backfills, [opened]);

        let month = Interval::new(year.start, time("2019-02-01T00:00:00Z"));
        let refused = open("mine.1", month).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("`mine.1` is the window of 2019-01-01T00:00:00Z"), "{refused}");
        for id in ["", "with a blank", "up/down", &"x".repeat(65)] {
            let id: &'static str = id.to_owned().leak();
            assert_eq!(open(id, month).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{id}");
        }
        open("mine-2", month).await.unwrap();
        assert_eq!(world.engine.namespace("plays").unwrap().backfills.len(), 2);
    });
}

#[test]
fn a_century_of_backfill_fits_the_slices_of_a_namespace() {
    run(|world| async move {
        let config = NamespaceConfig { seconds_per_slice: 3600, seconds_per_bucket: 60, ..NamespaceConfig::default() };
        world.namespace(config).await;
        let interval = Interval::new("1900-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T00:00:00Z".parse().unwrap());
        world.engine.open_backfill("plays", interval, Duration::from_secs(86_400), "").await.unwrap();
        world.env.sleep(Duration::from_secs(3)).await;
        let months = 12 * 126;
        let step = interval.length().as_nanos() as i64 / months;
        for month in 0..months {
            world.write(vec![event("a", interval.start.nanos() + month * step, "e", &[("k", "v")])]).await.unwrap();
        }
        let record = world.engine.namespace("plays").unwrap();
        assert!(record.slices.len() <= 300, "{}", record.slices.len());
        assert_eq!(world.scan(history("a")).await.0.len() as i64, months);
    });
}

#[test]
fn queued_writes_arrive_are_bounded_and_drain_on_shutdown() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let request = |id: String, count: usize| WriteRequest {
            namespace: "plays".to_owned(),
            events: (0..count).map(|at| event("a", world.now() + at as i64, &id, &[("k", "v")])).collect(),
            timeout: None,
        };
        for at in 0..10 {
            assert_eq!(world.engine.write_queued(request(format!("e{at}"), 10_000)).await.unwrap(), 10_000);
        }
        let full = world.engine.write_queued(request("over".to_owned(), 1)).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::ResourceExhausted);
        world.engine.shutdown().await.unwrap();
        let after = world.engine.write_queued(request("after".to_owned(), 1)).await.unwrap_err();
        assert_eq!(after.kind(), ErrorKind::Unavailable);
        let again = crate::fixture::World::on(world.env.clone(), world.store.clone()).await;
        let mut all = history("a");
        all.page_size = 10_000;
        assert_eq!(again.scan(all).await.0.len(), 100_000);
    });
}
