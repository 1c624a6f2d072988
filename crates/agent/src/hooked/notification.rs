//! Hooks for questions to the user.

use pollux_domain::approval::{ApprovalRequest, Subject};
use pollux_hooks::{Notification, PermissionDetails};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Hooked;

/// The user is about to be asked.
pub(crate) async fn notify(hooked: &Hooked, request: &ApprovalRequest, cancel: &CancellationToken) {
    hooked.fire(|| notification(request), cancel).await;
}

/// The titles are upstream's.
fn notification(request: &ApprovalRequest) -> Notification {
    let (title, details) = match &request.subject {
        Subject::Edit { path, diff } => {
            let word = if request.tool == "write_file" { "Write" } else { "Edit" };
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let (unified, before, after) = diff.as_ref().map_or_else(Default::default, |diff| {
                (diff.unified.clone(), diff.before.clone(), diff.after.clone())
            });
            let details = PermissionDetails::Edit {
                file_name: name.clone(),
                file_path: path.display().to_string(),
                file_diff: unified,
                original_content: before,
                new_content: after,
                is_modifying: false,
            };
            (format!("Confirm {word}: {name}"), details)
        }
        Subject::Command { command, .. } => {
            let parts = request.why.parts.iter().map(|part| part.text.as_str());
            let texts: Vec<&str> = if request.why.parts.is_empty() { vec![command] } else { parts.collect() };
            let mut roots: Vec<&str> =
                texts.iter().filter_map(|text| text.split_whitespace().next()).collect();
            roots.dedup();
            let root_command = roots.join(", ");
            let details = PermissionDetails::Exec { command: command.clone(), root_command };
            ("Confirm Shell Command".to_owned(), details)
        }
        Subject::Fetch(urls) => {
            let prompt = request.args.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned();
            let details = PermissionDetails::Info { prompt, urls: urls.clone() };
            ("Confirm Web Fetch".to_owned(), details)
        }
        Subject::Server { server, tool } => {
            let own = tool.strip_prefix("mcp_").and_then(|rest| rest.strip_prefix(server)?.strip_prefix('_'));
            let details = PermissionDetails::Mcp {
                server_name: server.clone(),
                tool_name: own.unwrap_or(tool).to_owned(),
                tool_display_name: request.display_name.clone(),
            };
            ("Confirm MCP Tool Execution".to_owned(), details)
        }
        Subject::Sandbox(question) => {
            let (prompt, question) = (question.sentence(), question.to_json());
            let details = PermissionDetails::Sandbox { prompt, question };
            ("Confirm Sandbox Expansion".to_owned(), details)
        }
        Subject::Other(text) => {
            let details = PermissionDetails::Info { prompt: text.clone(), urls: Vec::new() };
            (format!("Confirm: {}", request.display_name), details)
        }
        Subject::EnterPlan { .. } | Subject::Plan { .. } | Subject::Questions(_) => {
            (request.display_name.clone(), PermissionDetails::Other(request.tool.clone()))
        }
    };
    Notification::tool_permission(&title, details)
}
