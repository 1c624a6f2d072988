//! What the session of a task is told, and the link that carries it.

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
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Fired when it has ended and freed everything.
    pub(crate) over: CancellationToken,
}
