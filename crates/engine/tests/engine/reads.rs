//! Reads: pages joined are the history, whatever the limits, the order, the buckets and the filters.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_engine::{
    EngineError, ErrorKind, EventInput, Filter, ItemInput, Query, ReadRequest, SearchRequest, TimeInput,
};
use anabranch_model::{NamespaceConfig, Order, Record, Timestamp, TokenError};
use anabranch_runtime::run_simulated;
use anabranch_store::MemoryStore;
use bytes::Bytes;

use crate::fixture::{START, World, event, history, ids, run};

const SECOND: i64 = 1_000_000_000;

type Key = (i64, String);
type Items = BTreeMap<String, Bytes>;

/// A random history and random reads of it, against a plain map.
fn random_reads(seed: u64, ordered: bool) {
    run_simulated(seed, Timestamp::from_seconds(START), |env| async move {
        let store = MemoryStore::new(env.clone());
        let store = Arc::new(if ordered { store } else { store.without_ordered_partitions() });
        let world = World::on(env.clone(), store).await;
        let below = |limit: u64| env.random_below(limit);
        let mut config = NamespaceConfig {
            seconds_per_slice: 60 * (1 + below(5) as u32),
            event_buckets: 1 + below(4) as u32,
            accept_limit: std::time::Duration::from_secs(1200),
            ..NamespaceConfig::default()
        };
        config.seconds_per_bucket = 1 + below(u64::from(config.seconds_per_slice)) as u32;
        config.page_limits.max_record_bytes = 1024;
        world.namespace(config).await;

        let mut model: BTreeMap<Key, Items> = BTreeMap::new();
        let now = world.now();
        let mut inputs = Vec::new();
        for _ in 0..below(120) {
            let time = now - (below(1000) as i64) * SECOND + below(3) as i64;
            let id = format!("{}", below(3));
            let value = || Bytes::from(vec![b'x'; below(500) as usize]);
            let items: Items = (0..=below(6)).map(|_| (format!("k{}", below(9)), value())).collect();
            if model.contains_key(&(time, id.clone())) {
                continue;
            }
            let input =
                |(key, value): (&String, &Bytes)| ItemInput { key: key.clone(), value: value.clone(), metadata: None };
            let input_items = items.iter().map(input).collect();
            inputs.push(EventInput {
                series: "a".into(),
                time: Some(TimeInput::Nanos(time)),
                id: id.clone(),
                items: input_items,
            });
            model.insert((time, id), items);
        }
        // Neighbours that must not leak in.
        inputs.push(event("a0", now, "n", &[("k0", "v")]));
        world.write(inputs).await.unwrap();

        for _ in 0..12 {
            let mut request = history("a");
            request.order = if below(2) == 0 { Order::LatestFirst } else { Order::OldestFirst };
            request.page_size = 1 + below(20) as u32;
            request.page_bytes = [0, 1, 1500, 5000][below(4) as usize];
            if below(2) == 0 {
                let start = now - (below(1000) as i64) * SECOND;
                request.start = Some(Timestamp::from_nanos(start));
                request.end = Some(Timestamp::from_nanos(start + (below(600) as i64) * SECOND));
            }
            if below(3) == 0 {
                request.filters = vec![Filter { key: format!("k{}", below(9)), value: None }];
            }
            if below(4) == 0 {
                request.total_record_limit = 1 + below(50);
            }
            check_scan(&world, &request, &model, seed).await;
        }
    });
}

/// R1, R3
async fn check_scan(world: &World, request: &ReadRequest, model: &BTreeMap<Key, Items>, seed: u64) {
    let wanted = |key: &&Key, items: &Items| {
        let time = Timestamp::from_nanos(key.0);
        request.start.is_none_or(|start| start <= time)
            && request.end.is_none_or(|end| time < end)
            && request.filters.iter().all(|filter| items.contains_key(&filter.key))
    };
    let mut expected: Vec<Key> =
        model.iter().filter(|(key, items)| wanted(key, items)).map(|(key, _)| key.clone()).collect();
    if request.order == Order::LatestFirst {
        expected.reverse();
    }
    if request.total_record_limit > 0 {
        expected.truncate(request.total_record_limit as usize);
    }
    let mut request = request.clone();
    let mut found: Vec<(Key, Items)> = Vec::new();
    let mut unfinished = false;
    for page_number in 0.. {
        assert!(page_number < 2000, "seed {seed}: the scan does not end");
        let page = world.read(request.clone()).await.unwrap();
        assert!(page.records.len() <= request.page_size as usize, "seed {seed}");
        let bytes: usize = page.records.iter().map(Record::bytes).sum();
        let limit = if request.page_bytes == 0 { 2 << 20 } else { request.page_bytes as usize };
        assert!(bytes <= limit || page.records.len() == 1, "seed {seed}: {bytes} bytes on a page of {limit}");
        for record in page.records {
            assert!(record.items.is_sorted_by(|left, right| left.key < right.key), "seed {seed}");
            let items = record.items.iter().map(|item| (item.key.to_string(), item.value.clone()));
            let key = (record.position.time.nanos(), record.position.id.to_string());
            if unfinished {
                let last = found.last_mut().unwrap();
                assert_eq!(last.0, key, "seed {seed}: a part of another record");
                last.1.extend(items);
            } else {
                found.push((key, items.collect()));
            }
            unfinished = record.continued;
        }
        match page.next_page_token {
            Some(token) => request.page_token = token,
            None => break,
        }
    }
    assert!(!unfinished, "seed {seed}: the last part is missing");
    let keys: Vec<Key> = found.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, expected, "seed {seed} {request:?}");
    for (key, items) in found {
        assert_eq!(items, model[&key], "seed {seed}");
    }
}

/// R1, R3
#[test]
fn pages_joined_are_the_history() {
    for seed in 0..60 {
        random_reads(seed, true);
    }
}

/// R1, R3
#[test]
fn pages_joined_are_the_history_on_stores_that_hash_partitions() {
    for seed in 1000..1060 {
        random_reads(seed, false);
    }
}

#[test]
fn a_filter_on_values_finds_items_of_records_in_parts_too() {
    run(|world| async move {
        let mut config = NamespaceConfig::default();
        config.page_limits.max_record_bytes = 1024;
        world.namespace(config).await;
        let now = world.now();
        let big = "x".repeat(600);
        world
            .write(vec![
                event("a", now, "yes", &[("a", &big), ("b", &big), ("z", "1")]),
                event("a", now - 1, "no", &[("a", &big), ("b", &big), ("z", "2")]),
                event("a", now - 2, "small", &[("z", "1")]),
                event("a", now - 3, "other", &[("y", "1")]),
            ])
            .await
            .unwrap();
        for order in [Order::LatestFirst, Order::OldestFirst] {
            let filters = vec![Filter { key: "z".into(), value: Some("1".into()) }];
            let (records, _) = world.scan(ReadRequest { order, filters, page_size: 1, ..history("a") }).await;
            let whole: Vec<&Record> = records.iter().filter(|record| !record.continued).collect();
            let mut ids: Vec<&str> = whole.iter().map(|record| record.position.id.as_str()).collect();
            ids.sort_unstable();
            assert_eq!(ids, ["small", "yes"], "{order:?}");
            let parts = records.iter().filter(|record| record.position.id.as_str() == "yes");
            assert_eq!(parts.map(|part| part.items.len()).sum::<usize>(), 3);
        }
    });
}

/// R1: the token holds what was examined, not what was served.
#[test]
fn a_filter_that_matches_nothing_still_moves_on() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        let events = (0..3000).map(|at| event("a", now - at, "e", &[("k", "v")])).collect();
        world.write(events).await.unwrap();
        let filters = vec![Filter { key: "absent".into(), value: None }];
        let (records, pages) = world.scan(ReadRequest { filters, page_size: 10, ..history("a") }).await;
        assert_eq!((records.len(), pages), (0, 1));
    });
}

#[test]
fn tokens_that_were_altered_or_belong_to_others_are_refused() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        world.write((0..10).map(|at| event("a", now + at, "e", &[("k", "v")])).collect()).await.unwrap();
        let first = ReadRequest { page_size: 3, ..history("a") };
        let token = world.read(first.clone()).await.unwrap().next_page_token.unwrap();
        let next = ReadRequest { page_token: token.clone(), ..first.clone() };
        // Page size and deadline may change from page to page.
        assert_eq!(world.read(ReadRequest { page_size: 5, ..next.clone() }).await.unwrap().records.len(), 5);
        let others = [
            ReadRequest { series: "b".into(), ..next.clone() },
            ReadRequest { order: Order::OldestFirst, ..next.clone() },
            ReadRequest { start: Some(Timestamp::from_nanos(now)), ..next.clone() },
            ReadRequest { total_record_limit: 5, ..next.clone() },
            ReadRequest { filters: vec![Filter { key: "k".into(), value: None }], ..next.clone() },
        ];
        for other in others {
            assert_eq!(world.read(other).await, Err(EngineError::Token(TokenError::OtherRequest)));
        }
        for forged in ["x", "!!", &token[1..], &token[..token.len() - 1], &token.to_lowercase(), &"A".repeat(200)] {
            let error = world.read(ReadRequest { page_token: forged.to_owned(), ..first.clone() }).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{forged}");
        }
        // Another server on the same store goes on with it.
        let other = World::on(world.env.clone(), world.store.clone()).await;
        assert_eq!(other.read(next).await.unwrap().records.len(), 3);
    });
}

#[test]
fn bad_requests_are_refused_with_every_reason() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let bad = ReadRequest {
            series: String::new(),
            start: Some(Timestamp::from_nanos(2)),
            end: Some(Timestamp::from_nanos(1)),
            filters: vec![Filter { key: String::new(), value: None }],
            ..history("")
        };
        let Err(EngineError::Refused(violations)) = world.read(bad).await else { panic!("not refused") };
        let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["time_series_id", "time_interval", "event_filters[0].match_event_item_key"]);
        let missing = world.read(ReadRequest { namespace: "nope".into(), ..history("a") }).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn an_interval_is_half_open_and_may_be_empty() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        world.write((0..4).map(|at| event("a", now + at, &format!("e{at}"), &[("k", "v")])).collect()).await.unwrap();
        let between = |start: i64, end: i64| ReadRequest {
            start: Some(Timestamp::from_nanos(now + start)),
            end: Some(Timestamp::from_nanos(now + end)),
            ..history("a")
        };
        assert_eq!(ids(&world.scan(between(1, 3)).await.0), ["e2", "e1"]);
        assert_eq!(world.scan(between(2, 2)).await.0.len(), 0);
        assert_eq!(ids(&world.scan(history("a")).await.0), ["e3", "e2", "e1", "e0"]);
        assert_eq!(world.scan(history("nobody")).await.0.len(), 0);
    });
}

/// Servers poll requests on several threads: compiles only if that is allowed.
#[test]
fn reads_and_writes_may_move_between_threads() {
    fn moves<T: Send>(_: T) {}
    fn check(engine: Arc<anabranch_engine::Engine>) {
        moves(async move {
            let _ = engine.read(ReadRequest::default()).await;
            let _ = engine.write_sync(anabranch_engine::WriteRequest::default()).await;
        });
    }
    let _ = check;
}

fn equals(key: &str, value: &str) -> Query {
    Query::Item(Filter { key: key.to_owned(), value: Some(value.to_owned().into()) })
}

#[test]
fn a_search_finds_in_named_series_what_fulfils_its_query() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        for series in ["a", "b", "c"] {
            let of_series = (0..40).map(|at| {
                let kind = if at % 2 == 0 { "play" } else { "stop" };
                let place = ["home", "work", "road"][at % 3];
                event(series, now - at as i64, &format!("{series}{at:02}"), &[("kind", kind), ("place", place)])
            });
            world.write(of_series.collect()).await.unwrap();
        }
        let query = Query::All(vec![
            equals("kind", "play"),
            Query::Any(vec![equals("place", "home"), equals("place", "road")]),
        ]);
        let mut request = SearchRequest {
            namespace: "plays".to_owned(),
            series: vec!["c".to_owned(), "a".to_owned(), "nobody".to_owned()],
            query: Some(query),
            page_size: 5,
            ..SearchRequest::default()
        };
        let mut found = Vec::new();
        loop {
            let page = world.engine.search(&request).await.unwrap();
            assert!(page.records.len() <= 5);
            found.extend(page.records.into_iter().map(|(series, record)| (series, record.position.id.into_string())));
            let Some(token) = page.next_page_token else { break };
            request.page_token = token;
        }
        let wanted = |series: &str| {
            let matching = (0..40).filter(|at| at % 2 == 0 && at % 3 != 1);
            matching.map(|at| (series.to_owned(), format!("{series}{at:02}"))).collect::<Vec<_>>()
        };
        assert_eq!(found, [wanted("c"), wanted("a")].concat());
        request.page_token = "1.forged".to_owned();
        assert!(world.engine.search(&request).await.is_err());
        request.series.clear();
        let error = world.engine.search(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unimplemented);
    });
}

/// A token that stands between two histories is sealed as any other: made up, or of another search, it is refused.
#[test]
fn a_token_between_two_histories_belongs_to_its_search() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let now = world.now();
        for series in ["a", "b", "c"] {
            world.write((0..3).map(|at| event(series, now - at, "e", &[("kind", "play")])).collect()).await.unwrap();
        }
        let named = |series: &[&str]| series.iter().map(|series| (*series).to_owned()).collect::<Vec<_>>();
        let request = SearchRequest {
            namespace: "plays".to_owned(),
            series: named(&["a", "b", "c"]),
            page_size: 3,
            ..SearchRequest::default()
        };
        let token = world.engine.search(&request).await.unwrap().next_page_token.unwrap();
        let (at, sealed) = token.split_once('.').unwrap();
        assert_eq!(at, "1");
        let next = SearchRequest { page_token: token.clone(), ..request.clone() };
        let page = world.engine.search(&next).await.unwrap();
        assert!(page.records.len() == 3 && page.records.iter().all(|(series, _)| series == "b"), "{page:?}");

        let refused = [
            SearchRequest { page_token: "1.".to_owned(), ..request.clone() },
            SearchRequest { page_token: format!("2.{sealed}"), ..request.clone() },
            SearchRequest { series: named(&["a", "c", "b"]), ..next.clone() },
            SearchRequest { query: Some(equals("kind", "play")), ..next.clone() },
            SearchRequest { order: Order::OldestFirst, ..next.clone() },
            SearchRequest { end: Some(Timestamp::from_nanos(now)), ..next.clone() },
        ];
        for request in refused {
            let error = world.engine.search(&request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{request:?}: {error}");
        }
    });
}

/// A page that crosses from one partition to the next must not make the pages after it read two at once.
#[test]
fn pages_of_a_long_history_read_no_more_than_they_serve() {
    run(|world| async move {
        world.namespace(NamespaceConfig { seconds_per_bucket: 600, ..NamespaceConfig::default() }).await;
        let now = world.now();
        let events = 20 * 600;
        for chunk in (0..events).collect::<Vec<i64>>().chunks(500) {
            let input = |at: &i64| event("a", now - at * SECOND, &format!("e{at}"), &[("k", "twenty bytes of value")]);
            world.write(chunk.iter().map(input).collect()).await.unwrap();
        }
        // The first page knows nothing yet.
        world.read(ReadRequest { page_size: 100, ..history("a") }).await.unwrap();
        let (mut served, mut read) = (0, 0);
        for page in 1..60 {
            let end = Timestamp::from_nanos(now - page * 190 * SECOND);
            let page = world.read(ReadRequest { page_size: 100, end: Some(end), ..history("a") }).await.unwrap();
            assert_eq!(page.records.len(), 100);
            served += page.records.iter().map(|record| record.bytes() as u64 + 8).sum::<u64>();
            read += page.bytes_read;
        }
        assert!(read <= served + served / 10, "{read} bytes were read for {served}");
    });
}

/// R2: also where one partition is likely to be enough, so that no list of partitions was asked for.
#[test]
fn a_page_that_ends_with_the_history_has_no_token_and_one_that_does_not_has() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let (now, day) = (world.now(), 86_400_000_000_000);
        let ids: Vec<String> = (0..10).map(|at| format!("e{at}")).collect();
        for (series, older) in [("short", false), ("long", true)] {
            let mut events: Vec<_> = ids.iter().map(|id| event(series, now, id, &[("k", "v")])).collect();
            events.extend(older.then(|| event(series, now - day, "old", &[("k", "v")])));
            world.write(events).await.unwrap();
        }
        for page_size in [5, 10] {
            for (series, follows) in [("short", page_size < 10), ("long", true)] {
                let page = world.read(ReadRequest { page_size, ..history(series) }).await.unwrap();
                assert_eq!(page.records.len(), page_size as usize);
                assert_eq!(page.next_page_token.is_some(), follows, "{series} {page_size}");
            }
        }
    });
}
