//! Whose credentials are used, and what to tell someone who has none.

use std::path::Path;

use pollux_config::env::Env;
use pollux_config::groups::{Secret, Security};
use pollux_net::credentials::CredentialError;

/// What the client needs to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    pub kind: AuthKind,
    /// Empty for a gateway that asks for none.
    pub key: Secret,
    /// `None` means Google's own endpoint.
    pub base_url: Option<String>,
    /// Whether the key also travels as a bearer token.
    pub bearer: bool,
}

/// The kinds of credentials this program can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthKind {
    ApiKey,
    Gateway,
}

impl AuthKind {
    /// The word in settings and telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => API_KEY,
            Self::Gateway => GATEWAY,
        }
    }
}

const API_KEY: &str = "gemini-api-key";
const GATEWAY: &str = "gateway";
const GOOGLE_LOGIN: &str = "oauth-personal";
const VERTEX: &str = "vertex-ai";
const COMPUTE: &str = "compute-default-credentials";
const CLOUD_SHELL: &str = "cloud-shell";

/// Why nobody is let in. Every one of these ends the program with the exit code for authentication.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    // The first sentence is upstream's; scripts look for it.
    #[error(
        "Please set an Auth method in your {settings_file} or specify one of the following environment \
         variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI, GOOGLE_GENAI_USE_GCA\n\n{NEWCOMER}"
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
        "No API key was found. Set GEMINI_API_KEY in your environment or in a .env file and try again.\n\n{NEWCOMER}"
    )]
    NoKey,
    #[error("The auth type 'gateway' needs the address of the gateway in GOOGLE_GEMINI_BASE_URL.")]
    GatewayWithoutUrl,
    #[error(
        "The auth type '{kind}' ({what}) is not supported yet. What works: an API key in GEMINI_API_KEY, \
         or a gateway named by GOOGLE_GEMINI_BASE_URL."
    )]
    Unsupported { kind: String, what: &'static str },
    #[error(
        "Invalid auth method selected. `security.auth.selectedType` is '{kind}'; use '{API_KEY}' or '{GATEWAY}'."
    )]
    Unknown { kind: String },
    #[error(transparent)]
    StoredKey(#[from] CredentialError),
}

const NEWCOMER: &str = "\
To get going, do one of these:
  - get a key from Google AI Studio (https://aistudio.google.com/apikey) and run
      export GEMINI_API_KEY=\"<your key>\"
  - or put the line GEMINI_API_KEY=<your key> into the file ~/.gemini/.env
  - or use the key that Gemini CLI has stored on this machine: it is found by itself
  - or just look around first: `pollux demo` needs neither a key nor a network";

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
    match current.as_str() {
        API_KEY => {
            let key = match keys.find()? {
                Some(key) => key,
                None if security.auth_external => Secret::new(""),
                None => return Err(AuthError::NoKey),
            };
            Ok(Auth { kind: AuthKind::ApiKey, key, base_url, bearer })
        }
        GATEWAY if base_url.is_none() && !security.auth_external => Err(AuthError::GatewayWithoutUrl),
        // The store is not asked: Google's key is none of the gateway's business.
        GATEWAY => {
            let key = keys.given().unwrap_or_else(|| Secret::new(""));
            Ok(Auth { kind: AuthKind::Gateway, key, base_url, bearer })
        }
        GOOGLE_LOGIN => unsupported("login with Google"),
        VERTEX => unsupported("Vertex AI"),
        COMPUTE | CLOUD_SHELL => unsupported("credentials of the machine"),
        _ => Err(AuthError::Unknown { kind: current }),
    }
}

/// The kind that the environment and the stored keys suggest.
///
/// Upstream takes any base URL for a gateway and then refuses it; here a key beside it makes it an API key.
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
    fn in_environment(&self) -> Option<Secret> {
        ["GEMINI_API_KEY", "GOOGLE_API_KEY"]
            .iter()
            .find_map(|name| self.env.get(name).map(str::trim).filter(|key| !key.is_empty()))
            .map(Secret::new)
    }

    /// A key that the user gave to this program.
    fn given(&self) -> Option<Secret> {
        self.in_environment().or_else(|| self.settings.cloned())
    }

    fn find(&mut self) -> Result<Option<Secret>, AuthError> {
        if let Some(key) = self.in_environment() {
            return Ok(Some(key));
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
        Ok(stored.or_else(|| self.settings.cloned()))
    }
}

#[cfg(test)]
mod tests;
