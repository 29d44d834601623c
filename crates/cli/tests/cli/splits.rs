//! Wide partitions from the command line: split, watched, verified, trusted, given up.

use std::{fmt::Write, time::Duration};

use anabranch_runtime::Env;

use crate::harness::{Place, Server, alone, command, plain, run};

const DEADLINE: Duration = Duration::from_secs(60);
const EVENTS: usize = 600;

/// A server whose workers look often, and a namespace that seals quickly.
fn serve(place: &Place) -> Server<'_> {
    serve_with(place, "")
}

/// The same, with more in its configuration.
pub(crate) fn serve_with<'a>(place: &'a Place, more: &str) -> Server<'a> {
    place.file("anabranch.toml", format!("[splits]\nsweep_interval = \"100ms\"\n{more}"));
    let server = place.serve();
    let limits =
        ["--accept-limit", "1s", "--seal-margin", "1s", "--write-slo-target", "100ms", "--write-slo-max", "400ms"];
    let split =
        ["--split-threshold-bytes", "64KiB", "--split-target-piece-bytes", "16KiB", "--split-block-bytes", "4KiB"];
    let more = ["--split-promote", "false", "--split-must-pay", "false"];
    server.run(&[&["namespace", "create", "plays"][..], &limits, &split, &more].concat()).ok();
    server
}

/// An old history, past the threshold.
pub(crate) fn import(place: &Place, server: &Server<'_>, series: &str, events: usize) {
    let mut csv = String::from("time,series,event_id,title,note\n");
    for index in 0..events {
        let time = anabranch_model::Timestamp::from_seconds(1_585_396_800 + index as i64);
        let note = "water under the bridge ".repeat(10);
        let _ = writeln!(csv, "{time},{series},e-{index:05},title {index},{note}{index}");
    }
    let file = place.file("history.csv", &csv);
    server.run(&["import", "plays", "--file", &file]).ok();
}

/// The splits of a series, once they are all in a state.
pub(crate) fn until(server: &Server<'_>, series: &str, state: &str) -> serde_json::Value {
    let env = Env::system();
    let begun = env.monotonic();
    loop {
        let text = server.run(&["split", "list", "plays", series, "--output", "json"]).ok();
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        let splits = list["splits"].as_array().cloned().unwrap_or_default();
        if !splits.is_empty() && splits.iter().all(|split| split["state"] == state) {
            return list;
        }
        assert!(env.monotonic() - begun < DEADLINE, "never {state}: {text}");
    }
}

fn history(server: &Server<'_>) -> String {
    server.run(&["read", "plays", "wide", "--all", "--output", "jsonl"]).ok()
}

/// Text without what differs from run to run: times, and how long things took; columns two spaces apart.
fn steady(text: &str, server: &Server<'_>) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        let words: Vec<&str> = words.into_iter().map(|word| if is_length(word) { "TOOK" } else { word }).collect();
        format!("{}{}", &line[..indent], words.join("  "))
    };
    plain(text, server).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// `12 ms`, `1.3 s`
fn is_length(word: &str) -> bool {
    let number = word.strip_suffix(" ms").or_else(|| word.strip_suffix(" s"));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

#[test]
fn an_old_history_is_split_verified_and_served_from_its_pieces() {
    let place = Place::new();
    let server = serve(&place);
    assert_eq!(server.run(&["split", "list", "plays"]).ok(), "no splits\n");
    import(&place, &server, "wide", EVENTS);
    let before = history(&server);
    assert_eq!(before.lines().count(), EVENTS);
    let watched = server.run(&["split", "list", "plays", "--watch", "--interval", "100ms"]).ok();
    assert!(watched.ends_with("no split is on its way\n"), "{watched}");
    let list = until(&server, "wide", "COMPLETED");
    let segment = &list["splits"][0]["segments"][0];
    assert_eq!(segment["preSplitData"]["rows"], "1200", "{list}");
    insta::assert_snapshot!("split_list", steady(&server.run(&["split", "list", "plays"]).ok(), &server));

    let shown = server.run(&["split", "show", "plays", "wide"]).ok();
    insta::assert_snapshot!("split_show", steady(&shown, &server));
    let shown = server.run(&["split", "show", "plays", "wide", "--pieces"]).ok();
    assert!(shown.contains("e-00599") && shown.contains("checksum"), "{shown}");
    let json = server.run(&["split", "show", "plays", "wide", "--output", "json"]).ok();
    let split: serde_json::Value = serde_json::from_str(&json).unwrap();
    let strategy = &split["segments"][0]["postSplitData"]["timeRangePartitionStrategy"];
    let pieces = strategy["pieces"].as_array().unwrap();
    assert_eq!(strategy["pieceCount"], pieces.len());

    let verified = server.run(&["split", "verify", "plays"]).ok();
    assert_eq!(server.run(&["split", "verify", "--all"]).ok(), verified);
    insta::assert_snapshot!("split_verify", verified);
    let mode = ["split", "mode", "plays", "on", "--reason", "verified", "--by", "ann"];
    insta::assert_snapshot!("split_mode", steady(&server.run(&mode).ok(), &server));
    assert_eq!(history(&server), before);
    let namespace = server.run(&["namespace", "show", "plays"]).ok();
    assert!(namespace.contains("read mode  ON since") && namespace.contains("ann"), "{namespace}");
    assert_eq!(server.run(&["split", "diff", "plays"]).ok(), "no differences\n");
    let series = server.run(&["series", "plays", "wide"]).ok();
    assert!(series.contains("COMPLETED") && series.contains("1,200"), "{series}");
    let overview = server.run(&["overview", "plays"]).ok();
    assert!(overview.contains("nothing needs a person") && overview.contains("ON"), "{overview}");
    let heatmap = server.run(&["heatmap", "plays", "--by", "reads"]).ok();
    assert!(heatmap.contains("wide (wide)") && heatmap.contains('█'), "{heatmap}");

    let given_up = server.run(&["split", "abandon", "plays", "wide", "--reason", "not wanted"]).ok();
    assert!(given_up.starts_with("1 partition given up\n") && given_up.contains("abandoned: not wanted"), "{given_up}");
    assert_eq!(history(&server), before);
    assert!(server.run(&["split", "retry", "plays", "wide"]).ok().starts_with("1 partition tried again\n"));
    assert_eq!(until(&server, "wide", "COMPLETED")["splits"][0]["generation"], 2);
    assert_eq!(history(&server), before);
    let nothing = server.run(&["split", "retry", "plays", "--all"]).ok();
    assert!(nothing.starts_with("nothing to retry"), "{nothing}");
    let tasks = server.run(&["tasks"]).ok();
    assert!(tasks.contains("sweep") && tasks.contains("split records"), "{tasks}");
}

/// S2: what couldn't be compared isn't passed off as the same, and what isn't served any more is no failure.
#[test]
fn a_split_that_can_not_be_compared_is_told_by_the_exit_code_and_the_others_are_compared() {
    let place = Place::new();
    let server = serve(&place);
    import(&place, &server, "wide", EVENTS);
    history(&server); // which is noticed
    until(&server, "wide", "COMPLETED");
    let verify = |namespace: &str| server.run(&["split", "verify", namespace, "--output", "json"]);
    let found = |printed: &str| serde_json::from_str::<serde_json::Value>(printed).unwrap()["verifications"].clone();
    let window = ["--from", "2020-03-28T00:00:00Z", "--to", "2020-03-29T00:00:00Z", "--output", "json"];
    let opened = server.run(&[&["backfill", "open", "plays"][..], &window].concat()).ok();
    let opened: serde_json::Value = serde_json::from_str(&opened).unwrap();
    for namespace in ["plays", "--all"] {
        let skipped = verify(namespace);
        assert!(
            found(&skipped.stdout)[0]["skippedReason"].as_str().unwrap().contains("backfill window"),
            "{skipped:?}"
        );
        let said = skipped.fails(6);
        assert!(said.contains("one split couldn't be compared with its original"), "{said}");
    }

    let id = opened["id"].as_str().unwrap_or_else(|| panic!("{opened}"));
    server.run(&["backfill", "close", "plays", id]).ok();
    let env = Env::system();
    let begun = env.monotonic();
    let mut verified = verify("plays");
    while verified.code == 6 {
        assert!(env.monotonic() - begun < DEADLINE, "{verified:?}");
        verified = verify("plays");
    }
    let equal = found(&verified.ok())[0]["segmentsEqual"].as_u64();
    assert_eq!(equal, Some(1));
    server.run(&["split", "abandon", "plays", "wide"]).ok();
    assert_eq!(server.run(&["split", "verify", "plays"]).ok(), "no segment is served: nothing to compare\n");
}

#[test]
fn what_somebody_asks_for_is_looked_at_without_a_read() {
    let place = Place::new();
    let server = serve(&place);
    import(&place, &server, "wide", EVENTS);
    import(&place, &server, "small", 3);
    assert!(server.run(&["split", "request", "plays", "small"]).ok().starts_with("1 partition looked at\n"));
    until(&server, "small", "NOT_WIDE");
    let slice = until(&server, "small", "NOT_WIDE")["splits"][0]["timeSlice"].as_str().unwrap().to_owned();
    server.run(&["split", "request", "plays", "--slice", &slice]).ok();
    until(&server, "wide", "COMPLETED");
    let states = server.run(&["split", "list", "plays", "--state", "not-wide,failed", "-o", "jsonl"]).ok();
    assert!(states.lines().count() == 1 && states.contains("\"small\""), "{states}");
    let complaint = server.run(&["split", "request", "plays", "nobody"]).fails(3);
    assert!(complaint.contains("there is nothing to split in `nobody` in `plays`"), "{complaint}");
}

#[test]
fn what_is_wrong_is_explained() {
    let place = Place::new();
    let server = serve(&place);
    let mut complaints = String::new();
    for (args, code) in [
        (&["split", "mode", "plays", "fast"][..], 2),
        (&["split", "list", "plays", "--state", "busy"], 2),
        (&["split", "request", "plays"], 2),
        (&["split", "abandon", "plays"], 2),
        (&["split", "list", "none"], 3),
        (&["split", "show", "plays", "nobody"], 3),
        (&["split", "verify", "plays", "nobody"], 3),
        (&["split", "verify"], 2),
        (&["split", "verify", "plays", "--all"], 2),
        (&["split", "abandon", "plays", "nobody"], 3),
        (&["namespace", "update", "plays", "--split-packing", "gzip"], 2),
        (&["namespace", "update", "plays", "--split-compare-percent", "101"], 4),
    ] {
        let said = server.run(args).fails(code);
        let _ = writeln!(complaints, "$ anabranch {}\n{}\n", args.join(" "), said.trim_end());
    }
    insta::assert_snapshot!("split_complaints", complaints);
    let complaint = server.run(&["split", "list", "plays", "--slice", "data_20010101"]).fails(4);
    assert!(complaint.contains("there is no slice `data_20010101`; there are data_20"), "{complaint}");
}

#[test]
fn the_mode_is_shown_with_how_it_came() {
    let place = Place::new();
    let server = serve(&place);
    insta::assert_snapshot!("split_mode_first", steady(&server.run(&["split", "mode", "plays"]).ok(), &server));
    server.run(&["split", "mode", "plays", "OFF", "--by", "ann", "--reason", "a drill"]).ok();
    server.run(&["split", "mode", "plays", "shadow", "--by", "bob"]).ok();
    let json = server.run(&["split", "mode", "plays", "-o", "json"]).ok();
    let splits: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&splits["readMode"], &splits["history"][1]["reason"]), (&"SHADOW".into(), &"a drill".into()), "{json}");
}

#[test]
fn a_worker_needs_a_store_that_can_be_shared() {
    let place = Place::new();
    let complaint = run(command(place.path()).arg("worker"), b"").fails(2);
    insta::assert_snapshot!("worker_refused", complaint);
    assert!(!place.path().join("anabranch-data").exists());
    assert!(alone(&["worker", "--help"]).ok().contains("The embedded store can't be shared"));
}

#[test]
fn a_server_may_leave_splitting_to_others() {
    let place = Place::new();
    let server = place.serve_with(&["--split-workers", "0"]).with_namespace("plays");
    assert_eq!(server.run(&["split", "list", "plays"]).ok(), "no splits\n");
    let config = run(command(place.path()).args(["config", "--split-workers", "7"]), b"").ok();
    let line = config.lines().find(|line| line.starts_with("splits.workers")).unwrap();
    assert!(line.contains('7') && line.contains("flag:--split-workers"), "{line}");
}
