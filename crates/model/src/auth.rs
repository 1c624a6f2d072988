//! Whose credentials are used, and what to tell someone who has none.

use std::path::Path;

use pollux_config::env::Env;
use pollux_config::groups::{Secret, Security};
use pollux_net::credentials::CredentialError;

/// What the client needs to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    pub kind: AuthKind,
    /// Empty for a gateway that asks for none, and where tokens are asked for.
    pub key: Secret,
    /// Where the key was found.
    pub origin: Origin,
    /// `None` means Google's own endpoint.
    pub base_url: Option<String>,
    /// Whether the key also travels as a bearer token.
    pub bearer: bool,
    /// Where in Vertex AI the model is, for that kind alone.
    pub vertex: Option<VertexPlace>,
}

/// The kinds of credentials this program can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthKind {
    ApiKey,
    Vertex,
    Gateway,
}

/// Where a key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In this variable.
    Variable(&'static str),
    /// In the keychain or its substitute.
    Stored,
    /// In `api.key`.
    Settings,
    /// There is none, and none is needed.
    Nothing,
}

/// A model's place in Vertex AI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VertexPlace {
    /// Wherever the key belongs to.
    Express,
    /// Asked with tokens of Google's credentials.
    Project { project: String, location: String },
}

impl AuthKind {
    /// The word in settings and telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => API_KEY,
            Self::Vertex => VERTEX,
            Self::Gateway => GATEWAY,
        }
    }
}

const API_KEY: &str = "gemini-api-key";
const GATEWAY: &str = "gateway";
const GOOGLE_LOGIN: &str = "oauth-personal";
pub const VERTEX: &str = "vertex-ai";
const COMPUTE: &str = "compute-default-credentials";
const CLOUD_SHELL: &str = "cloud-shell";

/// Variables that hold a key, the first one first.
pub const KEY_VARIABLES: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// The key of Vertex AI's express mode.
const VERTEX_KEY: &str = "GOOGLE_API_KEY";

/// Why nobody is let in. Every one of these ends the program with the exit code for authentication.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    // The first sentence is upstream's; scripts look for it.
    #[error(
        "Please set an Auth method in your {settings_file} or specify one of the following environment \
         variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI\n\n{NEWCOMER}"
    )]
    Nothing { settings_file: String },
    #[error("The auth type '{enforced}' is enforced, but no authentication is configured.")]
    EnforcedNothing { enforced: String },
    #[error(
        "The enforced authentication type is '{enforced}', but the current type is '{current}'. \
         Please re-authenticate with the correct type."
    )]
    Enforced { enforced: String, current: String },
    #[error(
        "Gemini API key is missing or not configured. Set GEMINI_API_KEY in your environment or in a .env file and try again.\n\n{NEWCOMER}"
    )]
    NoKey,
    #[error("The auth type 'gateway' needs the URL of the gateway in GOOGLE_GEMINI_BASE_URL.")]
    GatewayWithoutUrl,
    #[error(
        "Vertex AI requires one of the following:\n  \
         - GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, with Google Cloud credentials\n  \
         - GOOGLE_API_KEY (express mode)\n\
         Set them in your environment or in a .env file and try again."
    )]
    VertexWithoutPlace,
    #[error(
        "GOOGLE_APPLICATION_CREDENTIALS is set, but {missing} is not. Vertex AI needs GOOGLE_CLOUD_PROJECT and \
         GOOGLE_CLOUD_LOCATION; set them in your environment or in a .env file and try again."
    )]
    CredentialsWithoutPlace { missing: &'static str },
    #[error("Invalid GOOGLE_CLOUD_LOCATION. Use a location such as `us-central1` or `global`.")]
    BadLocation,
    #[error(
        "The auth type '{kind}' ({what}) is not available in Pollux: it uses an OAuth client registered for \
         gemini-cli, which other programs are not allowed to use. Instead, use `pollux auth login` with an API key, \
         GEMINI_API_KEY, Vertex AI (GOOGLE_GENAI_USE_VERTEXAI=true), or a gateway set in GOOGLE_GEMINI_BASE_URL."
    )]
    Unsupported { kind: String, what: &'static str },
    #[error(
        "Invalid auth method selected. `security.auth.selectedType` is '{kind}'; use '{API_KEY}', '{VERTEX}' or '{GATEWAY}'."
    )]
    Unknown { kind: String },
    #[error(transparent)]
    StoredKey(#[from] CredentialError),
}

const NEWCOMER: &str = "\
To get started, do one of the following:
  - Get a key from Google AI Studio (https://aistudio.google.com/apikey) and run
      export GEMINI_API_KEY=\"<your key>\"
  - Store the key in the keychain with `pollux auth login`; a key stored by gemini-cli also works.
  - Use another provider: set ANTHROPIC_API_KEY or OPENAI_API_KEY.
  - Use a local model: `pollux -m ollama/<model>`.
  - Try `pollux demo`, which needs no API key or network access.";

/// Chooses the credentials.
///
/// `stored_key` is asked only when the environment holds no key, because opening the store is slow.
/// `settings_file` is named in the message for someone who has configured nothing.
pub fn choose(
    env: &Env,
    security: &Security,
    stored_key: impl FnOnce() -> Result<Option<Secret>, CredentialError>,
    settings_file: &Path,
) -> Result<Auth, AuthError> {
    let mut keys = Keys { env, settings: security.api_key.as_ref(), stored: Stored::Unasked(stored_key) };
    let current = match &security.auth_selected {
        Some(kind) => Some(kind.clone()),
        None => detect(env, &mut keys)?.map(str::to_owned),
    };
    check_enforced(security, current.as_deref())?;
    let Some(current) = current else {
        return Err(AuthError::Nothing { settings_file: settings_file.display().to_string() });
    };
    let base_url = env.non_empty("GOOGLE_GEMINI_BASE_URL").map(str::to_owned);
    let bearer = env.get("GEMINI_API_KEY_AUTH_MECHANISM").is_some_and(|mechanism| mechanism == "bearer");
    let unsupported = |what| Err(AuthError::Unsupported { kind: current.clone(), what });
    let auth =
        |kind, (key, origin)| Auth { kind, key, origin, base_url: base_url.clone(), bearer, vertex: None };
    let nothing = || (Secret::new(""), Origin::Nothing);
    match current.as_str() {
        API_KEY => match keys.find()? {
            Some(found) => Ok(auth(AuthKind::ApiKey, found)),
            None if security.auth_external => Ok(auth(AuthKind::ApiKey, nothing())),
            None => Err(AuthError::NoKey),
        },
        GATEWAY if base_url.is_none() && !security.auth_external => Err(AuthError::GatewayWithoutUrl),
        // The store is not asked: Google's key is none of the gateway's business.
        GATEWAY => Ok(auth(AuthKind::Gateway, keys.given().unwrap_or_else(nothing))),
        VERTEX => vertex(env),
        GOOGLE_LOGIN => unsupported("login with Google"),
        COMPUTE | CLOUD_SHELL => unsupported("login with the machine's Google account"),
        _ => Err(AuthError::Unknown { kind: current }),
    }
}

/// The credentials of Vertex AI for a run that names it as the provider, whatever else could be chosen.
///
/// A project is preferred here: the key next to it may be that of the Gemini API.
pub fn choose_vertex(env: &Env, security: &Security) -> Result<Auth, AuthError> {
    check_enforced(security, Some(VERTEX))?;
    if vertex_project(env).is_none() {
        return vertex(env);
    }
    let without_key = env.iter().filter(|(name, _)| *name != VERTEX_KEY);
    let pairs = without_key.map(|(name, value)| (name.to_owned(), value.to_owned()));
    vertex(&Env::new(pairs, env.cwd().to_path_buf()))
}

/// As upstream, a key means express mode, whatever else is set.
fn vertex(env: &Env) -> Result<Auth, AuthError> {
    let key = env.get(VERTEX_KEY).map(str::trim).filter(|key| !key.is_empty());
    let (key, origin, place) = match (key, vertex_project(env)) {
        (Some(key), _) => (Secret::new(key), Origin::Variable(VERTEX_KEY), VertexPlace::Express),
        // It becomes part of the server's name, and tokens go there.
        (None, Some((_, location))) if !is_location(location) => return Err(AuthError::BadLocation),
        (None, Some((project, location))) => {
            let place = VertexPlace::Project { project: project.to_owned(), location: location.to_owned() };
            (Secret::new(""), Origin::Nothing, place)
        }
        (None, None) => return Err(AuthError::VertexWithoutPlace),
    };
    let base_url = env.non_empty("GOOGLE_VERTEX_BASE_URL").map(str::to_owned);
    Ok(Auth { kind: AuthKind::Vertex, key, origin, base_url, bearer: false, vertex: Some(place) })
}

fn is_location(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn vertex_project(env: &Env) -> Option<(&str, &str)> {
    let project = env.non_empty("GOOGLE_CLOUD_PROJECT").or_else(|| env.non_empty("GOOGLE_CLOUD_PROJECT_ID"));
    project.zip(env.non_empty("GOOGLE_CLOUD_LOCATION"))
}

/// The kind that the environment and the stored keys suggest.
///
/// Upstream takes any base URL for a gateway and then refuses it; here a key next to it makes it an API key.
fn detect<F>(env: &Env, keys: &mut Keys<'_, F>) -> Result<Option<&'static str>, AuthError>
where
    F: FnOnce() -> Result<Option<Secret>, CredentialError>,
{
    if env.is_true("GOOGLE_GENAI_USE_GCA") {
        return Ok(Some(GOOGLE_LOGIN));
    }
    if env.is_true("GOOGLE_GENAI_USE_VERTEXAI") {
        return Ok(Some(VERTEX));
    }
    if keys.in_environment().is_some() {
        return Ok(Some(API_KEY));
    }
    if env.non_empty("GOOGLE_GEMINI_BASE_URL").is_some() {
        return Ok(Some(if keys.settings.is_some() { API_KEY } else { GATEWAY }));
    }
    if keys.find()?.is_some() {
        return Ok(Some(API_KEY));
    }
    if vertex_project(env).is_some() {
        return Ok(Some(VERTEX));
    }
    if env.non_empty("GOOGLE_APPLICATION_CREDENTIALS").is_some() {
        let has_location = env.non_empty("GOOGLE_CLOUD_LOCATION").is_some();
        let missing = if has_location { "GOOGLE_CLOUD_PROJECT" } else { "GOOGLE_CLOUD_LOCATION" };
        let has_project = ["GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID"];
        let has_project = has_project.iter().any(|name| env.non_empty(name).is_some());
        let missing = if has_project { missing } else { "GOOGLE_CLOUD_PROJECT" };
        return Err(AuthError::CredentialsWithoutPlace { missing });
    }
    let on_google = env.is_true("CLOUD_SHELL") || env.is_true("GEMINI_CLI_USE_COMPUTE_ADC");
    Ok(on_google.then_some(COMPUTE))
}

fn check_enforced(security: &Security, current: Option<&str>) -> Result<(), AuthError> {
    match (&security.auth_enforced, current) {
        (Some(enforced), None) => Err(AuthError::EnforcedNothing { enforced: enforced.clone() }),
        (Some(enforced), Some(current)) if enforced != current => {
            Err(AuthError::Enforced { enforced: enforced.clone(), current: current.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The places a key may be in, from the first to the last.
struct Keys<'a, F> {
    env: &'a Env,
    settings: Option<&'a Secret>,
    stored: Stored<F>,
}

enum Stored<F> {
    Unasked(F),
    Asked(Option<Secret>),
}

impl<F: FnOnce() -> Result<Option<Secret>, CredentialError>> Keys<'_, F> {
    fn in_environment(&self) -> Option<(Secret, Origin)> {
        KEY_VARIABLES.iter().find_map(|name| {
            let key = self.env.get(name).map(str::trim).filter(|key| !key.is_empty())?;
            Some((Secret::new(key), Origin::Variable(name)))
        })
    }

    fn in_settings(&self) -> Option<(Secret, Origin)> {
        self.settings.cloned().map(|key| (key, Origin::Settings))
    }

    /// A key that the user gave to this program.
    fn given(&self) -> Option<(Secret, Origin)> {
        self.in_environment().or_else(|| self.in_settings())
    }

    fn find(&mut self) -> Result<Option<(Secret, Origin)>, AuthError> {
        if let Some(found) = self.in_environment() {
            return Ok(Some(found));
        }
        let stored = match std::mem::replace(&mut self.stored, Stored::Asked(None)) {
            Stored::Asked(key) => key,
            Stored::Unasked(ask) => match ask() {
                Ok(key) => key,
                // A store that cannot be opened matters only if there is nothing else.
                Err(_) if self.settings.is_some() => None,
                Err(error) => return Err(error.into()),
            },
        };
        self.stored = Stored::Asked(stored.clone());
        Ok(stored.map(|key| (key, Origin::Stored)).or_else(|| self.in_settings()))
    }
}

#[cfg(test)]
mod tests;
