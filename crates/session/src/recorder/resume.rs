//! Resumes a stored session in its own file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pollux_config::files;
use serde_json::Value;

use super::document_writer::DocumentWriter;
use super::log_writer::LogWriter;
use super::medium::SessionFile;
use super::open_file::{OpenFile, SessionIdentity};
use super::recording::{Recording, Target};
use super::relocate::{Relocated, is_gone};
use super::{Form, RecordError, Recorder, RecorderEvent, rewrite};
use crate::blobs::Blobs;
use crate::document::{self, INDENT, TAIL};
use crate::load::{self, FileStamp, Folded, Layout, LoadError, StoredSession};
use crate::lock::{Lock, LockError, LockHolder};
use crate::redo;
use crate::stream::Stream;

/// Why a session cannot be resumed. Its file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error(
        "session file `{}` is in use by {}; add `--fork` to resume into a new session",
        path.display(), holder
    )]
    InUse { path: PathBuf, holder: LockHolder },
    #[error("session file `{}` changed while it was being opened; try again", path.display())]
    Changed { path: PathBuf },
    #[error("could not lock session file `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("could not resume session file `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("session file `{}` could not be converted without loss and was left unchanged", path.display())]
    Inconvertible { path: PathBuf },
}

pub(super) fn resume(session: &StoredSession) -> Result<Recorder, ResumeError> {
    let path = real_path(&session.path);
    let lock = Lock::take(&path).map_err(|error| match error {
        LockError::Held(owner) => ResumeError::InUse { path: path.clone(), holder: owner.holder(&path) },
        LockError::Io(source) => ResumeError::Lock { path: path.clone(), source },
    })?;
    let write = |source| ResumeError::Write { path: path.clone(), source };
    let now = fs::metadata(&path).map_err(write)?;
    if load::stamp_of(&now) != session.stamp {
        return Err(ResumeError::Changed { path });
    }
    // Neither a repair nor another note may come before the noted write is on the disk.
    redo::sync_noted(&path).map_err(write)?;
    let target = match continue_file(&path, session).map_err(write)? {
        Continued::Form(form) => {
            redo::discard(&path);
            Target::Open(OpenFile::new(path.clone(), form, SessionIdentity::of_stored(session), Some(lock)))
        }
        Continued::NeedsRewrite => {
            let session = session.without_messages();
            let file = File::open(&path).map_err(write)?;
            let unconverted = Unconverted { path: path.clone(), session, lock, file };
            // Truncated files are repaired at once; files in another layout stay unchanged until a message is added.
            if unconverted.session.repaired.is_some() {
                let form = unconverted.convert()?;
                Target::Open(unconverted.opened(form))
            } else {
                Target::Unconverted(Box::new(unconverted))
            }
        }
        Continued::Changed => return Err(ResumeError::Changed { path }),
    };
    let blobs = Some(Blobs::of_chats(path.parent().unwrap_or(Path::new("")), session.kind));
    let recording = Recording::of(target, blobs);
    let id = session.id.clone();
    Ok(Recorder { id, path: Some(path), recording, spent: None, model: None })
}

/// A lock belongs to the file, whatever link led to it.
fn real_path(path: &Path) -> PathBuf {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link { fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() }
}

/// An unmodified file in a foreign layout.
#[derive(Debug)]
pub(super) struct Unconverted {
    path: PathBuf,
    /// Without its messages.
    session: StoredSession,
    lock: Lock,
    /// Still readable after another program has deleted it.
    file: File,
}

impl Unconverted {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the file into our layout. If that fails it is unchanged, and this may be tried again.
    pub(super) fn convert(&self) -> Result<Form, ResumeError> {
        let (path, session) = (&self.path, &self.session);
        let write = |source| ResumeError::Write { path: path.clone(), source };
        let stream = Stream::whole_object(path, session.stamp)
            .filter(|_| session.repaired.is_none() && !redo::is_noted(path));
        if let Some(stream) = stream
            && let Some(form) = rewrite::streamed(path, &stream, session).map_err(write)?
        {
            return Ok(form);
        }
        let (bytes, stamp, folded) = load::read_folded(path)?;
        if stamp != session.stamp {
            return Err(ResumeError::Changed { path: path.clone() });
        }
        let form = rewrite::whole(path, &bytes, folded, session)
            .map_err(write)?
            .ok_or_else(|| ResumeError::Inconvertible { path: path.clone() })?;
        redo::discard(path);
        Ok(form)
    }

    /// The file after it was converted.
    pub(super) fn opened(self, form: Form) -> OpenFile {
        let identity = self.identity();
        OpenFile::new(self.path, form, identity, Some(self.lock))
    }

    /// The file in its new place.
    pub(super) fn moved(self, relocated: Relocated) -> (OpenFile, RecorderEvent) {
        let Relocated { path, identity, form, lock, event } = relocated;
        (OpenFile::new(path, form, identity, Some(lock.unwrap_or(self.lock))), event)
    }

    pub(super) fn identity(&self) -> SessionIdentity {
        SessionIdentity::of_stored(&self.session)
    }

    pub(super) fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Whether another program deleted or changed the file since it was read.
    pub(super) fn is_changed(&self) -> bool {
        let is_other = |now: fs::Metadata| load::stamp_of(&now) != self.session.stamp;
        is_gone(&self.path) || fs::metadata(&self.path).is_ok_and(is_other)
    }

    /// What can be read of the file that was opened.
    pub(super) fn folded(&self) -> Option<Folded> {
        let length = self.file.metadata().ok()?.len();
        let bytes = read_from(&self.file, 0, length.min(files::MAX_SESSION_BYTES)).ok()?;
        load::fold_or_salvage(&self.path, &bytes).ok()
    }
}

impl ResumeError {
    /// What it means for a message that could not be added.
    pub(super) fn on_write(self, path: &Path) -> RecordError {
        let path = path.to_owned();
        match self {
            Self::Write { source, .. } => RecordError::Write { path, source },
            Self::Changed { .. } => RecordError::ChangedByOthers { path },
            other => RecordError::Write { path, source: io::Error::other(other) },
        }
    }
}

enum Continued {
    Form(Form),
    /// Another layout than the writers'.
    NeedsRewrite,
    /// Not what was loaded.
    Changed,
}

/// Goes on where the loaded file ends; the file is not read again.
fn continue_file(path: &Path, session: &StoredSession) -> io::Result<Continued> {
    let file = open(path)?;
    match session.layout {
        Layout::Document { stamp_at: Some(stamp_at), end, torn, holds_data, salvaged, follows } => {
            let rest = read_from(&file, end, session.stamp.length)?;
            if !torn && rest != TAIL {
                return Ok(Continued::Changed);
            }
            let end = if torn {
                if holds_data {
                    keep_copy(path, &rest, "torn", session.stamp)?;
                }
                let last = if salvaged { document::salvaged(&rest) } else { None };
                mend(path, &file, end, &rest, last.as_ref(), follows)?
            } else {
                end
            };
            let writer = DocumentWriter::continue_at(
                SessionFile::boxed(file, path),
                stamp_at,
                end,
                follows || salvaged,
            );
            Ok(Continued::Form(Form::Document(writer)))
        }
        Layout::Log { ends_with_newline } => {
            let writer = LogWriter::continue_at(
                SessionFile::boxed(file, path),
                session.stamp.length,
                ends_with_newline,
            );
            Ok(Continued::Form(Form::Log(writer)))
        }
        Layout::Document { stamp_at: None, .. } | Layout::Other => Ok(Continued::NeedsRewrite),
    }
}

fn read_from(file: &File, at: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(at)).unwrap_or(0)];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, at)?;
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Puts the salvaged message and the tail behind the last whole message, in place of the rest. Returns where
/// the tail is.
fn mend(
    path: &Path,
    file: &File,
    end: u64,
    rest: &[u8],
    salvaged: Option<&Value>,
    after_others: bool,
) -> io::Result<u64> {
    let mut added = Vec::new();
    if let Some(message) = salvaged {
        if after_others {
            added.push(b',');
        }
        added.extend_from_slice(INDENT);
        added.extend_from_slice(message.to_string().as_bytes());
    }
    let tail_at = end + added.len() as u64;
    added.extend_from_slice(TAIL);
    redo::keep_synced(path, &redo::encode(end, rest, &added));
    std::os::unix::fs::FileExt::write_all_at(file, &added, end)?;
    file.set_len(end + added.len() as u64)?;
    file.sync_all()?;
    Ok(tail_at)
}

/// Saves bytes that are about to be cut off to a backup file, so that nothing is lost.
pub(super) fn keep_copy(path: &Path, bytes: &[u8], why: &str, stamp: FileStamp) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for millis in stamp.modified_ms.. {
        let copy = path.with_file_name(format!("{name}.{why}-{millis}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                files::sync_folder(path.parent().unwrap_or(Path::new("")))?;
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
