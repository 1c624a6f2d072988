//! The event queue of one front end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::sync::Locked as _;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::fold::Snapshot;
use super::log::Numbered;

/// An item delivered to a front end.
#[derive(Debug, Clone)]
pub enum Delivery {
    Event(Numbered),
    /// A snapshot for a late subscriber; events follow from there.
    Snapshot(Arc<Snapshot>),
    /// The front end did not keep up and lost these events. [`super::Front::subscribe`] gives a snapshot.
    Lagged {
        from: u64,
        to: u64,
    },
}

/// What happens when a front end does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overrun {
    /// Drop events.
    Loses,
    /// Make the session wait, since there is no other reader.
    Waits,
}

/// A subscription to events; dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    pub(super) queue: Arc<Queue>,
}

impl Subscription {
    /// The next delivery; `None` after the session's end or after a disconnect.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            let news = self.queue.news.notified();
            {
                let mut waiting = self.queue.waiting.locked();
                if let Some(delivery) = waiting.take() {
                    drop(waiting);
                    self.queue.room.notify_one();
                    return Some(delivery);
                }
                if waiting.closed {
                    return None;
                }
            }
            news.await;
        }
    }

    /// The next delivery if one is ready.
    pub fn try_next(&mut self) -> Option<Delivery> {
        let delivery = self.queue.waiting.locked().take();
        if delivery.is_some() {
            self.queue.room.notify_one();
        }
        delivery
    }

    /// Whether it was disconnected for being idle.
    pub fn was_cut_off(&self) -> bool {
        self.queue.waiting.locked().cut_off
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.waiting.locked().closed = true;
        self.queue.room.notify_one();
    }
}

/// The queue between a session and one front end.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
    pub(super) room: Notify,
    pub(super) overrun: Overrun,
}

/// Queue limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) events: usize,
    pub(super) bytes: usize,
    /// How long a front end that lost events may stay idle before it is disconnected.
    pub(super) patience: Duration,
}

#[derive(Debug)]
struct Waiting {
    bounds: Bounds,
    events: VecDeque<Delivery>,
    weight: usize,
    /// Time of the last read.
    progress: Instant,
    closed: bool,
    cut_off: bool,
}

impl Queue {
    pub(super) fn new(bounds: Bounds, overrun: Overrun, first: Vec<Delivery>) -> Self {
        let waiting = Waiting {
            bounds,
            weight: first.iter().map(cost).sum(),
            events: first.into(),
            progress: Instant::now(),
            closed: false,
            cut_off: false,
        };
        Self { waiting: Mutex::new(waiting), news: Notify::new(), room: Notify::new(), overrun }
    }

    /// Adds an event, dropping others if needed; false if the reader is gone.
    pub(super) fn push(&self, event: &Numbered) -> bool {
        let mut waiting = self.waiting.locked();
        if waiting.closed {
            return false;
        }
        waiting.push(event, self.overrun);
        let open = !waiting.closed;
        drop(waiting);
        self.news.notify_one();
        open
    }

    /// Whether the session has to wait for the reader.
    pub(super) fn is_full(&self) -> bool {
        let waiting = self.waiting.locked();
        self.overrun == Overrun::Waits && !waiting.closed && waiting.is_over()
    }

    /// Closes the queue; remaining events can still be read.
    pub(super) fn close(&self) {
        self.waiting.locked().closed = true;
        self.news.notify_one();
    }
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.events.len() > self.bounds.events || self.weight > self.bounds.bytes
    }

    fn push(&mut self, event: &Numbered, overrun: Overrun) {
        if let Some(Delivery::Lagged { to, .. }) = self.events.back_mut() {
            *to = event.seq;
            if self.progress.elapsed() >= self.bounds.patience {
                (self.closed, self.cut_off) = (true, true);
                self.events.clear();
            }
            return;
        }
        if self.events.is_empty() {
            self.progress = Instant::now();
        }
        self.weight += event.weight;
        self.events.push_back(Delivery::Event(event.clone()));
        if overrun == Overrun::Loses && self.is_over() {
            self.join();
            if self.is_over() {
                self.lose();
            }
        }
    }

    /// Joins adjacent pieces of the same stream.
    fn join(&mut self) {
        let mut joined: VecDeque<Delivery> = VecDeque::with_capacity(self.events.len());
        for next in self.events.drain(..) {
            let both = match (joined.back(), &next) {
                (Some(Delivery::Event(last)), Delivery::Event(next)) => last.joined(next),
                _ => None,
            };
            match (both, joined.back_mut()) {
                (Some(both), Some(last)) => *last = Delivery::Event(both),
                _ => joined.push_back(next),
            }
        }
        self.weight = joined.iter().map(cost).sum();
        self.events = joined;
    }

    /// Drops all unread events.
    fn lose(&mut self) {
        let numbers = self.events.iter().map(|delivery| match delivery {
            Delivery::Event(event) => (event.first, event.seq),
            Delivery::Snapshot(snapshot) => (snapshot.seq, snapshot.seq),
            Delivery::Lagged { from, to } => (*from, *to),
        });
        let (from, to) =
            numbers.fold((u64::MAX, 0), |(from, to), (first, last)| (from.min(first), to.max(last)));
        self.events = VecDeque::from([Delivery::Lagged { from, to }]);
        self.weight = 0;
    }

    fn take(&mut self) -> Option<Delivery> {
        let delivery = self.events.pop_front()?;
        self.weight = self.weight.saturating_sub(cost(&delivery));
        self.progress = Instant::now();
        Some(delivery)
    }
}

fn cost(delivery: &Delivery) -> usize {
    match delivery {
        Delivery::Event(event) => event.weight,
        // Its content is shared with the conversation.
        Delivery::Snapshot(_) | Delivery::Lagged { .. } => 0,
    }
}
