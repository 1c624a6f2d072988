//! Payloads of tool calls and of permission prompts.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::outcome::{self, AfterToolOutcome, BeforeToolOutcome, CallVerdict, Verdict};
use super::{Payload, object};
use crate::answer::HookAnswer;
use crate::event::Event;

/// How often in a row a result may be replaced by another call's.
pub const MAX_TAIL_CALLS: usize = 10;

/// A call is about to be decided on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeforeTool {
    pub tool_name: String,
    pub tool_input: JsonObject,
    pub mcp_context: Option<McpContext>,
    /// The tool that the model called, when a hook requested this one.
    pub original_request_name: Option<String>,
    /// The id of the call.
    pub call: Option<String>,
}

/// The server behind a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpContext {
    pub server_name: String,
    /// The server's own name for it.
    pub tool_name: String,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub url: Option<String>,
    pub tcp: Option<String>,
}

/// A call was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AfterTool {
    pub call: BeforeTool,
    pub tool_response: ToolResponse,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolResponse {
    /// A text, a part or a list of parts.
    pub llm_content: Value,
    /// A text or an object.
    pub return_display: Value,
    pub error: Option<ToolFailure>,
    /// The sandbox that a command ran in.
    pub sandbox: Option<Value>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    pub message: String,
    /// `ToolErrorKind::as_str`
    pub kind: String,
}

impl McpContext {
    fn to_json(&self) -> Value {
        let mut fields = object([
            ("server_name", self.server_name.as_str().into()),
            ("tool_name", self.tool_name.as_str().into()),
        ]);
        let texts = [("command", &self.command), ("cwd", &self.cwd), ("url", &self.url), ("tcp", &self.tcp)];
        for (key, text) in texts {
            fields.extend(text.as_deref().map(|text| (key.to_owned(), Value::from(text))));
        }
        if self.command.is_some() {
            fields.insert("args".to_owned(), json!(self.args));
        }
        Value::Object(fields)
    }
}

impl Payload for BeforeTool {
    type Outcome = BeforeToolOutcome;
    const EVENT: Event = Event::BeforeTool;

    fn fields(self) -> JsonObject {
        let mut fields =
            object([("tool_name", self.tool_name.into()), ("tool_input", Value::Object(self.tool_input))]);
        fields.extend(self.mcp_context.map(|context| ("mcp_context".to_owned(), context.to_json())));
        let original = self.original_request_name;
        fields.extend(original.map(|name| ("original_request_name".to_owned(), Value::from(name))));
        fields
    }

    fn call(&self) -> Option<&str> {
        self.call.as_deref()
    }

    fn outcome(answer: HookAnswer) -> BeforeToolOutcome {
        BeforeToolOutcome { verdict: CallVerdict::of(&answer), tool_input: outcome::tool_input(&answer) }
    }
}

impl Payload for AfterTool {
    type Outcome = AfterToolOutcome;
    const EVENT: Event = Event::AfterTool;

    fn fields(self) -> JsonObject {
        let ToolResponse { llm_content, return_display, error, sandbox } = self.tool_response;
        let mut response = object([("llmContent", llm_content), ("returnDisplay", return_display)]);
        if let Some(error) = error {
            response.insert("error".to_owned(), json!({"message": error.message, "type": error.kind}));
        }
        response.extend(sandbox.map(|sandbox| ("sandbox".to_owned(), sandbox)));
        let mut fields = self.call.fields();
        fields.insert("tool_response".to_owned(), Value::Object(response));
        fields
    }

    fn call(&self) -> Option<&str> {
        self.call.call.as_deref()
    }

    fn outcome(answer: HookAnswer) -> AfterToolOutcome {
        AfterToolOutcome {
            verdict: Verdict::of(&answer),
            context: outcome::context(&answer),
            tail_call: outcome::tail_call(&answer),
        }
    }
}

/// The user's attention is needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    message: String,
    details: JsonObject,
}

/// The subject of a permission prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDetails {
    Edit {
        file_name: String,
        file_path: String,
        file_diff: String,
        original_content: Option<String>,
        new_content: String,
        is_modifying: bool,
    },
    Exec {
        command: String,
        root_command: String,
    },
    Mcp {
        server_name: String,
        tool_name: String,
        tool_display_name: String,
    },
    Info {
        prompt: String,
        urls: Vec<String>,
    },
    /// A right of a sandboxed command, with the fields of the question.
    Sandbox {
        prompt: String,
        question: Value,
    },
    /// A dialog of another kind, by its name.
    Other(String),
}

impl Notification {
    /// A call waits for approval.
    pub fn tool_permission(title: &str, details: PermissionDetails) -> Self {
        let (kind, needed, own) = match details {
            PermissionDetails::Edit {
                file_name,
                file_path,
                file_diff,
                original_content,
                new_content,
                is_modifying,
            } => {
                let own = object([
                    ("fileName", file_name.into()),
                    ("filePath", file_path.into()),
                    ("fileDiff", file_diff.into()),
                    ("originalContent", original_content.into()),
                    ("newContent", new_content.into()),
                    ("isModifying", is_modifying.into()),
                ]);
                ("edit".to_owned(), Some("editing"), own)
            }
            PermissionDetails::Exec { command, root_command } => {
                let own = object([("command", command.into()), ("rootCommand", root_command.into())]);
                ("exec".to_owned(), Some("execution"), own)
            }
            PermissionDetails::Mcp { server_name, tool_name, tool_display_name } => {
                let own = object([
                    ("serverName", server_name.into()),
                    ("toolName", tool_name.into()),
                    ("toolDisplayName", tool_display_name.into()),
                ]);
                ("mcp".to_owned(), Some("MCP"), own)
            }
            PermissionDetails::Info { prompt, urls } => {
                let own = object([("prompt", prompt.into()), ("urls", urls.into())]);
                ("info".to_owned(), Some("information"), own)
            }
            PermissionDetails::Sandbox { prompt, question } => {
                let own = object([
                    ("prompt", prompt.into()),
                    ("urls", Value::Array(Vec::new())),
                    ("sandbox", question),
                ]);
                ("info".to_owned(), Some("information"), own)
            }
            PermissionDetails::Other(kind) => (kind, None, JsonObject::new()),
        };
        // Upstream's text, which scripts search for.
        let message = match needed {
            Some(needed) => format!("Tool {title} requires {needed}"),
            None => "Tool requires confirmation".to_owned(),
        };
        let mut details = object([("type", kind.into()), ("title", title.into())]);
        details.extend(own);
        Self { message, details }
    }
}

impl Payload for Notification {
    type Outcome = ();
    const EVENT: Event = Event::Notification;

    fn fields(self) -> JsonObject {
        object([
            ("notification_type", "ToolPermission".into()),
            ("message", self.message.into()),
            ("details", Value::Object(self.details)),
        ])
    }

    fn outcome(_: HookAnswer) {}
}
