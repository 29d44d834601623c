//! Namespaces and backfill windows from the command line.

use crate::harness::{Place, plain};

#[test]
fn a_namespace_lives_and_ends() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(
        server.run(&["namespace", "list"]).ok(),
        "no namespaces; make one with `anabranch namespace create NAME`\n"
    );
    let create =
        ["namespace", "create", "plays", "--seconds-per-slice", "1d", "--bucket", "6h", "--delete-after", "30d"];
    assert_eq!(server.run(&create).ok(), "created the namespace `plays`\n");
    assert!(server.run(&create).fails(4).contains("exists already"));
    insta::assert_snapshot!("namespace_list", plain(&server.run(&["namespace", "list"]).ok(), &server));

    let shown = server.run(&["namespace", "show", "plays"]).ok();
    let settings = shown.split("\nSlices").next().unwrap();
    insta::assert_snapshot!("namespace_show", plain(settings, &server));
    assert!(shown.contains("data_20") && shown.contains("open"), "{shown}");

    server
        .run(&[
            "namespace",
            "update",
            "plays",
            "--read-slo-max",
            "7s",
            "--clear",
            "delete-after",
            "--clear",
            "close-after",
        ])
        .ok();
    let json = server.run(&["namespace", "show", "plays", "--output", "json"]).ok();
    let namespace: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(namespace["config"]["readSlo"]["max"], "7s");
    assert_eq!(namespace["config"]["deleteAfter"], serde_json::Value::Null);
    assert_eq!(namespace["config"]["secondsPerBucket"], 21_600);

    assert!(server.run(&["namespace", "delete", "plays"]).fails(2).contains("--yes"));
    let deleted = server.run(&["namespace", "delete", "plays", "--yes"]).ok();
    assert!(deleted.starts_with("deleted the namespace `plays`\nuntil 2"), "{deleted}");
    assert!(deleted.contains("`anabranch namespace restore plays` brings it back"), "{deleted}");
    server.run(&["namespace", "show", "plays"]).fails(3);
    let restorable = server.run(&["namespace", "list", "--deleted"]).ok();
    assert!(restorable.contains("can be restored until") && restorable.contains("\nplays "), "{restorable}");
    assert!(server.run(&["namespace", "list"]).ok().starts_with("no namespaces"));
    assert_eq!(server.run(&["namespace", "restore", "plays"]).ok(), "restored the namespace `plays`\n");
    server.run(&["namespace", "show", "plays"]).ok();
    let args = ["namespace", "delete", "plays", "--yes", "--grace", "0s"];
    assert_eq!(server.run(&args).ok(), "deleted the namespace `plays`\n");
    server.run(&["namespace", "restore", "plays"]).fails(3);
    assert_eq!(server.run(&["namespace", "list", "--deleted"]).ok(), "no namespace can be restored\n");
    assert!(server.run(&["namespace", "show", "plays"]).fails(3).contains("there is no namespace `plays`"));
}

#[test]
fn every_violation_is_listed() {
    let place = Place::new();
    let server = place.serve();
    let args =
        ["namespace", "create", "plays", "--seconds-per-bucket", "8d", "--event-buckets", "0", "--seal-margin", "1s"];
    insta::assert_snapshot!(server.run(&args).fails(4));
    assert!(server.run(&["namespace", "create", "Plays!"]).fails(4).contains("a-z, 0-9 and _"));
    assert!(
        server.run(&["namespace", "update", "none", "--event-buckets", "2"]).fails(3).contains("no namespace `none`")
    );
    let server = server.with_namespace("plays");
    assert!(server.run(&["namespace", "update", "plays"]).fails(2).contains("nothing to change"));
    let complaint = server.run(&["namespace", "update", "plays", "--clear", "colour"]).fails(4);
    assert!(complaint.contains("colour"), "{complaint}");
}

#[test]
fn a_blocked_series_is_refused_until_it_is_unblocked() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let write = ["write", "plays", "--series", "s", "--item", "a=1"];
    server.run(&write).ok();
    assert_eq!(server.run(&["block", "list", "plays"]).ok(), "no series is blocked\n");
    server.run(&["block", "add", "plays", "s", "--writes", "--reason", "runaway client", "--for", "2h"]).ok();
    let refused = server.run(&write).fails(4);
    assert!(refused.contains("blocked for writes since 2") && refused.contains("runaway client"), "{refused}");
    server.run(&["read", "plays", "s"]).ok();
    for shown in [&["namespace", "show", "plays"], &["block", "list", "plays"]] {
        assert!(server.run(shown).ok().contains("runaway client"));
    }
    server.run(&["block", "add", "plays", "s"]).ok();
    assert!(server.run(&["read", "plays", "s"]).fails(4).contains("is blocked since 2"));
    assert!(server.run(&["block", "remove", "plays", "s", "t"]).fails(3).contains("`t` isn't blocked"));
    assert_eq!(server.run(&["block", "remove", "plays", "s"]).ok(), "no series is blocked\n");
    server.run(&write).ok();
}

#[test]
fn a_change_of_retention_says_beforehand_what_it_does() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    place.file("old.csv", "time,series,event_id,a\n2020-03-28T00:00:00Z,s,e-1,1\n");
    server.run(&["import", "plays", "--file", "old.csv"]).ok();
    let kept = server.run(&["retention", "plays"]).ok();
    assert!(kept.contains("keeps slices for ever") && kept.contains("0 of 3 slices go at once"), "{kept}");
    let dry = server.run(&["retention", "plays", "--delete-after", "365d", "--dry-run"]).ok();
    assert!(dry.contains("now for ever, then 365d") && dry.contains("1 of 3 slices go at once"), "{dry}");
    assert!(dry.contains("data_20200326") && dry.contains("dropped, with all its events"), "{dry}");
    assert!(server.run(&["read", "plays", "s"]).ok().contains("e-1"), "a dry run changes nothing");
    assert!(server.run(&["retention", "plays", "--delete-after", "365d"]).fails(2).contains("--yes"));
    server.run(&["retention", "plays", "--delete-after", "365d", "--yes"]).ok();
    let env = anabranch_runtime::Env::system();
    let begun = env.monotonic();
    while server.run(&["slice", "list", "plays"]).ok().contains("data_20200326") {
        assert!(env.monotonic() - begun < std::time::Duration::from_secs(60), "never dropped");
    }
    server.run(&["retention", "plays", "--forever"]).ok();
    assert!(server.run(&["retention", "plays"]).ok().contains("keeps slices for ever"));
}

#[test]
fn a_backfill_window_is_opened_listed_and_closed() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let write = ["write", "plays", "--series", "s", "--time", "2020-01-01T00:00:00Z", "--item", "a=1"];
    let complaint = server.run(&write).fails(4);
    assert!(complaint.contains("anabranch import") && complaint.contains("anabranch backfill open"), "{complaint}");

    let open =
        ["backfill", "open", "plays", "--from", "2020-01-01", "--to", "2020-02-01", "--reason", "lost", "-o", "json"];
    let opened: serde_json::Value = serde_json::from_str(&server.run(&open).ok()).unwrap();
    assert_eq!(opened["state"], "OPEN");
    server.run(&write).ok();
    assert!(server.run(&["read", "plays", "s"]).ok().contains("2020-01-01T00:00:00Z"));
    let listed = server.run(&["backfill", "list", "plays"]).ok();
    assert!(listed.contains("open") && listed.contains("lost"), "{listed}");

    let id = opened["id"].as_str().unwrap();
    assert!(server.run(&["backfill", "close", "plays", id]).ok().contains("closed"));
    server.run(&write).fails(4);
    assert!(server.run(&["backfill", "close", "plays", "bf-none"]).fails(3).contains("bf-none"));
    let backwards = ["backfill", "open", "plays", "--from", "2020-02-01", "--to", "2020-01-01"];
    assert!(server.run(&backwards).fails(4).contains("interval"));
}
