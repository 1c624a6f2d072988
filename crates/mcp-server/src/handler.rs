//! The protocol: what the server says about itself, and how calls are answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::sync::Locked as _;
use pollux_front::rpc::{Incoming, Peer, RpcError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::program::Program;
use crate::session::{Caller, Ended};
use crate::sessions::{PromptSlots, Sessions};
use crate::tool_session::ToolSession;
use crate::tools::{
    self, MemoryArguments, REPLY, RUN, ReplyArguments, RunArguments, SEARCH_MEMORY, SESSIONS,
    SessionsArguments,
};

/// The versions of the protocol in which a server can ask the client, the newest one first.
pub(crate) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "Pollux is a coding agent. pollux_run gives it a task in a project folder; pollux_reply \
                            continues the session. Calls that the user's rules do not allow are put to the user.";

/// The server of one client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Inner>);

struct Inner {
    program: Arc<Program>,
    sessions: Sessions,
    /// Runs the built-in tools that clients can call.
    built_in: ToolSession,
    client: Peer,
    /// Set by `initialize`.
    is_known: AtomicBool,
    has_forms: AtomicBool,
    /// Requests under way, by their ids as written.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Cancelled when the client is gone.
    gone: CancellationToken,
}

impl Handler {
    pub(crate) fn new(program: Arc<Program>, client: Peer, slots: PromptSlots) -> Self {
        Self(Arc::new(Inner {
            sessions: Sessions::new(Arc::clone(&program), slots),
            built_in: ToolSession::new(Arc::clone(&program)),
            program,
            client,
            is_known: AtomicBool::new(false),
            has_forms: AtomicBool::new(false),
            running: Mutex::default(),
            gone: CancellationToken::new(),
        }))
    }

    /// Serves until the client leaves.
    pub(crate) async fn serve(&self, mut messages: mpsc::Receiver<Incoming>) {
        loop {
            tokio::select! {
                biased;
                () = self.0.client.outbox().client_gone() => return,
                message = messages.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
            }
        }
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        self.0.gone.cancel();
        self.0.client.close();
        tokio::join!(self.0.sessions.close(), self.0.built_in.close());
    }

    fn take(&self, message: Incoming) {
        let client = &self.0.client;
        match message {
            // The protocol has no id that is null.
            Incoming::Bad { id, error } if id == "null" => {
                client.outbox().send(json!({"jsonrpc": "2.0", "error": error.to_json()}).to_string());
            }
            Incoming::Bad { id, error } => client.answer(&id, Err(error)),
            Incoming::Answer { id, result } => client.answered(id, result),
            Incoming::Notification { method, params } => self.notified(&method, &params),
            Incoming::Request { id, method, params } => self.request(id, method, params),
        }
    }

    /// Takes a notification of the client.
    pub(crate) fn notified(&self, method: &str, params: &Value) {
        // Others say nothing that matters here.
        if method == "notifications/cancelled"
            && let Some(id) = params.get("requestId")
        {
            let is_it = |raw: &str| serde_json::from_str::<Value>(raw).is_ok_and(|raw| raw == *id);
            // Without its entry, the request is not answered.
            let mut running = self.0.running.locked();
            running.extract_if(|raw, _| is_it(raw)).for_each(|(_, token)| token.cancel());
        }
    }

    fn request(&self, id: String, method: String, params: Value) {
        let answer = |result| self.0.client.answer(&id, result);
        match method.as_str() {
            "initialize" => return answer(Ok(self.initialize(&params))),
            "ping" => return answer(Ok(json!({}))),
            _ if !self.0.is_known.load(Ordering::Relaxed) => {
                return answer(Err(RpcError::invalid_request("`initialize` must be the first request")));
            }
            _ => {}
        }
        let cancelled = self.begin(&id);
        let handler = self.clone();
        tokio::spawn(async move {
            let client = handler.0.client.clone();
            handler.respond(&id, &method, &params, &client, cancelled).await;
        });
    }

    /// The client of this handler.
    pub(crate) fn client(&self) -> &Peer {
        &self.0.client
    }

    /// Notes a request, so that a cancellation that follows finds it.
    pub(crate) fn begin(&self, id: &str) -> CancellationToken {
        let cancelled = CancellationToken::new();
        self.0.running.locked().insert(id.to_owned(), cancelled.clone());
        cancelled
    }

    /// Carries out a request that was noted, and answers it unless it was cancelled. Questions that it leads to go the
    /// same way.
    pub(crate) async fn respond(
        &self,
        id: &str,
        method: &str,
        params: &Value,
        client: &Peer,
        cancelled: CancellationToken,
    ) {
        let result = self.result_of(method, params, client, cancelled).await;
        if self.0.running.locked().remove(id).is_some() {
            client.answer(id, result);
        }
    }

    pub(crate) fn initialize(&self, params: &Value) -> Value {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let [newest, ..] = VERSIONS;
        let version = VERSIONS.into_iter().find(|version| Some(*version) == asked).unwrap_or(newest);
        let forms = params.pointer("/capabilities/elicitation").is_some_and(has_forms);
        self.0.has_forms.store(forms, Ordering::Relaxed);
        self.0.is_known.store(true, Ordering::Relaxed);
        json!({
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "pollux", "title": "Pollux", "version": env!("CARGO_PKG_VERSION")},
            "instructions": INSTRUCTIONS,
        })
    }

    async fn result_of(
        &self,
        method: &str,
        params: &Value,
        client: &Peer,
        cancelled: CancellationToken,
    ) -> Result<Value, RpcError> {
        match method {
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": self.tools().await})),
            "tools/call" => self.call_tool(params, client, cancelled).await,
            // Some clients ask without looking at the capabilities.
            "prompts/list" => Ok(json!({"prompts": []})),
            "resources/list" => Ok(json!({"resources": []})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            _ => Err(RpcError::no_such_method(method)),
        }
    }

    async fn tools(&self) -> Vec<Value> {
        let program = &self.0.program;
        let memory = program.query(program.directory(), &["memory", "status", "--json"]).await;
        let is_on = memory.is_ok_and(|status| status.get("enabled") == Some(&Value::Bool(true)));
        let mut tools = tools::all(is_on);
        tools.extend_from_slice(self.0.built_in.list().await);
        tools
    }

    async fn call_tool(
        &self,
        params: &Value,
        client: &Peer,
        cancelled: CancellationToken,
    ) -> Result<Value, RpcError> {
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| RpcError::invalid_params("name", "`name` must be a string"))?;
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => JsonObject::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => return Err(RpcError::invalid_params("arguments", "`arguments` must be an object")),
        };
        let token = params.pointer("/_meta/progressToken").filter(|it| it.is_string() || it.is_number());
        let caller = Caller {
            client: client.clone(),
            has_forms: self.0.has_forms.load(Ordering::Relaxed),
            progress: token.cloned(),
            cancelled,
            gone: self.0.gone.clone(),
            deadline: None,
        };
        // Our own tools do not need the session of the built-in ones.
        let has = async { Ok(!name.starts_with("pollux_") && self.0.built_in.has(name).await) };
        let called = match caller.before(has).await {
            Ok(false) => return Ok(result(self.call(name, arguments, caller).await)),
            Ok(true) => self.0.built_in.call(name, &arguments, &caller).await,
            Err(reason) => Err(reason),
        };
        Ok(match called {
            Ok((text, failed)) => plain_result(&text, failed),
            Err(reason) => plain_result(&reason, true),
        })
    }

    async fn call(&self, name: &str, arguments: JsonObject, caller: Caller) -> Result<Value, String> {
        let caller = |timeout: Option<u64>| Caller {
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout))),
            ..caller
        };
        match name {
            RUN => {
                let run: RunArguments = tools::read(arguments)?;
                let caller = caller(run.timeout_ms);
                self.0.sessions.run(run, &caller).await.map(outcome)
            }
            REPLY => {
                let reply: ReplyArguments = tools::read(arguments)?;
                let caller = caller(reply.timeout_ms);
                self.0.sessions.reply(reply, &caller).await.map(outcome)
            }
            SESSIONS => {
                let SessionsArguments { cwd, query } = tools::read(arguments)?;
                let folder = tools::folder(cwd, self.0.program.directory())?;
                let words = match &query {
                    Some(query) => vec!["sessions", "search", "--this-project", "--json", "--", query],
                    None => vec!["sessions", "list", "--json"],
                };
                Ok(json!({"sessions": self.0.program.query(&folder, &words).await?}))
            }
            SEARCH_MEMORY => {
                let MemoryArguments { query, cwd } = tools::read(arguments)?;
                let folder = tools::folder(cwd, self.0.program.directory())?;
                let words = ["memory", "search", "--json", "--", &query];
                Ok(json!({"found": self.0.program.query(&folder, &words).await?}))
            }
            _ => Err(format!("unknown tool `{name}`")),
        }
    }
}

/// Whether a client that can ask a person can show forms; an empty capability means them.
fn has_forms(elicitation: &Value) -> bool {
    elicitation.as_object().is_some_and(|modes| modes.contains_key("form") || !modes.contains_key("url"))
}

/// How a prompt ended, as the result of its call.
fn outcome((session, ended): (String, Ended)) -> Value {
    let Ended { text, stop_reason, error, files_changed, usage, .. } = ended;
    let mut outcome = json!({
        "sessionId": session,
        "text": text,
        "stopReason": stop_reason,
        "filesChanged": files_changed,
        "usage": usage,
    });
    if let (Some(error), Some(fields)) = (error, outcome.as_object_mut()) {
        fields.insert("error".to_owned(), Value::String(error));
    }
    outcome
}

fn plain_result(text: &str, failed: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": failed})
}

fn result(called: Result<Value, String>) -> Value {
    let value = match called {
        Ok(value) => value,
        Err(reason) => return plain_result(&reason, true),
    };
    let field = |name: &str| value.get(name).and_then(Value::as_str);
    // Clients that read no structured content get the answer as text.
    let shown = field("error").or_else(|| field("text")).map_or_else(|| value.to_string(), str::to_owned);
    let failed = field("error").is_some();
    let mut result = plain_result(&shown, failed);
    result["structuredContent"] = value;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_show_forms_are_asked() {
        for forms in [json!({}), json!({"form": {}}), json!({"form": {}, "url": {}})] {
            assert!(has_forms(&forms), "{forms}");
        }
        for none in [json!({"url": {}}), json!(null), json!(true)] {
            assert!(!has_forms(&none), "{none}");
        }
    }
}
