//! A front end's place at a session, and its way in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_domain::event::{Asked, FrontId, Op, Refusal, RefusalCode, RequestId};

use super::hosted::Hosted;
use super::queue::{Overrun, Subscription};
use super::scopes::Scopes;

/// A front end that is attached to a session.
pub struct Front {
    hosted: Arc<Hosted>,
    id: FrontId,
    scopes: Scopes,
    asked: AtomicU64,
}

impl Hosted {
    /// Gives a front end its place. `name` is what others see of it; a namesake gets a number, so that neither takes
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

    /// Asks something of the session; the id under which [`pollux_domain::event::Event::Acknowledged`] tells what came of
    /// it. What may not be asked, or cannot be taken, is refused at once and nobody else learns of it.
    pub fn ask(&self, op: Op) -> Result<RequestId, Refusal> {
        let id = RequestId::new(format!("{}-{}", self.id, self.asked.fetch_add(1, Ordering::Relaxed)));
        self.ask_as(id.clone(), op)?;
        Ok(id)
    }

    /// The same, under an id of the front end's own.
    pub fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal> {
        if !self.scopes.allow(&op) {
            let message = "not permitted for this front end".to_owned();
            return Err(Refusal { code: RefusalCode::NotAllowed, message });
        }
        self.hosted.take(Asked { id, by: self.id.clone(), op })
    }

    /// Events from now on, and those after number `after` before them. What is older than the log comes as a snapshot.
    /// `None` lacks nothing before and gets what comes; 0 is before the first event.
    pub fn subscribe(&self, after: Option<u64>) -> Result<Subscription, Refusal> {
        self.may_watch()?;
        Ok(self.hosted.subscribe(after, Overrun::Loses))
    }

    /// Every event from the first that is kept. The session waits for this reader: for the only front end of a process
    /// that ends with its session.
    pub fn subscribe_alone(&self) -> Result<Subscription, Refusal> {
        self.may_watch()?;
        Ok(self.hosted.subscribe(Some(0), Overrun::Waits))
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
        self.hosted.detach(self.scopes);
    }
}
