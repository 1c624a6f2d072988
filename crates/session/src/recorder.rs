//! The single writer of a session.

mod change;
mod document_writer;
mod log_writer;
mod medium;
mod new_file;
mod open_file;
mod recording;
mod relocate;
mod resume;
mod rewind;
mod rewrite;
mod syncing;
mod unsynced;

#[cfg(test)]
mod tests;

pub(crate) use medium::replace_file;
pub(crate) use new_file::draft_path;
pub use recording::TitleWriter;
pub use resume::ResumeError;
pub(crate) use unsynced::SyncedFile;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_config::groups::Durability;
use pollux_domain::JsonObject;
use pollux_domain::budget::Spent;
use pollux_domain::content::Part;
use pollux_domain::event::Severity;
use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked as _;
use pollux_domain::time::Timestamp;

use crate::blobs::Blobs;
use crate::import::{self, ImportError};
use crate::kind::SessionKind;
use crate::load::StoredSession;
use crate::lock::LockHolder;
use crate::message::own::UserSource;
use crate::message::{MessageId, encode, own};
use crate::record::{CallResult, NewSession, ReplyRecord};
use crate::reserved::is_reserved;
use crate::session_model::{SessionModel, is_implied};
use change::{Change, ChangeKind, EndedCall};
use new_file::free_path;
use open_file::Form;
use recording::{Recording, Target};
use syncing::Syncing;

/// Why a record failed. The file is valid and unchanged, and the record is tried again with the next one.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("could not create session file `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("could not write session file `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "could not write session file `{}` or restore its previous content; the next message or resume \
         repairs the end of the file", path.display()
    )]
    Unrestored { path: PathBuf, source: io::Error },
    #[error("session file `{}` was changed by another program", path.display())]
    ChangedByOthers { path: PathBuf },
    #[error("could not sync session file `{}`; a power failure may lose the last messages", path.display())]
    Unsynced { path: PathBuf, source: io::Error },
    #[error("session file `{}` is being written by {holder}", path.display())]
    InUse { path: PathBuf, holder: LockHolder },
    #[error("session file `{}` has no message `{id}` to rewind to", path.display())]
    NoSuchMessage { path: PathBuf, id: MessageId },
    #[error("the session is not recorded")]
    NotRecorded,
    #[error("session ID \"{0}\" is reserved for files of the project; choose another one")]
    ReservedId(SessionId),
}

impl RecordError {
    /// Whether a message was written but may not be on the disk. Recording continues.
    pub fn is_unsynced(&self) -> bool {
        matches!(self, Self::Unsynced { .. })
    }

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Create { source, .. }
            | Self::Write { source, .. }
            | Self::Unrestored { source, .. }
            | Self::Unsynced { source, .. } => {
                use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
                matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            Self::ChangedByOthers { .. }
            | Self::InUse { .. }
            | Self::NoSuchMessage { .. }
            | Self::NotRecorded
            | Self::ReservedId(_) => false,
        }
    }
}

/// What the user has to know about the session's file. Nothing has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecorderEvent {
    /// All records are synced after a failure that was reported.
    Synced,
    /// Everything is recorded again after a failure that was reported, except for so many records that did not fit in
    /// memory.
    Resumed { lost: usize },
    /// Another program deleted the file; it was written again.
    Restored { path: PathBuf, is_complete: bool },
    /// Another program replaced or changed the file `from`; the session continues in a new file.
    Continued { from: PathBuf, path: PathBuf, id: SessionId, is_complete: bool },
}

impl RecorderEvent {
    /// Whether something went wrong, as opposed to right again.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Synced | Self::Resumed { lost: 0 } => false,
            Self::Resumed { .. } | Self::Restored { .. } | Self::Continued { .. } => true,
        }
    }
}

impl fmt::Display for RecorderEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_complete = match self {
            Self::Synced => {
                f.write_str("the session file is synced to disk again")?;
                true
            }
            Self::Resumed { lost } => {
                f.write_str("the session is recorded again")?;
                match lost {
                    0 => f.write_str(", including the messages since the failure")?,
                    lost => write!(f, "; {lost} record(s) since the failure are missing")?,
                }
                true
            }
            Self::Restored { path, is_complete } => {
                write!(
                    f,
                    "session file `{}` was deleted by another program and was written again",
                    path.display()
                )?;
                *is_complete
            }
            Self::Continued { from, path, id, is_complete } => {
                let (from, path) = (from.display(), path.display());
                write!(
                    f,
                    "session file `{from}` was changed by another program; the session continues as {id} in `{path}`"
                )?;
                *is_complete
            }
        };
        if is_complete { Ok(()) } else { f.write_str("; earlier messages may be missing") }
    }
}

/// Why a session was not forked. The original is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("could not copy the session")]
    Copy(#[from] ImportError),
    #[error(transparent)]
    Resume(#[from] ResumeError),
}

/// Writes one session, a message at a time. Each call returns once its bytes are with the operating system, so
/// records survive the end of this process at any point. Those that must survive a power failure are synced in the
/// background; see [`Recorder::set_durability`].
#[derive(Debug)]
pub struct Recorder {
    id: SessionId,
    path: Option<PathBuf>,
    recording: Arc<Mutex<Recording>>,
    /// What the session has spent; written with each message.
    spent: Option<Spent>,
    /// The model that the user chose; written with prompts.
    model: Option<SessionModel>,
}

impl Recorder {
    /// A recorder for a new session. Nothing is written before the first message.
    pub fn create(spec: NewSession) -> Result<Self, RecordError> {
        // Ids of sub-agents are not chosen by users.
        if spec.kind == SessionKind::Main && is_reserved(spec.id.as_str()) {
            return Err(RecordError::ReservedId(spec.id));
        }
        let path = free_path(&spec, 0);
        let blobs = Some(Blobs::of_chats(&spec.chats_dir, spec.kind));
        Ok(Self {
            id: spec.id.clone(),
            path: Some(path),
            recording: Recording::of(Target::Waiting(spec), blobs),
            spent: None,
            model: None,
        })
    }

    /// Continues a stored session in its file, after repairing the file's end if need be.
    pub fn resume(session: &StoredSession) -> Result<Self, ResumeError> {
        resume::resume(session)
    }

    /// A recorder that records nothing.
    pub fn disabled() -> Self {
        Self {
            id: SessionId::random(),
            path: None,
            recording: Recording::of(Target::Off, None),
            spent: None,
            model: None,
        }
    }

    /// The session written to.
    pub fn session(&self) -> &SessionId {
        &self.id
    }

    /// The session's file, which may not exist before the first message.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The folder for sub-agent sessions; `None` if nothing is recorded.
    pub fn subagents_dir(&self) -> Option<PathBuf> {
        Some(self.path.as_ref()?.parent()?.join(sanitised(self.id.as_str())))
    }

    /// What the session has spent so far; recorded with the messages that follow.
    pub fn note_spent(&mut self, spent: Spent) {
        self.spent = Some(spent);
    }

    /// The model that the user chose; recorded with the prompts that follow, so that a resumed session stays with it.
    pub fn note_model(&mut self, model: Option<SessionModel>) {
        self.model = model;
    }

    /// What the records that follow survive. The end of the session waits until they do.
    pub fn set_durability(&mut self, durability: Durability) {
        self.recording.locked().syncing = match durability {
            Durability::Power => Some(Syncing::default()),
            Durability::Process => None,
        };
    }

    /// What records survive.
    pub fn durability(&self) -> Durability {
        match self.recording.locked().syncing {
            Some(_) => Durability::Power,
            None => Durability::Process,
        }
    }

    /// Tries once more, at the end of a session, to write what could not be written, and waits until all records are
    /// synced. Fails if something failed and this has not been reported.
    pub fn finish(&self) -> Result<(), RecordError> {
        self.recording.locked().finish()
    }

    /// What the user has to know, each event once.
    pub fn take_event(&self) -> Option<RecorderEvent> {
        let mut recording = self.recording.locked();
        let event = recording.events.pop_front();
        event.or_else(|| {
            // Who was told that nothing is recorded must not believe that it is.
            let is_recorded = matches!(recording.target, Target::Open(_)) && recording.pending.is_empty();
            let is_synced = is_recorded && recording.syncing.as_ref().is_some_and(Syncing::take_recovery);
            is_synced.then_some(RecorderEvent::Synced)
        })
    }

    /// A handle for the session's title, which also works while the recorder is in use elsewhere.
    pub fn title_writer(&self) -> TitleWriter {
        TitleWriter::of(&self.recording)
    }

    /// Whether messages are recorded with what was spent.
    pub fn records_spent(&self) -> bool {
        self.spent.is_some()
    }

    fn add_spent(&self, message: &mut JsonObject) {
        if let Some(spent) = &self.spent {
            own::add_spent(message, spent);
        }
    }

    /// Records a user message as sent to the model; `typed` is the text as typed.
    pub fn user(
        &mut self,
        parts: &[Part],
        typed: Option<&str>,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        self.user_from(UserSource::Prompt, parts, typed, now)
    }

    /// Records a user message that did not begin a turn.
    pub fn user_from(
        &mut self,
        source: UserSource,
        parts: &[Part],
        typed: Option<&str>,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_message_id();
        let mut message = encode::user(&id, parts, typed, now);
        own::add_source(&mut message, source);
        if let Some(model) = self.model.as_ref().filter(|model| !model.is_implied()) {
            own::add_model(&mut message, model);
        }
        self.append(message, true, now)?;
        Ok(id)
    }

    /// Records a reply. Its calls are in the file as pending before they run.
    pub fn reply(&mut self, reply: &ReplyRecord, now: Timestamp) -> Result<MessageId, RecordError> {
        self.reply_as(new_message_id(), reply, now)
    }

    /// Records a reply under an id created in advance.
    pub fn reply_as(
        &mut self,
        id: MessageId,
        reply: &ReplyRecord,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let mut message = encode::reply(&id, reply, now);
        self.add_spent(&mut message);
        // Of another provider: it stands in for the chosen one, which a prompt need not name.
        if let (Some(model), Some(origin)) = (&self.model, &reply.origin)
            && model.is_implied()
            && !is_implied(origin.provider.as_str())
        {
            own::add_model(&mut message, model);
        }
        self.write(Change { now, kind: ChangeKind::Reply { message, calls: Cow::Borrowed(&reply.calls) } })?;
        Ok(id)
    }

    /// Records how calls of the last reply ended. Calls that are unknown or already ended are left alone.
    pub fn results(&mut self, results: &[CallResult], now: Timestamp) -> Result<(), RecordError> {
        {
            let recording = self.recording.locked();
            if matches!(recording.target, Target::Waiting(_)) && recording.pending.is_empty() {
                return Ok(());
            }
        }
        let ended = results.iter().map(|result| EndedCall {
            id: Cow::Borrowed(&result.id),
            status: result.status,
            fields: encode::result(result),
        });
        self.write(Change { now, kind: ChangeKind::Results(ended.collect()) })
    }

    /// Records a notice for the user.
    pub fn notice(
        &mut self,
        severity: Severity,
        text: &str,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_message_id();
        self.append(encode::notice(&id, severity, text, now), false, now)?;
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
        let id = new_message_id();
        let mut message = encode::notice(&id, Severity::Info, text, now);
        message.insert("compression".into(), encode::compression(keep_from, snapshot));
        self.append(message, false, now)?;
        Ok(id)
    }

    /// Removes this message and everything after it. In a record log that appends a line; a document
    /// is replaced by a shorter one, and a backup is kept.
    pub fn rewind(&mut self, to: &str, now: Timestamp) -> Result<(), RecordError> {
        rewind::rewind(self, to, now)
    }

    /// Copies a session that another process is writing to a new one: same history, new id, and a
    /// notice that names the origin.
    pub fn fork(session: &StoredSession, spec: &NewSession) -> Result<(Self, StoredSession), ForkError> {
        let copy = import::fork(session, spec)?;
        Ok((Self::resume(&copy)?, copy))
    }

    fn append(
        &mut self,
        mut message: JsonObject,
        is_prompt: bool,
        now: Timestamp,
    ) -> Result<(), RecordError> {
        self.add_spent(&mut message);
        self.write(Change { now, kind: ChangeKind::Message { message, is_prompt } })
    }

    fn write(&mut self, mut change: Change<'_>) -> Result<(), RecordError> {
        change.limit_depth();
        let mut recording = self.recording.locked();
        let written = recording.write(change);
        // The name may have been taken, or the session may continue in another file.
        if let Target::Open(file) = &recording.target
            && self.path.as_ref() != Some(&file.path)
        {
            self.path = Some(file.path.clone());
            self.id = file.identity.id.clone();
        }
        written
    }
}

/// A new message id.
pub fn new_message_id() -> MessageId {
    uuid::Uuid::new_v4().to_string()
}

/// An id made safe for file names, as upstream does it.
pub(crate) fn sanitised(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}
