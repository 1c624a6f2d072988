//! Commands that upstream's server runs outside of tasks.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use pollux_archive::ConfinedFolder;
use pollux_domain::failure::Failure;
use pollux_host::{extensions, load_settings};
use serde_json::{Value, json};

use super::Service;

/// How much of a file is shown.
const MAX_SHOWN: u64 = 1024 * 1024;

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
                let files: Vec<_> = names
                    .iter()
                    .filter_map(|name| Some((workspace.join(name), open_plain(workspace, name)?)))
                    .collect();
                if command == "memory show" {
                    let texts = files.into_iter().filter_map(|(_, file)| read_start(file));
                    Some(json!(texts.collect::<Vec<_>>().join("\n\n")))
                } else {
                    Some(json!({"paths": files.into_iter().map(|(path, _)| path).collect::<Vec<_>>()}))
                }
            }
            "restore" | "restore list" => Some(json!([])),
            _ => None,
        })
    }
}

/// Opens a file of a workspace. Tasks write there, so that a link could lead to what they may not read.
fn open_plain(workspace: &Path, name: &str) -> Option<File> {
    let file = ConfinedFolder::open(&workspace.canonicalize().ok()?).ok()?.open_file(Path::new(name)).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn read_start(file: File) -> Option<String> {
    let mut text = Vec::new();
    file.take(MAX_SHOWN).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_pipes_of_a_task_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("w");
        fs::create_dir_all(&workspace).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(workspace.join("plain.md"), "a".repeat(2 * 1024 * 1024)).unwrap();
        symlink(dir.path().join("secret"), workspace.join("link.md")).unwrap();
        symlink(dir.path(), workspace.join("folder")).unwrap();
        for wrong in ["link.md", "folder/secret", "../secret", "missing"] {
            assert!(open_plain(&workspace, wrong).is_none(), "{wrong}");
        }
        let text = read_start(open_plain(&workspace, "plain.md").unwrap()).unwrap();
        assert_eq!(text.len(), 1024 * 1024);
    }
}
