//! `anabranch advise` on tables that others made. The node knows its clients: rows are planted by one that may do
//! everything, and looked at by one that may only SELECT.

mod foreign;
mod secured;

use foreign::{Kind, Planted, place};
use serde_json::Value;

/// The distance of a number from what it should be, as a share of that.
fn off(found: &Value, exact: u64) -> f64 {
    (found.as_f64().unwrap() / exact as f64 - 1.0).abs()
}

fn percentile<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["sizes"].as_array().unwrap().iter().find(|size| size["name"] == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_the_widest_partitions_of_a_foreign_table_are_found() {
    let place = place().await;
    let planted = Planted::new(2000);
    place.plant("advise_plays", Kind::Timestamp, &planted).await;
    println!("{}", place.advise_text("advise_plays", &[]).await);
    let report = place.advise("advise_plays", &[]).await;

    assert_eq!(report["sample"]["partitions"], planted.partitions.len());
    assert_eq!(report["sample"]["stopped_by"], Value::Null);
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let (rows, bytes) = planted.percentile(share);
        assert!(off(&percentile(&report, name)["rows"], rows) < 0.2, "{name} of {rows}: {report:#}");
        assert!(off(&percentile(&report, name)["bytes"], bytes) < 0.2, "{name} of {bytes}: {report:#}");
    }
    let widest = report["widest"].as_array().unwrap();
    for (found, (name, rows)) in widest.iter().zip(planted.widest()) {
        assert_eq!(found["key"], format!("profile = '{name}'"), "{report:#}");
        assert_eq!((&found["rows"], &found["is_whole"]), (&rows.into(), &true.into()));
        assert!(found["newest_page"]["median_ms"].as_f64().unwrap() > 0.0);
        assert!(found["whole_history_seconds"].as_f64().unwrap() > 0.0);
    }
    let packed = &widest[0]["packed"];
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(number(&packed["zstd"]["bytes"]) < number(&packed["bytes"]), "{packed:#}");
    assert!(number(&packed["lz4"]["rows"]) * 10 < number(&packed["rows"]), "blocks hold many events: {packed:#}");

    // An hour of a row a second; then a bucket of four hours holds all of it.
    let bucket =
        |seconds: u64| report["buckets"].as_array().unwrap().iter().find(|it| it["seconds"] == seconds).unwrap();
    let (_, widest_rows) = planted.widest()[0];
    assert!(off(&bucket(3600)["widest_bytes"], 3600 * planted.row_bytes()) < 0.01, "{:#}", bucket(3600));
    assert!(off(&bucket(180 * 86_400)["widest_bytes"], widest_rows * planted.row_bytes()) < 0.01);
    let commands = report["proposal"]["commands"].to_string();
    assert!(
        commands.contains("anabranch plan --writes-per-second") && commands.contains("namespace create"),
        "{commands}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_tells_the_p99_and_what_it_left_out() {
    let place = place().await;
    let planted = Planted::new(3000);
    place.plant("advise_sample", Kind::Timestamp, &planted).await;
    let report = place.advise("advise_sample", &["--max-rows", "12000"]).await;
    let sample = &report["sample"];
    assert_eq!(sample["stopped_by"], "rows", "{sample:#}");
    let share = sample["share_of_tokens"].as_f64().unwrap();
    assert!(share > 0.05 && share < 0.9, "{sample:#}");
    assert!(sample["rows"].as_u64().unwrap() < 14_000, "a page more than the limit at most: {sample:#}");
    let (rows, bytes) = planted.percentile(0.99);
    assert!(off(&percentile(&report, "p99")["rows"], rows) < 0.2, "{report:#}");
    assert!(off(&percentile(&report, "p99")["bytes"], bytes) < 0.2, "{report:#}");
    assert!(off(&report["estimated"]["partitions"], planted.partitions.len() as u64) < 0.2, "{report:#}");
    assert!(report["remarks"].to_string().contains("may be in the rest"), "{:#}", report["remarks"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_cannot_be_read_is_told_and_not_counted_as_read() {
    let place = place().await;
    let planted = Planted::new(2000);
    place.plant("advise_broken", Kind::Timestamp, &planted).await;
    place.bury("advise_broken").await;
    let report = place.advise("advise_broken", &[]).await;
    let sample = &report["sample"];
    let share = sample["share_of_tokens"].as_f64().unwrap();
    assert!((0.99..1.0).contains(&share), "{sample:#}");
    assert_eq!((&sample["is_everything"], &sample["stopped_by"]), (&false.into(), &Value::Null), "{sample:#}");
    assert!(report["remarks"].to_string().contains("were left out"), "{:#}", report["remarks"]);
    assert_eq!(percentile(&report, "widest")["high_bytes"], Value::Null, "a wider one may be where nothing was read");
    assert!(off(&report["estimated"]["partitions"], planted.partitions.len() as u64) < 0.02, "{report:#}");
    let text = place.advise_text("advise_broken", &[]).await;
    assert!(text.contains("couldn't be read") && !text.contains(": everything"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_widest_that_are_cut_off_are_told_as_such_and_with_what_they_likely_have() {
    let place = place().await;
    let small = (0..300).map(|index| (format!("p-{index}"), 10));
    let wide = ["wide-1", "wide-2"].map(|name| (name.to_owned(), 60_000));
    let planted = Planted { partitions: small.chain(wide).collect() };
    place.plant("advise_cut", Kind::Timestamp, &planted).await;
    let limit = ["--max-bytes", "8MiB"];
    println!("{}", place.advise_text("advise_cut", &limit).await);
    let report = place.advise("advise_cut", &limit).await;
    let sample = &report["sample"];
    assert_eq!((&sample["cut"], &sample["stopped_by"]), (&2.into(), &"bytes".into()), "{report:#}");
    assert_eq!((&sample["share_of_tokens"], &sample["is_everything"]), (&1.0.into(), &false.into()));
    for wide in &report["widest"].as_array().unwrap()[..2] {
        assert_eq!(wide["is_whole"], false, "{wide:#}");
        assert!(off(&wide["likely_rows"], 60_000) < 0.05, "{wide:#}");
        assert!(off(&wide["likely_bytes"], 60_000 * planted.row_bytes()) < 0.05, "{wide:#}");
    }
    assert!(off(&report["estimated"]["rows"], 123_000) < 0.05, "{:#}", report["estimated"]);
    assert_eq!(
        (&report["estimated"]["is_at_least"], &report["proposal"]["is_at_least"]),
        (&false.into(), &false.into())
    );
    let (widest, half) = (percentile(&report, "widest"), percentile(&report, "p50"));
    assert_eq!((&widest["is_at_least"], &widest["high_bytes"]), (&true.into(), &Value::Null), "{widest:#}");
    assert_eq!((&half["is_at_least"], &half["high_bytes"]), (&false.into(), &half["low_bytes"]), "{half:#}");
    // All of it happened within 60,000 seconds.
    let writes = report["proposal"]["workload"]["writes_per_second"].to_string();
    let writes: f64 = writes.trim_matches('"').parse().unwrap();
    assert!((writes / 2.05 - 1.0).abs() < 0.05, "{writes}");
}

/// Columns called as CQL's own words are, series that have one time in common, and zeros among the times.
#[tokio::test(flavor = "multi_thread")]
async fn odd_names_odd_keys_and_odd_times_are_taken_as_they_are() {
    let place = place().await;
    place
        .cql(
            "CREATE TABLE advise.metrics (\"order\" text, \"from\" int, \"Metric\" text, at bigint, v int, \
             PRIMARY KEY ((\"order\", \"from\"), \"Metric\", at))",
        )
        .await;
    for metric in ["heat", "load", "speed", "strain"] {
        let times = std::iter::once(0).chain((0..50).map(|second| 1_774_692_000_000_i64 + second * 1000));
        for at in times {
            let cql = "INSERT INTO advise.metrics (\"order\", \"from\", \"Metric\", at, v)";
            place.cql(&format!("{cql} VALUES ('o-1', 7, '{metric}', {at}, 5)")).await;
        }
    }
    let report = place.advise("metrics", &[]).await;
    assert_eq!(report["key"]["time_kind"], "milliseconds since 1970", "{report:#}");
    let widest = &report["widest"][0];
    let condition = widest["key"].as_str().unwrap();
    assert_eq!(condition, "\"order\" = 'o-1' AND \"from\" = 7");
    assert_eq!(place.count("metrics", condition).await, 204);
    let (packed, rows) = (&widest["packed"], 4 * 51);
    assert_eq!((&widest["rows"], &packed["rows"]), (&rows.into(), &rows.into()), "{widest:#}");
    assert!(packed["bytes"].as_u64().unwrap() > rows * 12, "no row is left out: {packed:#}");
    let span = report["proposal"]["workload"]["writes_per_second"].to_string();
    assert!(span.trim_matches('"').parse::<f64>().unwrap() > 4.0, "zeros make no rate smaller: {span}");

    place.cql("CREATE TABLE advise.sentinels (id text, at bigint, v int, PRIMARY KEY (id, at))").await;
    for at in [0_i64, 1, 2, 1_774_692_000_000, 1_774_692_060_000] {
        place.cql(&format!("INSERT INTO advise.sentinels (id, at, v) VALUES ('a', {at}, 1)")).await;
    }
    let (code, said) = place.refused("advise", "sentinels").await;
    assert!(code == 4 && said.contains("--time-column"), "{said}");
    let report = place.advise("sentinels", &["--time-column", "at"]).await;
    assert_eq!(report["key"]["time_kind"], "milliseconds since 1970", "{report:#}");
}

/// Every kind of time, and keys of several columns; conditions are such that CQL finds the partition by them.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_time_and_key_is_understood() {
    let place = place().await;
    for kind in [Kind::TimeUuid, Kind::Millis, Kind::Seconds, Kind::Composite] {
        let planted = Planted::new(150);
        let table = format!("advise_{kind:?}").to_lowercase();
        place.plant(&table, kind, &planted).await;
        let report = place.advise(&table, &["--widest", "2"]).await;
        assert_eq!(report["key"]["time_kind"], kind.told(), "{report:#}");
        let (rows, _) = planted.percentile(0.99);
        assert!(off(&percentile(&report, "p99")["rows"], rows) < 0.2, "{kind:?}: {report:#}");
        let (name, rows) = planted.widest()[0];
        let widest = &report["widest"][0];
        let condition = widest["key"].as_str().unwrap();
        assert!(condition.contains(name), "{kind:?}: {condition}");
        assert_eq!(widest["rows"], rows, "{kind:?}");
        assert_eq!(place.count(&table, condition).await, rows, "{kind:?}: {condition}");
        assert_eq!(report["widest"].as_array().unwrap().len(), 2);
        assert!(widest["newest"].as_str().unwrap().starts_with("2026-03-28T"), "{widest:#}");
    }
    let report = place.advise("advise_composite", &[]).await;
    assert_eq!(report["key"]["series"], serde_json::json!(["tenant", "device", "sensor"]));
    assert!(report["remarks"].to_string().contains("order of sensor before at"), "{:#}", report["remarks"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_columns_and_an_empty_table_do_not_stand_in_the_way() {
    let place = place().await;
    place.cql("CREATE TYPE advise.point (x int, y frozen<list<double>>)").await;
    place
        .cql(
            "CREATE TABLE advise.unusual (id frozen<tuple<int, text>>, at timestamp, n int, owner text STATIC, tags set<text>, \
             props map<text, int>, spot frozen<point>, spots list<frozen<point>>, v vector<float, 3>, d duration, \
             PRIMARY KEY (id, at, n)) WITH CLUSTERING ORDER BY (at DESC, n ASC) AND default_time_to_live = 864000",
        )
        .await;
    for n in 0..20 {
        place
            .cql(&format!(
                "INSERT INTO advise.unusual (id, at, n, owner, tags, props, spot, spots, v, d) VALUES ((1, 'a'), \
                 {}, {n}, 'me', {{'x', 'y'}}, {{'k': {n}}}, {{x: 1, y: [1.5]}}, [{{x: 2, y: []}}], [1, 2, 3], 1h30m)",
                1_774_692_000_000_i64 + n * 60_000
            ))
            .await;
    }
    // A partition that has nothing but its own column has no row.
    place.cql("INSERT INTO advise.unusual (id, owner) VALUES ((2, 'b'), 'nobody')").await;
    let report = place.advise("unusual", &[]).await;
    assert_eq!((&report["sample"]["partitions"], &report["widest"][0]["rows"]), (&1.into(), &20.into()), "{report:#}");
    assert!(report["remarks"].to_string().contains("owner"), "{report:#}");
    assert!(report["proposal"]["commands"].to_string().contains("--retention 864000s"), "{report:#}");

    place.cql("CREATE TABLE advise.hits (page text, hour bigint, n counter, PRIMARY KEY (page, hour))").await;
    for hour in 0..30 {
        place
            .cql(&format!("UPDATE advise.hits SET n = n + 1 WHERE page = 'x' AND hour = {}", 1_774_692_000 + hour))
            .await;
    }
    let report = place.advise("hits", &[]).await;
    assert_eq!((&report["widest"][0]["rows"], &report["key"]["time_kind"]), (&30.into(), &"seconds since 1970".into()));

    place.cql("CREATE TABLE advise.empty (id text, at timestamp, v blob, PRIMARY KEY (id, at))").await;
    let report = place.advise("empty", &[]).await;
    assert_eq!((&report["sample"]["partitions"], &report["proposal"]), (&0.into(), &Value::Null));
    assert!(report["remarks"].to_string().contains("empty"), "{report:#}");
    assert!(place.advise_text("empty", &[]).await.contains("The table is empty"), "people are told, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_answered_with_what_is() {
    let place = place().await;
    place.cql("CREATE TABLE advise.no_time (id text, n bigint, name text, v blob, PRIMARY KEY (id, n, name))").await;
    place.cql("INSERT INTO advise.no_time (id, n, name) VALUES ('a', 17, 'b')").await;
    place.cql("CREATE TABLE advise.no_clustering (id text PRIMARY KEY, v blob)").await;
    let (code, said) = place.refused("advise", "no_time").await;
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("no clustering column that is a time: it has n bigint, name text"), "{said}");
    let (code, said) = place.refused("advise", "no_clustering").await;
    assert!(code == 4 && said.contains("no clustering columns at all"), "{said}");
    let (code, said) = place.refused("advise", "No_Time").await;
    assert!(code == 3 && said.contains("has no table `No_Time`; it has") && said.contains("no_time"), "{said}");
    let (code, said) = place.refused("advice", "no_time").await;
    assert!(code == 3 && said.contains("there is no keyspace `advice`; there are advise"), "{said}");
    assert!(!said.contains("system_auth"), "{said}");
}

/// S1 for tables of others: the role may not write, no write is counted, and the schema stays as it was.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written() {
    let place = place().await;
    place.plant("advise_untouched", Kind::Timestamp, &Planted::new(50)).await;
    let error =
        place.as_reader("INSERT INTO advise.advise_untouched (profile, at, id) VALUES ('x', 1, 1)").await.unwrap_err();
    assert!(error.contains("no MODIFY permission"), "{error}");
    let error = place
        .as_reader("CREATE KEYSPACE anabranch WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .await
        .unwrap_err();
    assert!(error.contains("no CREATE permission"), "{error}");
    let before = (place.writes("advise_untouched").await, place.tables().await);
    assert!(before.0 > 0, "writes are counted");
    place.advise("advise_untouched", &[]).await;
    assert_eq!((place.writes("advise_untouched").await, place.keyspaces_of_ours().await), (before.0, 0));
    assert!(place.tables().await.is_superset(&before.1));
}
