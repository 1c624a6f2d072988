//! Lines in which git changes the files that other commands of the line use.
//!
//! A branch, a patch or a stash may bring links that lead outside and folders that git takes for repositories. What such
//! a line reads is therefore unknown when it is decided, whatever the disk holds then.

use std::path::Path;

use super::Engine;
use super::repository::runs_git;
use super::working_dirs::{WorkingDirs, has_lone_ampersand};
use crate::checker::place;
use crate::disk::EntryKind;
use crate::shell::{self, CommandAnalysis, How, Part, Read, Repeats, git_directory};

/// The commands of a line that may run after git changed the working tree.
pub(super) struct TreeChanges {
    /// The first command that changes it.
    first: Option<usize>,
    /// Whether commands run side by side or more than once, so that their order says nothing.
    unordered: bool,
    repeats: bool,
}

impl TreeChanges {
    pub(super) fn new(understood: &CommandAnalysis, line: &str) -> Self {
        let repeats = understood.parts.iter().any(|part| part.repeats != Repeats::Never || is_deferred(part));
        let is_piped = line.replace("||", "").contains('|');
        Self {
            first: understood.parts.iter().position(changes_tree),
            unordered: repeats || is_piped || has_lone_ampersand(line),
            repeats,
        }
    }

    pub(super) fn any(&self) -> bool {
        self.first.is_some()
    }

    /// Whether the command at this place may find other files than there are now.
    fn affects(&self, at: usize) -> bool {
        self.first.is_some_and(|first| at > first || self.repeats || self.unordered && at != first)
    }
}

impl Engine {
    /// Why a command needs approval because git changes files in the same line.
    pub(super) fn uses_changed_files(
        &self,
        changes: &TreeChanges,
        at: usize,
        part: &Part,
        harmless: bool,
        places: &WorkingDirs,
    ) -> Option<String> {
        if !changes.affects(at) {
            return None;
        }
        if runs_git(part) {
            let safe = places.all.iter().all(|from| self.is_top_of_repository(part, from));
            return (!safe).then(|| {
                format!(
                    "`{}`: git changes files in the same line, which may bring another repository",
                    part.text
                )
            });
        }
        let reads = shell::reads(part).map(|reads| reads.all).unwrap_or_default();
        let appends = part.behind.iter().any(|name| name == "nohup");
        let reads_files = harmless && reads.iter().any(|read| !is_own_folder(read));
        (appends || reads_files).then(|| {
            format!(
                "`{}`: git changes files in the same line, which may bring links that lead outside",
                part.text
            )
        })
    }

    /// Whether git finds a repository right in its folder: no file that it checks out takes the place of that.
    fn is_top_of_repository(&self, part: &Part, from: &Path) -> bool {
        let Some(disk) = self.options.disk.as_deref() else { return false };
        let real = |folder: &Path| place(folder, "", self.options.resolve.as_ref());
        let Some(folder) = git_directory(part, from, real) else { return false };
        match disk.kind(&folder.join(".git")) {
            Some(EntryKind::Folder) => disk.kind(&folder.join(".git/HEAD")).is_some(),
            kind => kind == Some(EntryKind::File),
        }
    }
}

fn is_own_folder(read: &Read) -> bool {
    read.path == "." && read.how == How::Facts
}

/// Whether a command runs later than its place in the line says.
fn is_deferred(part: &Part) -> bool {
    part.behind.iter().any(|name| name == "trap")
}

/// Whether a git command may bring files or links into a folder, or replace them.
fn changes_tree(part: &Part) -> bool {
    if !runs_git(part) {
        return false;
    }
    let place = shell::git_subcommand(&part.words);
    let subcommand = part.words.get(place).and_then(Option::as_deref);
    let Some(arguments) = part.words.get(place + 1..) else { return false };
    // A name that is only known at run time may be any subcommand.
    let Some(subcommand) = subcommand else { return true };
    let first = arguments.first().and_then(Option::as_deref);
    match (subcommand, first) {
        ("stash", Some("list" | "show")) | ("worktree", Some("list")) | ("submodule", Some("status")) => {
            false
        }
        // A new branch that starts here leaves all files as they are.
        ("checkout", Some("-b")) | ("switch", Some("-c")) => arguments.len() > 2,
        _ => shell::changes_tree(subcommand),
    }
}
