//! Which rule decides about a path or a host.

use std::path::Path;

use pollux_domain::sandbox::{Right, RightKind};
use pollux_egress::host::{Authority, HostError};
use pollux_egress::rules::{Decision, Reach};
use pollux_sandbox::{Level, PathAccess};

use crate::mode::NetworkMode;
use crate::right::{absolute, is_broad, is_virtual, parse_right, real};
use crate::session::SessionRights;

/// What commands may do with a path or a host, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The real path, or the host and its port.
    pub target: String,
    pub verdict: &'static str,
    /// The rule that decides.
    pub rule: String,
    /// The right that would allow it, if it can be granted.
    pub allow: Option<Right>,
}

impl SessionRights {
    /// Explains `PATH`, `HOST[:PORT]` or `KIND:TARGET`.
    pub fn explain(&self, text: &str, directory: &Path) -> Result<Explanation, HostError> {
        let home = self.request.homes.first().map(std::path::PathBuf::as_path);
        let named = parse_right(text).ok();
        let (kind, target) = match &named {
            Some(right) => (Some(right.kind), right.target.as_str()),
            None => (None, text),
        };
        let path = absolute(target, home, directory);
        let is_path = match kind {
            Some(kind) => !matches!(kind, RightKind::Host | RightKind::Port),
            None => target.contains('/') || target.starts_with(['~', '.']) || path.symlink_metadata().is_ok(),
        };
        match kind {
            Some(RightKind::Port) => Ok(self.explain_port(target)),
            _ if is_path => Ok(self.explain_path(&path)),
            _ => self.explain_host(target),
        }
    }

    fn explain_path(&self, path: &Path) -> Explanation {
        // What cannot be resolved is explained as it was written.
        let path = real(path).unwrap_or_else(|| path.to_path_buf());
        let sandbox = self.sandbox();
        let (access, place) = sandbox.explain(&path);
        let below = |what: &str| {
            place.as_ref().map_or_else(|| what.to_owned(), |place| format!("{what} {}", place.display()))
        };
        let (verdict, rule, kind) = match access {
            PathAccess::Writable => ("read and write", below("writable"), None),
            PathAccess::ReadOnly => (
                "read",
                match self.level() {
                    Level::Container(_) => "only the workspace and temporary files can be written".to_owned(),
                    _ => "only the workspace, caches and temporary files can be written".to_owned(),
                },
                Some(RightKind::Write),
            ),
            PathAccess::Protected => ("read", below("protected"), Some(RightKind::Write)),
            PathAccess::Hidden => ("no access", below("hidden"), Some(RightKind::Read)),
            PathAccess::Elsewhere => (
                "no access: at this path, the container has a file of its own, or none",
                "the container shows the workspace and what is granted".to_owned(),
                Some(RightKind::Read),
            ),
        };
        let can_be_granted = !is_broad(&path, &self.request.homes) && !is_virtual(&path);
        let target = path.to_string_lossy().into_owned();
        let allow = kind.filter(|_| can_be_granted).map(|kind| Right { kind, target: target.clone() });
        Explanation { target, verdict, rule, allow }
    }

    fn explain_port(&self, port: &str) -> Explanation {
        let is_open = self
            .grants()
            .iter()
            .any(|grant| grant.right.kind == RightKind::Port && grant.right.target == port);
        let right = Right { kind: RightKind::Port, target: port.to_owned() };
        let target = format!("port {port} of this machine");
        match (self.network(), is_open) {
            (NetworkMode::Open, _) => network_is(target, "connect", NetworkMode::Open),
            (_, true) => Explanation { target, verdict: "connect", rule: right.to_string(), allow: None },
            (_, false) => Explanation {
                target,
                verdict: "no access",
                rule: "commands have a localhost of their own".to_owned(),
                allow: Some(right),
            },
        }
    }

    fn explain_host(&self, text: &str) -> Result<Explanation, HostError> {
        let authority = Authority::parse(text, Some(443))?;
        let target = authority.to_string();
        match self.network() {
            NetworkMode::Open => return Ok(network_is(target, "connect", NetworkMode::Open)),
            NetworkMode::None => return Ok(network_is(target, "no access", NetworkMode::None)),
            NetworkMode::Proxy | NetworkMode::Public => {}
        }
        self.desk.downloads.settle();
        let allow = Some(Right { kind: RightKind::Host, target: target.clone() });
        let (verdict, rule, allow) = match self.desk.rules.snapshot().decide(&authority.host, authority.port)
        {
            Decision::Allow { reach: Reach::Public, rule } => ("connect, at a public address", rule, None),
            Decision::Allow { reach: Reach::Private, rule } => ("connect", rule, None),
            Decision::Deny { rule } => ("no access", rule, None),
            Decision::Unlisted => ("asks; refused in headless runs", "no rule matches it".to_owned(), allow),
        };
        Ok(Explanation { target, verdict, rule, allow })
    }
}

fn network_is(target: String, verdict: &'static str, network: NetworkMode) -> Explanation {
    Explanation { target, verdict, rule: format!("the network is `{}`", network.as_str()), allow: None }
}
