//! The rules of a run: shipped, the user's, the project's, the administrator's, and what settings and flags say.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::paths::system_dir;
use pollux_config::trust::FolderTrust;
use pollux_policy::engine::{Engine, Options as Facts};
use pollux_policy::load::{Sources, load};
use pollux_policy::settings_rules::Lists;
use pollux_tools::real_path;
use serde_json::Value;

use super::Loaded;
use crate::launch::Options;

/// Loads every rule that is in force; what is wrong with a file is among [`Engine::problems`].
pub(super) fn engine(options: &Options, loaded: &Loaded, workspaces: &[PathBuf]) -> Arc<Engine> {
    let trusted = loaded.trust == FolderTrust::Trusted;
    let security = &loaded.groups.security;
    let facts = Facts {
        workspaces: workspaces.to_vec(),
        trusted,
        disable_always_allow: flag(loaded, "security.disableAlwaysAllow"),
        protect_build_files: security.protect_build_files,
        resolve: Some(Arc::new(|path| real_path(path).unwrap_or_else(|_| path.to_owned()))),
        ..Facts::default()
    };
    Arc::new(load(&sources(options, loaded, trusted), facts))
}

fn sources(options: &Options, loaded: &Loaded, trusted: bool) -> Sources {
    let here = |path: &String| loaded.env.cwd().join(path);
    let chosen = texts(loaded, "policyPaths");
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
        admin: texts(loaded, "adminPolicyPaths").iter().map(here).collect(),
        extension: Vec::new(),
        lists: Lists {
            allowed: loaded.groups.tools.allowed.clone(),
            allowed_by_flag: !options.allowed_tools.is_empty(),
            exclude: loaded.groups.tools.exclude.clone(),
            core: loaded.groups.tools.core.clone(),
            confirmation_required: texts(loaded, "tools.confirmationRequired"),
            excluded_servers: texts(loaded, "mcp.excluded"),
            allowed_servers: texts(loaded, "mcp.allowed"),
            trusted_servers: Vec::new(),
            remote_agents: Vec::new(),
        },
    }
}

fn texts(loaded: &Loaded, key: &str) -> Vec<String> {
    let Some(Value::Array(items)) = loaded.settings.get(key).map(|(value, _)| value) else {
        return Vec::new();
    };
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn flag(loaded: &Loaded, key: &str) -> bool {
    loaded.settings.get(key).is_some_and(|(value, _)| value == &Value::Bool(true))
}
