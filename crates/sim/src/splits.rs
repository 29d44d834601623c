//! A client that steers splits: read modes, requests, retries, abandonments, rechecks.

use std::sync::Arc;

use anabranch_engine::{EngineError, ErrorKind, SplitSelection};
use anabranch_model::ReadMode;

use crate::{
    dice::Dice,
    oracle::Violation,
    plan::draw_series,
    world::{Server, World},
};

/// Steers until the world is over.
pub(crate) async fn steer(world: Arc<World>, dice: Dice) {
    while !world.is_over() {
        world.env.sleep(dice.millis(200, 12_000)).await;
        let namespace = dice.below(world.plan.namespaces.len() as u64) as usize;
        let Some(server) = world.any_server(&dice).filter(|_| !world.is_over()) else { continue };
        let name = world.namespace(namespace).as_str().to_owned();
        match dice.below(16) {
            0..=5 => change_mode(&world, &server, name, draw_mode(&dice)).await,
            6..=9 => request(&world, &dice, &server, name, namespace).await,
            10..=11 => {
                let which = draw_selection(&dice);
                let done =
                    server.call(|engine| async move { engine.retry_splits(&name, &which).await.map(drop) }).await;
                conclude(&world, "retries splits", done);
            }
            12 => {
                let which = draw_selection(&dice);
                let done = server
                    .call(|engine| async move { engine.abandon_splits(&name, &which, "simulated").await.map(drop) })
                    .await;
                conclude(&world, "abandons splits", done);
            }
            _ => {
                let which = draw_selection(&dice);
                let done =
                    server.call(|engine| async move { engine.verify_splits(&name, &which).await.map(drop) }).await;
                conclude(&world, "verifies splits", done);
            }
        }
    }
}

fn draw_mode(dice: &Dice) -> ReadMode {
    use ReadMode::{Comparison, Exec, Off, On, Shadow};
    dice.pick(&[Off, Shadow, Comparison, Exec, Exec, Exec, On, On, On])
}

fn draw_selection(dice: &Dice) -> SplitSelection {
    let series = dice.percent(70).then(|| draw_series(dice).as_str().to_owned());
    SplitSelection { time_series_id: series, ..SplitSelection::default() }
}

pub(crate) async fn change_mode(world: &World, server: &Server, name: String, mode: ReadMode) {
    let changed = server
        .call(|engine| async move { engine.set_read_mode(&name, mode, "admin", "simulated").await.map(drop) })
        .await;
    conclude(world, &format!("sets the mode to {mode}"), changed);
}

async fn request(world: &World, dice: &Dice, server: &Server, name: String, namespace: usize) {
    let record = server.engine.namespace(world.namespace(namespace).as_str());
    let slices: Vec<String> =
        record.iter().flat_map(|record| record.slices.iter()).map(anabranch_model::Slice::name).collect();
    let mut which =
        SplitSelection { time_series_id: Some(draw_series(dice).into_string()), ..SplitSelection::default() };
    if !slices.is_empty() && dice.percent(50) {
        which.time_slice = Some(slices[dice.below(slices.len() as u64) as usize].clone());
        if dice.percent(50) {
            which.time_series_id = None;
        }
    }
    let done = server.call(|engine| async move { engine.request_splits(&name, &which).await.map(drop) }).await;
    conclude(world, "requests splits", done);
}

/// Operators may be told to try again, never that something is damaged.
fn conclude(world: &World, what: &str, done: Option<Result<(), EngineError>>) {
    world.trace.log("operator", format_args!("{what}: {}", crate::trace::words(done.as_ref())));
    if let Some(Err(error)) = done
        && error.kind() == ErrorKind::DataLoss
    {
        world.check("operator", Err(Violation::new("S5", format!("{what}: {error}"))));
    }
}
