//! Remembers which definitions of MCP tools the user approved, as hashes.
//!
//! A server can change a tool after it was allowed, so an approval is bound to the definition and not to the
//! tool's name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pollux_config::files::{self, FileError, FileLock, Mode};
use pollux_domain::JsonObject;
use pollux_domain::sync::Locked as _;
use serde_json::Value;

/// The file next to the saved approvals.
const FILE: &str = "auto-saved-tools.json";

/// How a tool compares with the definition that the user approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionStatus {
    Approved,
    /// Its description or its parameters have changed.
    Changed,
    /// It was added after its whole server was allowed.
    New,
}

/// Approved tool definitions, as hashes by server and tool.
#[derive(Debug, Default)]
pub struct ApprovedDefinitions {
    session: Mutex<HashMap<(String, String), String>>,
}

impl ApprovedDefinitions {
    /// Records that the user allowed these tools as they are; also for later sessions if `saved` names the
    /// file of saved approvals.
    pub fn agree(
        &self,
        server: &str,
        tools: &[(String, String)],
        saved: Option<&Path>,
    ) -> Result<(), FileError> {
        {
            let mut session = self.session.locked();
            for (tool, definition) in tools {
                session.insert((server.to_owned(), tool.clone()), definition.clone());
            }
        }
        match saved {
            Some(file) => keep(&beside(file), server, tools),
            None => Ok(()),
        }
    }

    /// Compares a tool with its approved definition; `saved` names the file if the approval comes from there.
    pub fn standing(
        &self,
        server: &str,
        tool: &str,
        definition: &str,
        saved: Option<&Path>,
    ) -> DefinitionStatus {
        let key = (server.to_owned(), tool.to_owned());
        let known = self.session.locked().get(&key).cloned();
        let known = known.or_else(|| {
            let found = read(&beside(saved?));
            found.get(server)?.get(tool)?.as_str().map(str::to_owned)
        });
        match (known, saved) {
            (Some(known), _) if known == definition => DefinitionStatus::Approved,
            (Some(_), _) => DefinitionStatus::Changed,
            // An approval saved by another program or an earlier version covers the current definition.
            (None, Some(_)) => {
                // If the file cannot be written, the approval covers this session.
                let _ = self.agree(server, &[(key.1, definition.to_owned())], saved);
                DefinitionStatus::Approved
            }
            (None, None) => DefinitionStatus::New,
        }
    }
}

fn beside(file: &Path) -> PathBuf {
    file.with_file_name(FILE)
}

/// An unreadable file counts as empty and is rewritten by the next approval.
fn read(file: &Path) -> JsonObject {
    let text = files::read_text(file).ok().flatten().unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn keep(file: &Path, server: &str, tools: &[(String, String)]) -> Result<(), FileError> {
    if let Some(folder) = file.parent() {
        files::create_folder(folder, Mode::Private)?;
    }
    // Without the lock, at worst another approval has to be repeated.
    let _lock = FileLock::acquire(file).ok();
    let mut all = read(file);
    let entry = all.entry(server).or_insert_with(|| Value::Object(JsonObject::new()));
    if !entry.is_object() {
        *entry = Value::Object(JsonObject::new());
    }
    if let Some(known) = entry.as_object_mut() {
        known.extend(tools.iter().map(|(tool, definition)| (tool.clone(), Value::from(definition.as_str()))));
    }
    let text = format!("{:#}\n", Value::Object(all));
    files::replace(file, text.as_bytes(), Mode::Private)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(tool, hash)| ((*tool).to_owned(), (*hash).to_owned())).collect()
    }

    #[test]
    fn a_session_approval_covers_the_tools_as_they_were() {
        let agreed = ApprovedDefinitions::default();
        agreed.agree("git", &tools(&[("push", "1"), ("pull", "1")]), None).unwrap();
        assert_eq!(agreed.standing("git", "push", "1", None), DefinitionStatus::Approved);
        assert_eq!(agreed.standing("git", "push", "2", None), DefinitionStatus::Changed);
        assert_eq!(agreed.standing("git", "rebase", "1", None), DefinitionStatus::New);
        assert_eq!(agreed.standing("other", "push", "1", None), DefinitionStatus::New);
        agreed.agree("git", &tools(&[("push", "2")]), None).unwrap();
        assert_eq!(agreed.standing("git", "push", "2", None), DefinitionStatus::Approved);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
    fn a_saved_approval_holds_in_later_sessions_until_the_tool_changes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policies/auto-saved.toml");
        let saved = Some(file.as_path());
        ApprovedDefinitions::default().agree("git", &tools(&[("push", "1")]), saved).unwrap();
        let later = ApprovedDefinitions::default();
        assert_eq!(later.standing("git", "push", "1", saved), DefinitionStatus::Approved);
        assert_eq!(later.standing("git", "push", "2", saved), DefinitionStatus::Changed);
        // An approval saved by another program is bound to the definition at its first use.
        assert_eq!(later.standing("git", "pull", "7", saved), DefinitionStatus::Approved);
        assert_eq!(
            ApprovedDefinitions::default().standing("git", "pull", "8", saved),
            DefinitionStatus::Changed
        );
        std::fs::write(file.with_file_name(FILE), "not json").unwrap();
        assert_eq!(
            ApprovedDefinitions::default().standing("git", "push", "2", saved),
            DefinitionStatus::Approved
        );
    }
}
