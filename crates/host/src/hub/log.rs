//! The most recent events of a session, by number.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::event::{Event, Thought};

use super::weight::weight;

/// An event with its number. Joined events have the numbers `first` to `seq`.
#[derive(Debug, Clone)]
pub struct Numbered {
    pub first: u64,
    pub seq: u64,
    pub event: Arc<Event>,
    pub(super) weight: usize,
}

impl Numbered {
    pub(super) fn new(seq: u64, event: Event) -> Self {
        let weight = weight(&event);
        Self { first: seq, seq, event: Arc::new(event), weight }
    }

    /// Joins two adjacent events if both are pieces of the same stream.
    pub(super) fn joined(&self, next: &Self) -> Option<Self> {
        let event = match (&*self.event, &*next.event) {
            (Event::Text(one), Event::Text(two)) => Event::Text([one.as_str(), two].concat()),
            (Event::Thought(one), Event::Thought(two)) => Event::Thought(one_thought(one, two)),
            (Event::CallOutput { call, text: one }, Event::CallOutput { call: same, text: two })
                if call == same =>
            {
                Event::CallOutput { call: call.clone(), text: [one.as_str(), two].concat() }
            }
            (Event::CallScreen { call, .. }, Event::CallScreen { call: same, .. }) if call == same => {
                return Some(Self { first: self.first, ..next.clone() });
            }
            _ => return None,
        };
        let weight = weight(&event);
        Some(Self { first: self.first, seq: next.seq, event: Arc::new(event), weight })
    }
}

/// Joins two thoughts under the later heading.
fn one_thought(one: &Thought, two: &Thought) -> Thought {
    let earlier = match (one.subject.as_str(), one.description.as_str()) {
        (subject, description) if subject == two.subject || subject.is_empty() => description.to_owned(),
        (subject, "") => subject.to_owned(),
        (subject, description) => format!("{subject}: {description}"),
    };
    let texts: Vec<&str> =
        [earlier.as_str(), &two.description].into_iter().filter(|text| !text.is_empty()).collect();
    Thought { subject: two.subject.clone(), description: texts.join("\n") }
}

/// A bounded log that drops its oldest events by count and size.
#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Numbered>,
    weight: usize,
    /// The number of the last event, 0 before the first.
    last: u64,
    most_events: usize,
    most_bytes: usize,
}

impl Log {
    pub(super) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self { events: VecDeque::new(), weight: 0, last: 0, most_events, most_bytes }
    }

    /// Numbers and stores an event.
    pub(super) fn push(&mut self, event: Event) -> Numbered {
        self.last += 1;
        let numbered = Numbered::new(self.last, event);
        self.weight += numbered.weight;
        match self.events.back_mut() {
            // A screen replaces the one before it: a program that draws much must not push out everything else.
            Some(last) if matches!(&*last.event, Event::CallScreen { .. }) => match last.joined(&numbered) {
                Some(joined) => {
                    self.weight -= last.weight;
                    *last = joined;
                }
                None => self.events.push_back(numbered.clone()),
            },
            _ => self.events.push_back(numbered.clone()),
        }
        while self.events.len() > self.most_events || self.weight > self.most_bytes {
            let Some(oldest) = self.events.pop_front() else { break };
            self.weight -= oldest.weight;
        }
        numbered
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// All events after this number; `None` if some were dropped.
    pub(super) fn after(&self, seq: u64) -> Option<Vec<Numbered>> {
        let oldest = self.events.front().map_or(self.last + 1, |event| event.seq);
        if seq > self.last || seq + 1 < oldest {
            return None;
        }
        Some(self.events.iter().filter(|event| event.seq > seq).cloned().collect())
    }
}
