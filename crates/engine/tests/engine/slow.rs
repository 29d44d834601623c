//! Slow stores: a page that runs out of time says so and how far it is complete; a write that does isn't acknowledged.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use anabranch_engine::{
    Engine, EngineError, EngineOptions, ErrorKind, Filter, PartialReason, ReadRequest, SearchRequest, WriteOutcome,
    WriteRequest,
};
use anabranch_model::{NamespaceConfig, NamespaceName, Order, Record, Timestamp};
use anabranch_store::Store;

use crate::{
    fixture::{World, event, history, run},
    slow_store::{run_slow, run_slow_shared},
};

/// R1, R2: every page that ran out of time says how far it is complete, and the pages joined are the history.
#[test]
fn a_page_that_runs_out_of_time_says_how_far_it_is_complete() {
    for (order, filtered) in [(Order::LatestFirst, false), (Order::OldestFirst, false), (Order::LatestFirst, true)] {
        run_slow(|world, slow| async move {
            let now = world.now();
            let times: Vec<i64> = (0..200).map(|at| now - at * 60_000_000_000).collect();
            let all = times.iter().map(|time| event("a", *time, "e", &[("k", "v")])).collect();
            world.write(all).await.unwrap();
            slow.scan_millis.store(250, Ordering::Relaxed);
            let filters = if filtered { vec![Filter { key: "absent".into(), value: None }] } else { Vec::new() };
            let mut request = ReadRequest { order, filters, page_size: 2000, ..history("a") };
            let mut found: Vec<Record> = Vec::new();
            let mut short = 0;
            loop {
                let page = world.read(request.clone()).await.unwrap();
                found.extend(page.records);
                if let Some(partial) = page.partial {
                    short += 1;
                    assert_eq!(partial.reason, PartialReason::Slo);
                    let until = partial.complete_until.nanos();
                    let promised = times.iter().filter(|time| match order {
                        Order::LatestFirst => **time >= until,
                        Order::OldestFirst => **time < until,
                    });
                    assert!(filtered || promised.count() <= found.len(), "{until}");
                }
                let Some(token) = page.next_page_token else { break };
                request.page_token = token;
            }
            assert!(short > 0, "the store was slow enough for several pages");
            assert_eq!(found.len(), if filtered { 0 } else { times.len() });
        });
    }
}

/// How often something was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// To be woken before there is an answer costs a read another way through everything, and another thread its sleep.
#[test]
fn a_read_that_waits_for_the_store_is_left_alone_until_it_answers() {
    run_slow(|world, slow| async move {
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        slow.scan_millis.store(20, Ordering::Relaxed);
        let wakes = Arc::new(Wakes::default());
        let mut read = pin!(world.read(history("a")));
        assert!(read.as_mut().poll(&mut Context::from_waker(&Waker::from(wakes.clone()))).is_pending());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        assert_eq!(read.await.unwrap().records.len(), 1);
    });
}

/// R2: a page that could not move is an error, not an empty answer.
#[test]
fn a_page_that_could_not_move_is_deadline_exceeded() {
    run_slow(|world, slow| async move {
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        slow.scan_millis.store(5000, Ordering::Relaxed);
        assert_eq!(world.read(history("a")).await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        slow.scan_millis.store(300, Ordering::Relaxed);
        let hurried = ReadRequest { timeout: Some(Duration::from_millis(100)), ..history("a") };
        assert_eq!(world.read(hurried).await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(world.read(history("a")).await.unwrap().records.len(), 1);
    });
}

/// R3: an answer that is made of several histories keeps to one set of limits, also where they change between two of them.
#[test]
fn a_search_keeps_to_the_limits_that_it_began_with() {
    run_slow(|world, slow| async move {
        let limit = |bytes| move |config: &mut NamespaceConfig| config.page_limits.max_record_bytes = bytes;
        world.engine.update_namespace("plays", limit(1024)).await.unwrap();
        let value = "v".repeat(700);
        let large = |series| event(series, world.now(), "e", &[("k", &value), ("l", &value), ("m", &value)]);
        world.write(vec![large("a"), large("b")]).await.unwrap();
        slow.scan_millis.store(20, Ordering::Relaxed);
        let series = ["a", "b"].map(str::to_owned).to_vec();
        let request = SearchRequest { namespace: "plays".to_owned(), series, ..SearchRequest::default() };
        let engine = world.engine.clone();
        let searching = world.env.spawn(async move { engine.search(&request).await });
        world.env.sleep(Duration::from_millis(30)).await;
        world.engine.update_namespace("plays", limit(1 << 20)).await.unwrap();
        let page = searching.await.unwrap().unwrap();
        let parts: Vec<_> = page.records.iter().map(|(series, part)| (series.as_str(), part.items.len())).collect();
        assert_eq!(parts, [("a", 1), ("a", 1), ("a", 1), ("b", 1), ("b", 1), ("b", 1)]);
    });
}

/// R2: as the namespace chooses, a page that holds something ends at the target or at the max; one that holds nothing goes on until
/// the max either way.
#[test]
fn a_page_ends_at_the_target_or_at_the_max_as_the_namespace_chooses() {
    for (at_target, takes) in [(false, 950), (true, 500)] {
        run_slow(|world, slow| async move {
            let edit = |config: &mut NamespaceConfig| {
                config.page_limits.partial_at_target = at_target;
                config.read_slo.target = Duration::from_millis(550);
            };
            world.engine.update_namespace("plays", edit).await.unwrap();
            let now = world.now();
            let all = (0..200).map(|at| event("a", now - at * 60_000_000_000, "e", &[("k", "v")])).collect();
            world.write(all).await.unwrap();
            slow.scan_millis.store(200, Ordering::Relaxed);
            let begun = world.env.monotonic();
            let page = world.read(ReadRequest { page_size: 2000, ..history("a") }).await.unwrap();
            assert_eq!((world.env.monotonic() - begun).as_millis(), takes, "at the target: {at_target}");
            assert_eq!(page.partial.map(|partial| partial.reason), Some(PartialReason::Slo));
            assert!(!page.records.is_empty() && page.next_page_token.is_some());

            slow.scan_millis.store(700, Ordering::Relaxed);
            let begun = world.env.monotonic();
            let page = world.read(ReadRequest { page_size: 2000, ..history("a") }).await.unwrap();
            assert!(!page.records.is_empty(), "past the target with nothing, it goes on");
            let took = (world.env.monotonic() - begun).as_millis();
            assert_eq!(took, if at_target { 700 } else { 950 });
        });
    }
}

/// W1: whatever the store said, after the write deadline nothing is acknowledged.
#[test]
fn a_write_that_took_too_long_has_an_unknown_outcome() {
    for suspended in [false, true] {
        run_slow(|world, slow| async move {
            let millis = if suspended { &slow.suspend_millis } else { &slow.write_millis };
            millis.store(1500, Ordering::Relaxed);
            let late = world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await;
            let Err(EngineError::WriteFailed { outcome, kind, .. }) = late else { panic!("{late:?}") };
            assert_eq!(outcome, WriteOutcome { unknown: vec![0], ..WriteOutcome::default() });
            assert_eq!(kind, ErrorKind::DeadlineExceeded);
        });
    }
}

/// What is written in eight goes.
async fn queue_40_000(world: &World) {
    for at in 0..8 {
        let events = (0..5000).map(|nanos| event("a", world.now() + nanos, &format!("e{at}"), &[("k", "v")])).collect();
        let request = WriteRequest { namespace: "plays".to_owned(), events, timeout: None };
        assert_eq!(world.engine.write_queued(request).await.unwrap(), 5000);
    }
}

/// A server keeps in touch with the others for as long as it has something to store.
#[test]
fn a_server_that_stops_has_all_of_its_drain_timeout_for_what_is_queued() {
    run_slow_shared(|world, slow| async move {
        queue_40_000(&world).await;
        slow.write_millis.store(900, Ordering::Relaxed);
        let begun = world.env.monotonic();
        world.engine.shutdown().await.unwrap();
        assert_eq!((world.env.monotonic() - begun).as_millis(), 8 * 900);
        slow.write_millis.store(0, Ordering::Relaxed);
        let again = World::on(world.env.clone(), world.store.clone()).await;
        assert_eq!(again.scan(ReadRequest { page_size: 10_000, ..history("a") }).await.0.len(), 40_000);
    });
}

#[test]
fn a_server_that_stops_says_how_many_queued_events_are_lost() {
    run_slow_shared(|world, slow| async move {
        queue_40_000(&world).await;
        slow.write_millis.store(5000, Ordering::Relaxed);
        let begun = world.env.monotonic();
        let stopped = world.engine.shutdown().await;
        let waited = Duration::from_secs(30);
        assert_eq!(stopped, Err(EngineError::Undrained { events: 40_000, waited }));
        assert_eq!(world.env.monotonic() - begun, waited);
        let dropped = &world.engine.metrics().events_dropped;
        assert_eq!(dropped.with_label_values(&["all", "shutdown"]).get(), 40_000);
    });
}

/// W1: whoever waits for a change knows what others changed all the same, and goes on serving.
#[test]
fn a_slow_change_keeps_no_server_from_its_refresh() {
    run_slow_shared(|world, slow| async move {
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        slow.change_millis.store(4000, Ordering::Relaxed);
        let engine = world.engine.clone();
        let change =
            world.env.spawn(async move { engine.update_namespace("plays", |config| config.event_buckets += 1).await });
        for _ in 0..40 {
            world.env.sleep(Duration::from_millis(90)).await;
            world.engine.check_ready().unwrap();
            assert_eq!(world.read(history("a")).await.unwrap().records.len(), 1);
        }
        slow.change_millis.store(0, Ordering::Relaxed);
        change.await.unwrap().unwrap();
    });
}

/// What was changed at a server is known there from then on, though a list that it has asked for earlier doesn't say so.
#[test]
fn a_list_that_comes_late_takes_nothing_back() {
    run_slow_shared(|world, slow| async move {
        slow.list_millis.store(700, Ordering::Relaxed);
        let name = |at: u64| NamespaceName::new(format!("n{at}")).unwrap();
        for at in 0..20 {
            let engine = &world.engine;
            world.env.sleep(Duration::from_millis(at * 70)).await;
            engine.create_namespace(name(at), NamespaceConfig::default()).await.unwrap();
            for _ in 0..20 {
                engine.namespace(name(at).as_str()).expect("it was made");
                world.env.sleep(Duration::from_millis(67)).await;
            }
            engine.update_namespace(name(at).as_str(), |config| config.event_buckets = 7).await.unwrap();
            for _ in 0..20 {
                let record = engine.namespace(name(at).as_str()).unwrap();
                assert!(record.config.event_buckets == 7 || record.next.is_some(), "it was changed");
                world.env.sleep(Duration::from_millis(67)).await;
            }
            engine.delete_namespace(name(at).as_str(), name(at).as_str(), Some(Duration::ZERO)).await.unwrap();
            for _ in 0..20 {
                let gone = engine.namespace(name(at).as_str()).map(drop).unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::NotFound, "it was deleted");
                world.env.sleep(Duration::from_millis(67)).await;
            }
            engine.check_ready().unwrap();
        }
    });
}

/// What others changed meanwhile is known as soon as it is listed.
#[test]
fn a_refresh_brings_in_what_others_made_changed_and_took_away() {
    run_slow_shared(|world, slow| async move {
        slow.list_millis.store(300, Ordering::Relaxed);
        let other = World::on(world.env.clone(), world.store.clone()).await;
        world.env.sleep(Duration::from_secs(10)).await;
        let known = Duration::from_millis(1200);
        for at in 0..10 {
            let name = NamespaceName::new("others").unwrap();
            world.env.sleep(Duration::from_millis(at * 110)).await;
            other.engine.create_namespace(name.clone(), NamespaceConfig::default()).await.unwrap();
            world.env.sleep(known).await;
            let incarnation = world.engine.namespace("others").unwrap().incarnation;
            other.engine.delete_namespace("others", "others", Some(Duration::ZERO)).await.unwrap();
            if at % 2 == 0 {
                other.engine.create_namespace(name, NamespaceConfig::default()).await.unwrap();
                other.engine.update_namespace("others", |config| config.event_buckets = 7).await.unwrap();
                world.env.sleep(known).await;
                assert_ne!(world.engine.namespace("others").unwrap().incarnation, incarnation);
                other.engine.delete_namespace("others", "others", Some(Duration::ZERO)).await.unwrap();
            }
            world.env.sleep(known).await;
            assert_eq!(world.engine.namespace("others").map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        }
    });
}

/// R1, R2: the token holds the last position examined, so a filter that matches nothing moves on within one partition too.
#[test]
fn a_slow_page_moves_on_even_when_a_filter_matches_nothing() {
    run_slow(|world, slow| async move {
        let now = world.now();
        let events = (0..9000).map(|at| event("a", now - at, "e", &[("k", "v")])).collect();
        world.write(events).await.unwrap();
        slow.scan_millis.store(400, Ordering::Relaxed);
        let filters = vec![Filter { key: "absent".into(), value: None }];
        let mut request = ReadRequest { filters, ..history("a") };
        let mut reached = vec![now + 1];
        while let Some(token) = {
            let page = world.read(request.clone()).await.unwrap();
            reached.extend(page.partial.map(|partial| partial.complete_until.nanos()));
            page.next_page_token
        } {
            request.page_token = token;
        }
        assert!(reached.len() > 3, "the store was slow enough for several pages");
        assert!(reached.is_sorted_by(|before, after| before > after), "{reached:?}");
    });
}

/// A server whose clock is wrong takes no writes and makes no splits; with two servers nobody knows whose is, with three it does.
#[test]
fn a_server_whose_clock_is_off_stops_taking_writes() {
    for (skews, stopped) in [
        (vec![0, 0, 0], vec![false, false, false]),
        (vec![0, 0, 3_000_000_000], vec![false, false, true]),
        (vec![0, -3_000_000_000, 0], vec![false, true, false]),
        (vec![0, 3_000_000_000], vec![true, true]),
        (vec![0, 300_000_000], vec![false, false]),
    ] {
        run(|world| async move {
            world.engine.shutdown().await.unwrap();
            let mut engines = Vec::new();
            for skew in &skews {
                let store: Arc<dyn Store> = world.store.clone();
                engines.push(Engine::start(store, world.env.node(*skew), EngineOptions::default()).await.unwrap());
            }
            world.env.sleep(Duration::from_secs(20)).await;
            let found: Vec<bool> = engines.iter().map(|engine| engine.check_ready().is_err()).collect();
            assert_eq!(found, stopped, "{skews:?}");
        });
    }
}

/// S3: a clock that is set while its server runs isn't relied on from that moment on, until it was compared with the others'.
#[test]
fn a_clock_that_was_set_is_not_relied_on_before_it_was_compared() {
    run(|world| async move {
        world.engine.shutdown().await.unwrap();
        let envs = [world.env.node(0), world.env.node(0), world.env.node(0)];
        let mut engines = Vec::new();
        for env in &envs {
            let store: Arc<dyn Store> = world.store.clone();
            engines.push(Engine::start(store, env.clone(), EngineOptions::default()).await.unwrap());
        }
        world.env.sleep(Duration::from_secs(20)).await;
        let ready = || engines.iter().map(|engine| engine.check_ready().is_ok()).collect::<Vec<bool>>();
        assert_eq!(ready(), [true, true, true]);
        for nanos in [1_700_000_000, -1_700_000_000, 3600 * 1_000_000_000] {
            envs[1].set_skew(nanos);
            assert_eq!(ready(), [true, false, true], "at once");
            world.env.sleep(Duration::from_secs(20)).await;
            assert_eq!(ready(), [true, false, true], "it differs by {nanos} ns");
            envs[1].set_skew(0);
            assert_eq!(ready(), [true, false, true], "it was set again");
            world.env.sleep(Duration::from_secs(20)).await;
            assert_eq!(ready(), [true, true, true], "it agrees");
        }
    });
}

/// W1: slices live by clocks that agree. One that is wrong neither closes nor drops any, not even right after its server's start.
#[test]
fn a_server_whose_clock_is_wrong_closes_no_slice() {
    run(|world| async move {
        let hour = Duration::from_secs(3600);
        let (accept_limit, close_after, delete_after) = (hour, Some(24 * hour), Some(48 * hour));
        world
            .namespace(NamespaceConfig { accept_limit, close_after, delete_after, ..NamespaceConfig::default() })
            .await;
        let now = world.now();
        world.write(vec![event("s", now, "e", &[("k", "v")])]).await.unwrap();
        let year = 365 * 86_400 * 1_000_000_000;
        let env = world.env.node(0);
        let store: Arc<dyn Store> = world.store.clone();
        let (other, third) = (world.env.node(0), store.clone());
        let _third = Engine::start(third, other, EngineOptions::default()).await.unwrap();
        env.set_skew(year);
        let wrong = Engine::start(store, env, EngineOptions::default()).await.unwrap();
        world.env.sleep(Duration::from_secs(600)).await;
        assert!(wrong.check_ready().is_err());
        assert_eq!(world.engine.namespace("plays").unwrap().closed_until, Timestamp::EARLIEST);
        assert_eq!(world.scan(history("s")).await.0.len(), 1);
    });
}

/// A server that has lost touch doesn't say that a namespace isn't there: somebody may have made it since.
#[test]
fn a_stale_server_does_not_deny_a_namespace() {
    run(|world| async move {
        let kind = |name: &str| world.engine.namespace(name).unwrap_err().kind();
        assert_eq!(kind("others"), ErrorKind::NotFound);
        // Nothing refreshes it any more.
        world.engine.shutdown().await.unwrap();
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(kind("others"), ErrorKind::Unavailable);
    });
}
