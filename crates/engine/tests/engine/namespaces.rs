//! Namespaces: made, changed, seen by every server, deleted with everything in them.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{Engine, EngineError, ErrorKind, NamespaceRecord};
use anabranch_model::{BlockedSeries, NamespaceConfig, NamespaceName, TimeSeriesId, Timestamp};
use anabranch_store::Store;
use futures_util::future::{join, join_all};

use crate::fixture::{World, event, history, run};

fn blocked(series: &str) -> BlockedSeries {
    BlockedSeries {
        series: TimeSeriesId::new(series).unwrap(),
        writes: true,
        reads: true,
        reason: String::new(),
        since: Timestamp::EARLIEST,
        expires: None,
    }
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

#[test]
fn a_name_is_given_once() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let again = world.engine.create_namespace(name("plays"), NamespaceConfig::default()).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
fn a_bad_configuration_is_refused_with_every_rule_it_breaks() {
    run(|world| async move {
        let bad = NamespaceConfig { seconds_per_slice: 61, event_buckets: 0, ..NamespaceConfig::default() };
        let Err(EngineError::Refused(violations)) = world.engine.create_namespace(name("plays"), bad).await else {
            panic!("not refused")
        };
        let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
        let expected = [
            "config.seconds_per_slice",
            "config.seconds_per_bucket",
            "config.event_buckets",
            "config.seconds_per_slice",
        ];
        assert_eq!(fields, expected);
        assert!(world.engine.namespace("plays").is_err());
    });
}

#[test]
fn what_decides_over_writes_comes_into_force_when_every_server_knows_it() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let edit = |config: &mut NamespaceConfig| {
            config.accept_limit = Duration::from_secs(60);
            config.page_limits.default_page_size = 7;
        };
        let record = world.engine.update_namespace("plays", edit).await.unwrap();
        let now = world.env.now();
        assert_eq!(record.config_at(now).page_limits.default_page_size, 7);
        assert_eq!(record.config_at(now).accept_limit, NamespaceConfig::default().accept_limit);
        assert!(record.next.as_ref().unwrap().at >= now.saturating_add(Duration::from_secs(2)));
        world.env.sleep(Duration::from_secs(2)).await;
        let old = world.now() - 120_000_000_000;
        let refused = world.write(vec![event("a", old, "e", &[("k", "v")])]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfRange);
    });
}

#[test]
fn other_servers_see_a_change_within_a_second() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let other = World::on(world.env.clone(), world.store.clone()).await;
        // Whenever it comes, between two looks of the other server; the rest of the second is for a store that takes its time.
        let soon = Duration::from_millis(700);
        for at in 0..20 {
            world.env.sleep(Duration::from_millis(1000 + 37 * at)).await;
            let series = format!("bot-{at}");
            world.engine.block_series("plays", vec![blocked(&series)]).await.unwrap();
            world.env.sleep(soon).await;
            assert_eq!(other.read(history(&series)).await.unwrap_err().kind(), ErrorKind::PermissionDenied, "{at}");
            let id = TimeSeriesId::new(series.as_str()).unwrap();
            world.engine.unblock_series("plays", &[id]).await.unwrap();
            world.env.sleep(soon).await;
            other.read(history(&series)).await.unwrap();
        }
    });
}

#[test]
fn nobody_who_changes_the_block_list_at_once_overwrites_another() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let other = World::on(world.env.clone(), world.store.clone()).await;
        let block = |engine: Arc<Engine>, series: String| async move {
            engine.block_series("plays", vec![blocked(&series)]).await.unwrap();
        };
        let both = (0..10).flat_map(|at| {
            [block(world.engine.clone(), format!("here-{at}")), block(other.engine.clone(), format!("there-{at}"))]
        });
        join_all(both).await;
        let list = |record: &NamespaceRecord| {
            let mut list: Vec<String> =
                record.config.block_list.iter().map(|blocked| blocked.series.to_string()).collect();
            list.sort();
            list
        };
        let mut expected: Vec<String> = (0..10).flat_map(|at| [format!("here-{at}"), format!("there-{at}")]).collect();
        expected.sort();
        world.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(list(&world.engine.namespace("plays").unwrap()), expected);
        assert_eq!(list(&other.engine.namespace("plays").unwrap()), expected);

        let gone = ["here-3", "there-3", "never"].map(|series| TimeSeriesId::new(series).unwrap());
        let refused = world.engine.unblock_series("plays", &gone).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert_eq!(list(&world.engine.namespace("plays").unwrap()), expected, "nothing was changed");
        let (here, there) =
            (world.engine.unblock_series("plays", &gone[..1]), other.engine.unblock_series("plays", &gone[1..2]));
        let (here, there) = join(here, there).await;
        assert!(here.is_ok() && there.is_ok());
        world.env.sleep(Duration::from_secs(1)).await;
        expected.retain(|series| !series.ends_with("-3"));
        assert_eq!(list(&world.engine.namespace("plays").unwrap()), expected);
    });
}

/// W1: a slice that one server makes is written to only when every other server knows it.
#[test]
fn an_event_in_a_slice_made_just_now_is_seen_by_every_server() {
    run(|world| async move {
        world
            .namespace(NamespaceConfig { seconds_per_slice: 3600, seconds_per_bucket: 60, ..Default::default() })
            .await;
        let other = World::on(world.env.clone(), world.store.clone()).await;
        for hours in 1..30 {
            let time = world.now() - hours * 3_600_000_000_000;
            world.write(vec![event("a", time, "e", &[("k", "v")])]).await.unwrap();
            assert_eq!(other.scan(history("a")).await.0.len() as i64, hours);
        }
    });
}

#[test]
fn a_deleted_namespace_leaves_nothing_behind() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        let unconfirmed = world.engine.delete_namespace("plays", "play", Some(Duration::ZERO)).await.unwrap_err();
        assert_eq!(unconfirmed.kind(), ErrorKind::InvalidArgument);
        world.engine.delete_namespace("plays", "plays", Some(Duration::ZERO)).await.unwrap();
        assert_eq!(world.store.tables().await.unwrap(), []);
        assert_eq!(world.read(history("a")).await.unwrap_err().kind(), ErrorKind::NotFound);
        world.namespace(NamespaceConfig::default()).await;
        assert_eq!(world.scan(history("a")).await.0.len(), 0);
    });
}

#[test]
fn a_deleted_namespace_can_be_restored_until_its_grace_is_over() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        world.write(vec![event("a", world.now(), "e", &[("k", "v")])]).await.unwrap();
        let other = World::on(world.env.clone(), world.store.clone()).await;
        let grace = Duration::from_secs(3600);
        world.engine.delete_namespace("plays", "plays", Some(grace)).await.unwrap();
        assert_eq!(world.read(history("a")).await.unwrap_err().kind(), ErrorKind::NotFound);
        let taken = world.engine.create_namespace(name("plays"), NamespaceConfig::default()).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        let restorable = || world.engine.deleted_namespaces().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(restorable(), [name("plays")]);
        world.env.sleep(Duration::from_secs(3000)).await;
        other.engine.restore_namespace("plays").await.unwrap();
        world.env.sleep(Duration::from_secs(3000)).await;
        assert_eq!(world.scan(history("a")).await.0.len(), 1, "nothing of it went");
        world.engine.delete_namespace("plays", "plays", Some(grace)).await.unwrap();
        world.env.sleep(grace).await;
        assert_eq!(restorable(), []);
        assert_eq!(world.engine.restore_namespace("plays").await.unwrap_err().kind(), ErrorKind::NotFound);
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.store.tables().await.unwrap(), []);
        world.namespace(NamespaceConfig::default()).await;
        assert_eq!(world.scan(history("a")).await.0.len(), 0);
    });
}
