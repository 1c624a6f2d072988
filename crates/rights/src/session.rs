//! The rights of a session.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_config::env::Env;
use pollux_config::files;
use pollux_domain::approval::Person;
use pollux_domain::sandbox::{Denial, DenialKind, Grant, GrantScope, GrantedBy, Right, RightKind, Strength};
use pollux_domain::sync::Locked as _;
use pollux_egress::host::Authority;
use pollux_egress::journal::Denial as Refused;
use pollux_egress::pattern::HostPattern;
use pollux_egress::preset;
use pollux_egress::rules::{Allow, Origin, Reach, RuleBook, RuleSet, Unlisted};
use pollux_egress::stored::{ProjectKey, SaveError, StoredPaths, StoredRules, save_path};
use pollux_egress::upstream::UpstreamProxies;
use pollux_egress::variables::{Endpoint, ForCommand, variables};
use pollux_sandbox::{Confinement, Doors, Level, Sandbox, SandboxError, SandboxRequest, Trial};
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, Running};
use crate::gate::{Gate, PROXY_PORT};
use crate::mode::{NetworkMode, Profile};
use crate::packages::OwnMachine;
use crate::report;
use crate::right::{is_broad, resolve_right};
use crate::run::CommandRun;

/// How the rights of a session begin.
pub struct RightsOptions {
    /// Paths and level. The network and the grants are filled in here.
    pub request: SandboxRequest,
    pub profile: Profile,
    pub network: NetworkMode,
    /// Whether the network mode is a default, which a level that cannot proxy may open.
    pub network_is_default: bool,
    /// Package managers may download without a question.
    pub package_downloads: bool,
    /// Rights of flags, as typed and checked.
    pub allow: Vec<Right>,
    pub directory: PathBuf,
    /// The user's `sandbox.toml`.
    pub stored: PathBuf,
    /// The project's `sandbox.toml`, which can only deny.
    pub project_rules: Option<PathBuf>,
    /// Without a trusted project, grants last for the session.
    pub project: Option<ProjectKey>,
    /// The user's own environment, without a project's.
    pub env: Env,
    /// Where connections are logged.
    pub log: Option<PathBuf>,
    /// Where denials are written as JSON after each command.
    pub report: Option<PathBuf>,
    /// How much of the opening is left to the first command.
    pub trial: Trial,
}

/// What [`SessionRights::open`] found.
pub struct Opened {
    pub rights: SessionRights,
    /// Problems with stored rules, for the user.
    pub notes: Vec<String>,
}

/// The sandbox of a session and all rights of its commands. Everything in it ends when it is dropped.
pub struct SessionRights {
    base: Arc<Sandbox>,
    pub(crate) request: SandboxRequest,
    profile: Profile,
    network: NetworkMode,
    pub(crate) desk: Arc<Desk>,
    gate: Option<Arc<Gate>>,
    stored: PathBuf,
    project: Option<ProjectKey>,
    log: Option<PathBuf>,
    report: Option<PathBuf>,
    /// The known hosts of ssh, unless the user connects it in another way.
    pub(crate) known_hosts: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Rights of paths that hold for the session.
    grants: Vec<Grant>,
    /// Sandboxes with those rights, the newest last. Commands of older ones may still run.
    expanded: Vec<(Vec<Right>, Arc<Sandbox>)>,
    refused: HashSet<Right>,
    denials: Vec<(String, Denial)>,
}

/// Denials that are kept for reports.
const MAX_DENIALS: usize = 1000;

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
        let mut rules = RuleSet::new(match options.network {
            NetworkMode::Public => Unlisted::Public,
            NetworkMode::None | NetworkMode::Proxy | NetworkMode::Open => Unlisted::Ask,
        });
        rules.extend(stored.rules);
        rules.extend(flag_rules(&options.allow));
        let rules = Arc::new(RuleBook::new(rules));
        let machine = OwnMachine {
            env: options.env.clone(),
            home: options.request.homes.first().cloned().unwrap_or_else(|| PathBuf::from("/")),
            open: options.request.roots.clone(),
        };
        let desk = Arc::new(Desk::new(rules, machine, options.project.is_some(), stored.open_commands));
        if options.package_downloads && options.network.is_proxied() {
            desk.rules.grant_all(&preset::rules(desk.packages()));
        }
        let ports = ports(&options);
        let upstream = upstream(&options.env, &mut notes);
        let (file, project) = (options.stored.clone(), options.project.clone());
        let gate = (options.network != NetworkMode::Open && !ports.is_empty()).then(|| {
            let log = options.log.clone();
            Arc::new(Gate::new(Arc::clone(&desk), ports.clone(), upstream, file, project, log))
        });
        let mut request = with_rights(options.request.clone(), &given);
        request.network = options.network == NetworkMode::Open;
        let known_hosts = known_hosts(&options);
        request.grants.visible.extend(known_hosts.clone().filter(|file| file.exists()));
        request.grants.read_only = options.profile == Profile::ReadOnly;
        request.grants.bare_home = options.profile == Profile::Strict;
        request.grants.doors = gate.as_ref().map(|gate| doors(gate, ports, options.network));
        let open = |request: &SandboxRequest| Sandbox::open_at(request, options.trial);
        let mut base = open(&request)?;
        let mut network = options.network;
        if network.is_proxied() && !base.confinement().proxied {
            if options.network_is_default {
                request.network = true;
                base = open(&request)?;
            } else {
                let level = base.level();
                notes.push(format!("{level} has no proxy: sandboxed commands have no network"));
            }
            network = if options.network_is_default { NetworkMode::Open } else { NetworkMode::None };
        }
        notes.extend(gate.iter().flat_map(|gate| gate.take_problems()));
        let base = Arc::new(base);
        desk.watch(&base);
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
            known_hosts,
            state: Mutex::new(State { grants: given, ..State::default() }),
        };
        notes.extend(rights.write_report());
        Ok(Opened { rights, notes })
    }

    pub fn level(&self) -> Level {
        self.base.level()
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

    /// The log of connections, if there is one.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref().filter(|_| self.gate.is_some())
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
        let state = self.state.locked();
        state.expanded.last().map_or_else(|| Arc::clone(&self.base), |(_, sandbox)| Arc::clone(sandbox))
    }

    /// Registers a command that is about to start.
    pub fn begin(
        self: &Arc<Self>,
        id: &str,
        command: &str,
        directory: &Path,
        cancel: &CancellationToken,
    ) -> CommandRun {
        let running = Running { id: id.to_owned(), command: command.to_owned(), cancel: cancel.clone() };
        self.desk.begin(running);
        CommandRun::new(Arc::clone(self), id, command, directory, cancel.clone())
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
        let request = with_rights(self.request.clone(), &all);
        let sandbox = match self.base.with_rights(&request) {
            Ok(sandbox) => sandbox,
            // Its namespaces cannot be shared: it gets its own loopback.
            Err(_) => Sandbox::open(&SandboxRequest { level: Some(self.level()), ..request })?,
        };
        let sandbox = Arc::new(sandbox);
        self.desk.watch(&sandbox);
        if once.is_empty() {
            let rights = grants.iter().map(|grant| grant.right.clone()).collect();
            self.state.locked().expanded.push((rights, Arc::clone(&sandbox)));
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
                all.into_iter().partition::<Vec<_>, _>(|(rights, _)| rights.contains(right));
            state.expanded = without;
            with
        };
        // Its processes end with it, without the lock.
        drop(ended);
        let is_left = self.state.locked().grants.iter().any(|grant| grant.by == GrantedBy::User);
        if is_left {
            // If that fails, commands have fewer rights than granted.
            let _ = self.expand(&[]);
        }
        true
    }

    /// Opens a port of this machine that leads to the same port of the commands' own loopback, until the session ends.
    pub fn publish(&self, port: u16) -> std::io::Result<()> {
        if self.network == NetworkMode::Open {
            return Err(std::io::Error::other(
                "commands use the network of this machine, so it is open already",
            ));
        }
        #[cfg(target_os = "linux")]
        if self.base.own_program().is_some() {
            return crate::publish::publish(&self.base, port);
        }
        let _ = port;
        Err(std::io::Error::other(format!("{} has no network of its own", self.level())))
    }

    pub(crate) fn is_refused(&self, right: &Right) -> bool {
        self.state.locked().refused.contains(right)
    }

    pub(crate) fn refuse(&self, right: Right) {
        self.state.locked().refused.insert(right);
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
        self.gate.iter().flat_map(|gate| gate.take_problems()).collect()
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
        let error = report::write(self.report.as_deref()?, self).err()?;
        Some(format!("could not write the sandbox report: {error}"))
    }
}

fn grant(right: Right, scope: GrantScope, by: GrantedBy) -> Grant {
    Grant { right, scope, by }
}

/// The request with the paths of these grants.
fn with_rights(mut request: SandboxRequest, grants: &[Grant]) -> SandboxRequest {
    for Grant { right, .. } in grants {
        let path = PathBuf::from(&right.target);
        match right.kind {
            RightKind::Write => {
                request.grants.unprotected.push(path.clone());
                request.allowed.push(path);
            }
            RightKind::Read | RightKind::Socket => request.grants.visible.push(path),
            RightKind::Host | RightKind::Port => {}
        }
    }
    request
}

/// The paths of `sandbox.toml` that exist and are not too broad.
fn stored_paths(text: Option<&str>, options: &RightsOptions, notes: &mut Vec<String>) -> Vec<Grant> {
    let Some(stored) = text.and_then(|text| StoredPaths::parse(text, options.project.as_ref()).ok()) else {
        return Vec::new();
    };
    let lists = [
        (RightKind::Write, stored.write),
        (RightKind::Read, stored.read),
        (RightKind::Socket, stored.socket),
    ];
    let mut grants = Vec::new();
    for (kind, path) in
        lists.into_iter().flat_map(|(kind, paths)| paths.into_iter().map(move |path| (kind, path)))
    {
        if is_broad(&path, &options.request.homes) {
            notes.push(format!("`{}` of sandbox.toml is ignored: it is too broad", path.display()));
            continue;
        }
        let right = Right { kind, target: path.to_string_lossy().into_owned() };
        if let Ok(right) = resolve_right(&right, &options.request.homes, &options.directory) {
            grants.push(grant(right, GrantScope::Always, GrantedBy::File));
        }
    }
    grants
}

/// The rules of the user's and the project's files.
fn stored_rules(text: Option<&str>, options: &RightsOptions, notes: &mut Vec<String>) -> StoredRules {
    let parsed = text.map(|text| StoredRules::parse(text, options.project.as_ref())).transpose();
    let mut stored = parsed.unwrap_or_else(|error| {
        notes.push(format!("`{}` is ignored: {error}", options.stored.display()));
        None
    });
    let own = stored.get_or_insert_default();
    let project = options.project_rules.as_ref().and_then(|file| files::read_text(file).ok().flatten());
    if let Some(Ok(project)) = project.as_deref().map(StoredRules::parse_project) {
        own.rules.extend(project.rules);
        own.problems.extend(project.problems);
    }
    notes.extend(own.problems.iter().map(|problem| format!("sandbox.toml: {problem}")));
    stored.unwrap_or_default()
}

/// The hosts of flags.
fn flag_rules(allow: &[Right]) -> RuleSet {
    let mut rules = RuleSet::default();
    for right in allow.iter().filter(|right| right.kind == RightKind::Host) {
        if let Ok(pattern) = HostPattern::parse(&right.target) {
            rules.allow(Allow { pattern, reach: Reach::Private, origin: Origin::Settings });
        }
    }
    rules
}

/// The ports that are open inside: the proxy's, and those of this machine that were granted.
fn ports(options: &RightsOptions) -> Vec<u16> {
    let proxy = options.network.is_proxied().then_some(PROXY_PORT);
    let granted = options.allow.iter().filter(|right| right.kind == RightKind::Port);
    let granted = granted.filter_map(|right| right.target.parse().ok()).filter(|port| *port != PROXY_PORT);
    proxy.into_iter().chain(granted).collect()
}

fn doors(gate: &Arc<Gate>, ports: Vec<u16>, network: NetworkMode) -> Doors {
    let opener = Arc::clone(gate);
    let variables = match network.is_proxied() {
        true => variables(&Endpoint::inside(PROXY_PORT), &ForCommand::default()),
        false => Vec::new(),
    };
    Doors { ports, open: Arc::new(move |listeners| opener.open(listeners)), variables }
}

/// Where ssh finds the keys of servers, if its connections lead through the proxy.
fn known_hosts(options: &RightsOptions) -> Option<PathBuf> {
    let is_own = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| options.env.non_empty(name).is_some());
    let home = options.request.homes.first().filter(|_| options.network.is_proxied() && !is_own);
    home.map(|home| home.join(".ssh").join("known_hosts"))
}

/// The user's own proxy, which ours uses.
fn upstream(env: &Env, notes: &mut Vec<String>) -> UpstreamProxies {
    let first = |names: [&str; 2]| names.into_iter().find_map(|name| env.non_empty(name));
    let (https, http) = (first(["https_proxy", "HTTPS_PROXY"]), first(["http_proxy", "HTTP_PROXY"]));
    let except = first(["no_proxy", "NO_PROXY"]).unwrap_or_default();
    UpstreamProxies::parse(https, http, except).unwrap_or_else(|error| {
        notes.push(format!("ignoring your proxy settings inside the sandbox: {error}"));
        UpstreamProxies::default()
    })
}
