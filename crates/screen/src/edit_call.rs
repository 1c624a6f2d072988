//! Changing the arguments of a call in an editor before it is approved.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Subject};
use serde_json::Value;

/// What of a call can be changed in an editor, and the name of a file for it.
pub(crate) fn editable(request: &ApprovalRequest) -> Option<(String, String)> {
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } => Some((diff.after.clone(), diff.file_name.clone())),
        Subject::Command { command, .. } => Some((command.clone(), "command.sh".to_owned())),
        _ => None,
    }
}

/// The arguments with what the person made of it; `None` when nothing was changed.
pub(crate) fn changed(request: &ApprovalRequest, text: &str) -> Option<JsonObject> {
    let mut args = request.args.clone();
    let mut set = |key: &str, value: &str| args.insert(key.to_owned(), Value::from(value));
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } if diff.after != text => {
            if request.args.contains_key("content") {
                set("content", text);
            } else {
                // The whole file is what is replaced, so that the change is exactly what was written.
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
