//! An engine on an in-memory store in virtual time, and short ways to speak to it.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{
    Engine, EngineError, EngineOptions, EventInput, ItemInput, Page, ReadRequest, TimeInput, WriteRequest,
};
use anabranch_model::{NamespaceConfig, NamespaceName, Record, Timestamp};
use anabranch_runtime::{Env, run_simulated};
use anabranch_store::{MemoryStore, Store};
use bytes::Bytes;

/// 2026-03-28T10:00:00Z
pub(crate) const START: i64 = 1_774_692_000;

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) engine: Arc<Engine>,
}

/// Runs `test` on a fresh engine at 2026-03-28T10:00:00Z.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    run_simulated(7, Timestamp::from_seconds(START), |env| async move {
        let store = Arc::new(MemoryStore::new(env.clone()));
        test(World::on(env, store).await).await;
    });
}

impl World {
    pub(crate) async fn on(env: Env, store: Arc<MemoryStore>) -> World {
        World::with(env, store, EngineOptions::default()).await
    }

    pub(crate) async fn with(env: Env, store: Arc<MemoryStore>, options: EngineOptions) -> World {
        let engine = Engine::start(store.clone() as Arc<dyn Store>, env.node(0), options).await.unwrap();
        World { env, store, engine }
    }

    pub(crate) async fn namespace(&self, config: NamespaceConfig) {
        self.engine.create_namespace(NamespaceName::new("plays").unwrap(), config).await.unwrap();
        // The first slice must be known to every server before writes go into it.
        self.env.sleep(Duration::from_secs(3)).await;
    }

    pub(crate) fn now(&self) -> i64 {
        self.env.now().nanos()
    }

    pub(crate) async fn write(&self, events: Vec<EventInput>) -> Result<usize, EngineError> {
        let request = WriteRequest { namespace: "plays".to_owned(), events, timeout: None };
        self.engine.write_sync(request).await.map(|receipt| receipt.events)
    }

    pub(crate) async fn read(&self, request: ReadRequest) -> Result<Page, EngineError> {
        self.engine.read(request).await
    }

    /// All pages of a scan, joined, and how many there were.
    pub(crate) async fn scan(&self, mut request: ReadRequest) -> (Vec<Record>, usize) {
        let mut records = Vec::new();
        for pages in 1..10_000 {
            let page = self.engine.read(request.clone()).await.unwrap();
            records.extend(page.records);
            match page.next_page_token {
                Some(token) => request.page_token = token,
                None => return (records, pages),
            }
        }
        panic!("the scan does not end");
    }
}

pub(crate) fn event(series: &str, nanos: i64, id: &str, items: &[(&str, &str)]) -> EventInput {
    let item = |(key, value): &(&str, &str)| ItemInput {
        key: (*key).to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        metadata: None,
    };
    EventInput {
        series: series.to_owned(),
        time: Some(TimeInput::Nanos(nanos)),
        id: id.to_owned(),
        items: items.iter().map(item).collect(),
    }
}

pub(crate) fn history(series: &str) -> ReadRequest {
    ReadRequest { namespace: "plays".to_owned(), series: series.to_owned(), ..ReadRequest::default() }
}

pub(crate) fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.position.id.as_str()).collect()
}
