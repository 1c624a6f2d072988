//! Repositories that are not what the user trusted.
//!
//! Git takes any folder with `HEAD`, `objects` and `refs` for a repository and runs what its `config` says. Such a folder
//! is made of ordinary files: a clone can bring it, and edits can create it, while a `.git` folder is protected.

use std::path::{Path, PathBuf};

use super::shell_call::WorkingDirs;
use super::{Engine, program_base};
use crate::checker::place;
use crate::disk::{Disk, EntryKind};
use crate::shell::{Part, git_directory};

impl Engine {
    /// Why a command may use a repository made of ordinary files, if it may.
    pub(super) fn embedded_repository(&self, parts: &[Part], places: &WorkingDirs) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let resolve = self.options.resolve.as_ref();
        let roots: Vec<PathBuf> =
            self.options.workspaces.iter().map(|root| place(root, "", resolve)).collect();
        let uses_git = |part: &&Part| matches!(part.words.first(), Some(Some(program)) if program_base(program) == "git");
        parts.iter().filter(uses_git).find_map(|part| {
            places.all.iter().find_map(|from| {
                let real = |folder: &Path| place(folder, "", resolve);
                let Some(folder) = git_directory(part, from, real) else {
                    return Some(
                        "the directory that `git` uses is not known until the command runs".to_owned(),
                    );
                };
                let root = roots.iter().find(|root| folder.starts_with(root))?;
                let folder = embedded(disk, &folder, root)?;
                let folder = folder.display();
                Some(format!(
                    "`{folder}` is a bare Git repository in the workspace, whose config can run programs"
                ))
            })
        })
    }
}

fn embedded(disk: &dyn Disk, folder: &Path, root: &Path) -> Option<PathBuf> {
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(root)) {
        let has = |name: &str| disk.kind(&folder.join(name)).is_some();
        // Git passes over a `.git` folder that is none of its own.
        let is_git = match disk.kind(&folder.join(".git")) {
            Some(EntryKind::Folder) => has(".git/HEAD"),
            kind => kind.is_some(),
        };
        if is_git || folder.ends_with(".git") {
            return None;
        }
        if has("HEAD") && (has("objects") || has("commondir")) {
            return Some(folder.to_owned());
        }
    }
    None
}
