//! What a tool ran came to a bad end, although the tool itself did its part.

use super::ToolErrorKind;

/// A command or a sub-agent that failed. Its output is the tool's result; gemini-cli counts such a call as a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunFailure {
    /// The command ended with this code, which is never 0.
    ExitCode(i32),
    /// A signal ended the command.
    Signal(i32),
    /// The command printed nothing for too long and was ended.
    TimedOut,
    /// A sub-agent ended without reaching its goal; `reason` is a word such as `ERROR` or `MAX_TURNS`.
    Agent { agent: String, reason: String },
}

impl RunFailure {
    /// The sentence in events and logs.
    pub fn message(&self) -> String {
        match self {
            Self::ExitCode(code) => format!("Command exited with code {code}"),
            Self::Signal(signal) => format!("Command terminated by signal {signal}"),
            Self::TimedOut => "Command timed out".to_owned(),
            Self::Agent { agent, reason } => format!("Subagent '{agent}' failed: {reason}"),
        }
    }

    /// A few letters for a title, such as `exit 2`.
    pub fn label(&self) -> String {
        match self {
            Self::ExitCode(code) => format!("exit {code}"),
            Self::Signal(signal) => format!("signal {signal}"),
            Self::TimedOut => "timed out".to_owned(),
            Self::Agent { reason, .. } => reason.clone(),
        }
    }

    /// What a person sees of a command that failed without a word; upstream's sentences.
    pub fn without_output(&self) -> Option<String> {
        match self {
            Self::ExitCode(code) => Some(format!("Command exited with code: {code}")),
            Self::Signal(signal) => Some(format!("Command terminated by signal: {signal}")),
            Self::TimedOut | Self::Agent { .. } => None,
        }
    }

    pub fn kind(&self) -> ToolErrorKind {
        match self {
            Self::ExitCode(_) | Self::Signal(_) | Self::TimedOut => ToolErrorKind::ShellExecuteError,
            Self::Agent { .. } => ToolErrorKind::ExecutionFailed,
        }
    }
}
