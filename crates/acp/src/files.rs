//! Files as the editor has them, with what is not saved yet.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pollux_domain::file_view::FileView;
use serde_json::{Value, json};

use crate::client::Client;
use pollux_front::rpc::Answer;

/// How long the editor may take; the disk is used from then on.
const PATIENCE: Duration = Duration::from_secs(10);
/// The protocol's code for something that is not there.
const NOT_FOUND: i64 = -32002;

/// The files of the editor of one session.
pub(crate) struct EditorFiles {
    client: Client,
    /// Known when the session is open.
    pub(crate) session: OnceLock<String>,
    /// The thread that reads the editor's answers, which must not wait for one.
    reader: ThreadId,
    /// The editor failed, and the person was told.
    has_failed: AtomicBool,
    /// The editor did not answer in time and is not asked again.
    is_silent: AtomicBool,
}

impl EditorFiles {
    /// The files of this client; made on the thread that reads its answers.
    pub(crate) fn new(client: Client) -> Self {
        let reader = std::thread::current().id();
        Self {
            client,
            session: OnceLock::new(),
            reader,
            has_failed: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
        }
    }

    /// Asks the editor and waits; `None` if it cannot or does not answer.
    fn ask(&self, what: &str, mut params: Value) -> Option<Answer> {
        let session = self.session.get()?;
        if std::thread::current().id() == self.reader || self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        params.as_object_mut()?.insert("sessionId".to_owned(), session.as_str().into());
        let answer =
            self.client.request(&format!("fs/{what}_text_file"), params).wait(Instant::now() + PATIENCE);
        if answer.is_none() {
            self.is_silent.store(true, Ordering::Relaxed);
            self.failed(what, None);
        }
        answer
    }

    /// Tells once that the editor failed and the disk is used.
    fn failed(&self, what: &str, error: Option<&Value>) {
        if self.has_failed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(session) = self.session.get() else { return };
        let why = error.and_then(|error| error.get("message")).and_then(Value::as_str);
        let why: String = why.unwrap_or("no answer").chars().take(200).collect();
        let text = format!("The editor could not {what} a file ({why}); using the disk instead.");
        let update = match self.client.can().notices {
            true => json!({"sessionUpdate": "notice", "severity": "warning", "title": text}),
            false => json!({
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": format!("[{text}]\n")},
            }),
        };
        self.client.notify("session/update", json!({"sessionId": session, "update": update}));
    }
}

/// Whether an error means that there is no such file, by its code or in the words of older clients.
fn is_missing(error: &Value) -> bool {
    let text = error.get("message").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    error.get("code").and_then(Value::as_i64) == Some(NOT_FOUND)
        || ["not found", "no such file", "enoent", "does not exist"].iter().any(|words| text.contains(words))
}

impl FileView for EditorFiles {
    fn read(&self, path: &Path) -> Option<String> {
        if !self.client.can().reads_files {
            return None;
        }
        match self.ask("read", json!({"path": path.to_str()?})) {
            Some(Ok(answer)) => answer.get("content").and_then(Value::as_str).map(str::to_owned),
            // It was deleted in between, or is not part of the editor's project.
            Some(Err(error)) if is_missing(&error) => None,
            Some(Err(error)) => {
                self.failed("read", Some(&error));
                None
            }
            None => None,
        }
    }

    fn write(&self, path: &Path, text: &str) -> bool {
        let Some(path) = path.to_str().filter(|_| self.client.can().writes_files) else { return false };
        match self.ask("write", json!({"path": path, "content": text})) {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                self.failed("write", Some(&error));
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_known_by_code_and_by_words() {
        for error in [
            json!({"code": -32002, "message": "x"}),
            json!({"code": -32603, "message": "ENOENT: no such file or directory"}),
            json!({"code": -32603, "message": "Resource not found: /a"}),
        ] {
            assert!(is_missing(&error), "{error}");
        }
        assert!(!is_missing(&json!({"code": -32603, "message": "disk full"})));
    }
}
