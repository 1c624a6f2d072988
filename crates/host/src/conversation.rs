//! A conversation: one stream of events out, operations in, and the one loop that runs a turn for every front end.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pollux_domain::event::{Event, Op, OpResult, Refusal, RequestId, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::tool::ToolSpec;
use pollux_mcp::Servers;
use pollux_tools::SandboxSlot;
use tokio_util::sync::CancellationToken;

use crate::hub::{Companion, Delivery, Front, Hosted, Limits, Link, Scopes, Subscription};
use crate::outside::Outside;
use crate::prompt::Expanded;
use crate::rewind::Keeper;
use crate::{Loaded, Sink, mcp, skills};

/// An agent that can be spoken to.
pub struct Conversation {
    front: Front,
    events: Subscription,
    pub session_file: Option<PathBuf>,
    pub outside: Arc<Outside>,
    pub(crate) keeper: Arc<Keeper>,
    /// Where the commands of tools start.
    pub sandbox: SandboxSlot,
}

/// A front end while a turn runs: it folds events and may want something.
pub trait TurnFront {
    /// Takes an event; what it wants in return, such as the answer to a question.
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<Wish>> + 'a>>;

    /// Waits until it wants something. Dropped early, nothing is lost.
    fn wish(&mut self) -> Pin<Box<dyn Future<Output = Wish> + '_>>;

    /// Over when it no longer waits for the end of the turn.
    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// What a front end wants while a turn runs.
#[derive(Debug)]
pub enum Wish {
    /// Something of the session.
    Ask(Op),
    /// To leave when the turn is over, which is cancelled for it.
    Leave,
    /// Not to wait any longer.
    GiveUp,
}

/// How a turn ended for a front end.
#[derive(Debug)]
pub enum Turned {
    /// With what the session said of it; `None` for a person's own command.
    Ended(Option<TurnEnd>),
    /// The same, and the front end wants to leave.
    Leaving,
}

impl Conversation {
    pub(crate) fn new(
        link: Link,
        companion: Box<dyn Companion>,
        outside: Arc<Outside>,
        keeper: Arc<Keeper>,
        sandbox: SandboxSlot,
        session_file: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        // The only front end is there from the beginning, so nothing is kept for those who come late.
        let limits = Limits { log_events: 0, log_bytes: 0, ..Limits::default() };
        let hosted = Hosted::accompanied(link, limits, companion);
        let front = hosted.attach("local", Scopes::ALL).ok_or_else(gone)?;
        let events = front.subscribe_alone().map_err(|_| gone())?;
        Ok(Self { front, events, session_file, outside, keeper, sandbox })
    }

    /// The next event; `None` when the conversation is over and all that belongs to it is closed.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.events.next().await? {
                Delivery::Event(event) => return Some(event.event),
                // Never for a reader that is waited for.
                Delivery::Snapshot(_) | Delivery::Lagged { .. } => {}
            }
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        match self.events.try_next()? {
            Delivery::Event(event) => Some(event.event),
            Delivery::Snapshot(_) | Delivery::Lagged { .. } => None,
        }
    }

    /// Asks something of the session; an event with this id tells what came of it.
    pub fn ask(&self, op: Op) -> Result<RequestId, Refusal> {
        self.front.ask(op)
    }

    /// Runs what takes a turn, or a person's own command, to its end.
    pub async fn turn(&mut self, op: Op, front: &mut dyn TurnFront) -> Result<Turned, Failure> {
        let asked = self.ask(op).map_err(|_| gone())?;
        let mut leaving = false;
        loop {
            let time_is_up = front.time_is_up();
            let event = tokio::select! {
                biased;
                wish = front.wish(), if !leaving => {
                    if self.grant(wish, &mut leaving).is_break() {
                        return Ok(Turned::Leaving);
                    }
                    continue;
                }
                () = time_is_up => return Ok(Turned::Leaving),
                event = self.next() => event.ok_or_else(gone)?,
            };
            let wish = front.event(&event).await;
            let end = match &*event {
                Event::TurnEnded(end) => Some(Some(end.clone())),
                Event::ShellEnded(_) => Some(None),
                Event::Acknowledged { id, result: OpResult::Refused(refusal), .. } if *id == asked => {
                    return Err(Failure::new(ExitKind::Failure, refusal.message.clone()));
                }
                _ => None,
            };
            if let Some(end) = end {
                return Ok(if leaving { Turned::Leaving } else { Turned::Ended(end) });
            }
            if wish.is_some_and(|wish| self.grant(wish, &mut leaving).is_break()) {
                return Ok(Turned::Leaving);
            }
        }
    }

    fn grant(&self, wish: Wish, leaving: &mut bool) -> ControlFlow<()> {
        let op = match wish {
            Wish::Ask(op) => op,
            Wish::Leave => {
                *leaving = true;
                Op::Cancel
            }
            Wish::GiveUp => return ControlFlow::Break(()),
        };
        // What can no longer be done was settled meanwhile.
        let _ = self.ask(op);
        ControlFlow::Continue(())
    }

    /// Asks it to end, for another conversation if `cleared`; it may still have something to say.
    pub fn end(&mut self, cleared: bool) {
        self.outside.cleared.store(cleared, Ordering::Relaxed);
        let _ = self.ask(Op::End { cleared });
    }

    /// A prompt with its `@paths` read; `None` when it was cancelled.
    pub async fn expand(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.outside.expand(prompt, loaded, cancel).await
    }

    /// Whether a word with a slash calls a skill or a prompt of a server's.
    pub fn has_prompt(&self, word: &str) -> bool {
        let servers = self.outside.servers.as_ref();
        servers.is_some_and(|servers| servers.has_prompt(word.trim_start_matches('/')))
            || skills::called(self.outside.skills.as_deref(), word).is_some()
    }

    /// How MCP servers stand and what they offer, in lines.
    pub fn servers(&self, detail: mcp::Detail, tools: &[Arc<ToolSpec>]) -> Vec<String> {
        let servers = self.outside.servers.as_deref();
        servers.map(|servers| mcp::lines(servers, detail, tools)).unwrap_or_default()
    }

    /// The servers that want somebody to sign in.
    pub fn servers_to_sign_in(&self) -> Vec<String> {
        let reports = self.outside.servers.as_deref().map(Servers::reports).unwrap_or_default();
        reports.into_iter().filter(|report| report.sign_in.is_some()).map(|report| report.name).collect()
    }
}

fn gone() -> Failure {
    Failure::new(ExitKind::Failure, "the session ended in the middle of a turn")
}

/// The front end of a run without a person: events go to a sink, and a token stops it.
pub(crate) struct Headless<'a, 'b> {
    pub(crate) sink: &'a mut Sink<'b>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stopped: bool,
}

impl Headless<'_, '_> {
    /// Takes events until the conversation is over.
    pub(crate) async fn finish(&mut self, mut conversation: Conversation) {
        conversation.end(false);
        loop {
            tokio::select! {
                biased;
                wish = self.wish() => {
                    if let Wish::Ask(op) = wish {
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
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<Wish>> + 'a>> {
        let stops = (self.sink)(event).is_break() && !self.stopped;
        self.stopped |= stops;
        Box::pin(std::future::ready(stops.then_some(Wish::Ask(Op::Cancel))))
    }

    fn wish(&mut self) -> Pin<Box<dyn Future<Output = Wish> + '_>> {
        Box::pin(async move {
            if self.stopped {
                std::future::pending::<()>().await;
            }
            self.cancel.cancelled().await;
            self.stopped = true;
            Wish::Ask(Op::Cancel)
        })
    }

    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}
