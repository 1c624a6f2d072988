//! Credentials that gemini-cli stored in its encrypted files. Read only; nothing is ever changed here.
//!
//! The files are encrypted under a key made of public values (host and user name), which hides them from
//! a casual look and no more; the format is upstream's.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Key, Nonce};
use pollux_config::groups::Secret;
use serde_json::Value;

const FILE: &str = "gemini-credentials.json";
const OLDER_FILE: &str = "mcp-oauth-tokens-v2.json";
const API_KEY_SERVICE: &str = "gemini-cli-api-key";
const API_KEY_ACCOUNT: &str = "default-api-key";
const PASSWORD: &[u8] = b"gemini-cli-oauth";
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Why a stored key could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("could not read the credentials file `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    // Upstream's text.
    #[error(
        "Corrupted credentials file detected at: {}\nPlease delete or rename this file to resolve the issue.",
        path.display()
    )]
    Corrupted { path: PathBuf },
    #[error("could not derive the key for the credentials file `{}`", path.display())]
    Key { path: PathBuf },
}

/// The API key that gemini-cli stored for this user on this machine, if there is one.
///
/// Costs about 50 ms when a file exists, because its key is slow to derive on purpose.
pub fn stored_api_key(gemini_dir: &Path, host: &str, user: &str) -> Result<Option<Secret>, CredentialError> {
    let newer = gemini_dir.join(FILE);
    if let Some(entries) = decrypted(&newer, host, user)? {
        let entry = entries.get(API_KEY_SERVICE).and_then(|service| service.get(API_KEY_ACCOUNT));
        if let Some(key) = entry.and_then(access_token) {
            return Ok(Some(key));
        }
    }
    let older = decrypted(&gemini_dir.join(OLDER_FILE), host, user)?;
    Ok(older.as_ref().and_then(|entries| entries.get(API_KEY_ACCOUNT)).and_then(access_token))
}

/// An entry is an object, or the same object as text.
fn access_token(entry: &Value) -> Option<Secret> {
    let parsed;
    let credentials = match entry {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).ok()?;
            &parsed
        }
        other => other,
    };
    let key = credentials.get("token")?.get("accessToken")?.as_str()?.trim();
    (!key.is_empty()).then(|| Secret::new(key))
}

fn decrypted(path: &Path, host: &str, user: &str) -> Result<Option<Value>, CredentialError> {
    let Some(text) = read_bounded(path)? else { return Ok(None) };
    let corrupted = || CredentialError::Corrupted { path: path.to_owned() };
    let sealed = Sealed::parse(&text).ok_or_else(corrupted)?;
    let key = derive_key(host, user).ok_or_else(|| CredentialError::Key { path: path.to_owned() })?;
    let plain = sealed.open(&key).ok_or_else(corrupted)?;
    serde_json::from_slice(&plain).map(Some).map_err(|_| corrupted())
}

fn read_bounded(path: &Path) -> Result<Option<String>, CredentialError> {
    let unreadable = |source| CredentialError::Unreadable { path: path.to_owned(), source };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    // A cut or foreign file cannot be opened either; the caller says so.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// `<iv>:<tag>:<ciphertext>`, each in hex.
struct Sealed {
    iv: Vec<u8>,
    /// Ciphertext followed by the tag, as the cipher wants it.
    sealed: Vec<u8>,
}

impl Sealed {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split(':');
        let (iv, tag, cipher) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        let tag = unhex(tag).filter(|tag| tag.len() == 16)?;
        let mut sealed = unhex(cipher)?;
        sealed.extend(tag);
        Some(Self { iv: unhex(iv)?, sealed })
    }

    /// Writers use 12 bytes today and used 16 before.
    fn open(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let key = Key::<AesGcm<Aes256, U12>>::from(*key);
        if let Ok(iv) = <[u8; 12]>::try_from(self.iv.as_slice()) {
            return AesGcm::<Aes256, U12>::new(&key).decrypt(&Nonce::from(iv), self.sealed.as_slice()).ok();
        }
        let iv = <[u8; 16]>::try_from(self.iv.as_slice()).ok()?;
        AesGcm::<Aes256, U16>::new(&key).decrypt(&Nonce::from(iv), self.sealed.as_slice()).ok()
    }
}

/// N = 16384, r = 8, p = 1: the defaults of Node's scrypt, which upstream uses.
fn derive_key(host: &str, user: &str) -> Option<[u8; 32]> {
    let salt = format!("{host}-{user}-gemini-cli");
    let params = scrypt::Params::new(14, 8, 1).ok()?;
    let mut key = [0u8; 32];
    scrypt::scrypt(PASSWORD, salt.as_bytes(), &params, &mut key).ok()?;
    Some(key)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    bytes
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Both files were made by Node's crypto for host `build-host` and user `alice`.
    const NEWER: &str = include_str!("../tests/fixtures/gemini-credentials.json");
    const OLDER: &str = include_str!("../tests/fixtures/mcp-oauth-tokens-v2.json");

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            io::Write::write_all(&mut fs::File::create(folder.path().join(name)).unwrap(), text.as_bytes())
                .unwrap();
        }
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Result<Option<String>, CredentialError> {
        let key = stored_api_key(folder.path(), "build-host", "alice")?;
        Ok(key.map(|key| key.reveal().to_owned()))
    }

    #[test]
    fn a_key_stored_by_upstream_is_found_in_either_file() {
        assert_eq!(read(&folder(&[(FILE, NEWER)])).unwrap().as_deref(), Some("stored-key-1"));
        assert_eq!(read(&folder(&[(OLDER_FILE, OLDER)])).unwrap().as_deref(), Some("older-key-2"));
        assert_eq!(
            read(&folder(&[(FILE, NEWER), (OLDER_FILE, "garbage")])).unwrap().as_deref(),
            Some("stored-key-1")
        );
        assert_eq!(read(&folder(&[])).unwrap(), None);
    }

    #[test]
    fn a_file_of_another_machine_is_reported_and_left_alone() {
        let folder = folder(&[(FILE, NEWER)]);
        let path = folder.path().join(FILE);
        let error = stored_api_key(folder.path(), "other-host", "alice").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "Corrupted credentials file detected at: {}\n\
                 Please delete or rename this file to resolve the issue.",
                path.display()
            )
        );
        assert_eq!(fs::read_to_string(path).unwrap(), NEWER);
    }

    #[test]
    fn hostile_files_are_errors_and_not_panics() {
        for text in ["", ":", "zz:zz:zz", "07:07:07", "a:b:c:d", "070707070707070707070707::", "é:é:é"] {
            let result = read(&folder(&[(FILE, text)]));
            assert!(matches!(result, Err(CredentialError::Corrupted { .. })), "{text:?}");
        }
    }
}
