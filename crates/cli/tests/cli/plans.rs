//! Plans from the command line: from files and flags, in every format, and applied.

use crate::harness::{Place, alone, command, plain, run};

const PLAYS: &str = "\
writes_per_second = { low = 500, mid = 1000, high = 4000, confidence = 0.8 }
event_bytes = 500
ids = 1_000_000
skew = { top_one_percent = \"20%\" }
retention = \"30d\"
typical_interval = \"7d\"
";

#[test]
fn a_plan_is_printed_with_its_reasons() {
    let place = Place::new();
    place.file("plays.toml", PLAYS);
    let printed = run(command(place.path()).args(["plan", "plays.toml"]), b"").ok();
    assert_eq!(printed, run(command(place.path()).args(["plan", "plays.toml", "-o", "text"]), b"").ok());
    let widest = printed.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest} columns");
    insta::assert_snapshot!("plan", printed);
}

#[test]
fn flags_win_over_the_file_and_need_none() {
    let place = Place::new();
    place.file("plays.toml", PLAYS);
    let slice = |args: &[&str]| {
        let json = run(command(place.path()).args(args).args(["--output", "json"]), b"").ok();
        let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
        plan["settings"]["seconds_per_slice"].as_u64().unwrap()
    };
    assert_eq!(slice(&["plan", "plays.toml"]), 14 * 86_400);
    assert_eq!(slice(&["plan", "plays.toml", "--retention", "7d", "--accept-limit", "36h"]), 86_400);
    let flags = ["plan", "--writes", "1k", "--event-bytes", "1KiB", "--ids", "1e5..1e6..1e7", "--retention", "1y"];
    assert_eq!(slice(&flags), 180 * 86_400);
}

#[test]
fn a_plan_becomes_a_namespace() {
    let place = Place::new();
    place.file("plays.toml", PLAYS);
    let server = place.serve();
    let plan = server.run(&["plan", "plays.toml", "--output", "toml"]).ok();
    place.file("plan.toml", &plan);
    let args = ["namespace", "create", "planned", "--plan", "plan.toml"];
    assert_eq!(server.run(&args).ok(), "created the namespace `planned`\n");
    let args = ["namespace", "create", "described", "--plan", "plays.toml", "--event-buckets", "2"];
    assert_eq!(server.run(&args).ok(), "created the namespace `described`\n");
    let config = |name: &str| {
        let json = server.run(&["namespace", "show", name, "--output", "json"]).ok();
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["config"].clone()
    };
    let (planned, described) = (config("planned"), config("described"));
    assert_eq!(planned["secondsPerSlice"], 14 * 86_400);
    assert_eq!(planned["closeAfter"], "2592000s");
    assert_eq!(described["eventBuckets"], 2, "flags win");
    assert_eq!(described["secondsPerBucket"], planned["secondsPerBucket"]);
    assert_eq!(described["split"], planned["split"]);
    let again = server.run(&["plan", "plan.toml", "--output", "toml"]).ok();
    assert_eq!(again, plan, "a plan is a description, too");
    let show = |name: &str| server.run(&["namespace", "show", name]).ok();
    for name in ["planned", "described"] {
        assert!(show(name).contains("\nPlanned for\n  event_bytes = 500\n"), "{}", show(name));
    }
    server.run(&["namespace", "create", "plain"]).ok();
    assert!(!show("plain").contains("Planned for"));
    let shown = server.run(&["namespace", "create", "broken", "--plan", "none.toml"]).fails(3);
    assert!(plain(&shown, &server).contains("none.toml"), "{shown}");
}

#[test]
fn descriptions_that_cannot_be_planned_for_are_explained() {
    let place = Place::new();
    place.file("bad.toml", format!("{PLAYS}accept_limit = \"60d\"\nread_target = \"9s\"\n"));
    insta::assert_snapshot!("plan_contradictions", run(command(place.path()).args(["plan", "bad.toml"]), b"").fails(4));
    place.file("typo.toml", format!("{PLAYS}retension = \"60d\"\n"));
    assert!(run(command(place.path()).args(["plan", "typo.toml"]), b"").fails(4).contains("retension"));
    place.file("list.toml", "[[plays]]\n");
    assert!(run(command(place.path()).args(["plan", "list.toml", "--ids", "5"]), b"").fails(4).contains("`plays`"));
    assert!(alone(&["plan"]).fails(2).contains("--writes-per-second, --event-bytes, --ids"));
    assert!(alone(&["plan", "--ids", "many"]).stderr.contains("LOW..MID..HIGH@CONFIDENCE"));
    assert!(alone(&["doctor", "--output", "toml"]).fails(2).contains("only for `anabranch plan`"));
}
