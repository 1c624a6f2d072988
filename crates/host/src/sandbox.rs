//! Selects the sandbox for tool commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_config::trust::take_inventory;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sandbox::Right;
use pollux_egress::stored::ProjectKey;
use pollux_rights::{
    NetworkMode, Opened, Profile, RightsOptions, SessionRights, connect_if_asked, parse_right, resolve_right,
    seatbelt_profile,
};
use pollux_sandbox::{Confinement, Doors, Level, SandboxError, SandboxRequest, Trial};
use serde_json::{Value, json};

use super::{Loaded, container, workspace};

/// Upstream's sandboxes that Pollux does not have.
const UNSUPPORTED: &[&str] = &["runsc", "lxc", "windows-native"];
const VALUES: &str = "use `auto`, `true`, `false`, `sandbox-exec` (macOS only), or, on Linux, `namespaces`, `bwrap`, \
                      `landlock`, `docker` or `podman`";

/// The sandbox for tool commands.
pub struct Sandbox {
    pub rights: Option<Arc<SessionRights>>,
    /// Lines for stderr.
    pub notes: Vec<String>,
    /// Whether the approval mode decides about it, because the user did not.
    is_implicit: bool,
    /// Sandboxes of earlier modes, whose commands may still run.
    earlier: Vec<Arc<SessionRights>>,
    /// The name of the sandbox in the process that runs the session, if it is another one.
    elsewhere: Option<String>,
}

/// The sandbox actually in effect, whatever the settings requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxInForce {
    /// Pollux confines each command.
    Own {
        confinement: Confinement,
        profile: Profile,
        network: NetworkMode,
    },
    /// Pollux itself runs inside a sandbox; the value of `SANDBOX`.
    Outer(String),
    /// The session runs in another process, with the sandbox of this name.
    Elsewhere(String),
    None,
}

impl SandboxInForce {
    /// A short name.
    pub fn name(&self) -> String {
        match self {
            Self::Own { confinement, .. } => confinement.level.to_string(),
            Self::Outer(name) | Self::Elsewhere(name) => name.clone(),
            Self::None => "no sandbox".to_owned(),
        }
    }

    /// The name and the network of commands, for a status line.
    pub fn status(&self) -> String {
        let Self::Own { network, .. } = self else { return self.name() };
        let network = match network {
            NetworkMode::None => "no network",
            NetworkMode::Proxy => "proxy",
            NetworkMode::Public => "public network",
            NetworkMode::Open => "open network",
        };
        format!("{}, {network}", self.name())
    }

    /// The name and what it means for commands, in one line.
    pub fn summary(&self) -> String {
        match self {
            Self::Own { confinement, profile, .. } => {
                let rights = match profile {
                    Profile::Workspace => confinement.rights(),
                    Profile::ReadOnly => "commands can write only temporary files; no network".to_owned(),
                    Profile::Strict => format!("{}; the rest of the home is hidden", confinement.rights()),
                };
                format!("{} ({rights})", confinement.level)
            }
            Self::Outer(name) => format!("{name} (outer sandbox, shared by Pollux and its commands)"),
            Self::Elsewhere(name) => format!("{name} (in the process of the session)"),
            Self::None => "no sandbox (commands run with your rights)".to_owned(),
        }
    }

    /// The same as facts: `level` is the name that settings use, or null.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Own {
                confinement: Confinement { level, network: open, signals_outside, .. },
                profile,
                network,
            } => {
                json!({
                    "level": level.as_str(),
                    "network": open,
                    "signals_outside": signals_outside,
                    "mode": profile.as_str(),
                    "network_mode": network.as_str(),
                })
            }
            Self::Outer(name) => json!({"level": null, "outer": name}),
            Self::Elsewhere(_) | Self::None => json!({"level": null}),
        }
    }
}

impl Sandbox {
    /// Commands run directly on this machine.
    fn none(loaded: &Loaded) -> Self {
        let idle = !loaded.sandbox_allow.is_empty() || loaded.sandbox_report.is_some();
        let note = || "No sandbox is in use: ignoring `--sandbox-allow` and `--sandbox-report`.".to_owned();
        Self::new(None, idle.then(note).into_iter().collect())
    }

    fn new(rights: Option<Arc<SessionRights>>, notes: Vec<String>) -> Self {
        Self { rights, notes, is_implicit: false, earlier: Vec::new(), elsewhere: None }
    }

    /// The sandbox of a session that another process runs.
    pub(crate) fn elsewhere(name: String) -> Self {
        Self { elsewhere: Some(name), ..Self::new(None, Vec::new()) }
    }

    /// Applies the sandbox of a mode that is entered later, from the next command on. A sandbox that the user chose
    /// stays, and one that is in use is never given up for none. Returns whether it changed.
    pub fn follow_mode(&mut self, loaded: &Loaded, mode: ApprovalMode) -> Result<bool, Failure> {
        let is_chosen = match &self.rights {
            Some(_) => !self.is_implicit,
            None => mode != ApprovalMode::Yolo,
        };
        if is_chosen || (mode == ApprovalMode::Yolo && !loaded.trust.uses_project()) {
            return Ok(false);
        }
        let new = check_after(loaded, mode, self.rights.as_deref())?;
        let rights = |rights: &Arc<SessionRights>| (rights.level(), rights.profile(), rights.network());
        let (before, after) = (self.rights.as_ref().map(rights), new.rights.as_ref().map(rights));
        if before.is_some() && (after.is_none() || before == after) {
            return Ok(false);
        }
        let mut earlier = std::mem::take(&mut self.earlier);
        earlier.extend(self.rights.take());
        // One that is known has the processes of its commands.
        let known = earlier.iter().position(|known| Some(rights(known)) == after);
        let known = known.map(|known| earlier.remove(known));
        *self = Self { earlier, rights: known.or(new.rights), ..new };
        Ok(true)
    }

    /// The sandbox that commands run in.
    pub fn in_force(&self, env: &Env) -> SandboxInForce {
        if let Some(name) = &self.elsewhere {
            return SandboxInForce::Elsewhere(name.clone());
        }
        match (&self.rights, env.non_empty("SANDBOX")) {
            (Some(rights), _) => SandboxInForce::Own {
                confinement: rights.confinement(),
                profile: rights.profile(),
                network: rights.network(),
            },
            (None, Some(outer)) => SandboxInForce::Outer(outer.to_owned()),
            (None, None) => SandboxInForce::None,
        }
    }

    /// The sandbox description for the model; `None` without a sandbox.
    pub fn kind(&self, loaded: &Loaded) -> Option<String> {
        let in_force = self.in_force(&loaded.env);
        (in_force != SandboxInForce::None).then(|| in_force.name())
    }
}

/// Why a sandbox is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nobody,
    /// Nothing is configured: use one that everyday commands do not notice, if available.
    Auto,
    /// `yolo` mode: use one if available.
    Mode,
    /// `--sandbox`, `GEMINI_SANDBOX` or `tools.sandbox`.
    Asked,
    /// `security.toolSandboxing`, and none of the others.
    EveryTool,
}

/// Checks that the requested sandbox works (exit code 44).
pub fn check_sandbox(loaded: &Loaded, approval: ApprovalMode) -> Result<Sandbox, Failure> {
    check_after(loaded, approval, None)
}

/// The same for a session that had these rights.
fn check_after(
    loaded: &Loaded,
    approval: ApprovalMode,
    earlier: Option<&SessionRights>,
) -> Result<Sandbox, Failure> {
    let wish = wish(loaded, approval);
    if wish == Wish::Nobody {
        return Ok(Sandbox::none(loaded));
    }
    // The processes of a sandbox start with the first command.
    let trial = match wish {
        Wish::Mode | Wish::Auto => Trial::FirstCommand,
        Wish::Nobody | Wish::Asked | Wish::EveryTool => Trial::UnlessKnown,
    };
    let open = |options: RightsOptions| match earlier {
        Some(earlier) => earlier.in_mode(options),
        None => SessionRights::open(options),
    };
    let level = level_asked(loaded)?;
    let options = RightsOptions { trial, ..options_at(level, loaded, wish, approval)? };
    let ignored = ignored_devices(&options.request);
    let (mut contained, mode) = (options.request.container.clone(), options.network);
    let mut opened = open(options);
    let mut fallback = None;
    // The settings name a sandbox without enabling it, so that another one fits the wish of the mode, too.
    if wish == Wish::Mode
        && level.is_some()
        && let Err(error) = &opened
    {
        fallback = Some(format!(
            "The sandbox of `tools.sandbox` is not available, so another one is used ({error})."
        ));
        contained = None;
        opened = open(RightsOptions { trial, ..options_at(None, loaded, wish, approval)? });
    }
    match opened {
        // The others break some everyday programs, which is too much for a sandbox that nobody asked for.
        Ok(Opened { rights, .. }) if wish == Wish::Auto && !rights.level().is_default() => {
            Ok(Sandbox::none(loaded))
        }
        Err(_) if wish == Wish::Auto => Ok(Sandbox::none(loaded)),
        Ok(Opened { rights, mut notes }) => {
            if let (Some(contained), Level::Container(engine)) = (contained, rights.level()) {
                notes.extend(container::notes(&contained, engine, mode));
            }
            notes.extend(ignored);
            if wish == Wish::Asked {
                notes.extend(container::unused_file(loaded, rights.level()));
            }
            if wish != Wish::Auto {
                notes.insert(0, rights_line(&rights));
            }
            notes.extend(fallback);
            let is_implicit = matches!(wish, Wish::Auto | Wish::Mode);
            Ok(Sandbox { is_implicit, ..Sandbox::new(Some(Arc::new(rights)), notes) })
        }
        Err(error) if wish == Wish::Mode => {
            let note = format!("No sandbox: commands run directly on this machine ({error}).");
            Ok(Sandbox::new(None, vec![note]))
        }
        Err(error) => Err(unavailable(&error)),
    }
}

/// Lines about devices of the settings that commands do not get.
fn ignored_devices(request: &SandboxRequest) -> Vec<String> {
    let problem = |path: &PathBuf| Some((path.display().to_string(), pollux_sandbox::device_problem(path)?));
    let ignored = request.grants.devices.iter().filter_map(problem);
    ignored.map(|(path, why)| format!("tools.sandboxDevices: `{path}` is ignored: {why}.")).collect()
}

/// The sandbox and what commands can do in it, in one line.
fn rights_line(rights: &SessionRights) -> String {
    let network = match rights.network() {
        NetworkMode::Open => "",
        NetworkMode::None => ", without network access",
        NetworkMode::Proxy => "; network access only to allowed hosts",
        NetworkMode::Public => "; network access only to public hosts",
    };
    let is_contained = matches!(rights.level(), Level::Container(_));
    let written = match rights.profile() {
        Profile::Workspace | Profile::Strict if is_contained => "the workspace and the container",
        Profile::Workspace | Profile::Strict => "the workspace, caches and temporary files",
        Profile::ReadOnly => "temporary files",
    };
    format!("Sandbox ({}): commands can write only to {written}{network}.", rights.level())
}

/// Opens the sandbox for one command of the user (exit code 44). The second value are lines for stderr.
pub fn open_rights(loaded: &Loaded) -> Result<(SessionRights, Vec<String>), Failure> {
    let options = options(loaded, asked(loaded), ApprovalMode::Default)?;
    let Opened { rights, notes } = SessionRights::open(options).map_err(|error| unavailable(&error))?;
    Ok((rights, notes))
}

/// Runs a process of a sandbox if this one was started as such; call it first in `main`, while there is one thread.
/// Returns the exit code.
pub fn run_holder_if_asked(arguments: &mut dyn Iterator<Item = OsString>) -> Option<u8> {
    // No such process has more.
    let arguments: Vec<OsString> = arguments.take(4).collect();
    connect_if_asked(&arguments).or_else(|| pollux_sandbox::run_holder_if_asked(&mut arguments.into_iter()))
}

/// The failure to report if a sandbox cannot be used (exit code 44).
pub fn unavailable(error: &SandboxError) -> Failure {
    let hint = match error {
        SandboxError::Container(error) => return container::unavailable(error),
        SandboxError::Root(_) => "start in the project's own folder, or use `--sandbox=false`",
        SandboxError::NoneWorks(_) => {
            "install bubblewrap, run inside a container of your own, or use `--sandbox=false`"
        }
    };
    Failure::from_error(ExitKind::Sandbox, error).hint(hint)
}

/// Reads the values of `--sandbox-allow` (exit code 42).
pub(crate) fn flags(values: &[String]) -> Result<Vec<Right>, Failure> {
    let read = |value: &String| {
        parse_right(value).map_err(|error| {
            Failure::new(ExitKind::Input, format!("invalid value for `--sandbox-allow`: {error}"))
                .hint("use write:PATH, read:PATH, host:NAME[:PORT], port:N or socket:PATH")
        })
    };
    values.iter().map(read).collect()
}

/// What a container would be asked for if the user wants one, and whether it is to have the proxy.
pub(crate) fn container_asked(loaded: &Loaded) -> Result<Option<(SandboxRequest, bool)>, Failure> {
    let (wish, level) = (wish(loaded, ApprovalMode::Default), level_asked(loaded)?);
    if wish != Wish::Asked || !matches!(level, Some(Level::Container(_))) {
        return Ok(None);
    }
    let mut request = request(loaded, level)?;
    let (profile, network, is_default) = modes(loaded, wish, ApprovalMode::Default);
    request.grants.read_only = profile == Profile::ReadOnly;
    let network = if is_default { NetworkMode::Open } else { network };
    add_container(&mut request, loaded, network)?;
    request.network = network != NetworkMode::None;
    Ok(Some((request, network.is_proxied())))
}

/// What a sandbox of commands would be asked for, whether or not one is in use.
pub fn sandbox_request(loaded: &Loaded) -> Result<SandboxRequest, Failure> {
    let wish = asked(loaded);
    let mut request = request(loaded, level_asked(loaded)?)?;
    let (profile, network, _) = modes(loaded, wish, ApprovalMode::Default);
    add_container(&mut request, loaded, network)?;
    request.network = network == NetworkMode::Open;
    request.grants.read_only = profile == Profile::ReadOnly;
    request.grants.bare_home = profile == Profile::Strict;
    // Nobody accepts there: this one is only looked at.
    request.grants.doors = network.is_proxied().then(|| Doors {
        ports: Vec::new(),
        open: Arc::new(|_| ()),
        variables: Vec::new(),
    });
    Ok(request)
}

fn asked(loaded: &Loaded) -> Wish {
    if loaded.groups.security.tool_sandboxing { Wish::EveryTool } else { Wish::Asked }
}

fn level_asked(loaded: &Loaded) -> Result<Option<Level>, Failure> {
    let asked = &loaded.groups.tools.sandbox;
    if asked.command.is_none() && asked.image.is_some() && asked.enabled == Some(true) {
        return Ok(Some(Level::Container(container::default_engine(loaded))));
    }
    asked.command.as_deref().map(level).transpose()
}

fn wish(loaded: &Loaded, approval: ApprovalMode) -> Wish {
    let asked = &loaded.groups.tools.sandbox;
    // `SANDBOX` is set inside a sandbox.
    if loaded.env.non_empty("SANDBOX").is_some() || asked.enabled == Some(false) {
        Wish::Nobody
    } else if asked.enabled == Some(true) {
        Wish::Asked
    } else if approval == ApprovalMode::Yolo && !loaded.groups.security.tool_sandboxing {
        Wish::Mode
    } else if loaded.groups.security.tool_sandboxing {
        Wish::EveryTool
    } else {
        Wish::Auto
    }
}

fn level(word: &str) -> Result<Level, Failure> {
    if let Some(level) = Level::named(word) {
        return Ok(level);
    }
    let problem = if UNSUPPORTED.contains(&word.to_ascii_lowercase().as_str()) {
        format!("unsupported sandbox type `{word}`")
    } else {
        format!("unknown sandbox type `{word}`")
    };
    Err(Failure::new(ExitKind::Sandbox, problem)
        .hint(format!("check `--sandbox`, `GEMINI_SANDBOX` and `tools.sandbox`; {VALUES}")))
}

/// What commands may use, and whether nobody said so about the network.
fn modes(loaded: &Loaded, wish: Wish, approval: ApprovalMode) -> (Profile, NetworkMode, bool) {
    let asked = &loaded.groups.tools.sandbox;
    let named = loaded.env.non_empty("SEATBELT_PROFILE").and_then(seatbelt_profile);
    let word = asked.profile.as_deref();
    let (profile, open) = match (named, word.and_then(Profile::named)) {
        (Some((profile, network)), _) => (profile, Some(network)),
        (None, Some(profile)) => (profile, (word == Some("workspace-open")).then_some(NetworkMode::Open)),
        (None, None) if approval == ApprovalMode::Plan => (Profile::ReadOnly, None),
        (None, None) => (Profile::Workspace, None),
    };
    let chosen = asked.network_mode.as_deref().and_then(NetworkMode::named);
    let by_switch = asked.network.map(|on| if on { NetworkMode::Open } else { NetworkMode::None });
    let from_variable = open.filter(|_| named.is_some());
    if let Some(network) = from_variable.or(chosen).or(open).or(by_switch) {
        return (profile, network, false);
    }
    let network = match (wish, profile) {
        (Wish::EveryTool, _) | (_, Profile::ReadOnly) => NetworkMode::None,
        (_, Profile::Strict) => NetworkMode::Proxy,
        (Wish::Mode, _) => NetworkMode::Open,
        (Wish::Asked | Wish::Auto | Wish::Nobody, _) if approval == ApprovalMode::Yolo => NetworkMode::Open,
        (Wish::Asked | Wish::Auto | Wish::Nobody, _) => NetworkMode::Proxy,
    };
    (profile, network, profile == Profile::Workspace)
}

fn options(loaded: &Loaded, wish: Wish, approval: ApprovalMode) -> Result<RightsOptions, Failure> {
    options_at(level_asked(loaded)?, loaded, wish, approval)
}

/// The same for one kind of sandbox; `None` for the best one that works.
fn options_at(
    level: Option<Level>,
    loaded: &Loaded,
    wish: Wish,
    approval: ApprovalMode,
) -> Result<RightsOptions, Failure> {
    // Commands must not see conversations; what covers them needs the folder. In a home that cannot be written there will
    // be none.
    let _ = files::create_folder(&loaded.home.tmp_dir(), Mode::Private);
    let mut request = request(loaded, level)?;
    let (profile, network, network_is_default) = modes(loaded, wish, approval);
    add_container(&mut request, loaded, network)?;
    let directory = loaded.env.cwd().to_path_buf();
    let resolve = |right: &Right| {
        resolve_right(right, &request.homes, &directory).map_err(|error| {
            Failure::new(ExitKind::Input, format!("invalid value for `--sandbox-allow`: {error}"))
        })
    };
    let allow = loaded.sandbox_allow.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
    let root = loaded.project.root();
    let trusted = loaded.trust.uses_project();
    let project = trusted.then(|| {
        let (home, folder) = (loaded.home.clone(), root.to_path_buf());
        ProjectKey::new(root.to_path_buf(), move || take_inventory(&home, &folder).digest)
    });
    let added: Vec<&String> = loaded.dotenv.loaded.iter().flat_map(|file| &file.names).collect();
    Ok(RightsOptions {
        request,
        profile,
        network,
        network_is_default,
        package_downloads: loaded.groups.tools.sandbox.package_downloads,
        allow,
        directory,
        stored: loaded.home.gemini_dir().join("policies").join("sandbox.toml"),
        project_rules: Some(root.join(".gemini").join("sandbox.toml")),
        project,
        env: loaded
            .groups
            .tools
            .redaction
            .provider_keys
            .removed_from(&loaded.env)
            .filtered(|name, _| !added.iter().any(|known| *known == name)),
        log: Some(loaded.project.temp_dir().join("sandbox-network.jsonl")),
        report: loaded.sandbox_report.as_ref().map(|file| loaded.env.cwd().join(file)),
        copies: loaded.project.temp_dir().join("sandbox-settings"),
        trial: Trial::Now,
    })
}

fn request(loaded: &Loaded, level: Option<Level>) -> Result<SandboxRequest, Failure> {
    let env = &loaded.env;
    let user_home = loaded.home.user_home();
    let homes = env.non_empty("HOME").map(PathBuf::from).into_iter().chain([user_home.to_path_buf()]);
    let allowed = loaded.groups.tools.sandbox.allowed_paths.iter();
    Ok(SandboxRequest {
        roots: workspace::workspace(loaded)?.directories().to_vec(),
        allowed: allowed.map(|path| absolute(path, user_home, env.cwd())).collect(),
        homes: homes.collect(),
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        temp: PathBuf::from(env.non_empty("TMPDIR").unwrap_or("/tmp")),
        search_path: env.get("PATH").unwrap_or_default().to_owned(),
        network: false,
        level,
        // Other projects' folders of this kind are hidden.
        grants: pollux_sandbox::Grants {
            visible: vec![loaded.project.temp_dir().to_path_buf()],
            hidden: loaded.hidden_places.clone(),
            devices: loaded.groups.tools.sandbox.devices.iter().map(PathBuf::from).collect(),
            ..pollux_sandbox::Grants::default()
        },
        container: None,
    })
}

/// What tools and commands may write in addition to the working directory.
pub(crate) fn lent_folders(loaded: &Loaded) -> impl Iterator<Item = PathBuf> {
    let included = loaded.groups.context.include_directories.iter();
    let allowed = loaded.groups.tools.sandbox.allowed_paths.iter();
    included.chain(allowed).map(|path| absolute(path, loaded.home.user_home(), loaded.env.cwd()))
}

/// What to say before a start that takes long.
pub(crate) fn announcement(loaded: &Loaded, approval: ApprovalMode) -> Option<String> {
    let is_asked = wish(loaded, approval) != Wish::Nobody;
    container::announcement(loaded, level_asked(loaded).ok().flatten().filter(|_| is_asked))
}

/// Adds what a container needs to know, if the level is one.
fn add_container(request: &mut SandboxRequest, loaded: &Loaded, network: NetworkMode) -> Result<(), Failure> {
    if let Some(Level::Container(_)) = request.level {
        request.container = Some(container::request(loaded, network)?);
    }
    Ok(())
}

pub(crate) fn absolute(path: &str, home: &Path, directory: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if path == "~" => home.to_path_buf(),
        None => directory.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reported_sandbox_is_the_one_in_effect() {
        let own = |network| {
            let level = Level::Bubblewrap;
            let confinement = Confinement {
                level,
                network,
                proxied: !network,
                signals_outside: false,
                abstract_sockets: false,
                late_sockets: false,
                given_devices: false,
            };
            let mode = if network { NetworkMode::Open } else { NetworkMode::Proxy };
            SandboxInForce::Own { confinement, profile: Profile::Workspace, network: mode }
        };
        assert_eq!(own(true).name(), "bubblewrap");
        assert_eq!(own(true).status(), "bubblewrap, open network");
        assert_eq!(own(false).status(), "bubblewrap, proxy");
        assert_eq!(
            own(false).to_json(),
            json!({
                "level": "bwrap", "network": false, "signals_outside": false,
                "mode": "workspace", "network_mode": "proxy",
            })
        );
        assert!(
            own(false).summary().contains("through a proxy")
                && own(true).summary().contains("network is open")
        );
        let bare = Sandbox::new(None, Vec::new());
        let env = |vars: &[(&str, &str)]| {
            Env::new(vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())), PathBuf::from("/"))
        };
        assert_eq!(bare.in_force(&env(&[("SANDBOX", "")])), SandboxInForce::None);
        let outer = bare.in_force(&env(&[("SANDBOX", "docker-1")]));
        assert_eq!(
            (outer.name().as_str(), outer.to_json()),
            ("docker-1", json!({"level": null, "outer": "docker-1"}))
        );
    }
}
