//! What a rule on a program's name does not cover, judging by the files on disk.

use super::working_dirs::WorkingDirs;
use super::{Engine, PolicyCall};
use crate::checker::place;
use crate::disk::EntryKind;
use crate::shell::{self, Part, Touch};

impl Engine {
    /// Why a file that says what to build is not covered: only those that rules protect from edits are.
    pub(super) fn unprotected_build_file(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        touches: &[Touch<'_>],
        places: &WorkingDirs,
    ) -> Option<String> {
        let files = shell::build_files(part);
        let file = files.into_iter().find(|file| {
            let is_protected = !self.options.protect_build_files
                || places.all.iter().all(|dir| {
                    self.protected(call, dir, file)
                        .is_some_and(|source| source.label.starts_with("build files"))
                });
            !is_protected || file.starts_with(['-', '/']) || !self.exists_below(file, touches, places)
        })?;
        Some(format!("`{file}` is not a build file that is protected from edits"))
    }

    /// Whether a file exists in a working directory, or in a folder that an option names.
    fn exists_below(&self, file: &str, touches: &[Touch<'_>], places: &WorkingDirs) -> bool {
        let Some(disk) = self.options.disk.as_deref() else { return true };
        let folders = touches.iter().filter(|touch| touch.writes).map(|touch| touch.path);
        let resolve = self.options.resolve.as_ref();
        places.all.iter().any(|dir| {
            folders.clone().chain(std::iter::once("")).any(|folder| {
                disk.kind(&place(&place(dir, folder, resolve), file, resolve)) == Some(EntryKind::File)
            })
        })
    }

    /// Why `git checkout NAME` may discard changes: there is a file or folder of this name.
    pub(super) fn checks_out_files(&self, part: &Part, places: &WorkingDirs) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let name = shell::checked_out(part)?;
        let exists = places.all.iter().any(|dir| disk.kind(&place(dir, name, None)).is_some());
        exists.then(|| format!("it may discard uncommitted changes in `{name}`"))
    }
}
