//! The tool `run_shell_command`: runs a command with bash.
//!
//! Processes and output limits are handled by `pollux_exec`; this module formats the result.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::content::Part;
use pollux_domain::sandbox::{Denial, DenialKind, SandboxReport, Strength, TripwireHit};
use pollux_domain::terminals::{ClientCommand, ClientEnding, ClientTerminals};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, RunFailure, Tool, ToolContext, ToolErrorKind, ToolKind,
    ToolOutcome, ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_exec::background::Background;
use pollux_exec::environment;
use pollux_exec::shell::{self, Ending, Finished, ShellCommand, ShellEnd, StartError};
use pollux_rights::CommandRun;
use pollux_sandbox::Tripped;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::untrusted;
use crate::workspace::{Location, Workspace};
use crate::{SandboxSlot, ToolSetup};

/// How long a background command is watched before it is left alone; upstream's value.
const DEFAULT_DELAY_MS: u64 = 200;
const MOST_DELAY_MS: u64 = 60_000;
/// Longer commands are shown by their description.
const TITLE_CHARS: usize = 150;

/// Beginning and end of long output that screens, reports and the session file get.
const DISPLAY_HEAD_BYTES: usize = 256 << 10;
const DISPLAY_TAIL_BYTES: usize = 768 << 10;

/// The signal that stands for any other way to end.
const KILLED: i32 = 9;

/// The tool.
pub(crate) struct RunShellCommand {
    spec: Arc<ToolSpec>,
    workspace: Arc<Workspace>,
    background: Arc<Background>,
    environment: Vec<(String, String)>,
    inactivity: Option<Duration>,
    sandbox: SandboxSlot,
    client_terminals: Option<Arc<dyn ClientTerminals>>,
}

struct Call {
    workspace: Arc<Workspace>,
    location: Location,
    background: Arc<Background>,
    command: ShellCommand,
    /// Read when the command runs: an approval prompt may have changed it.
    sandbox: SandboxSlot,
    client_terminals: Option<Arc<dyn ClientTerminals>>,
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
            client_terminals: setup.client_terminals.clone(),
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

    /// Older releases sent the command as a list of words.
    fn modernised(&self, args: &JsonObject) -> Option<JsonObject> {
        let words = args.get("command")?.as_array()?;
        let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(quoted)).collect();
        let mut args = args.clone();
        args.insert("command".to_owned(), Value::from(words?.join(" ")));
        Some(args)
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        // No command is refused here. Upstream blocks command substitution at this point; here the policy
        // decides, which analyses the complete command.
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
                sandbox: None,
            },
            sandbox: self.sandbox.clone(),
            client_terminals: self.client_terminals.clone(),
            location,
            background: Arc::clone(&self.background),
            description: arguments.text("description")?.map(str::to_owned),
        }))
    }
}

/// A word, quoted for the shell.
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
            let Some(rights) = self.sandbox.rights() else {
                if let Some(printed) =
                    run_in_client(&command, self.client_terminals.as_deref(), context).await
                {
                    return report(printed, &command, None);
                }
                return match run_once(&command, &self.background, context).await {
                    Ok(ShellEnd::Finished(finished)) => report(finished.into(), &command, None),
                    Ok(ShellEnd::MovedToBackground { pid }) => moved(pid),
                    Err(error) => ToolOutcome::failed(ToolErrorKind::ShellExecuteError, error.to_string()),
                };
            };
            let id = context.call.as_str();
            let run = rights.begin(id, &command.text, &command.directory, &context.cancel);
            confined(run, command, &self.background, context).await
        })
    }
}

/// In a terminal of the program that drives the session, if it has any. Only own processes can be left running.
async fn run_in_client(
    command: &ShellCommand,
    terminals: Option<&dyn ClientTerminals>,
    context: &ToolContext,
) -> Option<Printed> {
    let terminals = terminals.filter(|_| command.background_after.is_none())?;
    let (call, live) = (&context.call, Arc::clone(&context.live));
    let asked = ClientCommand { call, text: &command.text, directory: &command.directory };
    // Tells the front end to look for the terminal.
    let shown = move || live("");
    let end = terminals.run(asked, &shown, &context.cancel).await?;
    let ending = match end.ending {
        ClientEnding::Exited(code) => Ending::Exited(code),
        ClientEnding::Killed => Ending::Signalled(KILLED),
        ClientEnding::Cancelled => Ending::Cancelled,
    };
    Some(Printed { ending, output: end.output, pid: None, background_pids: Vec::new() })
}

/// In the call's terminal, if it has one. A command for the background from the start has nobody to type into it.
async fn run_once(
    command: &ShellCommand,
    background: &Background,
    context: &ToolContext,
) -> Result<ShellEnd, StartError> {
    match context.terminal.as_ref().filter(|_| command.background_after.is_none()) {
        Some(terminal) => shell::run_in_terminal(command, background, terminal, &context.cancel).await,
        None => shell::run(command, background, &*context.live, &context.cancel).await,
    }
}

/// Runs a command in its sandbox, and again if it got the rights that it lacked.
async fn confined(
    mut run: CommandRun,
    mut command: ShellCommand,
    background: &Background,
    context: &ToolContext,
) -> ToolOutcome {
    environment::for_sandbox(&mut command.environment, run.variables());
    loop {
        command.sandbox = Some(run.sandbox());
        let finished = match run_once(&command, background, context).await {
            Ok(ShellEnd::Finished(finished)) => Printed::from(finished),
            Ok(ShellEnd::MovedToBackground { pid }) => return moved(pid),
            Err(error) => return ToolOutcome::failed(ToolErrorKind::ShellExecuteError, error.to_string()),
        };
        for problem in run.take_problems() {
            (context.live)(&format!("\nSandbox: {problem}\n"));
        }
        let failed = matches!(finished.ending, Ending::Exited(code) if code != 0);
        let ended = matches!(finished.ending, Ending::Exited(_));
        if !(ended && run.expand(&finished.output, failed).await) {
            return report(finished, &command, Some(run.finish()));
        }
        (context.live)("\nRunning the command again with the new right.\n");
        context.terminal.iter().for_each(|terminal| terminal.discard_input());
    }
}

/// A finished command with its output as text.
struct Printed {
    ending: Ending,
    output: String,
    /// None in a terminal of the client.
    pid: Option<u32>,
    background_pids: Vec<u32>,
}

impl From<Finished> for Printed {
    fn from(finished: Finished) -> Self {
        let Finished { ending, output, pid, background_pids } = finished;
        Self { ending, output: output.into_text(), pid: Some(pid), background_pids }
    }
}

fn moved(pid: u32) -> ToolOutcome {
    let text = format!("Command moved to background (PID: {pid}). Output hidden. Press Ctrl+B to view.");
    done(text.clone(), Display::Text(text), None)
}

fn done(text: String, display: Display, failure: Option<RunFailure>) -> ToolOutcome {
    let parts = vec![Part::text(untrusted::wrapped_in_place(text))];
    ToolOutcome::Done(ToolOutput { failure, ..ToolOutput::new(parts, display) })
}

/// Determined by how the process ended, never by its output.
fn failure(ending: Ending) -> Option<RunFailure> {
    match ending {
        Ending::Exited(0) | Ending::Cancelled => None,
        Ending::Exited(code) => Some(RunFailure::ExitCode(code)),
        Ending::Signalled(signal) => Some(RunFailure::Signal(signal)),
        Ending::Inactive => Some(RunFailure::TimedOut),
    }
}

/// A finished command in upstream's words.
fn report(finished: Printed, command: &ShellCommand, mut sandbox: Option<SandboxReport>) -> ToolOutcome {
    let tripped = command.sandbox.as_ref().map(|sandbox| sandbox.take_tripped()).unwrap_or_default();
    if let Some(report) = &mut sandbox {
        let hit = |tripped: &Tripped| TripwireHit {
            path: tripped.path.display().to_string(),
            action: tripped.action.as_str().to_owned(),
        };
        report.tripwire = tripped.iter().map(hit).collect();
    }
    let mut outcome = reported(finished, command, sandbox.as_ref(), pollux_sandbox::notice(&tripped));
    if let ToolOutcome::Done(output) = &mut outcome {
        // The user is told as well: a file of theirs was put back or renamed, or a server of theirs cannot be reached.
        let closed = sandbox.as_ref().and_then(closed_ports);
        output.sandbox = sandbox.map(Box::new);
        for line in pollux_sandbox::undone(&tripped).into_iter().chain(closed) {
            output.display = match &output.display {
                Display::Text(text) => Display::Text(format!("{}\n{line}", text.trim_end())),
                _ => Display::Text(line),
            };
        }
    }
    outcome
}

fn reported(
    finished: Printed,
    command: &ShellCommand,
    confined: Option<&SandboxReport>,
    notice: Option<String>,
) -> ToolOutcome {
    let Printed { ending, output, pid, background_pids } = finished;
    match ending {
        Ending::Cancelled => {
            let text = stopped("Command was cancelled by user before it could complete.", output);
            ToolOutcome::Cancelled { partial: Some(untrusted::wrapped_in_place(text)) }
        }
        Ending::Inactive => {
            let minutes = command.inactivity.unwrap_or_default().as_secs_f64() / 60.0;
            let reason = format!(
                "Command was automatically cancelled because it exceeded the timeout of {minutes:.1} minutes \
                 without output."
            );
            done(stopped(&reason, output), Display::Text(reason), failure(ending))
        }
        Ending::Exited(_) | Ending::Signalled(_) => {
            let failure = failure(ending);
            let sandbox = command.sandbox.as_ref().filter(|_| failure.is_some());
            let why = sandbox.and_then(|sandbox| sandbox.explanation(&output));
            let display = display(failure.as_ref(), &output);
            let mut text = output;
            if text.is_empty() {
                text.push_str("(empty)");
            }
            text.insert_str(0, "Output: ");
            let refused = confined.and_then(refused_hosts);
            let more =
                lines(ending, pid, &background_pids).into_iter().chain(why).chain(refused).chain(notice);
            for line in more {
                text.push('\n');
                text.push_str(&line);
            }
            done(text, display, failure)
        }
    }
}

/// A line for the user about servers of this machine that a command looked for.
fn closed_ports(report: &SandboxReport) -> Option<String> {
    // What the proxy refused is certain, and another matter.
    let is_own = |denial: &&Denial| denial.target == "localhost" && denial.strength != Strength::Certain;
    let closed = report.denials.iter().filter(is_own);
    let flags: Vec<String> =
        closed.filter_map(|denial| Some(format!("`--sandbox-allow port:{}`", denial.port?))).collect();
    let text = "Commands have a localhost of their own; this machine's can be reached with";
    (!flags.is_empty()).then(|| format!("{text} {}.", flags.join(" ")))
}

/// A line for the model about connections that the proxy refused.
fn refused_hosts(report: &SandboxReport) -> Option<String> {
    let refused = report.denials.iter().filter(|denial| denial.kind == DenialKind::Connect);
    let targets: Vec<String> = refused
        .map(|denial| format!("{}:{} ({})", denial.target, denial.port.unwrap_or_default(), denial.rule))
        .collect();
    (!targets.is_empty()).then(|| format!("Sandbox: refused connections to {}", targets.join(", ")))
}

fn stopped(reason: &str, mut output: String) -> String {
    if output.is_empty() {
        return format!("{reason} There was no output before it was cancelled.");
    }
    output.insert_str(0, &format!("{reason} Below is the output before it was cancelled:\n"));
    output
}

fn lines(ending: Ending, pid: Option<u32>, background_pids: &[u32]) -> Vec<String> {
    let mut lines = Vec::new();
    match ending {
        Ending::Exited(code) if code != 0 => lines.push(format!("Exit Code: {code}")),
        Ending::Signalled(signal) => lines.push(format!("Signal: {signal}")),
        Ending::Exited(_) | Ending::Cancelled | Ending::Inactive => {}
    }
    if !background_pids.is_empty() {
        let pids: Vec<String> = background_pids.iter().map(u32::to_string).collect();
        lines.push(format!("Background PIDs: {}", pids.join(", ")));
    }
    lines.extend(pid.map(|pid| format!("Process Group PGID: {pid}")));
    lines
}

/// The start and the end of long output, for display. The model can read all of it in a file.
fn shown(output: &str) -> String {
    let head = output.get(..output.floor_char_boundary(DISPLAY_HEAD_BYTES)).unwrap_or_default();
    let tail_at = output.floor_char_boundary(output.len().saturating_sub(DISPLAY_TAIL_BYTES));
    let omitted = tail_at.saturating_sub(head.len());
    if omitted == 0 {
        return output.to_owned();
    }
    let tail = output.get(tail_at..).unwrap_or_default();
    format!("{head}\n... [{omitted} bytes omitted] ...\n{tail}")
}

fn display(failure: Option<&RunFailure>, output: &str) -> Display {
    if !output.is_empty() {
        return Display::Text(shown(output));
    }
    failure.and_then(RunFailure::without_output).map_or(Display::Nothing, Display::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_ends_of_long_output_are_shown() {
        let line = "grün €\n";
        let short = line.repeat(1000);
        assert_eq!(shown(&short), short);
        let long = line.repeat(400_000);
        let cut = shown(&long);
        assert!(cut.len() < (1 << 20) + 100 && cut.contains(" bytes omitted] ..."), "{}", cut.len());
        assert!(cut.starts_with("grün €\n") && cut.ends_with("grün €\n"));
    }

    #[test]
    fn words_are_quoted_so_that_the_shell_keeps_them_apart() {
        let words = ["git", "commit", "-m", "it's $HOME; rm", ""].map(quoted);
        assert_eq!(words.join(" "), r"git commit -m 'it'\''s $HOME; rm' ''");
    }
}
