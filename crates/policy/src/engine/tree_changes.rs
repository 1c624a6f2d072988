//! Lines in which one command brings files that others of the line use.
//!
//! A branch, an archive, a package or a copy may bring links that lead outside, folders that git takes for repositories,
//! and file names that look like options. What such a line reads is therefore unknown when it is decided, whatever the
//! disk holds then.

use std::path::{Path, PathBuf};

use pollux_domain::call_summary::quoted;

use super::Engine;
use super::brought::Brings;
use super::reading::{NOHUP_FILE, is_behind_nohup};
use super::repository::runs_git;
use super::working_dirs::{WorkingDirs, has_lone_ampersand};
use crate::checker::place;
use crate::disk::EntryKind;
use crate::shell::{self, CommandAnalysis, How, Part, Read, Repeats, git_directory};

/// The commands of a line that may run after others brought files.
pub(super) struct TreeChanges {
    /// What each command brings.
    brings: Vec<Option<Brings>>,
    /// Whether commands run side by side or more than once, so that their order says nothing.
    unordered: bool,
    repeats: bool,
    /// Whether a command may make `nohup` write to another file.
    moves_nohup: bool,
}

impl TreeChanges {
    pub(super) fn new(
        engine: &Engine,
        places: &WorkingDirs,
        understood: &CommandAnalysis,
        line: &str,
    ) -> Self {
        let parts = &understood.parts;
        let repeats = parts.iter().any(|part| part.repeats != Repeats::Never || is_deferred(part));
        let is_piped = line.replace("||", "").contains('|');
        // A single command cannot affect another, and the shell opens its redirections before it runs.
        let alone = parts.len() < 2 && !repeats;
        let brings = |part| if alone { None } else { engine.brings(part, places) };
        Self {
            brings: parts.iter().map(brings).collect(),
            unordered: repeats || is_piped || has_lone_ampersand(line),
            repeats,
            moves_nohup: parts.iter().any(|part| part.behind.is_empty() && moves_nohup(part)),
        }
    }

    pub(super) fn any(&self) -> bool {
        self.brings.iter().any(Option::is_some)
    }

    /// What the command at this place may find that is not there now.
    fn before(&self, at: usize) -> impl Iterator<Item = &Brings> {
        let before = move |(other, _): &(usize, _)| self.may_run_before(*other, at);
        self.brings.iter().enumerate().filter(before).filter_map(|(_, one)| one.as_ref())
    }

    fn may_run_before(&self, other: usize, at: usize) -> bool {
        other < at || self.repeats || self.unordered && other != at
    }

    /// Whether another command may write a file before this one runs.
    pub(super) fn may_write_before(&self, at: usize, understood: &CommandAnalysis) -> bool {
        let writes = |part: &Part| !shell::is_known_safe_within(part, &|_| true);
        let mut others = understood.parts.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(other, part)| self.may_run_before(other, at) && writes(part))
            || understood.redirections.iter().any(|found| found.writes && !super::leaves_no_file(found))
    }
}

impl Engine {
    /// Why a command needs approval because another one brings files in the same line.
    pub(super) fn uses_changed_files(
        &self,
        changes: &TreeChanges,
        at: usize,
        part: &Part,
        harmless: bool,
        places: &WorkingDirs,
    ) -> Option<String> {
        let nohup = is_behind_nohup(part);
        if nohup && changes.moves_nohup {
            return Some(format!(
                "{}: a command of the same line may replace `{NOHUP_FILE}`",
                quoted(&part.text)
            ));
        }
        let first = changes.before(at).next()?;
        let by = match first.program.as_str() {
            "" => "another command".to_owned(),
            program => format!("`{program}`"),
        };
        let links = || {
            Some(format!(
                "{}: in the same line, {by} may bring links or secrets into the workspace",
                quoted(&part.text)
            ))
        };
        if runs_git(part) {
            let is_safe = |from: &PathBuf| {
                self.top_of_repository(part, from)
                    .is_some_and(|folder| changes.before(at).all(|brings| brings.keeps_repository(&folder)))
            };
            if !places.all.iter().all(is_safe) {
                return Some(format!(
                    "{}: in the same line, {by} may bring another repository into the workspace",
                    quoted(&part.text)
                ));
            }
            let writes = shell::touches(part).0.iter().any(|touch| touch.writes);
            let reads = shell::git_reads_untracked(part) || !shell::git_option_files(part).is_empty();
            return if writes || reads || nohup { links() } else { None };
        }
        let reads = shell::reads(part);
        let uses = match &reads {
            Some(reads) if harmless => {
                let only_packages = changes.before(at).all(|brings| brings.packages);
                let is_safe = |read| is_own_folder(read) || only_packages && self.is_apart(read, places);
                // What a folder configures may come with the other files.
                reads.needs_trust && !only_packages || !reads.all.iter().all(is_safe)
            }
            // Users may allow reading anywhere, but not writing through links.
            Some(_) => false,
            None => !harmless && self.writes_through_links(part),
        };
        if nohup || uses { links() } else { None }
    }

    /// Whether something is a plain file that no package manager replaces.
    fn is_apart(&self, read: &Read, places: &WorkingDirs) -> bool {
        let Some(disk) = self.options.disk.as_deref() else { return false };
        let is_apart = |dir: &PathBuf| {
            let spelt = place(dir, &read.path, None);
            let is_own = spelt.iter().any(|name| name.to_str().is_none_or(shell::holds_packages));
            !is_own
                && disk.kind(&spelt) == Some(EntryKind::File)
                && place(&spelt, "", self.options.resolve.as_ref()) == spelt
        };
        matches!(read.how, How::Facts | How::Contents) && places.all.iter().all(is_apart)
    }

    /// Whether a command that a rule allows may follow links.
    fn writes_through_links(&self, part: &Part) -> bool {
        let name = part.words.first().and_then(Option::as_deref).map(super::program_base).unwrap_or_default();
        let (touches, unsure) = shell::touches(part);
        let is_entry = |path: &str| !path.trim_start_matches("./").trim_end_matches('/').contains('/');
        let stays = shell::acts_on_entries(name) && touches.iter().all(|touch| is_entry(touch.path));
        !touches.is_empty() && !stays || unsure.is_some()
    }

    /// The folder that git runs in, if `.git` is directly in it: no checkout replaces that `.git`.
    fn top_of_repository(&self, part: &Part, from: &Path) -> Option<PathBuf> {
        let disk = self.options.disk.as_deref()?;
        let real = |folder: &Path| place(folder, "", self.options.resolve.as_ref());
        let folder = git_directory(part, from, real)?;
        let is_top = match disk.kind(&folder.join(".git")) {
            Some(EntryKind::Folder) => disk.kind(&folder.join(".git/HEAD")).is_some(),
            kind => kind == Some(EntryKind::File),
        };
        is_top.then_some(folder)
    }
}

fn is_own_folder(read: &Read) -> bool {
    read.path == "." && read.how == How::Facts
}

/// Whether a command runs later than its place in the line says.
fn is_deferred(part: &Part) -> bool {
    part.behind.iter().any(|name| name == "trap")
}

/// Whether a command replaces the file that `nohup` writes, or may make it read-only.
fn moves_nohup(part: &Part) -> bool {
    let name = part.words.first().and_then(Option::as_deref).map(super::program_base).unwrap_or_default();
    let named = |path: &str| path.trim_end_matches('/').ends_with(NOHUP_FILE);
    shell::changes_permissions(name)
        || shell::touches(part).0.iter().any(|touch| touch.writes && named(touch.path))
}
