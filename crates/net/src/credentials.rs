//! Stores keys and sign-ins: in the system's keychain if it works, otherwise in an encrypted file.
//!
//! Both use gemini-cli's format. An entry is looked up in both, and the newer one wins, because a
//! desktop has a keychain that is not available over ssh. Files of earlier releases are read too;
//! their entries are moved, and removed from the old file only after the new copy was verified.
//! Removal and listing report when the keychain could not be reached and may contain more.
//! Everything here blocks; call it from a blocking thread.

mod file;
mod keychain;
mod known;
mod older;
mod record;
mod removal;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pollux_config::env::Env;
use pollux_config::files::{FileError, LockError};
use pollux_config::groups::Secret;
use serde_json::Value;

use file::{EncryptedFile, Owner};
use keychain::{PROBE_PREFIX, TIMEOUT, TimedKeychain};
use known::KnownEntries;
use older::{OlderEntry, OlderFiles};

pub use keychain::memory::MemoryKeychain;
pub use keychain::{KeychainAddress, KeychainError};
pub use record::{OAuthCredentials, OAuthToken};
pub use removal::{Listing, Removal, UnreadFile};

/// The model's API key is kept under this service.
pub const API_KEY_SERVICE: &str = "gemini-cli-api-key";
/// Sign-ins at MCP servers, by sanitised name, and the login with Google.
pub const MCP_SERVICE: &str = "gemini-cli-oauth";
/// Sign-ins at remote agents.
pub const A2A_SERVICE: &str = "gemini-cli-a2a";

const API_KEY_ACCOUNT: &str = "default-api-key";
const GOOGLE_ACCOUNT: &str = "main-account";
/// Services with sign-ins.
const SIGN_INS: [&str; 3] = [API_KEY_SERVICE, MCP_SERVICE, A2A_SERVICE];
/// The service for other secrets; upstream's name.
const SECRET_PREFIX: &str = "__secret__";
const FILE: &str = "gemini-credentials.json";

/// Why a credential could not be read or stored. No variant contains a secret.
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
    /// A plain file. The text is that of [`Self::Corrupted`].
    #[error(
        "Corrupted credentials file detected at: {}\nPlease delete or rename this file to resolve the issue.",
        path.display()
    )]
    NotJson { path: PathBuf },
    #[error("could not encrypt the credentials file `{}`", path.display())]
    Key { path: PathBuf },
    #[error("could not read back the credential stored in {place}; the older copy was kept")]
    NotVerified { place: String },
    #[error("could not read the credential from the keychain: {0}")]
    Keychain(#[source] KeychainError),
    #[error("stored in the keychain, but the older copy in `{}` could not be removed", path.display())]
    OlderCopy { path: PathBuf },
}

impl CredentialError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Corrupted { .. } => Some(
                "a file created under another host or user name cannot be decrypted either; it was left unchanged",
            ),
            Self::Keychain(_) => Some("unlock the keychain, or set the key in the environment"),
            Self::Lock(error) => error.hint(),
            Self::OlderCopy { .. } => Some("make the file writable, then store the secret again"),
            Self::NotJson { .. } | Self::File(_) | Self::Key { .. } | Self::NotVerified { .. } => None,
        }
    }
}

/// Options of the credential store.
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
    /// Reads the environment variables about the keychain.
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

/// Why the file is used instead of the keychain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileReason {
    #[error("GEMINI_FORCE_FILE_STORAGE is set")]
    Forced,
    #[error(transparent)]
    Keychain(KeychainError),
}

/// Where an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
    Keychain,
    File(PathBuf),
    /// In plain text, as gemini-cli stores some by default.
    PlainFile(PathBuf),
}

/// An entry without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialEntry {
    pub service: String,
    pub account: String,
    pub place: CredentialPlace,
    /// `ApiKey`, `Bearer`, …; `None` for an unreadable entry.
    pub token_type: Option<String>,
    pub server_url: Option<String>,
    pub expires_at: Option<i64>,
    pub updated_at: Option<i64>,
    pub renewable: bool,
}

impl CredentialEntry {
    /// Whether it is gemini-cli's login with Google rather than a sign-in at a server.
    pub fn is_google_login(&self) -> bool {
        self.service == MCP_SERVICE && self.account == GOOGLE_ACCOUNT
    }
}

/// The credential store. Creating one opens nothing.
pub struct CredentialStore {
    file: EncryptedFile,
    older: OlderFiles,
    known: KnownEntries,
    keychain: Result<TimedKeychain, FileReason>,
    probed: OnceLock<Result<(), KeychainError>>,
}

impl CredentialStore {
    pub fn new(options: StoreOptions) -> Self {
        let keychain = if options.force_file {
            Err(FileReason::Forced)
        } else {
            let opener = keychain::system(&options.keychain).map_err(FileReason::Keychain);
            opener.map(|opener| TimedKeychain::new(opener, TIMEOUT))
        };
        Self::with(options, keychain)
    }

    fn with(options: StoreOptions, keychain: Result<TimedKeychain, FileReason>) -> Self {
        let owner = Arc::new(Owner::new(options.host, options.user));
        Self {
            file: EncryptedFile::new(options.gemini_dir.join(FILE), Arc::clone(&owner)),
            older: OlderFiles::new(&options.gemini_dir, owner),
            known: KnownEntries::new(&options.gemini_dir),
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

    /// The stored API key, if any.
    pub fn api_key(&self) -> Result<Option<Secret>, CredentialError> {
        let found = self.credentials(API_KEY_SERVICE, API_KEY_ACCOUNT)?;
        Ok(found.map(|found| found.token.access_token))
    }

    /// Stores the key in place of the one before.
    pub fn set_api_key(&self, key: &Secret, now_ms: i64) -> Result<Backend, CredentialError> {
        let entry = OAuthCredentials::api_key(API_KEY_ACCOUNT, key, now_ms);
        self.set_credentials(API_KEY_SERVICE, &entry)
    }

    /// The sign-in under a name, the newest of all copies. One of an older file moves to the present place.
    pub fn credentials(
        &self,
        service: &str,
        name: &str,
    ) -> Result<Option<OAuthCredentials>, CredentialError> {
        let account = self.account_in_use(service, name)?;
        let (present, trouble) = self.look(service, &account)?;
        let older = match self.older.find(service, name) {
            Ok(older) => older,
            Err(_) if present.is_some() => None,
            Err(error) => return Err(error),
        };
        let is_wanted = |older: &OlderEntry| match &present {
            None => true,
            Some(present) if is_of_another(present, name) => older.name == name,
            // Under a name that only looks the same, it can be the sign-in of another server.
            Some(present) if older.name != name && present.server_name == name => false,
            Some(present) => older.credentials.updated_at > present.updated_at,
        };
        if let Some(older) = older.filter(is_wanted) {
            let mut found = older.credentials;
            name.clone_into(&mut found.server_name);
            // A key that cannot be migrated can still be used.
            if self.set_credentials(service, &found).is_ok() {
                let _ = self.older.forget(service, &older.name);
            }
            return Ok(Some(found));
        }
        match trouble.filter(|_| present.is_none()) {
            Some(error) if self.may_hold(&error, service, &account) => Err(CredentialError::Keychain(error)),
            Some(_) | None => Ok(present),
        }
    }

    /// The newest copy at the present places, and why the keychain could not be read.
    fn look(
        &self,
        service: &str,
        account: &str,
    ) -> Result<(Option<OAuthCredentials>, Option<KeychainError>), CredentialError> {
        let (in_keychain, trouble) = match self.look_in_keychain(service, account) {
            Ok(found) => (found.as_deref().and_then(read_text), None),
            Err(error) => (None, Some(error)),
        };
        let in_file = match self.look_in_file(service, account) {
            Ok(found) => found.as_ref().and_then(OAuthCredentials::read),
            // A copy was found; an unreadable file matters only when writing.
            Err(_) if in_keychain.is_some() => None,
            Err(error) => return Err(error),
        };
        Ok((newest([in_keychain, in_file]), trouble))
    }

    /// The account that has the sign-in of a name: its own one if another name has taken the usual one.
    fn account_in_use(&self, service: &str, name: &str) -> Result<String, CredentialError> {
        let account = account_of(name);
        let is_taken = self.look(service, &account)?.0.is_some_and(|present| is_of_another(&present, name));
        if is_taken {
            let own = own_account_of(name);
            if self.look(service, &own)?.0.is_some() {
                return Ok(own);
            }
        }
        Ok(account)
    }

    /// Stores a sign-in under its server's name, reads it back, and then removes older copies.
    pub fn set_credentials(
        &self,
        service: &str,
        credentials: &OAuthCredentials,
    ) -> Result<Backend, CredentialError> {
        let name = &credentials.server_name;
        let mut account = account_of(name);
        let mut credentials = credentials.clone();
        // It is waited for longer than in the lookup below, which would give it up.
        let _ = self.backend();
        let mut others = self.copies(service, &account);
        if newest(others.clone()).is_some_and(|newest| is_of_another(&newest, name)) {
            account = own_account_of(name);
            others = self.copies(service, &account);
        }
        // Where a clock was set back, the copy that cannot be removed must still be the older one.
        for other in others.iter().flatten().filter(|other| other.token != credentials.token) {
            credentials.updated_at = credentials.updated_at.max(other.updated_at.saturating_add(1));
        }
        let stored = self.set(service, &account, &credentials.to_json().to_string())?;
        // The present copy is verified; a copy that cannot be removed is older and loses.
        let _ = self.older.forget(service, &credentials.server_name);
        Ok(stored)
    }

    /// The copies at the present places, as far as they can be read.
    fn copies(&self, service: &str, account: &str) -> [Option<OAuthCredentials>; 2] {
        [
            self.look_in_keychain(service, account).ok().flatten().as_deref().and_then(read_text),
            self.look_in_file(service, account).ok().flatten().as_ref().and_then(OAuthCredentials::read),
        ]
    }

    /// The file to lock while a sign-in is refreshed.
    pub(crate) fn renewal_lock(&self, name: &str) -> PathBuf {
        self.file.path().with_file_name(format!("oauth-renewal-{}", account_of(name)))
    }

    /// A secret of an extension.
    ///
    /// It has no date. A write to the keychain takes the copy out of the file, so that one which is there was
    /// written later, when the keychain could not be used.
    pub fn secret(&self, service: &str, name: &str) -> Result<Option<Secret>, CredentialError> {
        let account = format!("{SECRET_PREFIX}{name}");
        let in_file = self.look_in_file(service, &account);
        if let Ok(Some(Value::String(found))) = &in_file {
            return Ok(Some(Secret::new(found.as_str())));
        }
        match self.look_in_keychain(service, &account) {
            Ok(Some(found)) => Ok(Some(Secret::new(found))),
            Ok(None) => in_file.map(|_| None),
            Err(error) if self.may_hold(&error, service, &account) => Err(CredentialError::Keychain(error)),
            Err(_) => in_file.map(|_| None),
        }
    }

    /// Stores a secret of an extension.
    pub fn set_secret(&self, service: &str, name: &str, value: &Secret) -> Result<(), CredentialError> {
        let account = format!("{SECRET_PREFIX}{name}");
        let backend = self.set(service, &account, value.reveal())?;
        match self.look_in_file(service, &account) {
            Ok(Some(_)) if backend == Backend::Keychain => {
                Err(CredentialError::OlderCopy { path: self.file.path().to_owned() })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A value from the keychain only, or why it is unavailable.
    pub fn keychain_value(&self, service: &str, account: &str) -> Result<Option<Secret>, FileReason> {
        match (self.backend(), &self.keychain) {
            (Backend::Keychain, Ok(keychain)) => {
                let found = keychain.get(service, account).map_err(FileReason::Keychain)?;
                Ok(found.map(Secret::new))
            }
            (Backend::File(reason), _) => Err(reason),
            (Backend::Keychain, Err(reason)) => Err(reason.clone()),
        }
    }

    /// Stores a value in the keychain only; false if that is not possible.
    pub fn set_keychain_value(&self, service: &str, account: &str, value: &Secret) -> bool {
        let Ok(keychain) = &self.keychain else { return false };
        keychain.set(service, account, value.reveal()).is_ok()
    }

    /// Whether a keychain that failed in this way may hold the entry.
    fn may_hold(&self, error: &KeychainError, service: &str, account: &str) -> bool {
        *error == KeychainError::Locked || self.known.has(service, account)
    }

    fn look_in_keychain(&self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        match &self.keychain {
            Ok(keychain) => {
                let found = keychain.get(service, account)?;
                match &found {
                    Some(_) => self.known.add(service, account),
                    None => self.known.remove(service, account),
                }
                Ok(found)
            }
            Err(FileReason::Forced) => Ok(None),
            Err(FileReason::Keychain(error)) => Err(error.clone()),
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
                    self.known.add(service, account);
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

/// The account of a name whose usual account contains the sign-in of another name.
fn own_account_of(name: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let digest: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", account_of(name))
}

/// Whether an entry was stored under another name that is replaced by the same account.
fn is_of_another(entry: &OAuthCredentials, name: &str) -> bool {
    !entry.server_name.is_empty() && entry.server_name != name
}

fn newest(copies: [Option<OAuthCredentials>; 2]) -> Option<OAuthCredentials> {
    copies.into_iter().flatten().max_by_key(|found| found.updated_at)
}

fn is_sign_in(account: &str) -> bool {
    !account.starts_with(PROBE_PREFIX) && !account.starts_with(SECRET_PREFIX)
}

fn read_text(text: &str) -> Option<OAuthCredentials> {
    OAuthCredentials::read(&serde_json::from_str(text).ok()?)
}

fn entry(
    service: &str,
    account: &str,
    place: CredentialPlace,
    found: Option<&OAuthCredentials>,
) -> CredentialEntry {
    CredentialEntry {
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
