//! Events from flags, files and pipes; going on after a failure.

use std::{
    io::{Read, Write},
    process::Stdio,
};

use rustix::process::Signal;

use crate::harness::{Place, plain, send_signal};

fn line(index: usize) -> String {
    let now = anabranch_runtime::Env::system().now();
    format!(
        "{{\"timeSeriesId\":\"s\",\"eventTime\":\"{now}\",\"eventId\":\"e-{index}\",\"items\":{{\"n\":{index}}}}}\n"
    )
}

#[test]
fn one_event_comes_from_flags() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let file = place.file("poster.bin", b"\x00\xff");
    let poster = format!("poster=@{file}");
    let args = [
        "write",
        "plays",
        "--id",
        "s",
        "--event-id",
        "e-1",
        "-i",
        "title=Dark",
        "-i",
        &poster,
        "--metadata",
        "poster=raw",
    ];
    insta::assert_snapshot!(plain(&server.run(&args).ok(), &server), @"stored event `e-1` of `s` at TIME");
    let record: serde_json::Value =
        serde_json::from_str(&server.run(&["read", "plays", "s", "-o", "jsonl"]).ok()).unwrap();
    let poster = serde_json::json!({"eventItemKey": "poster", "eventItemValue": "AP8=", "valueMetadata": "cmF3"});
    assert_eq!(record["eventItems"][0], poster);
    assert_eq!(record["eventItems"][1]["eventItemValue"], "RGFyaw==");

    assert!(server.run(&["write", "plays", "--series", "s"]).fails(2).contains("--item"));
    assert!(server.run(&["write", "plays", "--series", "s", "-i", "a=@none"]).fails(3).contains("none"));
    assert!(server.run(&["write", "none", "--series", "s", "-i", "a=1"]).fails(3).contains("no namespace `none`"));
    assert!(
        server
            .run(&["write", "plays", "--series", "s", "-i", "a=1", "--metadata", "b=1"])
            .fails(2)
            .contains("--item b=")
    );
    let future = server.run(&["write", "plays", "--series", "s", "-i", "a=1", "--time", "+1h"]);
    assert!(future.fails(4).contains("in the future"));
}

#[test]
fn many_events_come_from_a_file_or_a_pipe() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let text: String = (0..1200).map(line).collect();
    let file = place.file("events.jsonl", &text);
    let shown = server.run(&["write", "plays", "--file", &file, "--batch", "100"]).ok();
    assert!(shown.starts_with("stored 1,200 events in "), "{shown}");
    assert_eq!(server.count("plays", "s"), 1200);
    // W2: the same lines once more leave the same rows.
    let again = server.run_with_input(&["write", "plays", "-", "--queued", "-o", "json"], text.as_bytes()).ok();
    assert_eq!(again, "{\"eventsQueued\":1200,\"linesSkipped\":0,\"skipped\":[]}\n");
    assert_eq!(server.count("plays", "s"), 1200);
    assert!(server.run(&["write", "plays", "--file", "none.jsonl"]).fails(3).contains("none.jsonl"));
    assert!(server.run(&["write", "none", "--file", &file]).fails(3).contains("no namespace `none`"));
}

#[test]
fn a_bad_line_is_named_and_the_rest_can_follow() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut lines: Vec<String> = (1..=30).map(line).collect();
    lines[24] = "{\"timeSeriesId\":\"s\",\"items\":{\"n\":1}}\n".to_owned();
    let file = place.file("events.jsonl", lines.concat());
    let complaint = server.run(&["write", "plays", "--file", &file, "--batch", "10"]).fails(4);
    insta::assert_snapshot!(complaint);
    assert_eq!(server.count("plays", "s"), 24);

    lines[24] = line(25);
    place.file("events.jsonl", lines.concat());
    let shown = server.run(&["write", "plays", "--file", &file, "--from-line", "25"]).ok();
    assert!(shown.starts_with("stored 6 events"), "{shown}");
    assert_eq!(server.count("plays", "s"), 30);
}

#[test]
fn bad_lines_can_be_left_out() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut lines: Vec<String> = (1..=30).map(line).collect();
    lines[3] = "nonsense\n".to_owned();
    // These two only the server can judge.
    lines[7] = "{\"timeSeriesId\":\"s\",\"eventTime\":\"2001-01-01T00:00:00Z\",\"items\":{\"n\":1}}\n".to_owned();
    lines[8] = lines[8].replace("\"s\"", "\"\"");
    let file = place.file("events.jsonl", lines.concat());
    let complaint = server.run(&["write", "plays", "--file", &file]).fails(4);
    assert!(complaint.contains("line 4: not a JSON object"), "{complaint}");
    let ended = server.run(&["write", "plays", "--file", &file, "--skip-bad"]);
    for expected in
        ["3 lines were wrong", "line 4: not a JSON object", "line 8: event_time: ", "line 9: time_series_id: "]
    {
        assert!(ended.stderr.contains(expected), "{expected}: {ended:#?}");
    }
    assert!(ended.ok().starts_with("stored 27 events"));
    assert_eq!(server.count("plays", "s"), 27);
}

#[test]
fn a_later_run_resumes_by_itself() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut lines: Vec<String> = (1..=100).map(line).collect();
    lines[60] = "nonsense\n".to_owned();
    let file = place.file("events.jsonl", lines.concat());
    let args = ["write", "plays", "--file", &file, "--batch", "10", "--resume", "state"];
    let complaint = server.run(&args).fails(4);
    assert!(complaint.contains("stored up to line 60; the same command goes on from there"), "{complaint}");
    assert!(place.path().join("state").exists());
    let other = server.run(&["write", "plays", "--file", "other.jsonl", "--resume", "state"]);
    assert_eq!(other.code, 3, "the file is looked for first: {other:#?}");
    place.file("other.jsonl", "");
    let other = server.run(&["write", "plays", "--file", "other.jsonl", "--resume", "state"]).fails(2);
    assert!(other.contains("belongs to another run"), "{other}");

    lines[60] = line(61);
    place.file("events.jsonl", lines.concat());
    assert!(server.run(&args).ok().starts_with("stored 40 events"));
    assert!(!place.path().join("state").exists());
    assert_eq!(server.count("plays", "s"), 100);
}

#[test]
fn an_interrupt_says_from_where_to_go_on() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut child = server
        .command(&["write", "plays", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for index in 1..=10 {
        stdin.write_all(line(index).as_bytes()).unwrap();
    }
    // Lines of a pipe are written as they come, not only when a batch is full.
    while server.count("plays", "s") < 10 {}
    // An eleventh that is acknowledged proves that the tenth is.
    stdin.write_all(line(11).as_bytes()).unwrap();
    while server.count("plays", "s") < 11 {}
    send_signal(&child, Signal::INT);
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{complaint}");
    assert!(complaint.starts_with("error: interrupted\n"), "{complaint}");
    let last =
        |line: u32| complaint.contains(&format!("stored up to line {line}; go on with --from-line {}", line + 1));
    assert!(last(10) || last(11), "{complaint}");
}

#[test]
fn a_killed_run_resumes_too() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let file = place.file("events.jsonl", (1..=20_000).map(line).collect::<String>());
    let args = ["write", "plays", "--file", &file, "--batch", "50", "--resume", "state"];
    let mut child = server.command(&args).stdout(Stdio::null()).spawn().unwrap();
    let state = place.path().join("state");
    let nothing = |text: String| text.contains("\"line\":0");
    while std::fs::read_to_string(&state).map_or(true, nothing) && child.try_wait().unwrap().is_none() {}
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = server.count("plays", "s");
    assert!(begun >= 50, "{begun}");
    server.run(&args).ok();
    assert_eq!(server.count("plays", "s"), 20_000);
    assert!(!state.exists());
}
