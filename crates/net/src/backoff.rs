//! The retry schedule. Pure: no clock, no sleep, randomness is passed in.

mod hint;

use std::time::Duration;

pub use hint::{please_retry_in, retry_after, retry_delay};

/// The constants of the schedule; all but `quick` and `shortest` equal upstream's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Longest delay of the first retry after a network or server failure; it takes half to all of it.
    pub quick: Duration,
    /// First delay of the curve, which then doubles.
    pub start: Duration,
    /// Where the curve ends.
    pub cap: Duration,
    /// Minimum delay, even if the server asks for zero.
    pub shortest: Duration,
    /// Maximum delay that is accepted from a server.
    pub longest: Duration,
    /// All resulting delays are multiplied by this; tests make it tiny.
    pub scale: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            quick: Duration::from_secs(1),
            start: Duration::from_secs(5),
            cap: Duration::from_secs(30),
            shortest: Duration::from_millis(500),
            longest: Duration::from_secs(300),
            scale: 1.0,
        }
    }
}

/// What made the attempt fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The network or the server; often gone a moment later.
    Transient,
    /// Rate limited.
    Throttled,
}

/// The server asked for a delay above the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server asks to wait {} s", .0.as_secs())]
pub struct TooLong(pub Duration);

/// The delays of one request.
#[derive(Debug, Clone)]
pub struct Schedule {
    backoff: Backoff,
    quick_used: bool,
    /// The next point of the curve.
    curve: Duration,
}

impl Schedule {
    /// Starts at the beginning.
    pub fn new(backoff: Backoff) -> Self {
        Self { backoff, quick_used: false, curve: backoff.start }
    }

    /// The pause before the next attempt. `hint` is what the server asked for, `random` lies in 0..1.
    pub fn next(&mut self, cause: Cause, hint: Option<Duration>, random: f64) -> Result<Duration, TooLong> {
        let random = random.clamp(0.0, 1.0);
        let delay = match hint {
            Some(asked) if asked > self.backoff.longest => return Err(TooLong(asked)),
            Some(asked) => asked.max(self.backoff.shortest).mul_f64(1.0 + 0.2 * random),
            None if cause == Cause::Transient && !self.quick_used => {
                self.quick_used = true;
                self.backoff.quick.mul_f64(0.5 + 0.5 * random)
            }
            None => {
                let point = self.curve;
                self.curve = point.saturating_mul(2).min(self.backoff.cap);
                point.mul_f64(0.7 + 0.6 * random)
            }
        };
        Ok(delay.mul_f64(self.backoff.scale.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(schedule: &mut Schedule, cause: Cause, hint: Option<u64>, random: f64) -> u64 {
        let delay = schedule.next(cause, hint.map(Duration::from_millis), random).unwrap();
        u64::try_from(delay.as_millis()).unwrap()
    }

    #[test]
    fn a_server_failure_is_retried_soon_and_then_on_the_curve() {
        let mut schedule = Schedule::new(Backoff::default());
        let delays: Vec<u64> = (0..6).map(|_| millis(&mut schedule, Cause::Transient, None, 0.5)).collect();
        assert_eq!(delays, [750, 5_000, 10_000, 20_000, 30_000, 30_000]);
    }

    #[test]
    fn throttling_starts_on_the_curve_with_thirty_percent_of_jitter() {
        for (random, expected) in [(0.0, 3_500), (0.5, 5_000), (1.0, 6_500)] {
            let mut schedule = Schedule::new(Backoff::default());
            assert_eq!(millis(&mut schedule, Cause::Throttled, None, random), expected);
        }
    }

    #[test]
    fn a_servers_wish_is_the_delay_itself_and_does_not_use_up_the_curve() {
        let mut schedule = Schedule::new(Backoff::default());
        assert_eq!(millis(&mut schedule, Cause::Throttled, Some(1_000), 0.0), 1_000);
        assert_eq!(millis(&mut schedule, Cause::Throttled, Some(1_000), 1.0), 1_200);
        assert_eq!(millis(&mut schedule, Cause::Transient, Some(0), 0.0), 500);
        assert_eq!(millis(&mut schedule, Cause::Throttled, None, 0.5), 5_000);
        assert_eq!(
            schedule.next(Cause::Throttled, Some(Duration::from_secs(301)), 0.0),
            Err(TooLong(Duration::from_secs(301)))
        );
    }

    #[test]
    fn the_scale_shrinks_every_delay() {
        let mut schedule = Schedule::new(Backoff { scale: 0.001, ..Backoff::default() });
        assert_eq!(millis(&mut schedule, Cause::Throttled, None, 0.5), 5);
        assert_eq!(millis(&mut schedule, Cause::Throttled, Some(2_000), 0.0), 2);
    }
}
