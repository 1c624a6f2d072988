//! All sessions of a client.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pollux_domain::sync::Locked as _;
use tokio::sync::{Mutex as Turns, Semaphore, SemaphorePermit};

use crate::program::Program;
use crate::session::{Caller, Ended, GONE, Session};
use crate::tools::{self, ReplyArguments, RunArguments};

/// Sessions that are kept open between calls. Others are resumed from their files.
const MAX_OPEN: usize = 8;

/// The sessions of a client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sessions {
    program: Arc<Program>,
    /// The one opened last is at the end.
    open: Arc<Mutex<VecDeque<OpenSession>>>,
    /// Prompts that may run at the same time: each has a process.
    running: PromptSlots,
}

/// Room for prompts that run at the same time, shared by all clients.
#[derive(Clone)]
pub(crate) struct PromptSlots(Arc<Semaphore>);

impl Default for PromptSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_OPEN)))
    }
}

#[derive(Clone)]
struct OpenSession {
    id: String,
    /// Locked while a prompt runs; empty when it has ended.
    session: Arc<Turns<Option<Session>>>,
}

impl Sessions {
    pub(crate) fn new(program: Arc<Program>, running: PromptSlots) -> Self {
        Self { program, open: Arc::default(), running }
    }

    /// Runs a prompt in a new session, or in one that is named. Returns the id of the session too.
    pub(crate) async fn run(&self, run: RunArguments, caller: &Caller) -> Result<(String, Ended), String> {
        let _place = self.place()?;
        let folder = tools::folder(run.cwd, self.program.directory())?;
        let mut arguments: Vec<String> = Vec::new();
        arguments.extend(run.model.map(|model| format!("--model={model}")));
        let mode = tools::mode(run.mode, self.program.mode())?;
        if let Some(session) = &run.session {
            // It is opened again, so that what the call asks for holds.
            self.close_one(session).await?;
            arguments.extend(resuming(session));
        }
        let opening = async {
            let mut session = self.open(&folder, &arguments).await?;
            if let Some(mode) = mode {
                session.set_mode(mode).await?;
            }
            Ok(session)
        };
        let session = caller.before(opening).await?;
        self.prompt(self.keep(session), &run.prompt, caller).await
    }

    /// Runs a prompt in a session that is open or can be resumed.
    pub(crate) async fn reply(
        &self,
        reply: ReplyArguments,
        caller: &Caller,
    ) -> Result<(String, Ended), String> {
        let _place = self.place()?;
        let known = self.open.locked().iter().find(|open| open.id == reply.session_id).cloned();
        let open = match known {
            Some(open) => open,
            None => {
                let arguments = resuming(&reply.session_id);
                let resumed = self.open(self.program.directory(), &arguments);
                self.keep(caller.before(resumed).await?)
            }
        };
        self.prompt(open, &reply.prompt, caller).await
    }

    /// A place for a prompt.
    fn place(&self) -> Result<SemaphorePermit<'_>, String> {
        let limit = |_| format!("limit of {MAX_OPEN} concurrent prompts reached");
        self.running.0.try_acquire().map_err(limit)
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        let open = std::mem::take(&mut *self.open.locked());
        let closing: Vec<_> = open.into_iter().map(|open| tokio::spawn(close(open))).collect();
        for closed in closing {
            let _ = closed.await;
        }
    }

    async fn open(&self, folder: &Path, arguments: &[String]) -> Result<Session, String> {
        Session::open(self.program.session(folder, arguments), folder).await
    }

    /// Keeps a session for later calls. The one that was opened first is ended if there are too many.
    fn keep(&self, session: Session) -> OpenSession {
        let kept = OpenSession { id: session.id().to_owned(), session: Arc::new(Turns::new(Some(session))) };
        let mut open = self.open.locked();
        if open.len() >= MAX_OPEN
            && let Some(idle) = open.iter().position(|open| open.session.try_lock().is_ok())
            && let Some(first) = open.remove(idle)
        {
            tokio::spawn(close(first));
        }
        open.push_back(kept.clone());
        kept
    }

    async fn close_one(&self, id: &str) -> Result<(), String> {
        let found = {
            let mut open = self.open.locked();
            let at = open.iter().position(|open| open.id == id);
            if at.and_then(|at| open.get(at)).is_some_and(|open| open.session.try_lock().is_err()) {
                return Err(busy());
            }
            at.and_then(|at| open.remove(at))
        };
        if let Some(found) = found {
            close(found).await;
        }
        Ok(())
    }

    async fn prompt(
        &self,
        open: OpenSession,
        prompt: &str,
        caller: &Caller,
    ) -> Result<(String, Ended), String> {
        let Ok(mut held) = open.session.try_lock() else { return Err(busy()) };
        let Some(session) = held.as_mut() else { return Err(GONE.to_owned()) };
        let ended = session.prompt(prompt, caller).await;
        if ended.is_err() {
            self.open.locked().retain(|known| known.id != open.id);
            if let Some(session) = held.take() {
                session.close().await;
            }
        }
        drop(held);
        Ok((open.id, ended?))
    }
}

async fn close(open: OpenSession) {
    let session = open.session.lock().await.take();
    if let Some(session) = session {
        session.close().await;
    }
}

fn busy() -> String {
    "a prompt is already running in this session".to_owned()
}

/// The flags that continue a session. It may belong to another project.
fn resuming(id: &str) -> [String; 2] {
    [format!("--resume={id}"), "--all-projects".to_owned()]
}
