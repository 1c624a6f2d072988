//! Who makes vectors for the memory: what the settings and the run's own credentials say.

use pollux_domain::exit::ExitKind;
use pollux_embed::{EmbedSettings, Provider};
use pollux_memory::{Provider as Wanted, Settings};

use super::Loaded;
use crate::report::Failure;
use crate::wire::check_credentials;

/// Where the model of a run is reached; its embeddings are made at the same place.
const BASE_URL: &str = "GOOGLE_GEMINI_BASE_URL";
/// The version of the API that embeddings belong to.
const VERSION: &str = "v1beta";

pub(super) fn settings(memory: &Settings, loaded: &Loaded) -> EmbedSettings {
    let mut embed = EmbedSettings {
        provider: provider(memory.provider),
        model: memory.model.clone(),
        fallback: memory.fallback.map(provider),
        ..EmbedSettings::default()
    }
    .with_objects(memory.remote(), memory.local());
    if !may_be_gemini(&embed, loaded) {
        return embed;
    }
    // Whoever sends prompts through a place of their own does not want texts to go elsewhere.
    if let Some(place) = loaded.env.non_empty(BASE_URL).filter(|_| embed.base_url.is_none()) {
        embed.base_url = Some(format!("{}/{VERSION}", place.trim_end_matches('/')));
    }
    let in_env = ["GEMINI_API_KEY", "GOOGLE_API_KEY"].iter().any(|name| loaded.env.non_empty(name).is_some());
    if embed.api_key.is_none() && !in_env {
        let stored = check_credentials(loaded).ok().filter(|credentials| credentials.api_key);
        if let Some(credentials) = stored {
            embed.api_key = Some(credentials.auth.key.reveal().to_owned());
            // It is Gemini's key; nobody else is to see it.
            embed.provider = Provider::Gemini;
        }
    }
    embed
}

/// Whether it would be Gemini's turn: asked for, or the first of what is set up.
fn may_be_gemini(embed: &EmbedSettings, loaded: &Loaded) -> bool {
    match embed.provider {
        Provider::Gemini => true,
        Provider::Auto => embed.model_path.is_none() && loaded.env.non_empty("OPENAI_API_KEY").is_none(),
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
pub(super) fn failed(error: &(dyn std::error::Error + 'static), hint: Option<&'static str>) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
