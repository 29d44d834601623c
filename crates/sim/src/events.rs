//! Makes events up: where they lie in time, what they hold. Bounds of buckets, slices and windows are favourites.

use std::time::Duration;

use anabranch_engine::{EventInput, ItemInput, TimeInput};
use anabranch_model::{
    Event, EventId, EventItemKey, Interval, Item, NamespaceConfig, Position, Timestamp, time::NANOS_PER_SECOND,
};
use bytes::Bytes;

use crate::{
    dice::Dice,
    oracle::{Oracle, SeriesKey},
    plan::draw_series,
};

/// The item that filters ask for, and its values.
pub(crate) const STATUS: &str = "status";
pub(crate) const STATUSES: [&str; 3] = ["new", "done", ""];

/// How near the end of the window an event lies that a slow write takes out of it.
const EDGE: Duration = Duration::from_secs(2);

/// A new event of a series, somewhere in the window of these settings, seldom outside.
pub(crate) fn draw_event(
    dice: &Dice,
    config: &NamespaceConfig,
    now: Timestamp,
    window: Option<Interval>,
    bounds: &[Timestamp],
    number: u64,
) -> Event {
    let time = match window {
        // Where a segment ends, or right before.
        Some(_) if !bounds.is_empty() && dice.percent(40) => {
            Timestamp::from_nanos(dice.pick(bounds).nanos() - i64::from(dice.percent(30)))
        }
        Some(window) => on_a_bound(dice, config, within(dice, window)),
        None => draw_time(dice, config, now),
    };
    let prefix = dice.pick(&["", "e", "e-", "ä", "~", "0"]);
    let id = EventId::new(format!("{prefix}{number}")).expect("a number has digits");
    Event { series: draw_series(dice), position: Position { time, id }, items: draw_items(dice, number) }
}

fn within(dice: &Dice, window: Interval) -> Timestamp {
    let length = u64::try_from(window.length().as_nanos()).unwrap_or(u64::MAX).max(1);
    window.start.saturating_add(Duration::from_nanos(dice.below(length)))
}

fn draw_time(dice: &Dice, config: &NamespaceConfig, now: Timestamp) -> Timestamp {
    let span = |limit: Duration| Duration::from_nanos(dice.below(limit.as_nanos() as u64 + 1));
    let time = match dice.below(20) {
        0 => now.saturating_sub(config.accept_limit), // out of the window at once
        1 | 2 => now.saturating_sub(config.accept_limit).saturating_add(span(EDGE.min(config.accept_limit))), // soon
        3 => now.saturating_add(config.drift_limit),
        4..=6 => now.saturating_add(span(config.drift_limit)),
        7..=10 => now.saturating_sub(span(config.accept_limit)),
        _ => now.saturating_sub(span(config.accept_limit.min(Duration::from_secs(5)))),
    };
    on_a_bound(dice, config, time)
}

/// Moves some times to where buckets and slices meet, or right before, and some to whole seconds, so that they collide.
fn on_a_bound(dice: &Dice, config: &NamespaceConfig, time: Timestamp) -> Timestamp {
    let grain = match dice.below(10) {
        0 | 1 => u64::from(config.seconds_per_bucket),
        2 => u64::from(config.seconds_per_slice),
        3 | 4 => 1,
        _ => return time,
    };
    let grain = grain as i64 * NANOS_PER_SECOND;
    let bound = time.nanos().div_euclid(grain) * grain;
    Timestamp::from_nanos(bound - i64::from(dice.percent(30)))
}

fn draw_items(dice: &Dice, number: u64) -> Vec<Item> {
    let big = dice.percent(15);
    let count = if big { dice.between(3, 14) } else { dice.pick(&[1, 1, 1, 2, 4]) };
    let mut items: Vec<Item> = (0..count).map(|at| draw_item(dice, &format!("k{at}"), number, big)).collect();
    if dice.percent(60) {
        items.push(status_item(dice));
    }
    items
}

fn draw_item(dice: &Dice, key: &str, number: u64, big: bool) -> Item {
    let length = if big { dice.between(100, 600) } else { dice.between(0, 40) } as usize;
    let value = format!("{number}/{}/{:width$}", dice.below(1000), "", width = length);
    let metadata = match dice.below(4) {
        0 => Some(Bytes::new()),
        1 => Some(Bytes::from_static(b"text")),
        _ => None,
    };
    Item { key: EventItemKey::new(key).expect("it isn't empty"), value: Bytes::from(value), metadata }
}

fn status_item(dice: &Dice) -> Item {
    let value = Bytes::from_static(dice.pick(&STATUSES).as_bytes());
    Item { key: EventItemKey::new(STATUS).expect("it isn't empty"), value, metadata: None }
}

/// An event of a history once more: with the same bytes, with others, or with more items.
pub(crate) fn draw_rewrite(dice: &Dice, oracle: &Oracle, key: &SeriesKey, number: u64) -> Option<Event> {
    let history = oracle.history(key).filter(|history| !history.is_empty())?;
    // Mostly late ones: those before are out of the window.
    let back = if dice.percent(80) { dice.below(20) } else { dice.below(history.len() as u64) };
    let (position, state) = history.iter().rev().nth(back.min(history.len() as u64 - 1) as usize)?;
    let mut items = state.last_items()?.to_vec();
    match dice.below(3) {
        0 => {}
        1 => {
            let at = dice.below(items.len() as u64) as usize;
            items[at].value = Bytes::from(format!("{number}/again"));
        }
        _ => {
            let key = format!("k{}", dice.below(18));
            items.retain(|item| item.key.as_str() != key);
            items.push(draw_item(dice, &key, number, true));
        }
    }
    Some(Event { series: key.1.clone(), position: position.clone(), items })
}

/// An event as a client sends it.
pub(crate) fn as_input(event: &Event) -> EventInput {
    let item = |item: &Item| ItemInput {
        key: item.key.as_str().to_owned(),
        value: item.value.clone(),
        metadata: item.metadata.clone(),
    };
    EventInput {
        series: event.series.as_str().to_owned(),
        time: Some(TimeInput::Nanos(event.position.time.nanos())),
        id: event.position.id.as_str().to_owned(),
        items: event.items.iter().map(item).collect(),
    }
}
