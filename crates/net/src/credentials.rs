//! Where keys and sign-ins are kept: the system's keychain if it works, else an encrypted file.
//!
//! Both are gemini-cli's, in its format. An entry is looked for in both, and the newer one counts, because a
//! desktop has a keychain that the same user has not got over ssh. Files of earlier releases are read too;
//! their entries move to the present place, and leave the old one only when the new one has given them back.
//! Everything here blocks; call it from a thread that may.

mod file;
mod keychain;
mod older;
mod record;
mod sealed;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pollux_config::env::Env;
use pollux_config::files::{FileError, LockError};
use pollux_config::groups::Secret;
use serde_json::Value;

use file::{EncryptedFile, Owner};
use keychain::{PATIENCE, PROBE_PREFIX, TimedKeychain};
use older::OlderFiles;

pub use keychain::{KeychainAddress, KeychainError};
pub use record::{OAuthCredentials, OAuthToken};

/// The model's API key is kept under this service.
pub const API_KEY_SERVICE: &str = "gemini-cli-api-key";
/// Sign-ins at MCP servers, by sanitised name, and the login with Google.
pub const MCP_SERVICE: &str = "gemini-cli-oauth";
/// Sign-ins at remote agents.
pub const A2A_SERVICE: &str = "gemini-cli-a2a";

const API_KEY_ACCOUNT: &str = "default-api-key";
const GOOGLE_ACCOUNT: &str = "main-account";
/// Secrets that are no sign-ins; upstream's word.
const SECRET_PREFIX: &str = "__secret__";
const FILE: &str = "gemini-credentials.json";

/// Why a credential could not be read or stored. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    // Upstream's text.
    #[error(
        "Corrupted credentials file detected at: {}\nPlease delete or rename this file to resolve the issue.",
        path.display()
    )]
    Corrupted { path: PathBuf },
    #[error("could not encrypt the credentials file `{}`", path.display())]
    Key { path: PathBuf },
    #[error("what was stored could not be read back from {place}; the older copy was kept")]
    NotVerified { place: String },
    #[error("the credential is in the keychain, which cannot be used: {0}")]
    Keychain(#[source] KeychainError),
}

impl CredentialError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Corrupted { .. } => Some(
                "a file made under another host or user name cannot be opened either; it was left as it is",
            ),
            Self::Keychain(_) => Some("unlock the keychain, or give the key in the environment"),
            Self::Lock(error) => error.hint(),
            Self::File(_) | Self::Key { .. } | Self::NotVerified { .. } => None,
        }
    }
}

/// Where and whose the credentials are.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    pub gemini_dir: PathBuf,
    /// The machine's name, which the file's key is made of.
    pub host: String,
    pub user: String,
    /// `GEMINI_FORCE_FILE_STORAGE`: the keychain is not asked.
    pub force_file: bool,
    pub keychain: KeychainAddress,
}

impl StoreOptions {
    /// Takes what the environment says about the keychain.
    pub fn from_env(env: &Env, gemini_dir: &Path, host: String, user: String) -> Self {
        Self {
            gemini_dir: gemini_dir.to_owned(),
            host,
            user,
            force_file: env.get("GEMINI_FORCE_FILE_STORAGE") == Some("true"),
            keychain: KeychainAddress::from_env(env),
        }
    }
}

impl KeychainAddress {
    /// The session bus that the environment names, or the usual one of the session.
    fn from_env(env: &Env) -> Self {
        if cfg!(target_os = "macos") {
            return Self::Bus(String::new());
        }
        if let Some(address) = env.non_empty("DBUS_SESSION_BUS_ADDRESS") {
            return Self::Bus(address.to_owned());
        }
        let socket = env.non_empty("XDG_RUNTIME_DIR").map(|folder| Path::new(folder).join("bus"));
        match socket.filter(|socket| socket.exists()) {
            Some(socket) => Self::Bus(format!("unix:path={}", socket.display())),
            None => Self::NoBus,
        }
    }
}

/// The place where new entries go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    Keychain,
    File(FileReason),
}

/// Why entries go to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileReason {
    /// `GEMINI_FORCE_FILE_STORAGE`
    Forced,
    Keychain(KeychainError),
}

/// Where an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Keychain,
    File(PathBuf),
    /// In plain text, as gemini-cli stores some by default.
    PlainFile(PathBuf),
}

/// An entry without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub service: String,
    pub account: String,
    pub place: Place,
    /// `ApiKey`, `Bearer`, …; `None` for what cannot be read.
    pub token_type: Option<String>,
    pub server_url: Option<String>,
    pub expires_at: Option<i64>,
    pub updated_at: Option<i64>,
    pub renewable: bool,
}

impl Entry {
    /// Whether it is gemini-cli's login with Google rather than a sign-in at a server.
    pub fn is_google_login(&self) -> bool {
        self.service == MCP_SERVICE && self.account == GOOGLE_ACCOUNT
    }
}

/// Keeps credentials. Making one touches nothing.
pub struct CredentialStore {
    file: EncryptedFile,
    older: OlderFiles,
    keychain: Result<TimedKeychain, FileReason>,
    probed: OnceLock<Result<(), KeychainError>>,
}

impl CredentialStore {
    pub fn new(options: StoreOptions) -> Self {
        let keychain = if options.force_file {
            Err(FileReason::Forced)
        } else {
            let opener = keychain::system(&options.keychain).map_err(FileReason::Keychain);
            opener.map(|opener| TimedKeychain::new(opener, PATIENCE))
        };
        Self::with(options, keychain)
    }

    fn with(options: StoreOptions, keychain: Result<TimedKeychain, FileReason>) -> Self {
        let owner = Arc::new(Owner::new(options.host, options.user));
        Self {
            file: EncryptedFile::new(options.gemini_dir.join(FILE), Arc::clone(&owner)),
            older: OlderFiles::new(&options.gemini_dir, owner),
            keychain,
            probed: OnceLock::new(),
        }
    }

    /// Where new entries go. The first question probes the keychain, within its time limit.
    pub fn backend(&self) -> Backend {
        match &self.keychain {
            Err(reason) => Backend::File(reason.clone()),
            Ok(keychain) => match self.probed.get_or_init(|| keychain.probe(API_KEY_SERVICE)) {
                Ok(()) => Backend::Keychain,
                Err(error) => Backend::File(FileReason::Keychain(error.clone())),
            },
        }
    }

    /// The encrypted file.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// The key that the user stored, if there is one.
    pub fn api_key(&self) -> Result<Option<Secret>, CredentialError> {
        let found = self.credentials(API_KEY_SERVICE, API_KEY_ACCOUNT)?;
        Ok(found.map(|found| found.token.access_token))
    }

    /// Stores the key in place of the one before.
    pub fn set_api_key(&self, key: &Secret, now_ms: i64) -> Result<Backend, CredentialError> {
        let entry = OAuthCredentials::api_key(API_KEY_ACCOUNT, key, now_ms);
        self.set_credentials(API_KEY_SERVICE, &entry)
    }

    /// Whether there was a key to remove.
    pub fn delete_api_key(&self) -> Result<bool, CredentialError> {
        self.delete(API_KEY_SERVICE, API_KEY_ACCOUNT)
    }

    /// The sign-in under a name, the newest of all copies. One of an older file moves to the present place.
    pub fn credentials(
        &self,
        service: &str,
        name: &str,
    ) -> Result<Option<OAuthCredentials>, CredentialError> {
        let account = account_of(name);
        let (in_keychain, trouble) = match self.look_in_keychain(service, &account) {
            Ok(found) => (found.as_deref().and_then(read_text), None),
            Err(error) => (None, Some(error)),
        };
        let in_file = match self.look_in_file(service, &account) {
            Ok(found) => found.as_ref().and_then(OAuthCredentials::read),
            // A copy is at hand; the file is a matter for whoever writes to it.
            Err(_) if in_keychain.is_some() => None,
            Err(error) => return Err(error),
        };
        let newest = [in_keychain, in_file].into_iter().flatten().max_by_key(|found| found.updated_at);
        if newest.is_some() {
            return Ok(newest);
        }
        if let Some(mut found) = self.older.find(service, &account)? {
            name.clone_into(&mut found.server_name);
            // What cannot be moved can still be used.
            let _ = self.set_credentials(service, &found);
            return Ok(Some(found));
        }
        match trouble {
            // It is known to be there.
            Some(error @ KeychainError::Locked) => Err(CredentialError::Keychain(error)),
            Some(_) | None => Ok(None),
        }
    }

    /// Stores a sign-in under its server's name, reads it back, and then removes older copies.
    pub fn set_credentials(
        &self,
        service: &str,
        credentials: &OAuthCredentials,
    ) -> Result<Backend, CredentialError> {
        let account = account_of(&credentials.server_name);
        let stored = self.set(service, &account, &credentials.to_json().to_string())?;
        // The present copy is verified; a copy that cannot be removed is older and loses.
        let _ = self.older.forget(service, &account);
        Ok(stored)
    }

    /// Whether there was a sign-in to remove, in whatever place.
    pub fn delete_credentials(&self, service: &str, name: &str) -> Result<bool, CredentialError> {
        self.delete(service, &account_of(name))
    }

    /// What to lock while a sign-in is renewed.
    pub(crate) fn renewal_lock(&self, name: &str) -> PathBuf {
        self.file.path().with_file_name(format!("oauth-renewal-{}", account_of(name)))
    }

    /// A secret of an extension.
    pub fn secret(&self, service: &str, name: &str) -> Result<Option<Secret>, CredentialError> {
        let account = format!("{SECRET_PREFIX}{name}");
        if let Ok(Some(found)) = self.look_in_keychain(service, &account) {
            return Ok(Some(Secret::new(found)));
        }
        let found = self.look_in_file(service, &account)?;
        Ok(found.as_ref().and_then(Value::as_str).map(Secret::new))
    }

    /// Stores a secret of an extension.
    pub fn set_secret(&self, service: &str, name: &str, value: &Secret) -> Result<(), CredentialError> {
        self.set(service, &format!("{SECRET_PREFIX}{name}"), value.reveal()).map(drop)
    }

    /// Whether there was a secret to remove.
    pub fn delete_secret(&self, service: &str, name: &str) -> Result<bool, CredentialError> {
        self.delete(service, &format!("{SECRET_PREFIX}{name}"))
    }

    /// A value of the keychain alone; the outer `None` says that no keychain works here.
    pub fn keychain_value(&self, service: &str, account: &str) -> Option<Option<Secret>> {
        match (self.backend(), &self.keychain) {
            (Backend::Keychain, Ok(keychain)) => {
                keychain.get(service, account).ok().map(|found| found.map(Secret::new))
            }
            (Backend::Keychain | Backend::File(_), _) => None,
        }
    }

    /// Stores a value in the keychain alone; false if it cannot be.
    pub fn set_keychain_value(&self, service: &str, account: &str, value: &Secret) -> bool {
        let Ok(keychain) = &self.keychain else { return false };
        keychain.set(service, account, value.reveal()).is_ok()
    }

    /// All keys and sign-ins, without moving any.
    pub fn entries(&self) -> Result<Vec<Entry>, CredentialError> {
        let mut all = Vec::new();
        let file = self.file.read()?;
        for service in [API_KEY_SERVICE, MCP_SERVICE, A2A_SERVICE] {
            self.keychain_entries(service, &mut all);
            let accounts = file.get(service).and_then(Value::as_object).into_iter().flatten();
            for (account, value) in accounts.filter(|(account, _)| is_sign_in(account)) {
                let place = Place::File(self.file.path().to_owned());
                all.push(entry(service, account, place, OAuthCredentials::read(value).as_ref()));
            }
            for older in self.older.entries(service)? {
                all.push(entry(service, &older.name, older.place, Some(&older.credentials)));
            }
        }
        if let Some(path) = self.older.google_login() {
            all.push(entry(MCP_SERVICE, GOOGLE_ACCOUNT, Place::PlainFile(path), None));
        }
        Ok(all)
    }

    /// Removes everything that [`Self::entries`] lists; says what.
    pub fn delete_all(&self) -> Result<Vec<Entry>, CredentialError> {
        let entries = self.entries()?;
        for entry in &entries {
            self.delete(&entry.service, &account_of(&entry.account))?;
        }
        self.older.forget_google_login()?;
        Ok(entries)
    }

    fn keychain_entries(&self, service: &str, all: &mut Vec<Entry>) {
        let Ok(keychain) = &self.keychain else { return };
        // One that fails has nothing to show; `backend` says why.
        for account in keychain.accounts(service).unwrap_or_default() {
            if is_sign_in(&account) {
                let found = keychain.get(service, &account).ok().flatten();
                let found = found.as_deref().and_then(read_text);
                all.push(entry(service, &account, Place::Keychain, found.as_ref()));
            }
        }
    }

    fn look_in_keychain(&self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        match &self.keychain {
            Ok(keychain) => keychain.get(service, account),
            Err(_) => Ok(None),
        }
    }

    fn look_in_file(&self, service: &str, account: &str) -> Result<Option<Value>, CredentialError> {
        let entries = self.file.read()?;
        Ok(entries.get(service).and_then(|service| service.get(account)).cloned())
    }

    fn set(&self, service: &str, account: &str, value: &str) -> Result<Backend, CredentialError> {
        let mut backend = self.backend();
        if let (Backend::Keychain, Ok(keychain)) = (&backend, &self.keychain) {
            match keychain.set(service, account, value) {
                Ok(()) => {
                    // A stale copy loses by its age; a file that cannot be opened must stay as it is.
                    let _ = self.remove_from_file(service, account);
                    return Ok(backend);
                }
                Err(error) => backend = Backend::File(FileReason::Keychain(error)),
            }
        }
        self.file.change(|entries| {
            let accounts = entries.entry(service).or_insert_with(|| Value::Object(Default::default()));
            if !accounts.is_object() {
                *accounts = Value::Object(Default::default());
            }
            if let Some(accounts) = accounts.as_object_mut() {
                accounts.insert(account.to_owned(), Value::String(value.to_owned()));
            }
            true
        })?;
        Ok(backend)
    }

    fn delete(&self, service: &str, account: &str) -> Result<bool, CredentialError> {
        let in_keychain = match &self.keychain {
            Ok(keychain) => match keychain.delete(service, account) {
                Ok(deleted) => deleted,
                Err(error @ KeychainError::Locked) => return Err(CredentialError::Keychain(error)),
                Err(_) => false,
            },
            Err(_) => false,
        };
        let in_file = self.remove_from_file(service, account)?;
        let in_older = self.older.forget(service, account)?;
        Ok(in_keychain || in_file || in_older)
    }

    fn remove_from_file(&self, service: &str, account: &str) -> Result<bool, CredentialError> {
        if !self.file.path().exists() {
            return Ok(false);
        }
        self.file.change(|entries| {
            let Some(accounts) = entries.get_mut(service).and_then(Value::as_object_mut) else {
                return false;
            };
            let removed = accounts.shift_remove(account).is_some();
            if accounts.is_empty() {
                entries.shift_remove(service);
            }
            removed
        })
    }
}

/// The name under which a server's sign-in is kept; the replacement is upstream's.
fn account_of(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

fn is_sign_in(account: &str) -> bool {
    !account.starts_with(PROBE_PREFIX) && !account.starts_with(SECRET_PREFIX)
}

fn read_text(text: &str) -> Option<OAuthCredentials> {
    OAuthCredentials::read(&serde_json::from_str(text).ok()?)
}

fn entry(service: &str, account: &str, place: Place, found: Option<&OAuthCredentials>) -> Entry {
    Entry {
        service: service.to_owned(),
        account: account.to_owned(),
        place,
        token_type: found.map(|found| found.token.token_type.clone()),
        server_url: found.and_then(|found| found.mcp_server_url.clone()),
        expires_at: found.and_then(|found| found.token.expires_at),
        updated_at: found.map(|found| found.updated_at).filter(|moment| *moment > 0),
        renewable: found.is_some_and(|found| found.token.refresh_token.is_some()),
    }
}

#[cfg(test)]
mod tests;
