//! How a sub-agent's work can end.

/// Why an agent ended; the words are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminateMode {
    Goal,
    Timeout,
    MaxTurns,
    Aborted,
    Error,
    NoCompleteTaskCall,
}

impl TerminateMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Goal => "GOAL",
            Self::Timeout => "TIMEOUT",
            Self::MaxTurns => "MAX_TURNS",
            Self::Aborted => "ABORTED",
            Self::Error => "ERROR",
            Self::NoCompleteTaskCall => "ERROR_NO_COMPLETE_TASK_CALL",
        }
    }
}
