//! The registry of the agents in a run, with their status and problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::spelling::similar;
use serde_json::Value;

use super::definition_file::{self, Owner};
use super::{Acknowledgements, Definition, Kind, ModelChoice, builtin, fields, same_name};
use crate::extension::Extension;

/// Where agents are looked for.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// `~/.gemini/agents`.
    pub user: PathBuf,
    /// The project's root and its folder of agents; `None` where the project is not trusted.
    pub project: Option<(&'a Path, PathBuf)>,
    pub extensions: &'a [Extension],
    pub acknowledged: Acknowledgements,
    pub settings: AgentSettings,
}

/// The settings about agents.
#[derive(Debug, Clone, Default)]
pub struct AgentSettings {
    /// `agents.overrides`.
    pub overrides: JsonObject,
    /// `agents.enabled`, unless it is empty all agents there are, and `agents.disabled`; superseded by overrides.
    pub enabled: Vec<String>,
    pub disabled: Vec<String>,
}

/// An agent and its status.
#[derive(Debug, Clone)]
pub struct AgentEntry {
    pub definition: Arc<Definition>,
    pub status: Status,
}

/// Whether the user approved an agent, by its name and the hash of its content.
type Agreed<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Whether an agent can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Enabled,
    /// By the settings.
    Disabled,
    /// It belongs to the project, and its current content is not approved.
    Unacknowledged {
        hash: String,
    },
}

/// The agents of a run, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Registry {
    entries: Vec<AgentEntry>,
    problems: Vec<String>,
}

impl Registry {
    /// Loads the agents: built-in, then the project's, the user's and those of extensions. The first of a name
    /// wins.
    pub fn load(sources: &Sources<'_>) -> Self {
        let mut registry = Self::default();
        for definition in builtin::all() {
            registry.add(definition, None, &sources.settings);
        }
        if let Some((root, folder)) = &sources.project {
            let agreed = |name: &str, hash: &str| sources.acknowledged.agreed(root, name, hash);
            registry.add_folder(folder, &Owner::Project, Some(&agreed), &sources.settings);
        }
        registry.add_folder(&sources.user, &Owner::User, None, &sources.settings);
        for extension in sources.extensions {
            let owner = Owner::Extension(Arc::new(extension.clone()));
            registry.add_folder(&extension.part("agents"), &owner, None, &sources.settings);
        }
        registry.unknown_names(&sources.settings);
        registry
    }

    fn add_folder(
        &mut self,
        folder: &Path,
        owner: &Owner,
        agreed: Option<Agreed<'_>>,
        settings: &AgentSettings,
    ) {
        for path in definition_file::files_in(folder) {
            match definition_file::read(&path, owner) {
                Ok(found) => {
                    for found in found {
                        let open = agreed
                            .is_some_and(|agreed| !agreed(&found.definition.name, &found.hash))
                            .then_some(found.hash);
                        self.add(found.definition, open, settings);
                    }
                }
                Err(reason) => {
                    self.problems.push(format!("Failed to load agent from {}: {reason}", path.display()));
                }
            }
        }
    }

    fn add(&mut self, mut definition: Definition, unacknowledged: Option<String>, settings: &AgentSettings) {
        let taken = self.entries.iter().find(|entry| same_name(&entry.definition.name, &definition.name));
        if let Some(taken) = taken {
            let place = |definition: &Definition| match definition.origin.path() {
                Some(path) => format!("`{}`", path.display()),
                None => "the built-in agents".to_owned(),
            };
            self.problems.push(format!(
                "ignoring agent `{}` from {}: the name is already used by {}",
                definition.name,
                place(&definition),
                place(&taken.definition)
            ));
            return;
        }
        if let (Kind::Local(local), Some(Value::Object(written))) =
            (&mut definition.kind, settings.override_of(&definition.name))
        {
            self.problems.extend(fields::override_with(local, &definition.name, written));
        }
        let status = match unacknowledged {
            _ if !settings.wants(&definition.name) => Status::Disabled,
            Some(hash) => Status::Unacknowledged { hash },
            None => Status::Enabled,
        };
        self.entries.push(AgentEntry { definition: Arc::new(definition), status });
    }

    /// Lets agents use the model of the conversation where `refused` says why not their own.
    pub fn refuse_models(&mut self, refused: impl Fn(&Definition, &str) -> Option<String>) {
        for entry in &mut self.entries {
            let Kind::Local(local) = &entry.definition.kind else { continue };
            let ModelChoice::Named(model) = &local.model else { continue };
            let Some(line) = refused(&entry.definition, model) else { continue };
            self.problems.push(line);
            if let Kind::Local(local) = &mut Arc::make_mut(&mut entry.definition).kind {
                local.model = ModelChoice::Inherit;
            }
        }
    }

    /// A name without an agent is probably a typo, except for agents that only upstream has. In the list of enabled ones
    /// it leaves out the agent that was meant.
    fn unknown_names(&mut self, settings: &AgentSettings) {
        const UPSTREAM_ONLY: [&str; 2] = ["browser_agent", "confucius"];
        let overrides = settings.overrides.keys().map(|name| (name, format!("agents.overrides.{name}")));
        let lists = [("agents.enabled", &settings.enabled), ("agents.disabled", &settings.disabled)];
        let listed =
            lists.into_iter().flat_map(|(key, names)| names.iter().map(move |name| (name, key.to_owned())));
        let lines = overrides.chain(listed).filter_map(|(name, key)| {
            let known = self.entries.iter().map(|entry| entry.definition.name.as_str());
            let is_known =
                UPSTREAM_ONLY.iter().copied().chain(known.clone()).any(|known| same_name(known, name));
            let near = similar(name, known)
                .first()
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            // An agent of another project may be disabled for good.
            let is_wrong = !is_known && (key != "agents.disabled" || !near.is_empty());
            is_wrong.then(|| format!("{key}: no agent has the name `{name}`{near}"))
        });
        self.problems.extend(lines.collect::<Vec<_>>());
    }

    /// The agents that can be called.
    pub fn enabled(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.entries.iter().filter(|entry| entry.status == Status::Enabled).map(|entry| &entry.definition)
    }

    /// The callable agent of this name; `-` and `_` are equivalent.
    pub fn find(&self, name: &str) -> Option<&Arc<Definition>> {
        let exact = self.enabled().find(|definition| definition.name == name);
        exact.or_else(|| self.enabled().find(|definition| same_name(&definition.name, name)))
    }

    /// All of them.
    pub fn entries(&self) -> &[AgentEntry] {
        &self.entries
    }

    /// Lines about files and settings that cannot be used.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl AgentSettings {
    fn override_of(&self, name: &str) -> Option<&Value> {
        self.overrides
            .get(name)
            .or_else(|| self.overrides.iter().find(|(key, _)| same_name(key, name)).map(|(_, value)| value))
    }

    /// Overrides take precedence over the lists of older files.
    fn wants(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|listed| same_name(listed, name));
        match self.override_of(name).and_then(|fields| fields.get("enabled")).and_then(Value::as_bool) {
            Some(wanted) => wanted,
            None => !named(&self.disabled) && (self.enabled.is_empty() || named(&self.enabled)),
        }
    }
}

#[cfg(test)]
mod tests;
