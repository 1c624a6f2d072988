//! The single writer of a session.

mod document_writer;
mod log_writer;
mod medium;
mod new_file;
mod resume;
mod rewind;
mod rewrite;
mod syncing;
mod unsynced;

#[cfg(test)]
mod tests;

pub(crate) use medium::replace_file;
pub(crate) use new_file::draft_path;
pub(crate) use unsynced::SyncedFile;
pub use resume::ResumeError;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use pollux_config::groups::Durability;
use pollux_domain::JsonObject;
use pollux_domain::budget::Spent;
use pollux_domain::content::Part;
use pollux_domain::event::{CallStatus, Severity};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::sync::Locked as _;
use pollux_domain::time::Timestamp;

use crate::blobs::{Blobs, Guard, Record};
use crate::import::{self, ImportError};
use crate::kind::SessionKind;
use crate::load::StoredSession;
use crate::lock::Lock;
use crate::message::own::UserSource;
use crate::message::{MessageId, encode, own};
use crate::record::{CallRecord, CallResult, NewSession, ReplyRecord, extension};
use crate::reserved::is_reserved;
use crate::session_model::{SessionModel, is_implied};
use document_writer::DocumentWriter;
use log_writer::LogWriter;
use medium::{Medium, WriteFailure};
use new_file::{NewFile, free_path};
use resume::Unconverted;
use syncing::Syncing;

/// How a call ended, as it goes into the file.
#[derive(Debug)]
struct EndedCall<'a> {
    id: &'a CallId,
    status: CallStatus,
    /// Its result and what people see of it.
    fields: JsonObject,
}

/// Why a record failed. The file is valid and unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("could not create session file `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("could not write session file `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "could not write session file `{}` or restore its previous content; recording stopped, and \
         the next resume repairs the end of the file", path.display()
    )]
    Unrestored { path: PathBuf, source: io::Error },
    #[error(
        "session file `{}` was changed by another program; recording stopped", path.display()
    )]
    ChangedByOthers { path: PathBuf },
    #[error("could not sync session file `{}`; a power failure may lose the last messages", path.display())]
    Unsynced { path: PathBuf, source: io::Error },
    #[error("session file `{}` is being written by process {pid}", path.display())]
    InUse { path: PathBuf, pid: u32 },
    #[error("session file `{}` has no message `{id}` to rewind to", path.display())]
    NoSuchMessage { path: PathBuf, id: MessageId },
    #[error("the session is not recorded")]
    NotRecorded,
    #[error("session ID \"{0}\" is reserved for files of the project; choose another one")]
    ReservedId(SessionId),
}

impl RecordError {
    /// Whether nothing more can be written to the file.
    fn is_final(&self) -> bool {
        matches!(self, Self::Unrestored { .. } | Self::ChangedByOthers { .. })
    }

    /// Whether a message was written but may not be on the disk. Recording continues.
    pub fn is_unsynced(&self) -> bool {
        matches!(self, Self::Unsynced { .. }) && !self.is_disk_full()
    }

    /// Whether the disk is full; recording then stops without further errors.
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
    /// Where long texts and media go; `None` if everything stays in the file.
    blobs: Option<Blobs>,
    /// What the session has spent; written with each message.
    spent: Option<Spent>,
    /// The model that the user chose; written with prompts.
    model: Option<SessionModel>,
}

/// What is written to; shared with the handle that changes the title.
#[derive(Debug)]
struct Recording {
    target: Target,
    /// A title that waits for the file.
    title: Option<String>,
    /// Syncs records; `None` if they need to survive only the end of this process.
    syncing: Option<Syncing>,
}

#[derive(Debug)]
enum Target {
    /// Records nothing: disabled, or the disk is full.
    Off,
    /// The file appears with the first message.
    Waiting(NewSession),
    /// A file in another layout, converted with the first new message.
    Unconverted(Box<Unconverted>),
    Open(OpenFile),
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
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
        // Ids of sub-agents are not chosen by users.
        if spec.kind == SessionKind::Main && is_reserved(spec.id.as_str()) {
            return Err(RecordError::ReservedId(spec.id));
        }
        let path = free_path(&spec, 0);
        let blobs = Some(Blobs::of_chats(&spec.chats_dir, spec.kind));
        Ok(Self {
            id: spec.id.clone(),
            path: Some(path),
            recording: Recording::of(Target::Waiting(spec)),
            blobs,
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
            recording: Recording::of(Target::Off),
            blobs: None,
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

    /// Waits at the end of a session until all records are synced. Fails if a sync failed and this has not been
    /// reported.
    pub fn finish(&self) -> Result<(), RecordError> {
        let recording = self.recording.locked();
        if let Some(syncing) = &recording.syncing {
            syncing.finish();
        }
        recording.report_sync()
    }

    /// Whether all records are synced after a failure that was reported. Returns `true` only once per recovery.
    pub fn take_recovery(&self) -> bool {
        let recording = self.recording.locked();
        // Who was told that recording has stopped must not believe that it goes on.
        matches!(recording.target, Target::Open(_))
            && recording.syncing.as_ref().is_some_and(Syncing::take_recovery)
    }

    /// A handle for the session's title, which also works while the recorder is in use elsewhere.
    pub fn title_writer(&self) -> TitleWriter {
        TitleWriter(Arc::downgrade(&self.recording))
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
        let mut guard = Guard::default();
        self.extract(&mut message, Record::Prompt, &mut guard);
        self.append(message, now)?;
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
        self.write(|form| match form {
            Form::Document(writer) => writer.reply(&message, &reply.calls, now),
            Form::Log(writer) => writer.reply(message, &reply.calls, now),
        })?;
        Ok(id)
    }

    /// Records how calls of the last reply ended. Calls that are unknown or already ended are left alone.
    pub fn results(&mut self, results: &[CallResult], now: Timestamp) -> Result<(), RecordError> {
        if matches!(self.recording.locked().target, Target::Waiting(_)) {
            return Ok(());
        }
        let mut guard = Guard::default();
        let ended: Vec<EndedCall> = results
            .iter()
            .map(|result| {
                let mut fields = encode::result(result);
                self.extract(&mut fields, Record::Call, &mut guard);
                EndedCall { id: &result.id, status: result.status, fields }
            })
            .collect();
        self.write(|form| match form {
            Form::Document(writer) => writer.results(&ended, now),
            Form::Log(writer) => writer.results(&ended),
        })
    }

    /// Stores long values separately; the record must be written before the guard is dropped.
    fn extract(&self, fields: &mut JsonObject, record: Record, guard: &mut Guard) {
        if let (Some(blobs), Target::Waiting(_) | Target::Unconverted(_) | Target::Open(_)) =
            (&self.blobs, &self.recording.locked().target)
        {
            blobs.extract(fields, record, guard);
        }
    }

    /// Records a notice for the user.
    pub fn notice(
        &mut self,
        severity: Severity,
        text: &str,
        now: Timestamp,
    ) -> Result<MessageId, RecordError> {
        let id = new_message_id();
        self.append(encode::notice(&id, severity, text, now), now)?;
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
        self.append(message, now)?;
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

    fn append(&mut self, mut message: JsonObject, now: Timestamp) -> Result<(), RecordError> {
        self.add_spent(&mut message);
        self.write(|form| match form {
            Form::Document(writer) => writer.append(&message, now),
            Form::Log(writer) => writer.append(&message, now),
        })
    }

    /// Opens the file if needed, writes, and handles failures.
    fn write(
        &mut self,
        change: impl FnOnce(&mut Form) -> Result<(), WriteFailure>,
    ) -> Result<(), RecordError> {
        let mut recording = self.recording.locked();
        if let Err(error) = recording.prepare() {
            recording.target = Target::Off;
            return Err(error);
        }
        let Recording { target, syncing, .. } = &mut *recording;
        let written = match target {
            Target::Off => return Ok(()),
            Target::Waiting(spec) => NewFile::create(spec, syncing.as_ref()).and_then(|file| {
                let (path, file) = file.publish(change)?;
                self.path = Some(path);
                *target = Target::Open(file);
                Ok(())
            }),
            Target::Unconverted(_) => Ok(()),
            Target::Open(file) => change(&mut file.form).map_err(|failure| failure.on(file.path.clone())),
        };
        let written = written.and_then(|()| recording.write_waiting_title());
        let written = written.and_then(|()| recording.report_sync());
        if let Err(error) = &written
            && (error.is_final() || error.is_disk_full())
        {
            recording.target = Target::Off;
        }
        written
    }
}

/// Changes the title of a session that is being recorded. It does not keep the session's file open.
#[derive(Debug, Clone)]
pub struct TitleWriter(Weak<Mutex<Recording>>);

impl TitleWriter {
    /// Stores a title in place of another. Before the first message there is no file; the title then comes with it.
    pub fn set(&self, title: &str) -> Result<(), RecordError> {
        let recording = self.0.upgrade().ok_or(RecordError::NotRecorded)?;
        let recording = &mut *recording.locked();
        recording.prepare()?;
        match &mut recording.target {
            // After a failure recording goes on; if it cannot, the next message reports that.
            Target::Open(file) => {
                restore(recording.syncing.as_ref());
                file.set_title(title)?;
            }
            Target::Waiting(_) => {
                recording.title = Some(title.to_owned());
                return Ok(());
            }
            Target::Off | Target::Unconverted(_) => return Err(RecordError::NotRecorded),
        }
        // An older one may still wait.
        recording.title = None;
        Ok(())
    }
}

impl Recording {
    fn of(target: Target) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { target, title: None, syncing: None }))
    }

    /// Converts a file to our layout, and has later writes to it synced. A failure changes nothing.
    fn prepare(&mut self) -> Result<(), RecordError> {
        if let Target::Unconverted(unconverted) = &self.target {
            let form = unconverted.convert().map_err(|error| error.on_write(unconverted.path()))?;
            if let Target::Unconverted(unconverted) = std::mem::replace(&mut self.target, Target::Off) {
                self.target = Target::Open(unconverted.opened(form));
            }
        }
        if let (Some(syncing), Target::Open(file)) = (&self.syncing, &mut self.target) {
            file.form.medium().sync_with(syncing);
        }
        Ok(())
    }

    /// Fails once if records could not be synced.
    fn report_sync(&self) -> Result<(), RecordError> {
        let failure = self.syncing.as_ref().and_then(Syncing::take_failure);
        match (failure, &self.target) {
            (Some(source), Target::Open(file)) => {
                Err(RecordError::Unsynced { path: file.path.clone(), source })
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Writes a title that waits. If that fails and the file is as before, the next message tries again.
    fn write_waiting_title(&mut self) -> Result<(), RecordError> {
        let (Some(title), Target::Open(file)) = (&self.title, &mut self.target) else { return Ok(()) };
        restore(self.syncing.as_ref());
        match file.set_title(title) {
            Ok(()) => self.title = None,
            Err(error) if error.is_final() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }
}

/// Rewrites what a failed sync may have dropped, because the file is about to be read and replaced by a copy.
fn restore(syncing: Option<&Syncing>) {
    if let Some(syncing) = syncing {
        syncing.restore();
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(syncing) = &self.syncing {
            syncing.finish();
        }
    }
}

impl Form {
    fn medium(&mut self) -> &mut dyn Medium {
        match self {
            Self::Document(writer) => writer.medium(),
            Self::Log(writer) => writer.medium(),
        }
    }
}

impl OpenFile {
    fn set_title(&mut self, title: &str) -> Result<(), RecordError> {
        let written = match &mut self.form {
            Form::Document(writer) => writer.set_title(&self.path, title),
            Form::Log(writer) => writer.set_title(title),
        };
        written.map_err(|failure| failure.on(self.path.clone()))
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
