//! Creates the file of a new session: it gets its name together with its first message.
//!
//! Even after a crash, readers find a complete session or none, never an empty or partial one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};
use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::json;

use super::document_writer::DocumentWriter;
use super::log_writer::LogWriter;
use super::medium::{Medium, SessionFile, WriteFailure};
use super::open_file::{OpenFile, SessionIdentity, note_name};
use super::syncing::Syncing;
use super::{Form, RecordError, sanitised};
use crate::kind::SessionKind;
use crate::lock::{Lock, LockError};
use crate::record::{NewSession, extension};

/// A session without a message, under a name that no reader looks at.
pub(super) struct NewFile {
    path: PathBuf,
    draft: PathBuf,
    file: OpenFile,
    syncing: Option<Syncing>,
}

/// The name of a new session, with its lock, and a file for what it will hold.
pub(super) struct Reserved {
    pub(super) path: PathBuf,
    pub(super) draft: PathBuf,
    pub(super) file: File,
    pub(super) lock: Lock,
}

/// Takes a free name and its lock, and creates the draft.
pub(super) fn reserve(spec: &NewSession) -> Result<Reserved, RecordError> {
    let dir = &spec.chats_dir;
    files::create_folder(dir, Mode::Private)
        .map_err(|error| RecordError::Create { path: dir.clone(), source: error.into_source() })?;
    let taken = io::ErrorKind::AlreadyExists.into();
    let mut failure = RecordError::Create { path: dir.clone(), source: taken };
    for attempt in 0..1000 {
        let path = free_path(spec, attempt);
        let lock = match Lock::take(&path) {
            Ok(lock) => lock,
            // Another process is creating a session with the same name.
            Err(LockError::Held(owner)) => {
                failure = RecordError::InUse { holder: owner.holder(&path), path };
                continue;
            }
            Err(LockError::Io(source)) => return Err(RecordError::Create { path, source }),
        };
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        let draft = draft_path(&path);
        // While we hold the lock, an existing draft belongs to a dead process.
        let _ = fs::remove_file(&draft);
        let file =
            create_draft(&draft).map_err(|source| RecordError::Create { path: path.clone(), source })?;
        return Ok(Reserved { path, draft, file, lock });
    }
    Err(failure)
}

pub(super) fn create_draft(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

impl NewFile {
    /// Takes the lock and creates the file; what goes into it comes with the first message.
    pub(super) fn create(spec: &NewSession, syncing: Option<&Syncing>) -> Result<Self, RecordError> {
        let Reserved { path, draft, file, lock } = reserve(spec)?;
        let mut medium = SessionFile::unnamed(file, &path);
        if let Some(syncing) = syncing {
            medium.sync_with(syncing);
        }
        let form = new_form(spec, medium);
        let file = OpenFile::new(path.clone(), form, SessionIdentity::of_new(spec), Some(lock));
        Ok(Self { path, draft, file, syncing: syncing.cloned() })
    }

    /// Writes the first message and gives the file its name. If either fails nothing is left.
    pub(super) fn publish(
        mut self,
        change: impl FnOnce(&mut Form) -> Result<(), WriteFailure>,
    ) -> Result<OpenFile, RecordError> {
        let written = change(&mut self.file.form).map_err(|failure| failure.on(self.path.clone()));
        let named = written.and_then(|()| {
            give_name(&self.draft, &self.path)
                .map_err(|source| RecordError::Create { path: self.path.clone(), source })
        });
        if let Err(error) = named {
            let _ = fs::remove_file(&self.draft);
            return Err(error);
        }
        self.file.form.medium().named();
        note_name(&self.path, self.syncing.as_ref());
        Ok(self.file)
    }
}

/// Where the file of a session is before it has a message.
pub(crate) fn draft_path(session: &Path) -> PathBuf {
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    session.with_file_name(format!(".{name}.new"))
}

/// Gives the draft its name unless another program has taken it.
///
/// Not with a hard link: some file systems cache each name of a file separately, so a reader of one name may not yet see
/// what was written through the other.
pub(super) fn give_name(draft: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(io::ErrorKind::AlreadyExists.into()),
        // The file system, or a filter on system calls, may not support `RENAME_NOREPLACE`.
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(draft, path),
    }
}

pub(super) fn new_form(spec: &NewSession, medium: Box<dyn Medium>) -> Form {
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
pub(super) fn free_path(spec: &NewSession, attempt: i64) -> PathBuf {
    let extension = extension(spec.format);
    let stem = match (spec.kind, attempt) {
        (SessionKind::Subagent, 0) => sanitised(spec.id.as_str()),
        (SessionKind::Subagent, n) => format!("{}-{n}", sanitised(spec.id.as_str())),
        (SessionKind::Main, 0) => format!("session-{}-{}", spec.now.to_file_minute(), spec.id.short()),
        (SessionKind::Main, n) => format!("session-{}-{}", spec.now.millis() + n - 1, spec.id.short()),
    };
    spec.chats_dir.join(format!("{stem}.{extension}"))
}
