//! Traces: what a collector receives of one read over a split partition and of the split itself, and that a collector that is away
//! costs spans and nothing else. A target of its own, for there is one subscriber in a process.
#![allow(clippy::unwrap_used)] // a test that can't go on has failed

mod collector;
mod fixture;

use std::time::Duration;

use anabranch_api::v1::{self, time_series_service_client::TimeSeriesServiceClient};
use anabranch_runtime::Env;
use anabranch_server::{Traces, config};
use tracing_subscriber::layer::SubscriberExt as _;

use collector::{Collected, Collector};
use fixture::{Fixture, SERIES};

/// Of a client that traces, too.
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[tokio::test(flavor = "multi_thread")]
async fn a_read_over_a_split_partition_is_one_trace_and_so_is_its_split() {
    let env = Env::system();
    let collector = Collector::start(&env).await;
    let settings = config::Traces { endpoint: collector.url(), one_in: 1, ..config::Traces::default() };
    let traces = Traces::start(&settings, &env).unwrap().unwrap();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(traces.layer())).unwrap();
    let fixture = Fixture::start(&env).await;
    fixture.split().await;

    let mut client = TimeSeriesServiceClient::connect(format!("http://{}", fixture.grpc)).await.unwrap();
    let read = v1::ReadEventRecordsRequest {
        namespace: "plays".to_owned(),
        time_series_id: SERIES.to_owned(),
        page_size: 100,
        ..Default::default()
    };
    let mut request = tonic::Request::new(read);
    request.metadata_mut().insert("traceparent", format!("00-{TRACE_ID}-{PARENT}-01").parse().unwrap());
    let page = client.read_event_records(request).await.unwrap().into_inner();
    assert_eq!(page.records.len(), 100);
    traces.flush().await;

    let spans = collector.trace(TRACE_ID);
    let request = spans.only("ReadEventRecords");
    assert_eq!((request.parent.as_str(), request.attribute("code")), (PARENT, "OK"));
    assert_eq!(request.attribute("method"), "ReadEventRecords");
    let page = spans.only("page");
    assert_eq!(page.parent, request.id);
    assert_eq!((page.attribute("namespace"), page.attribute("series")), ("plays", SERIES));
    assert_eq!(page.attribute("records"), "100");
    let slices = spans.called("slice");
    assert!(!slices.is_empty() && slices.iter().all(|slice| slice.parent == page.id), "{spans:?}");
    let routed = spans.called("route").into_iter().find(|route| route.attribute("outcome") == "split");
    let routed = routed.unwrap_or_else(|| panic!("nothing came from pieces: {spans:?}"));
    let slice = slices.iter().find(|slice| slice.id == routed.parent).expect("it was routed in a slice");
    let pieces = spans.called("piece");
    assert!(!pieces.is_empty() && pieces.iter().all(|piece| piece.parent == slice.id), "{spans:?}");
    assert_eq!(pieces[0].attribute("generation"), "1");
    let scans = spans.called("scan");
    assert!(pieces.iter().all(|piece| scans.iter().any(|scan| scan.parent == piece.id)), "{spans:?}");

    // Over HTTP the same, and no id is in a name.
    let http = "2af7651916cd43dd8448eb211c80319c";
    fixture.read_over_http(&format!("00-{http}-{PARENT}-01")).await;
    traces.flush().await;
    let spans = collector.trace(http);
    let request = spans.iter().find(|span| span.parent == PARENT).expect("the client's span has a child");
    assert_eq!(request.attribute("method"), "ReadEventRecords");
    assert_eq!(request.name, "HTTP POST");
    assert_eq!(spans.only("page").parent, request.id);

    // The split began on its own: a trace with its states in it, in their order.
    let all = collector.all();
    let split = all.called("split").into_iter().find(|split| split.attribute("state") == "COMPLETED");
    let split = split.unwrap_or_else(|| panic!("no split was traced: {all:?}"));
    assert_eq!((split.parent.as_str(), split.attribute("series")), ("", SERIES));
    let mut states: Vec<&Collected> =
        all.iter().filter(|span| span.parent == split.id && span.trace == split.trace).collect();
    states.retain(|span| span.name.chars().all(|letter| letter.is_ascii_uppercase()));
    states.sort_by_key(|span| span.start);
    let mut names: Vec<&str> = states.iter().map(|span| span.name.as_str()).collect();
    names.dedup();
    assert_eq!(names, ["DETECTED", "PLANNING", "PLANNED", "SPLITTING", "VERIFYING"]);

    // A client that doesn't want to be traced isn't.
    let other = "1af7651916cd43dd8448eb211c80319c";
    let mut request = tonic::Request::new(v1::ReadEventRecordsRequest {
        namespace: "plays".to_owned(),
        time_series_id: SERIES.to_owned(),
        ..Default::default()
    });
    request.metadata_mut().insert("traceparent", format!("00-{other}-{PARENT}-00").parse().unwrap());
    client.read_event_records(request).await.unwrap();
    traces.flush().await;
    assert!(collector.trace(other).iter().next().is_none());
    let counted = fixture.metric("anabranch_trace_spans_total{outcome=\"sent\"}").await;
    assert!(counted >= collector.all().iter().count() as f64 && counted > 20.0, "{counted}");
    fixture.stop().await;
}

/// Nobody listens there: spans are lost and counted, and whoever makes them doesn't wait.
#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_no_time() {
    const SPANS: usize = 5000;
    let env = Env::system();
    let nobody = format!("http://{}", collector::free_address().await);
    let timeout = Duration::from_secs(2);
    let settings = config::Traces { endpoint: nobody, one_in: 1, max_spans: 100, timeout };
    let traces = Traces::start(&settings, &env).unwrap().unwrap();
    let before = lost();
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
    let begun = env.monotonic();
    for _ in 0..SPANS {
        drop(tracing::trace_span!(target: anabranch_engine::TRACE, "lonely"));
    }
    // One thread, and never a wait in between: had a span waited for room, this would never end.
    let took = env.monotonic() - begun;
    drop(subscriber);
    assert!(took < timeout, "{took:?}");
    assert!(lost() - before >= (SPANS - 100) as u64, "what didn't fit is counted at once");
    traces.flush().await;
    assert_eq!(lost() - before, SPANS as u64, "what could not be sent is counted, too");
}

/// Spans that nobody got.
fn lost() -> u64 {
    let spans = anabranch_server::traces::spans();
    ["dropped", "failed"].map(|outcome| spans.with_label_values(&[outcome]).get()).iter().sum()
}

/// Without an endpoint nothing is made and nothing is sent.
#[tokio::test]
async fn traces_are_off_by_default() {
    assert!(Traces::start(&config::Traces::default(), &Env::system()).unwrap().is_none());
}
