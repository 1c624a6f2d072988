//! Upstream's checkpoint files: a pending tool call with the conversation and a commit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, MAX_SESSION_BYTES, Mode};
use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use serde_json::{Map, Value};

/// The message of `/restore` after success; upstream's text.
pub const RESTORED: &str = "Restored project to the state before the tool call.";

/// One checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The displayed history.
    pub history: Option<Value>,
    /// The history sent to the model.
    pub client_history: Option<Value>,
    pub tool: String,
    pub args: JsonObject,
    pub commit: Option<String>,
    /// The prompt's id.
    pub message_id: Option<String>,
}

/// Why there is nothing to restore; the texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("File not found: {0}")]
    NotFound(String),
    #[error("Checkpoint file is invalid: {0}")]
    Invalid(String),
    #[error("Could not read restorable tool calls. This is the error: {0}")]
    Unreadable(String),
}

/// The name of a checkpoint file: `<time>-<file>-<tool>.json`.
pub fn file_name(now: Timestamp, file: &Path, tool: &str) -> String {
    let time = now.to_iso().replace(':', "-").replace('.', "_");
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{time}-{name}-{tool}.json")
}

/// Writes a checkpoint into `folder`.
pub fn write(folder: &Path, name: &str, checkpoint: &Checkpoint) -> Result<PathBuf, FileError> {
    let path = folder.join(name);
    let mut object = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), value);
        }
    };
    put("history", checkpoint.history.clone());
    put("clientHistory", checkpoint.client_history.clone());
    put("toolCall", Some(serde_json::json!({"name": checkpoint.tool, "args": checkpoint.args})));
    put("commitHash", checkpoint.commit.clone().map(Value::from));
    put("messageId", checkpoint.message_id.clone().map(Value::from));
    let text = format!("{:#}", Value::Object(object));
    // It could not be read back.
    if text.len() as u64 > MAX_SESSION_BYTES {
        return Err(FileError::TooLarge { path, limit: MAX_SESSION_BYTES });
    }
    files::replace(&path, text.as_bytes(), Mode::Private)?;
    Ok(path)
}

/// The names of the checkpoints in a folder, oldest first, without `.json`.
pub fn list(folder: &Path) -> Result<Vec<String>, CheckpointError> {
    let unreadable = |error: io::Error| CheckpointError::Unreadable(error.to_string());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".json").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The output of `/restore` without a name; upstream's texts.
pub fn listing(names: &[String]) -> String {
    if names.is_empty() {
        return "No restorable tool calls found.".to_owned();
    }
    format!("Available tool calls to restore:\n\n{}", names.join("\n"))
}

/// Reads a checkpoint by the name that was listed, with or without `.json`.
pub fn read(folder: &Path, name: &str) -> Result<Checkpoint, CheckpointError> {
    let name = name.strip_suffix(".json").unwrap_or(name);
    // Only names listed in the folder: a name is not a path.
    if !list(folder)?.iter().any(|known| known == name) {
        return Err(CheckpointError::NotFound(format!("{name}.json")));
    }
    let text = files::read_text_up_to(&folder.join(format!("{name}.json")), MAX_SESSION_BYTES);
    let text = text.map_err(|error| CheckpointError::Unreadable(error.to_string()))?.unwrap_or_default();
    let invalid = |what: &str| CheckpointError::Invalid(what.to_owned());
    let value: Value = serde_json::from_str(&text).map_err(|error| invalid(&error.to_string()))?;
    let call = value.get("toolCall").ok_or_else(|| invalid("`toolCall` is missing"))?;
    let tool =
        call.get("name").and_then(Value::as_str).ok_or_else(|| invalid("`toolCall.name` is missing"))?;
    let args = call.get("args").and_then(Value::as_object);
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Checkpoint {
        history: value.get("history").cloned(),
        client_history: value.get("clientHistory").cloned(),
        tool: tool.to_owned(),
        args: args.ok_or_else(|| invalid("`toolCall.args` is not an object"))?.clone(),
        commit: text("commitHash"),
        message_id: text("messageId"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let args = serde_json::json!({"file_path": "/p/a.txt", "content": "x"});
        Checkpoint {
            history: Some(Value::Array(Vec::new())),
            client_history: None,
            tool: "write_file".to_owned(),
            args: args.as_object().unwrap().clone(),
            commit: Some("abc".to_owned()),
            message_id: Some("p########1".to_owned()),
        }
    }

    #[test]
    fn a_checkpoint_has_upstreams_format_and_can_be_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::parse("2026-01-27T15:22:34.666Z").unwrap();
        let name = file_name(now, Path::new("/p/a.txt"), "write_file");
        assert_eq!(name, "2026-01-27T15-22-34_666Z-a.txt-write_file.json");
        let path = write(folder.path(), &name, &checkpoint()).unwrap();
        let value: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["history", "toolCall", "commitHash", "messageId"]);
        let names = list(folder.path()).unwrap();
        assert_eq!(
            listing(&names),
            "Available tool calls to restore:\n\n2026-01-27T15-22-34_666Z-a.txt-write_file"
        );
        assert_eq!(read(folder.path(), &names[0]).unwrap(), checkpoint());
    }

    #[test]
    fn a_checkpoint_may_be_as_large_as_a_session() {
        let folder = tempfile::tempdir().unwrap();
        let long = Checkpoint { history: Some(Value::from("x".repeat(17 << 20))), ..checkpoint() };
        write(folder.path(), "long.json", &long).unwrap();
        assert!(read(folder.path(), "long").unwrap() == long);
    }

    #[test]
    fn unrestorable_checkpoints_use_upstreams_messages() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(listing(&list(&folder.path().join("none")).unwrap()), "No restorable tool calls found.");
        let error = read(folder.path(), "../../etc/passwd").unwrap_err();
        assert_eq!(error.to_string(), "File not found: ../../etc/passwd.json");
        files::replace(&folder.path().join("bad.json"), b"{}", Mode::Private).unwrap();
        let error = read(folder.path(), "bad.json").unwrap_err();
        assert_eq!(error.to_string(), "Checkpoint file is invalid: `toolCall` is missing");
    }
}
