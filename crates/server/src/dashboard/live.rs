//! Pages that follow what happens: drawn anew now and then, and sent to those who look when something has changed.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;

use super::{
    draw,
    place::{self, Place},
    show,
};
use crate::http::Http;

/// Pages that may be followed at once; those who come later see theirs as it was.
const MOST: usize = 64;
/// How soon a stream ends when the server stops.
const STOP_CHECK: Duration = Duration::from_millis(250);

static FOLLOWED: AtomicUsize = AtomicUsize::new(0);

/// A place among those who follow.
struct Seat;

impl Seat {
    fn take() -> Option<Seat> {
        let more = |followed| (followed < MOST).then_some(followed + 1);
        FOLLOWED.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        FOLLOWED.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Someone who looks at a page.
struct Follower {
    http: Arc<Http>,
    place: Place,
    /// What they were told last.
    told: Option<Told>,
    refresh: Duration,
    _seat: Seat,
}

/// What those who follow are told.
#[derive(PartialEq, Eq)]
enum Told {
    /// The page as it is now.
    Page(String),
    /// Why it can't be drawn now: what is seen is old.
    Trouble(String),
}

impl Told {
    async fn now(follower: &Follower) -> Told {
        match draw(&follower.http.operations, &follower.place).await {
            Ok(page) => Told::Page(page.body.into_string()),
            Err(failure) => Told::Trouble(show::one_line(&failure.message)),
        }
    }

    fn event(&self) -> Option<Event> {
        let (kind, text) = match self {
            Told::Page(drawn) => ("page", drawn),
            Told::Trouble(reason) => ("trouble", reason),
        };
        Event::default().event(kind).json_data(text).ok()
    }
}

/// Sends a page each time it has changed, and says when it can't be drawn.
pub(super) async fn follow(State(http): State<Arc<Http>>, request: Request) -> Response {
    let at = place::parameter(request.uri(), "at").and_then(|at| at.parse().ok());
    let Some(place) = at.and_then(|at| Place::parse(&at)) else { return StatusCode::NOT_FOUND.into_response() };
    // Nothing to follow, and no wish to be asked again.
    let Some(seat) = Seat::take() else { return StatusCode::NO_CONTENT.into_response() };
    let Ok(page) = Box::pin(draw(&http.operations, &place)).await else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let Some(refresh) = page.refresh else { return StatusCode::NO_CONTENT.into_response() };
    let follower = Follower { http, place, told: None, refresh, _seat: seat };
    let events = stream::unfold(follower, |follower| Box::pin(next(follower)));
    let headers = [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

async fn next(mut follower: Follower) -> Option<(Result<Event, Infallible>, Follower)> {
    loop {
        if follower.told.is_some() && !wait(&follower).await {
            return None;
        }
        let told = Some(Told::now(&follower).await);
        if told != follower.told {
            let event = told.as_ref()?.event()?;
            follower.told = told;
            return Some((Ok(event), follower));
        }
    }
}

/// Waits until it is time to look again; `false` when the server stops.
async fn wait(follower: &Follower) -> bool {
    let operations = &follower.http.operations;
    let until = operations.env.monotonic() + follower.refresh;
    while operations.env.monotonic() < until {
        if operations.stopping.load(Ordering::Acquire) {
            return false;
        }
        operations.env.sleep(STOP_CHECK).await;
    }
    !operations.stopping.load(Ordering::Acquire)
}
