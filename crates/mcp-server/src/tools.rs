//! What clients can call: names, arguments, results.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const RUN: &str = "pollux_run";
pub(crate) const REPLY: &str = "pollux_reply";
pub(crate) const SESSIONS: &str = "pollux_sessions";
pub(crate) const SEARCH_MEMORY: &str = "pollux_search_memory";

/// Which of the built-in tools clients can call one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    #[default]
    None,
    /// Those that only read files.
    ReadOnly,
    All,
    Named(Vec<String>),
}

impl ToolChoice {
    /// Reads the value of `--tools`: nothing or `read-only`, `all`, or names separated by commas.
    pub fn read(value: &str) -> Self {
        match value.trim() {
            "" | "read-only" => Self::ReadOnly,
            "all" => Self::All,
            names => {
                let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
                Self::Named(names.map(str::to_owned).collect())
            }
        }
    }

    /// Whether a tool of this name can be called.
    fn includes(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::ReadOnly => READ_FILES.contains(&name),
            Self::All => true,
            Self::Named(names) => names.iter().any(|known| known == name),
        }
    }
}

/// Tools that only read files. Others of these kinds reach further: web searches, and resources of other servers.
const READ_FILES: [&str; 4] = ["glob", "grep_search", "list_directory", "read_file"];
/// Tools that reach other MCP servers.
const OF_SERVERS: [&str; 2] = ["list_mcp_resources", "read_mcp_resource"];
/// Kinds of tools that change nothing.
const READS: [&str; 3] = ["read", "search", "fetch"];
/// Kinds of tools that mean something outside of a conversation. Others ask the person, plan, or delegate.
const ALONE: [&str; 7] = ["read", "search", "edit", "delete", "move", "execute", "fetch"];

/// A tool of a session as clients see it; `None` if they cannot call it. Tools of other servers are for clients to
/// configure themselves.
pub(crate) fn built_in(declaration: &Value, choice: &ToolChoice) -> Option<Value> {
    let text = |name: &str| declaration.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, kind) = (text("name"), text("kind"));
    let is_foreign = name.starts_with("mcp_") || OF_SERVERS.contains(&name);
    let is_own = ALONE.contains(&kind) && !is_foreign && !name.starts_with("pollux_");
    if !is_own || !choice.includes(name) {
        return None;
    }
    let reads = READS.contains(&kind);
    let reaches_out = ["fetch", "execute"].contains(&kind) || name == "google_web_search";
    Some(json!({
        "name": name,
        "title": text("title"),
        "description": text("description"),
        "inputSchema": declaration.get("parameters"),
        "annotations": {
            "readOnlyHint": reads,
            "destructiveHint": !reads,
            "openWorldHint": reaches_out,
        },
    }))
}

/// Arguments of [`RUN`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RunArguments {
    pub(crate) prompt: String,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<Mode>,
    pub(crate) session: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
}

/// The approval modes that a client may ask for. `yolo` is for the person who configures the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Default,
    AutoEdit,
    Plan,
}

impl From<Mode> for ApprovalMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Default => Self::Default,
            Mode::AutoEdit => Self::AutoEdit,
            Mode::Plan => Self::Plan,
        }
    }
}

/// The mode of a call. One that allows more than the server was started with is refused.
pub(crate) fn mode(asked: Option<Mode>, own: Option<ApprovalMode>) -> Result<Option<ApprovalMode>, String> {
    let rank = |mode| match mode {
        ApprovalMode::Plan => 0,
        ApprovalMode::Default => 1,
        ApprovalMode::AutoEdit => 2,
        ApprovalMode::Yolo => 3,
    };
    let asked = asked.map(ApprovalMode::from);
    match (asked, own) {
        (Some(asked), Some(own)) if rank(asked) > rank(own) => {
            Err(format!("`mode` cannot be `{asked}`: the server was started with `{own}`"))
        }
        _ => Ok(asked),
    }
}

/// Arguments of [`REPLY`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReplyArguments {
    pub(crate) session_id: String,
    pub(crate) prompt: String,
    pub(crate) timeout_ms: Option<u64>,
}

/// Arguments of [`SESSIONS`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SessionsArguments {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) query: Option<String>,
}

/// Arguments of [`SEARCH_MEMORY`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MemoryArguments {
    pub(crate) query: String,
    pub(crate) cwd: Option<PathBuf>,
}

/// Reads the arguments of a call.
pub(crate) fn read<'a, T: Deserialize<'a>>(arguments: JsonObject) -> Result<T, String> {
    T::deserialize(Value::Object(arguments)).map_err(|error| format!("invalid arguments: {error}"))
}

/// The folder of a call.
pub(crate) fn folder(given: Option<PathBuf>, otherwise: &Path) -> Result<PathBuf, String> {
    let Some(folder) = given else { return Ok(otherwise.to_owned()) };
    if !folder.is_absolute() {
        return Err(format!("`cwd` must be an absolute path, not `{}`", folder.display()));
    }
    if !folder.is_dir() {
        return Err(format!("folder `{}` not found", folder.display()));
    }
    Ok(folder)
}

/// The tools. Memory can be searched only where it is on.
pub(crate) fn all(has_memory: bool) -> Vec<Value> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let timeout = json!({
        "type": "integer", "minimum": 1,
        "description": "Cancel the prompt after this many milliseconds",
    });
    let cwd =
        text("Absolute path of the project folder (default: the folder that the server was started in)");
    let ends = json!({
        "type": "object",
        "properties": {
            "sessionId": text("For pollux_reply"),
            "text": text("The final answer"),
            "stopReason": {
                "type": "string", "enum": ["end_turn", "cancelled", "timeout", "error"],
            },
            "filesChanged": {"type": "array", "items": {"type": "string"}},
            "usage": {"type": "object"},
        },
        "required": ["sessionId", "text", "stopReason", "filesChanged"],
    });
    let acts = json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true});
    let reads = json!({"readOnlyHint": true, "openWorldHint": false});
    let mut tools = vec![
        tool(
            RUN,
            "Run Pollux",
            "Gives a task to Pollux, a coding agent, in a new session. It reads and edits files and runs commands in the \
             project folder, within the user's approval rules, and returns when the task is done.",
            &json!({
                "prompt": text("The task"),
                "cwd": cwd,
                "model": text("The model, such as `pro` or `anthropic/claude-sonnet-4-5`"),
                "mode": {
                    "type": "string", "enum": ["default", "auto_edit", "plan"],
                    "description": "Approval mode: ask, edit files without asking, or only plan",
                },
                "session": text("Id of a session to continue instead"),
                "timeoutMs": timeout,
            }),
            &["prompt"],
            Some(&ends),
            &acts,
        ),
        tool(
            REPLY,
            "Continue a session of Pollux",
            "Sends another prompt to a session.",
            &json!({
                "sessionId": text("The id from pollux_run or pollux_sessions"),
                "prompt": text("The prompt"),
                "timeoutMs": timeout,
            }),
            &["sessionId", "prompt"],
            Some(&ends),
            &acts,
        ),
        tool(
            SESSIONS,
            "List sessions of Pollux",
            "Lists the sessions of a project folder, or finds those whose messages contain the words of a query.",
            &json!({"cwd": cwd, "query": text("Words to find")}),
            &[],
            None,
            &reads,
        ),
    ];
    if has_memory {
        tools.push(tool(
            SEARCH_MEMORY,
            "Search the memory of Pollux",
            "Searches what Pollux remembers of earlier sessions in a project folder.",
            &json!({"query": text("What to find"), "cwd": cwd}),
            &["query"],
            None,
            &reads,
        ));
    }
    tools
}

fn tool(
    name: &str,
    title: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
    output: Option<&Value>,
    annotations: &Value,
) -> Value {
    let input = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let mut tool = json!({"name": name, "title": title, "description": description, "inputSchema": input});
    if let Some(output) = output {
        tool["outputSchema"] = output.clone();
    }
    tool["annotations"] = annotations.clone();
    tool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: &Value) -> JsonObject {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn built_in_tools_are_offered_as_chosen() {
        let names = |choice: &str| {
            let declared = [
                ("read_file", "read"),
                ("glob", "search"),
                ("write_file", "edit"),
                ("run_shell_command", "execute"),
                ("web_fetch", "fetch"),
                ("ask_user", "communicate"),
                ("delegate", "agent"),
                ("mcp_docs_read", "read"),
            ];
            let choice = ToolChoice::read(choice);
            let tools = declared.iter().filter_map(|(name, kind)| {
                built_in(&json!({"name": name, "kind": kind, "parameters": {"type": "object"}}), &choice)
            });
            tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["read_file", "glob"]);
        assert_eq!(names("all"), ["read_file", "glob", "write_file", "run_shell_command", "web_fetch"]);
        assert_eq!(names("write_file, glob,ask_user"), ["glob", "write_file"]);
        let declared = json!({"name": "write_file", "kind": "edit"});
        let edit = built_in(&declared, &ToolChoice::All).unwrap();
        assert_eq!(edit["annotations"]["destructiveHint"], true);
        assert_eq!(built_in(&declared, &ToolChoice::None), None);
    }

    #[test]
    fn a_client_cannot_ask_for_yolo_nor_for_unknown_things() {
        let run = |value: Value| read::<RunArguments>(arguments(&value));
        assert_eq!(run(json!({"prompt": "x", "mode": "plan"})).unwrap().mode, Some(Mode::Plan));
        assert!(run(json!({"prompt": "x", "mode": "yolo"})).unwrap_err().contains("yolo"));
        assert!(run(json!({"prompt": "x", "sandbox": false})).unwrap_err().contains("sandbox"));
        assert!(run(json!({})).unwrap_err().contains("prompt"));
    }

    #[test]
    fn a_client_cannot_ask_for_more_than_the_server_was_started_with() {
        let plan = Some(ApprovalMode::Plan);
        assert_eq!(mode(None, plan), Ok(None));
        assert_eq!(mode(Some(Mode::AutoEdit), None), Ok(Some(ApprovalMode::AutoEdit)));
        assert_eq!(mode(Some(Mode::AutoEdit), Some(ApprovalMode::Yolo)), Ok(Some(ApprovalMode::AutoEdit)));
        assert_eq!(mode(Some(Mode::Plan), Some(ApprovalMode::Default)), Ok(plan));
        let error = mode(Some(Mode::Default), plan).unwrap_err();
        assert_eq!(error, "`mode` cannot be `default`: the server was started with `plan`");
    }

    #[test]
    fn a_folder_is_absolute_and_exists() {
        let here = Path::new("/");
        assert_eq!(folder(None, here), Ok(here.to_owned()));
        assert!(folder(Some("relative".into()), here).unwrap_err().contains("absolute"));
        assert!(folder(Some("/no/such/folder".into()), here).unwrap_err().contains("not found"));
    }

    #[test]
    fn what_is_declared_is_what_is_read() {
        for tool in all(true) {
            let names: Vec<&String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().collect();
            let sample = |name: &str| match name {
                "timeoutMs" => json!(1),
                "mode" => json!("default"),
                _ => json!("/"),
            };
            let given: JsonObject = names.iter().map(|name| ((*name).clone(), sample(name))).collect();
            let read = match tool["name"].as_str().unwrap() {
                RUN => read::<RunArguments>(given).map(drop),
                REPLY => read::<ReplyArguments>(given).map(drop),
                SESSIONS => read::<SessionsArguments>(given).map(drop),
                _ => read::<MemoryArguments>(given).map(drop),
            };
            assert_eq!(read, Ok(()), "{tool}");
        }
    }
}
