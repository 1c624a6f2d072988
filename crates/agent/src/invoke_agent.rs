//! `invoke_agent`: delegates a task to a sub-agent.
//!
//! A sub-agent is a [`Session`](crate::session::Session) of its own: the same loop with another prompt, other tools,
//! another record and another end. `executor.rs` runs one, and `session.rs` makes its session.

mod complete_task;
mod executor;
mod remote;
mod session;
mod texts;
mod toolset;

use std::sync::Arc;

use pollux_domain::tool::{ArgError, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSpec};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_extend::agents::{Definition, Kind, same_name};
use serde_json::{Value, json};

use crate::subagent_host::Host;

const NAME: &str = "invoke_agent";

const DESCRIPTION: &str = "Delegates a task to another agent, waits for it, and returns its report. The agents and what they \
are for are listed in your instructions. The agent sees nothing of this conversation: the prompt must contain the whole \
task, with the paths, facts and limits that matter.";

/// Characters of a prompt shown to the user.
const SHOWN: usize = 80;

struct InvokeAgent {
    spec: Arc<ToolSpec>,
    host: Arc<Host>,
    /// The agent called by its own name, as in older conversations.
    bound: Option<String>,
}

/// The tool, plus one alias per agent for older conversations. Empty without agents.
pub(crate) fn forms(host: &Arc<Host>) -> Vec<Arc<dyn Tool>> {
    let names: Vec<String> = host.port.registry.enabled().map(|agent| agent.name.clone()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let spec = Arc::new(ToolSpec {
        name: NAME.to_owned(),
        display_name: "Invoke Subagent".to_owned(),
        description: DESCRIPTION.to_owned(),
        kind: ToolKind::Agent,
        parameters: json!({
            "type": "object",
            "properties": {
                "agent_name": {"type": "string", "description": "The name of the agent."},
                "prompt": {"type": "string", "description": "The whole task, and everything the agent has to know."},
                "wait_for_previous": {
                    "type": "boolean",
                    "description": "Wait for the calls before this one instead of running in parallel with them.",
                },
            },
            "required": ["agent_name", "prompt"],
        }),
        output_is_markdown: true,
        offloads_long_output: true,
    });
    let form = |bound| -> Arc<dyn Tool> {
        Arc::new(InvokeAgent { spec: Arc::clone(&spec), host: Arc::clone(host), bound })
    };
    std::iter::once(None).chain(names.into_iter().map(Some)).map(form).collect()
}

impl InvokeAgent {
    fn find(&self, name: &str) -> Option<&Arc<Definition>> {
        self.host.port.registry.find(name)
    }
}

impl Tool for InvokeAgent {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn answers_to(&self, name: &str) -> bool {
        self.bound.as_ref().is_some_and(|agent| same_name(agent, name))
    }

    fn modernised(&self, args: &JsonObject) -> Option<JsonObject> {
        let mut rest = args.clone();
        let named = rest.shift_remove("agent_name");
        let named = named.as_ref().and_then(Value::as_str).or(self.bound.as_deref())?;
        // Rules use the registered name of an agent.
        let name = self.find(named).map_or(named, |agent| &agent.name).to_owned();
        let prompt = match rest.get("prompt") {
            Some(prompt) => prompt.clone(),
            // Older conversations used individual inputs per agent.
            None => {
                rest.shift_remove("wait_for_previous");
                match rest.values().collect::<Vec<_>>().as_slice() {
                    [] => return None,
                    [Value::String(only)] => json!(only),
                    _ => json!(Value::Object(rest.clone()).to_string()),
                }
            }
        };
        let mut modern =
            JsonObject::from_iter([("agent_name".to_owned(), json!(name)), ("prompt".to_owned(), prompt)]);
        if let Some(wait) = args.get("wait_for_previous") {
            modern.insert("wait_for_previous".to_owned(), wait.clone());
        }
        (modern != *args).then_some(modern)
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, prompt) = (text("agent_name"), text("prompt"));
        let Some(definition) = self.find(name) else {
            let known: Vec<&str> =
                self.host.port.registry.enabled().map(|agent| agent.name.as_str()).collect();
            return Err(ArgError(format!("Subagent '{name}' not found. Available: {}.", known.join(", "))));
        };
        if prompt.trim().is_empty() {
            return Err(ArgError("The prompt is empty: the agent needs a task.".to_owned()));
        }
        Ok(Box::new(Call {
            host: Arc::clone(&self.host),
            definition: Arc::clone(definition),
            prompt: prompt.to_owned(),
        }))
    }
}

struct Call {
    host: Arc<Host>,
    definition: Arc<Definition>,
    prompt: String,
}

impl Invocation for Call {
    fn describe(&self) -> String {
        let line = self.prompt.lines().next().unwrap_or_default();
        let short: String = line.chars().take(SHOWN).collect();
        let more = if short.len() < self.prompt.len() { "…" } else { "" };
        format!("{}: {short}{more}", self.definition.name)
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Self { host, definition, prompt } = *self;
            match &definition.kind {
                Kind::Local(local) => executor::run(&host, &definition, local, &prompt, context).await,
                Kind::Remote(_) => remote::run(&host, &definition, &prompt, context).await,
            }
        })
    }
}
