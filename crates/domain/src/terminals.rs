//! The port to terminals: where a person's own commands run.

use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

/// Runs commands. Implemented where the agent is assembled, by children of the program; an editor that is attached may
/// bring terminals of its own.
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
    /// How it ended, in words for the person, unless it ended well.
    pub ending: Option<String>,
}

impl TerminalEnd {
    /// What the model is told of it.
    pub fn result(&self) -> String {
        let output = self.output.trim_end();
        match &self.ending {
            None if output.is_empty() => "(It printed nothing.)".to_owned(),
            None => output.to_owned(),
            Some(ending) => format!("{output}\n{ending}").trim_start().to_owned(),
        }
    }
}
