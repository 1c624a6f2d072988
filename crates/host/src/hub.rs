//! Sessions shared by several front ends.
//!
//! A [`Hub`] owns sessions; front ends [`Hosted::attach`] to one and never hold the session itself. Events are numbered,
//! recent ones are kept for late subscribers, and a front end that does not keep up loses events instead of
//! blocking the session. Network protocols and sockets are out of scope.

mod fold;
mod front;
mod hosted;
mod log;
mod queue;
mod scopes;
mod weight;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked as _;

pub use fold::Snapshot;
pub use front::Front;
pub use hosted::{Companion, ExtraEvents, Hosted, Joined, Limits, Link, SessionState};
pub use log::Numbered;
pub use pollux_agent::Operations;
pub use queue::{Delivery, Subscription};
pub use scopes::Scopes;

/// All sessions of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hub {
    sessions: Arc<Mutex<HashMap<String, Arc<Hosted>>>>,
}

impl Hub {
    /// Adds a session, replacing one with the same id.
    pub fn add(&self, id: &SessionId, link: Link, limits: Limits) -> Arc<Hosted> {
        let hosted = Hosted::start(link, limits);
        self.sessions.locked().insert(id.as_str().to_owned(), Arc::clone(&hosted));
        hosted
    }

    pub fn get(&self, id: &SessionId) -> Option<Arc<Hosted>> {
        self.sessions.locked().get(id.as_str()).cloned()
    }

    /// The ids and states of all sessions.
    pub fn list(&self) -> Vec<(SessionId, SessionState)> {
        let sessions = self.sessions.locked();
        let mut list: Vec<_> =
            sessions.iter().map(|(id, hosted)| (SessionId::from_file(id), hosted.state())).collect();
        list.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        list
    }

    /// Removes a session. It ends when the last front end has detached.
    pub fn remove(&self, id: &SessionId) -> Option<Arc<Hosted>> {
        self.sessions.locked().remove(id.as_str())
    }
}
