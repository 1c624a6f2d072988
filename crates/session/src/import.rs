//! Imports a session file as a new session (`--session-file`), and forks sessions.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use serde_json::{Value, json};

use crate::blobs::{Blobs, Guard};
use crate::document;
use crate::load::{self, Folded, LoadError, StoredSession, load};
use crate::record::{NewSession, extension};

/// Why a file was not imported. The caller adds its own prefix.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Upstream's text.
    #[error("File not found or invalid format: {}", path.display())]
    Unusable { path: PathBuf, source: LoadError },
    #[error(transparent)]
    Write(#[from] FileError),
    #[error("could not read back the imported session")]
    ReadBack(#[source] LoadError),
}

/// Copies the conversation of a file into a new session of this project and returns it, ready to be
/// resumed. The file itself is only read; it may be in use. What is damaged in it is noted in the returned session.
pub fn import(path: &Path, spec: &NewSession) -> Result<StoredSession, ImportError> {
    let folded = read(path)?;
    let note = json!({
        "id": format!("import-{}", spec.now.millis()),
        "timestamp": spec.now.to_iso(),
        "type": "info",
        "content": format!("Imported session from {}", path.display()),
    });
    let said = folded.messages.into_iter().filter(is_conversation);
    let copied = copy(path, JsonObject::new(), std::iter::once(note).chain(said).collect(), spec)?;
    Ok(StoredSession { repaired: folded.repaired, ..copied })
}

/// Copies a whole session including its metadata, and records its origin. As [`import`], notes what is damaged.
pub(crate) fn fork(session: &StoredSession, spec: &NewSession) -> Result<StoredSession, ImportError> {
    let mut folded = read(&session.path)?;
    folded.messages.push(json!({
        "id": format!("fork-{}", spec.now.millis()),
        "timestamp": spec.now.to_iso(),
        "type": "info",
        "content": format!("Forked from session {}", session.id),
        "forkedFrom": {"sessionId": session.id.as_str(), "file": session.path.to_string_lossy()},
    }));
    let copied = copy(&session.path, folded.meta, folded.messages, spec)?;
    Ok(StoredSession { repaired: folded.repaired, ..copied })
}

fn read(path: &Path) -> Result<Folded, ImportError> {
    let unusable = |source| ImportError::Unusable { path: path.to_owned(), source };
    let (_, _, folded) = load::read_folded(path).map_err(unusable)?;
    Ok(folded)
}

fn copy(
    from: &Path,
    mut meta: JsonObject,
    mut messages: Vec<Value>,
    spec: &NewSession,
) -> Result<StoredSession, ImportError> {
    let now = spec.now.to_iso();
    meta.insert("sessionId".into(), json!(spec.id.as_str()));
    meta.insert("projectHash".into(), json!(spec.project_hash));
    meta.insert("startTime".into(), json!(now));
    meta.insert("lastUpdated".into(), json!(now));
    meta.insert("kind".into(), json!(spec.kind.as_str()));
    let (theirs, ours) = (Blobs::of_file(from), Blobs::of_chats(&spec.chats_dir, spec.kind));
    let mut guard = Guard::default();
    for message in messages.iter_mut().filter_map(Value::as_object_mut) {
        ours.adopt(message, &theirs, &mut guard);
    }
    let target = target_path(spec);
    files::replace(&target, &encode(&meta, spec, &messages), Mode::Private)?;
    drop(guard);
    load(&target).map_err(ImportError::ReadBack)
}

/// The messages and compression marks; without the marks, too much would be sent again.
fn is_conversation(message: &Value) -> bool {
    let has = |key: &str| message.get(key).is_some_and(|value| !value.is_null());
    match message.get("type").and_then(Value::as_str) {
        Some("user" | "gemini") => has("content"),
        Some("info") => has("compression"),
        _ => false,
    }
}

fn target_path(spec: &NewSession) -> PathBuf {
    let name = |millis: i64| format!("session-{millis}-{}.{}", spec.id.short(), extension(spec.format));
    (spec.now.millis()..)
        .map(|millis| spec.chats_dir.join(name(millis)))
        .find(|path| !path.exists())
        .unwrap_or_else(|| spec.chats_dir.join(name(spec.now.millis())))
}

fn encode(meta: &JsonObject, spec: &NewSession, messages: &[Value]) -> Vec<u8> {
    match spec.format {
        SessionFormat::Json => document::encode(meta, spec.now, messages),
        SessionFormat::Jsonl => {
            let mut lines = Value::Object(meta.clone()).to_string();
            for message in messages {
                lines.push('\n');
                lines.push_str(&message.to_string());
            }
            lines.push('\n');
            lines.into_bytes()
        }
    }
}
