//! What the user says to a running turn: kept until its next request, which takes it along.
//!
//! A turn that would end goes on while something is kept. What no request took is refused when the turn has ended, so
//! that the front end can send it as a prompt. `turn/steered.rs` adds it to the conversation.

use std::sync::Mutex;

use pollux_domain::content::Part;
use pollux_domain::event::{FrontId, OpResult, RefusalCode, RequestId};
use pollux_domain::sync::Locked;

/// Messages that may wait for one request.
const MAX_WAITING: usize = 16;

/// Something said to a running turn.
#[derive(Debug)]
pub(crate) struct Steer {
    pub(crate) id: RequestId,
    pub(crate) by: FrontId,
    pub(crate) parts: Vec<Part>,
    pub(crate) typed: String,
}

/// What waits for the next request.
#[derive(Debug, Default)]
pub(crate) struct Steering(Mutex<Vec<Steer>>);

impl Steering {
    /// Keeps it for the next request; a refusal if too much waits.
    pub(crate) fn add(&self, steer: Steer) -> Option<OpResult> {
        let mut waiting = self.0.locked();
        if waiting.len() >= MAX_WAITING {
            return Some(OpResult::refused(RefusalCode::QueueFull, "too many queued prompts"));
        }
        waiting.push(steer);
        None
    }

    /// Takes back what this front end said: another one may use the same ids.
    pub(crate) fn withdraw(&self, id: &RequestId, by: &FrontId) -> Option<Steer> {
        let mut waiting = self.0.locked();
        let place = waiting.iter().position(|steer| steer.id == *id && steer.by == *by)?;
        Some(waiting.remove(place))
    }

    /// The oldest.
    pub(crate) fn next(&self) -> Option<Steer> {
        let mut waiting = self.0.locked();
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }

    pub(crate) fn take(&self) -> Vec<Steer> {
        std::mem::take(&mut *self.0.locked())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.locked().is_empty()
    }
}

pub(crate) fn too_late() -> OpResult {
    OpResult::refused(RefusalCode::Dropped, "the turn ended before its next request")
}

pub(crate) fn withdrawn() -> OpResult {
    OpResult::refused(RefusalCode::Dropped, "removed from the queue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_can_be_taken_back() {
        let steering = Steering::default();
        let steer = |number: usize| Steer {
            id: RequestId::new(number.to_string()),
            by: FrontId::local(),
            parts: Vec::new(),
            typed: String::new(),
        };
        for number in 0..MAX_WAITING {
            assert!(steering.add(steer(number)).is_none());
        }
        let refused = steering.add(steer(99)).expect("there is a limit");
        assert_eq!(refused.refusal().map(|refusal| refusal.code), Some(RefusalCode::QueueFull));
        let (id, by) = (RequestId::new("3"), FrontId::local());
        assert!(steering.withdraw(&id, &FrontId::new("another")).is_none());
        assert!(steering.withdraw(&id, &by).is_some());
        assert!(steering.withdraw(&id, &by).is_none());
        assert_eq!(steering.take().len(), MAX_WAITING - 1);
        assert!(steering.is_empty());
    }
}
