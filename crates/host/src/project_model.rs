//! A project's `model.name` that would send prompts to a provider other than the user's own.
//!
//! Such a name takes effect only if the user configured that provider, and for a paid one only if the user allowed it
//! for this folder. Otherwise the user's own choice is used.

use pollux_config::settings::Layer;
use pollux_config::state;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_model::providers::{Providers, read_settings};
use serde_json::{Map, Value};

use crate::loaded::Loaded;
use crate::memory::is_of_project;
use crate::providers::{GOOGLE, own_env, start_provider, users_key};

/// In `state.json`: folders, and for each the providers that its project may choose.
const STATE: &str = "projectProviders";

/// A model that the project names but that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectModel {
    pub model: String,
    /// The provider's id and name.
    pub provider: String,
    pub provider_name: String,
    /// The settings key or variable that names it.
    pub key: String,
    /// Whether the user can allow it, and has not decided yet.
    pub is_open: bool,
    reason: &'static str,
}

impl ProjectModel {
    /// Says that it is ignored, and why.
    pub fn line(&self) -> String {
        let Self { model, key, reason, .. } = self;
        format!("Ignoring this project's `{key}` ({}): {reason}.", one_line(model))
    }
}

/// Decides whether to use the model that a project names, and otherwise restores the user's own.
pub(crate) fn settle(loaded: &mut Loaded) {
    let key = match loaded.settings.origin("model.name").layer {
        Layer::Project => "model.name",
        Layer::Environment if is_of_project(loaded, "POLLUX_MODEL") => "POLLUX_MODEL",
        Layer::Environment if is_of_project(loaded, "GEMINI_MODEL") => "GEMINI_MODEL",
        _ => return,
    };
    let own = loaded.settings.own_model.clone().unwrap_or_else(|| "auto".to_owned());
    let model = std::mem::replace(&mut loaded.groups.model.name, own);
    let Some((provider, provider_name, reason, is_open)) = objection(loaded, &model) else {
        loaded.groups.model.name = model;
        loaded.project_may_choose_model = true;
        return;
    };
    let key = key.to_owned();
    loaded.project_model = Some(ProjectModel { model, provider, provider_name, key, is_open, reason });
}

type Objection = (String, String, &'static str, bool);

/// Why a project's model is not used; `None` if it is.
fn objection(loaded: &Loaded, model: &str) -> Option<Objection> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let is_configured = |id: &str| {
        settings.contains_key(id) || users_key(&providers, id).is_some() || is_named(loaded, &providers, id)
    };
    let explicit = loaded.groups.model.provider.is_some();
    let id = providers.split(model, |id| !explicit && is_configured(id)).provider?;
    let start = start_provider(loaded).ok().flatten();
    let default = start.map_or_else(|| "gemini".to_owned(), |start| start.id);
    if id == default || (GOOGLE.contains(&id.as_str()) && GOOGLE.contains(&default.as_str())) {
        return None;
    }
    let provider = providers.find(&id)?;
    let name = provider.name().to_owned();
    if !is_configured(&id) && !GOOGLE.contains(&id.as_str()) {
        return Some((id, name, "you have not configured that provider", false));
    }
    if provider.is_local() {
        return None;
    }
    match decision(loaded, &id) {
        Some(true) => None,
        Some(false) => Some((id, name, "you did not allow that provider for this folder", false)),
        None => Some((id, name, "it uses another provider; allow it in an interactive session", true)),
    }
}

/// Whether the user's own `model.small` or `model.fallback` names a provider.
fn is_named(loaded: &Loaded, providers: &Providers<'_>, id: &str) -> bool {
    let model = &loaded.groups.model;
    let mut named = model.small.iter().chain(&model.fallback);
    named.any(|name| providers.split(name, |_| false).provider.as_deref() == Some(id))
}

fn decision(loaded: &Loaded, provider: &str) -> Option<bool> {
    let folder = loaded.project.root().display().to_string();
    state::read(&loaded.home).get(STATE)?.get(&folder)?.get(provider)?.as_bool()
}

/// Remembers whether this folder's project may choose the provider.
pub fn decide(loaded: &Loaded, provider: &str, allowed: bool) -> Result<(), Failure> {
    let folder = loaded.project.root().display().to_string();
    let object = |value: &mut Value| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
    };
    let result = state::update(&loaded.home, |state| {
        let folders = state.entry(STATE).or_insert(Value::Null);
        object(folders);
        let entry = &mut folders[folder.as_str()];
        object(entry);
        entry[provider] = Value::Bool(allowed);
    });
    result.map_err(|error| Failure::from_error(ExitKind::Failure, &error))
}
