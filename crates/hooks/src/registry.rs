//! All hooks of a run, and the selection for an event.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::settings::{Layer, Settings, read_object};
use pollux_config::trust::scripts::NamedScripts;
use serde_json::Value;

use crate::callback::Callbacks;
use crate::definition::{Hook, HookProblem, HookSource, Origin, Reader, Severity};
use crate::event::Event;

/// The parameters of [`Registry::load`].
pub struct LoadRequest<'a> {
    /// A project's file is among them only if its folder is trusted.
    pub settings: &'a Settings,
    /// For `env` in definitions of the user.
    pub env: &'a Env,
    /// The same for those of projects and extensions.
    pub lent_env: &'a Env,
    pub extensions: &'a [ExtensionHooks],
    pub workspace: &'a Path,
    /// Hooks of the project that the project itself switches off.
    pub project_off: &'a [String],
    /// The present name of a tool that older releases called differently.
    pub current_name: fn(&str) -> &str,
    /// Functions of the program that drives the session.
    pub callbacks: Option<&'a Callbacks>,
}

/// An extension that may bring hooks along.
#[derive(Debug, Clone)]
pub struct ExtensionHooks {
    pub name: String,
    pub directory: PathBuf,
    /// Its settings as variables.
    pub variables: Vec<(String, String)>,
}

/// All hooks, in the order in which they run.
#[derive(Debug, Default)]
pub struct Registry {
    hooks: Vec<Arc<Hook>>,
    problems: Vec<HookProblem>,
    enabled: bool,
    /// One bit for each event that has a hook.
    heard: u16,
}

/// The hooks of one event, and how they run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) sequential: bool,
}

impl Registry {
    /// Loads all definitions. Bad ones are reported in [`Self::problems`]; the others stay active.
    pub fn load(request: &LoadRequest<'_>) -> Self {
        let LoadRequest {
            settings,
            env,
            lent_env,
            extensions,
            workspace,
            project_off,
            current_name,
            callbacks,
        } = *request;
        let mut reader = Reader { env, lent_env, current_name, hooks: Vec::new(), problems: Vec::new() };
        for (place, value) in settings.hooks_by_layer() {
            let Value::Object(events) = value else { continue };
            let origin = Origin {
                source: source(place.layer),
                file: place
                    .file
                    .as_ref()
                    .map_or_else(|| place.layer.to_string(), |file| file.display().to_string()),
                env: Vec::new(),
                variables: Vec::new(),
            };
            reader.events(&origin, events);
        }
        let enabled = is_enabled(settings);
        if enabled {
            extensions.iter().for_each(|extension| of_extension(&mut reader, extension, workspace));
        }
        let off = settings.get("hooksConfig.disabled").and_then(|(value, _)| value.as_array());
        let off: Vec<&str> = off.into_iter().flatten().filter_map(Value::as_str).collect();
        let Reader { mut hooks, problems, .. } = reader;
        for hook in &mut hooks {
            // A project's list only affects its own hooks, never a user's guard.
            let by_project =
                hook.source == HookSource::Project && project_off.iter().any(|o| o == hook.title());
            hook.enabled = !by_project && !off.contains(&hook.title());
            if enabled && hook.enabled {
                hook.scripts = NamedScripts::of_command(&hook.command, workspace);
            }
        }
        // No list and no switch concerns them.
        hooks.extend(callbacks.into_iter().flat_map(Callbacks::hooks));
        // Stable: inside of a source the order of the files stays.
        hooks.sort_by_key(|hook| rank(&hook.source));
        let on = hooks.iter().filter(|hook| (enabled || hook.callback.is_some()) && hook.enabled);
        let heard = on.fold(0, |heard, hook| heard | bit(hook.event));
        Self { hooks: hooks.into_iter().map(Arc::new).collect(), problems, enabled, heard }
    }

    /// All of them, those that are switched off too.
    pub fn hooks(&self) -> &[Arc<Hook>] {
        &self.hooks
    }

    /// Problems in definitions.
    pub fn problems(&self) -> &[HookProblem] {
        &self.problems
    }

    /// Whether hooks are enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether an event concerns anybody.
    pub fn listens_to(&self, event: Event) -> bool {
        self.heard & bit(event) != 0
    }

    pub(crate) fn plan(&self, event: Event, subject: &str) -> Plan {
        let mut hooks: Vec<Arc<Hook>> = Vec::new();
        let concerned = self.hooks.iter().filter(|hook| hook.enabled && hook.event == event);
        let in_use = |hook: &&Arc<Hook>| self.enabled || hook.callback.is_some();
        for hook in concerned.filter(in_use).filter(|hook| hook.rule.matches(subject)) {
            let same = |known: &&mut Arc<Hook>| known.name == hook.name && known.command == hook.command;
            match hooks.iter_mut().find(same) {
                // Of duplicates the first wins, but a weaker source cannot change a stronger one.
                Some(known) if known.source.authority() < hook.source.authority() => {
                    *known = Arc::clone(hook)
                }
                Some(_) => {}
                None => hooks.push(Arc::clone(hook)),
            }
        }
        let sequential = hooks.iter().any(|hook| hook.sequential);
        Plan { hooks, sequential }
    }
}

fn bit(event: Event) -> u16 {
    1 << event as u16
}

fn rank(source: &HookSource) -> u8 {
    match source {
        HookSource::Project => 1,
        HookSource::User => 2,
        HookSource::System => 3,
        HookSource::Extension(_) => 4,
        // Last, so that they see what the others changed.
        HookSource::Client => 5,
    }
}

fn source(layer: Layer) -> HookSource {
    match layer {
        Layer::Project => HookSource::Project,
        Layer::User | Layer::Environment | Layer::Arguments => HookSource::User,
        Layer::Default | Layer::SystemDefaults | Layer::System => HookSource::System,
    }
}

/// Any switch turns them off; the seed's is not a project's to use.
fn is_enabled(settings: &Settings) -> bool {
    let off = |key: &str| settings.get(key).is_some_and(|(value, _)| value == &Value::Bool(false));
    let foreign = settings.origin("tools.enableHooks").layer == Layer::Project;
    !off("hooksConfig.enabled") && (foreign || !off("tools.enableHooks"))
}

fn of_extension(reader: &mut Reader<'_>, extension: &ExtensionHooks, workspace: &Path) {
    let file = extension.directory.join("hooks").join("hooks.json");
    let mut env = vec![
        ("extensionPath".to_owned(), extension.directory.display().to_string()),
        ("workspacePath".to_owned(), workspace.display().to_string()),
        ("pathSeparator".to_owned(), std::path::MAIN_SEPARATOR.to_string()),
    ];
    env.extend(extension.variables.iter().cloned());
    let origin = Origin {
        source: HookSource::Extension(extension.name.clone()),
        file: file.display().to_string(),
        variables: env.iter().map(|(name, _)| name.clone()).collect(),
        env,
    };
    let problem = |text: String| HookProblem {
        severity: Severity::Skipped,
        file: origin.file.clone(),
        key: "hooks".to_owned(),
        text,
    };
    match read_object(&file) {
        Ok(None) => {}
        Ok(Some(object)) => match object.get("hooks") {
            Some(Value::Object(events)) => {
                let mut events = Value::Object(events.clone());
                // The only reference that no shell understands.
                with_separators(&mut events);
                if let Value::Object(events) = &events {
                    reader.events(&origin, events);
                }
            }
            // Upstream's words.
            Some(_) | None => reader.problems.push(problem(format!(
                "Invalid hooks configuration in {}: \"hooks\" property must be an object",
                file.display()
            ))),
        },
        Err(error) => {
            let reason = error.files.first().map(|file| file.reason.clone()).unwrap_or_default();
            reader.problems.push(problem(reason));
        }
    }
}

fn with_separators(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${/}") => *text = text.replace("${/}", "/"),
        Value::Array(items) => items.iter_mut().for_each(with_separators),
        Value::Object(fields) => fields.values_mut().for_each(with_separators),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
