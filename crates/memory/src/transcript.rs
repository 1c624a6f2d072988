//! Transcripts: append-only files with one message per line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::time::Clock;
use serde_json::{Value, json};

use crate::lock::{OwnedLock, OwnedLockError, Patience};
use crate::source::sessions;
use crate::state::AgentDir;
use crate::workspace::{Belonging, WorkspaceId};

const VERSION: u64 = 3;
/// Maximum length of the last line.
const TAIL: u64 = 1 << 20;

/// One session's lines. Each is written with one call, so that a reader never sees two mixed.
pub struct Transcript {
    path: PathBuf,
    file: File,
    clock: Arc<dyn Clock>,
    last: Option<String>,
}

/// Why a transcript cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error(transparent)]
    Folder(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] OwnedLockError),
    #[error("could not write the transcript `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl TranscriptError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Folder(_) | Self::Write { .. } => {
                Some("check the state directory's permissions and the free disk space")
            }
            Self::Lock(error) => error.hint(),
        }
    }
}

impl Transcript {
    /// Begins the transcript of a session in a workspace, or goes on with it. When another workspace has a session of
    /// that id, the words of both are kept in files of their own.
    pub fn of_session(
        agent: &AgentDir,
        session_id: &str,
        workspace: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TranscriptError> {
        let mut file = agent.transcript_file(session_id, None);
        let is_free = fs::metadata(&file).map_or(true, |meta| meta.len() == 0);
        let is_own = |folder: String| Belonging::of(agent, workspace).has_path(&folder);
        if !is_free && !sessions::origin(&file).is_some_and(is_own) {
            file = agent.transcript_file(session_id, Some(WorkspaceId::of(workspace).key()));
        }
        Self::open(file, session_id, WorkspaceId::of(workspace).root(), clock)
    }

    /// Begins a transcript, or goes on with one. A line that was cut off is closed first.
    pub fn open(
        path: PathBuf,
        session_id: &str,
        cwd: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TranscriptError> {
        if let Some(folder) = path.parent() {
            files::create_folder(folder, Mode::Private)?;
        }
        let _lock = OwnedLock::acquire(&path, Patience::TRANSCRIPT)?;
        let failed = |source| TranscriptError::Write { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        let mut file = options.open(&path).map_err(failed)?;
        let tail = Tail::read(&mut file).map_err(failed)?;
        let mut transcript = Self { path: path.clone(), file, clock, last: tail.last };
        if tail.is_torn {
            transcript.append(b"\n")?;
        }
        // A head that was cut off is written again.
        if tail.is_empty || (tail.is_torn && transcript.last.is_none()) {
            let header = json!({
                "type": "session", "version": VERSION, "id": session_id,
                "timestamp": transcript.clock.now().to_iso(), "cwd": cwd.to_string_lossy(),
            });
            transcript.line(&header)?;
        }
        Ok(transcript)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the person wrote.
    pub fn user(&mut self, text: &str) -> Result<(), TranscriptError> {
        self.message(json!({"role": "user", "content": [{"type": "text", "text": text}]}))
    }

    /// What the model wrote.
    pub fn assistant(&mut self, text: &str, model: Option<&str>) -> Result<(), TranscriptError> {
        self.message(json!({
            "role": "assistant", "content": [{"type": "text", "text": text}], "provider": "google",
            "model": model, "stopReason": "stop",
        }))
    }

    /// A tool result. Stored but never indexed, since it may contain untrusted text.
    pub fn tool_result(
        &mut self,
        call: &str,
        tool: &str,
        text: &str,
        is_error: bool,
    ) -> Result<(), TranscriptError> {
        self.message(json!({
            "role": "toolResult", "toolCallId": call, "toolName": tool,
            "content": [{"type": "text", "text": text}], "isError": is_error,
        }))
    }

    /// A summary that replaces everything before it.
    pub fn compaction(&mut self, summary: &str, tokens_before: u64) -> Result<(), TranscriptError> {
        let kept = self.last.clone();
        self.entry(json!({"type": "compaction", "summary": summary, "firstKeptEntryId": kept, "tokensBefore": tokens_before}))
    }

    /// Waits until everything is on the disk; at the end of a turn.
    pub fn sync(&self) -> Result<(), TranscriptError> {
        self.file.sync_data().map_err(|source| TranscriptError::Write { path: self.path.clone(), source })
    }

    fn message(&mut self, message: Value) -> Result<(), TranscriptError> {
        self.entry(json!({"type": "message", "message": message}))
    }

    fn entry(&mut self, mut entry: Value) -> Result<(), TranscriptError> {
        let id: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
        if let Some(map) = entry.as_object_mut() {
            map.insert("id".to_owned(), id.clone().into());
            map.insert("parentId".to_owned(), self.last.clone().into());
            map.insert("timestamp".to_owned(), self.clock.now().to_iso().into());
        }
        self.line(&entry)?;
        self.last = Some(id);
        Ok(())
    }

    fn line(&mut self, value: &Value) -> Result<(), TranscriptError> {
        let mut line = value.to_string();
        line.push('\n');
        self.append(line.as_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TranscriptError> {
        self.file
            .write_all(bytes)
            .map_err(|source| TranscriptError::Write { path: self.path.clone(), source })
    }
}

/// The end of a file that may have been cut off anywhere.
struct Tail {
    is_empty: bool,
    is_torn: bool,
    /// The id of the last line that has one.
    last: Option<String>,
}

impl Tail {
    fn read(file: &mut File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let id =
            |line: &[u8]| serde_json::from_slice::<Value>(line).ok()?.get("id")?.as_str().map(str::to_owned);
        let is_entry = |line: &&[u8]| !line.windows(16).any(|window| window == br#""type":"session""#);
        let last = bytes.split(|byte| *byte == b'\n').rev().filter(is_entry).find_map(id);
        Ok(Self { is_empty: length == 0, is_torn: bytes.last().is_some_and(|byte| *byte != b'\n'), last })
    }
}

/// Removes a transcript with its lock; whether there was one.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    let _ = fs::remove_file(crate::lock::path_of(path));
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::time::SystemClock;

    fn open(path: &Path) -> Transcript {
        Transcript::open(path.to_owned(), "s1", Path::new("/w"), Arc::new(SystemClock)).unwrap()
    }

    fn lines(path: &Path) -> Vec<Value> {
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or(Value::Null))
            .collect()
    }

    #[test]
    fn lines_form_a_chain_that_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions/s1.jsonl");
        open(&path).user("hello").unwrap();
        let mut again = open(&path);
        again.assistant("hi", Some("m")).unwrap();
        again.tool_result("c1", "read_file", "text", false).unwrap();
        again.compaction("short", 99).unwrap();
        again.sync().unwrap();
        let lines = lines(&path);
        assert_eq!(
            (&lines[0]["type"], &lines[0]["version"], &lines[0]["id"]),
            (&json!("session"), &json!(3), &json!("s1"))
        );
        assert_eq!(lines[1]["parentId"], Value::Null);
        for pair in lines[1..].windows(2) {
            assert_eq!(pair[1]["parentId"], pair[0]["id"]);
        }
        assert_eq!(lines[1]["id"].as_str().unwrap().len(), 8);
        assert_eq!(lines[4]["firstKeptEntryId"], lines[3]["id"]);
    }

    #[test]
    fn a_torn_line_is_closed_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.jsonl");
        open(&path).user("one").unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"type\":\"mess").unwrap();
        open(&path).user("two").unwrap();
        let lines = lines(&path);
        assert_eq!((lines.len(), &lines[2]), (4, &Value::Null));
        assert_eq!(lines[3]["parentId"], lines[1]["id"]);
    }
}
