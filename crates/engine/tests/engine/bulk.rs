//! R1 for whole histories: what lies in pieces is read in chunks, several at once, and delivered as pages of the size asked for.

use std::time::Duration;

use anabranch_engine::{EventInput, Filter, ItemInput, Page, ReadRequest, TimeInput};
use anabranch_model::{Order, ReadMode, Record};
use bytes::Bytes;

use crate::{
    fixture::{World, event, history, run},
    splits::config,
};

/// All pages of a stream, up to its first error.
async fn stream(world: &World, request: &ReadRequest) -> Vec<Page> {
    let mut bulk = world.engine.bulk_read(request).await.unwrap();
    let mut pages = Vec::new();
    while let Some(page) = bulk.next().await {
        pages.push(page.unwrap());
    }
    pages
}

fn records(pages: Vec<Page>) -> Vec<Record> {
    pages.into_iter().flat_map(|page| page.records).collect()
}

/// A stream delivers what page after page does, no page is larger than was asked for, and the token of each goes on behind its last
/// record, as pages or as another stream.
async fn check(world: &World, request: ReadRequest) {
    check_tokens(world, request, 5).await;
}

/// As [`check`], with the token of one page in so many.
async fn check_tokens(world: &World, request: ReadRequest, one_in: usize) {
    let (expected, _) = world.scan(request.clone()).await;
    let pages = stream(world, &request).await;
    assert_eq!(pages.last().unwrap().next_page_token, None);
    let mut served = 0;
    for (number, page) in pages.iter().enumerate() {
        let bytes: usize = page.records.iter().map(Record::bytes).sum();
        let fits = request.page_bytes == 0 || bytes as u64 <= request.page_bytes || page.records.len() == 1;
        assert!(page.records.len() <= request.page_size as usize && fits, "{} records, {bytes} B", page.records.len());
        assert_eq!(page.partial, None);
        served += page.records.len();
        let Some(page_token) = page.next_page_token.clone().filter(|_| number % one_in == 0) else { continue };
        let rest = ReadRequest { page_token, ..request.clone() };
        assert_eq!(world.scan(rest.clone()).await.0, expected[served..], "page after page behind page {number}");
        assert_eq!(records(stream(world, &rest).await), expected[served..], "a stream behind page {number}");
    }
    assert_eq!(records(pages), expected);
}

#[test]
fn a_bulk_read_delivers_in_order_and_its_tokens_go_on() {
    run(|world| async move {
        let (before, _) = world.split(config()).await;
        world.fill(world.now(), 50).await;
        world.mode(ReadMode::On).await;
        let middle = before[900].position.time;
        for order in [Order::LatestFirst, Order::OldestFirst] {
            for start in [None, Some(middle)] {
                check(&world, ReadRequest { page_size: 64, order, start, ..history("wide") }).await;
                check(&world, ReadRequest { page_size: 1000, page_bytes: 2000, order, start, ..history("wide") }).await;
            }
            let filters = vec![Filter { key: "body".to_owned(), value: None }];
            check(&world, ReadRequest { page_size: 7, order, filters, start: Some(middle), ..history("wide") }).await;
        }
        let limited = ReadRequest { page_size: 64, total_record_limit: 300, ..history("wide") };
        assert_eq!(records(stream(&world, &limited).await).len(), 300);
    });
}

/// R1: events lie as close to each other as time can tell, so a token that is off by a nanosecond, between two pieces or within one,
/// loses an event or repeats it.
#[test]
fn no_token_of_a_stream_is_off_by_an_instant() {
    run(|world| async move {
        world.namespace(config()).await;
        let now = world.now();
        for chunk in 0..4 {
            let body = "water ".repeat(20);
            let event = |at: i64| event("wide", now - at, &format!("e{at:05}"), &[("body", &body)]);
            world.write((chunk * 200..(chunk + 1) * 200).map(event).collect()).await.unwrap();
        }
        world.env.sleep(Duration::from_secs(2 * 3600)).await;
        let before = world.all().await;
        let row = world.until("split", |row| !row.served.is_empty()).await;
        assert!(row.served[0].pieces.len() > 4, "{}", row.served[0].pieces.len());
        world.mode(ReadMode::On).await;
        for order in [Order::LatestFirst, Order::OldestFirst] {
            check_tokens(&world, ReadRequest { page_size: 50, order, ..history("wide") }, 1).await;
            let (start, end) = (Some(before[700].position.time), Some(before[100].position.time));
            check_tokens(&world, ReadRequest { page_size: 50, order, start, end, ..history("wide") }, 1).await;
        }
    });
}

/// A piece of many chunks, with events that are larger than a record may be and so come in parts.
#[test]
fn pages_are_cut_from_chunks_within_events_too() {
    run(|world| async move {
        let mut config = config();
        config.split.target_piece_bytes = 2 << 20;
        config.split.threshold_bytes = 2 << 20;
        config.page_limits.max_record_bytes = 4096;
        let item = |at: i64| ItemInput {
            key: format!("part{at:02}"),
            value: Bytes::from(vec![at as u8; 1500]),
            metadata: None,
        };
        let event = |time: i64, at: i64| EventInput {
            series: "wide".to_owned(),
            time: Some(TimeInput::Nanos(time)),
            id: format!("many{at:03}"),
            items: (0..20).map(item).collect(),
        };
        world.namespace(config).await;
        let now = world.now();
        for at in 0..100 {
            world.write(vec![event(now - at * 1_000_000_000 - 500, at)]).await.unwrap();
        }
        world.env.sleep(Duration::from_secs(2 * 3600)).await;
        world.all().await;
        let row = world.until("split", |row| !row.served.is_empty()).await;
        assert!(
            row.served[0].pre_split_data.bytes > 2 << 20,
            "more than one chunk: {:?}",
            row.served[0].pre_split_data
        );
        world.mode(ReadMode::On).await;
        for order in [Order::LatestFirst, Order::OldestFirst] {
            for page_size in [1, 3, 64] {
                check(&world, ReadRequest { page_size, order, ..history("wide") }).await;
            }
        }
        assert!(world.all().await.iter().any(|record| record.continued), "events come in parts");
    });
}
