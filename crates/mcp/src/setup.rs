//! What servers are started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_exec::background::Background;
use pollux_net::client::ClientOptions;

use crate::access::Access;
use crate::config::ServerConfig;
use crate::listener::NotificationListener;

/// A server and its credentials.
#[derive(Clone)]
pub struct ServerEntry {
    pub config: ServerConfig,
    pub access: Option<Arc<dyn Access>>,
}

/// Whose servers they are, by name; those in neither list are of extensions.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// The user's own, also those that are not among the entries. They come first, and names that their tools could have
    /// are refused to the tools of all others.
    pub of_user: Vec<String>,
    /// Those of a project. Their tools are approved for the folder that they run in: elsewhere the same command may start
    /// another program.
    pub of_project: Vec<String>,
}

impl Owners {
    pub fn is_of_user(&self, name: &str) -> bool {
        self.of_user.iter().any(|own| own == name)
    }

    pub fn is_of_project(&self, name: &str) -> bool {
        self.of_project.iter().any(|own| own == name)
    }

    /// The closest to the user first.
    pub fn order(&self, name: &str) -> u8 {
        if self.is_of_user(name) { 0 } else { 1 + u8::from(self.is_of_project(name)) }
    }
}

/// The configuration for starting servers.
#[derive(Clone)]
pub struct Setup {
    pub entries: Vec<ServerEntry>,
    pub owners: Owners,
    pub env: Env,
    pub redaction: Redaction,
    /// Where programs are started.
    pub directory: PathBuf,
    /// The folders that servers are told of.
    pub roots: Vec<PathBuf>,
    pub background: Arc<Background>,
    pub http: ClientOptions,
    /// Our version.
    pub version: String,
    /// Whether a user can be asked.
    pub interactive: bool,
    /// The declared name of a server's tool.
    pub name_tool: fn(&str, &str) -> String,
    /// Receives notifications that the protocol does not define. A server that cannot send any is not used.
    pub listener: Option<Arc<dyn NotificationListener>>,
    /// How long after their start to wait for servers with unknown tools.
    pub first_wait: Duration,
    /// Where declarations are kept from one run to the next.
    pub cache: Option<PathBuf>,
}
