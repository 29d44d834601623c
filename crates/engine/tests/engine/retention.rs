//! Slices are made ahead of need, closed and dropped by age, and a scan that loses rows to that says so.

use std::time::Duration;

use anabranch_engine::{ErrorKind, PartialReason, ReadRequest};
use anabranch_model::{NamespaceConfig, Order};
use anabranch_store::Store;

use crate::fixture::{event, history, run};

fn short_lived() -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: 3600,
        seconds_per_bucket: 600,
        accept_limit: Duration::from_secs(600),
        close_after: Some(Duration::from_secs(7200)),
        delete_after: Some(Duration::from_secs(10_800)),
        ..NamespaceConfig::default()
    }
}

#[test]
fn slices_are_made_ahead_closed_and_dropped() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        for _ in 0..100 {
            let (now, record) = (world.env.now(), world.engine.namespace("plays").unwrap());
            let ahead = record.slices.iter().filter(|slice| slice.interval.start > now).count();
            assert!(ahead >= 1, "{ahead} slices ahead at {now}");
            world.write(vec![event("a", now.nanos(), "e", &[("k", "v")])]).await.unwrap();
            world.env.sleep(Duration::from_secs(600)).await;
        }
        let record = world.engine.namespace("plays").unwrap();
        assert!(record.slices.len() <= 8, "{}", record.slices.len());
        assert_eq!(world.store.tables().await.unwrap().len(), record.slices.len());
        let (records, _) = world.scan(history("a")).await;
        let hours = records.len() as u64 * 600 / 3600;
        assert!((2..=4).contains(&hours), "{hours} hours are left");
    });
}

/// R1, R2
#[test]
fn a_scan_that_loses_rows_to_retention_says_so() {
    for order in [Order::LatestFirst, Order::OldestFirst] {
        run(|world| async move {
            world.namespace(short_lived()).await;
            for at in 0..12 {
                world.write(vec![event("a", world.now(), &format!("e{at}"), &[("k", "v")])]).await.unwrap();
                world.env.sleep(Duration::from_secs(600)).await;
            }
            let mut request = ReadRequest { order, page_size: 2, ..history("a") };
            let first = world.read(request.clone()).await.unwrap();
            assert_eq!(first.partial, None);
            request.page_token = first.next_page_token.unwrap();
            world.env.sleep(Duration::from_secs(5000)).await;
            let mut reasons = Vec::new();
            loop {
                let page = world.read(request.clone()).await.unwrap();
                reasons.extend(page.partial.map(|partial| partial.reason));
                let Some(token) = page.next_page_token else { break };
                request.page_token = token;
            }
            assert_eq!(reasons, [PartialReason::Retention], "{order:?}");
            // A scan that begins now covers what is there, and is whole.
            assert_eq!(world.read(history("a")).await.unwrap().partial, None);
        });
    }
}

#[test]
fn closed_time_takes_no_backfill() {
    run(|world| async move {
        world.namespace(short_lived()).await;
        world.env.sleep(Duration::from_secs(20_000)).await;
        let closed = world.engine.namespace("plays").unwrap().closed_until;
        let interval = anabranch_model::Interval::new(closed.saturating_sub(Duration::from_secs(60)), closed);
        let refused = world.engine.open_backfill("plays", interval, Duration::from_secs(60), "").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("retention"), "{refused}");
    });
}
