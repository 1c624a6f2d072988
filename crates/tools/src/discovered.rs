//! Tools listed by `tools.discoveryCommand` and run by `tools.callCommand`.

mod declaration;
mod words;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_exec::background::Background;
use pollux_exec::program::{self, Program, ProgramEnd, ProgramEnding};
use pollux_sandbox::Sandbox;
use serde_json::Value;

use crate::SandboxSlot;
use tokio_util::sync::CancellationToken;

pub use words::UnclosedQuote;

/// Upstream's prefix, which policies match on.
const PREFIX: &str = "discovered_tool_";
/// Upstream's number.
const OUTPUT_LIMIT: usize = 10 << 20;
const DISCOVERY_LIMIT: Duration = Duration::from_secs(30);

/// The parameters of discovery. The caller has checked that the commands may run.
#[derive(Clone)]
pub struct DiscoverySetup {
    /// `tools.discoveryCommand`
    pub discovery_command: String,
    /// `tools.callCommand`; without one the tools are listed and fail when called.
    pub call_command: Option<String>,
    pub directory: PathBuf,
    /// The complete environment of both commands; see `pollux_exec::environment::for_command`.
    pub child_env: Vec<(String, String)>,
    pub background: Arc<Background>,
    /// The borders both commands run in.
    pub sandbox: SandboxSlot,
}

/// Why no tools were discovered.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("Tool discovery command is empty or contains only whitespace.")]
    Empty,
    #[error("could not split the tool discovery command `{command}` into words: {source}")]
    Words { command: String, source: UnclosedQuote },
    #[error("could not start the tool discovery command `{command}`: {source}")]
    Start { command: String, source: io::Error },
    // Upstream's words.
    #[error("Tool discovery command failed with exit code {code}{}", shown(stderr))]
    Failed { code: i32, stderr: String },
    #[error("the tool discovery command `{command}` was killed by signal {signal}{}", shown(stderr))]
    Signalled { command: String, signal: i32, stderr: String },
    #[error("the tool discovery command `{command}` did not finish within {} s", DISCOVERY_LIMIT.as_secs())]
    TimedOut { command: String },
    #[error("the tool discovery command printed more than {OUTPUT_LIMIT} bytes")]
    TooMuchOutput,
    #[error("tool discovery was cancelled")]
    Cancelled,
    #[error("the tool discovery command did not print JSON: {source}")]
    NotJson { source: serde_json::Error },
    #[error("Tool discovery command did not return a JSON array of tools.")]
    NotAnArray,
}

fn shown(stderr: &str) -> String {
    let text: String = stderr.trim().chars().filter(|c| !c.is_control() || *c == '\n').take(2000).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Tools that were found, and declarations that cannot be used.
pub struct Discovered {
    pub tools: Vec<Arc<dyn Tool>>,
    /// Why declarations were skipped, for display.
    pub ignored: Vec<String>,
}

/// Runs the discovery command and makes a tool of each declaration.
pub async fn discover(
    setup: &DiscoverySetup,
    cancel: &CancellationToken,
) -> Result<Discovered, DiscoveryError> {
    let command = setup.discovery_command.as_str();
    let named = || command.to_owned();
    let words = words::split(command).map_err(|source| DiscoveryError::Words { command: named(), source })?;
    let Some((first, arguments)) = words.split_first() else { return Err(DiscoveryError::Empty) };
    let program = Program {
        program: first.into(),
        arguments: arguments.to_vec(),
        directory: setup.directory.clone(),
        environment: setup.child_env.clone(),
        input: Vec::new(),
        time_limit: Some(DISCOVERY_LIMIT),
        output_limit: OUTPUT_LIMIT,
        sandbox: setup.sandbox.get(),
    };
    let end = program::run(&program, &setup.background, cancel)
        .await
        .map_err(|source| DiscoveryError::Start { command: named(), source })?;
    let stderr = || String::from_utf8_lossy(&end.stderr).into_owned();
    match end.ending {
        ProgramEnding::Exited(0) => {}
        ProgramEnding::Exited(code) => return Err(DiscoveryError::Failed { code, stderr: stderr() }),
        ProgramEnding::Signalled(signal) => {
            return Err(DiscoveryError::Signalled { command: named(), signal, stderr: stderr() });
        }
        ProgramEnding::TimedOut => return Err(DiscoveryError::TimedOut { command: named() }),
        ProgramEnding::TooMuchOutput => return Err(DiscoveryError::TooMuchOutput),
        ProgramEnding::Cancelled => return Err(DiscoveryError::Cancelled),
    }
    let listed: Value =
        serde_json::from_slice(&end.stdout).map_err(|source| DiscoveryError::NotJson { source })?;
    let Value::Array(listed) = listed else { return Err(DiscoveryError::NotAnArray) };
    Ok(tools(setup, listed))
}

fn tools(setup: &DiscoverySetup, listed: Vec<Value>) -> Discovered {
    let caller = Arc::new(Caller {
        command: setup.call_command.clone().filter(|command| !command.trim().is_empty()),
        directory: setup.directory.clone(),
        environment: setup.child_env.clone(),
        background: Arc::clone(&setup.background),
        sandbox: setup.sandbox.clone(),
    });
    let mut found = Discovered { tools: Vec::new(), ignored: Vec::new() };
    for declaration in declaration::read_all(listed) {
        match declaration {
            Ok(declaration) => {
                let name = format!("{PREFIX}{}", declaration.name);
                if found.tools.iter().any(|tool| tool.spec().name == name) {
                    found
                        .ignored
                        .push(format!("ignoring the discovered tool `{}`: listed twice", declaration.name));
                    continue;
                }
                found.tools.push(Arc::new(DiscoveredTool {
                    spec: Arc::new(ToolSpec {
                        display_name: name.clone(),
                        name,
                        description: description(&declaration.description, &caller, &declaration.name),
                        kind: ToolKind::Other,
                        parameters: declaration.parameters,
                        output_is_markdown: false,
                        offloads_long_output: false,
                    }),
                    name: declaration.name,
                    caller: Arc::clone(&caller),
                }));
            }
            Err(why) => found.ignored.push(why),
        }
    }
    found
}

/// The tool's own description and how it is run: the model should know that it is not built in.
fn description(own: &str, caller: &Caller, name: &str) -> String {
    let command = caller.command.as_deref().unwrap_or("(tools.callCommand is not set)");
    format!(
        "{own}\n\nThis tool comes from the project's discovery command. A call runs `{command} {name}` with the \
         arguments as JSON on stdin and returns its stdout; on failure also stderr, exit code and signal."
    )
}

/// How discovered tools are run.
struct Caller {
    command: Option<String>,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    background: Arc<Background>,
    sandbox: SandboxSlot,
}

struct DiscoveredTool {
    spec: Arc<ToolSpec>,
    /// Without the prefix.
    name: String,
    caller: Arc<Caller>,
}

struct Call {
    name: String,
    caller: Arc<Caller>,
    args: JsonObject,
}

impl Tool for DiscoveredTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let mut args = args.clone();
        // Ours, not the tool's.
        args.shift_remove("wait_for_previous");
        Ok(Box::new(Call { name: self.name.clone(), caller: Arc::clone(&self.caller), args }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        Value::Object(self.args.clone()).to_string()
    }

    fn effect(&self) -> Effect {
        let words: Vec<String> =
            self.words().unwrap_or_default().iter().map(|word| words::quoted(word)).collect();
        Effect::Execute { command: words.join(" "), directory: self.caller.directory.clone() }
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let failed =
                |text: String| ToolOutcome::failed(ToolErrorKind::DiscoveredToolExecutionError, text);
            let program = match self.program() {
                Ok(program) => program,
                Err(why) => return failed(why),
            };
            match program::run(&program, &self.caller.background, &context.cancel).await {
                Ok(end) => outcome(&end, program.sandbox.as_deref()),
                Err(error) => failed(report(b"", b"", Some(&error.to_string()), None, None)),
            }
        })
    }
}

impl Call {
    /// The program and its arguments.
    fn words(&self) -> Result<Vec<String>, String> {
        let command = self.caller.command.as_deref();
        let command =
            command.ok_or_else(|| "could not run the tool: `tools.callCommand` is not set".to_owned())?;
        // Upstream takes the complete text as one program; a path may contain spaces.
        let mut words = if self.caller.directory.join(Path::new(command)).is_file() {
            vec![command.to_owned()]
        } else {
            words::split(command)
                .map_err(|error| format!("could not split `tools.callCommand` into words: {error}"))?
        };
        words.push(self.name.clone());
        Ok(words)
    }

    fn program(&self) -> Result<Program, String> {
        let words = self.words()?;
        let Some((first, arguments)) = words.split_first() else {
            return Err("`tools.callCommand` is empty".to_owned());
        };
        Ok(Program {
            program: first.into(),
            arguments: arguments.to_vec(),
            directory: self.caller.directory.clone(),
            environment: self.caller.environment.clone(),
            input: Value::Object(self.args.clone()).to_string().into_bytes(),
            time_limit: None,
            output_limit: OUTPUT_LIMIT,
            sandbox: self.caller.sandbox.get(),
        })
    }
}

fn outcome(end: &ProgramEnd, sandbox: Option<&Sandbox>) -> ToolOutcome {
    let (error, code, signal) = match end.ending {
        ProgramEnding::Exited(0) if end.stderr.is_empty() => {
            let text = String::from_utf8_lossy(&end.stdout).into_owned();
            return ToolOutcome::text(text.clone(), Display::Text(text));
        }
        ProgramEnding::Cancelled => {
            let partial = String::from_utf8_lossy(&end.stdout).into_owned();
            return ToolOutcome::Cancelled { partial: Some(partial).filter(|text| !text.is_empty()) };
        }
        ProgramEnding::Exited(code) => (None, Some(code), None),
        ProgramEnding::Signalled(signal) => (None, None, Some(signal)),
        ProgramEnding::TimedOut => (Some("the tool took too long"), None, None),
        ProgramEnding::TooMuchOutput => (Some("the tool printed too much"), None, None),
    };
    let mut text = report(&end.stdout, &end.stderr, error, code, signal);
    if let Some(why) = sandbox.and_then(|sandbox| sandbox.explanation(&text)) {
        text.push('\n');
        text.push_str(&why);
    }
    ToolOutcome::failed(ToolErrorKind::DiscoveredToolExecutionError, text)
}

/// Upstream's report of a failed call.
fn report(
    stdout: &[u8],
    stderr: &[u8],
    error: Option<&str>,
    code: Option<i32>,
    signal: Option<i32>,
) -> String {
    let text = |bytes: &[u8]| {
        if bytes.is_empty() { "(empty)".to_owned() } else { String::from_utf8_lossy(bytes).into_owned() }
    };
    let number =
        |number: Option<i32>| number.map_or_else(|| "(none)".to_owned(), |number| number.to_string());
    format!(
        "Stdout: {}\nStderr: {}\nError: {}\nExit Code: {}\nSignal: {}",
        text(stdout),
        text(stderr),
        error.unwrap_or("(none)"),
        number(code),
        number(signal)
    )
}
