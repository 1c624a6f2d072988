//! Continues a session whose file another program deleted, replaced or changed.
//!
//! A deleted file is written again under its name. If the name leads to something else, which stays as it is, the
//! session continues in a new file with a new id: two files of one id would hide each other in lists and be deleted
//! together. The content comes from the file that is still open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};
use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::event::Severity;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use super::document_writer::DocumentWriter;
use super::log_writer::LogWriter;
use super::medium::{Medium, SessionFile};
use super::new_file::{create_draft, draft_path, give_name, reserve};
use super::open_file::{OpenFile, SessionIdentity};
use super::syncing::Syncing;
use super::{Form, RecordError, RecorderEvent, new_message_id};
use crate::load::{Folded, Layout, fold, fold_or_salvage};
use crate::lock::{Lock, LockError};
use crate::message::encode;
use crate::record::NewSession;
use crate::redo;
use crate::summary::Moved;

/// The fields before the messages are shorter than this.
const MAX_HEAD: u64 = 64 << 10;
const CHUNK: usize = 64 << 10;
const ID_KEY: &[u8] = b"\n  \"sessionId\": ";
const MESSAGES: &[u8] = b"\n  \"messages\": [";

/// A session whose path no longer leads to what was written.
pub(super) struct Displaced<'a> {
    pub(super) path: &'a Path,
    pub(super) identity: &'a SessionIdentity,
    pub(super) lock: Option<&'a Lock>,
    /// `None` if nothing was written yet.
    pub(super) form: Option<&'a Form>,
    pub(super) content: Content,
}

/// What can be read of the session.
pub(super) enum Content {
    /// All of it: so many bytes of the open file, and an end that a failed write has overwritten.
    Whole { length: u64, end: Vec<u8> },
    /// What is left after another program changed it.
    Rest(Option<Folded>),
}

/// The session in its new place.
pub(super) struct Relocated {
    pub(super) path: PathBuf,
    pub(super) identity: SessionIdentity,
    pub(super) form: Form,
    /// `None` if the lock that is held is still the right one.
    pub(super) lock: Option<Lock>,
    pub(super) event: RecorderEvent,
}

/// A file that has no name yet.
struct Draft {
    path: PathBuf,
    draft: PathBuf,
    file: File,
    lock: Option<Lock>,
    id: SessionId,
}

/// Whether nothing has this name.
pub(super) fn is_gone(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Continues in the file at the path if it is an exact copy, as programs leave it that write a copy and rename it.
pub(super) fn adopt_copy(file: &mut OpenFile) -> io::Result<bool> {
    let length = file.form.length();
    let is_copy = |metadata: fs::Metadata| metadata.is_file() && metadata.len() == length;
    if file.torn.is_some()
        || file.form.medium_ref().len()? != length
        || !fs::metadata(&file.path).is_ok_and(is_copy)
    {
        return Ok(false);
    }
    let Ok(copy) = OpenOptions::new().read(true).write(true).open(&file.path) else { return Ok(false) };
    let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < length {
        let size = usize::try_from(length - at).map_or(CHUNK, |left| left.min(CHUNK));
        let (Some(ours), Some(theirs)) = (ours.get_mut(..size), theirs.get_mut(..size)) else { break };
        read_exact(file.form.medium_ref(), ours, at)?;
        copy.read_exact_at(theirs, at)?;
        if ours != theirs {
            return Ok(false);
        }
        at += size as u64;
    }
    // What waits to be synced is in the other file.
    files::sync(&copy)?;
    file.form.set_medium(SessionFile::boxed(copy, &file.path));
    Ok(true)
}

/// Writes the session to a new place; see [`self`].
pub(super) fn relocate(
    displaced: &Displaced<'_>,
    syncing: Option<&Syncing>,
    now: Timestamp,
) -> Result<Relocated, RecordError> {
    let same = if is_gone(displaced.path) { same_place(displaced)? } else { None };
    if let Some(draft) = same {
        match displaced.publish(draft, syncing, now) {
            // Another program was faster.
            Err(RecordError::Write { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            published => return published,
        }
    }
    displaced.publish(new_place(displaced, now)?, syncing, now)
}

/// The old path; `None` if another process has its lock.
fn same_place(displaced: &Displaced<'_>) -> Result<Option<Draft>, RecordError> {
    let path = displaced.path.to_owned();
    let failed = |source| RecordError::Write { path: path.clone(), source };
    let folder = path.parent().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    files::create_folder(folder, Mode::Private).map_err(|error| failed(error.into_source()))?;
    let lock = match displaced.lock {
        Some(lock) if lock.is_held() => None,
        _ => match Lock::take(&path) {
            Ok(lock) => Some(lock),
            Err(LockError::Held(_)) => return Ok(None),
            Err(LockError::Io(source)) => return Err(failed(source)),
        },
    };
    let draft = draft_path(&path);
    let _ = fs::remove_file(&draft);
    let file = create_draft(&draft).map_err(failed)?;
    Ok(Some(Draft { path, draft, file, lock, id: displaced.identity.id.clone() }))
}

fn new_place(displaced: &Displaced<'_>, now: Timestamp) -> Result<Draft, RecordError> {
    let spec = NewSession {
        id: SessionId::random(),
        project_hash: displaced.identity.project_hash.clone().unwrap_or_default(),
        chats_dir: displaced.path.parent().unwrap_or(Path::new("")).to_owned(),
        format: displaced.format(),
        kind: displaced.identity.kind,
        now,
    };
    let reserved = reserve(&spec)?;
    Ok(Draft {
        path: reserved.path,
        draft: reserved.draft,
        file: reserved.file,
        lock: Some(reserved.lock),
        id: spec.id,
    })
}

impl Displaced<'_> {
    fn format(&self) -> SessionFormat {
        match self.form {
            Some(Form::Log(_)) => SessionFormat::Jsonl,
            Some(Form::Document(_)) | None => SessionFormat::Json,
        }
    }

    /// Fills a draft and gives it its name. If that fails nothing is left of it.
    fn publish(
        &self,
        draft: Draft,
        syncing: Option<&Syncing>,
        now: Timestamp,
    ) -> Result<Relocated, RecordError> {
        let Draft { path, draft, file, lock, id } = draft;
        let named = self.fill(file, &path, &id, now).and_then(|form| {
            give_name(&draft, &path)?;
            Ok(form)
        });
        let mut form = match named {
            Ok(form) => form,
            Err(source) => {
                let _ = fs::remove_file(&draft);
                return Err(RecordError::Write { path, source });
            }
        };
        form.medium().named();
        if let Some(syncing) = syncing {
            form.medium().sync_with(syncing);
            syncing.named(path.parent().unwrap_or(Path::new("")));
        }
        let is_complete = matches!(self.content, Content::Whole { .. });
        let event = if id == self.identity.id {
            // A note of the deleted file does not fit the new one.
            redo::discard(&path);
            RecorderEvent::Restored { path: path.clone(), is_complete }
        } else {
            let (from, path) = (self.path.to_owned(), path.clone());
            RecorderEvent::Continued { from, path, id: id.clone(), is_complete }
        };
        let identity = SessionIdentity { id, ..self.identity.clone() };
        Ok(Relocated { path, identity, form, lock, event })
    }

    /// Writes the session to a file and syncs it.
    fn fill(&self, file: File, path: &Path, id: &SessionId, now: Timestamp) -> io::Result<Form> {
        let on_disk = file.try_clone()?;
        let copied = match (&self.content, self.form) {
            (Content::Whole { length, end }, Some(form)) => {
                copy(form, *length, end, (*id != self.identity.id).then_some(id), &file)?
            }
            _ => None,
        };
        let medium = SessionFile::unnamed(file, path);
        let mut form = match (copied, self.form, &self.content) {
            (Some(moved), Some(form), _) => form.on_copy(medium, moved),
            (_, _, Content::Rest(folded)) => self.rebuild(folded.as_ref(), medium, id, now)?,
            (_, Some(form), Content::Whole { length, end }) => {
                let bytes = [read_all(form.medium_ref(), *length)?, end.clone()].concat();
                on_disk.set_len(0)?;
                self.rebuild(fold_or_salvage(path, &bytes).ok().as_ref(), medium, id, now)?
            }
            (_, None, Content::Whole { .. }) => self.rebuild(None, medium, id, now)?,
        };
        if *id != self.identity.id || matches!(self.content, Content::Rest(_)) {
            form.append(&self.origin(now), now).map_err(|failure| failure.into_source())?;
        }
        files::sync(&on_disk)?;
        Ok(form)
    }

    /// A notice that names the origin of a new session.
    fn origin(&self, now: Timestamp) -> JsonObject {
        let old = &self.identity.id;
        let text = format!("Continued from session {old}: another program changed its file");
        let mut note = encode::notice(&new_message_id(), Severity::Warning, &text, now);
        note.insert(
            "forkedFrom".into(),
            json!({"sessionId": old.as_str(), "file": self.path.to_string_lossy()}),
        );
        note
    }

    /// Writes these messages and the last reply, whose calls may still wait for their results.
    fn rebuild(
        &self,
        folded: Option<&Folded>,
        medium: Box<dyn Medium>,
        id: &SessionId,
        now: Timestamp,
    ) -> io::Result<Form> {
        let mut meta = folded.map(|folded| folded.meta.clone()).unwrap_or_default();
        self.identity.complete(&mut meta, id, now);
        let mut form = match self.format() {
            SessionFormat::Json => Form::Document(DocumentWriter::begin(medium, &meta, now)),
            SessionFormat::Jsonl => Form::Log(LogWriter::begin(medium, &meta)),
        };
        let open = match self.form {
            Some(Form::Document(writer)) => writer.open_reply_id(),
            Some(Form::Log(_)) | None => None,
        };
        let messages = folded.map(|folded| folded.messages.as_slice()).unwrap_or_default();
        let is_written = |message: &&Value| {
            open.is_none_or(|open| message.get("id").and_then(Value::as_str) != Some(open))
        };
        for message in messages.iter().take_while(is_written).filter_map(Value::as_object) {
            form.append(message, now).map_err(|failure| failure.into_source())?;
        }
        if let Some(old) = self.form {
            form.continue_reply(old).map_err(|failure| failure.into_source())?;
        }
        Ok(form)
    }
}

/// What can be read of an open session.
pub(super) fn content_of(file: &OpenFile) -> io::Result<Content> {
    let (medium, expected) = (file.form.medium_ref(), file.form.length());
    let length = medium.len()?;
    match &file.torn {
        Some(torn) if torn.left == Some(length) => {
            return Ok(Content::Whole { length: torn.at, end: torn.old.clone() });
        }
        None if length == expected => return Ok(Content::Whole { length, end: Vec::new() }),
        Some(_) | None => {}
    }
    let bytes = read_all(medium, length)?;
    let ours = usize::try_from(expected).ok().and_then(|expected| bytes.get(..expected));
    // Another program may only have added something.
    if let Some(ours) = ours.filter(|_| file.torn.is_none())
        && fold(&file.path, ours).is_ok_and(|folded| is_whole(&folded))
    {
        return Ok(Content::Whole { length: expected, end: Vec::new() });
    }
    Ok(Content::Rest(left_of(file, &bytes)))
}

/// What can be read of the damaged bytes of a session, even if they no longer tell which one it is.
fn left_of(file: &OpenFile, bytes: &[u8]) -> Option<Folded> {
    let named = || {
        let (id, text) = (Value::from(file.identity.id.as_str()), String::from_utf8_lossy(bytes));
        match &file.form {
            Form::Log(_) => format!("{{\"sessionId\":{id}}}\n{text}"),
            // The first line holds the bracket alone.
            Form::Document(_) => {
                format!("{{\"sessionId\":{id},\n{}", text.split_once('\n').map_or("", |(_, rest)| rest))
            }
        }
    };
    let told = fold_or_salvage(&file.path, bytes).ok();
    told.or_else(|| fold_or_salvage(&file.path, named().as_bytes()).ok())
}

fn is_whole(folded: &Folded) -> bool {
    folded.repaired.is_none() && !matches!(folded.layout, Layout::Other)
}

/// Copies the beginning of a session with this end, and with this id if there is one. `None` if the place of the id was
/// not found; nothing is written then.
fn copy(
    form: &Form,
    length: u64,
    end: &[u8],
    id: Option<&SessionId>,
    mut out: &File,
) -> io::Result<Option<Moved>> {
    let medium = form.medium_ref();
    let mut moved = Moved { from: 0, added: 0, removed: 0 };
    let mut at = 0;
    if let Some(id) = id {
        let head = read_all(medium, length.min(MAX_HEAD))?;
        let Some((start, old_end, new)) = with_id(form, &head, id) else { return Ok(None) };
        out.write_all(head.get(..start).unwrap_or_default())?;
        out.write_all(&new)?;
        moved = Moved {
            from: start as u64,
            added: new.len() as u64,
            removed: old_end.saturating_sub(start) as u64,
        };
        at = old_end as u64;
    }
    let mut buffer = vec![0; CHUNK];
    while at < length {
        let size = usize::try_from(length - at).map_or(CHUNK, |left| left.min(CHUNK));
        let Some(part) = buffer.get_mut(..size) else { break };
        read_exact(medium, part, at)?;
        out.write_all(part)?;
        at += size as u64;
    }
    out.write_all(end)?;
    Ok(Some(moved))
}

/// Where the id is, and what replaces it.
fn with_id(form: &Form, head: &[u8], id: &SessionId) -> Option<(usize, usize, Vec<u8>)> {
    let find = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).position(|found| found == wanted);
    match form {
        Form::Document(_) => {
            let fields = head.get(..find(head, MESSAGES)?)?;
            let start = find(fields, ID_KEY)? + ID_KEY.len();
            let line = fields.get(start..)?.split(|byte| *byte == b'\n').next()?;
            let value = line.strip_suffix(b",")?;
            Some((start, start + value.len(), Value::from(id.as_str()).to_string().into_bytes()))
        }
        Form::Log(_) => {
            let line = head.get(..find(head, b"\n")?)?;
            let mut meta: JsonObject = serde_json::from_slice(line).ok()?;
            *meta.get_mut("sessionId")? = json!(id.as_str());
            Some((0, line.len(), serde_json::to_vec(&meta).ok()?))
        }
    }
}

fn read_exact(medium: &dyn Medium, buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    let mut rest = buffer;
    while !rest.is_empty() {
        let read = medium.read_at(at, rest)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += read as u64;
        rest = rest.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}

fn read_all(medium: &dyn Medium, length: u64) -> io::Result<Vec<u8>> {
    if length > files::MAX_SESSION_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    read_exact(medium, &mut bytes, 0)?;
    Ok(bytes)
}
