//! How often one request is tried, and how long to wait in between.

use std::time::Duration;

use pollux_net::backoff::{Backoff, Schedule};

use super::{Failure, Retry};

/// How a server that loads its model is asked again.
pub(crate) const LOADING_PACE: Duration = Duration::from_secs(1);
pub(crate) const LOADING_LIMIT: Duration = Duration::from_secs(120);

/// How often a server is asked that refuses connections or whose name is unknown: for about five seconds.
pub(super) const ABSENT_ATTEMPTS: u32 = 3;

/// Said once when a server loads its model.
pub(crate) fn loading_notice() -> String {
    format!("The server is loading the model; waiting up to {} s.", LOADING_LIMIT.as_secs())
}

/// The attempts of one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    schedule: Schedule,
    /// The attempt under way, from 1.
    pub(super) number: u32,
    pub(super) max: u32,
    /// How long was waited for a model to be loaded.
    polled: Duration,
    scale: f64,
    random: fn() -> f64,
}

impl Attempts {
    pub(super) fn new(backoff: Backoff, random: fn() -> f64, max: u32) -> Self {
        let schedule = Schedule::new(backoff);
        Self { schedule, number: 1, max, polled: Duration::ZERO, scale: backoff.scale.max(0.0), random }
    }

    /// Whether the server was just found to load its model.
    pub(super) fn begins_to_load(&self, failure: &Failure) -> bool {
        failure.retry == Retry::WhileLoading && self.polled == LOADING_PACE
    }

    /// How long to wait before the next attempt, if there is one.
    pub(super) fn pause(&mut self, failure: &Failure) -> Option<Duration> {
        let (cause, hint, max) = match failure.retry {
            Retry::Never => return None,
            Retry::WhileLoading => {
                if self.polled >= LOADING_LIMIT {
                    return None;
                }
                self.polled += LOADING_PACE;
                return Some(LOADING_PACE.mul_f64(self.scale));
            }
            Retry::After { cause, hint } => (cause, hint, self.max),
            Retry::AtMost { cause, attempts } => {
                self.max = self.max.min(attempts);
                (cause, None, self.max)
            }
        };
        if self.number >= max {
            return None;
        }
        let delay = self.schedule.next(cause, hint, (self.random)()).ok()?;
        self.number += 1;
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::ModelErrorKind;
    use pollux_net::backoff::Cause;

    fn pauses(retry: Retry) -> (usize, u32) {
        let failure = Failure { retry, ..Failure::passing(ModelErrorKind::Server, "x") };
        let mut attempts = Attempts::new(Backoff::default(), || 0.0, 4);
        let count = std::iter::from_fn(|| attempts.pause(&failure)).take(1000).count();
        (count, attempts.number)
    }

    #[test]
    fn every_kind_of_retry_has_its_limit() {
        let cause = Cause::Transient;
        assert_eq!(pauses(Retry::Never), (0, 1));
        assert_eq!(pauses(Retry::After { cause, hint: None }), (3, 4));
        assert_eq!(pauses(Retry::AtMost { cause, attempts: 2 }), (1, 2));
        assert_eq!(pauses(Retry::WhileLoading), (120, 1), "loading does not count as a failed attempt");
    }
}
