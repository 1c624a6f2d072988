//! Transcripts: append-only files with one message per line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::time::Clock;
use serde_json::{Value, json};

use crate::forgotten::{self, Forgotten};
use crate::lock::{OwnedLock, OwnedLockError, Patience};
use crate::source::{file_id, sessions};
use crate::state::AgentDir;
use crate::workspace::{Belonging, WorkspaceId};

const VERSION: u64 = 3;
/// Maximum length of the last line.
const TAIL: u64 = 1 << 20;
/// How long a line waits for the lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// One session's lines. Each is written with one call, so that a reader never sees two mixed.
pub struct Transcript {
    path: PathBuf,
    file: File,
    session_id: String,
    cwd: PathBuf,
    clock: Arc<dyn Clock>,
    last: Option<String>,
    /// The lists that say whether the session was forgotten.
    forgotten: Vec<PathBuf>,
    /// How long to wait for the lock.
    patience: Duration,
}

/// Why a transcript cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error(transparent)]
    Folder(#[from] FileError),
    #[error("could not write the transcript `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("it was forgotten while it ran")]
    Forgotten,
}

impl TranscriptError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Folder(_) | Self::Write { .. } => {
                Some("check the state directory's permissions and the free disk space")
            }
            Self::Forgotten => None,
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
        let id = WorkspaceId::of(workspace);
        if !is_free && !sessions::origin(&file).is_some_and(is_own) {
            file = agent.transcript_file(session_id, Some(id.key()));
        }
        let forgotten = [agent.agent_dir(), id.folder(agent)].map(|folder| folder.join(forgotten::FILE));
        Ok(Self { forgotten: forgotten.into(), ..Self::open(file, session_id, id.root(), clock)? })
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
        let mut patience = PATIENCE;
        let _lock = lock(&path, &mut patience);
        let file = open_file(&path)?;
        let (session_id, cwd) = (session_id.to_owned(), cwd.to_owned());
        let mut transcript =
            Self { path, file, session_id, cwd, clock, last: None, forgotten: Vec::new(), patience };
        transcript.begin()?;
        Ok(transcript)
    }

    /// Finds the end of the file, closes a line that was cut off, and writes the head if there is none.
    fn begin(&mut self) -> Result<(), TranscriptError> {
        let tail = Tail::read(&mut self.file).map_err(|source| self.failed(source))?;
        if tail.is_torn {
            self.write(b"\n")?;
        }
        // A head that was cut off is written again.
        if tail.is_empty || (tail.is_torn && tail.last.is_none()) {
            let header = json!({
                "type": "session", "version": VERSION, "id": self.session_id,
                "timestamp": self.clock.now().to_iso(), "cwd": self.cwd.to_string_lossy(),
            });
            self.write(format!("{header}\n").as_bytes())?;
        }
        self.last = tail.last;
        Ok(())
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
        self.append(format!("{entry}\n").as_bytes())?;
        self.last = Some(id);
        Ok(())
    }

    /// Appends to the file that is there now: forgetting replaces or removes it while the session runs.
    fn append(&mut self, line: &[u8]) -> Result<(), TranscriptError> {
        let lock = lock(&self.path, &mut self.patience);
        self.follow()?;
        self.write(line)?;
        // Without the lock it may have been replaced since. A line that stands there twice is better than none.
        if lock.is_none() && self.follow()? {
            self.write(line)?;
        }
        Ok(())
    }

    /// Opens the file again if it is no longer the one that was opened; whether it was not.
    fn follow(&mut self) -> Result<bool, TranscriptError> {
        let id = |meta: io::Result<fs::Metadata>| meta.ok().and_then(|meta| file_id(&self.path, &meta));
        let there = id(fs::metadata(&self.path));
        if there.is_some() && there == id(self.file.metadata()) {
            return Ok(false);
        }
        if there.is_none() && self.is_forgotten() {
            return Err(TranscriptError::Forgotten);
        }
        self.file = open_file(&self.path)?;
        self.begin()?;
        Ok(true)
    }

    fn is_forgotten(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let has = |list: &PathBuf| {
            Forgotten::read(list).is_ok_and(|list| list.has_path(&format!("sessions/{name}")))
        };
        self.forgotten.iter().any(has)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TranscriptError> {
        self.file.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> TranscriptError {
        TranscriptError::Write { path: self.path.clone(), source }
    }
}

/// Opens a transcript, which is made if there is none.
fn open_file(path: &Path) -> Result<File, TranscriptError> {
    if let Some(folder) = path.parent() {
        files::create_folder(folder, Mode::Private)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map_err(|source| TranscriptError::Write { path: path.to_owned(), source })
}

/// The lock, unless it is stuck: it keeps lines and replacements of the file apart, and what was said must not be lost
/// for want of it. One that was waited for in vain is not waited for again.
fn lock(path: &Path, patience: &mut Duration) -> Option<OwnedLock> {
    let waits = Patience { timeout: *patience, ..Patience::TRANSCRIPT };
    let lock = OwnedLock::acquire(path, waits);
    if matches!(lock, Err(OwnedLockError::TimedOut { .. })) {
        *patience = Duration::ZERO;
    }
    lock.ok()
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
    fn lines_form_a_chain_that_continues_after_a_restart() {
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

    #[test]
    fn a_file_that_was_removed_or_a_lock_that_is_stuck_costs_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.jsonl");
        let mut transcript = open(&path);
        transcript.user("one").unwrap();
        fs::remove_file(&path).unwrap();
        transcript.user("two").unwrap();
        let _held = OwnedLock::acquire(&path, Patience::TRANSCRIPT).unwrap();
        transcript.user("three").unwrap();
        open(&path).user("four").unwrap();
        let lines = lines(&path);
        assert_eq!((lines.len(), &lines[0]["type"]), (4, &json!("session")));
        assert!(lines[3]["message"].to_string().contains("four") && lines[3]["parentId"] == lines[2]["id"]);
    }
}
