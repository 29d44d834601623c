//! Clients that read: scans of every kind, page after page, each page at any server, with pauses, through crashes.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{EngineError, ErrorKind, Filter, Page, ReadRequest};
use anabranch_model::{Order, Timestamp};
use bytes::Bytes;

use crate::{
    dice::Dice,
    events::{STATUS, STATUSES},
    oracle::{SeriesKey, Violation},
    plan::draw_series,
    plant::Plant,
    scan_check::{Asked, Limits, ScanCheck},
    searches::search,
    streams::read_stream,
    world::{Server, World},
};

/// A scan that makes so many pages goes round in circles.
const MOST_PAGES: u32 = 5000;
/// A client loses patience after so many failures.
const PATIENCE: u32 = 25;

/// What stays the same over the pages of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanSpec {
    pub(crate) key: SeriesKey,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) order: Order,
    pub(crate) filters: Vec<Filter>,
    pub(crate) total_record_limit: u64,
}

impl ScanSpec {
    /// All of a history.
    pub(crate) fn whole(key: SeriesKey, order: Order) -> Self {
        ScanSpec { key, start: None, end: None, order, filters: Vec::new(), total_record_limit: 0 }
    }

    /// Anything that a client could ask for; bounds lie on events, beside them or anywhere.
    pub(crate) fn draw(world: &World, dice: &Dice, key: SeriesKey) -> Self {
        let order = dice.pick(&[Order::LatestFirst, Order::OldestFirst]);
        let mut spec = ScanSpec::whole(key, order);
        if dice.percent(60) {
            let (one, other) = (draw_bound(world, dice, &spec.key), draw_bound(world, dice, &spec.key));
            spec.start = Some(one.min(other)).filter(|_| dice.percent(80));
            spec.end = Some(one.max(other)).filter(|_| dice.percent(80));
        }
        for _ in 0..dice.pick(&[0, 0, 0, 1, 2]) {
            let value = dice.percent(60).then(|| Bytes::from_static(dice.pick(&STATUSES).as_bytes()));
            let key = dice.pick(&[STATUS, STATUS, "k1", "k9"]);
            spec.filters.push(Filter { key: key.to_owned(), value: value.filter(|_| key == STATUS) });
        }
        spec.total_record_limit = if dice.percent(20) { dice.between(1, 30) } else { 0 };
        spec
    }

    pub(crate) fn request(&self, world: &World, token: &str, asked: &Asked) -> ReadRequest {
        ReadRequest {
            namespace: world.namespace(self.key.0).as_str().to_owned(),
            series: self.key.1.as_str().to_owned(),
            start: self.start,
            end: self.end,
            order: self.order,
            filters: self.filters.clone(),
            page_size: asked.page_size,
            page_bytes: asked.page_bytes,
            total_record_limit: self.total_record_limit,
            page_token: token.to_owned(),
            timeout: asked.timeout,
            ..ReadRequest::default()
        }
    }
}

fn draw_bound(world: &World, dice: &Dice, key: &SeriesKey) -> Timestamp {
    let oracle = world.oracle();
    let history = oracle.history(key).filter(|history| !history.is_empty());
    let nth = history.map(|history| (history, dice.below(history.len() as u64) as usize));
    let on_event = nth.and_then(|(history, nth)| history.keys().nth(nth)).map(|position| position.time);
    let bounds = world.witness.bounds(world.namespace(key.0));
    if !bounds.is_empty() && dice.percent(20) {
        return Timestamp::from_nanos(dice.pick(&bounds).nanos() + dice.pick(&[-1, 0, 0, 1]));
    }
    match (dice.below(4), on_event) {
        (0..3, Some(time)) => Timestamp::from_nanos(time.nanos() + dice.pick(&[-1, 0, 0, 1])),
        _ => world.plan.start.saturating_add(dice.millis(0, world.plan.length.as_millis() as u64)),
    }
}

/// A client that reads until the world is over.
pub(crate) async fn read(world: Arc<World>, name: String, dice: Dice) {
    let most = world.plan.pause.as_millis() as u64;
    while !world.is_over() {
        world.env.sleep(dice.millis(0, most)).await;
        let namespace = dice.below(world.plan.namespaces.len() as u64) as usize;
        if dice.percent(12) {
            Box::pin(search(&world, &name, &dice, namespace)).await;
            continue;
        }
        let spec = ScanSpec::draw(&world, &dice, (namespace, draw_series(&dice)));
        Box::pin(scan(&world, &name, &dice, spec)).await;
    }
}

/// One scan from its first page to its last. Says whether it came to its end.
pub(crate) async fn scan(world: &Arc<World>, name: &str, dice: &Dice, spec: ScanSpec) -> bool {
    let hurry = dice.percent(30);
    let dawdle = dice.percent(20);
    let streams = dice.percent(30);
    let usual = draw_asked(dice, hurry);
    let mut check = ScanCheck::begin(&mut world.oracle(), spec.clone());
    let mut token = String::new();
    let mut failures = 0;
    loop {
        let Some(server) = world.any_server(dice).filter(|_| failures <= PATIENCE) else {
            if failures > PATIENCE {
                world.trace.log(name, format_args!("gives up on {:?}", spec.key));
                return false;
            }
            failures += 1;
            world.env.sleep(dice.millis(100, 1500)).await;
            continue;
        };
        let mut asked = if dice.percent(20) { draw_asked(dice, hurry) } else { usual };
        asked.timeout = asked.timeout.map(|timeout| timeout * (1 + failures));
        check.streamed = streams && dice.percent(60);
        let step = if check.streamed {
            read_stream(world, name, dice, &spec, &mut check, &server, &token, asked).await
        } else {
            read_page(world, name, dice, &spec, &mut check, &server, &token, asked).await
        };
        match step {
            Step::Failed => return false,
            Step::Again => {
                failures += 1;
                world.env.sleep(dice.millis(0, 500)).await;
            }
            Step::End => return true,
            Step::Next(next) => {
                failures = 0;
                token = next;
                if dice.percent(4) {
                    misuse(world, name, dice, &spec, &server, &token).await;
                }
                if dawdle && !world.is_over() {
                    world.env.sleep(dice.millis(0, 15_000)).await;
                }
            }
        }
        if world.is_over() && world.oracle().violation().is_some() {
            return false;
        }
    }
}

pub(crate) fn draw_asked(dice: &Dice, hurry: bool) -> Asked {
    Asked {
        page_size: dice.pick(&[0, 0, 1, 2, 5, 30, 1000]),
        page_bytes: dice.pick(&[0, 0, 1, 300, 1500, 100_000]),
        timeout: if hurry { Some(dice.millis(5, 150)) } else { dice.percent(30).then(|| dice.millis(300, 5000)) },
    }
}

/// What to do after a page.
pub(crate) enum Step {
    Next(String),
    End,
    Again,
    /// A promise was broken, or there is no point in going on.
    Failed,
}

#[allow(clippy::too_many_arguments)] // the state of a scan, which lives in one place
async fn read_page(
    world: &Arc<World>,
    name: &str,
    dice: &Dice,
    spec: &ScanSpec,
    check: &mut ScanCheck,
    server: &Server,
    token: &str,
    asked: Asked,
) -> Step {
    let namespace = world.namespace(spec.key.0).as_str();
    let Ok(before) = server.engine.namespace(namespace) else {
        if server.engine.check_ready().is_err() {
            return Step::Again; // it has lost touch, and knows it
        }
        let what = format!("server {} doesn't know {namespace}", server.index);
        world.check(name, Err(Violation::new("W1", what)));
        return Step::Failed;
    };
    let mut sent = asked;
    if world.planted(Plant::OverfillsPage, dice, 100) && asked.page_size > 0 {
        sent.page_size += 1;
    }
    let mut request = spec.request(world, token, &sent);
    if world.planted(Plant::ForgetsTotal, dice, 100) && request.total_record_limit > 0 {
        request.total_record_limit += 1;
    }
    let began = (world.oracle().tick(), world.env.now());
    let begun = world.env.monotonic();
    let answer = server.read(request).await;
    let took = world.env.monotonic().saturating_sub(begun);
    let after = server.engine.namespace(namespace).unwrap_or_else(|_| before.clone());
    let closed = after.closed_until.max(world.plan.start.saturating_sub(world.plan.length)).seconds() % 10_000;
    let what = words(answer.as_ref());
    world.trace.log(name, format_args!("reads {} at {}, closed {closed}: {what}", shown(spec, &asked), server.index));
    let mut page = match answer {
        None => return Step::Again,
        Some(Err(error)) => {
            let verdict = acceptable(world, spec, &error);
            let fine = world.check(name, verdict);
            return if fine && error.kind() != ErrorKind::PermissionDenied { Step::Again } else { Step::Failed };
        }
        Some(Ok(page)) => page,
    };
    if world.planted(Plant::HidesPartial, dice, 100) {
        page.partial = None;
    }
    if world.planted(Plant::LosesToken, dice, 3) {
        page.next_page_token = None;
    }
    if dice.chance(world.sky.weather().unanswered) {
        return Step::Again; // the answer is lost; the same page can be asked for again
    }
    let paused = server.env.was_paused_since(begun);
    let verdict = judge(world, check, &page, &asked, began, took, paused, (&before, &after), token);
    if !world.check(name, verdict) {
        return Step::Failed;
    }
    if let Some(next) = page.next_page_token {
        return Step::Next(next);
    }
    let verdict = check.end(&world.oracle());
    if world.check(name, verdict) { Step::End } else { Step::Failed }
}

#[allow(clippy::too_many_arguments)] // everything that is known of a page
fn judge(
    world: &World,
    check: &mut ScanCheck,
    page: &Page,
    asked: &Asked,
    began: (u64, Timestamp),
    took: Duration,
    paused: bool,
    records: (&anabranch_engine::NamespaceRecord, &anabranch_engine::NamespaceRecord),
    token: &str,
) -> Result<(), Violation> {
    let mut oracle = world.oracle();
    oracle.check_closed(check.namespace(), records.1, world.env.now())?;
    let now = world.env.now();
    let mut limits: Vec<Limits> =
        [records.0, records.1].map(|record| asked.limits(record.config_at(now).page_limits)).into();
    if paused {
        // Settings may have changed more than once meanwhile.
        limits.extend(oracle.wanted(check.namespace()).iter().map(|config| asked.limits(config.page_limits)));
    }
    check.page(&mut oracle, page, &limits, began, records.1.closed_until)?;
    if page.next_page_token.as_deref() == Some(token) || check.pages() > MOST_PAGES {
        return Err(Violation::new("R2", "the scan does not move on"));
    }
    let allowed = asked.timeout.unwrap_or(Duration::from_secs(5)) + Duration::from_millis(100);
    if took > allowed && !paused {
        return Err(Violation::new(
            "deadline",
            format!("a page took {took:?}, more than the {allowed:?} it was given"),
        ));
    }
    Ok(())
}

/// Whether an honest server can have had this reason.
pub(crate) fn acceptable(world: &World, spec: &ScanSpec, error: &EngineError) -> Result<(), Violation> {
    let fine = match error.kind() {
        ErrorKind::Unavailable | ErrorKind::DeadlineExceeded | ErrorKind::ResourceExhausted => true,
        ErrorKind::PermissionDenied => world.oracle().may_be_blocked(spec.key.0, &spec.key.1),
        _ => false,
    };
    if fine { Ok(()) } else { Err(Violation::new("R1", format!("a page is refused for no good reason: {error}"))) }
}

/// R1: a token serves only the request that it was made for.
async fn misuse(world: &Arc<World>, name: &str, dice: &Dice, spec: &ScanSpec, server: &Server, token: &str) {
    let mut other = spec.clone();
    let mut token = token.to_owned();
    match dice.below(6) {
        0 => other.order = if spec.order == Order::LatestFirst { Order::OldestFirst } else { Order::LatestFirst },
        1 => other.total_record_limit += 1,
        2 => other.filters.push(Filter { key: STATUS.to_owned(), value: Some(Bytes::from_static(b"other")) }),
        3 => {
            other.start =
                Some(other.start.map_or(world.plan.start, |start| start.saturating_sub(Duration::from_nanos(1))));
        }
        4 => other.key.1 = anabranch_model::TimeSeriesId::new("another").expect("it isn't empty"),
        _ => {
            let at = dice.below(token.len() as u64) as usize;
            let letter = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            token.replace_range(at..=at, letter);
        }
    }
    if matches!((other.start, other.end), (Some(start), Some(end)) if start > end) {
        return;
    }
    let asked = Asked { page_size: 0, page_bytes: 0, timeout: None };
    let request = other.request(world, &token, &asked);
    let answer = server.read(request).await;
    world.trace.log(name, format_args!("misuses a token: {}", words(answer.as_ref())));
    if matches!(answer, Some(Ok(_))) {
        world.check(name, Err(Violation::new("R1", "a token was taken with another request")));
    }
}

pub(crate) fn shown(spec: &ScanSpec, asked: &Asked) -> String {
    let bound = |time: Option<Timestamp>| {
        time.map_or("…".to_owned(), |time| {
            format!("{}.{:09}", time.seconds() % 10_000, time.nanos().rem_euclid(1_000_000_000))
        })
    };
    format!(
        "{} {}..{} {:?}, {} filters, limit {}, page {}/{} B, {:?}",
        spec.key.1,
        bound(spec.start),
        bound(spec.end),
        spec.order,
        spec.filters.len(),
        spec.total_record_limit,
        asked.page_size,
        asked.page_bytes,
        asked.timeout
    )
}

fn words(answer: Option<&Result<Page, EngineError>>) -> String {
    match answer {
        Some(Ok(page)) => {
            let more = if page.next_page_token.is_some() { ", more" } else { "" };
            let partial = page.partial.map_or(String::new(), |partial| {
                let until = partial.complete_until;
                format!(
                    ", {:?} until {}.{:09}",
                    partial.reason,
                    until.seconds() % 10_000,
                    until.nanos().rem_euclid(1_000_000_000)
                )
            });
            format!("{} records{more}{partial}", page.records.len())
        }
        other => crate::trace::words(other),
    }
}
