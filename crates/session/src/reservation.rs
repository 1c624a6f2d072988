//! Reserves the id of a new session, so that parallel runs do not record two sessions under one id.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};
use pollux_config::paths::sha256_hex;
use pollux_domain::id::SessionId;

use crate::listing::exists;
use crate::lock::{Lock, LockError};

/// While held, no other process starts a session with this id in this project. Needed only for an id that was not made
/// at random.
#[derive(Debug)]
pub struct IdReservation {
    /// `None` if the folder cannot be written to. Then no other session appears there either.
    _lock: Option<Lock>,
}

impl IdReservation {
    /// Reserves an id in the folder of new sessions. `None` if a session in one of `dirs` has it, or if another process
    /// has reserved it.
    pub fn take(chats: &Path, dirs: &[PathBuf], id: &SessionId) -> Option<Self> {
        // A failure shows below.
        let _ = files::create_folder(chats, Mode::Private);
        // Ids may contain anything, so the hash is the name.
        let name = format!("id-{}", sha256_hex(id.as_str().as_bytes()));
        let lock = match Lock::take(&chats.join(name)) {
            Ok(lock) => Some(lock),
            Err(LockError::Held(_)) => return None,
            Err(LockError::Io(_)) => None,
        };
        // Under the lock: a session of this id either has its file by now or gets none.
        (!exists(dirs, id)).then_some(Self { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;

    use super::*;

    #[test]
    fn an_id_is_reserved_by_one_process_at_a_time_and_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let chats = dir.path().join("chats");
        let id = SessionId::from_file("a/b");
        let reserve = |id: &SessionId| IdReservation::take(&chats, std::slice::from_ref(&chats), id);
        let held = reserve(&id).unwrap();
        assert!(reserve(&id).is_none(), "before the session has a file");
        assert!(reserve(&SessionId::from_file("a_b")).is_some(), "another id");
        drop(held);
        assert_eq!(fs::read_dir(&chats).unwrap().count(), 0, "nothing is left");
        assert!(reserve(&id).is_some());
        fs::write(chats.join("session-1.json"), r#"{"sessionId":"a/b","messages":[]}"#).unwrap();
        assert!(reserve(&id).is_none(), "a session has the id");
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_refuses_no_id() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("chats"), "not a folder").unwrap();
        let chats = dir.path().join("chats");
        assert!(
            IdReservation::take(&chats, std::slice::from_ref(&chats), &SessionId::from_file("a")).is_some()
        );
    }
}
