//! API keys and sign-ins: where they are stored, which one a run uses, and the operations behind `pollux auth`.

pub mod key;

use std::path::Path;
use std::sync::Arc;

use pollux_config::dotenv::Offer;
use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::ProviderId;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_model::auth::{self, Auth, AuthError, AuthKind, KEY_VARIABLES, Origin, VertexPlace};
use pollux_net::client::HttpClient;
use pollux_net::credentials::{
    A2A_SERVICE, API_KEY_SERVICE, Backend, CredentialEntry, CredentialError, CredentialPlace,
    CredentialStore, Listing, UnreadFile,
};
use pollux_net::google::{CLOUD_PLATFORM, GoogleCredentials, GoogleError, GoogleTokens, find_credentials};
use pollux_net::google_accounts::GoogleAccounts;

use super::{Credentials, Loaded, load_settings};
use crate::providers::{named_key, provider_credentials, start_provider, wants_vertex};
use crate::request::Request;

/// Hint for a keychain that does not respond.
pub const KEYCHAIN_HINT: &str =
    "unlock the keychain or run this in the desktop session that has it, then try again";

/// The effective sign-in and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// `gemini-api-key`, `vertex-ai`, …; `None` if not signed in.
    pub kind: Option<String>,
    /// Where the credentials in effect come from.
    pub source: Option<String>,
    /// Where requests go.
    pub endpoint: Option<String>,
    /// Why no credentials are usable.
    pub problem: Option<String>,
    pub places: Vec<SourcePlace>,
    pub storage: Storage,
    pub google_account: Option<String>,
}

/// A source of credentials and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePlace {
    pub name: String,
    pub state: String,
    pub in_effect: bool,
}

/// Where new keys are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// `keychain` or `encrypted_file`; upstream's words.
    pub backend: &'static str,
    pub file: Option<String>,
    /// Why the file is used instead of the keychain.
    pub reason: Option<String>,
}

/// A stored credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    pub name: String,
    /// `API key`, `MCP server`, …
    pub kind: &'static str,
    pub place: String,
    pub plain_text: bool,
    pub server_url: Option<String>,
    /// ISO times.
    pub expires: Option<String>,
    pub stored: Option<String>,
    pub renewable: bool,
}

/// A result that may lack what is in an unreachable keychain or an unreadable file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached<T> {
    pub result: T,
    /// Why the keychain could not be read, if it may contain entries.
    pub keychain_missing: Option<String>,
    /// Files that could not be read or changed.
    pub unread: Vec<UnreadFile>,
}

impl<T> Reached<T> {
    /// The failure to report after the result if files could not be read or changed.
    pub fn unread_failure(&self) -> Option<Failure> {
        if self.unread.is_empty() {
            return None;
        }
        let messages: Vec<&str> = self.unread.iter().map(|unread| unread.message.as_str()).collect();
        let failure = Failure::new(ExitKind::Failure, messages.join("\n"));
        Some(match self.unread.iter().find_map(|unread| unread.hint) {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }
}

/// A stored key.
pub struct Stored {
    pub place: String,
    pub notes: Vec<String>,
}

/// Checks that usable credentials exist (exit code 41).
pub fn check_credentials(loaded: &Loaded) -> Result<Credentials, Failure> {
    match start_provider(loaded)? {
        Some(start) => provider_credentials(loaded, start),
        None => google_credentials(loaded),
    }
}

fn google_credentials(loaded: &Loaded) -> Result<Credentials, Failure> {
    named_key(loaded)?;
    let chosen =
        choose(loaded, || loaded.credential_store().api_key()).map_err(|error| refused(&error, loaded))?;
    let google = google(&chosen).map_err(|error| {
        let failure = Failure::from_error(ExitKind::Auth, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    let auth = chosen.auth;
    Ok(Credentials {
        auth_type: Some(auth.kind.as_str().to_owned()),
        api_key: auth.kind == AuthKind::ApiKey,
        vertex: auth.kind == AuthKind::Vertex,
        secrets: vec![auth.key.clone()],
        google,
        notes: chosen.taken.iter().map(taken_line).collect(),
        of_project: !chosen.taken.is_empty(),
        model: google_model(&loaded.groups.model.name),
        provider: ProviderId::GEMINI.as_str().to_owned(),
        auth: Some(auth),
    })
}

/// How requests to Google would be authenticated.
pub(crate) fn kind_of_google(loaded: &Loaded) -> Option<String> {
    let chosen = choose(loaded, || loaded.credential_store().api_key()).ok()?;
    Some(chosen.auth.kind.as_str().to_owned())
}

/// A model of Google's without its provider, which its formats do not know.
fn google_model(name: &str) -> String {
    let bare = ["gemini/", "vertex/"].into_iter().find_map(|prefix| name.strip_prefix(prefix));
    bare.unwrap_or(name).to_owned()
}

/// Tokens for Vertex AI, if it is used with tokens.
pub fn google_tokens(credentials: &Credentials, http: &HttpClient) -> Option<GoogleTokens> {
    let google = credentials.google.clone()?;
    Some(GoogleTokens::new(google, vec![CLOUD_PLATFORM.to_owned()], http.clone(), Arc::new(SystemClock)))
}

/// The credentials of this run.
struct ChosenAuth<'a> {
    auth: Auth,
    /// The environment including the values taken.
    env: Env,
    user_home: &'a Path,
    /// Values taken from the project's `.env` because the user has no credentials of their own.
    taken: Vec<&'a Offer>,
}

/// The user's own credentials from any source; only without any, those that a trusted project offers.
fn choose(
    loaded: &Loaded,
    stored: impl FnOnce() -> Result<Option<Secret>, CredentialError>,
) -> Result<ChosenAuth<'_>, AuthError> {
    let (security, file) = (&loaded.groups.security, loaded.home.settings_file());
    let user_home = loaded.home.user_home();
    let vertex = wants_vertex(loaded);
    let env = with_named_key(loaded);
    let chosen = if vertex {
        auth::choose_vertex(&env, security)
    } else {
        auth::choose(&env, security, stored, &file)
    };
    let own = match chosen {
        Ok(auth) => return Ok(ChosenAuth { auth, env, user_home, taken: Vec::new() }),
        Err(error) => error,
    };
    let has_nothing = matches!(
        own,
        AuthError::Nothing { .. }
            | AuthError::EnforcedNothing { .. }
            | AuthError::NoKey
            | AuthError::VertexWithoutPlace
            | AuthError::CredentialsWithoutPlace { .. }
    );
    // Who has credentials and lacks only the place to use them at is not to send prompts to another account.
    let has_credentials = match own {
        AuthError::CredentialsWithoutPlace { .. } => true,
        AuthError::VertexWithoutPlace => env.non_empty("GOOGLE_APPLICATION_CREDENTIALS").is_some(),
        _ => false,
    };
    let is_wanted = |offer: &Offer| !has_credentials || !KEY_VARIABLES.contains(&offer.name.as_str());
    let (env, taken) = with_offers(loaded, is_wanted);
    if !has_nothing || taken.is_empty() {
        return Err(own);
    }
    // If the project's credentials do not work either, the user's own error is the one to report.
    let chosen = if vertex {
        auth::choose_vertex(&env, security)
    } else {
        auth::choose(&env, security, || Ok(None), &file)
    };
    let auth = chosen.map_err(|_| own)?;
    let is_used = |offer: &&Offer| match (&auth.origin, &auth.vertex) {
        (Origin::Variable(name), _) => offer.name == *name,
        (_, Some(VertexPlace::Project { .. })) => !KEY_VARIABLES.contains(&offer.name.as_str()),
        (_, _) => false,
    };
    let taken: Vec<&Offer> = taken.into_iter().filter(is_used).collect();
    Ok(ChosenAuth { auth, env, user_home, taken })
}

/// The environment in which the variables of Google's key have the value that `--api-key-env` names.
fn with_named_key(loaded: &Loaded) -> Env {
    let Ok(Some(key)) = named_key(loaded) else { return loaded.env.clone() };
    let kept = loaded.env.iter().filter(|(name, _)| !KEY_VARIABLES.contains(name));
    let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let named = KEY_VARIABLES.iter().map(|name| ((*name).to_owned(), key.reveal().to_owned()));
    Env::new(kept.chain(named), loaded.env.cwd().to_path_buf())
}

/// The environment plus everything the project offers and the user has not set, nearest file first.
fn with_offers(loaded: &Loaded, is_wanted: impl Fn(&Offer) -> bool) -> (Env, Vec<&Offer>) {
    let mut env = loaded.env.clone();
    let mut taken = Vec::new();
    for offer in loaded.dotenv.offered.iter().filter(|offer| is_wanted(offer)) {
        if env.get(&offer.name).is_none() {
            env.set_default(offer.name.clone(), offer.value.reveal());
            taken.push(offer);
        }
    }
    (env, taken)
}

fn taken_line(offer: &&Offer) -> String {
    format!(
        "Using {} from `{}`, because you have not set your own. Requests are sent as that account.",
        offer.name,
        offer.file.display()
    )
}

fn google(chosen: &ChosenAuth<'_>) -> Result<Option<GoogleCredentials>, GoogleError> {
    match chosen.auth.vertex {
        Some(VertexPlace::Project { .. }) => find_credentials(&chosen.env, chosen.user_home).map(Some),
        Some(VertexPlace::Express) | None => Ok(None),
    }
}

fn refused(error: &AuthError, loaded: &Loaded) -> Failure {
    let failure = Failure::from_error(ExitKind::Auth, error);
    match (error, loaded.dotenv.unread.first()) {
        (AuthError::StoredKey(error), _) => match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        (AuthError::Nothing { .. } | AuthError::NoKey | AuthError::VertexWithoutPlace, Some(file)) => {
            failure.hint(format!("`{}` is not read, because this folder is not trusted", file.display()))
        }
        (_, _) => failure,
    }
}

/// For `pollux auth`.
pub fn sign_ins(options: &Request, env: &Env) -> Result<SignIns, Failure> {
    let loaded = load_settings(options, env)?;
    Ok(SignIns { store: loaded.credential_store(), process: env.clone(), loaded })
}

/// Keys and sign-ins of this user.
pub struct SignIns {
    store: Arc<CredentialStore>,
    /// The process environment without `.env` files.
    process: Env,
    loaded: Loaded,
}

impl SignIns {
    pub fn status(&self) -> Status {
        let stored = self.store.api_key();
        let has_stored = matches!(stored, Ok(Some(_)));
        let stored_state = match &stored {
            Ok(Some(_)) => "stored".to_owned(),
            Ok(None) => "nothing stored".to_owned(),
            Err(error) => one_line(error),
        };
        let chosen = choose(&self.loaded, || stored);
        let google = chosen.as_ref().ok().map(google);
        let mut status = Status {
            storage: self.storage(),
            google_account: GoogleAccounts::read(self.loaded.home.gemini_dir()).active,
            ..Status::default()
        };
        status.places = self.places(chosen.as_ref().ok(), &stored_state, has_stored);
        match (chosen, google) {
            (Ok(chosen), Some(Ok(google))) => {
                status.kind = Some(chosen.auth.kind.as_str().to_owned());
                status.source = self.source(&chosen, google.as_ref());
                status.endpoint = Some(endpoint(&chosen.auth));
            }
            (Ok(_), Some(Err(error))) => status.problem = Some(error.to_string()),
            (Ok(_), None) => {}
            (Err(error), _) => status.problem = Some(error.to_string()),
        }
        status
    }

    pub fn list(&self) -> Reached<Vec<CredentialRow>> {
        rows(self.store.entries())
    }

    /// Stores what was typed if it looks like an API key.
    pub fn keep(&self, typed: &str) -> Result<Stored, Failure> {
        self.store_key(&key::checked(typed)?)
    }

    /// Stores a key; returns where, and notes about settings that override it.
    pub fn store_key(&self, key: &Secret) -> Result<Stored, Failure> {
        let now = SystemClock.now().millis();
        let backend = self.store.set_api_key(key, now).map_err(|error| failed(&error))?;
        let mut notes = Vec::new();
        if let Some(variable) = KEY_VARIABLES.iter().find(|name| self.loaded.env.non_empty(name).is_some()) {
            notes.push(format!(
                "Note: {variable} is set {} and takes precedence over the stored key.",
                self.set_where(variable)
            ));
        }
        let selected = &self.loaded.groups.security.auth_selected;
        if let Some(other) = selected.as_ref().filter(|kind| *kind != AuthKind::ApiKey.as_str()) {
            notes.push(format!(
                "Note: the settings select '{other}'. To use the key: pollux config set security.auth.selectedType {}",
                AuthKind::ApiKey.as_str()
            ));
        }
        Ok(Stored { place: place_of(&self.store, &backend), notes })
    }

    /// Removes the key; fails if a file may still contain it.
    pub fn forget_key(&self) -> Result<Reached<bool>, Failure> {
        let removed = self.remove_key();
        removed.unread_failure().map_or(Ok(removed), Err)
    }

    /// Removes the key from every place that works. Returns whether one was stored.
    pub fn remove_key(&self) -> Reached<bool> {
        let removal = self.store.delete_api_key();
        let keychain_missing = removal.unreached.map(|reason| reason.to_string());
        Reached { result: removal.removed, keychain_missing, unread: removal.unread }
    }

    /// Removes everything from every place that works. Returns the removed entries.
    pub fn remove_all(&self) -> Reached<Vec<CredentialRow>> {
        let mut removed = self.store.delete_all();
        let gemini_dir = self.loaded.home.gemini_dir();
        if let Err(error) = GoogleAccounts::sign_out(gemini_dir) {
            let path = gemini_dir.to_path_buf();
            removed.unread.push(UnreadFile { path, message: error.to_string(), hint: None });
        }
        rows(removed)
    }

    /// The remaining source of credentials, if any.
    pub fn left(&self) -> Option<String> {
        let chosen = choose(&self.loaded, || Ok(None)).ok()?;
        let google = google(&chosen).ok()?;
        self.source(&chosen, google.as_ref())
    }
}

impl SignIns {
    fn source(&self, chosen: &ChosenAuth<'_>, google: Option<&GoogleCredentials>) -> Option<String> {
        if let Some(google) = google {
            let source = format!("Google credentials from {}, {}", google.place(), google.kind());
            return Some(match chosen.taken.first() {
                Some(offer) => format!("{source}, for {} {}", offer.name, offered_in(offer)),
                None => source,
            });
        }
        match chosen.auth.origin {
            Origin::Variable(name) => Some(match chosen.taken.iter().find(|offer| offer.name == name) {
                Some(offer) => format!("{name} {}", offered_in(offer)),
                None => format!("{name} {}", self.set_where(name)),
            }),
            Origin::Stored => Some("the stored key".to_owned()),
            Origin::Settings => Some("`api.key` in the settings".to_owned()),
            Origin::Nothing => None,
        }
    }

    fn set_where(&self, variable: &str) -> String {
        if self.process.non_empty(variable).is_some() {
            return "in the environment".to_owned();
        }
        let mut files = self.loaded.dotenv.loaded.iter();
        match files.find(|file| file.names.iter().any(|name| name == variable)) {
            Some(file) => format!("in `{}`", file.file.display()),
            None => "in a .env file".to_owned(),
        }
    }

    fn places(
        &self,
        chosen: Option<&ChosenAuth<'_>>,
        stored_state: &str,
        has_stored: bool,
    ) -> Vec<SourcePlace> {
        let origin = chosen.map(|chosen| chosen.auth.origin);
        let place = |name: &str, state: &str, in_effect: bool| SourcePlace {
            name: name.to_owned(),
            state: state.to_owned(),
            in_effect,
        };
        let security = &self.loaded.groups.security;
        let mut places = Vec::new();
        if let Some(kind) = &security.auth_selected {
            places.push(place(
                "security.auth.selectedType",
                &format!("'{kind}' selects the auth type"),
                false,
            ));
        }
        if let Some(kind) = &security.auth_enforced {
            places.push(place("security.auth.enforcedType", &format!("only '{kind}' is allowed"), false));
        }
        for flag in ["GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"] {
            if self.loaded.env.is_true(flag) && security.auth_selected.is_none() {
                places.push(place(flag, "set; selects the auth type", false));
            }
        }
        for name in KEY_VARIABLES {
            let in_effect = origin == Some(Origin::Variable(name));
            let offer = self.loaded.dotenv.offered.iter().find(|offer| offer.name == *name);
            let state = match offer {
                _ if self.loaded.env.non_empty(name).is_some() => format!("set {}", self.set_where(name)),
                Some(offer) if in_effect => format!("set {}", offered_in(offer)),
                Some(offer) => format!("set {}, not used", offered_in(offer)),
                None => "not set".to_owned(),
            };
            places.push(place(name, &state, in_effect));
        }
        let used = origin == Some(Origin::Stored);
        let unused = if has_stored && !used { ", not used" } else { "" };
        places.push(place("stored key", &format!("{stored_state}{unused}"), used));
        let state = if security.api_key.is_some() { "set" } else { "not set" };
        places.push(place("api.key in the settings", state, origin == Some(Origin::Settings)));
        places
    }

    fn storage(&self) -> Storage {
        let file = Some(self.store.file().display().to_string());
        match self.store.backend() {
            Backend::Keychain => Storage { backend: "keychain", file: None, reason: None },
            Backend::File(reason) => {
                Storage { backend: "encrypted_file", file, reason: Some(reason.to_string()) }
            }
        }
    }
}

/// Where a store put an entry, for people.
pub(crate) fn place_of(store: &CredentialStore, backend: &Backend) -> String {
    match backend {
        Backend::Keychain => "the keychain".to_owned(),
        Backend::File(_) => format!("the encrypted file {}", store.file().display()),
    }
}

fn offered_in(offer: &Offer) -> String {
    format!("in this project's `{}`", offer.file.display())
}

fn endpoint(auth: &Auth) -> String {
    let place = match &auth.vertex {
        None => "Gemini API",
        Some(VertexPlace::Express) => "Vertex AI, express mode",
        Some(VertexPlace::Project { project, location }) => {
            return match &auth.base_url {
                Some(url) => format!("{} (Vertex AI, {project} in {location})", host_of(url)),
                None => format!("Vertex AI, {project} in {location}"),
            };
        }
    };
    match &auth.base_url {
        Some(url) => format!("{} ({place})", host_of(url)),
        None => place.to_owned(),
    }
}

/// Scheme and host of a URL, without user name and password.
fn host_of(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}")
        }
        None => "a custom URL".to_owned(),
    }
}

fn rows(listing: Listing) -> Reached<Vec<CredentialRow>> {
    Reached {
        result: listing.entries.iter().map(row).collect(),
        keychain_missing: listing.unreached.map(|reason| reason.to_string()),
        unread: listing.unread,
    }
}

fn row(entry: &CredentialEntry) -> CredentialRow {
    let file = |path: &Path| path.display().to_string();
    let (place, plain_text) = match &entry.place {
        CredentialPlace::Keychain => ("the keychain".to_owned(), false),
        CredentialPlace::File(path) => (file(path), false),
        CredentialPlace::PlainFile(path) => (file(path), true),
    };
    let kind = match entry.service.as_str() {
        API_KEY_SERVICE => "API key",
        A2A_SERVICE => "remote agent",
        _ if entry.is_google_login() => "Google login",
        _ => "MCP server",
    };
    let iso = |moment: i64| Timestamp::from_millis(moment).to_iso();
    CredentialRow {
        name: entry.account.clone(),
        kind,
        place,
        plain_text,
        server_url: entry.server_url.clone(),
        expires: entry.expires_at.map(iso),
        stored: entry.updated_at.map(iso),
        renewable: entry.renewable,
    }
}

pub(crate) fn failed(error: &CredentialError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn one_line(error: &CredentialError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
