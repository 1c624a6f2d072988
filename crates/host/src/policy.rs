//! The policy rules of a run: built-in, user, project and administrator rules, plus those from settings and flags.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_agent::{GrantReach, Planning};
use pollux_config::env::Env;
use pollux_config::paths::system_dir;
use pollux_config::search_path::SearchPath;
use pollux_config::server_name::same_server;
use pollux_config::settings::Layer;
use pollux_config::trust::scripts;
use pollux_policy::disk::LocalDisk;
use pollux_policy::engine::{Engine, Options as Facts, Plans};
use pollux_policy::load::{Sources, load};
use pollux_policy::settings_rules::Lists;
use pollux_tools::real_path;
use serde_json::Value;

use super::{Loaded, agent_servers, agents, extensions};
use crate::helpers::caches;
use crate::request::Request;

pub use super::server_names::{only_servers, server_names};

/// Loads all effective rules; invalid files are in [`Engine::problems`].
pub fn engine(options: &Request, loaded: &Loaded, workspaces: &[PathBuf]) -> Arc<Engine> {
    let trusted = loaded.trust.uses_project();
    let security = &loaded.groups.security;
    let facts = Facts {
        workspaces: workspaces.to_vec(),
        trusted,
        disable_always_allow: flag(loaded, "security.disableAlwaysAllow")
            || flag(loaded, "admin.secureModeEnabled"),
        disable_yolo: security.disable_yolo,
        protect_build_files: security.protect_build_files,
        scripts: scripts::named_by_settings(&loaded.settings, loaded.project.root()),
        workspace_may_widen: flag(loaded, "security.projectMayWiden"),
        plans: plan_directory(loaded)
            .map_or_else(|| Plans::OfSessions(loaded.project.temp_dir().to_path_buf()), Plans::In),
        conseca: flag(loaded, "security.enableConseca"),
        resolve: Some(Arc::new(|path| real_path(path).unwrap_or_else(|_| path.to_owned()))),
        disk: Some(Arc::new(LocalDisk)),
        home: loaded.env.non_empty("HOME").map(PathBuf::from),
        git_settings: git_settings(&loaded.env),
        search_path: Some(search_path(loaded, workspaces)),
    };
    Arc::new(load(&sources(options, loaded, trusted), facts))
}

/// Where git looks for the settings of the user and of the machine. Where its own folder is depends on how it was built.
fn git_settings(env: &Env) -> Vec<PathBuf> {
    let given = |name| env.non_empty(name).map(|path| vec![PathBuf::from(path)]);
    let home = env.non_empty("HOME").map(PathBuf::from);
    let shared = env.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
    let shared = shared.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let own = home.map(|home| home.join(".gitconfig")).into_iter();
    let own = own.chain(shared.map(|folder| folder.join("git/config"))).collect();
    let machine = ["/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig"];
    let mut files: Vec<PathBuf> = given("GIT_CONFIG_GLOBAL").unwrap_or(own);
    files.extend(given("GIT_CONFIG_SYSTEM").unwrap_or_else(|| machine.map(PathBuf::from).to_vec()));
    files
}

/// The search path for programs. Programs in the workspace or in folders that commands can write to are not used.
pub fn search_path(loaded: &Loaded, workspaces: &[PathBuf]) -> SearchPath {
    let temp = [loaded.env.non_empty("TMPDIR").unwrap_or("/tmp"), "/tmp", "/var/tmp"].map(PathBuf::from);
    let open: Vec<PathBuf> = workspaces.iter().cloned().chain(temp).chain(caches(&loaded.env)).collect();
    SearchPath::new(loaded.env.get("PATH").map(OsStr::new), &open)
}

/// How far approvals may reach.
pub fn grants(loaded: &Loaded) -> GrantReach {
    let forbidden = flag(loaded, "security.disableAlwaysAllow") || flag(loaded, "admin.secureModeEnabled");
    let session = loaded.trust.uses_project() && !forbidden;
    let kept = session && flag(loaded, "security.enablePermanentToolApproval");
    GrantReach { session, file: kept.then(|| loaded.home.policies_dir().join("auto-saved.toml")) }
}

/// Whether plan mode is enabled, and the plan directory.
pub fn planning(loaded: &Loaded) -> Planning {
    match (loaded.settings.get("general.plan.enabled"), plan_directory(loaded)) {
        (Some((Value::Bool(false), _)), _) => Planning::Off,
        (_, Some(folder)) => Planning::In(folder),
        (_, None) => Planning::InSessionFolder,
    }
}

/// The plan folder of a session, if enabled. The id is untrusted and could contain a path, so it is sanitised.
pub fn session_plans(loaded: &Loaded, session: &str) -> Option<PathBuf> {
    let is_plain = session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match planning(loaded) {
        Planning::Off => None,
        Planning::In(folder) => Some(folder),
        Planning::InSessionFolder => {
            is_plain.then(|| loaded.project.temp_dir().join(session.to_ascii_lowercase()).join("plans"))
        }
    }
}

/// The plan folder without a session.
pub fn plans_folder(loaded: &Loaded) -> PathBuf {
    plan_directory(loaded).unwrap_or_else(|| loaded.project.temp_dir().join("plans"))
}

fn sources(options: &Request, loaded: &Loaded, trusted: bool) -> Sources {
    let here = |path: &String| loaded.env.cwd().join(path);
    let chosen = loaded.texts("policyPaths");
    let user = match chosen.as_slice() {
        [] => vec![loaded.home.policies_dir()],
        given => given.iter().map(here).collect(),
    };
    let workspace = loaded.project.gemini_dir().join("policies");
    let is_home = workspace.parent() == Some(loaded.home.gemini_dir());
    Sources {
        user,
        workspace: (trusted && !is_home).then_some(workspace),
        system: Some(system_dir().join("policies")),
        admin: loaded.texts("adminPolicyPaths").iter().map(here).collect(),
        extension: extensions::policies(loaded),
        lists: lists(options, loaded, trusted),
    }
}

fn lists(options: &Request, loaded: &Loaded, trusted: bool) -> Lists {
    let tools = &loaded.groups.tools;
    // A project may define servers, but not trust them.
    let allowed_servers =
        if is_own(loaded, "mcp.allowed") { loaded.texts("mcp.allowed") } else { Vec::new() };
    Lists {
        allowed: tools.allowed.clone(),
        allowed_by_flag: !options.allowed_tools.is_empty(),
        exclude: tools.exclude.iter().cloned().chain(extensions::excluded_tools(loaded)).collect(),
        core: tools.core.clone(),
        core_only_limits: !is_own(loaded, "tools.core") && !flag(loaded, "security.projectMayWiden"),
        confirmation_required: confirmed(options, loaded),
        excluded_servers: loaded.texts("mcp.excluded"),
        allowed_servers,
        headless_servers: flag(loaded, "mcp.autoAllowInHeadless")
            && is_own(loaded, "mcp.autoAllowInHeadless"),
        trusted_servers: if trusted { trusted_servers(loaded) } else { Vec::new() },
        remote_agents: agents::remote_names(loaded),
    }
}

/// Tools that need approval, by settings and by the request.
fn confirmed(options: &Request, loaded: &Loaded) -> Vec<String> {
    loaded
        .texts("tools.confirmationRequired")
        .into_iter()
        .chain(options.confirmed_tools.iter().cloned())
        .collect()
}

/// Servers trusted in user or system settings; a project cannot trust its own.
fn trusted_servers(loaded: &Loaded) -> Vec<String> {
    let servers = loaded.settings.section("mcpServers").as_object().into_iter().flatten();
    let configured = servers
        .filter(|(_, server)| server.get("trust") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.clone())
        .filter(|name| is_own(loaded, &format!("mcpServers.{name}")));
    let taken = server_names(loaded);
    let is_taken = |name: &String| taken.iter().any(|other| same_server(other, name));
    let of_agents = agent_servers::trusted(agents::of(loaded)).into_iter().filter(|name| !is_taken(name));
    configured.chain(of_agents).collect()
}

/// Hosts in private networks that `web_fetch` may reach.
pub fn allowed_hosts(loaded: &Loaded) -> Vec<String> {
    loaded.texts("tools.webFetch.allowedHosts")
}

/// `general.plan.directory`, relative to the project unless absolute; otherwise the one set by an extension.
fn plan_directory(loaded: &Loaded) -> Option<PathBuf> {
    let value = loaded.settings.get("general.plan.directory").and_then(|(value, _)| value.as_str());
    match value.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => {
            let folder = loaded.project.root().join(text);
            let is_own = is_own(loaded, "general.plan.directory");
            // A link of a project may lead to its configuration.
            (is_own || !is_reached_by_link(loaded.project.root(), &folder)).then_some(folder)
        }
        None => extensions::plan_directory(loaded),
    }
}

fn is_reached_by_link(root: &Path, folder: &Path) -> bool {
    let below = folder.ancestors().take_while(|above| *above != root);
    below.into_iter().any(Path::is_symlink)
}

/// Whether a value does not come from the project.
fn is_own(loaded: &Loaded, key: &str) -> bool {
    match loaded.settings.origin(key).layer {
        Layer::Project => false,
        Layer::Default
        | Layer::SystemDefaults
        | Layer::User
        | Layer::System
        | Layer::Environment
        | Layer::Arguments => true,
    }
}

fn flag(loaded: &Loaded, key: &str) -> bool {
    loaded.settings.get(key).is_some_and(|(value, _)| value == &Value::Bool(true))
}
