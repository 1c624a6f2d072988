//! Rate limit per host.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use pollux_domain::sync::Locked as _;
use pollux_domain::time::Clock;

/// Upstream's numbers.
const REQUESTS: usize = 10;
const WINDOW_MS: i64 = 60_000;
/// Limit of hosts, far above normal use.
const MAX_HOSTS: usize = 1000;

/// Requests of the last minute by host.
pub(super) struct RateLimit {
    clock: Arc<dyn Clock>,
    hosts: Mutex<HashMap<String, VecDeque<i64>>>,
}

impl RateLimit {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, hosts: Mutex::default() }
    }

    /// Whether one more request is allowed; counts it if so.
    pub(super) fn admits(&self, host: &str) -> bool {
        let now = self.clock.now().millis();
        let mut hosts = self.hosts.locked();
        hosts.retain(|_, times| {
            times.retain(|time| now - time < WINDOW_MS);
            !times.is_empty()
        });
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(host) {
            return false;
        }
        let times = hosts.entry(host.to_owned()).or_default();
        if times.len() >= REQUESTS {
            return false;
        }
        times.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use pollux_domain::time::Timestamp;

    use super::*;

    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn ten_requests_a_minute_are_admitted_for_each_host() {
        let hand = Arc::new(Hand(AtomicI64::new(0)));
        let rate = RateLimit::new(Arc::clone(&hand) as Arc<dyn Clock>);
        assert!((0..10).all(|_| rate.admits("a")));
        assert!(!rate.admits("a"));
        assert!(rate.admits("b"));
        hand.0.store(WINDOW_MS - 1, Ordering::SeqCst);
        assert!(!rate.admits("a"));
        hand.0.store(WINDOW_MS, Ordering::SeqCst);
        assert!(rate.admits("a"));
    }
}
