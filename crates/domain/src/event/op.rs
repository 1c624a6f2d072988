//! What a front end asks of a session, and how it learns what came of it.

use std::fmt;
use std::sync::Arc;

use super::ConversationView;
use crate::JsonObject;
use crate::approval::{ApprovalAnswer, ApprovalMode, Why};
use crate::budget::{BudgetChange, BudgetStatus};
use crate::content::Part;
use crate::id::CallId;
use crate::terminal_screen::{TerminalSize, TypedBytes};

/// What a front end asks of a session.
#[derive(Debug, Clone)]
pub enum Op {
    /// A new prompt: what the model gets, and what the person typed.
    Prompt { parts: Vec<Part>, typed: String },
    /// Say something to the running turn; the model gets it with its next request. Accepted when it does, and refused
    /// with [`RefusalCode::Dropped`] if the turn ends before.
    Steer { parts: Vec<Part>, typed: String },
    /// Take a prompt of [`super::Event::QueueChanged`] out of the queue, or back what [`Op::Steer`] said.
    Withdraw { prompt: RequestId },
    /// Stop the running turn.
    Cancel,
    /// The answer to an [`super::Event::ApprovalWanted`].
    Decide { call: CallId, answer: ApprovalAnswer },
    /// Another approval mode from now on.
    SetMode(ApprovalMode),
    /// Another model from the next request on.
    SetModel(String),
    /// Tell what may be spent, and change it; answered by [`OpResult::Budget`].
    Budget(BudgetChange),
    /// Tell what the conversation is; answered by [`OpResult::Conversation`].
    Describe,
    /// Take back a prompt and everything after it.
    Rewind { to: String },
    /// Condense the conversation now. A turn of its own.
    Compress,
    /// Name the session. Accepted when the name is stored.
    SetTitle(String),
    /// Tell what the rules would decide about a call, without running anything; answered by [`OpResult::Explained`].
    Explain { name: String, args: JsonObject },
    /// Run one tool without the model, within the rules. A turn of its own; the conversation does not contain it.
    RunTool { name: String, args: JsonObject },
    /// Go on as if the model had just asked for these calls; without any, with the request that was not answered. A
    /// turn of its own.
    Propose { parts: Vec<Part> },
    /// Run a person's own command; the model is told with the next prompt. [`Op::Cancel`] stops it.
    Shell { command: String },
    /// The person ran a command of their own elsewhere; the model is told with the next prompt.
    ShellRan { command: String, output: String },
    /// Commands run in a terminal of this size from now on, and those that do already are resized. Without it, commands
    /// have no terminal.
    SetTerminal(TerminalSize),
    /// Type into a running command.
    Type { call: CallId, input: TypedBytes },
    /// Let a running command continue in the background.
    MoveToBackground { call: CallId },
    /// The session ends; `cleared` when another conversation takes its place. [`Op::Cancel`] hurries it.
    End { cleared: bool },
}

/// An operation, who asks for it, and the id of its acknowledgement.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: RequestId,
    pub by: FrontId,
    pub op: Op,
}

/// A prompt that waits for the turn under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPrompt {
    pub id: RequestId,
    pub by: FrontId,
    pub typed: String,
}

/// What came of an operation. Every operation has exactly one.
#[derive(Debug, Clone)]
pub enum OpResult {
    /// It was done, or what takes a turn begins.
    Accepted,
    Refused(Refusal),
    /// The answer to [`Op::Describe`].
    Conversation(Arc<ConversationView>),
    /// The answer to [`Op::SetModel`]: the configured name and the model that it stands for.
    Model {
        name: String,
        resolved: String,
    },
    /// The answer to [`Op::Rewind`].
    Rewound {
        to: String,
    },
    /// The answer to [`Op::Budget`].
    Budget(Arc<BudgetStatus>),
    /// The answer to [`Op::Explain`].
    Explained(Arc<ExplainedCall>),
}

/// What the rules decide about a call.
#[derive(Debug, Clone)]
pub struct ExplainedCall {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    pub why: Why,
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: RefusalCode,
    /// The display.
    pub message: String,
}

/// Why an operation was not done, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCode {
    /// No call waits for this answer, or another front end answered first.
    NotWaiting,
    /// The answer is none of those that were offered.
    NotOffered,
    /// The front end lacks the right to it.
    NotAllowed,
    /// Too many prompts wait already.
    QueueFull,
    /// It was taken out of the queue, or the session ended before its turn came.
    Dropped,
    /// The folder is not trusted enough for it.
    Untrusted,
    /// It names something that is not there.
    NotFound,
    /// Its value cannot be used.
    Invalid,
    /// This session cannot do it.
    Unsupported,
    /// It was tried and failed.
    Failed,
    /// The session is over.
    Ended,
}

impl RefusalCode {
    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotWaiting => "NOT_WAITING",
            Self::NotOffered => "NOT_OFFERED",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::QueueFull => "QUEUE_FULL",
            Self::Dropped => "DROPPED",
            Self::Untrusted => "UNTRUSTED",
            Self::NotFound => "NOT_FOUND",
            Self::Invalid => "INVALID",
            Self::Unsupported => "UNSUPPORTED",
            Self::Failed => "FAILED",
            Self::Ended => "ENDED",
        }
    }
}

impl OpResult {
    pub fn refused(code: RefusalCode, message: impl Into<String>) -> Self {
        Self::Refused(Refusal { code, message: message.into() })
    }

    /// Why it was not done, if it was not.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Accepted
            | Self::Conversation(_)
            | Self::Model { .. }
            | Self::Rewound { .. }
            | Self::Budget(_)
            | Self::Explained(_) => None,
        }
    }
}

/// Names an operation among those of its front end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(String);

/// Names a front end among those of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrontId(String);

impl RequestId {
    /// An id that no other front end uses.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FrontId {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The front end of a process that has only one.
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FrontId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
