//! Chance that can be repeated: the same seed gives the same choices.

use std::time::Duration;

/// A source of choices.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The chance of one step, which does not depend on the steps before it.
    pub fn of_step(seed: u64, step: usize) -> Self {
        let mut chance = Self(seed ^ ((step as u64 + 1) << 48));
        chance.next();
        chance
    }

    /// The next number of the splitmix generator.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    /// Yes once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// So many microseconds at most.
    pub fn micros(&mut self, limit: usize) -> Duration {
        Duration::from_micros(self.below(limit) as u64)
    }
}
