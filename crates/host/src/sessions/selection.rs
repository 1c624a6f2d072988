//! Selection of sessions, from command-line arguments.

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// `latest`, a list number, an id or a prefix of one.
    pub id: String,
    pub all_projects: bool,
    /// `None` for any source.
    pub source: Option<SessionSource>,
}

/// Some sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub all_projects: bool,
    /// `None` for all.
    pub source: Option<SessionSource>,
    pub subagents: bool,
    /// Include all details, for JSON output.
    pub in_full: bool,
}

/// Whose sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSource {
    /// Pollux and gemini-cli, which share folders.
    Gemini,
    Claude,
    Codex,
    OpenCode,
}

impl SessionSource {
    pub fn is_foreign(self) -> bool {
        self != Self::Gemini
    }

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }
}
