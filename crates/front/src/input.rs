//! What a person does beside answering questions.

use pollux_domain::approval::{Answer, ApprovalMode};
use pollux_domain::id::CallId;

/// What the person did.
#[derive(Debug)]
pub(super) enum Input {
    /// A prompt, a command with `/`, or a shell command with `!`.
    Said(String),
    /// Stop what runs; where nothing runs, leave.
    Interrupt,
    Decide {
        call: CallId,
        answer: Answer,
    },
    Mode(ApprovalMode),
    /// Enough.
    Leave,
    /// The terminal is gone.
    Gone,
}
