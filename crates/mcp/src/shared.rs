//! Running servers that several sessions of a process use together.
//!
//! Only sessions that would start the same program in the same way share it: same folders, same definition, same
//! environment. What one session's environment holds never reaches the other's server.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use pollux_config::groups::Secret;
use pollux_config::paths::sha256_hex;
use pollux_domain::sync::Locked as _;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cache::definition_key;
use crate::config::ServerConfig;
use crate::server::{Server, Status};
use crate::setup::Setup;

/// Variables about a terminal and its shell. They differ between terminals and mean nothing to a server.
const OF_TERMINALS: [&str; 12] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "WINDOWID",
];

/// Servers that run in this process, for all sessions that may share them. Cheap to clone.
#[derive(Clone, Default)]
pub struct SharedServers(Arc<Mutex<Vec<NamedServer>>>);

/// A server by the name of everything that it was started with.
type NamedServer = (String, Arc<RunningServer>);

/// A server that is started, or will be.
pub(crate) struct RunningServer {
    pub(crate) server: Arc<Server>,
    pub(crate) start: Arc<Start>,
    pub(crate) stop: CancellationToken,
    /// Whether it has ended.
    pub(crate) done: watch::Receiver<bool>,
}

/// When the servers of one thread are started.
#[derive(Default)]
pub(crate) struct Start {
    /// They may be started.
    pub(crate) go: CancellationToken,
    /// They are waited for, so that nothing else needs the machine first.
    pub(crate) at_once: AtomicBool,
}

/// The servers while nobody else looks.
pub(crate) struct Held<'a>(MutexGuard<'a, Vec<NamedServer>>);

impl SharedServers {
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.0.locked())
    }
}

impl Held<'_> {
    /// The running server of this name. One that has failed is not used again.
    pub(crate) fn find(&mut self, name: &str) -> Option<Arc<RunningServer>> {
        self.0.retain(|(_, running)| running.server.state().status != Status::Disconnected);
        self.0.iter().find(|(known, _)| known == name).map(|(_, running)| Arc::clone(running))
    }

    pub(crate) fn add(&mut self, name: String, running: &Arc<RunningServer>) {
        self.0.push((name, Arc::clone(running)));
    }

    pub(crate) fn remove(&mut self, running: &Arc<RunningServer>) {
        self.0.retain(|(_, known)| !Arc::ptr_eq(known, running));
    }
}

/// Names everything that a server is started with.
pub(crate) fn name(config: &ServerConfig, setup: &Setup) -> String {
    let Setup { owners, env, redaction, directory, roots, interactive, version, .. } = setup;
    let variables: Vec<_> = env.iter().filter(|(name, _)| !OF_TERMINALS.contains(name)).collect();
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
    let oauth = &config.auth.oauth;
    let started_with = json!([
        definition_key(config, directory, env),
        owners.is_of_project(&config.name),
        config.timeout.as_millis().to_string(),
        config.include_tools,
        config.exclude_tools,
        format!("{:?}", config.auth),
        secret(&oauth.client_secret),
        secret(&oauth.private_key),
        directory,
        roots,
        interactive,
        version,
        format!("{redaction:?}"),
        variables,
        env.uid(),
    ]);
    sha256_hex(started_with.to_string().as_bytes())
}

impl fmt::Debug for SharedServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedServers").field(&self.0.locked().len()).finish()
    }
}

/// The same place, not the same content.
impl PartialEq for SharedServers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
