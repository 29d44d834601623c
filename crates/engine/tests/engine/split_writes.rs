//! Writes where time is split: none into what is sealed but through a window, which no read misses, and new ones into the tail.

use std::time::Duration;

use anabranch_engine::EngineError;
use anabranch_model::{NamespaceConfig, ReadMode};

use crate::{
    fixture::{event, run},
    splits::config,
};

/// S3: what is planned takes no ordinary write any more, whatever the accept limit is raised to later.
#[test]
fn sealed_time_takes_no_ordinary_write_again() {
    run(|world| async move {
        let (before, _) = world.split(config()).await;
        let raise = |config: &mut NamespaceConfig| config.accept_limit = Duration::from_secs(20 * 3600);
        world.engine.update_namespace("plays", raise).await.unwrap();
        world.env.sleep(Duration::from_secs(5)).await;
        let late = before[3].position.time.nanos() + 1;
        let refused = world.write(vec![event("wide", late, "late", &[("k", "v")])]).await;
        let Err(EngineError::Refused(violations)) = refused else { panic!("{refused:?}") };
        assert!(violations[0].reason.contains("is sealed"), "{violations:?}");
        let sealed = world.engine.namespace("plays").unwrap().sealed_until;
        world.write(vec![event("wide", sealed.nanos(), "edge", &[("k", "v")])]).await.unwrap();
    });
}

/// W1 and R1 through a backfill: splits of the window stop being used at once, and serve again once they are proven anew.
#[test]
fn a_backfill_into_a_split_partition_is_never_missed() {
    run(|world| async move {
        let (before, row) = world.split(config()).await;
        world.mode(ReadMode::On).await;
        let window = row.served[0].span;
        let opened = world.engine.open_backfill("plays", window, Duration::from_secs(600), "late data").await.unwrap();
        world.env.sleep(Duration::from_secs(3)).await;
        let late = before[10].position.time.nanos() + 1;
        world.write(vec![event("wide", late, "backfilled", &[("k", "v")])]).await.unwrap();
        assert_eq!(world.all().await.len(), 2001);
        world.engine.close_backfill("plays", &opened.id).await.unwrap();
        for _ in 0..40 {
            assert_eq!(world.all().await.len(), 2001);
            world.env.sleep(Duration::from_secs(2)).await;
        }
        let anew = world.until("split anew", |row| !row.served.is_empty() && row.generation.0 == 2).await;
        assert_eq!(anew.served[0].pre_split_data.rows, 2001);
        let routed = world.counted("anabranch_split_routes_total", "split");
        assert_eq!(world.all().await.len(), 2001);
        assert!(world.counted("anabranch_split_routes_total", "split") > routed, "pieces serve again");
    });
}

#[test]
fn a_window_in_which_nothing_was_written_costs_a_recheck_and_nothing_else() {
    run(|world| async move {
        let (_, row) = world.split(config()).await;
        let window = row.served[0].span;
        world.engine.open_backfill("plays", window, Duration::from_secs(5), "").await.unwrap();
        let same = world.until("vouched for", |row| row.served.iter().any(|segment| segment.as_of == 1)).await;
        assert_eq!(same.generation.0, 1);
    });
}

/// Segments up to the watermark; the tail is added as time seals it, and earlier segments stay as they are.
#[test]
fn a_partition_that_still_takes_writes_is_split_and_extended() {
    run(|world| async move {
        world.namespace(config()).await;
        world.fill(world.now(), 2000).await;
        world.env.sleep(Duration::from_secs(3000)).await;
        world.fill(world.now(), 1000).await;
        world.env.sleep(Duration::from_secs(900)).await;
        world.mode(ReadMode::On).await;
        assert_eq!(world.all().await.len(), 3000);
        let first = world.until("completed", |row| !row.served.is_empty()).await;
        assert!(first.served[0].pre_split_data.rows < 3000, "only what is sealed");
        let mut newest = 3000;
        for _ in 0..8 {
            world.env.sleep(Duration::from_secs(1200)).await;
            let now = world.now();
            world.write(vec![event("wide", now, "tail", &[("k", "v")])]).await.unwrap();
            newest += 1;
            assert_eq!(world.all().await.len(), newest);
        }
        let extended = world.until("extended", |row| row.served.len() > 1).await;
        assert_eq!(extended.served[0].pieces, first.served[0].pieces, "earlier segments are untouched");
        for pair in extended.served.windows(2) {
            assert_eq!(pair[0].span.end, pair[1].span.start);
            let last = pair[0].pieces.iter().map(|piece| piece.ordinal).max().unwrap();
            assert!(pair[1].pieces.iter().all(|piece| piece.ordinal > last), "ordinals count on (S7)");
        }
        assert_eq!(world.all().await.len(), newest);
    });
}
