//! One session: a child, and the prompts it is given one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_front::rpc::Peer;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::approval;

/// How long a cancelled turn may take to end.
const CANCELLING: Duration = Duration::from_secs(5);
/// How long a session may take to end. On a busy machine, a cancelled turn takes a while to be recorded.
const LEAVING: Duration = Duration::from_secs(5);

/// A session that takes prompts.
pub(crate) struct Session {
    id: String,
    directory: PathBuf,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// A call of the client that waits for its result.
pub(crate) struct Caller {
    pub(crate) client: Peer,
    /// The client can ask a person.
    pub(crate) has_forms: bool,
    /// Names the call in reports of its progress, if the client wants them.
    pub(crate) progress: Option<Value>,
    pub(crate) cancelled: CancellationToken,
    /// Cancelled when the client is gone.
    pub(crate) gone: CancellationToken,
    pub(crate) deadline: Option<Instant>,
}

/// How a prompt ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) text: String,
    pub(crate) stop_reason: &'static str,
    /// What went wrong.
    pub(crate) error: Option<String>,
    pub(crate) files_changed: Vec<String>,
    pub(crate) usage: Value,
    /// What a tool answered that was called without the model, and whether it failed.
    pub(crate) answer: Option<(String, bool)>,
}

impl Session {
    /// Starts a session and waits until it takes prompts.
    pub(crate) async fn open(mut command: Command, directory: &Path) -> Result<Self, String> {
        let mut child = command.spawn().map_err(|error| format!("could not start Pollux: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("could not start Pollux".to_owned());
        };
        let mut session = Self {
            id: String::new(),
            directory: directory.to_owned(),
            child,
            input,
            output: BufReader::new(output).lines(),
        };
        let mut problem = "Pollux ended before the session was open".to_owned();
        while let Some(event) = session.next().await {
            match kind(&event) {
                "READY" => {
                    text(&event, "sessionId").clone_into(&mut session.id);
                    return Ok(session);
                }
                "ERROR" => text(&event, "message").clone_into(&mut problem),
                _ => {}
            }
        }
        Err(problem)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Changes the approval mode.
    pub(crate) async fn set_mode(&mut self, mode: ApprovalMode) -> Result<(), String> {
        self.send(&json!({"type": "set", "mode": mode.to_string()})).await?;
        while let Some(event) = self.next().await {
            match kind(&event) {
                "MODE" => return Ok(()),
                "ERROR" => return Err(text(&event, "message").to_owned()),
                _ => {}
            }
        }
        Err(GONE.to_owned())
    }

    /// Runs a prompt until its end; `Err` if the session is gone.
    pub(crate) async fn prompt(&mut self, prompt: &str, caller: &Caller) -> Result<Ended, String> {
        self.run(&json!({"type": "message", "content": prompt}), caller).await
    }

    /// Runs a tool without the model; `Err` if the session is gone.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: &JsonObject,
        caller: &Caller,
    ) -> Result<Ended, String> {
        self.run(&json!({"type": "call", "name": tool, "args": arguments}), caller).await
    }

    /// The declarations of the tools.
    pub(crate) async fn declarations(&mut self) -> Result<Vec<Value>, String> {
        self.send(&json!({"type": "describe", "declarations": true})).await?;
        while let Some(mut event) = self.next().await {
            if kind(&event) == "ERROR" {
                return Err(text(&event, "message").to_owned());
            }
            if let Some(Value::Array(declarations)) = event.get_mut("declarations").map(Value::take) {
                return Ok(declarations);
            }
        }
        Err(GONE.to_owned())
    }

    async fn run(&mut self, message: &Value, caller: &Caller) -> Result<Ended, String> {
        self.send(message).await?;
        let mut turn = Turn::default();
        let mut questions: JoinSet<Value> = JoinSet::new();
        let mut steps = 0;
        // Why the turn is being cancelled, and until when it may go on.
        let mut stopping: Option<(&'static str, Instant)> = None;
        loop {
            tokio::select! {
                biased;
                () = caller.gone.cancelled() => return Err(GONE.to_owned()),
                why = caller.stopped(), if stopping.is_none() => {
                    stopping = Some((why, Instant::now() + CANCELLING));
                    self.send(&json!({"type": "interrupt"})).await?;
                }
                () = sleep_until(stopping.map(|(_, until)| until)) => {
                    return Err("the session did not stop and was ended".to_owned());
                }
                Some(answer) = questions.join_next() => {
                    if let Ok(answer) = answer {
                        self.send(&answer).await?;
                    }
                }
                line = self.output.next_line() => {
                    let Some(event) = parsed(line) else { return Err(GONE.to_owned()) };
                    match kind(&event) {
                        "APPROVAL" => {
                            let client = caller.has_forms.then(|| caller.client.clone());
                            questions.spawn(async move { approval::answer(client.as_ref(), &event).await });
                        }
                        "RESULT" => return Ok(turn.end(&event, stopping.map(|(why, _)| why))),
                        _ => if let Some(step) = turn.take(&event, &self.directory) {
                            steps += 1;
                            caller.report(steps, &step);
                        },
                    }
                }
            }
        }
    }

    /// Ends the session.
    pub(crate) async fn close(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        if tokio::time::timeout(LEAVING, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await.map_err(|_| GONE.to_owned())
    }

    async fn next(&mut self) -> Option<Value> {
        parsed(self.output.next_line().await)
    }
}

/// What is known of a running turn.
#[derive(Debug, Default)]
struct Turn {
    /// What the model said since its last call.
    text: String,
    /// Files that running calls would change, by their ids.
    editing: BTreeMap<String, String>,
    changed: Vec<String>,
    problem: Option<String>,
    answer: Option<(String, bool)>,
}

impl Turn {
    /// Takes an event; returns a line about it if it is a step that a person would want to see.
    fn take(&mut self, event: &Value, directory: &Path) -> Option<String> {
        match kind(event) {
            "MESSAGE" if text(event, "role") == "assistant" => self.text.push_str(text(event, "content")),
            "TOOL_USE" => {
                self.text.clear();
                let (name, params) = (text(event, "toolName"), event.get("params").unwrap_or(&Value::Null));
                let file =
                    Some(text(params, "file_path")).filter(|_| matches!(name, "write_file" | "replace"));
                if let Some(file) = file.filter(|file| !file.is_empty()) {
                    let file = directory.join(file).display().to_string();
                    self.editing.insert(text(event, "callId").to_owned(), file);
                }
                let about = ["command", "file_path", "dir_path", "pattern", "query", "url", "prompt"];
                let about = about.into_iter().map(|name| text(params, name)).find(|text| !text.is_empty());
                let about = about.unwrap_or_default().lines().next().unwrap_or_default();
                return Some(format!("{name} {about}").trim().to_owned());
            }
            "TOOL_RESULT" => {
                let file = self.editing.remove(text(event, "callId"));
                if let Some(file) =
                    file.filter(|file| text(event, "status") == "success" && !self.changed.contains(file))
                {
                    self.changed.push(file);
                }
            }
            "CALL_RESULT" => {
                let failed = text(event, "status") != "success";
                self.answer = Some((text(event, "output").to_owned(), failed));
            }
            "ERROR" => self.problem = Some(text(event, "message").to_owned()),
            _ => {}
        }
        None
    }

    fn end(self, result: &Value, stopped: Option<&'static str>) -> Ended {
        let success = result.get("success").and_then(Value::as_bool).unwrap_or_default();
        let stop_reason = stopped.unwrap_or(if success { "end_turn" } else { "error" });
        let said = result.get("error").map(|error| text(error, "message").to_owned());
        let error = (stop_reason == "error").then(|| {
            said.filter(|said| !said.is_empty())
                .or(self.problem)
                .unwrap_or_else(|| "the turn failed".to_owned())
        });
        Ended {
            text: self.text,
            stop_reason,
            error,
            files_changed: self.changed,
            usage: result.get("stats").cloned().unwrap_or_else(|| Value::Object(Map::new())),
            answer: self.answer,
        }
    }
}

impl Caller {
    /// Waits until the client cancels the call or its time is over, and says which.
    async fn stopped(&self) -> &'static str {
        tokio::select! {
            () = self.cancelled.cancelled() => "cancelled",
            () = sleep_until(self.deadline) => "timeout",
        }
    }

    /// Does something before the prompt is sent, unless the call is stopped.
    pub(crate) async fn before<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(GONE.to_owned()),
            why = self.stopped() => Err(format!("{why} before the session was open")),
            done = work => done,
        }
    }

    /// Reports a step, if the client wants to know.
    fn report(&self, steps: u64, line: &str) {
        if let Some(token) = &self.progress {
            let params = json!({"progressToken": token, "progress": steps, "message": line});
            self.client.notify("notifications/progress", params);
        }
    }
}

pub(crate) const GONE: &str = "the session has ended";

/// Waits until then; without a time, for good.
async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn parsed(line: std::io::Result<Option<String>>) -> Option<Value> {
    // A line that is not JSON would be a fault of this program; without it the turn still ends.
    Some(serde_json::from_str(&line.ok()??).unwrap_or_default())
}

fn kind(event: &Value) -> &str {
    text(event, "type")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_with_its_last_words_and_the_files_that_changed() {
        let mut turn = Turn::default();
        let directory = Path::new("/p");
        let mut take = |event: Value| turn.take(&event, directory);
        let said = |content: &str| json!({"type": "MESSAGE", "role": "assistant", "content": content});
        let edit = |call: &str, file: &str| {
            json!({"type": "TOOL_USE", "toolName": "write_file", "callId": call,
                                                   "params": {"file_path": file, "content": "x"}})
        };
        let done =
            |call: &str, status: &str| json!({"type": "TOOL_RESULT", "callId": call, "status": status});
        take(said("I will write it."));
        assert_eq!(take(edit("1", "a.txt")).as_deref(), Some("write_file a.txt"));
        take(done("1", "success"));
        take(edit("2", "/p/b.txt"));
        take(done("2", "error"));
        take(said("It is "));
        take(said("done."));
        let ended = turn.end(&json!({"type": "RESULT", "success": true, "stats": {"tokens": 1}}), None);
        assert_eq!((ended.text.as_str(), ended.stop_reason), ("It is done.", "end_turn"));
        assert_eq!((ended.files_changed, ended.error), (vec!["/p/a.txt".to_owned()], None));
    }

    #[test]
    fn a_failed_turn_says_why() {
        let failed = json!({"success": false, "error": {"type": "X", "message": "no key"}});
        let ended = Turn::default().end(&failed, None);
        assert_eq!((ended.stop_reason, ended.error.as_deref()), ("error", Some("no key")));
        let ended = Turn::default().end(&failed, Some("timeout"));
        assert_eq!((ended.stop_reason, ended.error), ("timeout", None));
    }
}
