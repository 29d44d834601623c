//! `doctor`, `config` and `completions`: what needs no server.

use std::fs;

use crate::harness::{Ended, Place, alone, command, run};

fn doctor(place: &Place) -> Ended {
    run(command(place.path()).args(["doctor", "--data", "data"]), b"")
}

/// The verdict on one check.
fn verdict<'a>(report: &'a str, check: &str) -> &'a str {
    report
        .lines()
        .find(|line| line.get(6..).is_some_and(|rest| rest.starts_with(check)))
        .unwrap_or_else(|| panic!("{check}: {report}"))
}

#[test]
fn doctor_finds_nothing_wrong_with_a_good_directory() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let report = doctor(&place).ok();
    assert!(verdict(&report, "lock").contains(&format!("running server (pid {})", server.pid())), "{report}");
    assert!(verdict(&report, "tables").starts_with("ok"), "{report}");
    server.kill();
    let report = doctor(&place).ok();
    assert_eq!(verdict(&report, "format"), "ok    format           anabranch-store 1");
    assert_eq!(verdict(&report, "lock"), "ok    lock             free: no server is running on it");
    assert!(verdict(&report, "configuration").starts_with("ok"), "{report}");
    assert!(verdict(&report, "clock").starts_with("ok"), "{report}");
    let json = run(command(place.path()).args(["doctor", "--data", "data", "-o", "json"]), b"").ok();
    let findings: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert!(findings.iter().all(|finding| finding["verdict"] != "fail"), "{json}");
}

#[test]
fn doctor_knows_what_is_no_store() {
    let place = Place::new();
    let report = doctor(&place).ok();
    assert!(verdict(&report, "data directory").starts_with("warn"), "{report}");
    assert!(!place.data().exists(), "it only looks");

    fs::create_dir(place.data()).unwrap();
    assert!(verdict(&doctor(&place).ok(), "format").contains("a new store will be made"));
    fs::write(place.data().join("letters.txt"), "Dear").unwrap();
    let ended = doctor(&place);
    assert_eq!((ended.code, ended.stderr.as_str()), (1, "error: one check failed\n"));
    assert!(verdict(&ended.stdout, "format").starts_with("fail"), "{}", ended.stdout);

    fs::remove_file(place.data().join("letters.txt")).unwrap();
    fs::write(place.data().join("FORMAT"), "anabranch-store 99\n").unwrap();
    let ended = doctor(&place);
    assert_eq!(ended.code, 1);
    assert!(verdict(&ended.stdout, "format").contains("`anabranch-store 99` is unknown"), "{}", ended.stdout);

    fs::remove_dir_all(place.data()).unwrap();
    fs::write(place.data(), "").unwrap();
    let ended = doctor(&place);
    assert_eq!(ended.code, 1);
    assert!(verdict(&ended.stdout, "data directory").contains("is not a directory"), "{}", ended.stdout);
}

#[test]
fn doctor_reads_the_configuration() {
    let place = Place::new();
    place.file("anabranch.toml", "[store]\ndata = \"elsewhere\"\ncahce = \"1 MiB\"\n");
    let ended = run(command(place.path()).arg("doctor"), b"");
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("is `store.cache` meant?"), "{ended:#?}");
    place.file("anabranch.toml", "[store]\ndata = \"elsewhere\"\nworkers = 0\n");
    let ended = run(command(place.path()).arg("doctor").env("ANABRANCH_LISTEN_GPRC", "x"), b"");
    assert_eq!(ended.code, 1);
    assert!(verdict(&ended.stdout, "configuration").contains("store.workers"), "{ended:#?}");
    assert!(verdict(&ended.stdout, "data directory").contains("elsewhere"), "{ended:#?}");
    assert!(verdict(&ended.stdout, "environment").contains("is ANABRANCH_LISTEN_GRPC meant?"), "{ended:#?}");
}

#[test]
fn config_shows_where_each_value_came_from() {
    let place = Place::new();
    place.file(
        "anabranch.toml",
        "[listen]\ngrpc = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:2\"\n[store]\ncache = \"32 MiB\"\n",
    );
    let mut show = command(place.path());
    show.args(["config", "--data", "/srv/data"]).env("ANABRANCH_STORE_CACHE", "64 MiB");
    insta::assert_snapshot!("config", run(&mut show, b"").ok());

    let other = place.file("other.toml", "[listen]\ngrpc = \"127.0.0.1:9\"\n");
    let named = run(command(place.path()).arg("config").env("ANABRANCH_CONFIG", &other), b"").ok();
    assert!(named.contains("file:other.toml") && !named.contains("anabranch.toml"), "{named}");
    let broken = run(command(place.path()).arg("config").env("ANABRANCH_STORE_CACHE", "much"), b"").fails(2);
    assert!(broken.contains("from environment:ANABRANCH_STORE_CACHE"), "{broken}");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = alone(&["completions", shell]).ok();
        assert!(script.contains("namespace") && script.contains("seconds-per-slice"), "{shell}");
    }
}

#[test]
fn colours_are_only_for_terminals() {
    let place = Place::new();
    let colour = |args: &[&str], no_color: bool| {
        let mut command = command(place.path());
        command.args(args);
        if !no_color {
            command.env_remove("NO_COLOR");
        }
        let ended = run(&mut command, b"");
        (ended.stdout + &ended.stderr).contains('\u{1b}')
    };
    for args in
        [&["doctor"][..], &["--help"], &["config"], &["raed"], &["read", "a", "b", "--server", "http://127.0.0.1:1"]]
    {
        assert!(!colour(args, false), "{args:?}");
        let always: Vec<&str> = args.iter().copied().chain(["--color", "always"]).collect();
        assert!(colour(&always, true), "{args:?}");
    }
}
