//! An MCP tool as a tool for the model.

use std::collections::HashSet;
use std::sync::Arc;

use pollux_config::paths::sha256_hex;
use pollux_domain::tool::{
    ArgError, Effect, Invocation, ServerLink, Tool, ToolContext, ToolErrorKind, ToolFailure, ToolKind,
    ToolOutcome, ToolSpec,
};
use pollux_domain::untrusted::sealed;
use pollux_domain::{BoxFuture, JsonObject};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::{Link, ServerConfig};
use crate::offer::{Offer, ToolOffer};
use crate::request::{LiveOutput, RequestError};
use crate::result;
use crate::schema::{self, WAIT};
use crate::server::{Server, ServerUse, SharedContext};

/// A tool as it is declared, for whichever session.
pub(crate) struct DeclaredTool {
    pub(crate) spec: Arc<ToolSpec>,
    /// As it is called on the wire.
    name: String,
    annotations: Option<JsonObject>,
    definition: String,
    /// Whether [`WAIT`] is an argument of the server's own.
    owns_wait: bool,
}

/// A tool of one session.
struct ServerTool {
    declared: Arc<DeclaredTool>,
    server: ServerUse,
}

/// The tools of a server for the session that uses it.
pub(crate) fn of_session(server: &ServerUse) -> Vec<Arc<dyn Tool>> {
    let tools = server.state().tools;
    let tool = |declared: &Arc<DeclaredTool>| -> Arc<dyn Tool> {
        Arc::new(ServerTool { declared: Arc::clone(declared), server: server.clone() })
    };
    tools.iter().map(tool).collect()
}

/// The tools that the filters leave, one for each declared name, in the server's order.
pub(crate) fn kept<'o>(
    config: &ServerConfig,
    common: &SharedContext,
    offer: &'o Offer,
) -> Vec<&'o ToolOffer> {
    let mut names = HashSet::new();
    let through = offer.tools.iter().filter(|tool| config.lets_through(&tool.name));
    through.filter(|tool| names.insert((common.name_tool)(&config.name, &tool.name))).collect()
}

/// What is declared, and lines about what is not.
pub(crate) fn tools(server: &Server, offer: &Offer) -> (Vec<Arc<DeclaredTool>>, Vec<String>) {
    let kept = kept(&server.config, &server.common, offer);
    let is_kept = |tool: &ToolOffer| kept.iter().any(|kept| std::ptr::eq(*kept, tool));
    let lost = offer.tools.iter().filter(|tool| server.config.lets_through(&tool.name) && !is_kept(tool));
    let left_out = lost
        .map(|tool| {
            format!("[skipped] another tool already has the name that `{}` would be declared with", tool.name)
        })
        .collect();
    (kept.iter().map(|tool| declare(server, tool)).collect(), left_out)
}

fn declare(server: &Server, offer: &ToolOffer) -> Arc<DeclaredTool> {
    let own = offer.schema.as_ref().and_then(|schema| schema.get("properties"));
    Arc::new(DeclaredTool {
        spec: Arc::new(ToolSpec {
            name: (server.common.name_tool)(server.name(), &offer.name),
            display_name: format!("{} ({} MCP Server)", offer.name, server.name()),
            description: sealed(&offer.description).into_owned(),
            // Annotations of a server are untrusted; the policy only sees them as hints.
            kind: ToolKind::Other,
            parameters: schema::declared(offer.schema.as_ref()),
            output_is_markdown: false,
            offloads_long_output: true,
        }),
        name: offer.name.clone(),
        annotations: offer.annotations.clone(),
        definition: definition(server, offer),
        owns_wait: own.is_some_and(|own| own.get(WAIT).is_some()),
    })
}

/// A hash of what a person sees and agrees to, whatever order the server writes it in, and of whom the calls go to.
fn definition(server: &Server, offer: &ToolOffer) -> String {
    let annotations = offer.annotations.clone().map_or(Value::Null, Value::Object);
    let schema = offer.schema.clone().unwrap_or(Value::Null);
    let link = match &server.config.link {
        Link::Stdio { command, args, cwd, .. } => json!([command, args, cwd]),
        Link::Http { url, .. } | Link::Sse { url, .. } => json!([url]),
        Link::Client(_) => Value::Null,
    };
    let common = &server.common;
    let place = common.owners.is_of_project(server.name()).then_some(&common.directory);
    let mut all = json!([offer.name, offer.description, schema, annotations, link, place]);
    all.sort_all_objects();
    sha256_hex(all.to_string().as_bytes())
}

impl Tool for ServerTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.declared.spec
    }

    fn server(&self) -> Option<&str> {
        Some(self.server.name())
    }

    fn server_link(&self) -> Option<ServerLink> {
        let link = ServerLink { tool: self.declared.name.clone(), ..ServerLink::default() };
        Some(match &self.server.config.link {
            Link::Stdio { command, args, cwd, .. } => {
                ServerLink { command: Some(command.clone()), args: args.clone(), cwd: cwd.clone(), ..link }
            }
            Link::Http { url, .. } | Link::Sse { url, .. } => ServerLink { url: Some(url.clone()), ..link },
            Link::Client(_) => link,
        })
    }

    fn definition(&self) -> Option<&str> {
        Some(&self.declared.definition)
    }

    fn annotations(&self) -> Option<&JsonObject> {
        self.declared.annotations.as_ref()
    }

    fn unavailable(&self) -> Option<String> {
        self.server.state().recalled.then(|| self.server.absence()).flatten()
    }

    fn available<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async { drop(self.server.ready(cancel).await) })
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let mut args = args.clone();
        if !self.declared.owns_wait {
            args.shift_remove(WAIT);
        }
        Ok(Box::new(ServerCall { server: self.server.clone(), declared: Arc::clone(&self.declared), args }))
    }
}

/// Sends a call and waits for the answer.
pub(crate) async fn call(
    server: &ServerUse,
    tool: &str,
    args: JsonObject,
    cancel: &CancellationToken,
    live: Option<&LiveOutput>,
) -> Result<Value, RequestError> {
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    server.request(request, cancel, live).await
}

struct ServerCall {
    server: ServerUse,
    /// What the call was judged by.
    declared: Arc<DeclaredTool>,
    args: JsonObject,
}

impl ServerCall {
    /// Why an allowed call is not made: the tool's definition has changed.
    async fn changed(&self, context: &ToolContext) -> Option<String> {
        let state = self.server.ready(&context.cancel).await;
        state.peer.as_ref()?;
        let now = state.tools.iter().find(|tool| tool.spec.name == self.declared.spec.name);
        let (tool, server) = (&self.declared.name, self.server.name());
        match now.map(|tool| tool.definition == self.declared.definition) {
            Some(true) => None,
            Some(false) => Some(format!(
                "MCP tool '{tool}' was not called: server '{server}' has changed its definition since it was \
                 declared. Call it again if its new declaration still fits."
            )),
            None => Some(format!("MCP tool '{tool}' was not called: server '{server}' no longer offers it.")),
        }
    }
}

impl Invocation for ServerCall {
    fn describe(&self) -> String {
        let args = Value::Object(self.args.clone()).to_string();
        args.chars().take(2000).collect()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            if let Some(why) = self.changed(context).await {
                return ToolOutcome::failed(ToolErrorKind::McpToolError, why);
            }
            let (args, live, tool) = (self.args.clone(), Some(&context.live), &self.declared.name);
            match call(&self.server, tool, args, &context.cancel, live).await {
                Ok(answer) => result::outcome(tool, &self.args, &answer),
                Err(RequestError::Cancelled) => ToolOutcome::Cancelled { partial: None },
                Err(error) => ToolOutcome::Failed(ToolFailure {
                    kind: ToolErrorKind::McpToolError,
                    message: format!("MCP tool '{tool}' could not be called: {}", sealed(&error.to_string())),
                    display: Some(format!("Error: {error}")),
                }),
            }
        })
    }
}
