//! Clients that write: new events, the same ones again, other bytes for the same events; synchronously with retries, or
//! into the queue. And requests that must be refused.

use std::{sync::Arc, time::Duration};

use anabranch_engine::{EngineError, ErrorKind, WriteRequest};
use anabranch_model::{Event, Interval, Item, NamespaceConfig, TimeSeriesId};

use crate::{
    dice::Dice,
    events::{as_input, draw_event, draw_rewrite},
    invalid::send_invalid,
    oracle::{Outcome, Violation},
    pieces::namespace_record,
    plan::{MAX_CLOCK_SKEW, draw_series},
    scans::{ScanSpec, scan},
    world::World,
};

/// A client that writes until the world is over.
pub(crate) async fn write(world: Arc<World>, name: String, dice: Dice) {
    let most = world.plan.pause.as_millis() as u64;
    while !world.is_over() {
        world.env.sleep(dice.millis(0, most)).await;
        let namespace = dice.below(world.plan.namespaces.len() as u64) as usize;
        match dice.below(12) {
            0 => send_invalid(&world, &name, &dice, namespace).await,
            1 | 2 => send_queued(&world, &name, &dice, namespace).await,
            _ => send_sync(&world, &name, &dice, namespace).await,
        }
    }
}

/// Settings as the client believes them to be.
pub(crate) fn config_of(world: &World, dice: &Dice, namespace: usize) -> Option<NamespaceConfig> {
    let server = world.any_server(dice)?;
    let record = server.engine.namespace(world.namespace(namespace).as_str()).ok()?;
    Some(record.config_at(server.engine.now()).clone())
}

fn draw_events(world: &World, dice: &Dice, namespace: usize) -> Option<Vec<Event>> {
    let config = config_of(world, dice, namespace)?;
    let count = if dice.percent(50) { 1 } else { dice.between(2, 8) };
    let window = world.window(namespace, dice).filter(|_| dice.percent(25));
    let bounds = window.map(|window| {
        let mut bounds = world.witness.bounds(world.namespace(namespace));
        bounds.retain(|bound| window.contains(*bound));
        bounds
    });
    let bounds = bounds.unwrap_or_default();
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..count {
        let number = world.number();
        let again =
            dice.percent(15).then(|| draw_rewrite(dice, &world.oracle(), &(namespace, draw_series(dice)), number));
        let mut event = match again.flatten() {
            Some(event) => event,
            None => draw_event(dice, &config, world.env.now(), window, &bounds, number),
        };
        // Some share an instant, some a whole history.
        if let Some(last) = events.last() {
            if dice.percent(50) {
                event.series = last.series.clone();
            }
            if dice.percent(20) && event.position.id != last.position.id {
                event.position.time = last.position.time;
            }
        }
        events.push(event);
    }
    Some(events)
}

async fn send_sync(world: &Arc<World>, name: &str, dice: &Dice, namespace: usize) {
    let Some(events) = draw_events(world, dice, namespace) else { return };
    let timeout = dice.percent(30).then(|| dice.millis(50, 3000));
    let tries = dice.between(1, 6);
    for attempt in 0..tries {
        let Some(server) = world.any_server(dice) else {
            world.env.sleep(dice.millis(100, 2000)).await;
            continue;
        };
        let request = WriteRequest {
            namespace: world.namespace(namespace).as_str().to_owned(),
            events: events.iter().map(as_input).collect(),
            timeout,
        };
        let surely_valid = is_surely_valid(world, namespace, &events);
        let entered = world.oracle().begin(namespace, &events);
        let begun = world.env.monotonic();
        let mut answer = server.call(|engine| async move { engine.write_sync(request).await }).await;
        let took = world.env.monotonic().saturating_sub(begun);
        if dice.chance(world.sky.weather().unanswered) {
            answer = None;
        }
        let outcome = |at: usize| match &answer {
            None => Outcome::Unknown,
            Some(Ok(_)) => Outcome::Acknowledged,
            Some(Err(EngineError::WriteFailed { outcome, .. })) => {
                let at = at as u32;
                if outcome.stored.contains(&at) {
                    Outcome::Acknowledged
                } else if outcome.not_stored.contains(&at) {
                    Outcome::NotStored
                } else {
                    Outcome::Unknown
                }
            }
            Some(Err(_)) => Outcome::NotStored,
        };
        let now = world.env.now();
        let acknowledged: Vec<Event> =
            (0..events.len()).filter(|at| outcome(*at) == Outcome::Acknowledged).map(|at| events[at].clone()).collect();
        world.oracle().end(entered, now, outcome);
        let what = crate::trace::words(answer.as_ref());
        world.trace.log(name, format_args!("writes {} at {}, try {attempt}: {what}", shown(&events), server.index));
        let allowed = timeout.unwrap_or(Duration::from_secs(4)) + Duration::from_millis(100);
        if answer.is_some() && took > allowed && !server.env.was_paused_since(begun) {
            let what = format!("a write took {took:?}, more than the {allowed:?} it was given: {what}");
            world.check(name, Err(Violation::new("deadline", what)));
        }
        let verdict = check_unsealed(world, namespace, &acknowledged).await;
        if !world.check(name, verdict) {
            return;
        }
        let refused = matches!(answer, Some(Err(EngineError::Refused(_))));
        let wrong_clock = world.clocks.was_wrong_since(server.index, begun);
        if wrong_clock && matches!(answer, Some(Err(EngineError::NotServing { .. }))) {
            world.tally.count(|reached| reached.refused_by_clock += 1);
        }
        // Settings may have changed meanwhile.
        if refused && !wrong_clock && surely_valid && is_surely_valid(world, namespace, &events) {
            let what = format!("refused, though nothing is wrong: {what}");
            world.check(name, Err(Violation::new("W3", what)));
        }
        if !world.check(name, acceptable(answer.as_ref().and_then(|answer| answer.as_ref().err()))) || refused {
            return;
        }
        if matches!(answer, Some(Ok(_))) {
            if dice.percent(30) {
                read_back(world, name, dice, namespace, &events[0]).await;
            }
            return;
        }
        if world.is_over() {
            return;
        }
        world.env.sleep(dice.millis(0, 800)).await;
    }
}

/// S3: what has just been acknowledged lies in time that nobody may seal yet, or in a window.
async fn check_unsealed(world: &World, namespace: usize, events: &[Event]) -> Result<(), Violation> {
    let Some(record) = namespace_record(&world.store, world.namespace(namespace)).await? else { return Ok(()) };
    let windowed = |event: &Event| record.backfills.iter().any(|window| window.interval.contains(event.position.time));
    let sealable = record.sealable_until(world.env.now());
    let sealed = |event: &&Event| event.position.time < sealable && !windowed(event);
    match events.iter().find(sealed) {
        Some(event) => {
            let time = event.position.time;
            Err(Violation::new("S3", format!("{time} is acknowledged, though all before {sealable} may be sealed")))
        }
        None => Ok(()),
    }
}

async fn send_queued(world: &Arc<World>, name: &str, dice: &Dice, namespace: usize) {
    let Some(events) = draw_events(world, dice, namespace) else { return };
    let Some(server) = world.any_server(dice) else { return };
    let request = WriteRequest {
        namespace: world.namespace(namespace).as_str().to_owned(),
        events: events.iter().map(as_input).collect(),
        timeout: None,
    };
    let entered = world.oracle().begin(namespace, &events);
    let answer = server.call(|engine| async move { engine.write_queued(request).await }).await;
    let outcome = match &answer {
        Some(Err(_)) => Outcome::NotStored,
        _ => Outcome::Queued,
    };
    let now = world.env.now();
    world.oracle().end(entered, now, |_| outcome);
    let what = crate::trace::words(answer.as_ref());
    world.trace.log(name, format_args!("queues {} at {}: {what}", shown(&events), server.index));
    world.check(name, acceptable(answer.as_ref().and_then(|answer| answer.as_ref().err())));
}

/// W1: what was just acknowledged is there, whichever server is asked.
async fn read_back(world: &Arc<World>, name: &str, dice: &Dice, namespace: usize, event: &Event) {
    let time = event.position.time;
    let mut spec = ScanSpec::draw(world, dice, (namespace, event.series.clone()));
    spec.start = Some(time);
    spec.end = Some(time.saturating_add(Duration::from_nanos(1)));
    spec.filters.clear();
    spec.total_record_limit = 0;
    Box::pin(scan(world, name, dice, spec)).await;
}

/// Whether an honest server can have had this reason.
fn acceptable(error: Option<&EngineError>) -> Result<(), Violation> {
    match error.map(|error| (error, error.kind())) {
        Some((
            error,
            ErrorKind::NotFound | ErrorKind::DataLoss | ErrorKind::FailedPrecondition | ErrorKind::AlreadyExists,
        )) => Err(Violation::new("W1", format!("a write fails for no good reason: {error}"))),
        _ => Ok(()),
    }
}

/// Whether all settings that may be in force take these events, with a second to spare.
fn is_surely_valid(world: &World, namespace: usize, events: &[Event]) -> bool {
    let oracle = world.oracle();
    let wanted = oracle.wanted(namespace);
    let now = world.env.now();
    let slack = Duration::from_secs(6); // the write may wait, and clocks differ
    let accept = wanted.iter().map(|config| config.accept_limit).min().unwrap_or_default();
    let closes = wanted.iter().filter_map(|config| config.close_after).min().unwrap_or(accept);
    let window =
        Interval::new(now.saturating_sub(accept.min(closes)).saturating_add(slack), now.saturating_sub(MAX_CLOCK_SKEW));
    let blocked = |series: &TimeSeriesId| oracle.may_be_blocked(namespace, series);
    let small = |event: &Event| event.items.len() <= 20 && event.items.iter().all(|item| item.bytes() < 800);
    let bytes: usize = events.iter().flat_map(|event| &event.items).map(Item::bytes).sum();
    events.iter().all(|event| window.contains(event.position.time) && !blocked(&event.series) && small(event))
        && bytes < 32 << 10
}

/// Events, shortly.
pub(crate) fn shown(events: &[Event]) -> String {
    let one = |event: &Event| {
        let nanos = event.position.time.nanos();
        format!(
            "{}@{}.{:09}/{}",
            event.series,
            nanos / 1_000_000_000 % 10_000,
            nanos % 1_000_000_000,
            event.position.id
        )
    };
    events.iter().map(one).collect::<Vec<_>>().join(" ")
}
