//! A project's `model.name` that would send prompts to a provider other than the user's own.
//!
//! Such a name takes effect only if the user configured that provider, and for a paid one only if the user allowed it
//! for this folder. Otherwise the user's own choice is used.

use pollux_config::env::{Env, name};
use pollux_config::settings::Layer;
use pollux_config::state;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_extend::agents::{Definition, Origin, same_name};
use pollux_model::auth;
use pollux_model::providers::{Providers, read_settings};
use pollux_model::router::{GGUF, is_alias};
use serde_json::{Map, Value};

use crate::loaded::Loaded;
use crate::memory::is_of_project;
use crate::providers::{GOOGLE, Keys, own_env, start_provider, wants_vertex};

/// In `state.json`: folders, and for each the providers that its project may choose.
const STATE: &str = "projectProviders";
/// Where settings change the models of sub-agents.
const OVERRIDES: &str = "agents.overrides";

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
    /// Whether it is the model of a sub-agent.
    pub fn is_of_agent(&self) -> bool {
        self.key.starts_with(OVERRIDES)
    }

    /// Says that it is ignored, and why.
    pub fn line(&self) -> String {
        let Self { model, key, reason, .. } = self;
        format!("Ignoring this project's `{key}` ({}): {reason}.", one_line(model))
    }
}

/// Decides about the models that a project names.
pub(crate) fn settle(loaded: &mut Loaded) {
    settle_name(loaded);
    if loaded.project_model.is_none() {
        loaded.project_model = open_override(loaded);
    }
}

/// The first model of a sub-agent that the user has to be asked about.
fn open_override(loaded: &Loaded) -> Option<ProjectModel> {
    let (overrides, _) = loaded.settings.get(OVERRIDES)?;
    overrides.as_object()?.keys().find_map(|agent| {
        let key = format!("{OVERRIDES}.{agent}.modelConfig.model");
        let (model, origin) = loaded.settings.get(&key)?;
        let model = model.as_str().filter(|_| origin.layer == Layer::Project)?.to_owned();
        match judge(loaded, &model) {
            Judgement::Ignored { provider, provider_name, reason, is_open: true } => {
                Some(ProjectModel { model, provider, provider_name, key, is_open: true, reason })
            }
            Judgement::Ignored { .. } | Judgement::Counts(_) | Judgement::NoMeaning => None,
        }
    })
}

/// Why an agent does not get the model that a project or an extension names for it; `None` if it does.
pub(crate) fn refused_for_agent(loaded: &Loaded, agent: &Definition, model: &str) -> Option<String> {
    let overrides = loaded.settings.get(OVERRIDES).and_then(|(all, _)| all.as_object());
    let by_project = |name: &String| {
        let key = format!("{OVERRIDES}.{name}.modelConfig.model");
        loaded.settings.get(&key).map(|(_, origin)| origin.layer == Layer::Project)
    };
    let same = overrides.into_iter().flat_map(|all| all.keys()).filter(|name| same_name(name, &agent.name));
    let overridden: Vec<bool> = same.filter_map(by_project).collect();
    let is_foreign = match overridden.as_slice() {
        [] => matches!(agent.origin, Origin::Project(_) | Origin::Extension { .. }),
        layers => layers.contains(&true),
    };
    match judge(loaded, model) {
        Judgement::Ignored { reason, .. } if is_foreign => {
            Some(format!("Ignoring the model of agent `{}` ({}): {reason}.", agent.name, one_line(model)))
        }
        _ => None,
    }
}

/// The providers that this folder's project may choose.
pub(crate) fn allowed(loaded: &Loaded) -> Vec<String> {
    let folder = loaded.project.root().display().to_string();
    let state = state::read(&loaded.home);
    let decided = state.get(STATE).and_then(|all| all.get(&folder)?.as_object()).into_iter().flatten();
    decided.filter(|(_, allowed)| **allowed == Value::Bool(true)).map(|(id, _)| id.clone()).collect()
}

/// Decides about the model that a project names, and puts the user's own in its place where it does not count.
fn settle_name(loaded: &mut Loaded) {
    let origin = loaded.settings.origin("model.name");
    let key = match (origin.layer, origin.variable) {
        (Layer::Project, _) => "model.name",
        (Layer::Environment, Some(variable)) if is_of_project(loaded, variable) => variable,
        _ => return,
    };
    // From here on the name is the user's own, so that everything else is judged by it.
    let own = own_model(loaded);
    let model = std::mem::replace(&mut loaded.groups.model.name, own);
    match judge(loaded, &model) {
        Judgement::Counts(name) => loaded.groups.model.name = name,
        Judgement::NoMeaning => {}
        Judgement::Ignored { provider, provider_name, reason, is_open } => {
            let key = key.to_owned();
            loaded.project_model =
                Some(ProjectModel { model, provider, provider_name, key, is_open, reason });
        }
    }
}

/// The model that would be used without the project.
fn own_model(loaded: &Loaded) -> String {
    let env = own_env(loaded);
    let named = [name::POLLUX_MODEL, name::MODEL].into_iter().find_map(|variable| env.non_empty(variable));
    let named = named.map(str::to_owned).or_else(|| loaded.settings.own_model.clone());
    named.unwrap_or_else(|| "auto".to_owned())
}

/// What becomes of a model that a project names.
enum Judgement {
    /// It is used, under this name.
    Counts(String),
    /// It says nothing about the models of the user's provider.
    NoMeaning,
    Ignored {
        provider: String,
        provider_name: String,
        reason: &'static str,
        is_open: bool,
    },
}

/// Whether a project's model counts. `loaded` has the user's own.
fn judge(loaded: &Loaded, model: &str) -> Judgement {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let keys = Keys::new(loaded, &providers);
    let start = start_provider(loaded).ok().flatten();
    let google = if wants_vertex(loaded) { "vertex" } else { "gemini" };
    let default = start.as_ref().map_or(google, |start| start.id.as_str());
    let Some(id) = keys.provider_of(model) else {
        // A bare name stays with the user's provider, also where only the name of the user's model says which that is.
        let by_name = keys.provider_of(&loaded.groups.model.name).as_deref() == Some(default);
        return match by_name && default != "gemini" {
            true if is_alias(model) => Judgement::NoMeaning,
            true => Judgement::Counts(format!("{default}/{model}")),
            false => Judgement::Counts(model.to_owned()),
        };
    };
    let counts = || Judgement::Counts(model.to_owned());
    let provider_name = providers.find(&id).map(|provider| provider.name().to_owned()).unwrap_or_default();
    let ignored =
        |reason, is_open| Judgement::Ignored { provider: id.clone(), provider_name, reason, is_open };
    if id == GGUF {
        // A program reads that file, which could be anything.
        return ignored("a project cannot choose a model file", false);
    }
    let all_google = [id.as_str(), default].iter().all(|id| GOOGLE.contains(id));
    if id == default || (all_google && signs_in_to_vertex(loaded, &env)) {
        return counts();
    }
    let is_local = providers.find(&id).is_some_and(|provider| provider.is_local());
    let is_configured = settings.contains_key(&id) || keys.has(&id) || is_named(loaded, &providers, &id);
    if !is_configured && !GOOGLE.contains(&id.as_str()) {
        return ignored("you have not configured that provider", false);
    }
    if is_local {
        return counts();
    }
    match decision(loaded, &id) {
        Some(true) => counts(),
        Some(false) => ignored("you did not allow that provider for this folder", false),
        None => ignored("it uses another provider; allow it in an interactive session", true),
    }
}

/// Whether Google's models are those of Vertex AI under either name.
fn signs_in_to_vertex(loaded: &Loaded, env: &Env) -> bool {
    match &loaded.groups.security.auth_selected {
        Some(kind) => kind == auth::VERTEX,
        None => env.is_true("GOOGLE_GENAI_USE_VERTEXAI"),
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
