//! A client that changes things: settings, block lists, backfill windows.

use std::{sync::Arc, time::Duration};

use anabranch_engine::EngineError;
use anabranch_model::{BlockedSeries, Interval, NamespaceConfig};

use crate::{
    dice::Dice,
    oracle::Violation,
    plan::{BLOCKABLE, draw_config, series_id},
    world::{Server, World},
};

/// Changes something now and then until the world is over.
pub(crate) async fn administer(world: Arc<World>, dice: Dice) {
    while !world.is_over() {
        world.env.sleep(dice.millis(500, 15_000)).await;
        let namespace = dice.below(world.plan.namespaces.len() as u64) as usize;
        let Some(server) = world.any_server(&dice).filter(|_| !world.is_over()) else { continue };
        match dice.below(9) {
            0 | 1 => change_settings(&world, &dice, &server, namespace).await,
            2 => change_block_list(&world, &dice, &server, namespace).await,
            3..=5 => open_backfill(&world, &dice, &server, namespace).await,
            6 => close_backfill(&world, &dice, &server, namespace).await,
            _ => retune(&world, &dice, &server, namespace).await,
        }
    }
}

async fn change_settings(world: &World, dice: &Dice, server: &Server, namespace: usize) {
    let drawn = draw_config(dice);
    let only_pages = dice.percent(30);
    let edit = move |config: &mut NamespaceConfig| {
        config.page_limits = drawn.page_limits;
        if !only_pages {
            let block_list = std::mem::take(&mut config.block_list);
            *config = NamespaceConfig { block_list, ..drawn.clone() };
        }
    };
    update(world, server, namespace, edit).await;
}

/// What the tuner does with a proposal: other settings for slices to come, and then for those that were made ahead of time.
async fn retune(world: &World, dice: &Dice, server: &Server, namespace: usize) {
    let drawn = draw_config(dice);
    let edit = move |config: &mut NamespaceConfig| {
        config.seconds_per_slice = drawn.seconds_per_slice;
        config.seconds_per_bucket = drawn.seconds_per_bucket;
        config.event_buckets = drawn.event_buckets;
    };
    update(world, server, namespace, edit).await;
    world.env.sleep(dice.millis(0, 6000)).await;
    let Some(server) = world.any_server(dice) else { return };
    let name = world.namespace(namespace).clone();
    let replaced = server.call(|engine| async move { engine.replace_slices_ahead(&name).await }).await;
    let name = world.namespace(namespace);
    world.trace.log("admin", format_args!("retunes {name}: {}", crate::trace::words(replaced.as_ref())));
}

async fn change_block_list(world: &World, dice: &Dice, server: &Server, namespace: usize) {
    let now = world.env.now();
    let blocked = BlockedSeries {
        series: series_id(BLOCKABLE),
        writes: true,
        reads: dice.percent(50),
        reason: "simulated".to_owned(),
        since: now,
        expires: dice.percent(50).then(|| now.saturating_add(dice.millis(1000, 20_000))),
    };
    let lift = dice.percent(40);
    let edit = move |config: &mut NamespaceConfig| {
        config.block_list.clear();
        if !lift {
            config.block_list.push(blocked.clone());
        }
    };
    update(world, server, namespace, edit).await;
}

async fn update(
    world: &World,
    server: &Server,
    namespace: usize,
    edit: impl Fn(&mut NamespaceConfig) + Send + Sync + 'static,
) {
    let name = world.namespace(namespace).as_str().to_owned();
    // Any of the settings that were ever wanted may be what the edit begins from.
    let mut wanted = world.oracle().wanted(namespace).last().cloned().unwrap_or_default();
    edit(&mut wanted);
    world.oracle().want(namespace, wanted);
    let asked = name.clone();
    let updated = server.call(|engine| async move { engine.update_namespace(&asked, edit).await }).await;
    world.trace.log("admin", format_args!("updates {name}: {}", crate::trace::words(updated.as_ref())));
    if let Some(Err(error @ EngineError::Refused(_))) = updated {
        world.check("admin", Err(Violation::new("W3", format!("good settings are refused: {error}"))));
    }
}

async fn open_backfill(world: &World, dice: &Dice, server: &Server, namespace: usize) {
    let name = world.namespace(namespace).as_str().to_owned();
    let now = world.env.now();
    let end = now.saturating_sub(Duration::from_secs(dice.between(10, 400)));
    let interval = Interval::new(end.saturating_sub(Duration::from_secs(dice.between(1, 600))), end);
    let open_for = dice.millis(5000, 60_000);
    let asked = name.clone();
    let opened =
        server.call(|engine| async move { engine.open_backfill(&asked, interval, open_for, "simulated").await }).await;
    world.trace.log("admin", format_args!("opens {interval} of {name}: {}", crate::trace::words(opened.as_ref())));
    if let Some(Ok(window)) = &opened {
        world.oracle().opened(namespace, window.id.clone());
    }
    if matches!(opened, Some(Ok(_)) | None) {
        world.add_window(namespace, interval);
        world.witness.window_opens(now.saturating_add(open_for));
    }
}

async fn close_backfill(world: &World, dice: &Dice, server: &Server, namespace: usize) {
    let name = world.namespace(namespace).as_str().to_owned();
    let Ok(windows) = server.engine.backfills(&name) else { return };
    if windows.is_empty() {
        return;
    }
    let id = windows[dice.below(windows.len() as u64) as usize].id.clone();
    let asked = name.clone();
    let closed = server.call(|engine| async move { engine.close_backfill(&asked, &id).await }).await;
    world.trace.log("admin", format_args!("closes a window of {name}: {}", crate::trace::words(closed.as_ref())));
}
