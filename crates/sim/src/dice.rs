//! Chance for one actor: a stream of random numbers of its own, so that actors don't disturb each other's.

use std::time::Duration;

use anabranch_runtime::Env;

/// Draws for one actor; clones go on with the same stream.
#[derive(Clone)]
pub(crate) struct Dice(Env);

impl Dice {
    /// A new stream, drawn from the world's.
    pub(crate) fn new(world: &Env) -> Self {
        Dice(world.node(0))
    }

    /// A number below `limit`, which must not be 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.0.random_below(limit)
    }

    /// A number between both bounds, which are included.
    pub(crate) fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Yes, with so many chances in a hundred thousand.
    pub(crate) fn chance(&self, of_100_000: u64) -> bool {
        of_100_000 > 0 && self.below(100_000) < of_100_000
    }

    /// Yes, with so many chances in a hundred.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.chance(percent * 1000)
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A time between both bounds, in whole milliseconds.
    pub(crate) fn millis(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }
}
