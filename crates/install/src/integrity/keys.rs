//! The keys that sign the integrity registers.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, Mode};
use pollux_config::groups::Secret;
use pollux_config::paths::sha256_hex;
use pollux_domain::hex;
use pollux_net::credentials::{CredentialStore, FileReason};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::IntegrityError;

pub(super) const KEY_FILE: &str = "integrity.key";
/// Upstream's names.
const SERVICE: &str = "gemini-cli-extension-integrity";
const ACCOUNT: &str = "secret-key";
/// Length of the key id, enough to distinguish keys.
const ID_LENGTH: usize = 16;

/// Where a key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPlace {
    Keychain,
    File,
}

impl KeyPlace {
    /// As registers name it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Keychain => "keychain",
            Self::File => "file",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::Keychain, Self::File].into_iter().find(|place| place.word() == word)
    }
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keychain => f.write_str("the keychain"),
            Self::File => write!(f, "`{KEY_FILE}`"),
        }
    }
}

/// A key and where it is kept.
#[derive(Clone)]
pub(super) struct SigningKey {
    pub(super) place: KeyPlace,
    secret: Secret,
}

impl SigningKey {
    /// Identifies the key without revealing it.
    pub(super) fn id(&self) -> String {
        sha256_hex(format!("integrity key {}", self.secret.reveal()).as_bytes())
            .chars()
            .take(ID_LENGTH)
            .collect()
    }

    pub(super) fn sign(&self, text: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.reveal().as_bytes());
        hex::encode(hmac::sign(&key, text.as_bytes()).as_ref())
    }
}

/// The keys of one home.
pub(super) struct Keys<'a> {
    file: PathBuf,
    store: Option<&'a CredentialStore>,
    /// Queried once: a keychain that does not respond costs seconds.
    in_keychain: RefCell<Option<Result<Option<Secret>, FileReason>>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(folder: &Path, store: Option<&'a CredentialStore>) -> Self {
        Self { file: folder.join(KEY_FILE), store, in_keychain: RefCell::new(None) }
    }

    /// The key in a location, if there is one; the inner error says why the location is unavailable.
    pub(super) fn find(
        &self,
        place: KeyPlace,
    ) -> Result<Result<Option<SigningKey>, FileReason>, IntegrityError> {
        let found = match place {
            KeyPlace::File => Ok(self.in_file()?),
            KeyPlace::Keychain => self.in_keychain(),
        };
        Ok(found.map(|secret| secret.map(|secret| SigningKey { place, secret })))
    }

    /// All available keys in order; missing ones are created.
    pub(super) fn to_sign_with(&self) -> Result<Vec<SigningKey>, IntegrityError> {
        let mut keys = Vec::with_capacity(2);
        let in_keychain = match self.in_keychain() {
            Ok(Some(secret)) => Some(secret),
            Ok(None) => self.new_in_keychain()?,
            Err(_) => None,
        };
        keys.extend(in_keychain.map(|secret| SigningKey { place: KeyPlace::Keychain, secret }));
        let secret = match self.in_file()? {
            Some(secret) => secret,
            None => self.new_in_file()?,
        };
        keys.push(SigningKey { place: KeyPlace::File, secret });
        Ok(keys)
    }

    fn in_keychain(&self) -> Result<Option<Secret>, FileReason> {
        self.in_keychain.borrow_mut().get_or_insert_with(|| self.ask_keychain()).clone()
    }

    fn ask_keychain(&self) -> Result<Option<Secret>, FileReason> {
        self.store.map_or(Ok(None), |store| store.keychain_value(SERVICE, ACCOUNT))
    }

    fn new_in_keychain(&self) -> Result<Option<Secret>, IntegrityError> {
        let Some(store) = self.store else { return Ok(None) };
        let _lock = FileLock::acquire(&self.file)?;
        // Another process may have created one while this one waited for the lock.
        let mut found = self.ask_keychain();
        if let Ok(None) = found {
            let key = new_key()?;
            found = Ok(store.set_keychain_value(SERVICE, ACCOUNT, &key).then_some(key));
        }
        *self.in_keychain.borrow_mut() = Some(found.clone());
        Ok(found.ok().flatten())
    }

    fn in_file(&self) -> Result<Option<Secret>, FileError> {
        let text = files::read_text(&self.file)?;
        Ok(text.map(|text| text.trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::new))
    }

    fn new_in_file(&self) -> Result<Secret, IntegrityError> {
        let _lock = FileLock::acquire(&self.file)?;
        if let Some(key) = self.in_file()? {
            return Ok(key);
        }
        let key = new_key()?;
        files::replace(&self.file, key.reveal().as_bytes(), Mode::Private)?;
        Ok(key)
    }
}

fn new_key() -> Result<Secret, IntegrityError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| IntegrityError::NoRandomness)?;
    Ok(Secret::new(hex::encode(&bytes)))
}
