//! Changing the arguments of a call in an editor before it is approved.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Subject};
use serde_json::Value;

/// The editable text of a call, and a file name for it.
pub(crate) fn editable(request: &ApprovalRequest) -> Option<(String, String)> {
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } => Some((diff.after.clone(), diff.file_name.clone())),
        Subject::Command { command, .. } => Some((command.clone(), "command.sh".to_owned())),
        _ => None,
    }
}

/// The arguments with the edited text; `None` if it is unchanged.
pub(crate) fn changed(request: &ApprovalRequest, text: &str) -> Option<JsonObject> {
    let mut args = request.args.clone();
    let mut set = |key: &str, value: &str| args.insert(key.to_owned(), Value::from(value));
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } if diff.after != text => {
            if request.args.contains_key("content") {
                set("content", text);
            } else {
                // Replace the whole file, so that the result is exactly the edited text.
                set("old_string", diff.before.as_deref().unwrap_or_default());
                set("new_string", text);
            }
        }
        Subject::Command { command, .. } if command.trim_end() != text.trim_end() => {
            set("command", text.trim_end());
        }
        _ => return None,
    }
    Some(args)
}
