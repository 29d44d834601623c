//! The dashboard: pages for people, drawn by the server and served by the same process. No build step, nothing from elsewhere; one
//! small script of our own keeps pages live. Everything on them comes from the operations that the API offers.
//!
//! | file | what it draws or does |
//! |---|---|
//! | `place` | which page an address means, and the address of a page |
//! | `layout` | what all pages share: head, navigation, notices, errors |
//! | `show` | numbers, times, sizes and ids as people read them |
//! | `chart` | small drawings: lines, bars, strips |
//! | `overview` | what needs a person, and all namespaces |
//! | `namespace`, `slices`, `sizes`, `tuning`, `read_mode`, `settings` | one namespace, and its parts |
//! | `series`, `events` | one series: its partitions over time, and its events |
//! | `splits`, `split`, `difference` | the pipeline as a board, and one split |
//! | `heat_map` | where ids are busy |
//! | `tasks` | background tasks |
//! | `actions` | what buttons do |
//! | `live` | pages that follow what happens, by server-sent events |

mod actions;
mod chart;
mod difference;
mod events;
mod heat_map;
mod layout;
mod live;
mod namespace;
mod overview;
mod place;
mod read_mode;
mod series;
mod settings;
mod show;
mod sizes;
mod slices;
mod split;
mod splits;
mod tasks;
mod tuning;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use maud::Markup;
use tonic::Code;

use crate::{
    failure::Failure,
    http::Http,
    observe::Protocol,
    operations::{Answer, Operations},
};
use place::Place;

/// Only what this server itself serves may run, be shown or be reached from a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("assets/dashboard.css");
const SCRIPT: &str = include_str!("assets/dashboard.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A page, without what all pages share.
struct Page {
    title: String,
    body: Markup,
    /// How often it is drawn anew for those who look; `None` for pages that stay as they are.
    refresh: Option<Duration>,
}

/// The routes of all pages and of what they need.
pub(crate) fn routes() -> Router<Arc<Http>> {
    Router::new()
        .route("/", get(show))
        .route("/ui/{*place}", get(show))
        .route("/ui/series", get(find_series))
        .route("/ui/live", get(live::follow))
        .route("/ui/assets/dashboard.css", get(|| asset("text/css; charset=utf-8", STYLE)))
        .route("/ui/assets/dashboard.js", get(|| asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/ui/assets/icon.svg", get(|| asset("image/svg+xml", ICON)))
        .route("/ui/actions/read-mode", post(actions::set_read_mode))
        .route("/ui/actions/retry", post(actions::retry))
        .route("/ui/actions/abandon", post(actions::abandon))
        .route("/ui/actions/verify", post(actions::verify))
        .route("/ui/actions/tuning-propose", post(actions::propose_tuning))
        .route("/ui/actions/tuning-apply", post(actions::apply_tuning))
        .route("/ui/actions/tuning-reject", post(actions::reject_tuning))
}

async fn show(State(http): State<Arc<Http>>, request: Request) -> Response {
    let place = Place::parse(request.uri());
    let notice = place::parameter(request.uri(), "done");
    let drawn = http.operations.observe.track(Protocol::Http, "Page", draw_or_fail(&http.operations, place.as_ref()));
    match Box::pin(drawn).await {
        Ok(page) => html(StatusCode::OK, layout::page(&page, place.as_ref(), notice.as_deref())),
        Err(failure) => failed(&failure),
    }
}

async fn draw_or_fail(operations: &Operations, place: Option<&Place>) -> Answer<Page> {
    match place {
        Some(place) => draw(operations, place).await,
        None => Err(Failure::new(Code::NotFound, "NO_SUCH_PAGE", "There is no such page.")),
    }
}

/// Draws what is at a place now.
async fn draw(operations: &Operations, place: &Place) -> Answer<Page> {
    match place {
        Place::Overview => overview::draw(operations),
        Place::Namespace(name) => namespace::draw(operations, name).await,
        Place::Series(view) => series::draw(operations, view).await,
        Place::Splits(filter) => splits::draw(operations, filter).await,
        Place::Split(name) => split::draw(operations, name).await,
        Place::HeatMap(view) => heat_map::draw(operations, view),
        Place::Tasks => Ok(tasks::draw(operations)),
    }
}

/// A form that names a series leads to its page.
async fn find_series(request: Request) -> Response {
    let named = |name| place::parameter(request.uri(), name).unwrap_or_default();
    let (namespace, series) = (named("namespace"), named("id"));
    if series.is_empty() {
        return Redirect::to(&place::namespace(&namespace)).into_response();
    }
    Redirect::to(&place::series(&namespace, &series)).into_response()
}

/// The page that tells of a failure, with the status that the API would answer.
fn failed(failure: &Failure) -> Response {
    let status = match failure.code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    html(status, layout::failure(status, failure))
}

fn html(status: StatusCode, page: Markup) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, page.into_string()).into_response()
}

async fn asset(kind: &'static str, text: &'static str) -> ([(HeaderName, &'static str); 3], &'static str) {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}
