//! Repositories that are not what the user trusted.
//!
//! Git takes any folder with `HEAD`, `objects` and `refs` for a repository and runs what its `config` says. Such a folder
//! is made of ordinary files: a clone can bring it, and edits can create it, while a `.git` folder is protected.

use std::path::{Path, PathBuf};

use super::git_repository::is_git_folder;
use super::working_dirs::WorkingDirs;
use super::{Engine, program_base};
use crate::checker::place;
use crate::disk::{Disk, EntryKind};
use crate::shell::{CommandAnalysis, Part, git_directory, touches};

impl Engine {
    /// Why a command may use a repository made of ordinary files, if it may.
    pub(super) fn embedded_repository(&self, parts: &[Part], places: &WorkingDirs) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let resolve = self.options.resolve.as_ref();
        let roots: Vec<PathBuf> =
            self.options.workspaces.iter().map(|root| place(root, "", resolve)).collect();
        let mut git = parts.iter().filter(|part| runs_git(part)).peekable();
        if places.unknown && git.peek().is_some() {
            return Some("the folder that `git` runs in is not known until the command runs".to_owned());
        }
        git.find_map(|part| {
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

    /// Why a line may make the repository that it uses, if it may: no file of it has to exist before.
    pub(super) fn made_repository(
        &self,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
    ) -> Option<String> {
        if !understood.parts.iter().any(runs_git) {
            return None;
        }
        // Unpacking `HEAD.gz` creates `HEAD`, so the name without its suffix counts.
        let named = |path: &Path| {
            let packed = path.extension().is_some_and(|end| PACKED.iter().any(|known| end == *known));
            let name = if packed { path.file_stem() } else { path.file_name() };
            name.is_some_and(|name| REPOSITORY_FILES.iter().any(|file| name.eq_ignore_ascii_case(file)))
        };
        let makes = |target: &&str| {
            let real = |from: &PathBuf| place(from, target, self.options.resolve.as_ref());
            named(Path::new(target)) || places.all.iter().any(|from| named(&real(from)))
        };
        let redirected = understood.redirections.iter().filter(|found| found.writes);
        // As an operand of git, `HEAD` is a commit, not a file.
        let written = |part| {
            let is_git = runs_git(part);
            let touches = touches(part).0.into_iter().filter(|touch| touch.writes).map(|touch| touch.path);
            touches.filter(move |path| !is_git || *path != "HEAD")
        };
        let touched: Vec<&str> = understood.parts.iter().flat_map(written).collect();
        let target = redirected.filter_map(|found| found.target.as_deref()).chain(touched).find(makes)?;
        Some(format!(
            "it writes to `{target}`, and the folder may thereby become a repository that `git` uses"
        ))
    }
}

/// Whether a command runs git.
pub(super) fn runs_git(part: &Part) -> bool {
    matches!(part.words.first(), Some(Some(program)) if program_base(program) == "git")
}

/// Suffixes that decompressors remove.
const PACKED: [&str; 6] = ["gz", "xz", "bz2", "zst", "lzma", "Z"];
/// Files that make a folder a repository, or name one.
const REPOSITORY_FILES: [&str; 5] = ["HEAD", "config", "commondir", "gitdir", ".git"];

fn embedded(disk: &dyn Disk, folder: &Path, root: &Path) -> Option<PathBuf> {
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(root)) {
        let has = |name: &str| disk.kind(&folder.join(name)).is_some();
        // Git passes over a `.git` folder that is none of its own.
        let is_git = match disk.kind(&folder.join(".git")) {
            Some(EntryKind::Folder) => is_git_folder(disk, &folder.join(".git")),
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
