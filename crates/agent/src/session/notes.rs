//! Notices in the session file: failures, retries, cancellations. They are never sent to a model.

use pollux_domain::event::{Severity, TurnEnd};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;

use super::Session;

/// Upstream's words.
const CANCELLED: &str = "Request cancelled.";

/// Records a line; texts of others lose control sequences and secrets.
pub(crate) async fn note(session: &mut Session, severity: Severity, text: &str) {
    let text = redacted(&plain(text)).into_owned();
    let now = session.now();
    let result = session.recorder.notice(severity, &text, now);
    session.recorded(result).await;
}

/// Records how a turn ended, unless it ended well or its last message says it already.
pub(crate) async fn note_end(session: &mut Session, end: &TurnEnd) {
    let (severity, text) = match end {
        TurnEnd::Failed(error) => (Severity::Error, error.marked()),
        TurnEnd::InvalidReply { kind, message } if message.is_empty() => {
            (Severity::Error, format!("The model's reply could not be used ({kind})."))
        }
        TurnEnd::InvalidReply { message, .. } => (Severity::Error, message.clone()),
        TurnEnd::Overflow { estimated, remaining } => {
            let text = format!(
                "The request does not fit the model's context window: about {estimated} tokens, {remaining} left."
            );
            (Severity::Error, text)
        }
        TurnEnd::Cancelled => (Severity::Info, CANCELLED.to_owned()),
        TurnEnd::Finished(_) | TurnEnd::TurnLimit | TurnEnd::Loop(_) | TurnEnd::FatalTool { .. } => {
            return;
        }
    };
    note(session, severity, &text).await;
}
