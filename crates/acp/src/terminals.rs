//! Commands in terminals of the editor, where the user can watch and stop them.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::id::CallId;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminals::{ClientCommand, ClientCommandEnd, ClientEnding, ClientTerminals};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use pollux_front::rpc::Answer;

/// Bytes of output that the editor keeps.
const MAX_OUTPUT: usize = 1 << 20;
const MAX_KEPT: usize = 256;
/// The code of an error for an unknown method.
const NO_SUCH_METHOD: i64 = -32_601;
/// What a shell returns for a command that it could not run.
const NOT_RUN: i32 = 126;
/// How long the editor may take for anything but the command itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// The terminals of the editor of one session.
pub(crate) struct EditorTerminals {
    client: Client,
    /// Known when the session is open.
    pub(crate) session: OnceLock<String>,
    /// The terminals of calls that run or have ended.
    of_calls: Mutex<HashMap<CallId, String>>,
}

impl EditorTerminals {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, session: OnceLock::new(), of_calls: Mutex::default() }
    }

    /// The terminal of a call, as content of the call.
    pub(crate) fn content(&self, call: &CallId) -> Option<Value> {
        let id = self.of_calls.locked().get(call).cloned()?;
        Some(json!({"type": "terminal", "terminalId": id}))
    }

    fn keep(&self, call: &CallId, id: &str) {
        let mut of_calls = self.of_calls.locked();
        // Calls of sub-agents are never shown, and not forgotten one by one.
        if of_calls.len() >= MAX_KEPT {
            of_calls.clear();
        }
        of_calls.insert(call.clone(), id.to_owned());
    }

    /// Nothing more is said about a call.
    pub(crate) fn forget(&self, call: &CallId) {
        self.of_calls.locked().remove(call);
    }

    async fn ask(&self, what: &str, mut params: Value) -> Option<Answer> {
        let session = self.session.get()?;
        params.as_object_mut()?.insert("sessionId".to_owned(), session.as_str().into());
        Some(self.client.request(&format!("terminal/{what}"), params).await)
    }

    /// The same for what takes no time.
    async fn ask_shortly(&self, what: &str, params: Value) -> Option<Value> {
        let answer = tokio::time::timeout(PATIENCE, self.ask(what, params)).await;
        answer.ok().flatten()?.ok()
    }
}

impl ClientTerminals for EditorTerminals {
    fn run<'a>(
        &'a self,
        command: ClientCommand<'a>,
        shown: &'a (dyn Fn() + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ClientCommandEnd>> {
        Box::pin(async move {
            let variables = [("GEMINI_CLI", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];
            let variables = variables.map(|(name, value)| json!({"name": name, "value": value}));
            let asked = json!({
                "command": "bash",
                "args": ["-c", command.text],
                "env": variables,
                "cwd": command.directory.to_str()?,
                "outputByteLimit": MAX_OUTPUT,
            });
            // The editor may ask its user first.
            let created = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Some(ClientCommandEnd { output: String::new(), ending: ClientEnding::Cancelled });
                }
                created = self.ask("create", asked) => created?,
            };
            let id = match created {
                Ok(created) => created.get("terminalId").and_then(Value::as_str).map(str::to_owned),
                // It has none after all.
                Err(error) if error.get("code").and_then(Value::as_i64) == Some(NO_SUCH_METHOD) => {
                    return None;
                }
                Err(_) => None,
            };
            // Run here instead, the command would run against the editor's wish, or twice.
            let Some(id) = id else {
                let output = "The editor did not open a terminal, so the command did not run.".to_owned();
                return Some(ClientCommandEnd { output, ending: ClientEnding::Exited(NOT_RUN) });
            };
            // Also when this future is dropped.
            let _released = Released { terminals: self, id: &id };
            self.keep(command.call, &id);
            shown();
            let exited = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                exited = self.ask("wait_for_exit", json!({"terminalId": id})) => Some(exited?),
            };
            let ending = match exited {
                None => {
                    self.ask_shortly("kill", json!({"terminalId": id})).await;
                    ClientEnding::Cancelled
                }
                Some(answer) => ending(answer.ok().as_ref()),
            };
            let output = self.ask_shortly("output", json!({"terminalId": id})).await;
            Some(ClientCommandEnd { output: text(output.as_ref()), ending })
        })
    }
}

fn ending(answer: Option<&Value>) -> ClientEnding {
    let code = answer.and_then(|answer| answer.get("exitCode")).and_then(Value::as_i64);
    match code.and_then(|code| i32::try_from(code).ok()) {
        Some(code) => ClientEnding::Exited(code),
        None => ClientEnding::Killed,
    }
}

/// What was printed, with a word about what is missing.
fn text(answer: Option<&Value>) -> String {
    let output = answer.and_then(|answer| answer.get("output")).and_then(Value::as_str).unwrap_or_default();
    let cut = answer.and_then(|answer| answer.get("truncated")).and_then(Value::as_bool) == Some(true);
    let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT));
    let end = output.get(from..).unwrap_or_default();
    if cut || from > 0 { format!("[earlier output omitted]\n{end}") } else { end.to_owned() }
}

/// Gives a terminal back to the editor, which goes on showing it.
struct Released<'a> {
    terminals: &'a EditorTerminals,
    id: &'a str,
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        let Some(session) = self.terminals.session.get() else { return };
        let params = json!({"sessionId": session, "terminalId": self.id});
        self.terminals.client.request("terminal/release", params).forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_editors_are_read_leniently() {
        assert_eq!(ending(Some(&json!({"exitCode": 3, "signal": null}))), ClientEnding::Exited(3));
        assert_eq!(ending(Some(&json!({"exitCode": null, "signal": "KILL"}))), ClientEnding::Killed);
        assert_eq!(ending(None), ClientEnding::Killed);
        assert_eq!(text(Some(&json!({"output": "a\n", "truncated": false}))), "a\n");
        assert_eq!(text(Some(&json!({"output": "b", "truncated": true}))), "[earlier output omitted]\nb");
        let long = "é".repeat(MAX_OUTPUT);
        assert!(text(Some(&json!({"output": long}))).len() <= MAX_OUTPUT + 30);
        assert_eq!(text(Some(&json!(3))), "");
    }
}
