//! Stopping loses nothing: what is queued is written, what was acknowledged is there after a restart (W1).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anabranch_api::v1;
use anabranch_client::Client;
use anabranch_runtime::Env;
use anabranch_server::Server;
use futures_util::{StreamExt, TryStreamExt};
use tempfile::TempDir;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::harness::{Fixture, config, event, history, never_again};

/// The ids of a whole history, after a restart.
async fn ids_after_restart(directory: TempDir, series: &str) -> Vec<String> {
    let settings = config(&directory);
    let fixture = Fixture::start(directory, settings).await;
    let pages: Vec<_> = fixture.client.pages(history(series)).try_collect().await.unwrap();
    let mut ids: Vec<String> = pages.into_iter().flat_map(|page| page.records).map(|record| record.event_id).collect();
    ids.sort();
    fixture.stop().await;
    ids
}

#[tokio::test]
async fn what_is_queued_is_written_before_the_end() {
    let fixture = Fixture::new().await;
    let mut expected = Vec::new();
    for batch in 0..20 {
        let ids: Vec<String> = (0..100).map(|index| format!("e-{batch:02}-{index:03}")).collect();
        let events = ids.iter().map(|id| event("profile:1", fixture.ago(60), id, "x")).collect();
        let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
        fixture.client.write(request).await.unwrap();
        expected.extend(ids);
    }
    let directory = fixture.stop().await;
    assert_eq!(ids_after_restart(directory, "profile:1").await, expected);
}

#[tokio::test]
async fn writes_under_way_are_acknowledged_or_refused_and_never_lost() {
    let fixture = Fixture::new().await;
    let begun = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (client, time, begun) = (fixture.client.clone(), fixture.ago(60), begun.clone());
            fixture.env.spawn(async move {
                let mut acknowledged = Vec::new();
                for count in 0.. {
                    let id = format!("e-{writer}-{count:06}");
                    let events = vec![event("profile:1", time, &id, "x")];
                    let request = v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events };
                    if client.write_sync(request).await.is_err() {
                        break;
                    }
                    acknowledged.push(id);
                    begun.store(true, Ordering::Relaxed);
                }
                acknowledged
            })
        })
        .collect();
    while !begun.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    let directory = fixture.stop().await;
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let found = ids_after_restart(directory, "profile:1").await;
    assert!(!acknowledged.is_empty());
    for id in acknowledged {
        assert!(found.binary_search(&id).is_ok(), "{id} was acknowledged and is gone");
    }
}

#[tokio::test]
async fn those_who_watch_hear_that_the_server_stops() {
    let directory = TempDir::new().unwrap();
    let server = Server::start(config(&directory), Env::system()).await.unwrap();
    let address = server.grpc_addr().to_string();
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let watch = HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap();
    let mut watch = watch.into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let (stopped, heard) = tokio::join!(server.shutdown(), watch.next());
    stopped.unwrap();
    assert_eq!(heard.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watch.next().await.is_none());
    assert!(Client::connect_with(&address, never_again()).await.is_err());
}

#[tokio::test]
async fn a_stream_that_nobody_reads_does_not_keep_the_server_from_stopping() {
    let fixture = Fixture::with(|config| config.limits.shutdown_grace = std::time::Duration::from_millis(200)).await;
    let value = bytes::Bytes::from(vec![7; 256 << 10]);
    for batch in 0..8 {
        let events =
            (0..8).map(|index| event("profile:1", fixture.ago(60), &format!("e-{batch}-{index}"), value.clone()));
        fixture.write(events.collect()).await;
    }
    let request = v1::ReadEventRecordsRequest { page_size: 1, ..history("profile:1") };
    let mut stream = fixture.client.stream(request);
    stream.next().await.unwrap().unwrap();
    let directory = fixture.stop().await;
    assert_eq!(ids_after_restart(directory, "profile:1").await.len(), 64);
    let rest: Result<Vec<_>, _> = stream.try_collect().await;
    assert!(rest.is_err(), "a stream that was cut must not look complete");
}
