//! What a recorder writes to, and what happens if that fails.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use pollux_domain::sync::Locked as _;
use pollux_domain::time::Timestamp;

use super::change::{Change, Pending};
use super::medium::WriteFailure;
use super::new_file::NewFile;
use super::open_file::{OpenFile, note_name};
use super::relocate::{Content, Displaced, Relocated, adopt_copy, content_of, relocate};
use super::resume::Unconverted;
use super::syncing::Syncing;
use super::{RecordError, RecorderEvent};
use crate::blobs::{Blobs, Guard};
use crate::record::NewSession;

/// What is written to; shared with the handle that changes the title.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) target: Target,
    /// A title that waits for the file.
    pub(super) title: Option<String>,
    /// Syncs records; `None` if they need to survive only the end of this process.
    pub(super) syncing: Option<Syncing>,
    /// Where long texts and media go; `None` if everything stays in the file.
    pub(super) blobs: Option<Blobs>,
    /// Records that could not be written; tried again with the next one and at the end of the session.
    pub(super) pending: Pending,
    /// What the user has to know.
    pub(super) events: VecDeque<RecorderEvent>,
    /// The time of the last record.
    pub(super) last_record: Option<Timestamp>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per session")]
pub(super) enum Target {
    /// Records nothing.
    Off,
    /// The file appears with the first message.
    Waiting(NewSession),
    /// A file in another layout, converted with the first new message.
    Unconverted(Box<Unconverted>),
    Open(OpenFile),
}

/// Changes the title of a session that is being recorded. It does not keep the session's file open.
#[derive(Debug, Clone)]
pub struct TitleWriter(Weak<Mutex<Recording>>);

impl TitleWriter {
    pub(super) fn of(recording: &Arc<Mutex<Recording>>) -> Self {
        Self(Arc::downgrade(recording))
    }

    /// Stores a title in place of another. If there is no file yet, or it cannot be written at the moment, the title
    /// comes with the next message.
    pub fn set(&self, title: &str) -> Result<(), RecordError> {
        let recording = self.0.upgrade().ok_or(RecordError::NotRecorded)?;
        let recording = &mut *recording.locked();
        recording.prepare(None)?;
        let has_to_wait = !recording.pending.is_empty();
        match &mut recording.target {
            Target::Open(file) if !has_to_wait && file.torn.is_none() => {
                restore(recording.syncing.as_ref());
                match file.set_title(title, recording.syncing.as_ref()) {
                    Err(RecordError::ChangedByOthers { .. }) => recording.title = Some(title.to_owned()),
                    // An older one may still wait.
                    Ok(()) => recording.title = None,
                    Err(error) => return Err(error),
                }
            }
            Target::Open(_) | Target::Waiting(_) => recording.title = Some(title.to_owned()),
            Target::Off | Target::Unconverted(_) => return Err(RecordError::NotRecorded),
        }
        Ok(())
    }
}

impl Recording {
    pub(super) fn of(target: Target, blobs: Option<Blobs>) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            target,
            title: None,
            syncing: None,
            blobs,
            pending: Pending::default(),
            events: VecDeque::new(),
            last_record: None,
        }))
    }

    /// Writes a record behind those that wait. After a failure it waits in memory; only the first failure is reported.
    pub(super) fn write(&mut self, mut change: Change<'_>) -> Result<(), RecordError> {
        if matches!(self.target, Target::Off) {
            return Ok(());
        }
        self.last_record = Some(change.now);
        let written = self.write_pending().and_then(|()| self.write_extracted(&mut change));
        if let Err(error) = written {
            self.pending.add(change, self.blobs.as_ref());
            return if self.pending.report() { Err(error) } else { Ok(()) };
        }
        self.write_waiting_title();
        self.report_sync()
    }

    /// Writes the records that wait, as far as possible.
    fn write_pending(&mut self) -> Result<(), RecordError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        while let Some(mut change) = self.pending.take_first() {
            if let Err(error) = self.write_extracted(&mut change) {
                self.pending.put_back(change, self.blobs.as_ref());
                return Err(error);
            }
        }
        if let Some(lost) = self.pending.take_recovery() {
            self.events.push_back(RecorderEvent::Resumed { lost });
        }
        Ok(())
    }

    fn write_extracted(&mut self, change: &mut Change<'_>) -> Result<(), RecordError> {
        let mut guard = Guard::default();
        if let Some(blobs) = &self.blobs {
            change.extract(blobs, &mut guard);
        }
        self.write_record(change)
    }

    /// Opens the file if needed, and writes.
    fn write_record(&mut self, change: &mut Change<'_>) -> Result<(), RecordError> {
        self.prepare(Some(change.now))?;
        let written = match &mut self.target {
            Target::Off | Target::Unconverted(_) => return Ok(()),
            Target::Waiting(spec) => {
                let file = NewFile::create(spec, self.syncing.as_ref())?;
                self.target = Target::Open(file.publish(|form| change.apply(form))?);
                return Ok(());
            }
            Target::Open(file) => file.write(change),
        };
        match written {
            Err(WriteFailure::Changed) => self.relocate(change.now)?,
            written => return self.noted(written),
        }
        let written = match &mut self.target {
            Target::Open(file) => file.write(change),
            Target::Off | Target::Waiting(_) | Target::Unconverted(_) => Ok(()),
        };
        self.noted(written)
    }

    fn noted(&mut self, written: Result<(), WriteFailure>) -> Result<(), RecordError> {
        match (written, &mut self.target) {
            (Err(failure), Target::Open(file)) => Err(file.noted(failure)),
            (_, _) => Ok(()),
        }
    }

    /// Continues in another file if the path no longer leads to the open one.
    fn relocate(&mut self, now: Timestamp) -> Result<(), RecordError> {
        restore(self.syncing.as_ref());
        if let Target::Open(file) = &mut self.target
            && let Some(event) = file.relocate(self.syncing.as_ref(), now)?
        {
            self.events.push_back(event);
        }
        self.sync_open_file();
        Ok(())
    }

    /// Writes what waits, and brings the file back if another program took it away. Called before complete records move
    /// and at the end of a session.
    pub(super) fn settle(&mut self) -> Result<(), RecordError> {
        // What was only opened is not touched.
        let Some(now) = self.last_record else { return Ok(()) };
        self.prepare(Some(now))?;
        self.write_pending()?;
        if let Target::Open(file) = &mut self.target {
            // If the folder is gone, the user does not want the session.
            let has_folder = file.path.parent().is_some_and(Path::is_dir);
            if has_folder && file.form.medium_ref().is_displaced() {
                self.relocate(now)?;
            }
        }
        self.write_waiting_title();
        Ok(())
    }

    /// The same at the end of a session. A failure that was reported is not reported again.
    pub(super) fn finish(&mut self) -> Result<(), RecordError> {
        let settled = self.settle();
        if let Some(syncing) = &self.syncing {
            syncing.finish();
        }
        match settled {
            Err(error) if self.pending.report() => Err(error),
            Ok(()) | Err(_) => self.report_sync(),
        }
    }

    /// Converts a file to our layout, and has later writes to it synced. A failure changes nothing. With a time, a file
    /// that changed since it was read is replaced by a new one.
    pub(super) fn prepare(&mut self, now: Option<Timestamp>) -> Result<(), RecordError> {
        if let Target::Unconverted(unconverted) = &self.target {
            let mut relocated = None;
            let form = match (unconverted.convert(), now) {
                (Ok(form), _) => Some(form),
                (Err(_), Some(now)) if unconverted.is_changed() => {
                    relocated = Some(unconverted.relocate(self.syncing.as_ref(), now)?);
                    None
                }
                (Err(error), _) => return Err(error.on_write(unconverted.path())),
            };
            if let Target::Unconverted(unconverted) = std::mem::replace(&mut self.target, Target::Off) {
                let file = match (form, relocated) {
                    (_, Some(relocated)) => {
                        let (file, event) = unconverted.moved(relocated);
                        self.events.push_back(event);
                        file
                    }
                    (Some(form), None) => {
                        let file = unconverted.opened(form);
                        note_name(&file.path, self.syncing.as_ref());
                        file
                    }
                    (None, None) => return Ok(()),
                };
                self.target = Target::Open(file);
            }
        }
        self.sync_open_file();
        Ok(())
    }

    fn sync_open_file(&mut self) {
        if let (Some(syncing), Target::Open(file)) = (&self.syncing, &mut self.target) {
            file.form.medium().sync_with(syncing);
        }
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

    /// Writes a title that waits. If that fails the next message tries again.
    fn write_waiting_title(&mut self) {
        if let (Some(title), Target::Open(file)) = (&self.title, &mut self.target) {
            restore(self.syncing.as_ref());
            if file.set_title(title, self.syncing.as_ref()).is_ok() {
                self.title = None;
            }
        }
    }
}

/// Rewrites what a failed sync may have dropped, because the file is about to be read and replaced by a copy.
pub(super) fn restore(syncing: Option<&Syncing>) {
    if let Some(syncing) = syncing {
        syncing.restore();
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The last chance of a session that did not end in order.
        let _ = self.write_pending();
        if let Some(syncing) = &self.syncing {
            syncing.finish();
        }
    }
}

impl OpenFile {
    fn relocate(
        &mut self,
        syncing: Option<&Syncing>,
        now: Timestamp,
    ) -> Result<Option<RecorderEvent>, RecordError> {
        let path = self.path.clone();
        let failed = |source| RecordError::Write { path: path.clone(), source };
        if adopt_copy(self).map_err(failed)? {
            return Ok(None);
        }
        let content = content_of(self).map_err(failed)?;
        let relocated = relocate(
            &Displaced {
                path: &self.path,
                identity: &self.identity,
                lock: self.lock.as_ref(),
                form: Some(&self.form),
                content,
            },
            syncing,
            now,
        )?;
        let Relocated { path, identity, form, lock, event } = relocated;
        (self.path, self.identity, self.form, self.torn) = (path, identity, form, None);
        if let Some(lock) = lock {
            self.lock = Some(lock);
        }
        Ok(Some(event))
    }
}

impl Unconverted {
    fn relocate(&self, syncing: Option<&Syncing>, now: Timestamp) -> Result<Relocated, RecordError> {
        let content = Content::Rest(self.folded());
        let identity = &self.identity();
        let displaced =
            Displaced { path: self.path(), identity, lock: Some(self.lock()), form: None, content };
        relocate(&displaced, syncing, now)
    }
}
