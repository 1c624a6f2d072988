//! Commands that upstream's server runs outside of tasks.

use std::path::Path;

use pollux_domain::failure::Failure;
use pollux_host::{extensions, load_settings};
use serde_json::{Value, json};

use super::Service;

impl Service {
    /// Runs a command about a workspace; `None` if it is unknown.
    pub(crate) fn execute(&self, command: &str, workspace: &Path) -> Result<Option<Value>, Failure> {
        let loaded = load_settings(&self.request, &self.env.in_folder(workspace.to_path_buf()))?;
        Ok(match command {
            "extensions" | "extensions list" => {
                let names = extensions::names(&loaded);
                Some(if names.is_empty() { json!("No extensions installed.") } else { json!(names) })
            }
            "memory" | "memory list" | "memory show" => {
                let names = &loaded.groups.context.file_names;
                let files = names.iter().map(|name| workspace.join(name)).filter(|file| file.is_file());
                let files: Vec<_> = files.collect();
                if command == "memory show" {
                    let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
                    Some(json!(texts.collect::<Vec<_>>().join("\n\n")))
                } else {
                    Some(json!({"paths": files}))
                }
            }
            "restore" | "restore list" => Some(json!([])),
            _ => None,
        })
    }
}
