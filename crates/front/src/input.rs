//! What a person does outside of questions.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};
use pollux_domain::content::Part;
use pollux_domain::event::{Op, RequestId};
use pollux_domain::id::CallId;

/// Input from the person.
#[derive(Debug)]
pub enum Input {
    /// A prompt, a command with `/`, or a shell command with `!`.
    Said(String),
    /// A prompt or a command with `/`, maybe with content that cannot be typed.
    Prompt(Box<Typed>),
    /// A prompt for after the running turn, which waits with those of other front ends. Without a turn it starts one.
    Queue(RequestId, Box<Typed>),
    /// Something said to the running turn, with the id of its acknowledgement.
    Steer(RequestId, String),
    /// An operation, with the id of its acknowledgement.
    Ask(RequestId, Op),
    /// Cancel the running turn; without one, leave.
    Interrupt,
    /// The answer to an approval request.
    Decide { call: CallId, answer: ApprovalAnswer },
    /// Change the approval mode.
    Mode(ApprovalMode),
    /// End the conversation.
    Leave,
    /// Leave the session running in its other process.
    Detach,
    /// The terminal is gone.
    Gone,
}

/// A prompt as it was entered.
#[derive(Debug, Default)]
pub struct Typed {
    pub text: String,
    /// Content for the model after the text, such as images.
    pub parts: Vec<Part>,
    /// Whether `!` runs a shell command.
    pub may_be_shell: bool,
    /// Whether `/` runs a built-in command. Custom commands always run.
    pub may_be_command: bool,
    /// A tool to run instead, without the model.
    pub call: Option<ToolCall>,
}

/// A tool and its arguments.
#[derive(Debug)]
pub struct ToolCall {
    pub name: String,
    pub args: JsonObject,
}

impl From<String> for Typed {
    fn from(text: String) -> Self {
        Self { text, may_be_shell: true, may_be_command: true, ..Self::default() }
    }
}

/// A mention as a person would type it.
pub fn mention(path: &str, lines: Option<&str>) -> String {
    // A quote in a name cannot be written inside quotes.
    let path = match path.contains('"') {
        true => path.replace(' ', "\\ ").replace('"', "\\\""),
        false => format!("\"{path}\""),
    };
    match lines {
        Some(lines) => format!("@{path} (lines {lines})"),
        None => format!("@{path}"),
    }
}
