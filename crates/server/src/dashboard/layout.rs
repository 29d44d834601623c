//! What all pages share: head, navigation, notices, and the page that tells of a failure.

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::{
    Page,
    place::{self, Place},
    show,
};
use crate::failure::Failure;

/// What an action that was done tells on the next page. Addresses hold the name only: nobody can make us say something else.
const NOTICES: [(&str, &str); 9] = [
    ("retried", "The split begins again at once."),
    ("nothing", "There was nothing to retry: it is on its way, or served."),
    ("abandoned", "The split is given up. Reads use the original, which stays as it was."),
    ("verified", "Compared with the original, row by row: everything is the same."),
    ("mode", "The read mode is set. Other servers follow within a second."),
    ("tuned", "The proposal is applied: slices that no write can reach yet get the new settings."),
    ("untuned", "The proposal is rejected. The same isn't proposed again."),
    ("proposed", "The tuner looked again: a proposal waits for an answer."),
    ("kept", "The tuner looked again and proposes nothing. Why is in the latest decision."),
];

/// A whole page.
pub(super) fn page(page: &Page, place: Option<&Place>, notice: Option<&str>) -> Markup {
    let live = page.refresh.and(place).map(|place| place::with_query("/ui/live".to_owned(), &[("at", &place.href())]));
    let notice = notice.and_then(|name| NOTICES.iter().find(|(known, _)| *known == name));
    document(
        &page.title,
        place,
        html! {
            @if let Some((_, text)) = notice { p.notice role="status" { (text) } }
            div #live data-live=[live.as_deref()] { (page.body) }
            @if live.is_some() { p.live-state #live-state role="status" { "Reload to see what is new." } }
        },
    )
}

/// The page that tells of a failure.
pub(super) fn failure(status: StatusCode, failure: &Failure) -> Markup {
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "That can't be done",
        _ => "Something went wrong",
    };
    document(
        title,
        None,
        html! {
            h1 { (title) }
            p.failure { (show::one_line(&failure.message)) }
            // One alone is the message.
            @if failure.details.violations.len() > 1 {
                ul {
                    @for violation in &failure.details.violations {
                        li { code { (show::one_line(&violation.field)) } ": " (show::one_line(&violation.reason)) }
                    }
                }
            }
            p { a href="/" { "Back to the overview" } }
        },
    )
}

#[expect(clippy::needless_pass_by_value, reason = "every caller draws it in place")]
fn document(title: &str, place: Option<&Place>, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Anabranch" }
                link rel="icon" type="image/svg+xml" href="/ui/assets/icon.svg";
                link rel="stylesheet" href="/ui/assets/dashboard.css";
                script defer src="/ui/assets/dashboard.js" {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (navigation(place))
                main #main tabindex="-1" { (body) }
                footer {
                    "Anabranch " (env!("CARGO_PKG_VERSION"))
                    " · times are UTC · everything here is also an "
                    a href="/docs" { "API" } " and a command: "
                    code { "anabranch --help" }
                    " · " a href="/metrics" { "metrics" } " · " a href="/openapi.json" { "OpenAPI" }
                }
            }
        }
    }
}

fn navigation(place: Option<&Place>) -> Markup {
    let pages = [
        ("/", "Overview", matches!(place, Some(Place::Overview | Place::Namespace(_) | Place::Series(_)))),
        ("/ui/splits", "Splits", matches!(place, Some(Place::Splits(_) | Place::Split(_)))),
        ("/ui/heatmap", "Heat map", matches!(place, Some(Place::HeatMap(_)))),
        ("/ui/tasks", "Tasks", matches!(place, Some(Place::Tasks))),
    ];
    html! {
        header.top {
            a.brand href="/" {
                svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true" {
                    path.river d="M3 16 C9 16 9 16 12 16 C16 16 16 7 20 7 C24 7 24 16 29 16" {}
                    path.river.arm d="M12 16 C16 16 16 25 20 25 C24 25 24 16 29 16" {}
                }
                "Anabranch"
            }
            nav aria-label="Pages" {
                @for (href, name, current) in pages {
                    a href=(href) aria-current=[current.then_some("page")] { (name) }
                }
                a href="/docs" { "API" }
            }
        }
    }
}

/// The way to a page, from the top.
pub(super) fn trail(steps: &[(String, Markup)]) -> Markup {
    html! {
        nav.trail aria-label="You are here" {
            ol { @for (href, name) in steps { li { a href=(href) { (name) } } } }
        }
    }
}

/// One of several ways to show a page.
pub(super) fn choice(href: &str, name: &str, is_current: bool) -> Markup {
    html! { a href=(href) aria-current=[is_current.then_some("true")] { (name) } }
}

/// The head of a table; columns of numbers end in `#`.
pub(super) fn columns(names: &[&str]) -> Markup {
    html! {
        thead { tr {
            @for name in names {
                @match name.strip_suffix('#') {
                    Some(name) => { th.number scope="col" { (name) } }
                    None => { th scope="col" { (name) } }
                }
            }
        } }
    }
}

/// A number with what it means.
#[expect(clippy::needless_pass_by_value, reason = "every caller draws it in place")]
pub(super) fn tile(name: &str, field: &str, value: &str, more: Markup) -> Markup {
    html! {
        div.tile { dt { (name) } dd { strong data-field=(field) { (value) } " " span.more { (more) } } }
    }
}

/// A word that stands out, coloured by what it means.
pub(super) fn badge(kind: &str, text: &str) -> Markup {
    html! { span class=(format!("badge {kind}")) { (text) } }
}
