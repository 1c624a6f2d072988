//! The rights of a session.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_config::files;
use pollux_domain::approval::Person;
use pollux_domain::sandbox::{Denial, DenialKind, Grant, GrantScope, GrantedBy, Right, RightKind, Strength};
use pollux_domain::sync::Locked as _;
use pollux_egress::host::Authority;
use pollux_egress::journal::Denial as Refused;
use pollux_egress::rules::RuleBook;
use pollux_egress::stored::{ProjectKey, SaveError, save_path};
use pollux_sandbox::{Confinement, Level, Sandbox, SandboxError, SandboxRequest, caches_of_commands};

use crate::copies::Copies;
use crate::desk::HostDesk;
use crate::gate::Gate;
use crate::mode::{NetworkMode, Profile};
use crate::opening::{self, grant, known_hosts, stored_paths, stored_rules, upstream, with_rights};
use crate::options::RightsOptions;
use crate::packages::OwnMachine;
use crate::report;

/// What [`SessionRights::open`] found.
pub struct Opened {
    pub rights: SessionRights,
    /// Problems with stored rules, for the user.
    pub notes: Vec<String>,
}

/// The sandbox of a mode and all rights of its commands. What the modes of a session share ends with the last of them.
pub struct SessionRights {
    base: Arc<Sandbox>,
    pub(crate) request: SandboxRequest,
    profile: Profile,
    network: NetworkMode,
    pub(crate) desk: Arc<HostDesk>,
    gate: Option<Arc<Gate>>,
    stored: PathBuf,
    project: Option<ProjectKey>,
    log: Option<PathBuf>,
    report: Option<PathBuf>,
    pub(crate) copies: Arc<Copies>,
    /// Shared by the modes of the session.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Rights that hold for the session, except for hosts.
    grants: Vec<Grant>,
    /// Sandboxes with those rights, the newest last. Commands of older ones may still run.
    expanded: Vec<Expanded>,
    refused: HashSet<Right>,
    denials: Vec<(String, Denial)>,
    /// Ports of this machine that lead to commands.
    published: BTreeSet<u16>,
    /// Rights of single commands that run, by command.
    lent: Vec<(String, Right)>,
}

impl State {
    /// Ends the right of a command. Returns whether nobody has it any more.
    fn give_back(&mut self, id: &str, right: &Right) -> bool {
        self.lent.retain(|(command, lent)| command != id || lent != right);
        let is_lent = self.lent.iter().any(|(_, lent)| lent == right);
        !is_lent && !self.grants.iter().any(|grant| grant.right == *right)
    }
}

/// What the modes of a session share.
struct Shared {
    desk: Arc<HostDesk>,
    gate: Option<Arc<Gate>>,
    copies: Arc<Copies>,
    state: Arc<Mutex<State>>,
}

/// A sandbox of a mode with rights that the user granted.
struct Expanded {
    mode: (Profile, NetworkMode),
    rights: Vec<Right>,
    sandbox: Arc<Sandbox>,
}

/// Denials that are kept for reports.
const MAX_DENIALS: usize = 1000;
/// Ports of earlier commands that a change of the mode opens.
const MAX_PUBLISHED: usize = 16;

impl SessionRights {
    /// Opens the sandbox and the proxy.
    pub fn open(options: RightsOptions) -> Result<Opened, SandboxError> {
        let mut notes = Vec::new();
        let text = files::read_text(&options.stored).unwrap_or_else(|error| {
            notes.push(error.to_string());
            None
        });
        let mut given: Vec<Grant> = Vec::new();
        let flags = options.allow.iter();
        given.extend(flags.map(|right| grant(right.clone(), GrantScope::Session, GrantedBy::Flag)));
        given.extend(stored_paths(text.as_deref(), &options, &mut notes));
        let stored = stored_rules(text.as_deref(), &options, &mut notes);
        let rules = Arc::new(RuleBook::new(opening::rules(stored.rules, &options)));
        let home = options.request.homes.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
        // What commands of earlier sessions or of another mode could write is open in a mode that writes nothing, too.
        let written = given.iter().filter(|grant| grant.right.kind == RightKind::Write);
        let mut open: Vec<PathBuf> = written.map(|grant| PathBuf::from(&grant.right.target)).collect();
        open.extend(options.request.roots.iter().chain(&options.request.allowed).cloned());
        open.extend(options.request.homes.iter().flat_map(|home| caches_of_commands(home)));
        let machine = OwnMachine::new(options.env.clone(), home, open);
        let desk = Arc::new(HostDesk::new(rules, machine, options.project.is_some(), stored.open_commands));
        let state = Arc::new(Mutex::new(State { grants: given, ..State::default() }));
        let copies = Arc::new(Copies::new(options.copies.clone(), options.directory.clone()));
        let shared = Shared { desk, gate: None, copies, state };
        let (rights, more) = Self::in_session(options, shared, None)?;
        notes.extend(more);
        Ok(Opened { rights, notes })
    }

    /// The rights of another mode of the same session. Files in `/tmp`, servers, grants and refusals stay; what was
    /// said about flags and files when the session began is not said again.
    pub fn in_mode(&self, options: RightsOptions) -> Result<Opened, SandboxError> {
        let shared = Shared {
            desk: Arc::clone(&self.desk),
            gate: self.gate.clone(),
            copies: Arc::clone(&self.copies),
            state: Arc::clone(&self.state),
        };
        let (rights, mut notes) = Self::in_session(options, shared, Some(self))?;
        if rights.network == NetworkMode::Open {
            notes.extend(self.publish_servers());
        }
        Ok(Opened { rights, notes })
    }

    fn in_session(
        options: RightsOptions,
        Shared { desk, gate, copies, state }: Shared,
        earlier: Option<&Self>,
    ) -> Result<(Self, Vec<String>), SandboxError> {
        let mut notes = Vec::new();
        let was_proxied = earlier.is_some_and(|earlier| earlier.network.is_proxied());
        if options.package_downloads && options.network.is_proxied() && !was_proxied {
            desk.downloads.preset();
        }
        let is_open = options.network == NetworkMode::Open;
        let gate = gate.filter(|_| !is_open).or_else(|| {
            let upstream = upstream(&options.env, &mut notes);
            let (file, project, log) = (options.stored.clone(), options.project.clone(), options.log.clone());
            (!is_open).then(|| Arc::new(Gate::new(Arc::clone(&desk), upstream, file, project, log)))
        });
        let lasting = {
            let grants = &state.locked().grants;
            grants.iter().filter(|grant| grant.by != GrantedBy::User).cloned().collect::<Vec<_>>()
        };
        let mut request = with_rights(options.request.clone(), &lasting);
        request.network = is_open;
        request.grants.visible.extend(Some(known_hosts(&desk.machine.home)).filter(|file| file.exists()));
        request.grants.overlaid.extend(copies.of_ssh(options.network.is_proxied()));
        request.grants.visible.push(copies.of_git());
        request.grants.replaced = request.homes.first().map(|home| copies.replaced(home)).unwrap_or_default();
        request.grants.read_only = options.profile == Profile::ReadOnly;
        request.grants.bare_home = options.profile == Profile::Strict;
        opening::open_ports(&mut request, &lasting, options.network, gate.as_ref());
        let open = |request: &SandboxRequest| match earlier {
            Some(earlier) if request.level.is_none_or(|level| level == earlier.level()) => {
                earlier.base.for_mode(request).or_else(|_| Sandbox::open_at(request, options.trial))
            }
            _ => Sandbox::open_at(request, options.trial),
        };
        let mut base = open(&request)?;
        let mut network = options.network;
        if network.is_proxied() && !base.confinement().proxied {
            if options.network_is_default {
                request.network = true;
                base = open(&request)?;
            } else {
                let level = base.level();
                notes.push(format!("{level} has no proxy: sandboxed commands have no network access"));
            }
            network = if options.network_is_default { NetworkMode::Open } else { NetworkMode::None };
        }
        notes.extend(gate.iter().flat_map(|gate| gate.take_problems()));
        let base = Arc::new(base);
        desk.watch(&base, network != NetworkMode::None);
        let rights = Self {
            base,
            request,
            profile: options.profile,
            network,
            desk,
            gate,
            stored: options.stored,
            project: options.project,
            log: options.log,
            report: options.report,
            copies,
            state,
        };
        notes.extend(rights.write_report());
        Ok((rights, notes))
    }

    pub fn level(&self) -> Level {
        self.base.level()
    }

    /// This program as commands see it, if they can.
    pub(crate) fn own_program(&self) -> Option<PathBuf> {
        self.base.own_program()
    }

    pub fn confinement(&self) -> Confinement {
        self.base.confinement()
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    pub fn network(&self) -> NetworkMode {
        self.network
    }

    /// Whether a report of denials is written.
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// The log of connections, if there is one.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref().filter(|_| self.network.is_proxied())
    }

    /// The person to ask from now on; without one, everything unknown is refused.
    pub fn introduce(&self, person: Option<Arc<dyn Person>>) {
        self.desk.introduce(person);
    }

    /// The sandbox with all rights that hold for the session.
    pub fn sandbox(&self) -> Arc<Sandbox> {
        // What the project is trusted for is fixed before a command can change it.
        if let Some(project) = &self.project {
            project.trust();
        }
        let (is_expanded, known) = {
            let state = self.state.locked();
            let wanted: Vec<&Right> = state.grants.iter().map(|grant| &grant.right).collect();
            let fits = |known: &&Expanded| {
                known.mode == self.mode() && known.rights.iter().collect::<Vec<_>>() == wanted
            };
            let is_expanded = state.grants.iter().any(|grant| grant.by == GrantedBy::User);
            (is_expanded, state.expanded.iter().rev().find(fits).map(|known| Arc::clone(&known.sandbox)))
        };
        match known {
            _ if !is_expanded => Arc::clone(&self.base),
            Some(sandbox) => sandbox,
            // Granted in another mode. If that fails, the command has fewer rights.
            None => self.expand(&[]).unwrap_or_else(|_| Arc::clone(&self.base)),
        }
    }

    fn mode(&self) -> (Profile, NetworkMode) {
        (self.profile, self.network)
    }

    /// The rights that were granted beyond single commands, by whom and for how long.
    pub fn grants(&self) -> Vec<Grant> {
        let mut grants = self.state.locked().grants.clone();
        grants.extend(self.desk.granted());
        grants
    }

    /// What was refused so far, with the commands.
    pub fn denials(&self) -> Vec<(String, Denial)> {
        self.state.locked().denials.clone()
    }

    /// Grants a path for the session and further if the scope says so. Returns problems with saving it.
    pub(crate) fn keep(&self, given: Grant) -> Option<SaveError> {
        let project = match given.scope {
            GrantScope::Project => self.project.as_ref(),
            GrantScope::Once | GrantScope::Session | GrantScope::Always => None,
        };
        let lasts = given.scope == GrantScope::Always || project.is_some();
        let saved = match given.right.kind {
            RightKind::Write | RightKind::Read | RightKind::Socket if lasts => {
                let key = given.right.kind.as_str();
                save_path(&self.stored, key, Path::new(&given.right.target), project).err()
            }
            _ => None,
        };
        let mut state = self.state.locked();
        if !state.grants.contains(&given) {
            state.grants.push(given);
        }
        saved
    }

    /// The sandbox with the session's rights and those of one command.
    pub(crate) fn expand(&self, once: &[Grant]) -> Result<Arc<Sandbox>, SandboxError> {
        let grants = self.state.locked().grants.clone();
        let all: Vec<Grant> = grants.iter().chain(once).cloned().collect();
        let mut request = with_rights(self.request.clone(), &all);
        opening::open_ports(&mut request, &all, self.network, self.gate.as_ref());
        let sandbox = match self.base.with_rights(&request) {
            Ok(sandbox) => sandbox,
            // Its namespaces cannot be shared: it gets its own loopback.
            Err(_) => Sandbox::open(&SandboxRequest { level: Some(self.level()), ..request })?,
        };
        let sandbox = Arc::new(sandbox);
        self.desk.watch(&sandbox, self.network != NetworkMode::None);
        if once.is_empty() {
            let rights = grants.iter().map(|grant| grant.right.clone()).collect();
            let expanded = Expanded { mode: self.mode(), rights, sandbox: Arc::clone(&sandbox) };
            self.state.locked().expanded.push(expanded);
        }
        Ok(sandbox)
    }

    /// Takes a right back. Commands that have it are ended. Returns whether it was there.
    pub fn revoke(&self, right: &Right) -> bool {
        if right.kind == RightKind::Host {
            let Ok(Authority { host, port }) = Authority::parse(&right.target, Some(443)) else {
                return false;
            };
            let had = self.desk.granted().iter().any(|grant| grant.right == *right);
            self.desk.rules.revoke(&host, port);
            self.desk.forget(right);
            return had;
        }
        let ended = {
            let mut state = self.state.locked();
            let before = state.grants.len();
            state.grants.retain(|grant| grant.right != *right || grant.by != GrantedBy::User);
            if state.grants.len() == before {
                return false;
            }
            let all = std::mem::take(&mut state.expanded);
            let (with, without) =
                all.into_iter().partition::<Vec<_>, _>(|expanded| expanded.rights.contains(right));
            state.expanded = without;
            with
        };
        // Its processes end with it, without the lock. The next command gets the rights that are left.
        drop(ended);
        self.close(right);
        true
    }

    /// Notes the right of one command.
    pub(crate) fn lend(&self, id: &str, right: &Right) {
        self.state.locked().lent.push((id.to_owned(), right.clone()));
    }

    /// Ends the right of one command. What other commands have stays open.
    pub(crate) fn give_back(&self, id: &str, right: &Right) {
        // Locked until it is closed: a command that gets the right meanwhile has to open it again.
        let mut state = self.state.locked();
        if state.give_back(id, right) {
            self.close(right);
        }
    }

    /// Closes the way to a port of this machine.
    fn close(&self, right: &Right) {
        if let (RightKind::Port, Ok(port), Some(gate)) = (right.kind, right.target.parse(), &self.gate) {
            gate.close(port);
            self.base.forget_port(port);
        }
    }

    /// Opens a port of this machine that leads to the same port of the commands' own loopback, until the session ends.
    pub fn publish(&self, port: u16) -> std::io::Result<()> {
        if self.network == NetworkMode::Open {
            return Err(std::io::Error::other(
                "commands use the network of this machine, so it is already open",
            ));
        }
        #[cfg(target_os = "linux")]
        if self.base.own_program().is_some() {
            crate::publish::publish(&self.base, port)?;
            self.state.locked().published.insert(port);
            return Ok(());
        }
        let _ = port;
        Err(std::io::Error::other(format!("{} has no network of its own", self.level())))
    }

    /// Publishes what commands left running, for a mode in which commands have the network of this machine.
    fn publish_servers(&self) -> Vec<String> {
        let known = self.state.locked().published.clone();
        let new: Vec<u16> = self.base.listening().into_iter().filter(|port| !known.contains(port)).collect();
        let told = |port: &u16| match self.publish(*port) {
            Ok(()) => format!("Port {port} of earlier commands is open on 127.0.0.1 until the session ends."),
            Err(error) => format!("Port {port} of earlier commands cannot be reached in this mode: {error}"),
        };
        let (opened, others) = new.split_at(new.len().min(MAX_PUBLISHED));
        let mut notes: Vec<String> = opened.iter().map(told).collect();
        if !others.is_empty() {
            let count = others.len();
            notes
                .push(format!("{count} more ports of earlier commands are not opened: too many are in use."));
        }
        notes
    }

    pub(crate) fn is_refused(&self, right: &Right) -> bool {
        self.state.locked().refused.contains(right)
    }

    pub(crate) fn refuse(&self, right: Right) {
        self.state.locked().refused.insert(right);
    }

    /// Takes the hosts that a command reached through the proxy.
    pub(crate) fn take_hosts(&self, id: &str) -> Vec<String> {
        self.gate.iter().flat_map(|gate| gate.journal.take_hosts(id)).collect()
    }

    pub(crate) fn network_denials(&self, id: &str) -> Vec<Denial> {
        let refused = self.gate.iter().flat_map(|gate| gate.journal.denials(None));
        let known = self.denials();
        let is_told = |found: &Refused| {
            known.iter().any(|(_, known)| (&known.target, known.port) == (&found.target, Some(found.port)))
        };
        // One whose command is unknown is told with the next command that ends.
        let is_wanted = |found: &Refused| match &found.command {
            Some(command) => command == id,
            None => !is_told(found),
        };
        refused
            .filter(is_wanted)
            .map(|denial| Denial {
                kind: DenialKind::Connect,
                target: denial.target,
                port: Some(denial.port),
                strength: Strength::Certain,
                rule: denial.rule,
            })
            .collect()
    }

    /// Problems with the proxy and with saving since the last call.
    pub(crate) fn take_problems(&self) -> Vec<String> {
        let of_gate = self.gate.iter().flat_map(|gate| gate.take_problems());
        of_gate.chain(self.desk.downloads.take_problems()).collect()
    }

    /// Keeps the denials of a command that ended.
    pub(crate) fn record(&self, command: &str, denials: &[Denial]) {
        {
            let mut state = self.state.locked();
            for denial in denials {
                let known = state.denials.iter().any(|(_, known)| known == denial);
                if !known && state.denials.len() < MAX_DENIALS {
                    state.denials.push((command.to_owned(), denial.clone()));
                }
            }
        }
        // Why it cannot be written was said when the session began.
        let _ = self.write_report();
    }

    /// Writes the report, if one is asked for. Returns why it could not be written; the run goes on without it.
    fn write_report(&self) -> Option<String> {
        let facts = report::Facts {
            level: self.level(),
            profile: self.profile,
            network: self.network,
            denials: &self.denials(),
            granted: &self.grants(),
            homes: &self.request.homes,
        };
        let error = report::write(self.report.as_deref()?, &facts).err()?;
        Some(format!("could not write the sandbox report: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_of_a_command_ends_when_no_other_one_has_it() {
        let port = |number: &str| Right { kind: RightKind::Port, target: number.to_owned() };
        let lent = |id: &str, right: Right| (id.to_owned(), right);
        let mut state = State {
            lent: vec![lent("a", port("1")), lent("b", port("1")), lent("a", port("2"))],
            ..State::default()
        };
        assert!(state.give_back("a", &port("2")));
        assert!(!state.give_back("a", &port("1")), "another command has it");
        assert!(state.give_back("b", &port("1")));
        state.lent.push(lent("c", port("3")));
        state.grants.push(grant(port("3"), GrantScope::Session, GrantedBy::User));
        assert!(!state.give_back("c", &port("3")), "the session has it");
    }
}
