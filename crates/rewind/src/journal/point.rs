//! The vocabulary of a journal: calls, what they may change, and rewind targets.

use std::path::PathBuf;

use pollux_domain::tool::Effect;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub call: String,
    /// The user's message that it belongs to.
    pub prompt: String,
    pub tool: String,
}

/// The files that a call may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeScope {
    Nothing,
    File(PathBuf),
    Workspace,
}

impl ChangeScope {
    /// The scope of a call; `read_only` when its command is known to change nothing.
    pub fn of(effect: &Effect, read_only: bool) -> Self {
        match effect {
            Effect::Edit(path) => Self::File(path.clone()),
            Effect::Execute { .. } if !read_only => Self::Workspace,
            Effect::Execute { .. } | Effect::Read(_) | Effect::Fetch(_) | Effect::Dialog | Effect::None => {
                Self::Nothing
            }
        }
    }
}

/// Where to go back to: the moment before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Call(String),
    Prompt(String),
}

/// A call as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointSummary {
    pub point: Point,
    /// The paths it changed.
    pub changed: Vec<PathBuf>,
}
