//! How much the agent may do without asking, and how it asks.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_util::sync::CancellationToken;

use crate::id::CallId;
use crate::tool::FileDiff;
use crate::{BoxFuture, JsonObject};

/// The approval mode of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    /// Reading is free; every change is asked for.
    #[default]
    Default,
    /// File edits inside the workspace are free as well.
    AutoEdit,
    /// Everything that no rule denies is free.
    Yolo,
    /// Only reading, and writing the plan.
    Plan,
}

/// A word that names no approval mode.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an approval mode (default, auto_edit, yolo, plan)")]
pub struct UnknownApprovalMode(String);

impl FromStr for ApprovalMode {
    type Err = UnknownApprovalMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" => Ok(Self::Default),
            "auto_edit" | "autoEdit" => Ok(Self::AutoEdit),
            "yolo" => Ok(Self::Yolo),
            "plan" => Ok(Self::Plan),
            other => Err(UnknownApprovalMode(other.to_owned())),
        }
    }
}

impl fmt::Display for ApprovalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::AutoEdit => "auto_edit",
            Self::Yolo => "yolo",
            Self::Plan => "plan",
        })
    }
}

impl ApprovalMode {
    /// Whether calls that change something run without a question in this mode.
    pub fn is_privileged(self) -> bool {
        matches!(self, Self::AutoEdit | Self::Yolo)
    }
}

/// A call that waits for a person's word.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    pub call: CallId,
    pub tool: String,
    pub display_name: String,
    pub args: JsonObject,
    /// What would happen.
    pub subject: Subject,
    /// What would be lost for good, in words for the person; a front end must not preselect a yes then.
    pub destroys: Option<String>,
    pub why: Why,
    /// What may be answered. An answer that was not offered counts as [`Answer::Cancel`].
    pub offers: Vec<Offer>,
}

impl ApprovalRequest {
    /// Whether this may be answered: no front end can take more than it was offered.
    pub fn offers(&self, answer: &Answer) -> bool {
        match (answer, &self.subject) {
            (Answer::Refuse(_) | Answer::Cancel, _) => true,
            (Answer::Replies(replies), Subject::Questions(questions)) => replies.len() == questions.len(),
            (Answer::Replies(_), _) => false,
            (other, _) => self.offers.iter().any(|offer| offer.outcome == other.outcome()),
        }
    }
}

/// What a person is asked about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A change to a file; `diff` is missing when it could not be computed, and the call may then fail too.
    Edit {
        path: PathBuf,
        diff: Option<Box<FileDiff>>,
    },
    Command {
        command: String,
        directory: PathBuf,
    },
    Fetch(Vec<String>),
    /// A tool of an MCP server.
    Server {
        server: String,
        tool: String,
    },
    /// The model wants to plan first.
    EnterPlan {
        reason: String,
    },
    /// A finished plan.
    Plan {
        path: PathBuf,
        text: String,
    },
    /// The model's questions; answered with [`Answer::Replies`].
    Questions(Vec<Question>),
    Other(String),
}

/// Why a person is asked.
#[derive(Debug, Clone, Default)]
pub struct Why {
    pub reason: String,
    /// The rule that wants it, with its file and line.
    pub rule: Option<String>,
    /// For commands: each part and what is said about it.
    pub parts: Vec<WhyPart>,
}

/// One command of a command line.
#[derive(Debug, Clone)]
pub struct WhyPart {
    pub text: String,
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    pub reason: String,
}

/// A way to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub outcome: Outcome,
    /// Exactly what would be allowed from then on; empty for the answers that reach no further than this call.
    pub covers: String,
}

/// The kinds of answers; the words are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Once,
    /// For the rest of the session.
    Session,
    /// Every tool of the server, for the rest of the session.
    SessionServer,
    /// From now on, as a rule in a file.
    Saved,
    /// With arguments that the person changed.
    Edit,
    Refuse,
}

impl Outcome {
    /// The digit that chooses it, the same in every question.
    pub fn digit(self) -> usize {
        match self {
            Self::Once => 1,
            Self::Session => 2,
            Self::SessionServer => 3,
            Self::Saved => 4,
            Self::Edit => 5,
            Self::Refuse => 6,
        }
    }

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "proceed_once",
            Self::Session => "proceed_always",
            Self::SessionServer => "proceed_always_server",
            Self::Saved => "proceed_always_and_save",
            Self::Edit => "modify_with_editor",
            Self::Refuse => "cancel",
        }
    }
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Once,
    Session,
    SessionServer,
    Saved,
    /// Run with these arguments instead; they are decided on anew.
    Edited(JsonObject),
    /// Do not run this call; the model reads why and goes on.
    Refuse(String),
    /// Do not run this call nor those after it, and end the turn.
    Cancel,
    /// What was answered to each of [`Subject::Questions`], in order.
    Replies(Vec<String>),
}

impl Answer {
    /// What kind of answer it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Once | Self::Replies(_) => Outcome::Once,
            Self::Session => Outcome::Session,
            Self::SessionServer => Outcome::SessionServer,
            Self::Saved => Outcome::Saved,
            Self::Edited(_) => Outcome::Edit,
            Self::Refuse(_) | Self::Cancel => Outcome::Refuse,
        }
    }
}

/// A question of the model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One or two words.
    pub header: String,
    pub text: String,
    pub form: QuestionForm,
}

/// The person at the front end, for whoever has to ask while a call runs.
pub trait Person: Send + Sync {
    /// Asks and waits; `who` asks is shown. Whoever cancels, or goes away, has said no.
    fn ask<'a>(
        &'a self,
        who: &'a str,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Answer>;
}

/// What an answer looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionForm {
    Text { placeholder: String },
    YesNo,
    Choice { options: Vec<Choice>, several: bool },
}

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub label: String,
    pub description: String,
}
