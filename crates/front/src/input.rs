//! What a person does outside of questions.

use pollux_domain::approval::{Answer, ApprovalMode};
use pollux_domain::id::CallId;

/// Input from the person.
#[derive(Debug)]
pub enum Input {
    /// A prompt, a command with `/`, or a shell command with `!`.
    Said(String),
    /// Cancel the running turn; without one, leave.
    Interrupt,
    /// The answer to an approval request.
    Decide { call: CallId, answer: Answer },
    /// Change the approval mode.
    Mode(ApprovalMode),
    /// End the conversation.
    Leave,
    /// The terminal is gone.
    Gone,
}
