//! How a hook ended.

use std::fmt;

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEnding {
    Exited(i32),
    Signalled(i32),
    TimedOut {
        after_ms: u128,
    },
    Cancelled,
    /// Why.
    NotStarted(String),
    /// Why a function gave no answer.
    Failed(String),
}

impl fmt::Display for HookEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut { after_ms } => write!(f, "timed out after {after_ms}ms"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}
