//! A conversation: a stream of events out, operations in, and the turn loop shared by all front ends.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use pollux_domain::BoxFuture;
use pollux_domain::event::{Event, FrontId, Op, OpResult, Refusal, RequestId, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::tool::ToolSpec;
use pollux_mcp::Servers;
use pollux_tools::SandboxSlot;
use tokio_util::sync::CancellationToken;

use crate::editor::{self, approvals};
use crate::hub::{Companion, Delivery, Front, Hosted, Limits, Link, Scopes, Subscription};
use crate::prompt::Expanded;
use crate::rewind::ChangeRecorder;
use crate::services::Services;
use crate::turn::recorded_changes;
use crate::{Loaded, Prepared, Sink, mcp, skills};

/// A front end's connection to a session, in this process or another.
pub trait SessionLink {
    /// The name of the front end among those of the session.
    fn id(&self) -> &FrontId;

    /// The next event; `None` when the session has ended or is out of reach. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Option<Arc<Event>>>;

    /// The next event if one is ready.
    fn try_next(&mut self) -> Option<Arc<Event>>;

    /// Sends an operation; an event with this id reports the result.
    fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal>;

    /// Whether the session runs in another process and goes on without this front end.
    fn is_remote(&self) -> bool {
        true
    }
}

/// The only front end of a session of this process.
struct OnlyFront {
    front: Front,
    events: Subscription,
}

impl SessionLink for OnlyFront {
    fn id(&self) -> &FrontId {
        self.front.id()
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Arc<Event>>> {
        Box::pin(async move {
            loop {
                match self.events.next().await? {
                    Delivery::Event(event) => return Some(event.event),
                    // Cannot happen: the session waits for this reader.
                    Delivery::Snapshot(_) | Delivery::Lagged { .. } => {}
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<Arc<Event>> {
        match self.events.try_next()? {
            Delivery::Event(event) => Some(event.event),
            Delivery::Snapshot(_) | Delivery::Lagged { .. } => None,
        }
    }

    fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal> {
        self.front.ask_as(id, op)
    }

    fn is_remote(&self) -> bool {
        false
    }
}

/// A session that is assembled and runs, before a front end is attached.
pub(crate) struct Assembled {
    pub(crate) link: Link,
    pub(crate) companion: Box<dyn Companion>,
    pub(crate) services: Arc<Services>,
    pub(crate) change_recorder: Arc<ChangeRecorder>,
    pub(crate) sandbox: SandboxSlot,
    pub(crate) session_file: Option<PathBuf>,
}

/// A running agent session with one front end.
pub struct Conversation {
    session: Box<dyn SessionLink>,
    /// The session itself, if it runs in this process.
    hosted: Option<Weak<Hosted>>,
    /// Numbers the operations.
    asked: AtomicU64,
    pub session_file: Option<PathBuf>,
    pub services: Arc<Services>,
    pub(crate) change_recorder: Arc<ChangeRecorder>,
    /// Working directory of tool commands.
    pub sandbox: SandboxSlot,
}

/// A front end during a turn: it consumes events and can send operations.
pub trait TurnFront {
    /// Handles an event; may return a request, such as the answer to a question.
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<TurnRequest>> + 'a>>;

    /// Waits for the front end's next request. Cancel-safe.
    fn wish(&mut self) -> Pin<Box<dyn Future<Output = TurnRequest> + '_>>;

    /// Completes when the front end stops waiting for the turn to end.
    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// A front end's request during a turn.
#[derive(Debug)]
pub enum TurnRequest {
    /// An operation for the session.
    Ask(Op),
    /// The same, acknowledged under this id.
    AskAs(RequestId, Op),
    /// Cancel the turn and leave when it has ended.
    Leave,
    /// Stop waiting.
    GiveUp,
}

/// How a turn ended, from the front end's view.
#[derive(Debug)]
pub enum Turned {
    /// The end reported by the session; `None` for a shell command of the user.
    Ended(Option<TurnEnd>),
    /// As above, and the front end leaves.
    Leaving,
}

impl Conversation {
    pub(crate) fn new(assembled: Assembled) -> Result<Self, Failure> {
        let Assembled { link, companion, services, change_recorder, sandbox, session_file } = assembled;
        // The only front end is attached from the start, so no event log is needed.
        let limits = Limits { log_events: 0, log_bytes: 0, ..Limits::default() };
        let hosted = Hosted::accompanied(link, limits, companion);
        let front = hosted.attach("local", Scopes::ALL).ok_or_else(gone)?;
        let events = front.subscribe_alone().map_err(|_| gone())?;
        let session = Box::new(OnlyFront { front, events });
        let (asked, hosted) = (AtomicU64::default(), Some(Arc::downgrade(&hosted)));
        Ok(Self { session, hosted, asked, session_file, services, change_recorder, sandbox })
    }

    /// A conversation whose session runs in another process. Prompts are expanded here, with the skills, commands and
    /// files of the session's folder; MCP servers, background processes and the sandbox are the session's.
    pub fn attached(
        session: Box<dyn SessionLink>,
        turn: &Prepared<'_>,
        session_file: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let services = Arc::new(Services::of_folder(turn.loaded)?);
        let change_recorder = Arc::new(recorded_changes(turn, None));
        let (asked, sandbox) = (AtomicU64::default(), SandboxSlot::new(None));
        Ok(Self { session, hosted: None, asked, session_file, services, change_recorder, sandbox })
    }

    /// Lets the user approve changes in the editor as well, while it is connected. For front ends whose own questions
    /// end when someone else answers.
    pub fn approve_in_editor(&self) {
        if let (Some(companion), Some(hosted)) = (&self.services.editor, &self.hosted) {
            tokio::spawn(approvals::serve(Arc::clone(companion), Weak::clone(hosted)));
        }
    }

    /// Connects to the user's editor in the background; a failure is reported as an event.
    pub fn connect_editor(&self) {
        if let (Some(companion), Some(hosted)) = (&self.services.editor, &self.hosted) {
            tokio::spawn(editor::connect(Arc::clone(companion), Weak::clone(hosted)));
        }
    }

    /// Whether the session runs in another process and goes on without this front end.
    pub fn is_remote(&self) -> bool {
        self.session.is_remote()
    }

    /// The name of this front end among those of the session.
    pub fn front_id(&self) -> &FrontId {
        self.session.id()
    }

    /// The next event; `None` when the conversation has ended and its resources are closed.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.session.next().await
    }

    /// The next event if one is ready.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.session.try_next()
    }

    /// Sends an operation; an event with this id reports the result.
    pub fn ask(&self, op: Op) -> Result<RequestId, Refusal> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let id = RequestId::new(format!("{}-{number}", self.session.id()));
        self.session.ask_as(id.clone(), op)?;
        Ok(id)
    }

    /// The same, with an id chosen by the front end.
    pub fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal> {
        self.session.ask_as(id, op)
    }

    /// Runs an operation that starts a turn or a shell command until it ends.
    pub async fn turn(&mut self, op: Op, front: &mut dyn TurnFront) -> Result<Turned, Failure> {
        // Another front end's turn may come first, and prompts that wait. A session of this process acknowledges every
        // operation before its work; over a connection, only prompts are sure to be answered when it breaks.
        let waits = matches!(op, Op::Prompt { .. }) || !self.is_remote();
        let asked = self.ask(op).map_err(|_| gone())?;
        self.follow(Some(asked), waits, front).await
    }

    /// Takes part in a turn that another front end began, until it ends.
    pub async fn join_turn(&mut self, front: &mut dyn TurnFront) -> Result<Turned, Failure> {
        self.follow(None, false, front).await
    }

    async fn follow(
        &mut self,
        asked: Option<RequestId>,
        mut waits: bool,
        front: &mut dyn TurnFront,
    ) -> Result<Turned, Failure> {
        let mut leaving = false;
        loop {
            let time_is_up = front.time_is_up();
            let event = tokio::select! {
                biased;
                wish = front.wish(), if !leaving => {
                    if self.grant(wish, &mut leaving, front).await.is_break() {
                        return Ok(Turned::Leaving);
                    }
                    continue;
                }
                () = time_is_up => return Ok(Turned::Leaving),
                event = self.next() => event.ok_or_else(gone)?,
            };
            let wish = front.event(&event).await;
            let end = match &*event {
                Event::TurnEnded(_) | Event::ShellEnded(_) if waits => None,
                Event::TurnEnded(end) => Some(Some(end.clone())),
                Event::ShellEnded(_) => Some(None),
                Event::Acknowledged { id, result, .. } if asked.as_ref() == Some(id) => {
                    if let OpResult::Refused(refusal) = result {
                        return Err(Failure::new(ExitKind::Failure, refusal.message.clone()));
                    }
                    waits = false;
                    None
                }
                _ => None,
            };
            if let Some(end) = end {
                return Ok(if leaving { Turned::Leaving } else { Turned::Ended(end) });
            }
            if let Some(wish) = wish
                && self.grant(wish, &mut leaving, front).await.is_break()
            {
                return Ok(Turned::Leaving);
            }
        }
    }

    async fn grant(
        &self,
        wish: TurnRequest,
        leaving: &mut bool,
        front: &mut dyn TurnFront,
    ) -> ControlFlow<()> {
        let op = match wish {
            TurnRequest::Ask(op) => op,
            TurnRequest::AskAs(id, op) => {
                if let Err(refusal) = self.ask_as(id.clone(), op) {
                    let (by, result) = (self.session.id().clone(), OpResult::Refused(refusal));
                    front.event(&Event::Acknowledged { id, by, result }).await;
                }
                return ControlFlow::Continue(());
            }
            // The turn goes on without this front end.
            TurnRequest::Leave if self.is_remote() => return ControlFlow::Break(()),
            TurnRequest::Leave => {
                *leaving = true;
                Op::Cancel
            }
            TurnRequest::GiveUp => return ControlFlow::Break(()),
        };
        // A refused operation was settled by someone else in the meantime.
        let _ = self.ask(op);
        ControlFlow::Continue(())
    }

    /// Asks the session to end (`cleared`: a new one follows); more events may still arrive.
    pub fn end(&mut self, cleared: bool) {
        self.services.cleared.store(cleared, Ordering::Relaxed);
        let _ = self.ask(Op::End { cleared });
    }

    /// Expands the `@paths` of a prompt; `None` if cancelled.
    pub async fn expand(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.services.expand(prompt, loaded, cancel).await
    }

    /// Whether a slash command names a skill or an MCP prompt.
    pub fn has_prompt(&self, word: &str) -> bool {
        let servers = self.services.servers.as_ref();
        servers.is_some_and(|servers| servers.has_prompt(word.trim_start_matches('/')))
            || skills::called(self.services.skills.as_deref(), word).is_some()
    }

    /// Status and capabilities of the MCP servers, as lines.
    pub fn servers(&self, detail: mcp::Detail, tools: &[Arc<ToolSpec>]) -> Vec<String> {
        let servers = self.services.servers.as_deref();
        servers.map(|servers| mcp::lines(servers, detail, tools)).unwrap_or_default()
    }

    /// Servers that require sign-in.
    pub fn servers_to_sign_in(&self) -> Vec<String> {
        let reports = self.services.servers.as_deref().map(Servers::reports).unwrap_or_default();
        reports.into_iter().filter(|report| report.sign_in.is_some()).map(|report| report.name).collect()
    }
}

fn gone() -> Failure {
    Failure::new(ExitKind::Failure, "the session ended in the middle of a turn")
}

/// The front end of a headless run: events go to a sink, a token cancels it.
pub(crate) struct Headless<'a, 'b> {
    pub(crate) sink: &'a mut Sink<'b>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stopped: bool,
}

impl Headless<'_, '_> {
    /// Forwards events until the conversation has ended.
    pub(crate) async fn finish(&mut self, mut conversation: Conversation) {
        conversation.end(false);
        loop {
            tokio::select! {
                biased;
                wish = self.wish() => {
                    if let TurnRequest::Ask(op) = wish {
                        let _ = conversation.ask(op);
                    }
                }
                event = conversation.next() => match event {
                    Some(event) => drop((self.sink)(&event)),
                    None => return,
                },
            }
        }
    }
}

impl TurnFront for Headless<'_, '_> {
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<TurnRequest>> + 'a>> {
        let stops = (self.sink)(event).is_break() && !self.stopped;
        self.stopped |= stops;
        Box::pin(std::future::ready(stops.then_some(TurnRequest::Ask(Op::Cancel))))
    }

    fn wish(&mut self) -> Pin<Box<dyn Future<Output = TurnRequest> + '_>> {
        Box::pin(async move {
            if self.stopped {
                std::future::pending::<()>().await;
            }
            self.cancel.cancelled().await;
            self.stopped = true;
            TurnRequest::Ask(Op::Cancel)
        })
    }

    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}
