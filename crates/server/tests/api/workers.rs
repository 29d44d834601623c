//! Workers that serve nobody: they split what others wrote to a store they share, and tell how they are.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{
    Engine, EngineOptions, EventInput, ItemInput, SplitOptions, SplitSelection, TimeInput, WriteRequest,
};
use anabranch_model::{Interval, NamespaceConfig, NamespaceName, Slo, SplitSettings, Timestamp};
use anabranch_runtime::Env;
use anabranch_server::{StartError, Worker};
use anabranch_store::{MemoryStore, Store};
use tempfile::TempDir;

use crate::harness::{config, send};

const DEADLINE: Duration = Duration::from_secs(60);

fn namespace() -> NamespaceConfig {
    NamespaceConfig {
        accept_limit: Duration::from_secs(1),
        seal_margin: Duration::from_secs(1),
        write_slo: Slo { target: Duration::from_millis(100), max: Duration::from_millis(400) },
        split: SplitSettings { threshold_bytes: 64 << 10, target_piece_bytes: 16 << 10, ..SplitSettings::default() },
        ..NamespaceConfig::default()
    }
}

fn events(noon: Timestamp) -> Vec<EventInput> {
    let event = |index: u64| EventInput {
        series: "wide".to_owned(),
        time: Some(TimeInput::Nanos(noon.saturating_add(Duration::from_secs(index)).nanos())),
        id: format!("e-{index:05}"),
        items: vec![ItemInput { key: "body".to_owned(), value: "water ".repeat(80).into(), metadata: None }],
    };
    (0..300).map(event).collect()
}

/// A server without workers, whose namespace holds a wide partition that somebody asked to be split.
async fn serving(store: &Arc<dyn Store>, env: &Env) -> Arc<Engine> {
    let splits = SplitOptions { concurrent: 0, ..SplitOptions::default() };
    let refresh_interval = Duration::from_millis(50);
    let options = EngineOptions { splits, refresh_interval, ..EngineOptions::default() };
    let engine = Engine::start(store.clone(), env.clone(), options).await.unwrap();
    engine.create_namespace(NamespaceName::new("plays").unwrap(), namespace()).await.unwrap();
    let noon = Timestamp::from_seconds(1_585_396_800);
    let hour = Interval::new(noon, noon.saturating_add(Duration::from_secs(3600)));
    let window = engine.open_backfill("plays", hour, Duration::from_secs(60), "").await.unwrap();
    while engine.now() < window.effective {
        env.sleep(Duration::from_millis(10)).await;
    }
    let write = WriteRequest { namespace: "plays".to_owned(), events: events(noon), timeout: None };
    engine.write_sync(write).await.unwrap();
    engine.close_backfill("plays", &window.id).await.unwrap();
    let which = SplitSelection { time_series_id: Some("wide".to_owned()), ..SplitSelection::default() };
    assert_eq!(engine.request_splits("plays", &which).await.unwrap().rows.len(), 1);
    engine
}

#[tokio::test]
async fn a_worker_splits_what_others_serve_and_tells_how_it_is() {
    let (directory, env) = (TempDir::new().unwrap(), Env::system());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
    let engine = serving(&store, &env).await;
    let mut settings = config(&directory);
    settings.splits.sweep_interval = Duration::from_millis(100);
    settings.engine.refresh_interval = Duration::from_millis(50);
    let worker = Worker::start_on(store, settings, env.clone()).await.unwrap();
    let begun = env.monotonic();
    loop {
        let rows = engine.split_records("plays", &SplitSelection::default()).await.unwrap();
        if rows.iter().any(|row| !row.served.is_empty()) {
            break;
        }
        assert!(env.monotonic() - begun < DEADLINE, "{rows:?}");
        env.sleep(Duration::from_millis(20)).await;
    }
    let http = worker.http_addr();
    assert_eq!(send(http, "GET", "/healthz", "", b"").await.text(), "ok\n");
    assert_eq!(send(http, "GET", "/readyz", "", b"").await.text(), "ready\n");
    let metrics = send(http, "GET", "/metrics", "", b"").await;
    assert!(metrics.text().contains("anabranch_splits_ended_total{state=\"COMPLETED\"} 1"), "{}", metrics.text());
    assert!(send(http, "GET", "/v1/tasks", "", b"").await.text().contains("\"splits\""));
    let nothing = send(http, "POST", "/v1/namespaces/plays/events:read", "", b"").await;
    assert_eq!(nothing.status, 404);
    assert!(nothing.text().contains("this is a worker"), "{}", nothing.text());
    worker.shutdown().await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_worker_is_refused_where_it_could_do_nothing() {
    let (directory, env) = (TempDir::new().unwrap(), Env::system());
    let Err(refused) = Worker::start(config(&directory), env.clone()).await else { panic!("it can't be shared") };
    assert!(matches!(refused, StartError::NotShared { .. }), "{refused}");
    assert!(refused.to_string().contains("`anabranch serve` splits wide partitions by itself"), "{refused}");
    assert!(!directory.path().join("data").exists(), "nothing is touched");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(env.clone()));
    let mut settings = config(&directory);
    settings.splits.workers = 0;
    let Err(refused) = Worker::start_on(store, settings, env).await else { panic!("nothing to do") };
    assert!(refused.to_string().contains("splits.workers"), "{refused}");
}
