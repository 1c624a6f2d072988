//! The time limit of an agent, which pauses while the user is asked.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pollux_domain::sync::Locked;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time that runs out.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    left: Duration,
    /// Start of the current interval; `None` while paused.
    since: Option<Instant>,
    /// How many questions are open.
    pauses: u32,
}

/// Pauses the time while it exists.
pub(crate) struct Pause(Arc<Stopwatch>);

impl Stopwatch {
    pub(crate) fn start(limit: Duration) -> Arc<Self> {
        let state = State { left: limit, since: Some(Instant::now()), pauses: 0 };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut state = self.state();
        state.pauses += 1;
        if let Some(since) = state.since.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
        drop(state);
        self.changed.notify_waiters();
        Pause(Arc::clone(self))
    }

    /// What is left; `None` while it does not run.
    fn left(&self) -> Option<Duration> {
        let state = self.state();
        state.since.map(|since| state.left.saturating_sub(since.elapsed()))
    }

    /// Ready when the time is over.
    pub(crate) async fn over(&self) {
        loop {
            let changed = self.changed.notified();
            match self.left() {
                None => changed.await,
                Some(left) if left.is_zero() => return,
                Some(left) => tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = changed => {}
                },
            }
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pauses = state.pauses.saturating_sub(1);
        if state.pauses == 0 {
            state.since = Some(Instant::now());
        }
        drop(state);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_somebody_is_asked() {
        let watch = Stopwatch::start(Duration::from_secs(10));
        let began = Instant::now();
        let asking = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let (one, other) = (watch.pause(), watch.pause());
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(one);
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(other);
        };
        tokio::join!(asking, watch.over());
        let lasted = began.elapsed();
        assert!(lasted >= Duration::from_secs(210) && lasted < Duration::from_secs(211), "{lasted:?}");
    }
}
