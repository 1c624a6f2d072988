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
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } if diff.after != text => request.with_text(text),
        Subject::Command { command, .. } if command.trim_end() != text.trim_end() => {
            let mut args = request.args.clone();
            args.insert("command".to_owned(), Value::from(text.trim_end()));
            Some(args)
        }
        _ => None,
    }
}
