//! Keeps servers running: starts them, ends them at odd times, starts them again; and crashes the store below them.

use std::sync::Arc;

use anabranch_engine::EngineError;
use anabranch_model::NamespaceName;
use anabranch_store::{MetaKey, Store};
use tokio::sync::Notify;

use crate::{dice::Dice, oracle::Violation, world::World};

/// Keeps one server up, most of the time.
pub(crate) async fn supervise(world: Arc<World>, index: usize, dice: Dice) {
    let name = format!("server {index}");
    loop {
        let crashed = Arc::new(Notify::new());
        let Some(server) = world.start_server(index, &dice, crashed.clone()).await else {
            world.env.sleep(dice.millis(100, 2000)).await;
            continue;
        };
        let most = world.sky.weather().server_life.as_millis() as u64;
        let life = dice.millis(most / 4, most);
        if world.env.timeout(life, crashed.notified()).await.is_err() {
            if dice.percent(40) {
                let ended = server.call(|engine| async move { engine.shutdown().await }).await;
                world.trace.log(&name, format_args!("shuts down: {:?}", ended.map(|ended| ended.is_ok())));
            } else {
                world.trace.log(&name, format_args!("is killed"));
            }
        }
        world.stop_server(index);
        world.env.sleep(dice.millis(10, 8000)).await;
    }
}

/// Lets detections that nobody has acknowledged come again, and stops servers for a while now and then.
pub(crate) async fn disturb(world: Arc<World>, dice: Dice) {
    loop {
        world.env.sleep(dice.millis(1000, 30_000)).await;
        world.bus.redeliver();
        let weather = world.sky.weather();
        if weather.pauses > 0
            && let Some(server) = world.any_server(&dice)
        {
            let pause = dice.millis(100, weather.longest_pause.as_millis() as u64);
            world.trace.log(&format!("server {}", server.index), format_args!("stands still for {pause:?}"));
            server.env.pause(pause);
        }
    }
}

/// Crashes the store again and again; it is down for a moment each time.
pub(crate) async fn crash_store(world: Arc<World>, dice: Dice) {
    while let Some(life) = world.sky.weather().store_life {
        let most = life.as_millis() as u64;
        world.env.sleep(dice.millis(most / 4, most)).await;
        if world.is_over() {
            return;
        }
        world.trace.log("store", format_args!("crashes"));
        world.store.crash();
        world.oracle().store_crashed();
        world.witness.store_crashed();
        world.sky.set_store_down(true);
        world.env.sleep(dice.millis(0, 3000)).await;
        world.sky.set_store_down(false);
    }
}

/// Makes the namespaces of the plan; tries until they are there.
pub(crate) async fn create_namespaces(world: &World, dice: &Dice) {
    for (name, config) in &world.plan.namespaces {
        loop {
            let Some(server) = world.any_server(dice) else {
                world.env.sleep(dice.millis(10, 500)).await;
                continue;
            };
            let (wanted, config) = (name.clone(), config.clone());
            let made = server.call(|engine| async move { engine.create_namespace(wanted, config).await }).await;
            world.trace.log("admin", format_args!("creates {name}: {}", crate::trace::words(made.as_ref())));
            let exists = matches!(made, Some(Err(EngineError::NamespaceExists { .. })));
            if exists && !is_stored(world, name).await {
                let what = format!("{name} is said to exist, and does not");
                world.check("admin", Err(Violation::new("W3", what)));
                return;
            }
            if exists || matches!(made, Some(Ok(_))) {
                break;
            }
            world.env.sleep(dice.millis(10, 1000)).await;
        }
    }
    // Until every server that serves has seen them.
    world.env.sleep(world.plan.options.refresh_interval * 3).await;
}

async fn is_stored(world: &World, name: &NamespaceName) -> bool {
    let key = MetaKey::new("namespaces", name.as_str());
    world.store.load(&key).await.is_ok_and(|document| document.is_some())
}
