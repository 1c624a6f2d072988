//! Sessions that many front ends share.
//!
//! A [`Hub`] owns sessions; front ends [`Hosted::attach`] to one and never touch the session itself. Events are numbered,
//! the last ones are kept for those who come late, and a front end that does not keep up loses events instead of
//! stopping the session. Protocols and their sockets are the business of others.

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
pub use hosted::{Around, Companion, Hosted, Limits, Link, State};
pub use log::Numbered;
pub use queue::{Delivery, Subscription};
pub use scopes::Scopes;

/// Every session of a process. Cheap to copy.
#[derive(Clone, Default)]
pub struct Hub {
    sessions: Arc<Mutex<HashMap<String, Arc<Hosted>>>>,
}

impl Hub {
    /// Takes over a session. One that had the same id is let go.
    pub fn add(&self, id: &SessionId, link: Link, limits: Limits) -> Arc<Hosted> {
        let hosted = Hosted::start(link, limits);
        self.sessions.locked().insert(id.as_str().to_owned(), Arc::clone(&hosted));
        hosted
    }

    pub fn get(&self, id: &SessionId) -> Option<Arc<Hosted>> {
        self.sessions.locked().get(id.as_str()).cloned()
    }

    /// The ids of all sessions and how each is.
    pub fn list(&self) -> Vec<(SessionId, State)> {
        let sessions = self.sessions.locked();
        let mut list: Vec<_> =
            sessions.iter().map(|(id, hosted)| (SessionId::from_file(id), hosted.state())).collect();
        list.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        list
    }

    /// Lets a session go. It ends when the last front end has let it go too.
    pub fn remove(&self, id: &SessionId) -> Option<Arc<Hosted>> {
        self.sessions.locked().remove(id.as_str())
    }
}
