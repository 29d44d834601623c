//! Clocks that are set while their servers run: whatever rests on the time is refused until they agree with the others again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_engine::{BackfillState, Engine, EngineOptions, ErrorKind, WriteRequest};
use anabranch_model::{Interval, NamespaceConfig, NamespaceName, Timestamp};
use anabranch_runtime::Env;
use anabranch_store::Store;

use crate::{
    fixture::{World, event, history, run},
    slow_store::run_slow_shared,
};

const HOUR: i64 = 3600 * 1_000_000_000;

/// One more server, and its surroundings.
async fn join(world: &World) -> (Env, Arc<Engine>) {
    let (env, store): (Env, Arc<dyn Store>) = (world.env.node(0), world.store.clone());
    let engine = Engine::start(store, env.clone(), EngineOptions::default()).await.unwrap();
    (env, engine)
}

/// Three servers that agree, and a namespace. The clock of the last one is to be set.
async fn three(world: &World) -> [(Env, Arc<Engine>); 2] {
    world.namespace(NamespaceConfig::default()).await;
    let servers = [join(world).await, join(world).await];
    world.env.sleep(Duration::from_secs(20)).await;
    assert!(servers.iter().all(|(_, engine)| engine.check_ready().is_ok()));
    servers
}

/// S3: a server that was ended a moment ago, and can't be compared with any more, doesn't outvote one that is there.
#[test]
fn a_server_that_was_ended_does_not_speak_for_a_wrong_clock_s3() {
    run(|world| async move {
        world.engine.shutdown().await.unwrap();
        let (wrong, engine) = join(&world).await;
        let (ended, _) = join(&world).await;
        world.env.sleep(Duration::from_secs(20)).await;
        assert!(engine.check_ready().is_ok());
        ended.kill();
        wrong.set_skew(-HOUR);
        let _other = join(&world).await;
        for _ in 0..300 {
            assert!(engine.check_ready().is_err(), "its clock is an hour behind that of the only other server");
            world.env.sleep(Duration::from_millis(100)).await;
        }
    });
}

/// S3: others that are silent may be the ones that are right. Whether they are gone can't be told until they were silent for long.
#[test]
fn a_clock_that_was_set_is_not_relied_on_while_all_others_are_silent_s3() {
    run(|world| async move {
        world.engine.shutdown().await.unwrap();
        let (wrong, engine) = join(&world).await;
        let (silent, other) = join(&world).await;
        world.env.sleep(Duration::from_secs(20)).await;
        assert!(engine.check_ready().is_ok() && other.check_ready().is_ok());
        wrong.set_skew(-30_000_000_000);
        silent.pause(Duration::from_secs(8));
        for _ in 0..200 {
            world.env.sleep(Duration::from_millis(100)).await;
            assert!(engine.check_ready().is_err(), "its clock is 30 s behind that of the only other server");
        }
    });
}

/// S3: what a server that was killed has told is waited for until it is old, and then no longer.
#[test]
fn a_server_that_starts_waits_for_one_that_was_killed_s3() {
    run(|world| async move {
        world.engine.shutdown().await.unwrap();
        let (killed, _) = join(&world).await;
        world.env.sleep(Duration::from_secs(20)).await;
        killed.kill();
        let begun = world.env.monotonic();
        let (_, engine) = join(&world).await;
        while engine.check_ready().is_err() {
            world.env.sleep(Duration::from_millis(100)).await;
        }
        let waited = world.env.monotonic() - begun;
        let [least, most] = [10, 12].map(Duration::from_secs);
        assert!((least..=most).contains(&waited), "{waited:?}");
    });
}

/// As when a node of the store stands still, and just these calls went to it: nobody waits for them until the server has lost touch.
#[test]
fn a_heartbeat_or_a_refresh_that_hangs_does_not_stop_its_server() {
    run_slow_shared(|world, slow| async move {
        let _other = join(&world).await;
        world.env.sleep(Duration::from_secs(20)).await;
        for lost in [&slow.lost_beats, &slow.lost_lists].repeat(5) {
            lost.store(1, Ordering::Relaxed);
            for _ in 0..50 {
                world.env.sleep(Duration::from_millis(100)).await;
                world.engine.check_ready().unwrap();
            }
            assert_eq!(lost.load(Ordering::Relaxed), 0);
        }
    });
}

/// Where a heartbeat takes longer than is usually waited for one, it is waited for all the same.
#[test]
fn heartbeats_may_be_slow() {
    run_slow_shared(|world, slow| async move {
        slow.beat_millis.store(650, Ordering::Relaxed);
        let _other = join(&world).await;
        world.env.sleep(Duration::from_secs(20)).await;
        for _ in 0..300 {
            world.env.sleep(Duration::from_millis(100)).await;
            world.engine.check_ready().unwrap();
        }
    });
}

/// A server that is stopped in good order keeps nobody waiting.
#[test]
fn a_server_that_was_stopped_is_not_waited_for() {
    run(|world| async move {
        world.engine.shutdown().await.unwrap();
        assert!(world.engine.check_ready().is_err());
        let begun = world.env.monotonic();
        let (_, engine) = join(&world).await;
        assert!(engine.check_ready().is_ok());
        assert!(world.env.monotonic() - begun < Duration::from_secs(1));
    });
}

/// T1, W1: by a clock that is behind, slices that hold events look as if no write could have reached them yet.
#[test]
fn a_wrong_clock_replaces_no_slices_t1() {
    run(|world| async move {
        let [_, (env, engine)] = three(&world).await;
        let now = world.now();
        let events = (0..50).map(|at| event("s", now - at, &format!("e{at}"), &[("k", "v")])).collect();
        world.write(events).await.unwrap();
        world.engine.update_namespace("plays", |config| config.event_buckets += 1).await.unwrap();
        world.env.sleep(Duration::from_secs(20)).await;
        env.set_skew(-1000 * HOUR);
        let replaced = engine.replace_slices_ahead(&NamespaceName::new("plays").unwrap()).await;
        assert_eq!(replaced.unwrap_err().kind(), ErrorKind::Unavailable);
        world.env.sleep(Duration::from_secs(20)).await;
        assert_eq!(world.scan(history("s")).await.0.len(), 50);
    });
}

/// W1: a window that was closed by a clock that is behind would be over for long while others still take events into it.
#[test]
fn a_wrong_clock_closes_no_window_w1() {
    run(|world| async move {
        let [_, (env, engine)] = three(&world).await;
        let day = Interval::new(
            Timestamp::from_nanos(world.now() - 48 * HOUR),
            Timestamp::from_nanos(world.now() - 24 * HOUR),
        );
        let window = world.engine.open_backfill("plays", day, Duration::from_secs(3600), "late").await.unwrap();
        world.env.sleep(Duration::from_secs(20)).await;
        env.set_skew(-HOUR);
        let closed = engine.close_backfill("plays", &window.id).await;
        assert_eq!(closed.unwrap_err().kind(), ErrorKind::Unavailable);
        let windows = world.engine.namespace("plays").unwrap().backfills;
        assert_eq!(windows[0].state(world.env.now()), BackfillState::Open);
        world.engine.close_backfill("plays", &window.id).await.unwrap();
    });
}

/// W1: a namespace that was deleted by a clock that is behind would be dropped at once, without its grace.
#[test]
fn a_wrong_clock_deletes_no_namespace_w1() {
    run(|world| async move {
        let [_, (env, engine)] = three(&world).await;
        world.write(vec![event("s", world.now(), "e", &[("k", "v")])]).await.unwrap();
        env.set_skew(-48 * HOUR);
        let deleted = engine.delete_namespace("plays", "plays", Some(Duration::from_secs(24 * 3600))).await;
        assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Unavailable);
        world.env.sleep(Duration::from_secs(600)).await;
        assert_eq!(world.scan(history("s")).await.0.len(), 1);
    });
}

/// What waits in the queue has not fallen out of the window because the clock was set forward and back.
#[test]
fn a_wrong_clock_drops_nothing_from_the_queue() {
    run(|world| async move {
        let [_, (env, engine)] = three(&world).await;
        let events = vec![event("s", world.now(), "e", &[("k", "v")])];
        let request = WriteRequest { namespace: "plays".to_owned(), events, timeout: None };
        assert_eq!(engine.write_queued(request).await.unwrap(), 1);
        env.set_skew(1000 * HOUR);
        world.env.sleep(Duration::from_secs(20)).await;
        assert_eq!(world.scan(history("s")).await.0.len(), 0, "it can't tell where it belongs");
        env.set_skew(0);
        world.env.sleep(Duration::from_secs(20)).await;
        assert_eq!(world.scan(history("s")).await.0.len(), 1);
    });
}
