//! Approval modes, and the questions that the agent asks the user.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_util::sync::CancellationToken;

use crate::id::CallId;
use crate::sandbox::RightQuestion;
use crate::tool::FileDiff;
use crate::{BoxFuture, JsonObject};

/// The approval mode of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    /// Reading runs without approval; every change requires it.
    #[default]
    Default,
    /// File edits inside the workspace also run without approval.
    AutoEdit,
    /// Everything that no rule denies runs without approval.
    Yolo,
    /// Only reading, and writing the plan.
    Plan,
}

/// An unknown approval mode.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown approval mode `{0}` (expected default, auto_edit, yolo or plan)")]
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
    /// Whether changes run without approval in this mode.
    pub fn is_privileged(self) -> bool {
        matches!(self, Self::AutoEdit | Self::Yolo)
    }
}

/// A call that waits for approval.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    pub call: CallId,
    pub tool: String,
    pub display_name: String,
    pub args: JsonObject,
    /// What would happen.
    pub subject: Subject,
    /// What would be lost permanently, for display; a front end must then not preselect yes.
    pub destroys: Option<String>,
    pub why: Why,
    /// The offered answers. Any other answer counts as [`ApprovalAnswer::Cancel`].
    pub offers: Vec<Offer>,
}

impl ApprovalRequest {
    /// Whether this answer was offered; a front end cannot grant more than that.
    pub fn offers(&self, answer: &ApprovalAnswer) -> bool {
        match (answer, &self.subject) {
            (ApprovalAnswer::Refuse(_) | ApprovalAnswer::Cancel, _) => true,
            (ApprovalAnswer::Replies(replies), Subject::Questions(questions)) => {
                replies.len() == questions.len()
            }
            (ApprovalAnswer::Replies(_), _) => false,
            (other, _) => self.offers.iter().any(|offer| offer.outcome == other.outcome()),
        }
    }
}

impl ApprovalRequest {
    /// Whether the person has approved this already, by giving these arguments in an answer to an earlier question. Not if
    /// the new ones are asked about for another reason.
    pub fn is_settled_by(&self, first: &Self, args: &JsonObject) -> bool {
        let reason = |request: &Self| (request.why.reason.clone(), request.why.rule.clone());
        let is_same = reason(self) == reason(first) && self.destroys == first.destroys;
        is_same && self.call == first.call && self.args == *args
    }

    /// The arguments of a change to a file that leave this text in it; `None` for other calls.
    pub fn with_text(&self, text: &str) -> Option<JsonObject> {
        let Subject::Edit { diff: Some(diff), .. } = &self.subject else { return None };
        let mut args = self.args.clone();
        if args.contains_key("content") {
            args.insert("content".to_owned(), text.into());
        } else {
            // Replace the whole file, once, so that the result is exactly this text.
            args.insert("old_string".to_owned(), diff.before.clone().unwrap_or_default().into());
            args.insert("new_string".to_owned(), text.into());
            args.shift_remove("allow_multiple");
            args.shift_remove("expected_replacements");
        }
        Some(args)
    }
}

/// What the question is about.
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
    /// The model's questions; answered with [`ApprovalAnswer::Replies`].
    Questions(Vec<Question>),
    /// A sandboxed command needs another right.
    Sandbox(Box<RightQuestion>),
    Other(String),
}

/// Why approval is required.
#[derive(Debug, Clone, Default)]
pub struct Why {
    pub reason: String,
    /// The rule that requires it, with its file and line.
    pub rule: Option<String>,
    /// For commands: each part and its decision.
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

/// An offered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub outcome: Outcome,
    /// Exactly what would be allowed from then on; empty for the answers that reach no further than this call.
    pub covers: String,
}

/// The kinds of answers, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Once,
    /// For the rest of the session.
    Session,
    /// Every tool of the server, for the rest of the session.
    SessionServer,
    /// From now on in this project; only for rights of the sandbox.
    Project,
    /// From now on, as a rule in a file.
    Saved,
    /// With arguments edited by the user.
    Edit,
    Refuse,
}

impl Outcome {
    const ALL: [Self; 7] = [
        Self::Once,
        Self::Session,
        Self::SessionServer,
        Self::Project,
        Self::Saved,
        Self::Edit,
        Self::Refuse,
    ];

    /// The outcome with this serialised name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }

    /// The name of a choice that allows a call, for clients that show choices themselves.
    pub fn label(self) -> Option<&'static str> {
        match self {
            Self::Once => Some("Allow"),
            Self::Session => Some("Allow for this session"),
            Self::SessionServer => Some("Allow all tools of this server for this session"),
            Self::Project => Some("Allow for this project"),
            Self::Saved => Some("Allow for all future sessions"),
            Self::Edit | Self::Refuse => None,
        }
    }

    /// The digit that chooses it, the same in every question.
    pub fn digit(self) -> usize {
        match self {
            Self::Once => 1,
            Self::Session => 2,
            Self::SessionServer => 3,
            Self::Saved => 4,
            // Never offered together.
            Self::Edit | Self::Project => 5,
            Self::Refuse => 6,
        }
    }

    /// The serialised name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "proceed_once",
            Self::Session => "proceed_always",
            Self::SessionServer => "proceed_always_server",
            Self::Project => "proceed_always_project",
            Self::Saved => "proceed_always_and_save",
            Self::Edit => "modify_with_editor",
            Self::Refuse => "cancel",
        }
    }
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalAnswer {
    Once,
    Session,
    SessionServer,
    Project,
    Saved,
    /// Run with these arguments instead; they are checked again.
    Edited(JsonObject),
    /// Do not run this call; the model is told why and continues.
    Refuse(String),
    /// Do not run this call or the following ones, and end the turn.
    Cancel,
    /// What was answered to each of [`Subject::Questions`], in order.
    Replies(Vec<String>),
}

impl ApprovalAnswer {
    /// What kind of answer it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Once | Self::Replies(_) => Outcome::Once,
            Self::Session => Outcome::Session,
            Self::SessionServer => Outcome::SessionServer,
            Self::Project => Outcome::Project,
            Self::Saved => Outcome::Saved,
            Self::Edited(_) => Outcome::Edit,
            Self::Refuse(_) | Self::Cancel => Outcome::Refuse,
        }
    }
}

/// A question from the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One or two words.
    pub header: String,
    pub text: String,
    pub form: QuestionForm,
}

/// Asks the user at the front end while a call runs.
pub trait Person: Send + Sync {
    /// Asks and waits; `who` is shown as the asker. Cancelling or disconnecting counts as no.
    fn ask<'a>(
        &'a self,
        who: &'a str,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer>;

    /// Asks for a right of the sandbox, with these answers; the danger is shown as a warning.
    fn ask_right<'a>(
        &'a self,
        _question: RightQuestion,
        _danger: Option<String>,
        _offers: Vec<Offer>,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::Cancel))
    }
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
