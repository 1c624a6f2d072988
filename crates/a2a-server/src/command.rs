//! What the session of a task is told, and the link that carries it.

use std::cell::Cell;
use std::rc::Rc;

use pollux_domain::content::Part;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::incoming::Decision;

/// What a session is told.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        parts: Vec<Part>,
        typed: String,
    },
    Decide(Decision),
    /// Stop the turn; the task is then canceled.
    Cancel,
    /// Stop the turn because the server stops; the task can go on elsewhere.
    Drain,
}

/// A session that is open or being opened.
#[derive(Debug, Clone)]
pub(crate) struct SessionLink {
    commands: mpsc::UnboundedSender<Command>,
    waiting: CommandCount,
    /// Fired when it has ended and freed everything.
    pub(crate) over: CancellationToken,
}

/// How many commands a session has not taken yet. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandCount(Rc<Cell<usize>>);

impl SessionLink {
    /// A link and the end that the session reads.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (commands, inbox) = mpsc::unbounded_channel();
        (Self { commands, waiting: CommandCount::default(), over: CancellationToken::new() }, inbox)
    }

    /// Hands a command over; gives it back if the session has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        self.commands.send(command).map_err(|mpsc::error::SendError(command)| command)?;
        self.waiting.0.set(self.waiting.0.get() + 1);
        Ok(())
    }

    pub(crate) fn waiting(&self) -> CommandCount {
        self.waiting.clone()
    }

    /// Whether two links lead to the same session.
    pub(crate) fn is_same(&self, waiting: &CommandCount) -> bool {
        Rc::ptr_eq(&self.waiting.0, &waiting.0)
    }
}

impl CommandCount {
    /// The session took a command.
    pub(crate) fn taken(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }
}
