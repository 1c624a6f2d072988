//! A session's file that is open for records, and whose it is.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;
use serde_json::json;

use super::RecordError;
use super::change::Change;
use super::document_writer::DocumentWriter;
use super::log_writer::LogWriter;
use super::medium::{Medium, Torn, WriteFailure};
use super::syncing::Syncing;
use crate::kind::SessionKind;
use crate::load::StoredSession;
use crate::lock::Lock;
use crate::record::NewSession;
use crate::summary::Moved;

#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    pub(super) identity: SessionIdentity,
    /// The end of the file if a failed write has overwritten it.
    pub(super) torn: Option<Torn>,
    pub(super) lock: Option<Lock>,
}

/// What a session is besides its messages.
#[derive(Debug, Clone)]
pub(super) struct SessionIdentity {
    pub(super) id: SessionId,
    pub(super) project_hash: Option<String>,
    pub(super) start: Timestamp,
    pub(super) kind: SessionKind,
}

#[derive(Debug)]
pub(super) enum Form {
    Document(DocumentWriter),
    Log(LogWriter),
}

/// Has the folder of a file synced that has replaced another.
pub(super) fn note_name(path: &Path, syncing: Option<&Syncing>) {
    if let (Some(syncing), Some(folder)) = (syncing, path.parent()) {
        syncing.named(folder);
    }
}

impl Form {
    pub(super) fn medium(&mut self) -> &mut dyn Medium {
        match self {
            Self::Document(writer) => writer.medium(),
            Self::Log(writer) => writer.medium(),
        }
    }

    pub(super) fn medium_ref(&self) -> &dyn Medium {
        match self {
            Self::Document(writer) => writer.medium_ref(),
            Self::Log(writer) => writer.medium_ref(),
        }
    }

    pub(super) fn set_medium(&mut self, medium: Box<dyn Medium>) {
        match self {
            Self::Document(writer) => writer.set_medium(medium),
            Self::Log(writer) => writer.set_medium(medium),
        }
    }

    /// The length of the file after the last write.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Document(writer) => writer.length(),
            Self::Log(writer) => writer.length(),
        }
    }

    /// The same writer for a copy of the file.
    pub(super) fn on_copy(&self, medium: Box<dyn Medium>, moved: Moved) -> Self {
        match self {
            Self::Document(writer) => Self::Document(writer.on_copy(medium, moved)),
            Self::Log(writer) => Self::Log(writer.on_copy(medium, moved)),
        }
    }

    pub(super) fn append(&mut self, message: &JsonObject, now: Timestamp) -> Result<(), WriteFailure> {
        match self {
            Self::Document(writer) => writer.append(message, now),
            Self::Log(writer) => writer.append(message, now),
        }
    }

    /// Writes the last reply of another writer again if calls of it wait for their results.
    pub(super) fn continue_reply(&mut self, other: &Self) -> Result<(), WriteFailure> {
        match (self, other) {
            (Self::Document(writer), Self::Document(other)) => writer.continue_reply(other),
            (Self::Log(writer), Self::Log(other)) => writer.continue_reply(other),
            (Self::Document(_), Self::Log(_)) | (Self::Log(_), Self::Document(_)) => Ok(()),
        }
    }
}

impl OpenFile {
    pub(super) fn new(path: PathBuf, form: Form, identity: SessionIdentity, lock: Option<Lock>) -> Self {
        Self { path, form, identity, torn: None, lock }
    }

    pub(super) fn write(&mut self, change: &mut Change<'_>) -> Result<(), WriteFailure> {
        self.put_end_back()?;
        change.apply(&mut self.form)
    }

    /// Puts back the end that a failed write has overwritten.
    pub(super) fn put_end_back(&mut self) -> Result<(), WriteFailure> {
        let Some(torn) = &self.torn else { return Ok(()) };
        let medium = self.form.medium();
        if medium.is_displaced() || torn.left != medium.len().ok() {
            return Err(WriteFailure::Changed);
        }
        torn.put_back(medium)?;
        self.torn = None;
        Ok(())
    }

    /// What a failure means for the file.
    pub(super) fn noted(&mut self, failure: WriteFailure) -> RecordError {
        let path = self.path.clone();
        match failure {
            WriteFailure::Failed(source) => RecordError::Write { path, source },
            WriteFailure::Unrestored(source, torn) => {
                self.torn = Some(torn);
                RecordError::Unrestored { path, source }
            }
            WriteFailure::Changed => RecordError::ChangedByOthers { path },
        }
    }

    pub(super) fn set_title(&mut self, title: &str, syncing: Option<&Syncing>) -> Result<(), RecordError> {
        let written = match &mut self.form {
            Form::Document(writer) => writer.set_title(&self.path, title),
            Form::Log(writer) => writer.set_title(title),
        };
        match written {
            Err(failure) => return Err(self.noted(failure)),
            Ok(()) if matches!(self.form, Form::Document(_)) => note_name(&self.path, syncing),
            Ok(()) => {}
        }
        Ok(())
    }
}

impl SessionIdentity {
    pub(super) fn of_new(spec: &NewSession) -> Self {
        Self {
            id: spec.id.clone(),
            project_hash: Some(spec.project_hash.clone()),
            start: spec.now,
            kind: spec.kind,
        }
    }

    pub(super) fn of_stored(session: &StoredSession) -> Self {
        Self {
            id: session.id.clone(),
            project_hash: session.project_hash.clone(),
            start: session.start,
            kind: session.kind,
        }
    }

    /// Adds what is missing in the fields of a session, which has this id.
    pub(super) fn complete(&self, meta: &mut JsonObject, id: &SessionId, now: Timestamp) {
        meta.insert("sessionId".into(), json!(id.as_str()));
        if let Some(hash) = &self.project_hash {
            meta.entry("projectHash").or_insert_with(|| json!(hash));
        }
        meta.entry("startTime").or_insert_with(|| json!(self.start.to_iso()));
        meta.insert("lastUpdated".into(), json!(now.to_iso()));
        meta.entry("kind").or_insert_with(|| json!(self.kind.as_str()));
    }
}
