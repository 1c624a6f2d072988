//! Chooses the embedding provider for the memory from the settings and the run's credentials.

use pollux_config::dotenv::{DotenvOptions, load_dotenv};
use pollux_config::env::Env;
use pollux_config::settings::ProjectTrust;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_embed::{EmbedSettings, Provider};
use pollux_memory::{Provider as Wanted, Settings};

use super::Loaded;
use crate::check_credentials;

/// The variable with the model endpoint of a run; embeddings use the same endpoint.
const BASE_URL: &str = "GOOGLE_GEMINI_BASE_URL";
/// The version of the API that embeddings belong to.
const VERSION: &str = "v1beta";

/// API key variables usable for embeddings.
const KEYS: [&str; 3] = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"];

/// The environment without keys from a project's `.env`: memory spans all projects and must not
/// be sent with one project's credentials.
pub(super) fn own_env(loaded: &Loaded) -> Env {
    if !has_keys_of_project(loaded) {
        return loaded.env.clone();
    }
    let kept = loaded.env.iter().filter(|(name, _)| !KEYS.contains(name) || !loaded.is_of_project(name));
    let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut env = Env::new(kept, loaded.env.cwd().to_path_buf());
    // The user's own file may have a key that the project's file shadowed.
    let home = &loaded.home;
    load_dotenv(&mut env, home, home.user_home(), ProjectTrust::Untrusted, &DotenvOptions::default());
    env
}

fn has_keys_of_project(loaded: &Loaded) -> bool {
    KEYS.iter().any(|name| loaded.is_of_project(name))
}

pub(super) fn settings(memory: &Settings, loaded: &Loaded) -> EmbedSettings {
    let mut embed = EmbedSettings {
        provider: provider(memory.provider),
        model: memory.model.clone(),
        fallback: memory.fallback.map(provider),
        ..EmbedSettings::default()
    }
    .with_objects(memory.remote(), memory.local());
    let own = own_env(loaded);
    if !may_be_gemini(&embed, &own) {
        return embed;
    }
    // With a custom endpoint for prompts, texts must not be sent elsewhere.
    if let Some(place) = loaded.env.non_empty(BASE_URL).filter(|_| embed.base_url.is_none()) {
        embed.base_url = Some(format!("{}/{VERSION}", place.trim_end_matches('/')));
    }
    let in_env = ["GEMINI_API_KEY", "GOOGLE_API_KEY"].iter().any(|name| own.non_empty(name).is_some());
    if embed.api_key.is_none() && !in_env && !has_keys_of_project(loaded) {
        let stored = check_credentials(loaded).ok();
        let stored = stored.filter(|credentials| credentials.api_key && !credentials.of_project);
        if let Some(auth) = stored.and_then(|credentials| credentials.auth) {
            embed.api_key = Some(auth.key.reveal().to_owned());
            // A Gemini key must not be sent to other providers.
            embed.provider = Provider::Gemini;
        }
    }
    embed
}

/// Whether Gemini would be chosen: requested, or the first one configured.
fn may_be_gemini(embed: &EmbedSettings, env: &Env) -> bool {
    match embed.provider {
        Provider::Gemini => true,
        Provider::Auto => embed.model_path.is_none() && env.non_empty("OPENAI_API_KEY").is_none(),
        Provider::Openai | Provider::Local => false,
    }
}

fn provider(wanted: Wanted) -> Provider {
    match wanted {
        Wanted::Openai => Provider::Openai,
        Wanted::Gemini => Provider::Gemini,
        Wanted::Local => Provider::Local,
        Wanted::Auto => Provider::Auto,
    }
}

/// A failure of the memory, with its hint.
pub fn failed(error: &(dyn std::error::Error + 'static), hint: Option<&'static str>) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
