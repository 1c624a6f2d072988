//! How a call ended, in the one form that every front end shows, counts and records.

use crate::tool::{RunFailure, ToolErrorKind};

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    Succeeded,
    Failed(CallFailure),
    Cancelled,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    pub kind: ToolErrorKind,
    pub message: String,
    /// Why a call was denied in a headless run and what would allow it; empty if `message` says so.
    pub denial: Option<String>,
    /// Set when the tool did its part and what it ran failed: the report's display is then the output.
    pub run: Option<RunFailure>,
}

impl From<RunFailure> for CallFailure {
    fn from(run: RunFailure) -> Self {
        Self { kind: run.kind(), message: run.message(), denial: None, run: Some(run) }
    }
}

impl CallOutcome {
    /// A failure of the tool itself.
    pub fn failed(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(CallFailure { kind, message: message.into(), denial: None, run: None })
    }

    pub fn status(&self) -> CallStatus {
        match self {
            Self::Succeeded => CallStatus::Success,
            Self::Failed(_) => CallStatus::Error,
            Self::Cancelled => CallStatus::Cancelled,
        }
    }

    pub fn succeeded(&self) -> bool {
        *self == Self::Succeeded
    }

    pub fn failure(&self) -> Option<&CallFailure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Succeeded | Self::Cancelled => None,
        }
    }

    /// The command or sub-agent that failed, if the tool itself did not.
    pub fn run_failure(&self) -> Option<&RunFailure> {
        self.failure()?.run.as_ref()
    }
}

/// How a call ended, in the words of session files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    Success,
    Error,
    Cancelled,
}

impl CallStatus {
    /// The word in files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}
