//! Which sessions a question is about.

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// `latest`, a number of the list, an id, or the beginning of one.
    pub id: String,
    pub all_projects: bool,
    /// `None` where it may be anybody's.
    pub source: Option<SessionSource>,
}

/// Some sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub all_projects: bool,
    /// `None` for all.
    pub source: Option<SessionSource>,
    pub subagents: bool,
    /// Everything that is known of them, for programs.
    pub in_full: bool,
}

/// Whose sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSource {
    /// Ours and gemini-cli's, which lie in the same folders.
    Gemini,
    Claude,
    Codex,
    OpenCode,
}

impl SessionSource {
    pub fn is_foreign(self) -> bool {
        self != Self::Gemini
    }

    /// The word on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }
}
