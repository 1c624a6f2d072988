//! Checks access tokens (signed JWTs) of an OpenID Connect issuer, for servers that are shown them.
//!
//! Use [`TokenVerifier`]: it finds the issuer's keys, keeps them, and reads them again when a token names an unknown one.
//! Only signatures with public keys count (RS256, ES256, EdDSA). Does not own: signing in, and what a subject may do.

mod keys;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pollux_domain::time::{Clock, Timestamp};
use reqwest::Url;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::client::HttpClient;
use crate::oauth::is_loopback;
use crate::transport;

use keys::KeySet;

/// Between two attempts to read the keys: strangers decide which keys their tokens name.
const PAUSE: Duration = Duration::from_secs(60);
/// Keys are read again after this time, so that a withdrawn one does not count for long.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// If the issuer cannot be reached, its keys are used so long.
const USABLE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long reading a document may take, and how large it may be.
const FETCH_TIME: Duration = Duration::from_secs(10);
const MAX_DOCUMENT: usize = 1024 * 1024;
/// Where an issuer describes itself.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    pub issuer: String,
    pub audience: String,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The issuer's own document names the address.
    Discovery,
    Url(String),
    File(PathBuf),
}

/// What a valid token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub subject: String,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is malformed")]
    Malformed,
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    #[error("the token's key is unknown")]
    UnknownKey,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token names no subject")]
    Subject,
}

/// Why the keys of an issuer are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("`{0}` is not an https URL")]
    Address(String),
    #[error("could not read {place}: {why}")]
    Unreadable { place: String, why: String },
    #[error("{0} contains no usable keys")]
    NoKeys(String),
    #[error("{place} is from another issuer: `{issuer}`")]
    OtherIssuer { place: String, issuer: String },
}

/// Checks tokens.
pub struct TokenVerifier(Arc<Verifier>);

struct Verifier {
    rules: TokenRules,
    source: KeySource,
    http: HttpClient,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    /// Held while the keys are read.
    reading: tokio::sync::Mutex<()>,
}

/// The keys, and when they were read and tried to be read last.
#[derive(Default)]
struct Known {
    keys: Arc<KeySet>,
    read: Option<Timestamp>,
    tried: Option<Timestamp>,
}

impl TokenVerifier {
    /// Checks the addresses; nothing is read yet.
    pub fn new(
        rules: TokenRules,
        source: KeySource,
        http: HttpClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, KeysError> {
        checked(&rules.issuer)?;
        if let KeySource::Url(url) = &source {
            checked(url)?;
        }
        let (known, reading) = (Mutex::default(), tokio::sync::Mutex::new(()));
        Ok(Self(Arc::new(Verifier { rules, source, http, clock, known, reading })))
    }

    pub fn issuer(&self) -> &str {
        &self.0.rules.issuer
    }

    /// The address of the document in which the issuer describes itself.
    pub fn discovery_url(&self) -> String {
        self.0.discovery_url()
    }

    /// Reads the keys, unless that was tried a moment ago. Goes on if the caller does not wait for it: a client that
    /// leaves must not keep others from new keys.
    pub async fn refresh(&self) -> Result<(), KeysError> {
        let verifier = Arc::clone(&self.0);
        // A task that panics has read nothing.
        tokio::spawn(async move { verifier.refresh().await }).await.unwrap_or(Ok(()))
    }

    /// What a token says, if it is valid.
    pub async fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        // What was read before counts a while longer, so that others do not wait for the one who reads it again.
        if !self.0.is_younger(FRESH) && (!self.0.is_younger(USABLE) || self.0.reading.try_lock().is_ok()) {
            let _ = self.refresh().await;
        }
        match self.0.check(token) {
            Err(TokenError::UnknownKey) => {
                let _ = self.refresh().await;
                self.0.check(token)
            }
            checked => checked,
        }
    }
}

impl Verifier {
    fn discovery_url(&self) -> String {
        format!("{}{DISCOVERY}", self.rules.issuer.trim_end_matches('/'))
    }

    async fn refresh(&self) -> Result<(), KeysError> {
        let _reading = self.reading.lock().await;
        {
            let mut known = self.known();
            if self.age(known.tried).is_some_and(|age| age < PAUSE) {
                return Ok(());
            }
            known.tried = Some(self.clock.now());
        }
        let keys = self.read().await?;
        let mut known = self.known();
        known.keys = Arc::new(keys);
        known.read = Some(self.clock.now());
        Ok(())
    }

    fn check(&self, token: &str) -> Result<Claims, TokenError> {
        if !self.is_younger(USABLE) {
            return Err(TokenError::UnknownKey);
        }
        let keys = Arc::clone(&self.known().keys);
        keys.verify(token, &self.rules, self.clock.now())
    }

    /// Whether the keys were read less than so long ago.
    fn is_younger(&self, limit: Duration) -> bool {
        let read = self.known().read;
        self.age(read).is_some_and(|age| age < limit)
    }

    /// How long ago something was; `None` if it never was, or if the clock was set back since.
    fn age(&self, moment: Option<Timestamp>) -> Option<Duration> {
        let millis = self.clock.now().millis().checked_sub(moment?.millis())?;
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self) -> Result<KeySet, KeysError> {
        let (document, place) = match &self.source {
            KeySource::File(path) => {
                let place = format!("`{}`", path.display());
                let text = read_file(path).await;
                (parsed(&place, text)?, place)
            }
            KeySource::Url(url) => (self.document(checked(url)?).await?, format!("`{url}`")),
            KeySource::Discovery => {
                let url = self.discovery_url();
                let place = format!("`{url}`");
                let about = self.document(checked(&url)?).await?;
                let text = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default();
                if text("issuer") != self.rules.issuer {
                    let issuer = text("issuer").chars().filter(|c| !c.is_control()).take(200).collect();
                    return Err(KeysError::OtherIssuer { place, issuer });
                }
                let url = checked(text("jwks_uri"))?;
                let place = format!("`{url}`");
                (self.document(url).await?, place)
            }
        };
        let keys = KeySet::read(&document);
        if keys.is_empty() { Err(KeysError::NoKeys(place)) } else { Ok(keys) }
    }

    async fn document(&self, url: Url) -> Result<Value, KeysError> {
        let place = format!("`{url}`");
        let unreadable = |why: String| KeysError::Unreadable { place: place.clone(), why };
        let fetching = async {
            let sent = self.http.get(url.clone()).header(reqwest::header::ACCEPT, "application/json").send();
            let mut response = sent.await.map_err(|error| transport::describe(&error).message)?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status().as_u16()));
            }
            let mut bytes = Vec::new();
            while let Some(chunk) =
                response.chunk().await.map_err(|error| transport::describe(&error).message)?
            {
                if bytes.len() + chunk.len() > MAX_DOCUMENT {
                    return Err("the response is too large".to_owned());
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        let fetched = tokio::time::timeout(FETCH_TIME, fetching).await;
        let bytes = fetched
            .unwrap_or_else(|_| Err(format!("no response within {} s", FETCH_TIME.as_secs())))
            .map_err(unreadable)?;
        parsed(&place, Ok(bytes))
    }
}

async fn read_file(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let reading = async {
        let mut bytes = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        file.take(MAX_DOCUMENT as u64).read_to_end(&mut bytes).await?;
        Ok::<_, std::io::Error>(bytes)
    };
    reading.await.map_err(|error| error.to_string())
}

fn parsed(place: &str, bytes: Result<Vec<u8>, String>) -> Result<Value, KeysError> {
    let unreadable = |why: String| KeysError::Unreadable { place: place.to_owned(), why };
    let bytes = bytes.map_err(unreadable)?;
    serde_json::from_slice(&bytes).map_err(|_| unreadable("it is not valid JSON".to_owned()))
}

/// Keys that are read over plain http could be anybody's, except on this machine.
fn checked(text: &str) -> Result<Url, KeysError> {
    let url = Url::parse(text).ok();
    let is_safe = |url: &Url| url.scheme() == "https" || url.scheme() == "http" && is_loopback(url);
    url.filter(is_safe)
        .ok_or_else(|| KeysError::Address(text.chars().filter(|c| !c.is_control()).take(200).collect()))
}

#[cfg(test)]
mod tests;
