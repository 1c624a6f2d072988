//! Proof that an extension is what was installed.
//!
//! Two registers. `extension_integrity.json` is upstream's: where an extension came from, hashed and signed.
//! `extension_content.json` is ours: what its files were. Both are signed with a secret that is in the keychain, or
//! in `integrity.key` where none works.

mod contents;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_config::groups::Secret;
use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use pollux_extend::extension::Metadata;
use pollux_net::credentials::CredentialStore;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

pub use contents::{Changes, Contents, Depth};

const REGISTER: &str = "extension_integrity.json";
const CONTENTS: &str = "extension_content.json";
const KEY_FILE: &str = "integrity.key";
/// Upstream's names.
const SERVICE: &str = "gemini-cli-extension-integrity";
const ACCOUNT: &str = "secret-key";

/// What the register says about an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Verified,
    /// It was installed by something that keeps no register.
    Unknown,
    /// Somebody else changed where it comes from, or the register itself.
    Invalid,
}

/// Why a register could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IntegrityError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` was changed by somebody else; remove it to start anew", file.display())]
    Tampered { file: PathBuf },
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// The registers of one home.
pub struct Integrity<'a> {
    folder: PathBuf,
    store: Option<&'a CredentialStore>,
    key: OnceCell<Secret>,
}

impl<'a> Integrity<'a> {
    /// Those in a `.gemini` folder; nothing is opened yet.
    pub fn new(folder: &Path, store: Option<&'a CredentialStore>) -> Self {
        Self { folder: folder.to_owned(), store, key: OnceCell::new() }
    }

    /// Whether an extension's metadata are those it was installed with.
    pub fn verify(&self, name: &str, metadata: &Metadata) -> Standing {
        let Ok(register) = self.read(REGISTER) else { return Standing::Invalid };
        let Some(entry) = register.get(name) else { return Standing::Unknown };
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let hash = hash(metadata);
        let signed = self.signature(&hash).is_ok_and(|signature| same(&signature, text("signature")));
        if same(&hash, text("hash")) && signed { Standing::Verified } else { Standing::Invalid }
    }

    /// Remembers an extension as it lies in a folder.
    pub fn record(&self, name: &str, metadata: &Metadata, folder: &Path) -> Result<(), IntegrityError> {
        let hash = hash(metadata);
        let entry = json!({"hash": hash, "signature": self.signature(&hash)?});
        self.change(REGISTER, name, Some(entry))?;
        self.change(CONTENTS, name, Some(Contents::of(folder).to_json()))
    }

    /// Forgets an extension.
    pub fn forget(&self, name: &str) -> Result<(), IntegrityError> {
        self.change(REGISTER, name, None)?;
        self.change(CONTENTS, name, None)
    }

    /// What an extension's files were when it was installed; `None` if nobody kept it.
    pub fn contents(&self, name: &str) -> Result<Option<Contents>, IntegrityError> {
        Ok(self.read(CONTENTS)?.get(name).and_then(Contents::read))
    }

    fn change(&self, register: &str, name: &str, entry: Option<Value>) -> Result<(), IntegrityError> {
        let file = self.folder.join(register);
        if entry.is_none() && !file.exists() {
            return Ok(());
        }
        let _lock = FileLock::acquire(&file)?;
        let mut store = self.read(register)?;
        match entry {
            Some(entry) => drop(store.insert(name.to_owned(), entry)),
            None if store.shift_remove(name).is_none() => return Ok(()),
            None => {}
        }
        let store = Value::Object(store);
        let signature = self.signature(&canonical(&store))?;
        let text = format!("{:#}", json!({"store": store, "signature": signature}));
        Ok(files::replace(&file, text.as_bytes(), Mode::Private)?)
    }

    /// A register whose signature is right; empty if there is none.
    fn read(&self, register: &str) -> Result<JsonObject, IntegrityError> {
        let file = self.folder.join(register);
        let Some(text) = files::read_text(&file)? else { return Ok(JsonObject::new()) };
        let parsed: Option<Value> = serde_json::from_str(&text).ok();
        let found =
            parsed.as_ref().and_then(|found| Some((found.get("store")?, found.get("signature")?.as_str()?)));
        match found {
            Some((Value::Object(store), signature))
                if same(&self.signature(&canonical(&Value::Object(store.clone())))?, signature) =>
            {
                Ok(store.clone())
            }
            _ => Err(IntegrityError::Tampered { file }),
        }
    }

    fn signature(&self, text: &str) -> Result<String, IntegrityError> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key()?.reveal().as_bytes());
        Ok(hex(hmac::sign(&key, text.as_bytes()).as_ref()))
    }

    fn key(&self) -> Result<&Secret, IntegrityError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = match self.key_in_keychain() {
            Some(key) => key,
            None => self.key_in_file()?,
        };
        Ok(self.key.get_or_init(|| key))
    }

    fn key_in_keychain(&self) -> Option<Secret> {
        let store = self.store?;
        match store.keychain_value(SERVICE, ACCOUNT)? {
            Some(key) => Some(key),
            None => {
                let key = new_key().ok()?;
                store.set_keychain_value(SERVICE, ACCOUNT, &key).then_some(key)
            }
        }
    }

    fn key_in_file(&self) -> Result<Secret, IntegrityError> {
        let file = self.folder.join(KEY_FILE);
        let stored = || -> Result<Option<Secret>, FileError> {
            let text = files::read_text(&file)?;
            Ok(text.map(|text| text.trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::new))
        };
        if let Some(key) = stored()? {
            return Ok(key);
        }
        let _lock = FileLock::acquire(&file)?;
        if let Some(key) = stored()? {
            return Ok(key);
        }
        let key = new_key()?;
        files::replace(&file, key.reveal().as_bytes(), Mode::Private)?;
        Ok(key)
    }
}

/// What the files of an extension were, for a look at the start of a run: no signature is checked.
pub fn recorded_contents(gemini_dir: &Path) -> Vec<(String, Contents)> {
    let text = files::read_text(&gemini_dir.join(CONTENTS)).ok().flatten().unwrap_or_default();
    let Ok(Value::Object(mut found)) = serde_json::from_str(&text) else { return Vec::new() };
    let Some(Value::Object(store)) = found.shift_remove("store") else { return Vec::new() };
    store.iter().filter_map(|(name, entry)| Some((name.clone(), Contents::read(entry)?))).collect()
}

fn new_key() -> Result<Secret, IntegrityError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| IntegrityError::NoRandomness)?;
    Ok(Secret::new(hex(&bytes)))
}

/// Upstream's hash of where an extension came from.
fn hash(metadata: &Metadata) -> String {
    sha256_hex(canonical(&Value::Object(metadata.to_json())).as_bytes())
}

/// JSON with sorted keys and nothing between.
fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort();
                keys.into_iter().filter_map(|key| Some((key.clone(), sorted(map.get(key)?)))).collect()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
    sorted(value).to_string()
}

/// Compares in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differing == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use pollux_extend::extension::Kind;

    use super::*;

    #[test]
    fn what_upstream_signed_is_verified() {
        let dir = tempfile::tempdir().unwrap();
        let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        files::replace(&dir.path().join(KEY_FILE), key.as_bytes(), Mode::Private).unwrap();
        let metadata = Metadata::new("/src/x", Kind::Local);
        // sha256 of {"source":"/src/x","type":"local"}, as upstream's stable stringify writes it.
        assert_eq!(hash(&metadata), sha256_hex(br#"{"source":"/src/x","type":"local"}"#));
        let integrity = Integrity::new(dir.path(), None);
        assert_eq!(integrity.verify("x", &metadata), Standing::Unknown);
        integrity.record("x", &metadata, dir.path()).unwrap();
        let register: Value =
            serde_json::from_str(&files::read_text(&dir.path().join(REGISTER)).unwrap().unwrap()).unwrap();
        let sign = |text: &str| {
            hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), text.as_bytes()).as_ref())
        };
        assert_eq!(register["store"]["x"]["signature"], sign(&hash(&metadata)));
        assert_eq!(register["signature"], sign(&canonical(&register["store"])));
        assert_eq!(Integrity::new(dir.path(), None).verify("x", &metadata), Standing::Verified);
    }

    #[test]
    fn a_changed_origin_or_register_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = Metadata::new("https://example.com/good", Kind::Git);
        let integrity = Integrity::new(dir.path(), None);
        integrity.record("x", &metadata, dir.path()).unwrap();
        let evil = Metadata::new("https://example.com/evil", Kind::Git);
        assert_eq!(integrity.verify("x", &evil), Standing::Invalid);
        let file = dir.path().join(REGISTER);
        let text = files::read_text(&file).unwrap().unwrap();
        files::replace(&file, text.replace("\"x\"", "\"y\"").as_bytes(), Mode::Private).unwrap();
        assert_eq!(integrity.verify("x", &metadata), Standing::Invalid);
        assert!(matches!(integrity.record("x", &metadata, dir.path()), Err(IntegrityError::Tampered { .. })));
        files::replace(&file, text.as_bytes(), Mode::Private).unwrap();
        integrity.forget("x").unwrap();
        assert_eq!(integrity.verify("x", &metadata), Standing::Unknown);
        assert!(integrity.contents("x").unwrap().is_none());
    }
}
