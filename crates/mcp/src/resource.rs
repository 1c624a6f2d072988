//! MCP resources: mentioned in prompts, and read by two tools.

use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::untrusted::{sealed, wrapped};
use pollux_domain::{BoxFuture, JsonObject};
use rmcp::model::{ClientRequest, ReadResourceRequest, ReadResourceRequestParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::request::RequestError;
use crate::server::ServerUse;

/// Characters of one resource.
const MAX_TEXT: usize = 2_000_000;
/// Resources that one listing shows.
const MAX_LISTED: usize = 500;

/// The texts of a resource; what is no text is named.
pub(crate) async fn read(
    server: &ServerUse,
    uri: &str,
    cancel: &CancellationToken,
) -> Result<String, RequestError> {
    let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
    let answer = server.request(ClientRequest::ReadResourceRequest(request), cancel, None).await?;
    let contents = answer.get("contents").and_then(Value::as_array).into_iter().flatten();
    let mut text = String::new();
    for content in contents.take(1000) {
        match content.get("text").and_then(Value::as_str) {
            Some(part) => text.extend(part.chars().take(MAX_TEXT.saturating_sub(text.len()))),
            None => {
                let kind =
                    content.get("mimeType").and_then(Value::as_str).unwrap_or("application/octet-stream");
                text.push_str(&format!("[Binary Data ({})]", kind.chars().take(100).collect::<String>()));
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// A resource as parts of a prompt.
pub(crate) fn parts(name: &str, text: &str) -> Vec<Part> {
    vec![Part::text(format!("\nContent from @{}:\n", sealed(name))), Part::text(wrapped(text))]
}

/// The tools; there are none while no server has a resource.
pub(crate) fn tools(servers: &Arc<[ServerUse]>) -> Vec<Arc<dyn Tool>> {
    if servers.iter().all(|server| server.state().offer.resources.is_empty()) {
        return Vec::new();
    }
    let list = json!({"type": "object", "properties": {
        "serverName": {"type": "string", "description": "Only resources of this server."}
    }});
    let read = json!({"type": "object", "required": ["uri"], "properties": {
        "uri": {"type": "string", "description": "The address of the resource, as list_mcp_resources gives it."}
    }});
    let about_list =
        "Lists the resources (documents, records, files) that the connected MCP servers offer, one per line.";
    let about_read = "Reads one resource of an MCP server.";
    vec![
        Arc::new(ResourceTool {
            spec: spec("list_mcp_resources", "List MCP Resources", about_list, list, ToolKind::Search),
            servers: Arc::clone(servers),
        }),
        Arc::new(ResourceTool {
            spec: spec("read_mcp_resource", "Read MCP Resource", about_read, read, ToolKind::Read),
            servers: Arc::clone(servers),
        }),
    ]
}

fn spec(
    name: &str,
    display_name: &str,
    description: &str,
    parameters: Value,
    kind: ToolKind,
) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        display_name: display_name.to_owned(),
        description: description.to_owned(),
        kind,
        parameters,
        output_is_markdown: false,
        offloads_long_output: true,
    })
}

struct ResourceTool {
    spec: Arc<ToolSpec>,
    servers: Arc<[ServerUse]>,
}

impl Tool for ResourceTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let text =
            |key: &str| args.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        let servers = Arc::clone(&self.servers);
        if self.spec.kind == ToolKind::Search {
            return Ok(Box::new(Listing { servers, server: text("serverName") }));
        }
        match text("uri") {
            uri if uri.is_empty() => Err(ArgError("`uri` must not be empty.".to_owned())),
            uri => Ok(Box::new(Reading { servers, uri })),
        }
    }
}

struct Listing {
    servers: Arc<[ServerUse]>,
    /// Empty for all.
    server: String,
}

impl Invocation for Listing {
    fn describe(&self) -> String {
        self.server.clone()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, _context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        let wanted =
            self.servers.iter().filter(|server| self.server.is_empty() || server.name() == self.server);
        let mut lines = Vec::new();
        for server in wanted {
            for resource in &server.state().offer.resources {
                let (name, about) = (resource.name.as_str(), resource.description.as_str());
                lines.push(
                    format!("- {}:{} | {name} | {about}", server.name(), resource.uri)
                        .replace(['\n', '\r'], " "),
                );
            }
        }
        let count = lines.len();
        lines.truncate(MAX_LISTED);
        if count > MAX_LISTED {
            lines.push(format!("({} more)", count - MAX_LISTED));
        }
        let text = match count {
            0 => "No MCP resources found.".to_owned(),
            _ => format!("Available MCP Resources:\n{}", lines.join("\n")),
        };
        let shown = Display::Text(format!("{count} resources"));
        Box::pin(std::future::ready(ToolOutcome::text(wrapped(&text), shown)))
    }
}

struct Reading {
    servers: Arc<[ServerUse]>,
    uri: String,
}

impl Reading {
    /// The server that lists the address; `server:uri` names both. An address that no server lists may change
    /// something when it is read.
    fn find(&self) -> Option<(&ServerUse, &str)> {
        let lists = |server: &ServerUse, uri: &str| {
            server.state().offer.resources.iter().any(|resource| resource.uri == uri)
        };
        if let Some(server) = self.servers.iter().find(|server| lists(server, &self.uri)) {
            return Some((server, &self.uri));
        }
        let (name, uri) = self.uri.split_once(':')?;
        let server = self.servers.iter().find(|server| server.name() == name && lists(server, uri))?;
        Some((server, uri))
    }
}

impl Invocation for Reading {
    fn describe(&self) -> String {
        self.uri.clone()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some((server, uri)) = self.find() else {
                let text = format!("Resource not found for URI: {}", self.uri);
                return ToolOutcome::failed(ToolErrorKind::McpResourceNotFound, text);
            };
            match read(server, uri, &context.cancel).await {
                Ok(text) => ToolOutcome::text(wrapped(&text), Display::Text(format!("Read {uri}"))),
                Err(RequestError::Cancelled) => ToolOutcome::Cancelled { partial: None },
                Err(error) => {
                    ToolOutcome::failed(ToolErrorKind::McpToolError, sealed(&error.to_string()).into_owned())
                }
            }
        })
    }
}
