//! The port to terminals, which run user shell commands.

use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

/// Runs commands. The default implementation uses child processes; an attached editor may
/// provide its own terminals.
pub trait Terminals: Send + Sync {
    /// Runs a command in a shell to its end; `live` gets what it prints. A cancel ends it.
    fn run<'a>(
        &'a self,
        command: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, TerminalEnd>;
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
