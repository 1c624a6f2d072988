//! Remembers which definitions of MCP tools the user approved, as hashes.
//!
//! A server can change a tool after it was allowed, and another project can call another server the same. So an approval
//! is bound to the definition, of which the server's program or address is a part, and not to the tool's name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pollux_config::edit_file::{ObjectError, change_object, read_object};
use pollux_domain::JsonObject;
use pollux_domain::sync::Locked as _;
use serde_json::Value;

/// The file next to the saved approvals.
const FILE: &str = "auto-saved-tools.json";
/// Saved definitions of one tool: projects that call different servers the same do not undo each other's approvals.
const MAX_SAVED: usize = 16;

/// How a tool compares with the definition that the user approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionStatus {
    Approved,
    /// It, or its server, is not what was approved.
    Changed,
    /// It was added after its whole server was allowed.
    New,
    /// The approval does not say what it was given for: it is older, or another program saved it.
    Unknown,
}

/// Approved tool definitions, as hashes by server and tool.
#[derive(Debug, Default)]
pub struct ApprovedDefinitions {
    session: Mutex<HashMap<(String, String), String>>,
}

impl ApprovedDefinitions {
    /// Records that the user allowed these tools as they are; also for later sessions if `saved` names the
    /// file of saved approvals. Returns the path to which a damaged file was moved.
    pub fn agree(
        &self,
        server: &str,
        tools: &[(String, String)],
        saved: Option<&Path>,
    ) -> Result<Option<PathBuf>, ObjectError> {
        {
            let mut session = self.session.locked();
            for (tool, definition) in tools {
                session.insert((server.to_owned(), tool.clone()), definition.clone());
            }
        }
        match saved {
            Some(file) => keep(&beside(file), server, tools),
            None => Ok(None),
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
        let mut known: Vec<String> = self.session.locked().get(&key).cloned().into_iter().collect();
        if let Some(file) = saved.filter(|_| known.is_empty()) {
            // What cannot be read is not approved.
            let all = read_object(&beside(file)).unwrap_or_default();
            known = all.get(server).and_then(|tools| tools.get(tool)).map(definitions).unwrap_or_default();
        }
        match (known.as_slice(), saved) {
            (known, _) if known.iter().any(|known| known == definition) => DefinitionStatus::Approved,
            ([], Some(_)) => DefinitionStatus::Unknown,
            ([], None) => DefinitionStatus::New,
            (_, _) => DefinitionStatus::Changed,
        }
    }
}

fn beside(file: &Path) -> PathBuf {
    file.with_file_name(FILE)
}

/// What is saved of a tool: a hash, or several.
fn definitions(saved: &Value) -> Vec<String> {
    let list = saved.as_array().map_or(std::slice::from_ref(saved), Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn keep(file: &Path, server: &str, tools: &[(String, String)]) -> Result<Option<PathBuf>, ObjectError> {
    change_object(file, |all| {
        let entry = all.entry(server).or_insert_with(|| Value::Object(JsonObject::new()));
        if !entry.is_object() {
            *entry = Value::Object(JsonObject::new());
        }
        if let Some(known) = entry.as_object_mut() {
            for (tool, definition) in tools {
                let mut all = known.get(tool).map(definitions).unwrap_or_default();
                all.retain(|other| other != definition);
                all.push(definition.clone());
                let kept = all.split_off(all.len().saturating_sub(MAX_SAVED));
                known.insert(tool.clone(), Value::from(kept));
            }
        }
    })
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
    fn a_saved_approval_holds_in_later_sessions_for_what_was_approved() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policies/auto-saved.toml");
        let saved = Some(file.as_path());
        ApprovedDefinitions::default().agree("git", &tools(&[("push", "1")]), saved).unwrap();
        let later = ApprovedDefinitions::default();
        assert_eq!(later.standing("git", "push", "1", saved), DefinitionStatus::Approved);
        assert_eq!(later.standing("git", "push", "2", saved), DefinitionStatus::Changed);
        // Another program saved an approval, or an earlier version.
        for _ in 0..2 {
            assert_eq!(later.standing("git", "pull", "7", saved), DefinitionStatus::Unknown);
        }
        std::fs::write(file.with_file_name(FILE), "not json").unwrap();
        assert_eq!(later.standing("git", "push", "1", saved), DefinitionStatus::Unknown);
        let aside = later.agree("git", &tools(&[("pull", "1")]), saved).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "not json");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
    fn two_servers_of_one_name_keep_their_approvals() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policies/auto-saved.toml");
        let saved = Some(file.as_path());
        std::fs::create_dir(dir.path().join("policies")).unwrap();
        std::fs::write(file.with_file_name(FILE), r#"{"db": {"query": "as older versions save it"}}"#)
            .unwrap();
        let agree = |definition: &str| {
            ApprovedDefinitions::default().agree("db", &tools(&[("query", definition)]), saved).unwrap();
        };
        let standing =
            |definition: &str| ApprovedDefinitions::default().standing("db", "query", definition, saved);
        assert_eq!(standing("a"), DefinitionStatus::Changed);
        agree("a");
        agree("b");
        assert_eq!((standing("a"), standing("b")), (DefinitionStatus::Approved, DefinitionStatus::Approved));
        assert_eq!(standing("c"), DefinitionStatus::Changed);
        (0..MAX_SAVED).for_each(|number| agree(&number.to_string()));
        assert_eq!(standing("a"), DefinitionStatus::Changed, "the oldest are forgotten");
    }
}
