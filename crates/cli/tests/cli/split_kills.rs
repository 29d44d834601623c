//! S5 and R1 on real processes: a server that is killed again and again while it splits loses nothing, gets stuck nowhere, and
//! serves every event.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use anabranch_runtime::Env;

use crate::harness::{Place, Server};

const KILLS: usize = 50;
const SERIES: usize = 12;
const EVENTS: usize = 400;
const DEADLINE: Duration = Duration::from_secs(300);

/// Slow enough that a kill finds every state.
const CONFIG: &str = "\
[splits]
sweep_interval = \"100ms\"
bytes_per_second = \"1MiB\"
checkpoint = \"64KiB\"
workers = 2
";
/// A kill waits for one of these to be seen; the last stands for any moment.
const TARGETS: [&str; 4] = ["PLANNING", "SPLITTING", "VERIFYING", ""];
/// Looks after which a kill comes all the same.
const LOOKS: usize = 100;

/// The states of all splits.
fn states(server: &Server<'_>) -> Vec<String> {
    let text = server.run(&["split", "list", "plays", "--output", "json"]).ok();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let splits = list["splits"].as_array().cloned().unwrap_or_default();
    splits.iter().map(|split| split["state"].as_str().unwrap().to_owned()).collect()
}

/// The same in every run, and as good as random.
fn noise(series: usize, index: usize, part: usize) -> u64 {
    let mixed = ((series * 1000 + index) * 100 + part) as u64;
    (mixed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(31)
}

fn histories(server: &Server<'_>) -> Vec<String> {
    let read = |at| server.run(&["read", "plays", &format!("wide-{at}"), "--all", "--output", "jsonl"]).ok();
    (0..SERIES).map(read).collect()
}

#[test]
fn a_server_that_is_killed_fifty_times_while_it_splits_loses_nothing() {
    let place = Place::new();
    place.file("anabranch.toml", CONFIG);
    let mut server = place.serve();
    let limits =
        ["--accept-limit", "1s", "--seal-margin", "1s", "--write-slo-target", "100ms", "--write-slo-max", "400ms"];
    let split =
        ["--split-threshold-bytes", "64KiB", "--split-target-piece-bytes", "16KiB", "--split-block-bytes", "4KiB"];
    server.run(&[&["namespace", "create", "plays"][..], &limits, &split].concat()).ok();
    let mut csv = String::from("time,series,event_id,note\n");
    for series in 0..SERIES {
        for index in 0..EVENTS {
            let time = anabranch_model::Timestamp::from_seconds(1_585_396_800 + index as i64);
            // Nothing that packs well, so that pieces take their time too.
            let note: String = (0..18).map(|part| format!("{:016x}", noise(series, index, part))).collect();
            let _ = writeln!(csv, "{time},wide-{series},e-{index:05},{note}");
        }
    }
    let file = place.file("history.csv", &csv);
    server.run(&["import", "plays", "--file", &file]).ok();
    let before = histories(&server);
    assert!(before.iter().all(|history| history.lines().count() == EVENTS));
    for series in 0..SERIES {
        server.run(&["split", "request", "plays", &format!("wide-{series}")]).ok();
    }

    let env = Env::system();
    let begun = env.monotonic();
    let mut seen = BTreeSet::new();
    for kill in 0..KILLS {
        let target = TARGETS[kill % TARGETS.len()];
        for _ in 0..LOOKS {
            let found = states(&server);
            assert_eq!(found.len(), SERIES, "no record is lost: {found:?}");
            if found.iter().all(|state| state == "COMPLETED") {
                server.run(&["split", "abandon", "plays", "--all", "--reason", "once more"]).ok();
                server.run(&["split", "retry", "plays", "--all"]).ok();
            }
            if target.is_empty() || found.iter().any(|state| state == target) {
                seen.extend(found);
                break;
            }
        }
        server.kill();
        server = place.serve();
        let at = kill % SERIES;
        let read = server.run(&["read", "plays", &format!("wide-{at}"), "--all", "--output", "jsonl"]).ok();
        assert_eq!(read, before[at], "after {} kills", kill + 1);
    }
    while !states(&server).iter().all(|state| state == "COMPLETED") {
        assert!(env.monotonic() - begun < DEADLINE, "stuck: {:?}", states(&server));
    }
    for state in ["PLANNING", "SPLITTING", "VERIFYING"] {
        assert!(seen.contains(state), "never killed near {state}: {seen:?}");
    }
    server.run(&["split", "mode", "plays", "on"]).ok();
    assert_eq!(histories(&server), before);
    server.run(&["split", "verify", "plays"]).ok();
}
