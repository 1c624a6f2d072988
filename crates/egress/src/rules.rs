//! Rules and the decision about one host and port.
//!
//! A decision depends on host, port and an immutable [`Snapshot`], on nothing else. [`RuleBook`] replaces the
//! snapshot as a whole and numbers it.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use pollux_domain::address::{self, AddressKind};
use pollux_domain::sync::Locked;
use tokio::sync::watch;

use crate::host::Host;
use crate::pattern::HostPattern;

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The user's `sandbox.toml`.
    Stored,
    /// The user's grant for the current project in `sandbox.toml`.
    StoredForProject,
    /// A setting or a flag.
    Settings,
    /// A file of the project. Such rules only deny.
    Project,
    /// An answer given in this session.
    Session,
    /// Package downloads of the named tool.
    Preset(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => f.write_str("sandbox.toml"),
            Self::StoredForProject => f.write_str("sandbox.toml, this project"),
            Self::Settings => f.write_str("settings"),
            Self::Project => f.write_str("project"),
            Self::Session => f.write_str("this session"),
            Self::Preset(tool) => write!(f, "package downloads of {tool}"),
        }
    }
}

/// The addresses that a name may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Public servers only.
    #[default]
    Public,
    /// Private networks too: a mirror inside a company. Never loopback, link-local or metadata.
    Private,
}

/// An allow rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    pub pattern: HostPattern,
    pub reach: Reach,
    pub origin: Origin,
}

/// A deny rule; it beats every allow rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deny {
    pub pattern: HostPattern,
    pub origin: Origin,
}

/// What happens to a host that no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unlisted {
    /// Ask the user if possible, otherwise refuse.
    #[default]
    Ask,
    /// Allow public servers (`tools.sandboxNetwork: "public"`).
    Public,
}

/// A set of rules before it becomes a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    allow: Vec<Allow>,
    deny: Vec<Deny>,
    unlisted: Unlisted,
}

impl RuleSet {
    /// A set that decides about unlisted hosts in the given way.
    pub fn new(unlisted: Unlisted) -> Self {
        Self { unlisted, ..Self::default() }
    }

    /// Adds an allow rule. Rules of a project's files are ignored: a project can only deny. Private networks are
    /// opened for single hosts only, never for a wildcard.
    pub fn allow(&mut self, mut rule: Allow) {
        if rule.origin == Origin::Project {
            return;
        }
        if rule.pattern.single_host().is_none() {
            rule.reach = Reach::Public;
        }
        if !self.allow.contains(&rule) {
            self.allow.push(rule);
        }
    }

    /// Adds a deny rule.
    pub fn deny(&mut self, rule: Deny) {
        if !self.deny.contains(&rule) {
            self.deny.push(rule);
        }
    }

    /// Adds all rules of another set; how unlisted hosts are treated stays.
    pub fn extend(&mut self, other: RuleSet) {
        other.allow.into_iter().for_each(|rule| self.allow(rule));
        other.deny.into_iter().for_each(|rule| self.deny(rule));
    }

    /// The allow rules.
    pub fn allowed(&self) -> &[Allow] {
        &self.allow
    }

    /// The deny rules.
    pub fn denied(&self) -> &[Deny] {
        &self.deny
    }
}

/// The decision about a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, if the addresses of the name are within reach.
    Allow { reach: Reach, rule: String },
    /// Refused without a question.
    Deny { rule: String },
    /// No rule names it: a question, or a refusal if nobody can be asked.
    Unlisted,
}

/// Rules as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    generation: u64,
    rules: RuleSet,
}

impl Snapshot {
    /// The number of this snapshot; each swap adds one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What happens to unlisted hosts.
    pub fn unlisted(&self) -> Unlisted {
        self.rules.unlisted
    }

    /// Whether a rule names a host and a port.
    pub(crate) fn lists(&self, host: &Host, port: u16) -> bool {
        let RuleSet { allow, deny, .. } = &self.rules;
        deny.iter().any(|rule| rule.pattern.denies(host, port))
            || allow.iter().any(|rule| rule.pattern.allows(host, port))
    }

    /// Decides about a host and a port.
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        if let Some(rule) = self.rules.deny.iter().find(|rule| rule.pattern.denies(host, port)) {
            return Decision::Deny { rule: format!("deny {} ({})", rule.pattern, rule.origin) };
        }
        let matching = || self.rules.allow.iter().filter(|rule| rule.pattern.allows(host, port));
        // A rule that reaches further is as much the user's as a narrower one for the same host.
        if let Some(rule) = matching().find(|rule| rule.reach == Reach::Private).or_else(|| matching().next())
        {
            let text = format!("allow {} ({})", rule.pattern, rule.origin);
            return Decision::Allow { reach: rule.reach, rule: text };
        }
        match (host, self.rules.unlisted) {
            (Host::Address(address), unlisted) => unlisted_address(*address, unlisted),
            (Host::Name(_), Unlisted::Public) => {
                Decision::Allow { reach: Reach::Public, rule: "public network".to_owned() }
            }
            (Host::Name(_), Unlisted::Ask) => Decision::Unlisted,
        }
    }
}

fn unlisted_address(address: IpAddr, unlisted: Unlisted) -> Decision {
    match (address::kind(address), unlisted) {
        (AddressKind::Public, Unlisted::Public) => {
            Decision::Allow { reach: Reach::Public, rule: "public network".to_owned() }
        }
        // Never by a question: only a written rule reaches these.
        (AddressKind::Metadata, _) => Decision::Deny { rule: "cloud metadata address".to_owned() },
        (AddressKind::Special, _) => Decision::Deny { rule: "special-purpose address".to_owned() },
        (
            AddressKind::Public | AddressKind::Private | AddressKind::Loopback | AddressKind::LinkLocal,
            Unlisted::Ask,
        ) => Decision::Unlisted,
        (AddressKind::Private | AddressKind::Loopback | AddressKind::LinkLocal, Unlisted::Public) => {
            Decision::Deny { rule: "address outside the public network".to_owned() }
        }
    }
}

impl Parts {
    fn grant(&mut self, rule: Allow) {
        self.revoked.retain(|revoked| *revoked != rule.pattern);
        if !self.granted.contains(&rule) {
            self.granted.push(rule);
        }
    }
}

/// The rules in force: those of files and settings, and what was granted in this session.
#[derive(Debug)]
pub struct RuleBook {
    parts: Mutex<Parts>,
    current: watch::Sender<Arc<Snapshot>>,
}

#[derive(Debug, Default)]
struct Parts {
    base: RuleSet,
    granted: Vec<Allow>,
    /// What was taken back and not granted again since.
    revoked: Vec<HostPattern>,
}

impl RuleBook {
    /// A book whose first snapshot has the generation 1.
    pub fn new(base: RuleSet) -> Self {
        let first = Snapshot { generation: 1, rules: base.clone() };
        let parts = Mutex::new(Parts { base, ..Parts::default() });
        Self { parts, current: watch::Sender::new(Arc::new(first)) }
    }

    /// The snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// Reports each new snapshot.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// Replaces the rules of files and settings; grants of this session stay. Returns the new generation.
    pub fn replace(&self, base: RuleSet) -> u64 {
        self.change(|parts| parts.base = base)
    }

    /// Allows exactly this host and port for the rest of the session. Returns the new generation.
    pub fn grant(&self, host: &Host, port: u16) -> u64 {
        let pattern = HostPattern::exact(host.clone(), port);
        let rule = Allow { pattern, reach: Reach::Public, origin: Origin::Session };
        self.change(|parts| parts.grant(rule))
    }

    /// Adds rules for the rest of the session. Returns the new generation.
    pub fn grant_all(&self, rules: &RuleSet) -> u64 {
        self.change(|parts| rules.allowed().iter().for_each(|rule| parts.grant(rule.clone())))
    }

    /// The same for rules that nobody chose in this session: what was taken back stays so. Returns the new generation.
    pub fn grant_unless_revoked(&self, rules: &RuleSet) -> u64 {
        self.change(|parts| {
            for rule in rules.allowed() {
                if !parts.revoked.contains(&rule.pattern) {
                    parts.grant(rule.clone());
                }
            }
        })
    }

    /// Takes back one host and port that was granted in this session, or will be without a choice. Returns the new
    /// generation.
    pub fn revoke(&self, host: &Host, port: u16) -> u64 {
        let pattern = HostPattern::exact(host.clone(), port);
        self.change(|parts| {
            parts.granted.retain(|rule| rule.pattern != pattern);
            if !parts.revoked.contains(&pattern) {
                parts.revoked.push(pattern);
            }
        })
    }

    /// Takes back what was granted in this session. Returns the new generation.
    pub fn revoke_grants(&self) -> u64 {
        self.change(|parts| parts.granted.clear())
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) -> u64 {
        // The lock is held until the snapshot is published, so that generations and rules keep one order.
        let mut parts = self.parts.locked();
        change(&mut parts);
        let mut rules = parts.base.clone();
        parts.granted.iter().for_each(|rule| rules.allow(rule.clone()));
        let generation = self.snapshot().generation + 1;
        self.current.send_replace(Arc::new(Snapshot { generation, rules }));
        generation
    }
}

#[cfg(test)]
mod tests;
