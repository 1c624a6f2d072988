//! The session of a task in pieces that are named by their content, so that a turn writes only what changed.

use std::collections::HashSet;

use pollux_blobs::Condition;
use pollux_config::paths::sha256_hex;

use super::{TaskStore, key};
use crate::error::{A2aError, ErrorKind};

/// A piece may grow beyond this only by one line.
const MAX_PIECE: usize = 256 * 1024;

/// The pieces of a session file. They end at lines whose content says so, about one of eight: what is added or removed
/// elsewhere moves no boundary.
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

fn name(task: &str, piece: &str) -> String {
    format!("tasks/{task}/session/{piece}")
}

impl TaskStore {
    /// Writes the pieces of a session that are not among the `known` ones; gives the names of all.
    pub(crate) async fn save_session(
        &self,
        task: &str,
        bytes: &[u8],
        known: &[String],
    ) -> Result<Vec<String>, A2aError> {
        let mut stored: HashSet<String> = known.iter().cloned().collect();
        let mut names = Vec::new();
        for piece in split(bytes) {
            let digest = digest(piece);
            if stored.insert(digest.clone()) {
                self.blobs.put(&key(&name(task, &digest))?, piece, Condition::Any).await?;
            }
            names.push(digest);
        }
        Ok(names)
    }

    /// Puts a session together again.
    pub(crate) async fn load_session(&self, task: &str, pieces: &[String]) -> Result<Vec<u8>, A2aError> {
        let mut bytes = Vec::new();
        for piece in pieces {
            let found = self.blobs.get(&key(&name(task, piece))?).await?;
            let found = found.filter(|found| digest(&found.bytes) == *piece);
            let damaged = || A2aError::new(ErrorKind::Internal, "the stored session is damaged");
            bytes.extend(found.ok_or_else(damaged)?.bytes);
        }
        Ok(bytes)
    }

    /// Deletes pieces that no record names any more.
    pub(crate) async fn remove_pieces(
        &self,
        task: &str,
        pieces: impl Iterator<Item = &String>,
    ) -> Result<(), A2aError> {
        for piece in pieces {
            self.blobs.delete(&key(&name(task, piece))?, Condition::Any).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
}
