//! Walks the files below a folder, without ignored and protected ones.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use globset::{GlobSet, GlobSetBuilder};
use pollux_domain::secret_names::secret_part;
use tokio_util::sync::CancellationToken;

use crate::ignore_rules::{IgnoreRules, Respect};
use crate::workspace::{DirectoryEntry, EntryKind, Folder as OpenFolder, Workspace};

/// Limit of entries examined in ignored folders, only to count the skipped files.
const IGNORED_BUDGET: usize = 20_000;

/// Folders that no search enters; upstream's list.
const COMMON_EXCLUDES: &[&str] = &["node_modules", ".git", "bower_components", ".svn", ".hg"];

/// The start and the exclusions of a walk.
pub(crate) struct Walk<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) rules: &'a IgnoreRules,
    pub(crate) respect: Respect,
    pub(crate) start: &'a Path,
    /// Globs on paths relative to `start`: files and folders that are left out without being counted.
    pub(crate) excludes: &'a GlobSet,
    /// Only folders on the way to, or below, this path relative to `start` are entered.
    pub(crate) prefix: &'a Path,
    /// Whether ignored files are reported as such, or omitted.
    pub(crate) reports_ignored: bool,
    pub(crate) cancel: &'a CancellationToken,
}

/// A file found by a walk.
pub(crate) struct FoundFile<'a> {
    pub(crate) path: &'a Path,
    /// Relative to the start of the walk.
    pub(crate) below: &'a Path,
    pub(crate) is_ignored: bool,
    /// Whether its name, or that of a folder below the start, says that it may contain secrets.
    pub(crate) is_secret: bool,
    folder: &'a OpenFolder,
}

impl FoundFile<'_> {
    /// When it was last changed.
    pub(crate) fn modified(&self) -> SystemTime {
        let name = self.path.file_name().unwrap_or_default();
        self.folder.status(name).map_or(UNIX_EPOCH, |status| status.modified)
    }
}

/// The walk was cancelled.
pub(crate) struct Cancelled;

struct Folder {
    path: PathBuf,
    is_ignored: bool,
    is_secret: bool,
}

impl Walk<'_> {
    /// Visits regular files in order of their names, each folder's files before its folders.
    /// Symlinks are not followed.
    pub(crate) fn run(&self, visit: &mut dyn FnMut(FoundFile<'_>)) -> Result<(), Cancelled> {
        let ignored = self.rules.is_ignored(self.start, true, self.respect);
        if ignored && !self.reports_ignored {
            return Ok(());
        }
        let mut stack = vec![Folder { path: self.start.to_owned(), is_ignored: ignored, is_secret: false }];
        let mut budget = IGNORED_BUDGET;
        while let Some(folder) = stack.pop() {
            if self.cancel.is_cancelled() {
                return Err(Cancelled);
            }
            let Some((open, names)) = self.look_into(&folder.path) else { continue };
            let rules = self.rules.for_folder(&folder.path, self.respect);
            let mut folders = Vec::new();
            for entry in names {
                let is_dir = entry.kind == EntryKind::Folder;
                if folder.is_ignored {
                    let Some(left) = budget.checked_sub(1) else { break };
                    budget = left;
                }
                let path = folder.path.join(&entry.name);
                let below = path.strip_prefix(self.start).unwrap_or(&path);
                if !self.is_wanted(&path, below, is_dir) {
                    continue;
                }
                let is_ignored = folder.is_ignored || rules.ignore(&path, is_dir);
                if is_ignored && !self.reports_ignored {
                    continue;
                }
                let is_secret = folder.is_secret || secret_part(Path::new(&entry.name)).is_some();
                if is_dir {
                    folders.push(Folder { path, is_ignored, is_secret });
                } else {
                    visit(FoundFile { path: &path, below, is_ignored, is_secret, folder: &open });
                }
            }
            stack.extend(folders.into_iter().rev());
        }
        Ok(())
    }

    /// Visits files and folders breadth-first, with paths relative to the start, until `visit` stops. Ignored
    /// entries are skipped.
    pub(crate) fn breadth_first(&self, visit: &mut dyn FnMut(&Path, bool) -> ControlFlow<()>) {
        let mut waiting = VecDeque::from([self.start.to_owned()]);
        while let Some(folder) = waiting.pop_front() {
            if self.cancel.is_cancelled() {
                return;
            }
            let Some((_, names)) = self.look_into(&folder) else { continue };
            let rules = self.rules.for_folder(&folder, self.respect);
            for entry in names {
                let is_dir = entry.kind == EntryKind::Folder;
                let path = folder.join(&entry.name);
                let below = path.strip_prefix(self.start).unwrap_or(&path);
                if !self.is_wanted(&path, below, is_dir) || rules.ignore(&path, is_dir) {
                    continue;
                }
                if visit(below, is_dir).is_break() {
                    return;
                }
                if is_dir {
                    waiting.push_back(path);
                }
            }
        }
    }

    /// The files and folders of a folder, by name.
    fn look_into(&self, folder: &Path) -> Option<(OpenFolder, Vec<DirectoryEntry>)> {
        // Opened by its real path: an entry that has become a link is not entered.
        let open = self.workspace.open_folder(folder).ok()?;
        let mut names = open.entries().ok()?;
        names.retain(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Folder));
        names.sort_unstable();
        Some((open, names))
    }

    fn is_wanted(&self, path: &Path, below: &Path, is_dir: bool) -> bool {
        if self.excludes.is_match(below) || !self.workspace.may_see(path) {
            return false;
        }
        if !is_dir {
            return true;
        }
        // The program's own state would feed back into the context, so it is only included on request.
        let own_state = path == self.workspace.state_dir();
        !own_state && (below.starts_with(self.prefix) || self.prefix.starts_with(below))
    }
}

/// The excludes of every search, and these on top. Names without a slash match at any depth.
pub(crate) fn exclude_set(more: &[&str]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in COMMON_EXCLUDES.iter().chain(more) {
        let anywhere = if pattern.contains('/') { (*pattern).to_owned() } else { format!("**/{pattern}") };
        set.add(globset::GlobBuilder::new(&anywhere).literal_separator(true).build()?);
    }
    set.build()
}
