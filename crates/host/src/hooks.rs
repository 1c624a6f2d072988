//! The hooks of a run.

use std::path::Path;
use std::sync::Arc;

use pollux_agent::HookPort;
use pollux_config::settings::{self, EditError};
use pollux_domain::JsonObject;
use pollux_domain::content::Content;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::SystemClock;
use pollux_exec::background::Background;
use pollux_hooks::{HookServices, Hooks, LoadRequest, Registry, StartSource};
use serde_json::Value;

use super::{Loaded, Prepared, extensions};

/// All hooks of a run; invalid definitions are in [`Registry::problems`].
pub fn registry(loaded: &Loaded) -> Registry {
    let project_off = if loaded.trust.uses_project() { project_list(loaded) } else { Vec::new() };
    Registry::load(&LoadRequest {
        settings: &loaded.settings,
        env: &loaded.env,
        lent_env: &loaded.lent_env(),
        extensions: &extensions::hooks(loaded),
        workspace: loaded.project.root(),
        project_off: &project_off,
        current_name: pollux_policy::canonical_tool_name,
        callbacks: loaded.client_hooks.as_ref(),
    })
}

/// The hooks of a conversation; `begin` holds the turns it starts with when it follows another one.
pub fn port(
    turn: &Prepared<'_>,
    directory: &Path,
    begin: Option<&[Content]>,
    background: Arc<Background>,
    warnings: &mut Vec<String>,
) -> HookPort {
    let source = match begin {
        None if turn.session.is_resumed() => StartSource::Resume,
        None => StartSource::Startup,
        Some([]) => StartSource::Clear,
        Some(_) => StartSource::Resume,
    };
    let told = turn.loaded.settings.get("hooksConfig.notifications");
    let hooks = hooks(turn.loaded, background);
    if hooks.registry().is_enabled() {
        // A hook that silently does not run is worse than none, so an invalid definition is an error.
        warnings.extend(hooks.registry().problems().iter().map(ToString::to_string));
    }
    HookPort {
        hooks,
        cwd: directory.to_path_buf(),
        source,
        tells_waits: !matches!(told, Some((Value::Bool(false), _))),
    }
}

/// The hooks of a run, ready to fire.
pub fn hooks(loaded: &Loaded, background: Arc<Background>) -> Hooks {
    let surroundings =
        HookServices { environment: loaded.sanitised_env(), background, clock: Arc::new(SystemClock) };
    Hooks::new(Arc::new(registry(loaded)), surroundings)
}

/// Project hooks that the project disables itself.
pub fn project_list(loaded: &Loaded) -> Vec<String> {
    // An unreadable file has already stopped start-up or is ignored.
    listed(&loaded.project.settings_file()).unwrap_or_default()
}

pub fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The error for a settings file that could not be changed.
pub fn refused(error: &EditError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

pub fn object(file: &Path) -> Result<Option<JsonObject>, Failure> {
    settings::read_object(file).map_err(|error| {
        let reason = error.files.first().map(|file| file.reason.clone()).unwrap_or_default();
        Failure::new(ExitKind::Config, format!("Error reading {}: {reason}", file.display()))
            .hint("fix the file; nothing was changed")
    })
}

/// Names disabled in one settings file, under the current and the deprecated key.
pub fn listed(file: &Path) -> Result<Vec<String>, Failure> {
    let values = object(file)?.unwrap_or_default();
    let list = |section: &str| texts(values.get(section).and_then(|section| section.get("disabled")));
    let mut names = list("hooksConfig");
    names.extend(list("hooks").into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    Ok(names)
}
