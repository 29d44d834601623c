//! Traces of the real program: `anabranch serve` sends the spans of a read to a collector that takes OTLP, and nothing unless it
//! is told to.

// The same collector that the server's own tests send to.
#[allow(dead_code)] // those tests ask it for more
#[path = "../../../server/tests/traces/collector.rs"]
mod collector;

use anabranch_runtime::Env;
use rustix::process::Signal;

use crate::{
    harness::Place,
    splits::{import, serve_with, until},
};
use collector::Collector;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_read_shows_its_way_through_slices_router_and_pieces() {
    let collector = Collector::start(&Env::system()).await;
    let place = Place::new();
    let server = serve_with(&place, &format!("[traces]\nendpoint = \"{}\"\none_in = 1\n", collector.url()));
    import(&place, &server, "wide", 600);
    server.run(&["read", "plays", "wide", "--all", "--output", "jsonl"]).ok();
    until(&server, "wide", "COMPLETED");
    server.run(&["split", "mode", "plays", "on"]).ok();
    let page = server.run(&["read", "plays", "wide", "--limit", "37", "--output", "jsonl"]).ok();
    assert_eq!(page.lines().count(), 37);
    // What hasn't been sent yet is sent at the end.
    server.signal(Signal::TERM);
    assert!(server.wait().success());

    // The whole history came as a stream, so that there is one page.
    let all = collector.all();
    let page = all.only("page");
    assert_eq!((page.attribute("namespace"), page.attribute("series")), ("plays", "wide"));
    let spans = collector.trace(&page.trace);
    let request = spans.only("ReadEventRecords");
    assert_eq!((request.parent.as_str(), request.attribute("code")), ("", "OK"));
    assert_eq!(page.parent, request.id);
    let slices = spans.called("slice");
    assert!(slices.iter().all(|slice| slice.parent == page.id), "{spans:?}");
    let route = spans.called("route").into_iter().find(|route| route.attribute("outcome") == "split");
    let route = route.unwrap_or_else(|| panic!("the router isn't there: {spans:?}"));
    let slice = slices.iter().find(|slice| slice.id == route.parent).expect("it was routed in a slice");
    let pieces = spans.called("piece");
    assert!(!pieces.is_empty() && pieces.iter().all(|piece| piece.parent == slice.id), "{spans:?}");
    let scans = spans.called("scan");
    assert!(pieces.iter().all(|piece| scans.iter().any(|scan| scan.parent == piece.id)), "{spans:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_traced_unless_a_collector_is_named() {
    let collector = Collector::start(&Env::system()).await;
    let place = Place::new();
    // What other programs take for an order is none to us.
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_TRACES_EXPORTER", "otlp".to_owned())];
    let endpoint = endpoint.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = place.serve_in(&[], &endpoint).with_namespace("plays");
    server.run(&["write", "plays", "--series", "profile:1", "--item", "title=Dark"]).ok();
    assert_eq!(server.count("plays", "profile:1"), 1);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(collector.all().iter().count(), 0);
    let shown = crate::harness::alone(&["config"]).ok();
    let line = shown.lines().find(|line| line.contains("traces.endpoint")).unwrap();
    assert!(line.contains("default"), "{line}");
}
