//! The background task that keeps the index up to date during a session.

mod deltas;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::sync::Locked as _;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::index::sync::{Scope, blocking};
use crate::memory::Memory;
use deltas::Deltas;
use watch::Watch;

/// Capacity of the queue; further triggers are covered by those already queued.
const INBOX: usize = 64;
/// Debounce time for transcript growth.
const GATHER: Duration = Duration::from_secs(5);
/// Waiting time for another process in the background: none.
const WAIT: Duration = Duration::ZERO;
/// Waiting time at the end of a session.
const LAST_WAIT: Duration = Duration::from_secs(2);
const LEAST_WATCH: Duration = Duration::from_millis(500);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    SessionStarted,
    Searched,
    /// Lines were added to a transcript.
    TranscriptGrew(PathBuf),
    SessionEnded,
}

/// The handle of the task.
pub struct Indexer {
    inbox: mpsc::Sender<Trigger>,
    cancel: CancellationToken,
    tracker: TaskTracker,
    problem: Arc<Mutex<Option<String>>>,
}

impl Indexer {
    /// Starts the task; it ends with [`Indexer::stop`] or the token.
    pub fn start(memory: Memory, cancel: &CancellationToken) -> Self {
        let (inbox, triggers) = mpsc::channel(INBOX);
        let (cancel, tracker) = (cancel.child_token(), TaskTracker::new());
        let problem = Arc::new(Mutex::new(None));
        let task =
            Task { memory, problem: problem.clone(), deltas: Deltas::default(), grown: BTreeSet::new() };
        tracker.spawn(task.run(triggers, cancel.clone()));
        tracker.close();
        Self { inbox, cancel, tracker, problem }
    }

    /// Never blocks: if the queue is full, the queued triggers cover this one.
    pub fn notify(&self, trigger: Trigger) {
        let _ = self.inbox.try_send(trigger);
    }

    /// Why the last sync failed.
    pub fn problem(&self) -> Option<String> {
        self.problem.locked().clone()
    }

    /// Indexes the rest and ends.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.tracker.wait().await;
    }
}

struct Task {
    memory: Memory,
    problem: Arc<Mutex<Option<String>>>,
    deltas: Deltas,
    /// Transcripts that grew since they were last looked at.
    grown: BTreeSet<PathBuf>,
}

impl Task {
    async fn run(mut self, mut triggers: mpsc::Receiver<Trigger>, cancel: CancellationToken) {
        let settings = self.memory.setup().settings.sync;
        let mut watch = settings.watch.then(|| Watch::new(self.memory.setup().places()));
        let mut look = every(settings.watch_debounce.max(LEAST_WATCH));
        let mut by_time = settings.interval.map(every);
        let mut gathered: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                trigger = triggers.recv() => match trigger {
                    None => break,
                    Some(trigger) => self.on(trigger, &mut gathered).await,
                },
                () = sleep_until(gathered.unwrap_or_else(Instant::now)), if gathered.is_some() => {
                    gathered = None;
                    self.on_growth().await;
                }
                _ = look.tick(), if watch.is_some() => {
                    watch = self.on_look(watch.take()).await;
                }
                _ = tick(&mut by_time) => self.sync(Scope::All, WAIT).await,
            }
        }
        // Triggers sent before the stop are still handled.
        let (mut notes, mut ended) = (false, false);
        while let Ok(trigger) = triggers.try_recv() {
            match trigger {
                Trigger::SessionStarted => notes |= settings.on_session_start,
                Trigger::Searched => notes |= settings.on_search,
                Trigger::TranscriptGrew(path) => {
                    if self.memory.owns(&path) {
                        self.grown.insert(path);
                    }
                }
                Trigger::SessionEnded => ended = true,
            }
        }
        let sessions = ended || !self.grown.is_empty() || self.deltas.is_pending();
        match (notes, sessions) {
            (true, true) => self.sync(Scope::All, LAST_WAIT).await,
            (true, false) => self.sync(Scope::Notes, LAST_WAIT).await,
            (false, true) => self.sync(Scope::Sessions, LAST_WAIT).await,
            (false, false) => {}
        }
        self.memory.close().await;
    }

    async fn on(&mut self, trigger: Trigger, gathered: &mut Option<Instant>) {
        let settings = self.memory.setup().settings.sync;
        match trigger {
            Trigger::SessionStarted if settings.on_session_start => self.sync(Scope::Notes, WAIT).await,
            Trigger::Searched if settings.on_search => self.sync(Scope::All, WAIT).await,
            Trigger::SessionStarted | Trigger::Searched => {}
            Trigger::TranscriptGrew(path) => {
                if self.memory.owns(&path) {
                    self.grown.insert(path);
                    gathered.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            Trigger::SessionEnded => {
                self.grown.clear();
                self.sync(Scope::Sessions, WAIT).await;
            }
        }
    }

    /// Checks how much the transcripts grew, and syncs if it is enough.
    async fn on_growth(&mut self) {
        let settings = self.memory.setup().settings.sync;
        let (grown, mut deltas) = (std::mem::take(&mut self.grown), std::mem::take(&mut self.deltas));
        let looked = blocking(move || {
            let mut enough = false;
            for path in grown {
                enough |= deltas.observe(&path, settings.delta_bytes, settings.delta_messages);
            }
            Ok((deltas, enough))
        })
        .await;
        let Ok((deltas, enough)) = looked else { return };
        self.deltas = deltas;
        if enough {
            self.sync(Scope::Sessions, WAIT).await;
            self.deltas.reset();
        }
    }

    async fn on_look(&mut self, watch: Option<Watch>) -> Option<Watch> {
        let mut watch = watch?;
        let looked = blocking(move || {
            let changed = watch.look();
            Ok((watch, changed))
        })
        .await;
        let (watch, changed) = looked.ok()?;
        if changed {
            self.sync(Scope::Notes, WAIT).await;
        }
        Some(watch)
    }

    async fn sync(&self, scope: Scope, wait: Duration) {
        let result = self.memory.sync(scope, wait, &|_| {}).await;
        let problem = match result {
            Ok(synced) => synced.warnings.into_iter().next_back(),
            Err(error) => Some(error.to_string()),
        };
        *self.problem.locked() = problem;
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}
