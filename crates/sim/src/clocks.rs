//! Clocks that go wrong, further than they may, and are put right after a while. A server can notice it only by others that agree
//! with each other or at least differ from it, so a clock goes wrong only while another server is up, and never like another one:
//! two that are wrong alike outvote the one that is right, and nobody could tell.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_runtime::Env;

use crate::{
    dice::Dice,
    plan::MAX_CLOCK_SKEW,
    world::{Server, World},
};

/// How often somebody looks whether a wrong clock can still be noticed.
const LOOK: Duration = Duration::from_millis(250);

/// Which servers have wrong clocks, and until when they had.
pub(crate) struct Clocks(Vec<Mutex<Clock>>);

#[derive(Clone, Copy, Default)]
struct Clock {
    /// By how many nanoseconds it is off, where that is more than it may be.
    wrong: Option<i64>,
    put_right: Duration,
}

impl Clocks {
    pub(crate) fn new(servers: usize) -> Self {
        Clocks((0..servers).map(|_| Mutex::default()).collect())
    }

    fn of(&self, index: usize) -> MutexGuard<'_, Clock> {
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wrong(&self, index: usize) -> bool {
        self.of(index).wrong.is_some()
    }

    /// Whether a clock that is off by so much could be taken to agree with one that is wrong too.
    fn is_alike(&self, index: usize, wrong: i64) -> bool {
        let alike = |other: i64| other.abs_diff(wrong) <= 2 * MAX_CLOCK_SKEW.as_nanos() as u64;
        (0..self.0.len()).any(|other| other != index && self.of(other).wrong.is_some_and(alike))
    }

    /// Whether a server's clock was wrong at any time since this moment.
    pub(crate) fn was_wrong_since(&self, index: usize, moment: Duration) -> bool {
        let clock = *self.of(index);
        clock.wrong.is_some() || (clock.put_right >= moment && !clock.put_right.is_zero())
    }

    fn put_wrong(&self, index: usize, wrong: i64) {
        self.of(index).wrong = Some(wrong);
    }

    pub(crate) fn put_right(&self, index: usize, now: Duration) {
        let mut clock = self.of(index);
        if clock.wrong.take().is_some() {
            clock.put_right = now;
        }
    }
}

/// Whether there is a server with a good clock that can be heard.
fn is_noticeable(world: &World, index: usize) -> bool {
    let (now, servers) = (world.env.monotonic(), world.plan.servers);
    let others = (0..servers).filter(|other| *other != index && !world.clocks.is_wrong(*other));
    let heard = |server: Server| !server.env.was_paused_since(now) && !server.engine.is_stopping();
    others.filter_map(|other| world.server(other)).any(heard)
}

/// Sets clocks of servers that run.
pub(crate) async fn set_clocks(world: Arc<World>, dice: Dice) {
    loop {
        world.env.sleep(dice.millis(3000, 40_000)).await;
        if !world.sky.weather().clocks {
            continue;
        }
        if let Some(server) = world.any_server(&dice).filter(|server| !world.clocks.is_wrong(server.index)) {
            let skew = server.env.now().nanos() - world.env.now().nanos();
            spoil(&world, server.index, &server.env, skew, &dice);
        }
    }
}

/// Puts a clock wrong for a while, if that can be noticed.
pub(crate) fn spoil(world: &Arc<World>, index: usize, server: &Env, good_skew: i64, dice: &Dice) {
    if !is_noticeable(world, index) {
        return;
    }
    let most = MAX_CLOCK_SKEW.as_millis() as u64;
    let wrong = dice.pick(&[most + 300, 3 * most, 30_000, 400_000, 4_000_000]);
    let wrong = (wrong + dice.below(most)) as i64 * if dice.percent(50) { 1_000_000 } else { -1_000_000 };
    if world.clocks.is_alike(index, good_skew + wrong) {
        return;
    }
    server.set_skew(good_skew + wrong);
    world.clocks.put_wrong(index, good_skew + wrong);
    world.tally.count(|reached| reached.wrong_clocks += 1);
    world.trace.log(&format!("server {index}"), format_args!("its clock is off by {} ms", wrong / 1_000_000));
    let (world, server, lasts) = (world.clone(), server.clone(), dice.millis(500, 15_000));
    let env = world.env.clone();
    env.spawn(async move {
        let end = world.env.monotonic() + lasts;
        while world.env.monotonic() < end && !server.is_killed() && is_noticeable(&world, index) {
            world.env.sleep(LOOK).await;
        }
        server.set_skew(good_skew);
        if !server.is_killed() {
            world.clocks.put_right(index, world.env.monotonic());
            world.trace.log(&format!("server {index}"), format_args!("its clock is right again"));
        }
    });
}
