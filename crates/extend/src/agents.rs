//! Sub-agents: their definitions and the registry of a run.
//!
//! A definition is a Markdown file with front matter, or a TOML file. Only the front matter is read until the
//! agent is called; [`Prompt::text`] reads the rest. Start at [`Registry::load`].

mod acknowledged;
mod builtin;
mod definition_file;
mod fields;
mod inputs;
mod registry;
mod remote;
mod servers;
mod template;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use pollux_domain::content::Content;
use pollux_domain::remote_agent::RemoteTarget;
use serde_json::Value;

use crate::extension::Extension;
use crate::frontmatter::{self, FrontMatterError};

pub use acknowledged::Acknowledgements;
pub use inputs::inputs_for;
pub use pollux_config::agent_name::same_agent as same_name;
pub use registry::{AgentEntry, AgentSettings, Registry, Sources, Status};
pub use servers::servers_in;
pub use template::{MissingInput, fill};

/// Default limit of turns; upstream's.
pub const MAX_TURNS: u32 = 30;
/// Default time limit; upstream's.
pub const TIME_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Size limit of definition files, far above any handwritten one.
pub const MAX_FILE: u64 = 1 << 20;

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub name: String,
    pub display_name: Option<String>,
    /// Its description for the model; a remote agent may leave it to its card.
    pub description: String,
    pub origin: Origin,
    pub kind: Kind,
}

/// Where a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    Project(PathBuf),
    User(PathBuf),
    Extension { name: String, path: PathBuf },
}

/// Where an agent runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// In this process.
    Local(Box<Local>),
    /// Remote, over a protocol.
    Remote(Box<RemoteTarget>),
}

/// How an agent in this process works.
#[derive(Debug, Clone, PartialEq)]
pub struct Local {
    pub prompt: Prompt,
    /// Its first message, with `${name}` for inputs; `None` for the inputs themselves.
    pub query: Option<String>,
    /// Turns before the first message, as examples.
    pub initial: Vec<Content>,
    /// JSON Schema of its inputs.
    pub inputs: Value,
    pub output: Option<Output>,
    /// Tools by name or wildcard; `None` for everything the main agent has.
    pub tools: Option<Vec<String>>,
    /// Its own MCP servers, in the format of the settings file.
    pub mcp_servers: JsonObject,
    pub model: ModelChoice,
    /// Generation settings over the model's own.
    pub generation: JsonObject,
    pub max_turns: u32,
    pub time_limit: Duration,
}

/// Which model an agent uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelChoice {
    /// The main agent's.
    #[default]
    Inherit,
    Named(String),
    /// The fast Gemini model, if the main model is a Gemini model.
    Flash,
    /// The quick one of the newest generation, the thorough one of the older.
    Investigator,
}

impl ModelChoice {
    /// The display name.
    pub fn label(&self) -> &str {
        match self {
            Self::Inherit => "inherit",
            Self::Named(name) => name,
            Self::Flash => "flash",
            Self::Investigator => "flash or pro, by the main model",
        }
    }
}

/// The output that an agent must return.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The argument of `complete_task`.
    pub name: String,
    pub description: String,
    pub schema: Value,
    pub form: OutputForm,
}

/// How an output is presented to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// A string unchanged, everything else as indented JSON.
    Plain,
    /// `answer`, then `sources` as a list.
    AnswerWithSources,
}

/// The system prompt of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The main agent's own.
    Main,
    Text(String),
    /// The text of a file behind its front matter, read when it is needed.
    File {
        path: PathBuf,
        /// Whose variables are filled in.
        extension: Option<Arc<Extension>>,
        /// The hash of the file when the user approved it.
        agreed: Option<String>,
    },
}

/// Why the text of an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("`{}`: {source}", path.display())]
    Read { path: PathBuf, source: FrontMatterError },
    #[error("`{}` has changed since you approved it; restart to review it", path.display())]
    Changed { path: PathBuf },
    #[error("`{}` no longer has front matter", path.display())]
    NoFrontMatter { path: PathBuf },
}

impl Prompt {
    /// The text; `None` for the main agent's own.
    pub fn text(&self) -> Result<Option<String>, PromptError> {
        let (path, extension, agreed) = match self {
            Self::Main => return Ok(None),
            Self::Text(text) => return Ok(Some(text.clone())),
            Self::File { path, extension, agreed } => (path, extension, agreed),
        };
        let text = frontmatter::read_whole(path, MAX_FILE)
            .map_err(|source| PromptError::Read { path: path.clone(), source })?;
        if agreed.as_ref().is_some_and(|hash| *hash != sha256_hex(text.as_bytes())) {
            return Err(PromptError::Changed { path: path.clone() });
        }
        let (_, body) =
            frontmatter::split(&text).ok_or_else(|| PromptError::NoFrontMatter { path: path.clone() })?;
        let body = body.trim();
        Ok(Some(extension.as_ref().map_or_else(|| body.to_owned(), |extension| extension.hydrate(body))))
    }
}

impl Definition {
    pub fn is_remote(&self) -> bool {
        matches!(self.kind, Kind::Remote(_))
    }

    /// The display name.
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

impl Origin {
    /// A short description of the source.
    pub fn label(&self) -> String {
        match self {
            Self::Builtin => "built-in".to_owned(),
            Self::Project(_) => "project".to_owned(),
            Self::User(_) => "user".to_owned(),
            Self::Extension { name, .. } => format!("extension {name}"),
        }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Builtin => None,
            Self::Project(path) | Self::User(path) | Self::Extension { path, .. } => Some(path),
        }
    }
}
