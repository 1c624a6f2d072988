//! A project's `model.name` that would send prompts to a provider other than the user's own.
//!
//! Such a name takes effect only if the user configured that provider, and for a paid one only if the user allowed it
//! for this folder. Otherwise the user's own choice is used.

pub mod ignored;

use pollux_config::env::{Env, name};
use pollux_config::settings::Layer;
use pollux_domain::terminal_text::one_line;
use pollux_extend::agents::{Definition, Origin, same_name};
use pollux_model::auth;
use pollux_model::providers::{Providers, read_settings};
use pollux_model::router::{GGUF, is_alias};

use self::ignored::{OVERRIDES, ProjectModel};
use crate::loaded::Loaded;
use crate::project_providers::decision;
use crate::providers::{GOOGLE, Keys, own_env, start_provider, wants_vertex};

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

/// Decides about the model that a project names, and puts the user's own in its place where it does not count.
fn settle_name(loaded: &mut Loaded) {
    let origin = loaded.settings.origin("model.name");
    let key = match (origin.layer, origin.variable) {
        (Layer::Project, _) => "model.name",
        (Layer::Environment, Some(variable)) if loaded.is_of_project(variable) => variable,
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
