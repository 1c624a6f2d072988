//! Conversations saved under a name (`/chat save`), in upstream's format.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, MAX_SESSION_BYTES, Mode};
use pollux_domain::content::Content;
use pollux_domain::json::parse_lenient_str;
use pollux_domain::percent;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::load::stamp_of;

/// A saved conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoint {
    pub history: Vec<Content>,
    /// The auth type; a conversation can only be resumed with the same one.
    pub auth_type: Option<String>,
}

/// What a list shows of a saved conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    pub tag: String,
    pub path: PathBuf,
    pub modified: Timestamp,
}

/// Why a saved conversation could not be written, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("could not delete `{}`", path.display())]
    Delete { path: PathBuf, source: io::Error },
}

/// The file of a saved conversation in the project's folder.
pub fn checkpoint_file(temp: &Path, tag: &str) -> PathBuf {
    temp.join(format!("checkpoint-{}.json", encoded(tag)))
}

/// Saves a conversation, replacing one with the same name.
pub fn save_checkpoint(temp: &Path, tag: &str, checkpoint: &Checkpoint) -> Result<PathBuf, CheckpointError> {
    let path = checkpoint_file(temp, tag);
    let history: Vec<Value> = checkpoint.history.iter().map(Content::to_json).collect();
    let mut value = json!({ "history": history });
    if let (Some(auth_type), Some(fields)) = (&checkpoint.auth_type, value.as_object_mut()) {
        fields.insert("authType".into(), json!(auth_type));
    }
    let text = format!("{value:#}");
    // What could not be read back is not worth replacing an older one.
    if text.len() as u64 > MAX_SESSION_BYTES {
        return Err(FileError::TooLarge { path, limit: MAX_SESSION_BYTES }.into());
    }
    let _lock = FileLock::acquire(&path)?;
    files::replace(&path, text.as_bytes(), Mode::Private)?;
    Ok(path)
}

/// Reads a saved conversation, including those of old releases; `None` if not found. An unknown
/// format gives an empty one.
pub fn load_checkpoint(temp: &Path, tag: &str) -> Result<Option<Checkpoint>, CheckpointError> {
    for path in names(temp, tag) {
        let text = match files::read_text_up_to(&path, MAX_SESSION_BYTES) {
            Err(FileError::NotUtf8 { .. }) => {
                let bytes = fs::read(&path).map_err(|source| FileError::Read { path, source })?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            read => read?,
        };
        if let Some(text) = text {
            return Ok(Some(parse(&text)));
        }
    }
    Ok(None)
}

/// Deletes a saved conversation under both of its names; false if there was none.
pub fn delete_checkpoint(temp: &Path, tag: &str) -> Result<bool, CheckpointError> {
    let mut any = false;
    for path in names(temp, tag) {
        match fs::remove_file(&path) {
            Ok(()) => any = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(CheckpointError::Delete { path, source }),
        }
    }
    Ok(any)
}

/// The saved conversations of a project, oldest first.
pub fn list_checkpoints(temp: &Path) -> Vec<CheckpointInfo> {
    let mut found: Vec<CheckpointInfo> = fs::read_dir(temp)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let tag = name.strip_prefix("checkpoint-")?.strip_suffix(".json")?;
            let modified = stamp_of(&entry.metadata().ok()?).modified_ms;
            Some(CheckpointInfo {
                tag: decoded(tag),
                path: entry.path(),
                modified: Timestamp::from_millis(modified),
            })
        })
        .collect();
    found.sort_by(|a, b| (a.modified, &a.tag).cmp(&(b.modified, &b.tag)));
    found
}

/// The saved conversations in all folders that hold state of a project, oldest first. Of those with the same name, the one
/// in the first of these folders is found by [`load_checkpoint_in`].
pub fn list_checkpoints_in(folders: &[PathBuf]) -> Vec<CheckpointInfo> {
    let mut tags = HashSet::new();
    let mut found: Vec<CheckpointInfo> = folders.iter().flat_map(|folder| list_checkpoints(folder)).collect();
    found.retain(|info| tags.insert(info.tag.clone()));
    found.sort_by(|a, b| (a.modified, &a.tag).cmp(&(b.modified, &b.tag)));
    found
}

/// Reads a conversation that was saved in one of these folders.
pub fn load_checkpoint_in(folders: &[PathBuf], tag: &str) -> Result<Option<Checkpoint>, CheckpointError> {
    folders.iter().find_map(|folder| load_checkpoint(folder, tag).transpose()).transpose()
}

/// Deletes a saved conversation from all of these folders; false if there was none.
pub fn delete_checkpoint_in(folders: &[PathBuf], tag: &str) -> Result<bool, CheckpointError> {
    folders.iter().try_fold(false, |any, folder| Ok(delete_checkpoint(folder, tag)? || any))
}

fn parse(text: &str) -> Checkpoint {
    let value: Value = parse_lenient_str(text).unwrap_or_default();
    let (history, auth_type) = match value {
        Value::Array(items) => (items, None),
        Value::Object(mut fields) => match fields.remove("history") {
            Some(Value::Array(items)) => {
                (items, fields.get("authType").and_then(Value::as_str).map(str::to_owned))
            }
            _ => (Vec::new(), None),
        },
        _ => (Vec::new(), None),
    };
    let turns = history.iter().filter(|turn| turn.is_object()).map(Content::from_json);
    Checkpoint { history: turns.collect(), auth_type }
}

/// The current file name, and the legacy one if it is a valid file name.
fn names(temp: &Path, tag: &str) -> Vec<PathBuf> {
    let mut names = vec![checkpoint_file(temp, tag)];
    let is_plain = !tag.contains(['/', '\\', '\0']);
    if is_plain && encoded(tag) != tag {
        names.push(temp.join(format!("checkpoint-{tag}.json")));
    }
    names
}

/// As upstream writes it.
fn encoded(tag: &str) -> String {
    percent::encode(tag.as_bytes(), percent::COMPONENT)
}

/// Invalid encodings stay unchanged.
fn decoded(name: &str) -> String {
    String::from_utf8(percent::decode(name)).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn conversations_in_an_earlier_folder_of_the_project_are_found_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["now", "before"].map(|name| dir.path().join(name));
        let of = |text: &str| Checkpoint { history: vec![Content::user_text(text)], auth_type: None };
        for (folder, tag) in [(0, "both"), (1, "both"), (1, "old")] {
            save_checkpoint(&folders[folder], tag, &of(&format!("{folder}"))).unwrap();
        }
        let mut tags: Vec<String> = list_checkpoints_in(&folders).into_iter().map(|info| info.tag).collect();
        tags.sort();
        assert_eq!(tags, ["both", "old"]);
        assert_eq!(load_checkpoint_in(&folders, "both").unwrap(), Some(of("0")));
        assert_eq!(load_checkpoint_in(&folders, "old").unwrap(), Some(of("1")));
        assert!(delete_checkpoint_in(&folders, "both").unwrap());
        assert_eq!(load_checkpoint_in(&folders, "both").unwrap(), None);
        assert!(!delete_checkpoint_in(&folders, "both").unwrap());
    }

    #[test]
    fn a_conversation_is_saved_listed_loaded_and_deleted_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint =
            Checkpoint { history: vec![Content::user_text("hi")], auth_type: Some("gemini-api-key".into()) };
        for tag in ["plain", "a b/c", "größe", "../../etc", "100%", "x'y(z)!~*"] {
            let path = save_checkpoint(dir.path(), tag, &checkpoint).unwrap();
            assert_eq!(path.parent(), Some(dir.path()), "{tag}");
            assert_eq!(load_checkpoint(dir.path(), tag).unwrap(), Some(checkpoint.clone()), "{tag}");
            assert!(list_checkpoints(dir.path()).iter().any(|info| info.tag == tag), "{tag}");
            assert!(delete_checkpoint(dir.path(), tag).unwrap());
            assert!(!delete_checkpoint(dir.path(), tag).unwrap());
        }
        assert_eq!(encoded("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_form_is_upstreams_and_old_ones_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint { history: vec![Content::user_text("hi")], auth_type: None };
        let path = save_checkpoint(dir.path(), "t", &checkpoint).unwrap();
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            "{\n  \"history\": [\n    {\n      \"role\": \"user\",\n      \"parts\": [\n        {\n          \"text\": \"hi\"\n        }\n      ]\n    }\n  ]\n}"
        );
        let old = dir.path().join("checkpoint-an old name.json");
        fs::write(&old, "[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}, 7]").unwrap();
        assert_eq!(load_checkpoint(dir.path(), "an old name").unwrap(), Some(checkpoint));
        for odd in ["{}", "7", "{\"history\": 1}", "not json"] {
            fs::write(&old, odd).unwrap();
            assert_eq!(
                load_checkpoint(dir.path(), "an old name").unwrap(),
                Some(Checkpoint::default()),
                "{odd}"
            );
        }
        assert!(delete_checkpoint(dir.path(), "an old name").unwrap() && !old.exists());
    }

    #[test]
    fn a_conversation_may_be_as_large_as_a_session() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(17 << 20);
        let checkpoint = Checkpoint { history: vec![Content::user_text(&long)], auth_type: None };
        let path = save_checkpoint(dir.path(), "long", &checkpoint).unwrap();
        assert!(load_checkpoint(dir.path(), "long").unwrap() == Some(checkpoint));
        fs::File::options().write(true).open(&path).unwrap().set_len(MAX_SESSION_BYTES + 1).unwrap();
        let error = load_checkpoint(dir.path(), "long").unwrap_err().to_string();
        assert_eq!(error, format!("`{}` is larger than 1024 MiB", path.display()));
    }

    #[test]
    fn the_list_is_in_the_order_of_saving() {
        let dir = tempfile::tempdir().unwrap();
        for (tag, age) in [("b", 10), ("a", 30), ("c", 20)] {
            let path = save_checkpoint(dir.path(), tag, &Checkpoint::default()).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let tags: Vec<String> = list_checkpoints(dir.path()).into_iter().map(|info| info.tag).collect();
        assert_eq!(tags, ["a", "c", "b"]);
    }
}
