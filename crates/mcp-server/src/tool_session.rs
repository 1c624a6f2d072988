//! The session that runs built-in tools one by one, without a model.

use std::sync::Arc;

use pollux_domain::JsonObject;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use crate::program::Program;
use crate::session::{Caller, GONE, Session};
use crate::tools::{ToolChoice, built_in};

/// Runs built-in tools. The session is opened when it is needed first, in the folder of the server.
pub(crate) struct ToolSession {
    program: Arc<Program>,
    open: Mutex<Option<Session>>,
    /// The tools as clients see them.
    tools: OnceCell<Vec<Value>>,
}

impl ToolSession {
    pub(crate) fn new(program: Arc<Program>) -> Self {
        Self { program, open: Mutex::default(), tools: OnceCell::new() }
    }

    /// The tools as clients see them; none if the session cannot be opened, which its own output explains.
    pub(crate) async fn list(&self) -> &[Value] {
        if *self.program.tools() == ToolChoice::None {
            return &[];
        }
        let declared = async {
            let mut open = self.open.lock().await;
            let declared = self.opened(&mut open).await?.declarations().await?;
            let tools = declared.iter().filter_map(|tool| built_in(tool, self.program.tools()));
            Ok::<_, String>(tools.collect())
        };
        self.tools.get_or_try_init(|| declared).await.map_or(&[], Vec::as_slice)
    }

    /// Whether clients can call a tool of this name.
    pub(crate) async fn has(&self, name: &str) -> bool {
        let is_it = |tool: &Value| tool.get("name").and_then(Value::as_str) == Some(name);
        self.list().await.iter().any(is_it)
    }

    /// Calls a tool; its answer, and whether it failed. Calls run one after the other.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &JsonObject,
        caller: &Caller,
    ) -> Result<(String, bool), String> {
        let mut open = caller.before(async { Ok(self.open.lock().await) }).await?;
        let session = caller.before(self.opened(&mut open)).await?;
        let ended = match session.call(tool, arguments, caller).await {
            Ok(ended) => ended,
            Err(reason) => {
                if let Some(session) = open.take() {
                    session.close().await;
                }
                return Err(reason);
            }
        };
        match ended.answer {
            Some(answer) => Ok(answer),
            None => Err(ended.error.unwrap_or_else(|| format!("the call was {}", ended.stop_reason))),
        }
    }

    async fn opened<'a>(&self, open: &'a mut Option<Session>) -> Result<&'a mut Session, String> {
        if open.is_none() {
            let folder = self.program.directory();
            *open = Some(Session::open(self.program.session(folder, &[]), folder).await?);
        }
        open.as_mut().ok_or_else(|| GONE.to_owned())
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        if let Some(session) = self.open.lock().await.take() {
            session.close().await;
        }
    }
}
