//! `pollux mcp …` as it was typed.

/// What to do with MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum McpCommand {
    Add(Box<NewServer>),
    Remove {
        name: String,
        scope: ServerScope,
    },
    List,
    Switch {
        name: String,
        on: bool,
        /// Only for the session.
        session: bool,
    },
    Test {
        name: String,
    },
    Tools {
        /// All servers if none is named.
        name: Option<String>,
    },
    Auth {
        name: String,
    },
}

/// A server to be written into settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewServer {
    pub(crate) name: String,
    pub(crate) scope: ServerScope,
    pub(crate) transport: ServerTransport,
    /// A command or an address.
    pub(crate) target: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Option<u64>,
    pub(crate) trust: bool,
    pub(crate) description: Option<String>,
    pub(crate) include_tools: Vec<String>,
    pub(crate) exclude_tools: Vec<String>,
}

/// Whose settings; the project's unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ServerScope {
    #[default]
    Project,
    User,
}

impl ServerScope {
    /// The word in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// How a new server is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ServerTransport {
    #[default]
    Stdio,
    Sse,
    Http,
}

impl ServerTransport {
    /// The word in settings and messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Sse => "sse",
            Self::Http => "http",
        }
    }
}
