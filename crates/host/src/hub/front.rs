//! A front end attached to a session: sends operations and subscribes to events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_domain::event::{Asked, FrontId, Op, Refusal, RefusalCode, RequestId};

use super::hosted::{Hosted, Joined};
use super::queue::{Overrun, Subscription};
use super::scopes::Scopes;

/// A front end attached to a session.
pub struct Front {
    hosted: Arc<Hosted>,
    id: FrontId,
    scopes: Scopes,
    asked: AtomicU64,
}

impl Hosted {
    /// Attaches a front end. `name` is shown to others; a duplicate gets a number, so that neither takes
    /// the other's acknowledgements for its own.
    pub fn attach(&self, name: &str, scopes: Scopes) -> Option<Front> {
        let (hosted, id) = self.admit(name, scopes)?;
        Some(Front { hosted, id, scopes, asked: AtomicU64::default() })
    }
}

impl Front {
    pub fn id(&self) -> &FrontId {
        &self.id
    }

    /// Sends an operation; returns the id under which [`pollux_domain::event::Event::Acknowledged`] reports the result.
    /// An operation that is not permitted or cannot be queued is refused at once, and only this front end is told.
    pub fn ask(&self, op: Op) -> Result<RequestId, Refusal> {
        let id = RequestId::new(format!("{}-{}", self.id, self.asked.fetch_add(1, Ordering::Relaxed)));
        self.ask_as(id.clone(), op)?;
        Ok(id)
    }

    /// The same, with an id chosen by the front end.
    pub fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal> {
        if !self.scopes.allow(&op) {
            let message = "not permitted for this front end".to_owned();
            return Err(Refusal { code: RefusalCode::NotAllowed, message });
        }
        self.hosted.take(Asked { id, by: self.id.clone(), op })
    }

    /// Subscribes to events, starting after number `after`. If the log no longer reaches back that far, a
    /// snapshot comes first.
    /// `None` starts with the next event; 0 with the first.
    pub fn subscribe(&self, after: Option<u64>) -> Result<Subscription, Refusal> {
        self.may_watch()?;
        Ok(self.hosted.subscribe(after, Overrun::Loses))
    }

    /// All events from the first one kept. The session waits for this reader: for the only front end of a process
    /// that ends with its session.
    pub fn subscribe_alone(&self) -> Result<Subscription, Refusal> {
        self.may_watch()?;
        Ok(self.hosted.subscribe(Some(0), Overrun::Waits))
    }

    /// Subscribes from the beginning of the running turn, or from now on if none runs.
    pub fn join(&self) -> Result<(Joined, Subscription), Refusal> {
        self.may_watch()?;
        Ok(self.hosted.join())
    }

    fn may_watch(&self) -> Result<(), Refusal> {
        if self.scopes.watch {
            return Ok(());
        }
        let message = "not permitted to watch this session".to_owned();
        Err(Refusal { code: RefusalCode::NotAllowed, message })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.hosted.detach(&self.id, self.scopes);
    }
}
