//! Google credentials: discovered like Google's own tools do, and exchanged for tokens.
//!
//! [`find_credentials`] only reads files; [`GoogleTokens`] uses the network when a token is
//! needed, caches it in memory and refreshes it before it expires.

mod file;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::files::{self, FileError};
use pollux_config::groups::Secret;
use pollux_domain::time::Clock;
use tokio::sync::Mutex;

use crate::jwt::KeyError;
use source::Source;

/// The scope that covers all of Google Cloud.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

const WELL_KNOWN: &str = "application_default_credentials.json";
/// Tokens are renewed this long before their end, or half-way through shorter lives.
const MARGIN: Duration = Duration::from_secs(5 * 60);
const METADATA_HOST: &str = "metadata.google.internal";
const PRODUCT_NAME: &str = "/sys/class/dmi/id/product_name";

/// Why no token is available. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum GoogleError {
    #[error(
        "no Google credentials found: GOOGLE_APPLICATION_CREDENTIALS is not set, `{}` does not exist, \
         and this is not a Google Cloud machine",
        well_known.display()
    )]
    None { well_known: PathBuf },
    #[error("credentials file `{}` not found (set in GOOGLE_APPLICATION_CREDENTIALS)", path.display())]
    Missing { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("invalid credentials file `{}`: {problem}", path.display())]
    Unusable { path: PathBuf, problem: String },
    #[error("the credentials contain no valid key")]
    Key(#[from] KeyError),
    #[error("could not reach `{host}` for a token: {message}")]
    Unreachable { host: String, message: String, may_pass: bool },
    #[error("`{host}` returned no token (status {status}{said})")]
    Refused { host: String, status: u16, said: String },
    #[error("could not read the token to exchange from {place}")]
    Subject { place: String },
}

impl GoogleError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::None { .. } => Some(
                "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service account key file",
            ),
            Self::Refused { status: 400 | 401 | 403, .. } => {
                Some("the credentials may have been revoked; sign in again or create a new key")
            }
            Self::Missing { .. }
            | Self::File(_)
            | Self::Unusable { .. }
            | Self::Key(_)
            | Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::Subject { .. } => None,
        }
    }

    /// Whether another attempt could end differently.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { may_pass, .. } => *may_pass,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            Self::None { .. }
            | Self::Missing { .. }
            | Self::File(_)
            | Self::Unusable { .. }
            | Self::Key(_)
            | Self::Subject { .. } => false,
        }
    }
}

/// Discovered credentials.
#[derive(Debug, Clone)]
pub struct GoogleCredentials {
    source: Source,
    /// The quota project, sent as `x-goog-user-project`.
    quota_project: Option<String>,
    /// Where they were found, for people.
    place: String,
}

impl GoogleCredentials {
    /// Where they were found, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What kind they are, in the word of Google's files.
    pub fn kind(&self) -> &'static str {
        self.source.kind()
    }
}

/// Searches like Google's own tools: the file in the variable, gcloud's file, the metadata server.
pub fn find_credentials(env: &Env, user_home: &Path) -> Result<GoogleCredentials, GoogleError> {
    let chosen = env.non_empty("GOOGLE_CLOUD_QUOTA_PROJECT").map(str::to_owned);
    let with = |source: Source, own: Option<String>, place: String| GoogleCredentials {
        source,
        quota_project: chosen.clone().or(own),
        place,
    };
    if let Some(named) = env.non_empty("GOOGLE_APPLICATION_CREDENTIALS") {
        let path = env.cwd().join(named);
        let Some(text) = files::read_text(&path)? else { return Err(GoogleError::Missing { path }) };
        let (source, quota) = read(&path, &text)?;
        return Ok(with(source, quota, format!("{} (GOOGLE_APPLICATION_CREDENTIALS)", path.display())));
    }
    let folder = match env.non_empty("CLOUDSDK_CONFIG") {
        Some(folder) => env.cwd().join(folder),
        None => user_home.join(".config/gcloud"),
    };
    let well_known = folder.join(WELL_KNOWN);
    if let Some(text) = files::read_text(&well_known)? {
        let (source, quota) = read(&well_known, &text)?;
        return Ok(with(source, quota, format!("{} (gcloud)", well_known.display())));
    }
    match metadata_host(env) {
        Some(host) => Ok(with(Source::Metadata { host }, None, "the machine's metadata server".to_owned())),
        None => Err(GoogleError::None { well_known }),
    }
}

fn read(path: &Path, text: &str) -> Result<(Source, Option<String>), GoogleError> {
    file::read(text).map_err(|problem| GoogleError::Unusable { path: path.to_owned(), problem })
}

/// The metadata server, if the environment or the machine's product name indicates one.
fn metadata_host(env: &Env) -> Option<String> {
    if let Some(host) = env.non_empty("GCE_METADATA_HOST") {
        return Some(host.to_owned());
    }
    let product = std::fs::read_to_string(PRODUCT_NAME);
    product.is_ok_and(|name| name.trim_start().starts_with("Google")).then(|| METADATA_HOST.to_owned())
}

/// A token, and how long it lasts.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) secret: Secret,
    pub(crate) lifetime: Duration,
}

/// Tokens from one set of credentials; cheap to clone.
#[derive(Clone)]
pub struct GoogleTokens {
    inner: Arc<Inner>,
}

struct Inner {
    credentials: GoogleCredentials,
    scopes: Vec<String>,
    http: reqwest::Client,
    clock: Arc<dyn Clock>,
    /// Held during a request, so that concurrent callers share it.
    current: Mutex<Option<Current>>,
}

struct Current {
    token: Secret,
    renew_at: i64,
}

impl GoogleTokens {
    /// Asks nothing yet.
    pub fn new(
        credentials: GoogleCredentials,
        scopes: Vec<String>,
        http: reqwest::Client,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { inner: Arc::new(Inner { credentials, scopes, http, clock, current: Mutex::new(None) }) }
    }

    /// A token that is good for a while.
    pub async fn token(&self) -> Result<Secret, GoogleError> {
        let mut current = self.inner.current.lock().await;
        let now = self.inner.clock.now().millis();
        if let Some(known) = current.as_ref().filter(|known| now < known.renew_at) {
            return Ok(known.token.clone());
        }
        let asked = source::Asked { http: &self.inner.http, scopes: &self.inner.scopes, now_ms: now };
        let fresh = self.inner.credentials.source.token(&asked).await?;
        let used = fresh.lifetime.saturating_sub(MARGIN.min(fresh.lifetime / 2));
        let used = i64::try_from(used.as_millis()).unwrap_or(i64::MAX);
        *current = Some(Current { token: fresh.secret.clone(), renew_at: now.saturating_add(used) });
        Ok(fresh.secret)
    }

    /// The server refused this token: the next question gets another.
    pub async fn discard(&self, refused: &Secret) {
        let mut current = self.inner.current.lock().await;
        if current.as_ref().is_some_and(|known| known.token == *refused) {
            *current = None;
        }
    }

    /// An identity token of a service account, for an audience (IAM `generateIdToken`).
    pub(crate) async fn identity_token(
        &self,
        iam: &str,
        account: &str,
        audience: &str,
    ) -> Result<Token, GoogleError> {
        let bearer = self.token().await?;
        let now_ms = self.inner.clock.now().millis();
        source::identity_token(&self.inner.http, iam, &bearer, account, audience, now_ms).await
    }

    /// Who pays, if the credentials say.
    pub fn quota_project(&self) -> Option<&str> {
        self.inner.credentials.quota_project.as_deref()
    }

    pub(crate) fn scopes(&self) -> &[String] {
        &self.inner.scopes
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.inner.clock.now().millis()
    }
}

#[cfg(test)]
mod tests;
