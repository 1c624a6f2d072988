//! What a command brings into the workspace: links, repositories, secrets under another name, file names that look like
//! options.
//!
//! Looks at what is copied; does not judge who uses it.

use std::path::{Path, PathBuf};

use super::repository::runs_git;
use super::working_dirs::WorkingDirs;
use super::{Engine, program_base};
use crate::checker::place;
use crate::disk::{BoundedDisk, EntryKind};
use crate::secrets::{is_private_folder, is_secret_name};
use crate::shell::{self, Part, Touch};

/// A command that brings files.
pub(super) struct Brings {
    pub(super) program: String,
    /// The folders that it may fill; `None` if it may replace anything.
    into: Option<Vec<PathBuf>>,
    /// Whether it fills only folders that are named in the tables, and replaces no other file by a link.
    pub(super) packages: bool,
}

impl Brings {
    /// Whether the command cannot replace the repository at the top of this folder.
    pub(super) fn keeps_repository(&self, folder: &Path) -> bool {
        self.into.as_ref().is_some_and(|into| !into.iter().any(|filled| folder.starts_with(filled)))
    }
}

impl Engine {
    /// What a command brings, if anything.
    pub(super) fn brings(&self, part: &Part, places: &WorkingDirs) -> Option<Brings> {
        let first = part.words.first()?;
        let name = first.as_deref().map(program_base).unwrap_or_default();
        let brings = |into| Some(Brings { program: name.to_owned(), into, packages: false });
        if runs_git(part) {
            return changes_tree(part).then(|| brings(Some(Vec::new()))).flatten();
        }
        if shell::is_known_safe_within(part, &|_| true) {
            return None;
        }
        let (touches, unsure) = shell::touches(part);
        let odd = |touch: &Touch<'_>| touch.writes && touch.path.split('/').any(|name| name.starts_with('-'));
        match shell::brought_by(part) {
            shell::Brought::Nothing if touches.iter().any(odd) => brings(None),
            shell::Brought::Nothing => None,
            shell::Brought::Below => {
                let packages = unsure.is_none() && !touches.iter().any(|touch| touch.writes);
                brings(Some(Vec::new())).map(|found| Brings { packages, ..found })
            }
            kind @ (shell::Brought::Copies | shell::Brought::Links) if unsure.is_none() => {
                let (from, to) = sources(part, &touches);
                if touches.iter().any(odd) || self.contains_working_dir(&from, places) {
                    return brings(None);
                }
                let resolve = self.options.resolve.as_ref();
                let mut into = Vec::new();
                for touch in &to {
                    into.extend(places.all.iter().map(|dir| place(dir, touch.path, resolve)));
                }
                let is_remote =
                    |touch: &Touch<'_>| touch.path.split('/').next().is_some_and(|host| host.contains(':'));
                if touches.iter().any(is_remote) {
                    return brings(None);
                }
                let found = kind == shell::Brought::Links || self.holds_special_files(&from, part, places);
                found.then(|| brings(Some(into))).flatten()
            }
            _ => brings(None),
        }
    }

    /// Whether a source contains a working directory of the line. Once that is moved, `..` leads to another folder.
    fn contains_working_dir(&self, from: &[&Touch<'_>], places: &WorkingDirs) -> bool {
        places.all.iter().any(|dir| {
            from.iter().any(|touch| dir.starts_with(place(dir, touch.path, self.options.resolve.as_ref())))
        })
    }

    /// Whether what is copied holds more than ordinary files.
    fn holds_special_files(&self, from: &[&Touch<'_>], part: &Part, places: &WorkingDirs) -> bool {
        let Some(disk) = self.options.disk.as_deref() else { return true };
        let mut look = BoundedDisk::new(disk);
        places.all.iter().any(|dir| {
            from.iter().any(|touch| {
                if part.patterns.iter().any(|pattern| pattern.text == touch.path) {
                    return look.expand(dir, touch.path).map_or(true, |found| {
                        found.iter().any(|one| one.linked || is_special(&one.path, one.kind, &mut look))
                    });
                }
                let path = place(dir, touch.path, None);
                look.disk.kind(&path).is_some_and(|kind| is_special(&path, kind, &mut look))
            })
        })
    }
}

/// The files that are copied, moved or sent, and those that are written.
pub(super) fn sources<'t, 'p>(
    part: &Part,
    touches: &'t [Touch<'p>],
) -> (Vec<&'t Touch<'p>>, Vec<&'t Touch<'p>>) {
    let name = part.words.first().and_then(Option::as_deref).map(program_base).unwrap_or_default();
    if !shell::operands_are_sources(name) {
        return touches.iter().partition(|touch| !touch.writes);
    }
    // Every operand is a source and is changed, except the target of `mv`: the value of `-t`, or the last operand.
    let to = match name {
        "mv" if shell::names_target(part) => Some(0),
        "mv" => touches.len().checked_sub(1),
        _ => None,
    };
    let (to, from): (Vec<_>, Vec<_>) = touches.iter().enumerate().partition(|(at, _)| Some(*at) == to);
    let plain = |all: Vec<(usize, &'t Touch<'p>)>| all.into_iter().map(|(_, touch)| touch).collect();
    (plain(from), plain(to))
}

/// Whether a file, or any file below a folder, is a link, a secret or part of a repository. Names that a shell or
/// program would misread count, too.
fn is_special(path: &Path, kind: EntryKind, look: &mut BoundedDisk<'_>) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return true };
    let is_odd = |c: char| c.is_whitespace() || "*?[]\\'\"".contains(c);
    let of_repository =
        ["HEAD", ".git", "commondir", "gitdir"].iter().any(|file| name.eq_ignore_ascii_case(file))
            || kind == EntryKind::File && name.eq_ignore_ascii_case("config");
    if name.starts_with('-')
        || name.contains(is_odd)
        || of_repository
        || is_secret_name(name)
        || is_private_folder(name)
    {
        return true;
    }
    match kind {
        EntryKind::File => false,
        EntryKind::Link | EntryKind::Other => true,
        EntryKind::Folder => look.list(path).map_or(true, |entries| {
            entries.iter().any(|entry| is_special(&path.join(&entry.name), entry.kind, look))
        }),
    }
}

/// Whether a git command may bring files or links into a folder, or replace them.
fn changes_tree(part: &Part) -> bool {
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
        // Without a folder it makes `.git`, and no other folder a repository.
        ("init", _) => {
            let options: Option<Vec<&str>> = arguments.iter().map(Option::as_deref).collect();
            !matches!(options.as_deref(), Some([] | ["-q" | "--quiet"] | ["-b", _] | ["-q", "-b", _]))
        }
        _ => shell::changes_tree(subcommand),
    }
}
