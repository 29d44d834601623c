//! Histories on the screen and in pipes.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use crate::harness::{Place, Server, plain};

/// Events of one series, a second apart, the latest just now.
fn lines(count: usize, padding: usize) -> String {
    let now = now_seconds();
    let line = |index: usize| {
        let time = now - count as i64 + index as i64;
        let parity = if index.is_multiple_of(2) { "even" } else { "odd" };
        format!(
            "{{\"timeSeriesId\":\"s\",\"eventTime\":\"{}\",\"eventId\":\"e-{index:05}\",\"items\":{{\"n\":{index},\"parity\":\"{parity}\",\"pad\":\"{}\"}}}}\n",
            anabranch_model::Timestamp::from_seconds(time),
            "x".repeat(padding)
        )
    };
    (0..count).map(line).collect()
}

fn now_seconds() -> i64 {
    anabranch_runtime::Env::system().now().seconds()
}

fn ids(jsonl: &str) -> Vec<String> {
    let id =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["eventId"].as_str().unwrap().to_owned();
    jsonl.lines().map(id).collect()
}

fn filled<'a>(place: &'a Place, count: usize, padding: usize) -> Server<'a> {
    let server = place.serve().with_namespace("plays");
    server.run_with_input(&["write", "plays", "-"], lines(count, padding).as_bytes()).ok();
    server
}

/// Whether the server counts requests with such a label. It does so when a request has ended, a moment after its last byte has come.
fn is_counted(server: &Server<'_>, label: &str) -> bool {
    const LOOKS: usize = 1000;
    (0..LOOKS).any(|_| has_counted(server, label))
}

fn has_counted(server: &Server<'_>, label: &str) -> bool {
    let (_, metrics) = server.get("/metrics");
    metrics.lines().any(|line| line.starts_with("anabranch_request_seconds_count{") && line.contains(label))
}

#[test]
fn a_history_is_a_table_for_people() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    assert_eq!(server.run(&["read", "plays", "s"]).ok(), "no events\n");
    let items = ["title=The Expanse", "raw:base64=/wD/", "evil=\u{1b}[2J\u{7}", "empty="];
    for (age, item) in ["-1m", "-2m", "-3m", "-4m"].iter().zip(items) {
        let event = format!("e{age}");
        server
            .run(&["write", "plays", "--series", "s", "--time", age, "--event-id", &event, "--item", item, "-i", "n=1"])
            .ok();
    }
    let table = server.run(&["read", "plays", "s"]).ok();
    insta::assert_snapshot!("read_table", plain(&table, &server));
}

#[test]
fn a_limit_is_said_and_all_is_all() {
    let place = Place::new();
    let server = filled(&place, 2500, 1);
    let table = server.run(&["read", "plays", "s"]).ok();
    assert_eq!(table.lines().count(), 102, "{table}");
    assert!(table.ends_with("(100 shown; there is more: --limit N or --all shows it)\n"), "{table}");
    let all = server.run(&["read", "plays", "s", "--all"]).ok();
    assert_eq!(all.lines().count(), 2501);
    assert!(
        is_counted(&server, "method=\"StreamEventRecords\""),
        "all of it is one stream, which the server reads ahead"
    );
    assert_eq!(server.run(&["read", "plays", "s", "--limit", "2500"]).ok(), all);
    let some = ids(&server.run(&["read", "plays", "s", "-n", "1500", "--page-size", "400", "-o", "jsonl"]).ok());
    let expected: Vec<String> = (1000..2500).rev().map(|index| format!("e-{index:05}")).collect();
    assert_eq!(some, expected);
}

#[test]
fn programs_get_every_record_in_order() {
    let place = Place::new();
    let server = filled(&place, 2500, 1);
    let read = |more: &[&str]| server.run(&[&["read", "plays", "s", "--output", "jsonl"], more].concat()).ok();
    let expected: Vec<String> = (0..2500).map(|index| format!("e-{index:05}")).collect();
    assert_eq!(ids(&read(&["--oldest-first", "--page-size", "7"])), expected);
    let odd = ids(&read(&["--filter", "parity=odd", "--filter", "n"]));
    assert_eq!(odd.len(), 1250);
    assert_eq!(odd[0], "e-02499");
    assert_eq!(read(&["--filter", "colour"]), "");
    let document = server.run(&["read", "plays", "s", "--output", "json"]).ok();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["records"].as_array().unwrap().len(), 2500);
    assert_eq!(document["records"][0]["eventItems"][0]["eventItemKey"], "n");
    let empty = server.run(&["read", "plays", "other", "--output", "json"]).ok();
    assert_eq!(empty, "{\"records\":[]}\n");

    let now = now_seconds();
    let at = |seconds: i64| anabranch_model::Timestamp::from_seconds(seconds).to_string();
    let recent = ids(&read(&["--from", &at(now - 1000), "--to", &at(now - 500)]));
    assert_eq!(recent.len(), 500, "half-open");
    assert_eq!(ids(&read(&["--from", "-1h"])).len(), 2500);
    assert_eq!(ids(&read(&["--to", "-1h"])).len(), 0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let server = filled(&place, 3000, 200);
    let mut child = server
        .command(&["read", "plays", "s", "--output", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("e-02999"), "{line}");
    drop(stdout);
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(0), ""));
}

#[test]
fn what_is_not_there_or_cannot_be_is_said() {
    let place = Place::new();
    let server = place.serve();
    assert!(server.run(&["read", "plays", "s"]).fails(3).contains("there is no namespace `plays`"));
    let server = server.with_namespace("plays");
    assert!(server.run(&["read", "plays", ""]).fails(4).contains("must not be empty"));
    let backwards = server.run(&["read", "plays", "s", "--from", "now", "--to", "-1h"]);
    assert!(backwards.fails(4).contains("interval"));
}

#[test]
fn what_a_history_holds_is_counted_by_the_server() {
    let place = Place::new();
    let server = filled(&place, 2500, 1);
    let table = server.run(&["count", "plays", "s", "--by", "parity"]).ok();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["value", "records", "items", "bytes", "earliest", "latest"]);
    assert_eq!(
        (&lines[1][..3], &lines[2][..3]),
        (&["even", "1,250", "3,750"][..], &["odd", "1,250", "3,750"][..]),
        "{table}"
    );
    let one =
        server.run(&["count", "plays", "s", "nobody", "--filter", "n=7", "--by-series", "--output", "jsonl"]).ok();
    let group: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((group["timeSeriesId"].as_str(), group["records"].as_str()), (Some("s"), Some("1")), "{one}");
    let steps = server.run(&["count", "plays", "s", "--every", "10m", "--output", "jsonl"]).ok();
    let records = steps.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["records"].clone());
    let records: Vec<u64> = records.map(|records| records.as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(records.iter().sum::<u64>(), 2500);
    assert!(records.len() >= 5 && records.iter().all(|records| *records <= 600), "{records:?}");
    assert_eq!(server.run(&["count", "plays", "nobody"]).ok(), "nothing is stored there\n");
    let wrong = server.run(&["count", "plays", "s", "--every", "0s"]).fails(4);
    assert!(wrong.contains("group_by.time_step"), "{wrong}");
}
