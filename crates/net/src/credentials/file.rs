//! An encrypted file, read whole and replaced whole under a lock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pollux_config::files::{self, FileLock, Mode};
use pollux_domain::JsonObject;

use super::CredentialError;
use crate::random;
use crate::sealed::{self, SealKey};

/// Host and user, and the key that is made of them when it is first needed.
pub(super) struct Owner {
    pub(super) host: String,
    pub(super) user: String,
    pub(super) key: OnceLock<Option<SealKey>>,
}

impl Owner {
    pub(super) fn new(host: String, user: String) -> Self {
        Self { host, user, key: OnceLock::new() }
    }

    fn key(&self, path: &Path) -> Result<&SealKey, CredentialError> {
        let key = self.key.get_or_init(|| SealKey::derive(&self.host, &self.user));
        key.as_ref().ok_or_else(|| CredentialError::Key { path: path.to_owned() })
    }
}

/// An encrypted file that contains a JSON object.
pub(super) struct EncryptedFile {
    path: PathBuf,
    owner: Arc<Owner>,
}

impl EncryptedFile {
    pub(super) fn new(path: PathBuf, owner: Arc<Owner>) -> Self {
        Self { path, owner }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The object, empty if the file is missing. A file that cannot be decrypted is an error and is kept.
    pub(super) fn read(&self) -> Result<JsonObject, CredentialError> {
        let text = match files::read_text(&self.path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(JsonObject::new()),
            Err(files::FileError::NotUtf8 { path }) => return Err(CredentialError::Corrupted { path }),
            Err(error) => return Err(error.into()),
        };
        let corrupted = || CredentialError::Corrupted { path: self.path.clone() };
        let plain = sealed::open(&text, self.owner.key(&self.path)?).ok_or_else(corrupted)?;
        serde_json::from_slice(&plain).map_err(|_| corrupted())
    }

    /// Changes the object; `change` returns whether it did. An empty file is deleted.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut JsonObject) -> bool,
    ) -> Result<bool, CredentialError> {
        let _lock = FileLock::acquire(&self.path)?;
        let mut entries = self.read()?;
        if !change(&mut entries) {
            return Ok(false);
        }
        if entries.is_empty() {
            remove(&self.path)?;
        } else {
            self.write(&entries)?;
        }
        Ok(true)
    }

    fn write(&self, entries: &JsonObject) -> Result<(), CredentialError> {
        let failed = || CredentialError::Key { path: self.path.clone() };
        // Two spaces, as upstream writes it.
        let plain = serde_json::to_vec_pretty(entries).map_err(|_| failed())?;
        let iv = random::bytes().map_err(|_| failed())?;
        let text = sealed::seal(&plain, self.owner.key(&self.path)?, iv).ok_or_else(failed)?;
        restrict(&self.path);
        files::replace(&self.path, text.as_bytes(), Mode::Private)?;
        restrict(&self.path);
        if self.read()? == *entries {
            Ok(())
        } else {
            Err(CredentialError::NotVerified { place: self.path.display().to_string() })
        }
    }
}

pub(super) fn remove(path: &Path) -> Result<(), CredentialError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(files::FileError::Write { path: path.to_owned(), source }.into()),
    }
}

/// Restricts the file (0600) and its folder (0700) to the user.
#[cfg(unix)]
pub(super) fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for (place, mode) in [(Some(path), 0o600), (path.parent(), 0o700)] {
        let Some(place) = place else { continue };
        let Ok(meta) = std::fs::metadata(place) else { continue };
        if meta.permissions().mode() & 0o077 != 0 {
            // A folder of another user stays unchanged; the file is encrypted anyway.
            let _ = std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode));
        }
    }
}

#[cfg(not(unix))]
pub(super) fn restrict(_path: &Path) {}
