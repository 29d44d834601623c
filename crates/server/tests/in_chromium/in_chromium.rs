//! Every page at phone and desktop width, light and dark: nothing complains, nothing is cut off, numbers are those of the API, and
//! buttons do what they say. `ANABRANCH_PICTURES` names a folder for pictures of all pages.

mod browser;
mod edges;
mod fixture;

use browser::{Browser, Scheme};
use fixture::{Fixture, HOSTILE, WIDE};
use serde_json::{Value, json};

const WIDTHS: [u32; 3] = [360, 390, 1280];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_whole_and_silent_at_every_width_light_and_dark() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    let pages = fixture.pages().await;
    for width in WIDTHS {
        for scheme in [Scheme::Light, Scheme::Dark] {
            browser.show_as(width, scheme).await;
            for (name, path) in &pages {
                browser.open(&fixture.url(path)).await;
                let overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth").await;
                assert!(overflow.as_f64().unwrap() <= 0.0, "{name} is {overflow} pixels too wide at {width}");
                let heading = browser.evaluate("document.querySelector('h1').textContent").await;
                assert!(!heading.as_str().unwrap().trim().is_empty(), "{name} has no heading");
                browser.picture(&format!("{name}-{width}-{}", scheme.name())).await;
                assert_eq!(browser.complaints(), Vec::<String>::new(), "{name} at {width}");
            }
        }
    }
    browser.close().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_on_the_pages_are_those_of_the_api() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    let overview = fixture.get("/v1/overview").await;
    browser.open(&fixture.url("/")).await;
    for namespace in overview["namespaces"].as_array().unwrap() {
        let name = namespace["name"].as_str().unwrap();
        let field = async |browser: &mut Browser, field: &str| {
            let script =
                format!("document.querySelector('tr[data-namespace={name}] [data-field={field}]').dataset.value");
            browser.evaluate(&script).await.as_str().unwrap().to_owned()
        };
        let states: Vec<&Value> = namespace["splits"].as_array().into_iter().flatten().collect();
        let count = |wanted: &str| {
            states.iter().find(|found| found["state"] == wanted).map_or("0", |found| found["count"].as_str().unwrap())
        };
        assert_eq!(field(&mut browser, "wide").await, namespace["widePartitions"].as_str().unwrap_or("0"), "{name}");
        assert_eq!(field(&mut browser, "completed").await, count("COMPLETED"), "{name}");
        assert_eq!(field(&mut browser, "failed").await, count("FAILED"), "{name}: {namespace}");
        assert_eq!(field(&mut browser, "parked").await, count("PARKED"), "{name}: {namespace}");
    }
    let warnings = browser.evaluate("document.querySelector('[data-field=warnings]').dataset.value").await;
    assert_eq!(warnings, overview["warnings"].as_array().unwrap().len().to_string());
    let kinds: Vec<&str> =
        overview["warnings"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    // One of the splits is parked, but somebody gave it up.
    assert_eq!(kinds, ["DEMOTED"], "{overview}");
    let said = overview["warnings"][0]["message"].as_str().unwrap();
    assert!(said.contains("the split of account:7 differed"), "{said}");
    let leads_to = browser.evaluate("document.querySelector('.warnings .go').getAttribute('href')").await;
    assert_eq!(leads_to, "/ui/splits?namespace=ledger");

    let partitions = fixture.get(&format!("/v1/namespaces/plays/series/{WIDE}/partitions")).await;
    browser.open(&fixture.url(&format!("/ui/namespaces/plays/series/{WIDE}"))).await;
    let shown = browser.evaluate("[...document.querySelectorAll('tr[data-partition]')].map(row => [row.dataset.partition, row.querySelector('[data-field=rows]').dataset.value, row.querySelector('[data-field=bytes]').dataset.value])").await;
    let told: Vec<Value> = partitions["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let name = format!(
                "{}/{}/{}",
                one["timeSlice"].as_str().unwrap(),
                one["timeBucket"].as_u64().unwrap_or(0),
                one["eventBucket"].as_u64().unwrap_or(0)
            );
            json!([name, one["rows"], one["bytes"]])
        })
        .collect();
    assert_eq!(shown, Value::from(told));
    let events = browser.evaluate("document.querySelectorAll('.event').length").await;
    assert_eq!(events, 25);

    let split = fixture.split_path("plays", WIDE).await;
    let told = fixture.get(&split.api).await;
    let segment = &told["segments"][0];
    let pieces = segment["postSplitData"]["timeRangePartitionStrategy"]["pieces"].as_array().unwrap().len();
    browser.open(&fixture.url(&split.page)).await;
    assert_eq!(browser.evaluate("document.querySelectorAll('rect.piece').length").await, pieces);
    assert_eq!(
        browser.evaluate("document.querySelector('[data-field=before_rows]').dataset.value").await,
        segment["preSplitData"]["rows"]
    );
    let checksums =
        browser.evaluate("[...document.querySelectorAll('.checksum')].map(found => found.textContent)").await;
    let told: Vec<&Value> = segment["postSplitData"]["timeRangePartitionStrategy"]["pieces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|piece| &piece["checksum"])
        .collect();
    assert_eq!(checksums, json!(told));

    numbers_of_slices_and_of_the_tuner(&fixture, &mut browser).await;

    let map = fixture.get("/v1/heatmap?namespace=plays").await;
    browser.open(&fixture.url("/ui/heatmap?namespace=plays&measure=writes")).await;
    let total: u64 = map["ranges"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|range| range["writes"].as_array().unwrap())
        .map(|cell| cell.as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(total > 0);
    assert_eq!(browser.evaluate("document.querySelector('[data-field=total]').dataset.value").await, total.to_string());

    let tasks = fixture.get("/v1/tasks").await;
    browser.open(&fixture.url("/ui/tasks")).await;
    let shown = browser.evaluate("[...document.querySelectorAll('tr[data-task]')].map(row => row.dataset.task)").await;
    let told: Vec<&Value> = tasks["tasks"].as_array().unwrap().iter().map(|task| &task["name"]).collect();
    assert_eq!(shown, json!(told));
    // What is shown of a task that waits for something outside is what the API tells.
    let waits = |name: &str| {
        tasks["tasks"].as_array().unwrap().iter().find(|task| task["name"] == name).unwrap()["waitsFor"].clone()
    };
    for (name, wanted) in [("bus", "the next suspicion of a wide partition"), ("tuner", "its interval")] {
        let script = format!("document.querySelector('tr[data-task={name}] [data-field=waits_for]').dataset.value");
        assert_eq!((browser.evaluate(&script).await, waits(name)), (json!(wanted), json!(wanted)));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}

/// Partition sizes and the proposal, against what the API tells; measuring goes on meanwhile, but counts the same again.
async fn numbers_of_slices_and_of_the_tuner(fixture: &Fixture, browser: &mut Browser) {
    let told = fixture.get("/v1/namespaces/visits/slices?latest=12").await;
    let told: Vec<&Value> = told["slices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|slice| slice["measurement"]["partitions"].is_string())
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    browser.open(&fixture.url("/ui/namespaces/visits")).await;
    let target = browser.evaluate("document.querySelector('#size-table').closest('section').querySelector('[data-field=target]').dataset.value").await;
    assert_eq!(target, format!("{}-{}", 2 << 20, 10 << 20));
    for slice in told {
        let (name, measured) = (slice["slice"]["name"].as_str().unwrap(), &slice["measurement"]);
        let target = &slice["densityTarget"];
        assert_eq!((&target["lowBytes"], &target["highBytes"]), (&json!("2097152"), &json!("10485760")));
        let row = format!("document.querySelector('tr[data-slice={name}]')");
        let shown = browser
            .evaluate(&format!("['partitions', 'p50', 'p99', 'max'].map(field => {row}.querySelector(`[data-field=${{field}}]`).dataset.value)"))
            .await;
        let sizes = &measured["partitionBytes"];
        assert_eq!(shown, json!([measured["partitions"], sizes["p50"], sizes["p99"], sizes["max"]]));
        let classes = measured["classes"].as_array().unwrap();
        assert!(classes.len() >= 5, "{measured}");
        let pairs: Vec<Value> = classes.iter().map(|one| json!([one["upToBytes"], one["partitions"]])).collect();
        let shown = browser.evaluate(&format!("[...{row}.querySelectorAll('tr[data-class]')].map(found => [found.dataset.class, found.querySelector('[data-field=count]').dataset.value])")).await;
        assert_eq!(shown, json!(pairs));
        let bars = browser.evaluate(&format!("{row}.querySelectorAll('svg.sizes rect.below').length")).await;
        assert_eq!(bars, classes.len(), "all of them are below the target");
    }

    let told = fixture.get("/v1/namespaces/visits/tuning").await;
    let decision = &told["decisions"][0];
    assert_eq!(decision["outcome"], "PROPOSED", "{told}");
    let shown = browser.evaluate("(() => { const found = document.querySelector('[data-proposal]'); return [found.dataset.proposal, found.querySelector('.said').textContent, ...['seconds_per_slice', 'seconds_per_bucket', 'event_buckets', 'expected_p99'].map(field => found.querySelector(`[data-field=${field}]`).dataset.value)] })()").await;
    let settings = &decision["newSettings"];
    let number = |field: &str| settings[field].as_u64().unwrap().to_string();
    let (slice, bucket, event) = (number("secondsPerSlice"), number("secondsPerBucket"), number("eventBuckets"));
    assert_eq!(
        shown,
        json!([decision["number"], decision["reason"], slice, bucket, event, decision["expectedP99Bytes"]])
    );
    let evidence = browser.evaluate("[...document.querySelectorAll('[data-proposal] tr[data-evidence]')].map(found => [found.dataset.evidence, found.querySelector('[data-field=p99]').dataset.value])").await;
    let counted: Vec<Value> = decision["counted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slice| json!([slice["timeSlice"], slice["p99Bytes"]]))
        .collect();
    assert_eq!((evidence, counted.len()), (json!(counted), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_of_the_tuner_are_applied_and_rejected_after_a_question() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    // Nothing is applied by one click.
    browser.open(&fixture.url("/ui/namespaces/visits")).await;
    let proposed = fixture.get("/v1/namespaces/visits/tuning").await["decisions"][0].clone();
    browser.click("#tuning-apply > summary").await;
    browser.until("document.querySelector('#tuning-apply').open").await;
    browser.picture("namespace-asks").await;
    assert_eq!(fixture.get("/v1/namespaces/visits/tuning").await["decisions"][0]["outcome"], "PROPOSED");
    browser.click("#tuning-apply form button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('is applied')").await;
    let applied = fixture.get("/v1/namespaces/visits/tuning").await["decisions"][0].clone();
    assert_eq!((&applied["number"], &applied["outcome"]), (&proposed["number"], &json!("APPLIED")));
    assert_eq!(applied["by"], "dashboard");
    let config = fixture.get("/v1/namespaces/visits").await;
    let wanted = &proposed["newSettings"]["secondsPerBucket"];
    assert!(
        config["config"]["secondsPerBucket"] == *wanted || config["nextConfig"]["secondsPerBucket"] == *wanted,
        "{config}"
    );
    assert_eq!(browser.evaluate("document.querySelector('[data-proposal]')").await, Value::Null);
    let first = "document.querySelector('#decisions tr[data-decision] .badge').textContent";
    assert_eq!(browser.evaluate(first).await, "APPLIED");

    browser.show_as(390, Scheme::Dark).await;
    browser.open(&fixture.url("/ui/namespaces/clicks")).await;
    browser.click("#tuning-reject > summary").await;
    browser.until("document.querySelector('#tuning-reject').open").await;
    browser.click("#tuning-reason").await;
    browser.type_text("reads are <short>").await;
    browser.click("#tuning-reject form button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('is rejected')").await;
    let rejected = fixture.get("/v1/namespaces/clicks/tuning").await["decisions"][0].clone();
    assert_eq!(
        (&rejected["outcome"], &rejected["by"], &rejected["rejectReason"]),
        (&json!("REJECTED"), &json!("dashboard"), &json!("reads are <short>"))
    );
    let shown = browser.evaluate("document.querySelector('#decisions').textContent").await;
    assert!(shown.as_str().unwrap().contains("Rejected because: reads are <short>"), "{shown}");
    // The same isn't proposed again, and the page says so.
    browser.click("form[action='/ui/actions/tuning-propose'] button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('proposes nothing')").await;
    assert_eq!(browser.evaluate("document.querySelector('[data-proposal]')").await, Value::Null);
    let kept = fixture.get("/v1/namespaces/clicks/tuning").await["decisions"][0]["reason"].clone();
    assert!(kept.as_str().unwrap().starts_with("Rejected before: Observed: "), "{kept}");
    browser.picture("namespace-rejected").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_do_what_they_say_and_ask_before_what_cannot_be_undone() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    let split = fixture.split_path("plays", WIDE).await;
    browser.open(&fixture.url(&split.page)).await;
    browser.click("form[action='/ui/actions/verify'] button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('everything is the same')").await;

    // Nothing is given up by one click.
    browser.click("#abandon > summary").await;
    browser.until("document.querySelector('#abandon').open").await;
    assert_eq!(fixture.get(&split.api).await["state"], "COMPLETED");
    browser.click("#abandon-reason").await;
    browser.type_text("too \"old\" <now>").await;
    browser.click("#abandon form button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('given up')").await;
    let abandoned = fixture.get(&split.api).await;
    assert_eq!((&abandoned["state"], &abandoned["reason"]), (&json!("PARKED"), &json!("abandoned: too \"old\" <now>")));
    let shown = browser.evaluate("document.querySelector('.reason').textContent").await;
    assert_eq!(shown, "abandoned: too \"old\" <now>");
    browser.picture("split-parked").await;

    browser.click("form[action='/ui/actions/retry'] button").await;
    browser.until("document.querySelector('.notice')?.textContent.includes('begins again')").await;
    // The page follows by itself until the split is served again.
    browser.until("document.querySelector('h1 .badge').textContent === 'Completed'").await;
    assert_eq!(fixture.get(&split.api).await["generation"], 2);

    browser.open(&fixture.url("/ui/namespaces/plays")).await;
    browser.click("#change-mode > summary").await;
    browser.evaluate("document.querySelector('#mode').value = 'ON'").await;
    browser.click("#reason").await;
    browser.type_text("proven").await;
    browser.click("#change-mode form button").await;
    browser.until("document.querySelector('.ladder [aria-current] strong')?.textContent === 'ON'").await;
    let namespace = fixture.get("/v1/namespaces/plays").await;
    let change = &namespace["splits"]["history"][0];
    assert_eq!(
        (&change["to"], &change["by"], &change["reason"]),
        (&json!("ON"), &json!("dashboard"), &json!("proven"))
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_ids_are_text_and_pages_are_reached_by_keyboard() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    browser.open(&fixture.url("/ui/namespaces/sensors")).await;
    browser.click("#series-id").await;
    browser.type_text(HOSTILE).await;
    // The page as it is by now waits behind what somebody has filled in, also once the field is left.
    browser.press("Tab").await;
    browser.until("document.querySelector('#live-state').textContent.startsWith('Paused')").await;
    browser.click("form[action='/ui/series'] button").await;
    browser.until("location.pathname.includes('/series/') && document.readyState === 'complete'").await;
    let heading = browser.evaluate("document.querySelector('h1').textContent").await;
    assert_eq!(heading, HOSTILE);
    assert_eq!(
        browser
            .evaluate("window.stolen === undefined && document.querySelectorAll('main script, main img').length")
            .await,
        0
    );
    let hex = browser.evaluate("document.querySelector('pre.hex')?.textContent ?? ''").await;
    assert!(hex.as_str().unwrap().contains("ff 00 fe"), "{hex}");

    // Older and back again by page tokens.
    browser.open(&fixture.url(&format!("/ui/namespaces/plays/series/{WIDE}"))).await;
    let first = "document.querySelector('.event time').dateTime";
    let newest = browser.evaluate(first).await;
    browser.click(".pager a[rel=next]").await;
    browser.until(&format!("document.readyState === 'complete' && {first} !== {newest}")).await;
    browser.click(".pager a[rel=prev]").await;
    browser.until(&format!("document.readyState === 'complete' && {first} === {newest}")).await;

    browser.open(&fixture.url("/")).await;
    browser.press("Tab").await;
    assert_eq!(browser.evaluate("document.activeElement.className").await, "skip");
    browser.press("Enter").await;
    assert_eq!(browser.evaluate("document.activeElement.id").await, "main");
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab").await;
        let href = browser.evaluate("document.activeElement.getAttribute('href') ?? ''").await;
        reached.push(href.as_str().unwrap().to_owned());
    }
    for wanted in ["/ui/namespaces/plays", "/ui/splits?namespace=plays"] {
        assert!(reached.iter().any(|href| href == wanted), "{wanted} in {reached:?}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}
