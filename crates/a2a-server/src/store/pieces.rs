//! Objects of a task that are named by their content, so that a turn writes only what changed: pieces of its session, and
//! blocks of its history.

use std::collections::HashSet;

use pollux_blobs::Condition;
use pollux_config::paths::sha256_hex;

use super::{TaskStore, key};
use crate::error::{A2aError, ErrorKind};
use crate::task::pieces::{MAX_DEPTH, SessionPieces};

/// A piece may grow beyond this only by one line.
const MAX_PIECE: usize = 256 * 1024;
/// The names of more pieces are stored as a list, in pieces as well.
const MAX_NAMES: usize = 16;
/// The largest session that is stored or put together.
const MAX_SESSION: usize = 1024 * 1024 * 1024;

/// What a piece is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    Session,
    History,
}

impl Folder {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::History => "history",
        }
    }
}

/// The pieces of a text. They end at lines whose content says so, about one of eight: what is added or removed elsewhere
/// moves no boundary.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        if sha256_hex(line).starts_with(['0', '1']) || end - start > MAX_PIECE {
            pieces.push(&bytes[start..end]);
            start = end;
        }
    }
    if start < end {
        pieces.push(&bytes[start..]);
    }
    pieces
}

/// What a piece is called.
fn digest(piece: &[u8]) -> String {
    sha256_hex(piece).chars().take(32).collect()
}

fn path(task: &str, folder: Folder, piece: &str) -> String {
    format!("tasks/{task}/{}/{piece}", folder.name())
}

impl TaskStore {
    /// Writes a piece; gives its name.
    pub(super) async fn save_piece(
        &self,
        task: &str,
        folder: Folder,
        piece: &[u8],
    ) -> Result<String, A2aError> {
        let name = digest(piece);
        self.blobs.put(&key(&path(task, folder, &name))?, piece, Condition::Any).await?;
        Ok(name)
    }

    /// Reads a piece; `None` if it is missing or damaged.
    pub(super) async fn load_piece(
        &self,
        task: &str,
        folder: Folder,
        name: &str,
    ) -> Result<Option<Vec<u8>>, A2aError> {
        let found = self.blobs.get(&key(&path(task, folder, name))?).await?;
        Ok(found.map(|found| found.bytes).filter(|bytes| digest(bytes) == name))
    }

    /// Deletes pieces that no record names any more.
    pub(super) async fn remove_pieces(
        &self,
        task: &str,
        folder: Folder,
        pieces: impl Iterator<Item = &String>,
    ) -> Result<(), A2aError> {
        for piece in pieces {
            self.blobs.delete(&key(&path(task, folder, piece))?, Condition::Any).await?;
        }
        Ok(())
    }

    /// Writes the pieces of a session that are not among the `known` ones; gives all of them.
    pub(crate) async fn save_session(
        &self,
        task: &str,
        bytes: &[u8],
        known: &HashSet<String>,
    ) -> Result<SessionPieces, A2aError> {
        if bytes.len() > MAX_SESSION {
            return Err(too_large());
        }
        let mut objects = HashSet::new();
        let (mut names, mut depth) = (Vec::new(), 0);
        self.save_pieces(task, split(bytes), known, &mut names, &mut objects).await?;
        while names.len() > MAX_NAMES && depth < MAX_DEPTH {
            let list: String = names.drain(..).map(|name| name + "\n").collect();
            let pieces = split(list.as_bytes());
            self.save_pieces(task, pieces, known, &mut names, &mut objects).await?;
            depth += 1;
        }
        Ok(SessionPieces::new(names, depth, objects))
    }

    async fn save_pieces(
        &self,
        task: &str,
        pieces: Vec<&[u8]>,
        known: &HashSet<String>,
        names: &mut Vec<String>,
        objects: &mut HashSet<String>,
    ) -> Result<(), A2aError> {
        for piece in pieces {
            let name = digest(piece);
            if objects.insert(name.clone()) && !known.contains(&name) {
                self.save_piece(task, Folder::Session, piece).await?;
            }
            names.push(name);
        }
        Ok(())
    }

    /// Puts a session together again; gives it with the names of all its objects.
    pub(crate) async fn load_session(
        &self,
        task: &str,
        pieces: &SessionPieces,
    ) -> Result<(Vec<u8>, HashSet<String>), A2aError> {
        let (names, objects) = self.read_lists(task, pieces).await?;
        Ok((self.join_pieces(task, &names, MAX_SESSION).await?, objects))
    }

    /// All objects of a session.
    pub(crate) async fn session_objects(
        &self,
        task: &str,
        pieces: &SessionPieces,
    ) -> Result<HashSet<String>, A2aError> {
        match pieces.objects() {
            Some(known) => Ok(known),
            None => Ok(self.read_lists(task, pieces).await?.1),
        }
    }

    /// The names of a session's pieces, and those of all its objects.
    async fn read_lists(
        &self,
        task: &str,
        pieces: &SessionPieces,
    ) -> Result<(Vec<String>, HashSet<String>), A2aError> {
        let mut names = pieces.names.clone();
        let mut objects: HashSet<String> = names.iter().cloned().collect();
        for _ in 0..pieces.depth {
            let list = self.join_pieces(task, &names, MAX_SESSION).await?;
            let list = String::from_utf8(list).map_err(|_| damaged())?;
            names = list.lines().map(str::to_owned).collect();
            objects.extend(names.iter().cloned());
        }
        Ok((names, objects))
    }

    /// A few names of one piece can stand for any size, so the total is limited.
    async fn join_pieces(&self, task: &str, names: &[String], limit: usize) -> Result<Vec<u8>, A2aError> {
        let mut bytes = Vec::new();
        for name in names {
            let piece = self.load_piece(task, Folder::Session, name).await?.ok_or_else(damaged)?;
            if piece.len() > limit - bytes.len() {
                return Err(too_large());
            }
            bytes.extend(piece);
        }
        Ok(bytes)
    }

    /// Deletes pieces of a session that no record names any more.
    pub(crate) async fn remove_session_pieces(
        &self,
        task: &str,
        pieces: impl Iterator<Item = &String>,
    ) -> Result<(), A2aError> {
        self.remove_pieces(task, Folder::Session, pieces).await
    }
}

fn too_large() -> A2aError {
    A2aError::new(ErrorKind::Internal, "the session is larger than 1 GiB")
}

fn damaged() -> A2aError {
    A2aError::new(ErrorKind::Internal, "the stored session is damaged")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pollux_blobs::MemoryBlobs;

    use super::*;

    fn lines(range: std::ops::Range<usize>) -> String {
        range.map(|number| format!("{{\"message\": {number}}}\n")).collect()
    }

    #[test]
    fn a_change_at_both_ends_leaves_the_pieces_between_as_they_are() {
        let one = format!("first\n{}end", lines(0..400));
        let other = format!("another beginning\nwith more\n{}last", lines(0..410));
        let (before, after) = (split(one.as_bytes()), split(other.as_bytes()));
        assert_eq!((before.concat(), after.concat()), (one.clone().into_bytes(), other.clone().into_bytes()));
        assert!(before.len() > 20, "{}", before.len());
        let changed = after.iter().filter(|piece| !before.contains(piece)).count();
        assert!(changed <= 6, "{changed} of {}", after.len());
        assert!(split(b"").is_empty());
    }

    #[test]
    fn a_piece_is_never_much_larger_than_its_limit() {
        let line = format!("{}\n", "x".repeat(MAX_PIECE / 3));
        let all = line.repeat(20);
        assert!(split(all.as_bytes()).iter().all(|piece| piece.len() <= MAX_PIECE + line.len()));
    }

    fn store() -> TaskStore {
        TaskStore {
            blobs: Arc::new(MemoryBlobs::new()),
            replica: "a".into(),
            is_shared: true,
            sole_owner: None,
        }
    }

    #[tokio::test]
    async fn one_piece_that_is_named_often_does_not_fill_the_memory() {
        let store = store();
        let name = store.save_piece("t", Folder::Session, &[b'x'; 100]).await.unwrap();
        let names = vec![name; 10];
        assert_eq!(store.join_pieces("t", &names, 1_000).await.unwrap().len(), 1_000);
        let error = store.join_pieces("t", &names, 999).await.unwrap_err();
        assert!(error.to_string().contains("1 GiB"), "{error}");
    }

    #[tokio::test]
    async fn a_record_names_few_objects_however_long_the_session_is() {
        let store = store();
        let (mut known, mut depths) = (HashSet::new(), Vec::new());
        for count in [0, 20, 400, 5_000] {
            let text = lines(0..count);
            let saved = store.save_session("t", text.as_bytes(), &known).await.unwrap();
            assert!(saved.names.len() <= MAX_NAMES, "{count}: {}", saved.names.len());
            known = saved.objects().unwrap();
            let mut fields = serde_json::Map::new();
            saved.write(&mut fields);
            let read = SessionPieces::read(&fields.into());
            assert_eq!(read, saved);
            let (bytes, objects) = store.load_session("t", &read).await.unwrap();
            assert_eq!((bytes, &objects), (text.into_bytes(), &known), "{count}");
            assert_eq!(store.session_objects("t", &read).await.unwrap(), known, "{count}");
            depths.push(saved.depth);
        }
        assert_eq!(depths[..2], [0, 0], "short sessions are stored as before");
        assert!(depths[2] == 1 && depths[3] == 2, "{depths:?}");
    }
}
