//! Protected files that a command replaces without naming them: below the folder it writes to, through further names
//! of the same file, or because a patch names them.
//!
//! Archives and branches are not opened: what they bring is the content that the user allowed.

use std::path::{Path, PathBuf};

use pollux_domain::call_summary::quoted;

use super::brought::sources;
use super::copies::matches;
use super::reading::untold;
use super::repository::runs_git;
use super::working_dirs::{HARMLESS_TARGETS, WorkingDirs};
use super::{Engine, PolicyCall, named};
use crate::checker::place;
use crate::disk::{BoundedDisk, EntryKind, MAX_BYTES};
use crate::shell::{self, CommandAnalysis, Part, Touch};

/// Beginnings of the lines of a patch that name files.
const NAMES_FILES: [&str; 8] = ["--- ", "+++ ", "*** ", "Index:", "diff ", "rename ", "copy ", "Prereq:"];

/// The `host:` before a file on another machine; empty for other programs, where a colon is part of the name.
fn host_of<'n>(part: &Part, name: &'n str) -> &'n str {
    let first = name.split('/').next().filter(|_| shell::names_hosts(part));
    first.and_then(|first| name.get(..=first.find(':')?)).unwrap_or_default()
}

impl Engine {
    /// Why a command that copies, links or unpacks may not write where its sources' names lead.
    pub(super) fn replaces_protected(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        touches: &[Touch<'_>],
        places: &WorkingDirs,
    ) -> Option<String> {
        // A decompressor removes the end of a name, which an option may choose.
        let packed = touches.iter().filter(|touch| touch.writes && shell::unpacks(part));
        let packed = packed.filter_map(|touch| Some(touch.path.rsplit_once('.')?.0));
        let operands = touches.iter().map(|touch| touch.path).filter(|_| shell::git_changes_operands(part));
        for path in packed.chain(operands) {
            if path.starts_with(':') || shell::git_changes_operands(part) && path.contains(['*', '?', '[']) {
                return Some(format!("`{path}` may match protected files"));
            }
            let why = places.all.iter().find_map(|dir| self.writes_protected(call, dir, path));
            if why.is_some() {
                return why;
            }
        }
        let hard = shell::links_hard(part);
        if !hard && !shell::puts_into(part) {
            return None;
        }
        if shell::names_backups(part) {
            return Some("a backup may replace another file".to_owned());
        }
        let (from, to) = match touches.split_last() {
            Some((last, rest)) if runs_git(part) => (rest.iter().collect(), vec![last]),
            _ => sources(part, touches),
        };
        let mut look = BoundedDisk::new(self.options.disk.as_deref()?);
        for dir in &places.all {
            for source in
                from.iter().flat_map(|touch| matches(part, touch.path, dir, &mut look)).collect::<Vec<_>>()
            {
                let mut below = Vec::new();
                let root = place(dir, &source, self.options.resolve.as_ref());
                if shell::copies_trees(part)
                    && let Err(why) = list_below(&root, Path::new(""), &mut look, &mut below)
                {
                    return Some(why);
                }
                if hard {
                    let files = below.iter().map(|file| root.join(file)).chain([place(dir, &source, None)]);
                    let why = files.into_iter().find_map(|file| self.writes_protected(call, &file, ""));
                    if let Some(why) = why {
                        return Some(why);
                    }
                }
                // `host:file` has the name of the file.
                let local = source.get(host_of(part, &source).len()..).unwrap_or_default();
                for target in to.iter().filter(|target| host_of(part, target.path).is_empty()) {
                    if let Some(why) = self.lands_on(call, places, dir, target.path, local, &below, &look) {
                        return Some(why);
                    }
                }
            }
        }
        None
    }

    /// Why a source may not be put into a folder.
    #[expect(clippy::too_many_arguments, reason = "one place of a line with all that it means")]
    fn lands_on(
        &self,
        call: &PolicyCall<'_>,
        places: &WorkingDirs,
        dir: &Path,
        target: &str,
        source: &str,
        below: &[PathBuf],
        look: &BoundedDisk<'_>,
    ) -> Option<String> {
        let folder = place(dir, target, self.options.resolve.as_ref());
        if HARMLESS_TARGETS.contains(&target) || look.disk.kind(&folder) == Some(EntryKind::File) {
            return None;
        }
        let spelt = place(dir, source, None);
        let name = spelt.file_name().map(|name| folder.join(name));
        let within = below.iter().map(|file| folder.join(file));
        let under = below.iter().filter_map(|file| Some(name.as_ref()?.join(file)));
        name.iter().cloned().chain(within).chain(under).find_map(|file| {
            if look.disk.kind(&file) == Some(EntryKind::Link)
                && file.to_str().is_none_or(|text| !places.holds(self, text))
            {
                return Some(format!("it writes to `{}`, which leads outside the workspace", file.display()));
            }
            self.writes_protected(call, &file, "")
        })
    }

    fn writes_protected(&self, call: &PolicyCall<'_>, dir: &Path, path: &str) -> Option<String> {
        let source = self.protected(call, dir, path)?;
        let file = if path.is_empty() { dir.to_string_lossy() } else { path.into() };
        Some(format!("it writes to `{file}`, protected by {}", named(source)))
    }

    /// Why a patch may not be applied: it names a protected file, or cannot be read before the command runs.
    pub(super) fn patches_protected(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
        may_change: bool,
    ) -> Option<String> {
        if !self.options.protect_build_files || !shell::applies_patch(part) {
            return None;
        }
        let disk = self.options.disk.as_deref()?;
        let unknown =
            || Some(format!("{}: the files that its patch changes are not known", quoted(&part.text)));
        let mut look = BoundedDisk::new(disk);
        let (touches, _) = shell::touches(part);
        let fed = understood.redirections.iter().filter(|found| !found.writes);
        let fed: Vec<&str> = fed.filter_map(|found| found.target.as_deref()).collect();
        let mut patches: Vec<&str> =
            touches.iter().filter(|touch| !touch.writes).map(|touch| touch.path).chain(fed).collect();
        // One operand of `patch` is the only file that it changes; the second is the patch.
        if patches.is_empty() && !runs_git(part) {
            patches.extend(touches.iter().map(|touch| touch.path));
        }
        if patches.is_empty() || may_change {
            return unknown();
        }
        for dir in &places.all {
            for file in
                patches.iter().flat_map(|name| matches(part, name, dir, &mut look)).collect::<Vec<_>>()
            {
                let real = place(dir, &file, self.options.resolve.as_ref());
                // Nothing is applied, and nothing in the line may make the file before.
                if disk.kind(&real).is_none() {
                    continue;
                }
                let text = (disk.kind(&real) == Some(EntryKind::File)).then(|| disk.text(&real)).flatten();
                let Some(text) = text.filter(|text| (text.len() as u64) < MAX_BYTES) else {
                    return unknown();
                };
                if let Some(why) = text.lines().find_map(|line| self.names_protected(call, dir, line)) {
                    return Some(format!("{}: {why}", quoted(&part.text)));
                }
            }
        }
        None
    }

    /// Why a line of a patch names a protected file. Any number of folders may be stripped from its names.
    fn names_protected(&self, call: &PolicyCall<'_>, dir: &Path, line: &str) -> Option<String> {
        let line = line.trim_start();
        if !NAMES_FILES.iter().any(|start| line.starts_with(start)) {
            return None;
        }
        if line.contains(['"', '\\']) {
            return Some(format!("the file that its patch names in `{line}` is not known"));
        }
        line.split_whitespace().flat_map(suffixes).find_map(|name| self.writes_protected(call, dir, name))
    }
}

/// A path, and what is left of it without its first folders.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.split_once('/').map(|(_, rest)| rest))
        .filter(|path| !path.is_empty())
}

/// Every file and folder below a folder, links not followed.
fn list_below(
    root: &Path,
    folder: &Path,
    look: &mut BoundedDisk<'_>,
    found: &mut Vec<PathBuf>,
) -> Result<(), String> {
    if look.disk.kind(&root.join(folder)) != Some(EntryKind::Folder) {
        return Ok(());
    }
    let entries = look.list(&root.join(folder)).map_err(|why| untold(why, &root.to_string_lossy()))?;
    for entry in entries {
        let path = folder.join(&entry.name);
        found.push(path.clone());
        if entry.kind == EntryKind::Folder {
            list_below(root, &path, look, found)?;
        }
    }
    Ok(())
}
