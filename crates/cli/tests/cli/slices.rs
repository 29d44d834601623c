//! Slices from the command line: how big their partitions are, and what the tuner makes of it.

use std::{fmt::Write, time::Duration};

use anabranch_runtime::Env;

use crate::harness::{Place, Server};

const DEADLINE: Duration = Duration::from_secs(60);
const SLICE: &str = "data_20200326";

/// A server that measures often, with one old slice of 200 series.
fn serve(place: &Place) -> Server<'_> {
    place.file("anabranch.toml", "[tuning]\nmeasure_interval = \"1s\"\ntune_interval = \"1s\"\n");
    let server = place.serve();
    // So that the import is soon over for good.
    let quick = ["--seal-margin", "1s", "--write-slo-target", "100ms", "--write-slo-max", "400ms"];
    server.run(&[&["namespace", "create", "plays", "--tuner", "apply"][..], &quick].concat()).ok();
    let mut csv = String::from("time,series,event_id,note\n");
    for series in 0..200 {
        for event in 0..1 + 400 / (series + 1) {
            let time = anabranch_model::Timestamp::from_seconds(1_585_396_800 + event);
            let _ = writeln!(csv, "{time},s{series:03},e-{event:05},{}", "water under the bridge ".repeat(4));
        }
    }
    let file = place.file("history.csv", &csv);
    server.run(&["import", "plays", "--file", &file]).ok();
    server
}

/// What `slice show` prints once all of the slice was measured.
fn measured(server: &Server<'_>) -> String {
    let env = Env::system();
    let begun = env.monotonic();
    loop {
        let shown = server.run(&["slice", "show", "plays", SLICE]).ok();
        if shown.contains("sealed: it will not change") {
            return shown;
        }
        assert!(env.monotonic() - begun < DEADLINE, "never measured: {shown}");
    }
}

#[test]
fn slices_are_shown_with_the_sizes_of_their_partitions() {
    let place = Place::new();
    let server = serve(&place);
    let shown = measured(&server);
    let steady: Vec<&str> = shown.lines().filter(|line| !line.trim_start().starts_with("measured")).collect();
    insta::assert_snapshot!("slice_show", steady.join("\n"));
    let list = server.run(&["slice", "list", "plays"]).ok();
    let row = list.lines().find(|line| line.starts_with(SLICE)).unwrap();
    assert!(row.contains("open") && row.contains("200"), "{list}");
    let json = server.run(&["slice", "show", "plays", SLICE, "--output", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["measurement"]["partitions"], "200");
    assert_eq!(json["measurement"]["heaviest"][0]["timeSeriesId"], "s000");
    let tasks = server.run(&["tasks"]).ok();
    assert!(tasks.contains("measure ") && tasks.contains("tuner "), "{tasks}");
    let missing = server.run(&["slice", "show", "plays", "data_19990101"]).fails(4);
    assert!(missing.contains("there is no slice `data_19990101`"), "{missing}");
}

#[test]
fn the_tuner_says_what_it_decided_and_why() {
    let place = Place::new();
    let server = serve(&place);
    measured(&server);
    let shown = server.run(&["namespace", "show", "plays"]).ok();
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["tuner", "apply"])), "{shown}");
    let decided = server.run(&["tune", "propose", "plays"]).ok();
    assert!(decided.starts_with("kept (decision "), "{decided}");
    assert!(decided.contains("0 of 2 slices that are needed can be counted"), "{decided}");
    assert!(decided.contains(&format!("not counted: {SLICE}, a backfill wrote to it")), "{decided}");
    let history = server.run(&["tune", "history", "plays"]).ok();
    assert!(history.contains("kept") && history.contains("0 of 2 slices"), "{history}");
    for verb in ["apply", "reject"] {
        let refused = server.run(&["tune", verb, "plays"]).fails(4);
        assert!(refused.contains("nothing is proposed for `plays`"), "{refused}");
    }
}
