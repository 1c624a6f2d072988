//! Background work of a conversation whose events join its stream: start-up warnings, session titles, memory,
//! extension updates, MCP server failures, and the messages left over when it ends.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::event::{BackgroundCommand, Event, NoticeCode, Severity, TurnEnd};
use pollux_mcp::Servers;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::editor::EditorEvents;
use crate::extension_updates::ExtensionUpdates;
use crate::hub::{Companion, ExtraEvents};
use crate::mcp;
use crate::memory::{self, MemoryRecorder};
use crate::services::{Interaction, Services};
use crate::titles::Titles;

/// The background work of one conversation.
pub(crate) struct BackgroundWork {
    pub(crate) manner: Interaction,
    /// Warnings collected while the conversation was set up.
    pub(crate) warnings: Vec<String>,
    pub(crate) services: Arc<Services>,
    pub(crate) titles: Option<Titles>,
    /// Only in the first conversation of a run.
    pub(crate) updates: Option<ExtensionUpdates>,
    /// If memory is enabled.
    pub(crate) memory_recorder: Option<MemoryRecorder>,
    /// Changes of the connection to the user's editor.
    pub(crate) editor: Option<EditorEvents>,
    /// Cancelled when the user asks to quit at once.
    pub(crate) cancel: CancellationToken,
    /// Events not delivered yet.
    pub(crate) later: Vec<Event>,
    /// A server failure was already reported.
    pub(crate) said_problem: bool,
    /// Changes with the background commands.
    pub(crate) background: watch::Receiver<u64>,
}

/// A warning about what a conversation was set up from.
pub(crate) fn workspace_warning(message: String) -> Event {
    let (severity, code) = (Severity::Warning, NoticeCode::Workspace);
    Event::Notice { severity, code, message }
}

impl BackgroundWork {
    /// Starts the background work of a conversation.
    pub(crate) fn new(
        manner: Interaction,
        warnings: Vec<String>,
        services: Arc<Services>,
        cancel: CancellationToken,
    ) -> Self {
        let background = services.background.changes();
        let editor = services.editor.as_ref().map(EditorEvents::new);
        Self {
            manner,
            warnings,
            services,
            background,
            titles: None,
            updates: None,
            memory_recorder: None,
            editor,
            cancel,
            later: Vec::new(),
            said_problem: false,
        }
    }

    fn warnings(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.warnings).into_iter().map(workspace_warning).collect()
    }

    fn servers(&self) -> Option<&Servers> {
        self.services.servers.as_deref()
    }

    /// Reports the first server failure.
    fn problem(&mut self, command: &str) -> Option<Event> {
        if self.said_problem || !self.servers().is_some_and(Servers::has_problem) {
            return None;
        }
        self.said_problem = true;
        Some(mcp::problem(command))
    }
}

impl Companion for BackgroundWork {
    fn observe(&mut self, event: &Event) -> ExtraEvents {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        match event {
            // Warnings from start-up follow the session's first event.
            Event::SessionReady { .. } => after = self.warnings(),
            Event::RequestSent(_) => {
                if let Some(servers) = self.servers() {
                    servers.begin();
                }
            }
            // The user's title stays.
            Event::Titled(_) => self.titles = None,
            Event::TurnEnded(end) => {
                if self.manner == Interaction::Headless {
                    before.extend(self.problem("pollux mcp list"));
                }
                if let (TurnEnd::Finished(_), Some(titles)) = (end, &mut self.titles) {
                    titles.begin();
                }
            }
            _ => {}
        }
        ExtraEvents { before, after }
    }

    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        Box::pin(async move {
            if !self.later.is_empty() {
                return self.later.remove(0);
            }
            loop {
                let Self { titles, updates, memory_recorder, editor, services, said_problem, .. } = self;
                let (manner, later, background) = (&self.manner, &mut self.later, &mut self.background);
                let interactive = *manner == Interaction::Interactive;
                let watches = interactive && !*said_problem;
                tokio::select! {
                    event = next(titles.as_mut().map(Titles::next_event)) => return event,
                    event = next(memory_recorder.as_mut().map(MemoryRecorder::next_event)) => return event,
                    event = next(editor.as_mut().map(EditorEvents::next_event)) => return event,
                    events = next(updates.as_mut().map(ExtensionUpdates::events)) => {
                        *updates = None;
                        later.extend(events);
                        if !later.is_empty() {
                            return later.remove(0);
                        }
                    }
                    Ok(()) = background.changed(), if interactive => {
                        return Event::BackgroundChanged(running(services));
                    }
                    () = next(services.servers.as_deref().map(Servers::failed)), if watches => {
                        *said_problem = true;
                        return mcp::problem("/mcp");
                    }
                }
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Vec<Event>> {
        Box::pin(async move {
            let Self { manner, services, titles, memory_recorder, cancel, later: mut events, .. } = *self;
            if let Some(titles) = titles {
                titles.write().await;
            }
            if let Some(memory_recorder) = memory_recorder {
                let (notes, requests) = memory_recorder.close(cancel.is_cancelled()).await;
                events.extend(requests);
                events.extend(notes.into_iter().map(|note| match manner {
                    Interaction::Headless => memory::notice(note),
                    Interaction::Interactive => {
                        let (severity, code) = (Severity::Info, NoticeCode::Memory);
                        Event::Notice { severity, code, message: note }
                    }
                }));
            }
            services.shutdown().await;
            events
        })
    }
}

fn running(services: &Services) -> Vec<BackgroundCommand> {
    let all = services.background.list().into_iter();
    let running = all.filter(|process| process.ending.is_none());
    running.map(|process| BackgroundCommand { pid: process.pid, command: process.command }).collect()
}

/// Awaits an optional future; pending forever if there is none.
async fn next<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
