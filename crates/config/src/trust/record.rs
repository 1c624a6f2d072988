//! Trust records: the content of a folder when it was trusted, one file per folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::inventory::{Inventory, Item};
use crate::files::{self, FileError, FileLock, LockError, Mode};
use crate::paths::{Home, sha256_hex};

/// The content of a folder when it was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The folder, links resolved.
    pub folder: String,
    pub digest: String,
    /// When, as `2026-01-27T15:22:34.666Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    pub items: BTreeMap<String, Kept>,
}

/// One piece of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub hash: String,
    /// Without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A changed item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    /// `None` for a new one.
    pub before: Option<Kept>,
    /// `None` for one that is gone.
    pub after: Option<Kept>,
}

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("invalid trust record `{}`: {source}", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("trust record `{}` belongs to another folder", path.display())]
    Foreign { path: PathBuf },
    #[error("could not remove `{}`: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Record {
    /// The record of a folder, if there is one.
    pub fn read(home: &Home, folder: &Path) -> Result<Option<Self>, RecordError> {
        let folder = super::real(folder);
        let path = file(home, &folder);
        let Some(text) = files::read_text(&path)? else { return Ok(None) };
        let record: Self = match serde_json::from_str(&text) {
            Ok(record) => record,
            Err(source) => return Err(RecordError::Malformed { path, source }),
        };
        if record.folder == folder.to_string_lossy() {
            Ok(Some(record))
        } else {
            Err(RecordError::Foreign { path })
        }
    }

    /// Remembers what a folder contains.
    pub fn write(home: &Home, inventory: &Inventory, now: Option<Timestamp>) -> Result<(), RecordError> {
        let record = Self {
            folder: inventory.root.to_string_lossy().into_owned(),
            digest: inventory.digest.clone(),
            time: now.map(Timestamp::to_iso),
            items: inventory.items.iter().map(|item| (item.path.clone(), Kept::from(item))).collect(),
        };
        let path = file(home, &inventory.root);
        let text = serde_json::to_string_pretty(&record)
            .map_err(|source| RecordError::Malformed { path: path.clone(), source })?;
        let _lock = FileLock::acquire(&path)?;
        Ok(files::replace(&path, text.as_bytes(), Mode::Private)?)
    }

    /// Removes the record of a folder.
    pub fn forget(home: &Home, folder: &Path) -> Result<(), RecordError> {
        let path = file(home, &super::real(folder));
        if !path.exists() {
            return Ok(());
        }
        let _lock = FileLock::acquire(&path)?;
        fs::remove_file(&path).map_err(|source| RecordError::Remove { path, source })
    }

    /// How a folder differs from what it was, in order of the paths.
    pub fn changes(&self, inventory: &Inventory) -> Vec<Change> {
        let mut changes: BTreeMap<&str, Change> = BTreeMap::new();
        for (path, kept) in &self.items {
            let change = Change { path: path.clone(), before: Some(kept.clone()), after: None };
            changes.insert(path, change);
        }
        for item in &inventory.items {
            match changes.get_mut(item.path.as_str()) {
                Some(change) if change.before.as_ref().is_some_and(|kept| kept.hash == item.hash) => {
                    changes.remove(item.path.as_str());
                }
                Some(change) => change.after = Some(Kept::from(item)),
                None => {
                    let after = Some(Kept::from(item));
                    changes.insert(&item.path, Change { path: item.path.clone(), before: None, after });
                }
            }
        }
        changes.into_values().collect()
    }
}

impl From<&Item> for Kept {
    fn from(item: &Item) -> Self {
        Self { hash: item.hash.clone(), text: item.text.clone() }
    }
}

/// Where the record of a folder is; the folder's links are resolved.
fn file(home: &Home, folder: &Path) -> PathBuf {
    let name = sha256_hex(folder.as_os_str().as_encoded_bytes());
    home.trusted_content_dir().join(format!("{name}.json"))
}
