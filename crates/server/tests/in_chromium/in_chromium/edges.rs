//! What is rare on the dashboard: pages that are old, crowds, ids that are long, things that aren't there.

use serde_json::json;

use super::{
    WIDTHS,
    browser::{Browser, Scheme},
    fixture::{CROWDED, Fixture, WIDE, long_ids},
};

const STATE: &str = "document.querySelector('#live-state')";

/// Whoever looks at a page that isn't fresh is told so, since when and why; it follows again when it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_old_says_so_until_it_is_live_again() {
    let fixture = Fixture::start().await;
    let mut browser = Browser::start().await;
    browser.open(&fixture.url("/ui/namespaces/audit")).await;
    browser.until(&format!("{STATE}.textContent === 'Live'")).await;
    fixture.delete_namespace("audit").await;
    browser.until(&format!("{STATE}.textContent.startsWith('This is how it was at ')")).await;
    let told = browser.evaluate(&format!("{STATE}.textContent")).await;
    assert!(told.as_str().unwrap().contains("audit"), "it doesn't say why: {told}");

    // A board is live whatever it is narrowed down to, and a namespace that somebody has chosen isn't taken away.
    for board in ["/ui/splits", "/ui/splits?namespace=plays"] {
        browser.open(&fixture.url(board)).await;
        browser.until(&format!("{STATE}.textContent === 'Live' && {STATE}.classList.contains('live')")).await;
    }
    browser.evaluate("document.querySelector('#namespace').value = ''").await;
    browser.until(&format!("{STATE}.textContent.startsWith('Paused') && !{STATE}.classList.contains('live')")).await;

    browser.open(&fixture.url("/")).await;
    browser.until(&format!("{STATE}.textContent === 'Live'")).await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let away = fixture.away().await;
    browser
        .until(&format!("{STATE}.textContent.startsWith('The server does not answer: this is how it was at ')"))
        .await;
    // In sight from the top of the page.
    browser.evaluate("scrollTo(0, 0)").await;
    let seen = browser.evaluate(&format!("(() => {{ const box = {STATE}.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }})()")).await;
    assert_eq!(seen, true);
    browser.picture("overview-away").await;
    let fixture = away.back().await;
    browser.until(&format!("{STATE}.textContent === 'Live' && !{STATE}.classList.contains('stale')")).await;
    browser.complaints(); // that the server was away
    browser.open(&fixture.url("/")).await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_on_the_board_however_many_splits_there_are() {
    let fixture = Fixture::start().await;
    fixture.crowd().await;
    let mut browser = Browser::start().await;
    browser.open(&fixture.url("/ui/splits")).await;
    let column = |state: &str, part: &str| format!("document.querySelector('[data-state={state}]'){part}");
    assert_eq!(browser.evaluate(&column("PARKED", ".dataset.count")).await, "2");
    let parked = browser.evaluate(&column("PARKED", ".textContent")).await;
    for reason in ["nobody reads it", "its reader was retired"] {
        assert!(parked.as_str().unwrap().contains(reason), "{parked}");
    }
    // Of those that are done there are more than are fetched, and the number says so.
    let number = browser.evaluate(&column("NOT_WIDE", ".querySelector('h3 .number').textContent")).await;
    assert!(number.as_str().unwrap().ends_with('+'), "{number}");
    // Of others, none was fetched: that isn't none.
    assert_eq!(browser.evaluate(&column("COMPLETED", ".querySelector('h3 .number').textContent")).await, "?");
    let listed = browser.evaluate(&column("COMPLETED", ".querySelector('p a').getAttribute('href')")).await;
    assert_eq!(listed, "/ui/splits?state=completed");
    browser.picture("splits-crowded").await;
    browser.click("#state-not_wide p a").await;
    browser.until("location.search.includes('state=not_wide') && document.readyState === 'complete'").await;
    assert_eq!(browser.evaluate("document.querySelectorAll('.card').length").await, 500);
    let said = browser.evaluate(&column("NOT_WIDE", ".textContent")).await;
    assert!(said.as_str().unwrap().contains("There are more."), "{said}");
    // Narrowed down to a few, all are there.
    browser.open(&fixture.url(&format!("/ui/splits?namespace={CROWDED}&series=small:0007"))).await;
    assert_eq!(browser.evaluate("document.querySelectorAll('.card').length").await, 1);
    assert_eq!(browser.evaluate(&column("NOT_WIDE", ".querySelector('h3 .number').textContent")).await, "1");
    browser.show_as(390, Scheme::Dark).await;
    browser.open(&fixture.url("/ui/splits")).await;
    browser.picture("splits-crowded-phone").await;

    // Of many namespaces, those in which something is wrong or happens come first, and the others are folded away.
    browser.open(&fixture.url("/")).await;
    let first = browser.evaluate("[...document.querySelectorAll('#namespace-table tr[data-namespace]')].slice(0, 4).map(row => row.dataset.namespace)").await;
    assert_eq!(
        first,
        json!(["ledger", CROWDED, "plays", "sensors"]),
        "the one that needs a person, then those with traffic"
    );
    let folded = "document.querySelector('#idle-namespaces:not([open]) tr[data-namespace=idle_07]') !== null";
    assert_eq!(browser.evaluate(folded).await, true);
    browser.picture("overview-crowded").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_ids_and_what_is_not_there_fit_every_page() {
    let fixture = Fixture::start().await;
    fixture.long_histories().await;
    let mut browser = Browser::start().await;
    let [long, wide] = long_ids();
    let split = fixture.split_path("plays", &long).await;
    let pages = [
        ("overview", "/".to_owned()),
        ("splits-long", "/ui/splits?namespace=plays".to_owned()),
        ("split-long", split.page),
        ("series-long", format!("/ui/namespaces/plays/series/{long}")),
        ("series-unicode", format!("/ui/namespaces/plays/series/{wide}")),
        ("heatmap-long", "/ui/heatmap?namespace=plays".to_owned()),
        ("series-unknown", "/ui/namespaces/plays/series/nobody".to_owned()),
        ("namespace-empty", "/ui/namespaces/audit".to_owned()),
        ("heatmap-empty", "/ui/heatmap?namespace=audit".to_owned()),
    ];
    for (name, path) in &pages {
        for width in WIDTHS {
            browser.show_as(width, Scheme::Light).await;
            browser.open(&fixture.url(path)).await;
            let overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth").await;
            assert!(overflow.as_f64().unwrap() <= 0.0, "{name} is {overflow} pixels too wide at {width}");
            browser.picture(&format!("{name}-{width}")).await;
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // What isn't there is said in words, with a way on; the browser notes the status.
    for (path, words) in [("/ui/namespaces/nowhere", "nowhere"), ("/ui/nothing", "no such page")] {
        browser.open(&fixture.url(path)).await;
        let shown = browser.evaluate("document.querySelector('main').innerText").await;
        let shown = shown.as_str().unwrap().to_lowercase();
        assert!(shown.contains("not found") && shown.contains(words) && shown.contains("overview"), "{shown}");
        browser.picture("not-found").await;
    }
    browser.complaints();
    // A token of somewhere else is refused in words, too.
    browser.open(&fixture.url(&format!("/ui/namespaces/plays/series/{WIDE}?token=nonsense"))).await;
    let shown = browser.evaluate("document.querySelector('h1').textContent").await;
    assert_eq!(shown, json!("That can't be done"));
    browser.close().await;
    fixture.stop().await;
}
