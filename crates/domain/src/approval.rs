//! How much the agent may do without asking.

use std::fmt;
use std::str::FromStr;

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
