//! The port to terminals: what runs user shell commands, and what ties a running command to the person at the keyboard.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::id::CallId;
use crate::sync::Locked as _;
use crate::terminal_screen::{TerminalScreen, TerminalSize, TypedBytes};

/// Inputs that may wait for a command.
const MAX_WAITING: usize = 256;

/// Runs commands. The default implementation uses child processes; an attached editor may
/// provide its own terminals.
pub trait Terminals: Send + Sync {
    /// Runs a command in a shell to its end; `live` gets what it prints, or `terminal` its screen. A cancel ends it.
    fn run<'a>(
        &'a self,
        command: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        terminal: Option<&'a CommandTerminal>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, TerminalEnd>;
}

/// Runs the model's commands in terminals of the program that drives the session.
pub trait ClientTerminals: Send + Sync {
    /// Runs a command in bash to its end; `shown` is called when its terminal can be shown. `None` if there is no
    /// terminal. A cancel ends the command.
    fn run<'a>(
        &'a self,
        command: ClientCommand<'a>,
        shown: &'a (dyn Fn() + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ClientCommandEnd>>;
}

/// A command for a terminal of the client.
#[derive(Debug, Clone, Copy)]
pub struct ClientCommand<'a> {
    pub call: &'a CallId,
    pub text: &'a str,
    pub directory: &'a Path,
}

/// How a command in a terminal of the client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommandEnd {
    pub output: String,
    pub ending: ClientEnding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnding {
    Exited(i32),
    /// By a signal or in an unknown way.
    Killed,
    Cancelled,
}

/// What a person does to a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandInput {
    Typed(TypedBytes),
    Resized(TerminalSize),
    /// Let it run on in the background.
    MoveToBackground,
}

/// The terminal that a command is to run in: its size, the person's input, and a reader for its screen.
#[derive(Clone)]
pub struct CommandTerminal {
    size: Arc<Mutex<TerminalSize>>,
    inputs: Arc<Mutex<mpsc::Receiver<CommandInput>>>,
    show: Arc<dyn Fn(TerminalScreen) -> bool + Send + Sync>,
}

impl CommandTerminal {
    /// Returns the sender of inputs too. `show` returns whether the screen was taken; if not, a later one is shown
    /// instead.
    pub fn new(
        size: TerminalSize,
        show: impl Fn(TerminalScreen) -> bool + Send + Sync + 'static,
    ) -> (Self, mpsc::Sender<CommandInput>) {
        let (sender, inputs) = mpsc::channel(MAX_WAITING);
        let size = Arc::new(Mutex::new(size.within_limits()));
        (Self { size, inputs: Arc::new(Mutex::new(inputs)), show: Arc::new(show) }, sender)
    }

    pub fn size(&self) -> TerminalSize {
        *self.size.locked()
    }

    /// Drops what was typed for an earlier run of the command.
    pub fn discard_input(&self) {
        while let Ok(input) = self.inputs.locked().try_recv() {
            if let CommandInput::Resized(size) = input {
                *self.size.locked() = size.within_limits();
            }
        }
    }

    /// Shows a screen; false if the reader is busy.
    pub fn show(&self, screen: TerminalScreen) -> bool {
        (self.show)(screen)
    }

    /// The next input; never ready once there is nobody to send one. Cancel-safe.
    pub async fn next_input(&self) -> CommandInput {
        let received = std::future::poll_fn(|context| self.inputs.locked().poll_recv(context)).await;
        match received {
            Some(CommandInput::Resized(size)) => {
                let size = size.within_limits();
                *self.size.locked() = size;
                CommandInput::Resized(size)
            }
            Some(input) => input,
            None => std::future::pending().await,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalEnd {
    /// What it printed.
    pub output: String,
    /// How it ended, for display; `None` on success.
    pub ending: Option<String>,
}

impl TerminalEnd {
    /// The text for the model.
    pub fn result(&self) -> String {
        let output = self.output.trim_end();
        match &self.ending {
            None if output.is_empty() => "(It printed nothing.)".to_owned(),
            None => output.to_owned(),
            Some(ending) => format!("{output}\n{ending}").trim_start().to_owned(),
        }
    }
}
