//! The one writer of one session.

mod document_writer;
mod log_writer;
mod medium;
mod resume;
mod rewind;

#[cfg(test)]
mod tests;

pub use resume::ResumeError;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::content::Part;
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use serde_json::json;

use crate::blobs::{Blobs, CALL_KEYS, Guard, MESSAGE_KEYS};
use crate::import::{self, ImportError};
use crate::load::{SessionKind, StoredSession};
use crate::lock::{Lock, LockError};
use crate::message::{MessageId, encode};
use document_writer::DocumentWriter;
use log_writer::LogWriter;
use medium::{Medium, WriteFailure};

/// A session that is about to begin.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub id: SessionId,
    pub project_hash: String,
    /// Where the file goes; created if need be.
    pub chats_dir: PathBuf,
    pub format: SessionFormat,
    pub kind: SessionKind,
    pub now: Timestamp,
}

/// A reply of the model, complete and valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyRecord {
    /// What was said; calls are in `calls`.
    pub parts: Vec<Part>,
    pub thoughts: Vec<(Thought, Timestamp)>,
    pub usage: Option<Usage>,
    pub model: String,
    pub calls: Vec<CallRecord>,
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub id: CallId,
    pub name: String,
    pub args: JsonObject,
    pub signature: Option<String>,
    pub display_name: String,
    pub description: String,
    pub markdown: bool,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub id: CallId,
    pub status: CallStatus,
    /// What the model gets.
    pub result: Vec<Part>,
    /// What people see.
    pub display: Display,
}

/// How a call ended, as it goes into the file.
#[derive(Debug)]
struct EndedCall<'a> {
    id: &'a CallId,
    status: CallStatus,
    /// Its result and what people see of it.
    fields: JsonObject,
}

/// Why something was not recorded. The file is valid and holds what it held before.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("could not create session file `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("could not write session file `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "could not write session file `{}`, nor bring it back to what it was; nothing more is recorded, and \
         the next resume repairs its end", path.display()
    )]
    Unrestored { path: PathBuf, source: io::Error },
    #[error(
        "session file `{}` was changed by another program; nothing more is recorded in it", path.display()
    )]
    ChangedByOthers { path: PathBuf },
    #[error("session file `{}` is being written by process {pid}", path.display())]
    InUse { path: PathBuf, pid: u32 },
    #[error("session file `{}` has no message `{id}` to go back to", path.display())]
    NoSuchMessage { path: PathBuf, id: MessageId },
}

impl RecordError {
    /// Whether there is no space left; nothing more is recorded then, and nothing more fails.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Create { source, .. } | Self::Write { source, .. } | Self::Unrestored { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::ChangedByOthers { .. } | Self::InUse { .. } | Self::NoSuchMessage { .. } => false,
        }
    }
}

/// Why a session was not forked. The original is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("could not copy the session")]
    Copy(#[from] ImportError),
    #[error(transparent)]
    Resume(#[from] ResumeError),
}

/// Writes one session, a message at a time. Each call returns when its bytes are with the system, so what
/// it recorded survives the end of this process at any point.
#[derive(Debug)]
pub struct Recorder {
    id: SessionId,
    path: Option<PathBuf>,
    target: Target,
    /// Where long texts and media go; `None` if everything stays in the file.
    blobs: Option<Blobs>,
}

#[derive(Debug)]
enum Target {
    /// Records nothing: switched off, or the disk is full.
    Off,
    /// The file appears with the first message.
    Waiting(NewSession),
    Open(OpenFile),
}

#[derive(Debug)]
struct OpenFile {
    form: Form,
    _lock: Option<Lock>,
}

#[derive(Debug)]
enum Form {
    Document(DocumentWriter),
    Log(LogWriter),
}

impl Recorder {
    /// A recorder for a new session. Nothing is written before the first message.
    pub fn create(spec: NewSession) -> Result<Self, RecordError> {
        let path = free_path(&spec, 0);
        let blobs = Some(Blobs::of_chats(&spec.chats_dir, spec.kind));
        Ok(Self { id: spec.id.clone(), path: Some(path), target: Target::Waiting(spec), blobs })
    }

    /// Continues a stored session in its file, after repairing the file's end if need be.
    pub fn resume(session: &StoredSession) -> Result<Self, ResumeError> {
        resume::resume(session)
    }

    /// A recorder that records nothing.
    pub fn disabled() -> Self {
        Self { id: SessionId::random(), path: None, target: Target::Off, blobs: None }
    }

    /// The session written to.
    pub fn session(&self) -> &SessionId {
        &self.id
    }

    /// The session's file, which may not exist before the first message.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Records what is sent to the model; `typed` is what the person wrote.
    pub fn user(
        &mut self,
        parts: &[Part],
        typed: Option<&str>,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_id();
        let mut message = encode::user(&id, parts, typed, now);
        let mut guard = Guard::default();
        self.extract(&mut message, &MESSAGE_KEYS, &mut guard);
        self.append(&message, now)?;
        Ok(id)
    }

    /// Records a reply. Its calls are in the file as pending before they run.
    pub fn reply(&mut self, reply: &ReplyRecord, now: Timestamp) -> Result<MessageId, RecordError> {
        let id = new_id();
        let message = encode::reply(&id, reply, now);
        self.write(|form| match form {
            Form::Document(writer) => writer.reply(&message, &reply.calls, now),
            Form::Log(writer) => writer.reply(message, &reply.calls, now),
        })?;
        Ok(id)
    }

    /// Records how calls of the last reply ended. Calls that are unknown or already ended are left alone.
    pub fn results(&mut self, results: &[CallResult], now: Timestamp) -> Result<(), RecordError> {
        if matches!(self.target, Target::Waiting(_)) {
            return Ok(());
        }
        let mut guard = Guard::default();
        let ended: Vec<EndedCall> = results
            .iter()
            .map(|result| {
                let mut fields = encode::result(result);
                self.extract(&mut fields, &CALL_KEYS, &mut guard);
                EndedCall { id: &result.id, status: result.status, fields }
            })
            .collect();
        self.write(|form| match form {
            Form::Document(writer) => writer.results(&ended, now),
            Form::Log(writer) => writer.results(&ended),
        })
    }

    /// Stores what is long apart; the record has to be written before the guard goes.
    fn extract(&self, fields: &mut JsonObject, keys: &[&str], guard: &mut Guard) {
        if let (Some(blobs), Target::Waiting(_) | Target::Open(_)) = (&self.blobs, &self.target) {
            blobs.extract(fields, keys, guard);
        }
    }

    /// Records a line for people.
    pub fn notice(
        &mut self,
        severity: Severity,
        text: &str,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_id();
        self.append(&encode::notice(&id, severity, text, now), now)?;
        Ok(id)
    }

    /// Records that the model now sees `snapshot` in place of everything before `keep_from`. What was
    /// recorded before stays in the file.
    pub fn compressed(
        &mut self,
        text: &str,
        keep_from: Option<&str>,
        snapshot: &str,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_id();
        let mut message = encode::notice(&id, Severity::Info, text, now);
        message.insert("compression".into(), encode::compression(keep_from, snapshot));
        self.append(&message, now)?;
        Ok(id)
    }

    /// Takes back this message and everything behind it. In a record log that is one more line; a document
    /// is replaced by one that ends earlier, and what is taken back is kept beside it.
    pub fn rewind(&mut self, to: &str, now: Timestamp) -> Result<(), RecordError> {
        rewind::rewind(self, to, now)
    }

    /// Copies a session that somebody else is writing into one of our own: same history, another id, and a
    /// line that names the origin.
    pub fn fork(session: &StoredSession, spec: &NewSession) -> Result<(Self, StoredSession), ForkError> {
        let copy = import::fork(session, spec)?;
        Ok((Self::resume(&copy)?, copy))
    }

    fn append(&mut self, message: &JsonObject, now: Timestamp) -> Result<(), RecordError> {
        self.write(|form| match form {
            Form::Document(writer) => writer.append(message, now),
            Form::Log(writer) => writer.append(message, now),
        })
    }

    /// Opens the file if need be, writes, and decides what a failure means for what comes after.
    fn write(
        &mut self,
        change: impl FnOnce(&mut Form) -> Result<(), WriteFailure>,
    ) -> Result<(), RecordError> {
        let fresh = match &self.target {
            Target::Off => return Ok(()),
            Target::Waiting(spec) => Some(spec.clone()),
            Target::Open(_) => None,
        };
        let opened = match &fresh {
            Some(spec) => open_new(spec).map(|(path, file)| {
                self.path = Some(path);
                self.target = Target::Open(file);
            }),
            None => Ok(()),
        };
        let path = self.path.clone().unwrap_or_default();
        let written = opened.and_then(|()| match &mut self.target {
            Target::Open(file) => change(&mut file.form).map_err(|failure| failure.on(path.clone())),
            Target::Off | Target::Waiting(_) => Ok(()),
        });
        if let Err(error) = &written {
            let created_now = fresh.is_some() && matches!(self.target, Target::Open(_));
            if created_now {
                // Nothing of it was written; an empty file would only be in the way.
                let _ = fs::remove_file(&path);
            }
            let is_final =
                matches!(error, RecordError::Unrestored { .. } | RecordError::ChangedByOthers { .. });
            if is_final || error.is_disk_full() {
                self.target = Target::Off;
            } else if let Some(spec) = fresh {
                self.target = Target::Waiting(spec);
            }
        }
        written
    }
}

fn new_id() -> MessageId {
    uuid::Uuid::new_v4().to_string()
}

/// Takes the lock and creates the file; what goes into it comes with the first message.
fn open_new(spec: &NewSession) -> Result<(PathBuf, OpenFile), RecordError> {
    let dir = &spec.chats_dir;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| RecordError::Create { path: dir.clone(), source })?;
    for attempt in 0.. {
        let path = free_path(spec, attempt);
        let lock = Lock::take(&path).map_err(|error| match error {
            LockError::Held(owner) => RecordError::InUse { path: path.clone(), pid: owner.pid },
            LockError::Io(source) => RecordError::Create { path: path.clone(), source },
        })?;
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let form = new_form(spec, Box::new(file));
                return Ok((path, OpenFile { form, _lock: Some(lock) }));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
            Err(source) => return Err(RecordError::Create { path, source }),
        }
    }
    Err(RecordError::Create { path: dir.clone(), source: io::ErrorKind::AlreadyExists.into() })
}

fn new_form(spec: &NewSession, medium: Box<dyn Medium>) -> Form {
    let mut meta = JsonObject::new();
    meta.insert("sessionId".into(), json!(spec.id.as_str()));
    meta.insert("projectHash".into(), json!(spec.project_hash));
    meta.insert("startTime".into(), json!(spec.now.to_iso()));
    meta.insert("lastUpdated".into(), json!(spec.now.to_iso()));
    meta.insert("kind".into(), json!(spec.kind.as_str()));
    match spec.format {
        SessionFormat::Json => Form::Document(DocumentWriter::begin(medium, &meta, spec.now)),
        SessionFormat::Jsonl => Form::Log(LogWriter::begin(medium, &meta)),
    }
}

/// The name for a new session: by the minute, or by the millisecond if another session has that name.
fn free_path(spec: &NewSession, attempt: i64) -> PathBuf {
    let extension = extension(spec.format);
    let stem = match (spec.kind, attempt) {
        (SessionKind::Subagent, 0) => sanitised(spec.id.as_str()),
        (SessionKind::Subagent, n) => format!("{}-{n}", sanitised(spec.id.as_str())),
        (SessionKind::Main, 0) => format!("session-{}-{}", spec.now.to_file_minute(), spec.id.short()),
        (SessionKind::Main, n) => format!("session-{}-{}", spec.now.millis() + n - 1, spec.id.short()),
    };
    spec.chats_dir.join(format!("{stem}.{extension}"))
}

pub(crate) fn extension(format: SessionFormat) -> &'static str {
    match format {
        SessionFormat::Json => "json",
        SessionFormat::Jsonl => "jsonl",
    }
}

/// An id made safe for file names, as upstream does it.
pub(crate) fn sanitised(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}
