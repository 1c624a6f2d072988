//! What the user asked to forget, so that it does not come back. Outlives the index.

use std::io;
use std::path::Path;

use pollux_config::files::{self, FileError, Mode};
use serde::{Deserialize, Serialize};

use crate::index::error::IndexError;
use crate::redaction::Tombstone;
use crate::state::StateError;

/// The name of the list in the folder of an agent or a workspace.
pub(crate) const FILE: &str = "forgotten.json";

/// Paths, sessions, and phrases without their words.
#[derive(Debug, Default, Clone)]
pub(crate) struct Forgotten {
    wire: Wire,
    phrases: Vec<Tombstone>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    version: u32,
    paths: Vec<String>,
    phrases: Vec<String>,
}

impl Forgotten {
    pub(crate) fn read(file: &Path) -> Result<Self, IndexError> {
        let text = files::read_text(file).map_err(StateError::Folder)?;
        let wire: Wire = match text.as_deref().map(serde_json::from_str) {
            None => Wire::default(),
            Some(Ok(wire)) => wire,
            // Continuing would bring back forgotten content.
            Some(Err(error)) => {
                return Err(IndexError::File { path: file.to_owned(), source: io::Error::other(error) });
            }
        };
        let phrases = wire.phrases.iter().filter_map(|key| Tombstone::parse(key)).collect();
        Ok(Self { wire, phrases })
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), IndexError> {
        let wire = Wire { version: 1, ..self.wire.clone() };
        let failed =
            |source: io::Error| StateError::Folder(FileError::Write { path: file.to_owned(), source });
        let text = serde_json::to_string_pretty(&wire).map_err(|error| failed(error.into()))?;
        files::replace(file, text.as_bytes(), Mode::Private).map_err(StateError::Folder)?;
        Ok(())
    }

    /// Adds the forgotten items of another list.
    pub(crate) fn extend(&mut self, other: Self) {
        other.wire.paths.iter().for_each(|path| self.add_path(path));
        other.phrases.into_iter().for_each(|phrase| self.add_phrase(phrase));
    }

    /// The same without notes, whose paths mean other files in another workspace.
    pub(crate) fn without_notes(mut self) -> Self {
        self.wire.paths.retain(|path| path.starts_with("sessions/"));
        self
    }

    pub(crate) fn add_path(&mut self, path: &str) {
        if !self.has_path(path) {
            self.wire.paths.push(path.to_owned());
        }
    }

    pub(crate) fn add_phrase(&mut self, tombstone: Tombstone) {
        if !self.phrases.contains(&tombstone) {
            self.wire.phrases.push(tombstone.key());
            self.phrases.push(tombstone);
        }
    }

    pub(crate) fn has_path(&self, path: &str) -> bool {
        self.wire.paths.iter().any(|known| known == path)
    }

    pub(crate) fn phrases(&self) -> &[Tombstone] {
        &self.phrases
    }
}
