//! `acknowledgments/agents.json`: the project agents that the user has reviewed and approved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use serde_json::{Value, json};

/// The hash of an agent's content, by project and agent.
type Table = BTreeMap<String, BTreeMap<String, String>>;

/// The recorded approvals.
#[derive(Debug, Clone, Default)]
pub struct Acknowledgements {
    file: PathBuf,
    table: Table,
}

/// Why an agreement was not written down.
#[derive(Debug, thiserror::Error)]
pub enum AcknowledgeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl Acknowledgements {
    /// Reads the file; a missing or broken one contains no approvals.
    pub fn read(gemini_dir: &Path) -> Self {
        let file = gemini_dir.join("acknowledgments").join("agents.json");
        let text = files::read_text(&file).ok().flatten().unwrap_or_default();
        Self { file, table: serde_json::from_str(&text).unwrap_or_default() }
    }

    pub fn agreed(&self, project: &Path, agent: &str, hash: &str) -> bool {
        let agents = self.table.get(project.to_string_lossy().as_ref());
        agents.and_then(|agents| agents.get(agent)).is_some_and(|known| known == hash)
    }

    /// Records an approval; entries written by others in the meantime are kept.
    pub fn agree(&mut self, project: &Path, agent: &str, hash: &str) -> Result<(), AcknowledgeError> {
        if let Some(folder) = self.file.parent() {
            files::create_folder(folder, Mode::Private)?;
        }
        let _lock = FileLock::acquire(&self.file)?;
        let text = files::read_text(&self.file)?.unwrap_or_default();
        let mut whole = match serde_json::from_str(&text) {
            Ok(Value::Object(whole)) => whole,
            _ => Default::default(),
        };
        let agents = whole.entry(project.to_string_lossy()).or_insert_with(|| json!({}));
        if !agents.is_object() {
            *agents = json!({});
        }
        if let Some(agents) = agents.as_object_mut() {
            agents.insert(agent.to_owned(), json!(hash));
        }
        let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
        text.push('\n');
        files::replace(&self.file, text.as_bytes(), Mode::Private)?;
        let agents = self.table.entry(project.to_string_lossy().into_owned()).or_default();
        agents.insert(agent.to_owned(), hash.to_owned());
        Ok(())
    }
}
