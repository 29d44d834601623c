//! `demo`, `load` and `top`: made-up traffic, and what is seen of it.

use std::process::Stdio;

use crate::harness::{Place, command, run};

#[test]
fn the_demo_tells_how_a_wide_partition_splits_itself() {
    let place = Place::new();
    let mut demo = command(place.path());
    demo.arg("demo").env("TMPDIR", place.path());
    let story = run(&mut demo, b"").ok();
    let steps = [
        "back end   embedded (fjall)",
        " traffic ",
        " history ",
        " before ",
        " detected ",
        " planned ",
        " splitting ",
        " verifying ",
        " split ",
        " verified ",
        " promoted ",
        " after ",
        "rows in the store",
        "time to stream all of it",
        "On the embedded store rows are cheap",
    ];
    let mut rest = story.as_str();
    for step in steps {
        let at = rest.find(step).unwrap_or_else(|| panic!("`{step}` is missing or told too early: {story}"));
        rest = &rest[at..];
    }
    assert!(story.contains("2 segments are the same as their originals"), "{story}");
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "it removes what it made");
}

#[test]
fn a_demo_that_is_interrupted_removes_what_it_made() {
    use std::io::{BufRead, BufReader};

    let place = Place::new();
    let mut demo = command(place.path());
    demo.args(["demo", "--stay"]).env("TMPDIR", place.path());
    let mut child = demo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(" traffic ")), "it never began");
    crate::harness::send_signal(&child, rustix::process::Signal::INT);
    let ended = child.wait().unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn load_sends_what_it_says_and_top_sees_it() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let few =
        ["--duration", "1s", "--writes-per-second", "200", "--batch", "20", "--reads-per-second", "20", "--ids", "3"];
    let text = server.run(&[&["load", "plays", "--output", "json"][..], &few].concat()).ok();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (writes, reads) = (&report["writes"], &report["reads"]);
    assert_eq!(
        (&writes["requests"], &writes["size"], &writes["failed"]),
        (&10.into(), &200.into(), &0.into()),
        "{text}"
    );
    assert_eq!((&reads["requests"], &reads["failed"]), (&20.into(), &0.into()), "{text}");
    assert!(writes["p50Ms"].as_f64().unwrap() > 0.0 && writes["p50Ms"].as_f64() <= writes["maxMs"].as_f64(), "{text}");
    let stored: usize = ["profile:1", "profile:2", "profile:3"].iter().map(|id| server.count("plays", id)).sum();
    assert_eq!(stored, 200);

    let frame = server.run(&["top", "--once"]).ok();
    for expected in ["nothing needs a person", "plays", "COMPARISON", "no split is on its way", "what it did"] {
        assert!(frame.contains(expected), "{expected}: {frame}");
    }
    assert!(server.run(&["top", "--once", "--output", "json"]).fails(2).contains("is for people"));
}

#[test]
fn a_load_with_failures_is_no_success() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let too_big = ["--value-bytes", "1MiB", "--batch", "100", "--duration", "1s", "--reads-per-second", "0"];
    let ended = server.run(&[&["load", "plays"][..], &too_big].concat());
    assert!(ended.stdout.contains("writes"), "{ended:?}");
    assert!(ended.fails(1).contains("requests failed"), "it must say why");
    server.run(&["load", "nowhere"]).fails(3);
    server.run(&["load", "plays", "--writes-per-second", "0", "--reads-per-second", "0"]).fails(2);
}
