//! From a provider's settings to an endpoint that a client can be made from.

use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::{General, Secret};
use pollux_domain::model::{Dialect, ModelInfo};

use super::{Location, Provider};
use crate::gemini::custom_headers;
use crate::shared::endpoint::{Credential, Endpoint, EndpointTraits, Key, ModelFacts, Timing};

/// How long a model on the user's own machine may think about a long prompt.
const LOCAL_FIRST_BYTE: Duration = Duration::from_secs(600);
const LOCAL_STALL: Duration = Duration::from_secs(300);

/// What an endpoint is made of.
pub struct EndpointParts<'a> {
    pub provider: &'a Provider<'a>,
    pub location: &'a Location,
    /// The key, and the variable it comes from, if it comes from one.
    pub key: Option<(Key, Option<&'a str>)>,
    /// What the user can do when the server refuses the key.
    pub key_advice: Option<String>,
    pub env: &'a Env,
    pub general: &'a General,
    pub http: reqwest::Client,
    pub facts: ModelFacts,
}

impl EndpointParts<'_> {
    /// How a server is treated that the program starts itself.
    pub fn local_patience(provider: &Provider<'_>, general: &General) -> (Timing, EndpointTraits) {
        (timing(provider, general), EndpointTraits { local: true, ..EndpointTraits::default() })
    }

    pub fn endpoint(self) -> Endpoint {
        let Self { provider, location, key, key_advice, env, general, http, facts } = self;
        let settings = provider.settings();
        let facts = if location.is_own_server(provider) { on_this_machine(facts) } else { facts };
        let mut endpoint = Endpoint::new(provider.provider_id(), location.base.as_str(), http, facts);
        endpoint.credential =
            key.map(|(key, variable)| credential(provider, &location.dialect, key, variable));
        endpoint.headers = headers(provider, env);
        endpoint.query =
            settings.map(|settings| settings.query.clone().into_iter().collect()).unwrap_or_default();
        endpoint.extra_body = settings.map(|settings| settings.extra_body.clone()).unwrap_or_default();
        endpoint.traits = EndpointTraits { key_advice, ..traits(provider, location) };
        endpoint.timing = timing(provider, general);
        endpoint
    }
}

/// Models of a server on this machine stay on it. They get the compact profile only if they are small, because
/// the server may pass requests on to a larger machine.
fn on_this_machine(facts: ModelFacts) -> ModelFacts {
    Arc::new(move |model| {
        let info = facts(model);
        ModelInfo { compact: Some(info.is_compact()), local: true, ..info }
    })
}

/// The header that carries the key. Anthropic's own token variable and other wires use a bearer token.
fn credential(provider: &Provider<'_>, dialect: &Dialect, key: Key, variable: Option<&str>) -> Credential {
    let (header, prefix) = match provider.id {
        "azure" => ("api-key", ""),
        _ if *dialect == Dialect::MESSAGES && variable != Some("ANTHROPIC_AUTH_TOKEN") => ("x-api-key", ""),
        _ => ("Authorization", "Bearer "),
    };
    Credential { header: header.to_owned(), prefix: prefix.to_owned(), key }
}

fn headers(provider: &Provider<'_>, env: &Env) -> Vec<(String, Secret)> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    let mut add = |name: &str, value: &str| headers.push((name.to_owned(), Secret::new(value)));
    match provider.id {
        "openai" => {
            let first = |names: [&str; 2]| names.into_iter().find_map(|name| env.non_empty(name));
            if let Some(value) = first(["OPENAI_ORG_ID", "OPENAI_ORGANIZATION"]) {
                add("OpenAI-Organization", value);
            }
            if let Some(value) = first(["OPENAI_PROJECT_ID", "OPENAI_PROJECT"]) {
                add("OpenAI-Project", value);
            }
        }
        "openrouter" => add("X-Title", "Pollux"),
        "anthropic" => {
            let custom =
                custom_headers(&env.get("ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default().replace('\n', ","));
            custom.iter().for_each(|(name, value)| add(name, value));
        }
        _ => {}
    }
    if let Some(settings) = provider.settings() {
        settings.headers.iter().for_each(|(name, value)| add(name, value));
        for (name, variable) in &settings.env_headers {
            if let Some(value) = env.non_empty(variable) {
                add(name, value);
            }
        }
        if let Some(version) = settings.api_version.as_deref().filter(|_| provider.id == "anthropic") {
            add("anthropic-version", version);
        }
    }
    headers
}

fn traits(provider: &Provider<'_>, location: &Location) -> EndpointTraits {
    let first_party = match location.base.host_str() {
        Some("api.openai.com") => location.dialect != Dialect::MESSAGES,
        Some("api.anthropic.com") => location.dialect == Dialect::MESSAGES,
        _ => false,
    };
    EndpointTraits {
        local: provider.is_local() || location.is_own_server(provider),
        start_command: provider.start_command().map(str::to_owned),
        first_party,
        strict_tools: provider.settings().is_some_and(|settings| settings.strict_tools),
        key_advice: None,
    }
}

fn timing(provider: &Provider<'_>, general: &General) -> Timing {
    let usual = Timing::default();
    let local = provider.is_local();
    let own = provider.settings().map(|settings| settings.timeouts).unwrap_or_default();
    let first_byte = if local { LOCAL_FIRST_BYTE } else { usual.first_byte };
    let stall = if local { LOCAL_STALL } else { usual.stall };
    let attempts = provider.settings().and_then(|settings| settings.max_attempts);
    Timing {
        max_attempts: attempts.unwrap_or(general.max_attempts).clamp(1, 10),
        retry_broken_streams: general.retry_fetch_errors,
        first_byte: own.first_byte_ms.map_or(first_byte, Duration::from_millis),
        stall: own.stall_ms.map_or(stall, Duration::from_millis),
        ..usual
    }
}
