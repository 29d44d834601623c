//! Namespaces: made, changed, seen by every server, deleted with everything in them.

use std::time::Duration;

use anabranch_engine::{EngineError, ErrorKind};
use anabranch_model::{NamespaceConfig, NamespaceName};
use anabranch_store::Store;

use crate::fixture::{World, event, history, run};

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
fn other_servers_see_a_change_within_two_seconds() {
    run(|world| async move {
        world.namespace(NamespaceConfig::default()).await;
        let other = World::on(world.env.clone(), world.store.clone()).await;
        world.engine.create_namespace(name("second"), NamespaceConfig::default()).await.unwrap();
        assert!(other.engine.namespace("second").is_err());
        world.env.sleep(Duration::from_secs(2)).await;
        assert!(other.engine.namespace("second").is_ok());
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
        world.env.sleep(Duration::from_secs(3000)).await;
        other.engine.restore_namespace("plays").await.unwrap();
        world.env.sleep(Duration::from_secs(3000)).await;
        assert_eq!(world.scan(history("a")).await.0.len(), 1, "nothing of it went");
        world.engine.delete_namespace("plays", "plays", Some(grace)).await.unwrap();
        world.env.sleep(grace).await;
        assert_eq!(world.engine.restore_namespace("plays").await.unwrap_err().kind(), ErrorKind::NotFound);
        world.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.store.tables().await.unwrap(), []);
        world.namespace(NamespaceConfig::default()).await;
        assert_eq!(world.scan(history("a")).await.0.len(), 0);
    });
}
