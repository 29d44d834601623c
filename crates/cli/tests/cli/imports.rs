//! Old histories at the first try.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustix::process::Signal;

use crate::harness::{Place, Server, send_signal};

/// What a series holds: time and items as text, oldest first.
fn history(server: &Server<'_>, series: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let text = server.run(&["read", "plays", series, "--all", "--oldest-first", "-o", "jsonl"]).ok();
    let record = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let item = |item: &serde_json::Value| {
            let bytes = BASE64_STANDARD.decode(item["eventItemValue"].as_str().unwrap_or_default()).unwrap();
            (item["eventItemKey"].as_str().unwrap().to_owned(), String::from_utf8(bytes).unwrap())
        };
        let items = record["eventItems"].as_array().unwrap().iter().map(item).collect();
        (record["eventTime"].as_str().unwrap().to_owned(), items)
    };
    text.lines().map(record).collect()
}

fn items(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn an_old_csv_is_imported_at_the_first_try() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut csv = String::from("time,series,title,note\n");
    let mut expected = Vec::new();
    for day in 0..1000_i64 {
        let time = anabranch_model::Timestamp::from_seconds(1_577_836_800 + day * 86_400).to_string();
        let note = if day % 10 == 0 { "\"two\nlines, \"\"quoted\"\"\"" } else { "" };
        csv.push_str(&format!("{time},profile:1,title {day},{note}\n"));
        let mut pairs = vec![("title".to_owned(), format!("title {day}"))];
        pairs.extend((day % 10 == 0).then(|| ("note".to_owned(), "two\nlines, \"quoted\"".to_owned())));
        expected.push((time, pairs.into_iter().collect::<BTreeMap<_, _>>()));
    }
    let file = place.file("history.csv", &csv);
    let ended = server.run(&["import", "plays", "--file", &file]);
    assert!(ended.stderr.contains("opening the backfill window"), "{ended:#?}");
    assert!(ended.ok().starts_with("stored 1,000 events"));
    assert_eq!(history(&server, "profile:1"), expected);
    let windows = server.run(&["backfill", "list", "plays"]).ok();
    assert!(windows.contains("closed") && windows.contains("import of history.csv"), "{windows}");

    // W2: rows without an event id get the same one every time.
    server.run_with_input(&["import", "plays", "--file", "-", "--format", "csv"], csv.as_bytes()).ok();
    assert_eq!(history(&server, "profile:1"), expected);
}

#[test]
fn recent_events_need_no_window() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let now = anabranch_runtime::Env::system().now();
    let file = place.file("new.csv", format!("timestamp,id,a\n{now},s,1\n"));
    let ended = server.run(&["import", "plays", "--file", &file]);
    assert_eq!(ended.stderr, "");
    ended.ok();
    assert!(server.run(&["backfill", "list", "plays"]).ok().contains("no backfill windows"));
}

#[test]
fn columns_times_and_series_are_mapped() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let file = place
        .file("export.txt", "when;who;key;name;x\n28.03.2020 10:00:00;7;k-1;Dark;\n28.03.2020 11:00:00;7;k-2;;y\n");
    let map = "time=when,series=who,event_id=key,item:title=name";
    let format = ["--format", "csv", "--delimiter", ";", "--time-format", "%d.%m.%Y %H:%M:%S", "--series-prefix", "p:"];
    server.run(&[&["import", "plays", "--file", &file, "--map", map][..], &format].concat()).ok();
    let expected = [
        ("2020-03-28T10:00:00Z".to_owned(), items(&[("title", "Dark")])),
        ("2020-03-28T11:00:00Z".to_owned(), items(&[("x", "y")])),
    ];
    assert_eq!(history(&server, "p:7"), expected);

    let tsv = place.file("bare.tsv", "1585389600123\t21.5\n1585389601123\t\n");
    let args = [
        "--no-headers",
        "--map",
        "time=1,item:celsius=2",
        "--series",
        "room",
        "--time-format",
        "unix-ms",
        "--keep-empty",
    ];
    server.run(&[&["import", "plays", "--file", &tsv][..], &args].concat()).ok();
    let expected = [
        ("2020-03-28T10:00:00.123Z".to_owned(), items(&[("celsius", "21.5")])),
        ("2020-03-28T10:00:01.123Z".to_owned(), items(&[("celsius", "")])),
    ];
    assert_eq!(history(&server, "room"), expected);
}

#[test]
fn json_lines_are_imported_in_every_form() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let lines = "\
{\"timeSeriesId\":\"s\",\"eventTime\":\"2019-01-01T00:00:00Z\",\"eventId\":\"e\",\"eventItems\":[{\"eventItemKey\":\"a\",\"eventItemValue\":\"MQ==\"}]}\n\
{\"timeSeriesId\":\"s\",\"eventTime\":\"2019-01-02T00:00:00Z\",\"items\":{\"a\":2}}\n\
{\"time\":\"2019-01-03\",\"series\":\"s\",\"a\":3,\"deep\":{\"b\":[1]}}\n";
    let file = place.file("history.jsonl", lines);
    server.run(&["import", "plays", "--file", &file]).ok();
    let expected = [
        ("2019-01-01T00:00:00Z".to_owned(), items(&[("a", "1")])),
        ("2019-01-02T00:00:00Z".to_owned(), items(&[("a", "2")])),
        ("2019-01-03T00:00:00Z".to_owned(), items(&[("a", "3"), ("deep", "{\"b\":[1]}")])),
    ];
    assert_eq!(history(&server, "s"), expected);
}

#[test]
fn nothing_is_written_of_a_file_with_bad_lines() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let rows = "time,series,a\n2020-01-01,s,1\nsoon,s,2\n2020-01-03,,3\n2020-01-04,s\n2020-01-05,s,\n1577836800,s,6\n";
    let file = place.file("bad.csv", rows);
    insta::assert_snapshot!("import_bad_lines", server.run(&["import", "plays", "--file", &file]).fails(4));
    assert_eq!(server.count("plays", "s"), 0);
    assert!(server.run(&["backfill", "list", "plays"]).ok().contains("no backfill windows"));

    let ended = server.run(&["import", "plays", "--file", &file, "--skip-bad"]);
    assert!(ended.stderr.contains("5 lines were wrong and left out"), "{ended:#?}");
    ended.ok();
    assert_eq!(server.count("plays", "s"), 1);
}

#[test]
fn files_that_cannot_be_imported_are_explained() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let complaint = |name: &str, text: &str, code: i32| {
        let file = place.file(name, text);
        server.run(&["import", "plays", "--file", &file]).fails(code)
    };
    assert!(complaint("empty.csv", "", 4).contains("empty.csv: the file is empty"));
    assert!(complaint("notime.csv", "when,series\n", 4).contains("--map time=COLUMN"));
    assert!(complaint("noseries.csv", "time,a\n", 4).contains("--map series=COLUMN"));
    assert!(complaint("twice.csv", "time,series,a,a\n", 4).contains("two columns are called `a`"));
    assert!(complaint("what.txt", "time,series,a\n", 2).contains("--format csv"));
    assert!(server.run(&["import", "plays", "--file", "none.csv"]).fails(3).contains("none.csv"));
    assert!(server.run(&["import", "plays", "--file", ".", "--format", "csv"]).fails(2).contains("directory"));
    let missing = server.run(&["import", "none", "--file", "empty.csv"]).fails(3);
    assert!(missing.contains("anabranch namespace create none"), "{missing}");
    let header = place.file("header.csv", "time,series,a\n");
    assert!(server.run(&["import", "plays", "--file", &header]).ok().starts_with("stored 0 events"));
}

#[test]
fn an_import_that_was_cut_short_goes_on() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let rows = |bad: &str| {
        let row = |index: i64| match index {
            700 => format!("2020-01-01T00:00:00Z,{bad},700\n"),
            _ => format!("{},s,{index}\n", anabranch_model::Timestamp::from_seconds(1_577_836_800 + index)),
        };
        (0..1000).map(row).collect::<String>()
    };
    // A series that only the server can refuse, so that the first pass doesn't stop it.
    let long = "x".repeat(300);
    let file = place.file("history.csv", format!("time,series,n\n{}", rows(&long)));
    let args = ["import", "plays", "--file", &file, "--batch", "100", "--resume", "state"];
    let complaint = server.run(&args);
    assert!(complaint.stderr.contains("stored up to line 701; the same command goes on"), "{complaint:#?}");
    assert_eq!(complaint.code, 4);
    assert!(server.run(&["backfill", "list", "plays"]).ok().contains("closed"), "also after a failure");

    place.file("history.csv", format!("time,series,n\n{}", rows("s")));
    assert!(server.run(&args).ok().starts_with("stored 300 events"));
    assert_eq!(server.count("plays", "s"), 1000);
    assert!(!place.path().join("state").exists());
}

#[test]
fn an_interrupted_import_closes_its_window() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    // More than is stored before the signal comes.
    let row = |at: i64| format!("{},s,{at}\n", anabranch_model::Timestamp::from_seconds(1_577_836_800 + at));
    let rows: String = (0..200_000).map(row).collect();
    let file = place.file("history.csv", format!("time,series,n\n{rows}"));
    let mut child = server
        .command(&["import", "plays", "--file", &file])
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("opening the backfill window"), "{said}");
    send_signal(&child, Signal::INT);
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("error: interrupted"), "{said}");
    assert!(server.run(&["backfill", "list", "plays"]).ok().contains("closed"));
}

/// A quote that is never closed would make everything behind it one value: nothing of it is stored.
#[test]
fn a_csv_with_a_quote_left_open_is_refused() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let csv =
        "time,series,title\n2020-01-01T00:00:00Z,a,one\n2020-01-02T00:00:00Z,a,\"two\n2020-01-03T00:00:00Z,a,three\n";
    let file = place.file("cut.csv", csv);
    let ended = server.run(&["import", "plays", "--file", &file]);
    assert!(ended.stderr.contains("line 3") && ended.stderr.contains("never closed"), "{ended:#?}");
    assert_eq!(history(&server, "a"), []);
    // What stands before it may be taken, but the end isn't passed over in silence.
    let ended = server.run(&["import", "plays", "--file", &file, "--skip-bad"]);
    assert!(ended.stderr.contains("line 3") && ended.stderr.contains("never closed"), "{ended:#?}");
    assert_eq!(history(&server, "a"), [("2020-01-01T00:00:00Z".to_owned(), items(&[("title", "one")]))]);
}
