//! `acknowledgments/agents.json`: the project agents that the user has reviewed and approved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollux_config::edit_file::{ObjectError, change_object, read_object};
use serde_json::{Value, json};

/// The hash of an agent's content, by project and agent.
type Table = BTreeMap<String, BTreeMap<String, String>>;

/// The recorded approvals.
#[derive(Debug, Clone, Default)]
pub struct Acknowledgements {
    file: PathBuf,
    table: Table,
}

impl Acknowledgements {
    /// Reads the file; a missing or damaged one contains no approvals.
    pub fn read(gemini_dir: &Path) -> Self {
        let file = gemini_dir.join("acknowledgments").join("agents.json");
        let projects = read_object(&file).unwrap_or_default().into_iter();
        let table = projects.filter_map(|(project, agents)| {
            let Value::Object(agents) = agents else { return None };
            let hashes =
                agents.into_iter().filter_map(|(agent, hash)| Some((agent, hash.as_str()?.to_owned())));
            Some((project, hashes.collect()))
        });
        Self { table: table.collect(), file }
    }

    pub fn agreed(&self, project: &Path, agent: &str, hash: &str) -> bool {
        let agents = self.table.get(project.to_string_lossy().as_ref());
        agents.and_then(|agents| agents.get(agent)).is_some_and(|known| known == hash)
    }

    /// Records an approval; entries written by others in the meantime are kept. A damaged file is moved aside, since it
    /// may contain approvals of other projects; returns its new path.
    pub fn agree(&mut self, project: &Path, agent: &str, hash: &str) -> Result<Option<PathBuf>, ObjectError> {
        let moved = change_object(&self.file, |whole| {
            let agents = whole.entry(project.to_string_lossy()).or_insert_with(|| json!({}));
            if !agents.is_object() {
                *agents = json!({});
            }
            if let Some(agents) = agents.as_object_mut() {
                agents.insert(agent.to_owned(), json!(hash));
            }
        })?;
        let agents = self.table.entry(project.to_string_lossy().into_owned()).or_default();
        agents.insert(agent.to_owned(), hash.to_owned());
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;

    use super::*;

    #[test]
    fn approvals_of_other_projects_survive_a_byte_order_mark_and_a_torn_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("acknowledgments/agents.json");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "\u{feff}{\"/other\": {\"x\": \"1\"}, \"odd\": 7}").unwrap();
        let mut known = Acknowledgements::read(folder.path());
        assert!(known.agreed(Path::new("/other"), "x", "1"));
        assert_eq!(known.agree(Path::new("/here"), "rev", "2").unwrap(), None);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({"/other": {"x": "1"}, "odd": 7, "/here": {"rev": "2"}})
        );
        let torn = "{\"/other\": {\"x\": \"1\"}, \"/third\": {\"y\": \"ha";
        fs::write(&file, torn).unwrap();
        let mut known = Acknowledgements::read(folder.path());
        assert!(!known.agreed(Path::new("/other"), "x", "1"));
        let aside = known.agree(Path::new("/here"), "rev", "2").unwrap().unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), torn);
        assert!(Acknowledgements::read(folder.path()).agreed(Path::new("/here"), "rev", "2"));
    }
}
