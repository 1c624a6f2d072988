//! Integrity checks: proves that an extension is unchanged since its installation.
//!
//! There are two registers. `extension_integrity.json` is upstream's: the source of an extension, hashed and
//! signed. `extension_content.json` is ours: the hashes of its files. Both are signed with every available key:
//! one in the keychain, one in `integrity.key`. Each signature names its key, so that a register written on a
//! desktop can be verified over ssh, where the keychain is missing, and the other way round.

mod contents;
mod keys;

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use pollux_extend::extension::Metadata;
use pollux_net::credentials::CredentialStore;
use serde_json::{Value, json};

pub use contents::{Changes, Contents, Depth};
use keys::{KeyPlace, Keys};

const REGISTER: &str = "extension_integrity.json";
/// The register of files.
pub const CONTENTS: &str = "extension_content.json";

/// The integrity status of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntegrityState {
    Verified,
    /// It was installed by a program that keeps no register.
    Unknown,
    /// Its source, or the register itself, was tampered with.
    Invalid,
    /// The key that signed the register is unavailable, for this reason.
    Unchecked(String),
}

/// Why a register could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IntegrityError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` failed its integrity check; delete it to reset", file.display())]
    Tampered { file: PathBuf },
    #[error("`{}` is damaged", file.display())]
    Damaged { file: PathBuf },
    #[error("could not verify `{}`: {reason}", file.display())]
    KeyUnreached { file: PathBuf, reason: String },
    #[error("the system's random number generator failed")]
    NoRandomness,
}

impl IntegrityError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::KeyUnreached { .. } => {
                Some("try again with access to the keychain, or delete the file to reset it")
            }
            Self::File(_)
            | Self::Lock(_)
            | Self::Tampered { .. }
            | Self::Damaged { .. }
            | Self::NoRandomness => None,
        }
    }
}

/// The registers of one home.
pub struct Integrity<'a> {
    folder: PathBuf,
    keys: Keys<'a>,
}

impl<'a> Integrity<'a> {
    /// Those in a `.gemini` folder; nothing is opened yet.
    pub fn new(folder: &Path, store: Option<&'a CredentialStore>) -> Self {
        Self { folder: folder.to_owned(), keys: Keys::new(folder, store) }
    }

    /// Whether an extension's metadata are those it was installed with.
    pub fn verify(&self, name: &str, metadata: &Metadata) -> IntegrityState {
        let register = match self.read(REGISTER) {
            Ok(register) => register,
            Err(error @ IntegrityError::KeyUnreached { .. }) => {
                return IntegrityState::Unchecked(error.to_string());
            }
            Err(_) => return IntegrityState::Invalid,
        };
        let Some(entry) = register.get(name) else { return IntegrityState::Unknown };
        // Its own signature is upstream's; the signature of the complete register, checked above, covers it.
        let recorded = entry.get("hash").and_then(Value::as_str).unwrap_or_default();
        if same(&hash(metadata), recorded) { IntegrityState::Verified } else { IntegrityState::Invalid }
    }

    /// Whether both registers can be written to: something that cannot be recorded is better not installed.
    pub fn check(&self) -> Result<(), IntegrityError> {
        self.read(REGISTER)?;
        self.read(CONTENTS).map(drop)
    }

    /// Records an extension with the files in a folder.
    pub fn record(&self, name: &str, metadata: &Metadata, folder: &Path) -> Result<(), IntegrityError> {
        self.change(REGISTER, name, Some(json!({"hash": hash(metadata)})))?;
        self.change(CONTENTS, name, Some(Contents::of(folder).to_json()))
    }

    /// Forgets an extension.
    pub fn forget(&self, name: &str) -> Result<(), IntegrityError> {
        self.change(REGISTER, name, None)?;
        self.change(CONTENTS, name, None)
    }

    /// The files of an extension at its installation; `None` if they were not recorded.
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
        let keys = self.keys.to_sign_with()?;
        let Some(first) = keys.first() else { return Err(IntegrityError::NoRandomness) };
        if register == REGISTER {
            // Upstream checks each entry with the key that it finds first, as we do.
            for entry in store.values_mut().filter_map(Value::as_object_mut) {
                let hash = entry.get("hash").and_then(Value::as_str).unwrap_or_default().to_owned();
                entry.insert("signature".to_owned(), Value::from(first.sign(&hash)));
            }
        }
        let store = Value::Object(store);
        let text = canonical(&store);
        let signatures: Vec<Value> = keys
            .iter()
            .map(|key| json!({"key": key.place.word(), "id": key.id(), "signature": key.sign(&text)}))
            .collect();
        let text = format!(
            "{:#}",
            json!({"store": store, "signature": first.sign(&text), "signatures": signatures})
        );
        Ok(files::replace(&file, text.as_bytes(), Mode::Private)?)
    }

    /// A register with valid signatures; empty if it does not exist.
    fn read(&self, register: &str) -> Result<JsonObject, IntegrityError> {
        let file = self.folder.join(register);
        let Some(text) = files::read_text(&file)? else { return Ok(JsonObject::new()) };
        let mut parsed: JsonObject = serde_json::from_str(&text).unwrap_or_default();
        let Some(Value::Object(store)) = parsed.shift_remove("store") else {
            return Err(IntegrityError::Tampered { file });
        };
        let store = Value::Object(store);
        match self.judge(&canonical(&store), &parsed)? {
            Verdict::Right => Ok(store.as_object().cloned().unwrap_or_default()),
            Verdict::Wrong => Err(IntegrityError::Tampered { file }),
            Verdict::Unreached(reason) => Err(IntegrityError::KeyUnreached { file, reason }),
        }
    }

    /// Every signature whose key is available must be valid, and at least one must be available.
    fn judge(&self, text: &str, register: &JsonObject) -> Result<Verdict, IntegrityError> {
        let signatures: Vec<Signature<'_>> = register
            .get("signatures")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Signature::read)
            .collect();
        if signatures.is_empty() {
            return self.judge_unmarked(text, register.get("signature").and_then(Value::as_str));
        }
        let mut verdict = None;
        let mut reasons = Vec::new();
        for signature in &signatures {
            match self.keys.find(signature.place)? {
                Ok(Some(key)) if key.id() == signature.key_id => {
                    if !same(&key.sign(text), signature.text) {
                        return Ok(Verdict::Wrong);
                    }
                    verdict = Some(Verdict::Right);
                }
                Ok(_) => reasons.push(format!("the key that signed it is no longer in {}", signature.place)),
                Err(reason) => {
                    reasons.push(format!("the key that signed it is in {}: {reason}", signature.place));
                }
            }
        }
        Ok(verdict.unwrap_or(Verdict::Unreached(reasons.join("; "))))
    }

    /// For a register by upstream or by an earlier release, which does not name its key.
    fn judge_unmarked(&self, text: &str, signature: Option<&str>) -> Result<Verdict, IntegrityError> {
        let Some(signature) = signature else { return Ok(Verdict::Wrong) };
        let mut missing = None;
        for place in [KeyPlace::File, KeyPlace::Keychain] {
            match self.keys.find(place)? {
                Ok(Some(key)) if same(&key.sign(text), signature) => return Ok(Verdict::Right),
                Ok(_) => {}
                Err(reason) => {
                    missing = Some(format!("it may have been signed with a key in {place}: {reason}"));
                }
            }
        }
        Ok(missing.map_or(Verdict::Wrong, Verdict::Unreached))
    }
}

/// The result of verifying the signatures of a register.
enum Verdict {
    Right,
    Wrong,
    /// No key is available, for this reason.
    Unreached(String),
}

/// One signature of a register.
struct Signature<'a> {
    place: KeyPlace,
    key_id: &'a str,
    text: &'a str,
}

impl<'a> Signature<'a> {
    fn read(entry: &'a Value) -> Option<Self> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        Some(Self {
            place: KeyPlace::from_word(text("key")?)?,
            key_id: text("id")?,
            text: text("signature")?,
        })
    }
}

/// The recorded files of all extensions, for a quick check at start-up: signatures are not verified. An entry that cannot
/// be understood is `None`.
pub fn recorded_contents(gemini_dir: &Path) -> Result<Vec<(String, Option<Contents>)>, IntegrityError> {
    let file = gemini_dir.join(CONTENTS);
    let Some(text) = files::read_text(&file)? else { return Ok(Vec::new()) };
    let mut parsed: JsonObject = serde_json::from_str(&text).unwrap_or_default();
    let Some(Value::Object(store)) = parsed.shift_remove("store") else {
        return Err(IntegrityError::Damaged { file });
    };
    Ok(store.into_iter().map(|(name, entry)| (name, Contents::read(&entry))).collect())
}

/// Upstream's hash of an extension's source.
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

#[cfg(test)]
mod tests;
