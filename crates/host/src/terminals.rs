//! Runs the user's own shell commands: in the project's folder, as child processes, without a sandbox.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::terminals::{CommandTerminal, TerminalEnd, Terminals};
use pollux_exec::background::Background;
use pollux_exec::shell::{Ending, ShellCommand, ShellEnd, run, run_in_terminal};
use pollux_session::add_shell_command;
use tokio_util::sync::CancellationToken;

use crate::Loaded;

/// Runs commands as child processes.
pub(crate) struct OwnTerminals {
    /// The command template without its text.
    command: ShellCommand,
    background: Arc<Background>,
    /// The project's state folder, which holds the shell history.
    temp_dir: PathBuf,
}

impl OwnTerminals {
    pub(crate) fn new(loaded: &Loaded, background: Arc<Background>) -> Self {
        let command = ShellCommand {
            text: String::new(),
            directory: loaded.project.root().to_path_buf(),
            environment: loaded.command_env(),
            inactivity: None,
            background_after: None,
            sandbox: None,
        };
        Self { command, background, temp_dir: loaded.project.temp_dir().to_path_buf() }
    }
}

impl Terminals for OwnTerminals {
    fn run<'a>(
        &'a self,
        command: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        terminal: Option<&'a CommandTerminal>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, TerminalEnd> {
        Box::pin(async move {
            let _ = add_shell_command(&self.temp_dir, command);
            let request = ShellCommand { text: command.to_owned(), ..self.command.clone() };
            let ended = |ending: String| TerminalEnd { output: String::new(), ending: Some(ending) };
            let end = match terminal {
                Some(terminal) => run_in_terminal(&request, &self.background, terminal, cancel).await,
                None => run(&request, &self.background, live, cancel).await,
            };
            match end {
                Err(error) => ended(error.to_string()),
                Ok(ShellEnd::MovedToBackground { pid }) => {
                    ended(format!("[moved to the background, process {pid}]"))
                }
                Ok(ShellEnd::Finished(finished)) => {
                    let ending = match finished.ending {
                        Ending::Exited(0) => None,
                        Ending::Exited(code) => Some(format!("[exit code {code}]")),
                        Ending::Signalled(signal) => Some(format!("[killed by signal {signal}]")),
                        Ending::Cancelled | Ending::Inactive => Some("[stopped]".to_owned()),
                    };
                    TerminalEnd { output: finished.output.into_text(), ending }
                }
            }
        })
    }
}
