//! `run_shell_command`: a command for bash.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, RunFailure, Tool, ToolContext, ToolErrorKind, ToolKind,
    ToolOutcome, ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_exec::background::Background;
use pollux_exec::sandbox::Sandbox;
use pollux_exec::shell::{self, Ending, Finished, ShellCommand, ShellEnd};
use serde_json::{Value, json};

use crate::ToolSetup;
use crate::arguments::Arguments;
use crate::untrusted;
use crate::workspace::{Location, Workspace};

/// How long a background command is watched before it is left alone; upstream's value.
const DEFAULT_DELAY_MS: u64 = 200;
const MOST_DELAY_MS: u64 = 60_000;
/// Longer commands are shown by their description.
const TITLE_CHARS: usize = 150;

/// The tool.
pub(crate) struct RunShellCommand {
    spec: Arc<ToolSpec>,
    workspace: Arc<Workspace>,
    background: Arc<Background>,
    environment: Vec<(String, String)>,
    inactivity: Option<Duration>,
    sandbox: Option<Arc<Sandbox>>,
}

struct Call {
    workspace: Arc<Workspace>,
    location: Location,
    background: Arc<Background>,
    command: ShellCommand,
    description: Option<String>,
}

impl RunShellCommand {
    pub(crate) fn new(setup: &ToolSetup) -> Self {
        let spec = ToolSpec {
            name: "run_shell_command".to_owned(),
            display_name: "Shell".to_owned(),
            description: "Runs a command with `bash -c` and returns what it prints (stdout and stderr in order), its \
                exit code if that is not 0, and what it leaves running. The command gets no input, so use \
                non-interactive options. A command that prints nothing for a long time is ended. Start servers \
                and watchers with is_background instead of `&`; read their output with \
                read_background_output. Prefer the file and search tools to cat, grep, find and sed."
                .to_owned(),
            kind: ToolKind::Execute,
            parameters: parameters(),
            output_is_markdown: false,
            offloads_long_output: true,
        };
        let seconds = u64::try_from(setup.tools.shell_inactivity_seconds).unwrap_or(0);
        Self {
            spec: Arc::new(spec),
            workspace: Arc::clone(&setup.workspace),
            background: Arc::clone(&setup.background),
            environment: setup.child_env.clone(),
            inactivity: (seconds > 0).then(|| Duration::from_secs(seconds)),
            sandbox: setup.sandbox.clone(),
        }
    }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "description": "The exact command line for bash."
            },
            "description": {
                "type": "string",
                "description": "What the command does, in one short sentence for the person who approves it."
            },
            "dir_path": {
                "type": "string",
                "description": "Folder to run it in; the project root if left out."
            },
            "is_background": {
                "type": "boolean",
                "description": "Leave the command running and return after a moment."
            },
            "delay_ms": {
                "type": "integer",
                "description": "How long to watch a background command for early failure; 200 by default."
            }
        },
        "required": ["command"]
    })
}

impl Tool for RunShellCommand {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// A list of words was the form of the command once.
    fn modernised(&self, args: &JsonObject) -> Option<JsonObject> {
        let words = args.get("command")?.as_array()?;
        let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(quoted)).collect();
        let mut args = args.clone();
        args.insert("command".to_owned(), Value::from(words?.join(" ")));
        Some(args)
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        // Nothing in the command is refused here. Upstream blocks command substitution at this place; whether
        // a command may run is for policy to say, which reads the whole command.
        let text = arguments.required("command")?.to_owned();
        if text.trim().is_empty() {
            return Err(ArgError("Command cannot be empty.".to_owned()));
        }
        if text.contains('\0') {
            return Err(ArgError("Command cannot contain NUL characters.".to_owned()));
        }
        let given =
            arguments.text("dir_path")?.or(arguments.text("directory")?).filter(|path| !path.is_empty());
        let location =
            self.workspace.locate(given.unwrap_or(".")).map_err(|refusal| ArgError(refusal.to_string()))?;
        let is_background = arguments.flag("is_background")?.unwrap_or(false);
        let delay = arguments.number("delay_ms", 0)?.unwrap_or(DEFAULT_DELAY_MS).min(MOST_DELAY_MS);
        Ok(Box::new(Call {
            workspace: Arc::clone(&self.workspace),
            command: ShellCommand {
                text,
                directory: location.path().to_owned(),
                environment: self.environment.clone(),
                inactivity: self.inactivity,
                background_after: is_background.then(|| Duration::from_millis(delay)),
                sandbox: self.sandbox.clone(),
            },
            location,
            background: Arc::clone(&self.background),
            description: arguments.text("description")?.map(str::to_owned),
        }))
    }
}

/// A word as the shell must read it to get it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Invocation for Call {
    fn describe(&self) -> String {
        match &self.description {
            Some(description) if self.command.text.chars().nth(TITLE_CHARS).is_some() => description.clone(),
            _ => self.command.text.clone(),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Execute { command: self.command.text.clone(), directory: self.command.directory.clone() }
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            if context.cancel.is_cancelled() {
                let partial = "Command was cancelled by user before it could start.".to_owned();
                return ToolOutcome::Cancelled { partial: Some(partial) };
            }
            let mut command = self.command;
            // The folder may have become a link to somewhere else.
            match self.workspace.admit_again(&self.location) {
                Ok(location) => command.directory = location.path().to_owned(),
                Err(refusal) => {
                    return ToolOutcome::failed(ToolErrorKind::PathNotInWorkspace, refusal.to_string());
                }
            }
            match shell::run(&command, &self.background, &*context.live, &context.cancel).await {
                Ok(ShellEnd::Finished(finished)) => report(&finished, &command),
                Ok(ShellEnd::MovedToBackground { pid }) => moved(pid),
                Err(error) => ToolOutcome::failed(ToolErrorKind::ShellExecuteError, error.to_string()),
            }
        })
    }
}

fn moved(pid: u32) -> ToolOutcome {
    let text = format!("Command moved to background (PID: {pid}). Output hidden. Press Ctrl+B to view.");
    done(&text, Display::Text(text.clone()), None)
}

fn done(text: &str, display: Display, failure: Option<RunFailure>) -> ToolOutcome {
    let parts = vec![Part::text(untrusted::wrapped(text))];
    ToolOutcome::Done(ToolOutput { failure, ..ToolOutput::new(parts, display) })
}

/// Judged by how the process ended, never by what it printed.
fn failure(ending: Ending) -> Option<RunFailure> {
    match ending {
        Ending::Exited(0) | Ending::Cancelled => None,
        Ending::Exited(code) => Some(RunFailure::ExitCode(code)),
        Ending::Signalled(signal) => Some(RunFailure::Signal(signal)),
        Ending::Inactive => Some(RunFailure::TimedOut),
    }
}

/// A finished command in upstream's words.
fn report(finished: &Finished, command: &ShellCommand) -> ToolOutcome {
    let output = finished.output.text();
    match finished.ending {
        Ending::Cancelled => {
            let text = stopped("Command was cancelled by user before it could complete.", &output);
            ToolOutcome::Cancelled { partial: Some(untrusted::wrapped(&text)) }
        }
        Ending::Inactive => {
            let minutes = command.inactivity.unwrap_or_default().as_secs_f64() / 60.0;
            let reason = format!(
                "Command was automatically cancelled because it exceeded the timeout of {minutes:.1} minutes \
                 without output."
            );
            done(&stopped(&reason, &output), Display::Text(reason), failure(finished.ending))
        }
        Ending::Exited(_) | Ending::Signalled(_) => {
            let mut text = lines(finished, &output);
            let failure = failure(finished.ending);
            let sandbox = command.sandbox.as_ref().filter(|_| failure.is_some());
            if let Some(why) = sandbox.and_then(|sandbox| sandbox.explanation(&output)) {
                text.push('\n');
                text.push_str(&why);
            }
            done(&text, display(failure.as_ref(), output), failure)
        }
    }
}

fn stopped(reason: &str, output: &str) -> String {
    if output.is_empty() {
        format!("{reason} There was no output before it was cancelled.")
    } else {
        format!("{reason} Below is the output before it was cancelled:\n{output}")
    }
}

fn lines(finished: &Finished, output: &str) -> String {
    let mut lines = vec![format!("Output: {}", if output.is_empty() { "(empty)" } else { output })];
    match finished.ending {
        Ending::Exited(code) if code != 0 => lines.push(format!("Exit Code: {code}")),
        Ending::Signalled(signal) => lines.push(format!("Signal: {signal}")),
        Ending::Exited(_) | Ending::Cancelled | Ending::Inactive => {}
    }
    if !finished.background_pids.is_empty() {
        let pids: Vec<String> = finished.background_pids.iter().map(u32::to_string).collect();
        lines.push(format!("Background PIDs: {}", pids.join(", ")));
    }
    lines.push(format!("Process Group PGID: {}", finished.pid));
    lines.join("\n")
}

fn display(failure: Option<&RunFailure>, output: String) -> Display {
    if !output.is_empty() {
        return Display::Text(output);
    }
    failure.and_then(RunFailure::without_output).map_or(Display::Nothing, Display::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_so_that_the_shell_keeps_them_apart() {
        let words = ["git", "commit", "-m", "it's $HOME; rm", ""].map(quoted);
        assert_eq!(words.join(" "), r"git commit -m 'it'\''s $HOME; rm' ''");
    }
}
