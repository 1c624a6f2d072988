//! "Package downloads": the hosts that package managers on this machine download from.
//!
//! No host is listed here. Each tool's own configuration on the user's machine says where it downloads from, so
//! mirrors of a company work; where nothing is configured, the tool is asked for its default. A host that a tool does
//! not tell (the file host behind an index, cargo's default registry) is asked about when it is first used.
//!
//! Only files of the user and the system are read, never those of a workspace: a project must not choose hosts. The
//! environment must be the user's own, without a project's `.env`. Keys for uploads (`api` of a cargo registry,
//! `.pypirc`, `publishConfig`) are not read; a registry that takes uploads at the same host cannot be told apart.

mod config;

use std::path::{Path, PathBuf};
use std::thread;

use pollux_config::env::Env;
use pollux_domain::address::{self, AddressKind};

use crate::host::{Authority, Host};
use crate::pattern::HostPattern;
use crate::rules::{Allow, Origin, Reach, RuleSet};

/// Reads this machine's configuration. Programs are asked from several threads at once.
pub trait Machine: Sync {
    /// The text of a file; `None` if it is missing, unreadable or in a place that commands can write.
    fn read(&self, path: &Path) -> Option<String>;
    /// The files of a folder.
    fn list(&self, folder: &Path) -> Vec<PathBuf>;
    /// Whether commands can write a file, or something on the way to it.
    fn is_open(&self, path: &Path) -> bool;
    /// The output of an installed program, run in the user's home folder; `None` if it is missing or fails.
    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String>;
}

/// A host that a tool downloads from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadHost {
    pub tool: &'static str,
    pub pattern: HostPattern,
    /// The file, variable or command that named it.
    pub source: String,
}

/// An address that a tool's configuration contains.
struct Found {
    tool: &'static str,
    url: String,
    source: String,
}

/// The hosts of all package managers, each once. Those that must be asked are asked together.
pub fn package_downloads(env: &Env, home: &Path, machine: &dyn Machine) -> Vec<DownloadHost> {
    let mut hosts: Vec<DownloadHost> = Vec::new();
    let found = thread::scope(|scope| {
        let npm = scope.spawn(|| config::npm(env, home, machine));
        let python = scope.spawn(|| config::python(env, home, machine));
        let go = scope.spawn(|| config::go(env, home, machine));
        let (cargo, apt) = (config::cargo(env, home, machine), config::apt(machine));
        let [npm, python, go] = [npm, python, go].map(|asked| asked.join().unwrap_or_default());
        [npm, python, cargo, go, apt]
    });
    for Found { tool, url, source } in found.into_iter().flatten() {
        let Some(Authority { host, port }) = target(&url) else { continue };
        let pattern = HostPattern::exact(host, port);
        if !hosts.iter().any(|known| known.tool == tool && known.pattern == pattern) {
            hosts.push(DownloadHost { tool, pattern, source });
        }
    }
    hosts
}

/// The rules for these hosts. A mirror may be on a private network: the user's own configuration names it.
pub fn rules(hosts: &[DownloadHost]) -> RuleSet {
    let mut rules = RuleSet::default();
    for host in hosts {
        let origin = Origin::Preset(host.tool.to_owned());
        rules.allow(Allow { pattern: host.pattern.clone(), reach: Reach::Private, origin });
    }
    rules
}

/// The host and port of an `http` or `https` URL. This machine itself is not a place for downloads.
fn target(url: &str) -> Option<Authority> {
    let (scheme, rest) = url.split_once("://")?;
    let default_port = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A user and password belong to the tool, not to the rule.
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let found = Authority::parse(authority, Some(default_port)).ok()?;
    match &found.host {
        Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => None,
        Host::Name(_) => Some(found),
        Host::Address(ip) => {
            matches!(address::kind(*ip), AddressKind::Public | AddressKind::Private).then_some(found)
        }
    }
}

#[cfg(test)]
mod tests;
