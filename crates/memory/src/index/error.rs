//! Errors of the index.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::lock::OwnedLockError;
use crate::state::StateError;

/// Why the index could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Lock(#[from] OwnedLockError),
    #[error("`{}` is not writable: {source}", path.display())]
    ReadOnly { path: PathBuf, source: rusqlite::Error },
    #[error("no space left for `{}`: {source}", path.display())]
    Full { path: PathBuf, source: rusqlite::Error },
    #[error("`{}` is damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("could not use the index `{}`: {source}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("could not write `{}`: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("a memory task ended unexpectedly")]
    Ended,
}

impl IndexError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::State(error) => error.hint(),
            Self::Lock(error) => error.hint(),
            Self::ReadOnly { .. } | Self::File { .. } => {
                Some("make the folder writable, or set GIMLI_STATE_DIR to another one")
            }
            Self::Full { .. } => Some("free some disk space; the existing index is intact"),
            Self::Damaged { .. } => {
                Some("run `pollux memory index --force` to build a new one; the old one is kept")
            }
            Self::Database { .. } | Self::Ended => None,
        }
    }

    /// Whether the file itself is at fault, rather than the disk or another process.
    pub(crate) fn is_unsound(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Database { source, .. } => !matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::OperationInterrupted
                        | ErrorCode::OutOfMemory
                        | ErrorCode::SystemIoFailure
                )
            ),
            Self::State(_)
            | Self::Lock(_)
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::File { .. }
            | Self::Ended => false,
        }
    }

    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path, source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, source },
            _ => Self::Database { path, source },
        }
    }
}
