//! A front end's place at a session: what it may do, and its way in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Asked, FrontId, Op, Refusal, RefusalCode, RequestId};

use super::hosted::Hosted;
use super::queue::{Overrun, Subscription};

/// What a front end may do. The server says so when it connects; a front end never gives itself rights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes {
    /// See events.
    pub watch: bool,
    /// Prompt, cancel, and choose any mode but yolo.
    pub drive: bool,
    /// Answer questions, choose yolo, and run commands of a person's own.
    pub approve: bool,
    /// End the session.
    pub admin: bool,
}

impl Scopes {
    pub const ALL: Self = Self { watch: true, drive: true, approve: true, admin: true };
    pub const WATCH: Self = Self { watch: true, drive: false, approve: false, admin: false };

    fn allow(self, op: &Op) -> bool {
        match op {
            Op::Describe => self.watch,
            Op::Prompt { .. }
            | Op::Withdraw { .. }
            | Op::Cancel
            | Op::SetModel(_)
            | Op::Rewind { .. }
            | Op::Compress
            | Op::Propose { .. }
            | Op::ShellRan { .. } => self.drive,
            Op::SetMode(ApprovalMode::Yolo) => self.drive && self.approve,
            Op::SetMode(_) => self.drive,
            // No rule looks at it, so that whoever may not approve may not run it either.
            Op::Shell { .. } => self.drive && self.approve,
            Op::Decide { .. } => self.approve,
            Op::End { .. } => self.admin,
        }
    }
}

/// A front end that is attached to a session.
pub struct Front {
    pub(super) hosted: Arc<Hosted>,
    pub(super) id: FrontId,
    pub(super) scopes: Scopes,
    pub(super) asked: AtomicU64,
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
            let message = "this front end lacks the right to it".to_owned();
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
        let message = "this front end may not watch".to_owned();
        Err(Refusal { code: RefusalCode::NotAllowed, message })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.hosted.detach(self.scopes);
    }
}
