//! Reads the files of another program within limits.
//!
//! Links in your own home are followed. A project's files are read only if they are really inside the project: a link
//! must not copy a private file into it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::files;
use pollux_config::settings::read_object;
use pollux_domain::JsonObject;

use super::plan::ImportScope;

/// Limits of one folder.
const MAX_FILES: usize = 500;
const MAX_DEPTH: usize = 4;
/// Maximum size of a text that becomes a prompt, in bytes.
pub(super) const MAX_PROMPT: usize = 256 * 1024;

/// The files of another program in one scope.
#[derive(Debug, Clone)]
pub(super) struct SourceFolder {
    pub(super) scope: ImportScope,
    /// `~/.claude`, or `.claude` in the project.
    pub(super) root: PathBuf,
    /// The folder that files must be inside.
    bound: Option<PathBuf>,
}

impl SourceFolder {
    pub(super) fn of_user(root: PathBuf) -> Self {
        Self { scope: ImportScope::User, root, bound: None }
    }

    pub(super) fn of_project(root: PathBuf, project: &Path) -> Self {
        let bound = project.canonicalize().unwrap_or_else(|_| project.to_path_buf());
        Self { scope: ImportScope::Project, root, bound: Some(bound) }
    }

    /// Whether a path stays inside the bound after links are resolved.
    pub(super) fn holds(&self, path: &Path) -> bool {
        match &self.bound {
            None => true,
            Some(bound) => path.canonicalize().is_ok_and(|real| real.starts_with(bound)),
        }
    }

    /// The text of a file; `None` if it is missing.
    pub(super) fn text(&self, path: &Path) -> Result<Option<String>, String> {
        self.checked(path)?;
        files::read_text(path).map_err(|error| error.to_string())
    }

    /// The object in a JSON file with comments; `None` if it is missing.
    pub(super) fn json(&self, path: &Path) -> Result<Option<JsonObject>, String> {
        self.checked(path)?;
        read_object(path).map_err(|error| match error.files.first() {
            Some(file) => file.reason.clone(),
            None => error.to_string(),
        })
    }

    /// The table in a TOML file; `None` if it is missing.
    pub(super) fn toml(&self, path: &Path) -> Result<Option<JsonObject>, String> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        toml::from_str(&text).map(Some).map_err(|error| format!("not valid TOML: {}", error.message()))
    }

    /// The files with this extension below a folder, as paths relative to it, sorted.
    pub(super) fn files(&self, folder: &Path, extension: &str) -> Vec<PathBuf> {
        let (mut found, mut entered) = (Vec::new(), BTreeSet::new());
        self.walk(folder, Path::new(""), extension, 0, &mut entered, &mut found);
        found.sort();
        found
    }

    fn walk(
        &self,
        folder: &Path,
        below: &Path,
        extension: &str,
        depth: usize,
        entered: &mut BTreeSet<PathBuf>,
        found: &mut Vec<PathBuf>,
    ) {
        let Ok(real) = folder.canonicalize() else { return };
        if depth > MAX_DEPTH || !self.holds(folder) || !entered.insert(real) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, below) = (entry.path(), below.join(entry.file_name()));
            let Ok(meta) = fs::metadata(&path) else { continue };
            if meta.is_dir() {
                self.walk(&path, &below, extension, depth + 1, entered, found);
            } else if found.len() < MAX_FILES
                && meta.is_file()
                && path.extension().is_some_and(|known| known == extension)
                && self.holds(&path)
            {
                found.push(below);
            }
        }
    }

    fn checked(&self, path: &Path) -> Result<(), String> {
        let leads_out = path.symlink_metadata().is_ok() && !self.holds(path);
        if leads_out { Err("a link that points outside the project".to_owned()) } else { Ok(()) }
    }
}
