//! The tools `list_background_processes` and `read_background_output`.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_exec::background::{Background, BackgroundProcess, LogTail, read_log_tail};
use pollux_exec::shell::Ending;
use serde_json::json;

use crate::arguments::Arguments;
use crate::file_scope::at_once;
use crate::untrusted;

/// Upstream's value.
const DEFAULT_LINES: u64 = 100;
const MOST_DELAY_MS: u64 = 60_000;

/// The tool that lists.
pub(crate) struct ListBackgroundProcesses {
    spec: Arc<ToolSpec>,
    background: Arc<Background>,
}

/// The tool that reads.
pub(crate) struct ReadBackgroundOutput {
    spec: Arc<ToolSpec>,
    background: Arc<Background>,
}

struct List(Arc<Background>);

struct Read {
    background: Arc<Background>,
    pid: u64,
    lines: u64,
    delay: Duration,
}

impl ListBackgroundProcesses {
    pub(crate) fn new(background: Arc<Background>) -> Self {
        let spec = ToolSpec {
            name: "list_background_processes".to_owned(),
            display_name: "List Background Processes".to_owned(),
            description:
                "Lists the commands that were started in the background in this session: their process \
                ids, and whether they still run."
                    .to_owned(),
            kind: ToolKind::Read,
            parameters: json!({
                "type": "object",
                "properties": {
                    "wait_for_previous": {
                        "type": "boolean",
                        "description": "Start only after the calls before this one are done."
                    }
                }
            }),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), background }
    }
}

impl Tool for ListBackgroundProcesses {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, _: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        Ok(Box::new(List(Arc::clone(&self.background))))
    }
}

impl Invocation for List {
    fn describe(&self) -> String {
        "Listing background processes".to_owned()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let lines: Vec<String> = self.0.list().iter().map(line).collect();
            let text =
                if lines.is_empty() { "No background processes found.".to_owned() } else { lines.join("\n") };
            ToolOutcome::text(text.clone(), Display::Text(text))
        })
    }
}

fn line(process: &BackgroundProcess) -> String {
    let (state, details) = match process.ending {
        None => ("RUNNING", String::new()),
        Some(Ending::Exited(code)) => ("EXITED", format!(" (Exit Code: {code})")),
        Some(Ending::Signalled(signal)) => ("EXITED", format!(" (Signal: {signal})")),
        Some(Ending::Cancelled | Ending::Inactive) => ("EXITED", String::new()),
    };
    format!("- [PID {}] {state}: `{}`{details}", process.pid, process.command)
}

impl ReadBackgroundOutput {
    pub(crate) fn new(background: Arc<Background>) -> Self {
        let spec = ToolSpec {
            name: "read_background_output".to_owned(),
            display_name: "Read Background Output".to_owned(),
            description: "Returns the last lines that a background command printed.".to_owned(),
            kind: ToolKind::Read,
            parameters: json!({
                "type": "object",
                "properties": {
                    "pid": {
                        "type": "integer",
                        "description": "The process id, as reported when the command was started."
                    },
                    "lines": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How many lines from the end; 100 by default."
                    },
                    "delay_ms": {
                        "type": "integer",
                        "description": "How long to wait before reading."
                    },
                    "wait_for_previous": {
                        "type": "boolean",
                        "description": "Start only after the calls before this one are done."
                    }
                },
                "required": ["pid"]
            }),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), background }
    }
}

impl Tool for ReadBackgroundOutput {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let pid = arguments
            .number("pid", 0)?
            .ok_or_else(|| ArgError("params must have required property 'pid'".to_owned()))?;
        Ok(Box::new(Read {
            background: Arc::clone(&self.background),
            pid,
            lines: arguments.number("lines", 1)?.unwrap_or(DEFAULT_LINES),
            delay: Duration::from_millis(arguments.number("delay_ms", 0)?.unwrap_or(0).min(MOST_DELAY_MS)),
        }))
    }
}

impl Invocation for Read {
    fn describe(&self) -> String {
        format!("Reading output of background process {}", self.pid)
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            if !self.delay.is_zero() {
                tokio::select! {
                    () = context.cancel.cancelled() => return ToolOutcome::Cancelled { partial: None },
                    () = tokio::time::sleep(self.delay) => {}
                }
            }
            at_once(|| self.read())
        })
    }
}

impl Read {
    fn read(&self) -> ToolOutcome {
        let Some(process) = u32::try_from(self.pid).ok().and_then(|pid| self.background.find(pid)) else {
            let message = format!("Background process history lookup failed for PID {}", self.pid);
            return ToolOutcome::failed(ToolErrorKind::ExecutionFailed, message);
        };
        match read_log_tail(&process.log, usize::try_from(self.lines).unwrap_or(usize::MAX)) {
            Ok(tail) => present(&tail),
            Err(error) => {
                let message = format!("Could not read the log of background process {}: {error}", self.pid);
                ToolOutcome::failed(ToolErrorKind::ExecutionFailed, message)
            }
        }
    }
}

fn present(tail: &LogTail) -> ToolOutcome {
    let body = tail.lines.join("\n");
    if body.is_empty() {
        let text = "Log is empty.".to_owned();
        return ToolOutcome::text(text.clone(), Display::Text(text));
    }
    let text = if tail.is_partial {
        format!("Showing last {} of {} lines:\n{body}", tail.lines.len(), tail.total_lines)
    } else {
        format!("Full Log Output:\n{body}")
    };
    ToolOutcome::text(untrusted::wrapped(&text), Display::Text(text))
}
