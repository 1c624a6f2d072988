//! How the rights of a session begin: flags, files, the network's ports and its proxies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::files;
use pollux_domain::sandbox::{Grant, GrantScope, GrantedBy, Right, RightKind};
use pollux_egress::pattern::HostPattern;
use pollux_egress::rules::{Allow, Origin, Reach, RuleSet, Unlisted};
use pollux_egress::stored::{StoredPaths, StoredRules};
use pollux_egress::upstream::UpstreamProxies;
use pollux_egress::variables::{Endpoint, ForCommand, variables};
use pollux_sandbox::{Doors, SandboxRequest};

use crate::connect::PROXY_PORT;
use crate::gate::Gate;
use crate::mode::NetworkMode;
use crate::options::RightsOptions;
use crate::right::{is_broad, resolve_right};

pub(crate) fn grant(right: Right, scope: GrantScope, by: GrantedBy) -> Grant {
    Grant { right, scope, by }
}

/// The request with the paths of these grants.
pub(crate) fn with_rights(mut request: SandboxRequest, grants: &[Grant]) -> SandboxRequest {
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
pub(crate) fn stored_paths(
    text: Option<&str>,
    options: &RightsOptions,
    notes: &mut Vec<String>,
) -> Vec<Grant> {
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
pub(crate) fn stored_rules(
    text: Option<&str>,
    options: &RightsOptions,
    notes: &mut Vec<String>,
) -> StoredRules {
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

/// Adds the ports that are open inside: the proxy's, and those of this machine that were granted.
pub(crate) fn open_ports(
    request: &mut SandboxRequest,
    grants: &[Grant],
    network: NetworkMode,
    gate: Option<&Arc<Gate>>,
) {
    let proxy = network.is_proxied().then_some(PROXY_PORT);
    let granted = grants.iter().filter(|grant| grant.right.kind == RightKind::Port);
    let granted =
        granted.filter_map(|grant| grant.right.target.parse().ok()).filter(|port| *port != PROXY_PORT);
    let ports: Vec<u16> = proxy.into_iter().chain(granted).collect();
    request.grants.doors = gate.filter(|_| !ports.is_empty()).map(|gate| {
        let opener = Arc::clone(gate);
        let variables = match network.is_proxied() {
            true => variables(&Endpoint::inside(PROXY_PORT), &ForCommand::default()),
            false => Vec::new(),
        };
        Doors { ports, open: Arc::new(move |opened| opener.open(opened)), variables }
    });
}

/// The rules of files and flags.
pub(crate) fn rules(stored: RuleSet, options: &RightsOptions) -> RuleSet {
    let mut rules = RuleSet::new(match options.network {
        NetworkMode::Public => Unlisted::Public,
        NetworkMode::None | NetworkMode::Proxy | NetworkMode::Open => Unlisted::Ask,
    });
    rules.extend(stored);
    rules.extend(flag_rules(&options.allow));
    rules
}

/// Where ssh finds the keys of servers.
pub(crate) fn known_hosts(home: &Path) -> PathBuf {
    home.join(".ssh").join("known_hosts")
}

/// Whether the user connects git over ssh in another way.
pub(crate) fn has_own_ssh(env: &Env) -> bool {
    ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| env.non_empty(name).is_some())
}

/// The user's own proxy, which ours uses.
pub(crate) fn upstream(env: &Env, notes: &mut Vec<String>) -> UpstreamProxies {
    let first = |names: [&str; 2]| names.into_iter().find_map(|name| env.non_empty(name));
    let (https, http) = (first(["https_proxy", "HTTPS_PROXY"]), first(["http_proxy", "HTTP_PROXY"]));
    let except = first(["no_proxy", "NO_PROXY"]).unwrap_or_default();
    UpstreamProxies::parse(https, http, except).unwrap_or_else(|error| {
        notes.push(format!("Warning: sandboxed commands will not use your proxy: {error}"));
        UpstreamProxies::default()
    })
}
