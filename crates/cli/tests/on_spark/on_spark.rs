//! The job and the program over the same splits: sound ones, and then one for each way in which they can differ.

mod faults;
mod site;

use anabranch_runtime::Env;
use anabranch_testbed::{Cassandra, Spark};
use faults::{Fault, Planter};
use serde_json::Value;
use site::{EVENTS, ITEMS, Site};

/// Pieces of packed rows, and pieces of rows as they are in the original.
const NAMESPACES: [(&str, &str); 2] = [("packed", "lz4"), ("plain", "rows")];
/// A history that nothing is wrong with, beside one for each fault.
const SOUND: &str = "sound";

/// S1, S2 from outside: what both checks say of splits that equal their originals, and of every way in which they can
/// differ, planted in Cassandra itself: within what reads take from a piece, and outside of it.
#[test]
fn a_missing_an_extra_an_altered_and_a_misplaced_row_are_found_by_spark_and_by_the_program() {
    let env = Env::system();
    let begun = env.monotonic();
    let tell = |what: &str| println!("{:6.1} s  {what}", (env.monotonic() - begun).as_secs_f64());
    let spark = Spark::fetch().unwrap();
    let ring = Cassandra::start(1).unwrap();
    let node = ring.addresses()[0];
    tell("a Cassandra node is up");
    let site = Site::start(node);
    tell("a server is up");
    for (namespace, packing) in NAMESPACES {
        site.create_namespace(namespace, packing);
        site.import(namespace, &series());
    }
    NAMESPACES.iter().for_each(|(namespace, _)| site.wait_until_split(namespace, &series()));
    // The same slice holds segments of another form then.
    let zstd = [format!("{SOUND}-zstd")];
    site.run(&["namespace", "update", "packed", "--split-packing", "zstd"]);
    site.import("packed", &zstd);
    site.wait_until_split("packed", &zstd);
    tell("every history is split");

    for (namespace, _) in NAMESPACES {
        let (status, report) = site.spark_job(&spark, namespace);
        assert_eq!(status, Some(0), "{report}");
        let partitions = series().len() + usize::from(namespace == "packed");
        let rows = partitions * EVENTS * ITEMS;
        assert_eq!(report["partitions"], partitions, "{report}");
        assert_eq!((&report["rows"]["original"], &report["rows"]["split"]), (&rows.into(), &rows.into()), "{report}");
        assert!(report["differences"].as_object().unwrap().values().all(|count| *count == 0), "{report}");
        tell(&format!("the Spark job finds {rows} rows of `{namespace}` the same"));
    }
    let verified = site.verify_all();
    assert_eq!(verified.status, Some(0), "{}", verified.text);
    assert_eq!(verified.found.len(), 2 * series().len() + 1, "{}", verified.text);
    tell("so does the program");

    let planter = Planter::connect(node);
    for (namespace, _) in NAMESPACES {
        for fault in Fault::ALL {
            planter.plant(namespace, &site.show(namespace, fault.name()), fault);
        }
    }
    tell("every fault is planted, each in a history of its own");
    for (namespace, _) in NAMESPACES {
        let (status, report) = site.spark_job(&spark, namespace);
        assert_eq!(status, Some(1), "{report}");
        let mut found = found_by_spark(&report);
        found.sort();
        let of = |fault: Fault| fault.kinds().iter().map(move |kind| (fault.name().to_owned(), (*kind).to_owned()));
        let mut planted: Vec<_> = Fault::ALL.into_iter().flat_map(of).collect();
        planted.sort();
        assert_eq!(found, planted, "{report}");
        tell(&format!("the Spark job finds every fault in `{namespace}`, and nothing else"));
    }
    let verified = site.verify_all();
    assert_eq!(verified.status, Some(1), "{}", verified.text);
    for (namespace, series, differs) in &verified.found {
        assert_eq!(*differs, !series.starts_with(SOUND), "{namespace} {series}: {}", verified.text);
    }
    assert_eq!(verified.found.iter().filter(|(_, _, differs)| *differs).count(), 2 * Fault::ALL.len());
    tell("so does the program");
}

/// The block decoder reads the vectors of docs/blocks.md, with the pinned packages.
#[test]
fn the_jobs_own_tests_pass() {
    let spark = Spark::fetch().unwrap();
    let output = spark.python().args(["-B", "-m", "unittest", "-v"]).current_dir(site::job()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("test_every_codec_gives_the_rows_of_the_page"), "{said}");
}

/// A slice of which nothing is served proves nothing, and a cluster that isn't there even less.
#[test]
fn what_can_not_be_compared_is_not_called_the_same() {
    let spark = Spark::fetch().unwrap();
    let mut command = spark.submit().unwrap();
    let nobody = site::unused_address().to_string();
    command.arg(site::job().join("verify.py")).args(["plays", "data_20200326", "--contact-points", &nobody]);
    let output = command.output().unwrap();
    // `spark-submit` sends both outputs of a job to one.
    let said = String::from_utf8_lossy(&output.stdout);
    let is_told = said.lines().any(|line| line.starts_with("error: ") && line.contains(&nobody));
    assert!(output.status.code() == Some(2) && is_told, "{said}");
}

fn series() -> Vec<String> {
    let faulty = Fault::ALL.iter().map(|fault| fault.name().to_owned());
    faulty.chain([SOUND.to_owned()]).collect()
}

/// Series and kind of each difference.
fn found_by_spark(report: &Value) -> Vec<(String, String)> {
    let list = report["first_differences"].as_array().unwrap();
    let text = |difference: &Value, name: &str| difference[name].as_str().unwrap().to_owned();
    list.iter().map(|difference| (text(difference, "time_series_id"), text(difference, "kind"))).collect()
}
