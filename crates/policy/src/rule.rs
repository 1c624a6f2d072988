//! A parsed rule, ready for matching.

use pollux_domain::approval::ApprovalMode;
use serde_json::Value;

use crate::pattern::Pattern;
use crate::request::{Decision, RuleSource};
use crate::tier::{Rank, Tier};
use crate::tool_name::ToolMatch;

/// A rule about one tool name or wildcard; a rule that lists several becomes several of these.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) tool: ToolMatch,
    pub(crate) condition: Condition,
    pub(crate) decision: Decision,
    pub(crate) modes: Modes,
    pub(crate) interactive: Option<bool>,
    pub(crate) annotations: Vec<(String, Value)>,
    pub(crate) subagent: Option<String>,
    pub(crate) allow_redirection: bool,
    pub(crate) deny_message: Option<String>,
    pub(crate) rank: Rank,
    pub(crate) tier: Tier,
    /// Created by an approval in this session, so it cannot come from the project.
    pub(crate) from_session: bool,
    pub(crate) source: RuleSource,
}

/// A condition on the arguments of a call.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Always,
    /// Over the canonical arguments.
    Args(Pattern),
    /// The first words of a command.
    Prefix(Vec<String>),
    /// Over the command, from its start.
    Command(Pattern),
    /// Over the file that the call is about.
    Path(Pattern),
}

impl Condition {
    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }

    pub(crate) fn prefix(text: &str) -> Self {
        Self::Prefix(text.split_whitespace().map(str::to_owned).collect())
    }

    pub(crate) fn label(&self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::Args(pattern) | Self::Command(pattern) | Self::Path(pattern) => {
                Some(pattern.text().chars().take(60).collect())
            }
            Self::Prefix(words) => Some(words.join(" ")),
        }
    }
}

/// The approval modes a rule applies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    /// All of them, because none was named.
    pub(crate) const UNSAID: Self = Self(0);
    pub(crate) const NOT_PLAN: Self = Self(0b0111);
    /// Every mode there is.
    pub(crate) const ALL: [ApprovalMode; 4] =
        [ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo, ApprovalMode::Plan];

    pub(crate) fn with(self, mode: ApprovalMode) -> Self {
        Self(self.0 | Self::bit(mode))
    }

    pub(crate) fn includes(self, mode: ApprovalMode) -> bool {
        self.0 == 0 || self.0 & Self::bit(mode) != 0
    }

    /// Whether the mode is named explicitly.
    pub(crate) fn names(self, mode: ApprovalMode) -> bool {
        self.0 & Self::bit(mode) != 0
    }

    /// Those that are named.
    pub(crate) fn named(self) -> Vec<ApprovalMode> {
        Self::ALL.into_iter().filter(|mode| self.names(*mode)).collect()
    }

    fn bit(mode: ApprovalMode) -> u8 {
        match mode {
            ApprovalMode::Default => 0b0001,
            ApprovalMode::AutoEdit => 0b0010,
            ApprovalMode::Yolo => 0b0100,
            ApprovalMode::Plan => 0b1000,
        }
    }
}

/// A short description, for rules without a name.
pub(crate) fn short_label(decision: Decision, tool: &ToolMatch, condition: &Condition) -> String {
    let word = decision.as_str();
    match condition.label() {
        Some(text) => format!("{word} {}({text})", tool.label()),
        None => format!("{word} {}", tool.label()),
    }
}

/// A part of the rules that could not be read and may have denied something.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable {
    pub(crate) about: UnreadableScope,
    pub(crate) reason: String,
}

/// The calls that unreadable rules may apply to.
#[derive(Debug, Clone)]
pub(crate) enum UnreadableScope {
    Tools(Vec<ToolMatch>),
    /// Tools mentioned in this text, and every call that changes something.
    Text(String),
    Anything,
}
