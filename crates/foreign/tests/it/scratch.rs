//! A store in a temporary folder.

use std::fs;
use std::path::PathBuf;

use pollux_domain::event::CallStatus;
use pollux_foreign::{ForeignAgent, ForeignBody, ForeignEntry, ForeignMessage, ForeignSession, ForeignStore};
use pollux_session::StoredStatus;
use tempfile::TempDir;

pub(crate) struct Scratch {
    folder: TempDir,
    pub(crate) store: ForeignStore,
}

impl Scratch {
    pub(crate) fn new(agent: ForeignAgent) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs::create_dir(&root).unwrap();
        Self { store: ForeignStore::new(agent, root), folder }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.store.root.join(below)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The one session of the store.
    pub(crate) fn session(&self) -> ForeignSession {
        let mut listing = self.store.list();
        assert_eq!((listing.sessions.len(), listing.unreadable.len()), (1, 0), "{listing:?}");
        listing.sessions.remove(0)
    }

    pub(crate) fn entry(&self) -> ForeignEntry {
        let mut entries = self.store.entries();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// The conversation of the one session, as lines.
    pub(crate) fn conversation(&self) -> Vec<String> {
        self.store.conversation(&self.entry()).unwrap().iter().map(line).collect()
    }

    /// The texts of the one session, as lines.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let visit = &mut |kind, _: &str, _, text: &str| lines.push(format!("{kind:?}: {text}"));
        self.store.visit_texts(&self.entry(), visit).unwrap();
        lines
    }
}

pub(crate) fn line(message: &ForeignMessage) -> String {
    match &message.body {
        ForeignBody::User(text) => format!("user: {text}"),
        ForeignBody::Agent(text) => format!("agent: {text}"),
        ForeignBody::Error(text) => format!("error: {text}"),
        ForeignBody::Call(call) => {
            let status = match call.status {
                StoredStatus::Pending => "pending",
                StoredStatus::Ended(CallStatus::Success) => "ok",
                StoredStatus::Ended(CallStatus::Error) => "failed",
                StoredStatus::Ended(CallStatus::Cancelled) => "cancelled",
            };
            let error = call.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            format!("{} {} {status}{error}", call.name, call.args)
        }
    }
}
