//! Requests that must be refused as a whole, with every bad event named, and leave nothing behind (W3).

use std::sync::Arc;

use anabranch_engine::{EngineError, EventInput, TimeInput, WriteRequest};
use anabranch_model::Event;
use bytes::Bytes;

use crate::{
    dice::Dice,
    events::{as_input, draw_event},
    oracle::{Outcome, Violation},
    plant::Plant,
    world::World,
    writers::{config_of, shown},
};

/// Sends good events with bad ones among them.
pub(crate) async fn send_invalid(world: &Arc<World>, name: &str, dice: &Dice, namespace: usize) {
    let (Some(config), Some(server)) = (config_of(world, dice, namespace), world.any_server(dice)) else { return };
    let count = dice.between(1, 4);
    let events: Vec<Event> =
        (0..count).map(|_| draw_event(dice, &config, world.env.now(), None, &[], world.number())).collect();
    let mut inputs: Vec<EventInput> = events.iter().map(as_input).collect();
    let mut bad = Vec::new();
    for (at, input) in inputs.iter_mut().enumerate() {
        if at == 0 || dice.percent(40) {
            spoil(dice, input);
            bad.push(at);
        }
    }
    let good: Vec<EventInput> =
        inputs.iter().enumerate().filter(|(at, _)| !bad.contains(at)).map(|(_, input)| input.clone()).collect();
    let request =
        WriteRequest { namespace: world.namespace(namespace).as_str().to_owned(), events: inputs, timeout: None };
    let planted =
        world.planted(Plant::StoresRefused, dice, 50).then(|| WriteRequest { events: good, ..request.clone() });
    let queued = dice.percent(30);

    let entered = world.oracle().begin(namespace, &events);
    let answer = server
        .call(|engine| async move {
            if queued {
                engine.write_queued(request).await.map(|_| ())
            } else {
                engine.write_sync(request).await.map(|_| ())
            }
        })
        .await;
    if let Some(request) = planted {
        server.call(|engine| async move { engine.write_sync(request).await }).await;
    }
    let now = world.env.now();
    world.oracle().end(entered, now, |_| Outcome::NotStored);
    let what = crate::trace::words(answer.as_ref());
    world.trace.log(name, format_args!("sends bad events {bad:?} of {}: {what}", shown(&events)));
    let verdict = match &answer {
        Some(Ok(())) => Err(Violation::new("W3", format!("a request with bad events {bad:?} is taken"))),
        Some(Err(EngineError::Refused(violations))) => {
            let named = |at: &&usize| violations.iter().any(|found| found.field.starts_with(&format!("events[{at}]")));
            match bad.iter().find(|at| !named(at)) {
                Some(at) => Err(Violation::new("W3", format!("event {at} is bad and not named: {what}"))),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    };
    world.check(name, verdict);
}

fn spoil(dice: &Dice, input: &mut EventInput) {
    match dice.below(10) {
        0 => input.series.clear(),
        1 => input.id.clear(),
        2 => input.time = None,
        3 => input.time = Some(TimeInput::Unrepresentable),
        4 => input.time = Some(TimeInput::Nanos(dice.pick(&[i64::MIN, 0, i64::MAX, 600_000_000_000_000_000]))),
        5 => input.items.clear(),
        6 => input.items.push(input.items[0].clone()),
        7 => input.id = "x".repeat(33),
        8 => input.items[0].value = Bytes::from(vec![b'x'; 901]),
        _ => input.items[0].key = "a\0b".to_owned(),
    }
}
