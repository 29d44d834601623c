//! What somebody sees who types the very first commands.

use std::process::Command;

use crate::harness::{Place, alone, plain, run};

#[test]
fn the_greeting_says_what_to_type_and_that_works() {
    let place = Place::new();
    let server = place.serve();
    insta::assert_snapshot!("greeting", plain(&server.greeting, &server));

    let has_curl = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    let typed: Vec<&str> = server
        .greeting
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !["gRPC ", "HTTP ", "data "].iter().any(|label| line.starts_with(label)))
        .filter(|line| has_curl || !line.starts_with("curl"))
        .collect();
    assert!(typed.len() >= 4, "{typed:?}");
    let script = format!("set -e\n{}\n", typed.join("\n"));
    let shown = run(Command::new("sh").arg("-c").arg(&script).current_dir(place.path()), b"").ok();
    assert!(shown.contains("created the namespace `plays`"), "{shown}");
    assert!(shown.contains("title=Dark"), "{shown}");
    assert!(!has_curl || shown.contains(r#""eventItemValue":"RGFyaw==""#), "{shown}");
}

#[test]
fn help_is_for_people() {
    let help = alone(&["--help"]).ok();
    insta::assert_snapshot!("help", help);
    assert_eq!(alone(&["-h"]).ok(), help);
}

#[test]
fn every_command_has_help_with_examples() {
    let commands: [&[&str]; 34] = [
        &["demo"],
        &["load"],
        &["top"],
        &["overview"],
        &["series"],
        &["heatmap"],
        &["split"],
        &["split", "list"],
        &["split", "show"],
        &["split", "request"],
        &["split", "retry"],
        &["split", "abandon"],
        &["split", "diff"],
        &["split", "verify"],
        &["split", "mode"],
        &["tasks"],
        &["worker"],
        &["serve"],
        &["namespace"],
        &["namespace", "create"],
        &["namespace", "update"],
        &["plan"],
        &["write"],
        &["read"],
        &["import"],
        &["backfill"],
        &["backfill", "open"],
        &["doctor"],
        &["config"],
        &["completions"],
        &["ns"],
        &["namespace", "list"],
        &["namespace", "show"],
        &["namespace", "delete"],
    ];
    for (index, command) in commands.iter().enumerate() {
        let help = alone(&[command, &["--help"][..]].concat()).ok();
        assert!(help.contains("Usage: anabranch"), "{command:?}\n{help}");
        assert!(index >= 28 || help.contains("Examples:"), "{command:?}\n{help}");
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 120, "{command:?}: {widest} columns");
    }
}

#[test]
fn a_wrong_command_line_is_2_and_helps() {
    for args in [
        &["raed", "plays"][..],
        &["read", "plays"],
        &["read", "plays", "s", "--limit", "0"],
        &["read", "plays", "s", "--from", "yesterday"],
        &["write", "plays"],
        &["write", "plays", "--series", "s", "--item", "novalue"],
        &["import", "plays"],
        &["import", "plays", "--file", "x.csv", "--map", "what=x"],
        &["namespace", "create", "plays", "--accept-limit", "long"],
        &["backfill", "open", "plays", "--from", "2026-01-01"],
        &["serve", "--tls-cert", "cert.pem"],
        &["completions", "tcsh2"],
        &["--timeout", "soon", "namespace", "list"],
    ] {
        let ended = alone(args);
        assert_eq!(ended.code, 2, "{args:?} {ended:#?}");
        assert!(ended.stderr.starts_with("error: ") && ended.stdout.is_empty(), "{args:?} {ended:#?}");
    }
    assert!(alone(&["raed", "plays"]).stderr.contains("read"));
    let nothing = alone(&[]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("Usage: anabranch"), "{nothing:#?}");
}

#[test]
fn without_a_server_the_address_and_the_way_out_are_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let complaint = alone(&["namespace", "list", "--server", &url]).fails(5);
    insta::assert_snapshot!(complaint.replace(&url, "http://ADDRESS"));
    assert!(alone(&["namespace", "list", "--server", "not an address"]).fails(2).contains("not an address"));
    assert!(alone(&["namespace", "list", "--server", "https://127.0.0.1:1"]).fails(2).contains("--tls-ca"));
    let place = Place::new();
    let server = place.serve();
    let complaint = server.run(&["namespace", "list", "--server", &server.http]).fails(1);
    assert!(complaint.contains("--server needs the gRPC address"), "{complaint}");
}
