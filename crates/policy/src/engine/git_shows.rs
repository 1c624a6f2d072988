//! Secrets that git shows without their names on the command line: in tracked files, in files that the line adds, and
//! in the URLs of remotes.
//!
//! Reads the index and the ignore files itself; does not look at earlier commits.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Engine;
use super::git_repository::Repository;
use super::reading::untold;
use super::repository::runs_git;
use super::working_dirs::WorkingDirs;
use crate::checker::place;
use crate::disk::{BoundedDisk, Disk, EntryKind, MAX_BYTES, MAX_NAMES, finds_any};
use crate::git_index::each_path;
use crate::secrets::{is_private_folder, is_secret_name};
use crate::shell::{self, CommandAnalysis, Part, git_directory};

/// Size limit for an index, in bytes.
pub(super) const MAX_INDEX: u64 = 64 * 1024 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';

impl Engine {
    /// Why a git command may show a secret that its words do not name.
    pub(super) fn git_shows(
        &self,
        part: &Part,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
        brought: bool,
    ) -> Option<String> {
        if !runs_git(part) {
            return None;
        }
        let disk = self.options.disk.as_deref()?;
        let look = BoundedDisk::new(disk);
        let real = |folder: &Path| place(folder, "", self.options.resolve.as_ref());
        let printed = shell::git_prints(part);
        let addresses = shell::git_shows_addresses(part);
        let stash = shell::git_shows_stash(part);
        if printed.is_none() && !addresses && !stash {
            return None;
        }
        for from in &places.all {
            // If the folder is unknown, another check requires approval.
            let Some(folder) = git_directory(part, from, real) else { continue };
            if addresses && let Err(Some(why)) = self.weigh_remotes(&folder, &look) {
                return Some(why);
            }
            if stash && let Some(why) = self.stash_settings(disk, &folder) {
                return Some(why);
            }
            let Some(printed) = &printed else { continue };
            let candidates = Repository::candidates(disk, &folder);
            if !candidates.iter().any(|one| one.is_certain) && compares_folders(part, disk, &folder) {
                return Some("outside a repository, git compares folders file by file".to_owned());
            }
            for repository in &candidates {
                let mut printed = printed.clone();
                let is_inside = repository.is_inside(&folder);
                let exists = |name: &str| !is_inside && disk.kind(&folder.join(name)).is_some();
                if !printed.settle(exists, |name| repository.is_commit(disk, name)) {
                    continue;
                }
                // In git's own folder, paths start at the top.
                if is_inside {
                    printed.widen();
                }
                let shown = |path: &str| printed.include(path, &prefix(&folder, &repository.top));
                let enters = printed.submodules || self.enters_submodules(disk);
                if let Some(why) = tracked_secret(disk, repository, enters, &shown) {
                    return Some(why);
                }
                let adds = understood.parts.iter().filter(|other| runs_git(other));
                for added in adds.filter_map(shell::git_adds) {
                    let added =
                        |path: &str| shown(path) && added.include(path, &prefix(&folder, &repository.top));
                    let ignores = !brought
                        && !understood.parts.iter().any(may_change_ignores)
                        && redirects_none(understood);
                    if let Some(why) = self.added_secret(repository, ignores, &added) {
                        return Some(why);
                    }
                }
            }
        }
        None
    }

    /// Why `git stash show` may show more than the names of tracked files: settings can replace its options.
    fn stash_settings(&self, disk: &dyn Disk, folder: &Path) -> Option<String> {
        let repositories = Repository::candidates(disk, folder);
        let files = repositories.iter().flat_map(|repository| repository.settings_files(disk));
        let all = self.settings_with_own(disk, files.collect());
        let Some(all) = all else { return Some("git settings may make it show more than names".to_owned()) };
        let shown = all.iter().find(|one| {
            one.section == "stash"
                && matches!(one.key.as_str(), "showincludeuntracked" | "showpatch")
                && one.is_on()
        })?;
        Some(format!("`{}` in your git settings makes it show the contents of files", shown.name()))
    }

    /// Whether the settings of the user or the machine let git show files of submodules.
    fn enters_submodules(&self, disk: &dyn Disk) -> bool {
        let all = self.settings_with_own(disk, Vec::new());
        all.is_none_or(|all| {
            all.iter().any(|one| match one.name().as_str() {
                "submodule.recurse" => one.is_on(),
                "diff.submodule" => one.value == "diff",
                _ => false,
            })
        })
    }

    /// Why a file that is not tracked yet may be added: it may contain secrets and is not ignored.
    fn added_secret(
        &self,
        repository: &Repository,
        ignores: bool,
        added: &dyn Fn(&str) -> bool,
    ) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let resolve = self.options.resolve.as_ref();
        let workspaces = self.options.workspaces.iter().map(|root| place(root, "", resolve));
        let root = workspaces
            .filter(|root| root.starts_with(&repository.top))
            .min_by_key(|root| root.as_os_str().len())
            .unwrap_or_else(|| repository.top.clone());
        let mut untracked = Untracked {
            top: &repository.top,
            ignores,
            added,
            look: BoundedDisk::new(disk),
            rules: Vec::new(),
        };
        untracked.read_rules(&repository.top, &repository.git.join("info/exclude"));
        let mut above: Vec<&Path> =
            root.ancestors().skip(1).take_while(|folder| folder.starts_with(&repository.top)).collect();
        above.reverse();
        for folder in above {
            untracked.read_rules(folder, &folder.join(".gitignore"));
        }
        untracked.folder(&root).err()
    }
}

/// The path of a folder below the top, with a slash at its end.
fn prefix(folder: &Path, top: &Path) -> String {
    let below = folder.strip_prefix(top).unwrap_or(Path::new("")).to_string_lossy();
    if below.is_empty() { String::new() } else { format!("{below}/") }
}

fn tracked_secret(
    disk: &dyn Disk,
    repository: &Repository,
    submodules: bool,
    shown: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let index = repository.git.join("index");
    disk.kind(&index)?;
    let (mut secret, mut submodule, mut excluded) = (None, false, 0);
    let read = disk.bytes(&index, MAX_INDEX).and_then(|bytes| {
        each_path(&bytes, |path, kind| {
            submodule |= kind == EntryKind::Other;
            let path = String::from_utf8_lossy(path);
            if !is_secret(&path) {
                return ControlFlow::Continue(());
            }
            excluded += 1;
            if shown(&path) || excluded > MAX_NAMES {
                secret = Some(path.into_owned());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
    });
    if secret.is_none() && submodule && (submodules || repository.enters_submodules(disk)) {
        return Some("it shows files of submodules".to_owned());
    }
    match (secret, read) {
        (Some(path), _) => Some(format!("git tracks `{path}`, which may contain secrets")),
        (None, None) => Some("the files that git tracks cannot be determined".to_owned()),
        (None, Some(())) => None,
    }
}

/// Whether `git diff` has two paths as operands, one of them a folder, or a pattern that may match such paths.
fn compares_folders(part: &Part, disk: &dyn Disk, folder: &Path) -> bool {
    if !shell::git_compares(part) {
        return false;
    }
    let words = part.words.iter().skip(shell::git_subcommand(&part.words) + 1).flatten();
    let kinds: Vec<EntryKind> = words.filter_map(|word| disk.kind(&folder.join(word))).collect();
    let is_folder = |kind: &EntryKind| matches!(kind, EntryKind::Folder | EntryKind::Link);
    !part.patterns.is_empty() || kinds.len() > 1 && kinds.iter().any(is_folder)
}

fn is_secret(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_secret_name(name)
        || folders.contains('.')
            && folders.split('/').any(|name| is_private_folder(name) || is_secret_name(name))
}

/// Whether a command may change which files are ignored.
fn may_change_ignores(part: &Part) -> bool {
    let names = |text: &str| {
        let last = text.rsplit('/').next().unwrap_or_default();
        text.contains("ignore")
            || text.contains("exclude")
            || last.contains(['*', '?', '[']) && finds_any(last, ".gitignore")
    };
    part.words.iter().flatten().any(|word| names(word)) && shell::git_adds(part).is_none()
        || part.patterns.iter().any(|pattern| names(&pattern.text))
}

fn redirects_none(understood: &CommandAnalysis) -> bool {
    let mut targets =
        understood.redirections.iter().filter(|found| found.writes).map(|found| found.target.as_deref());
    !targets.any(|target| target.is_none_or(|target| target.contains("ignore") || target.contains("exclude")))
}

/// A search for files that `git add` may add.
struct Untracked<'r> {
    top: &'r Path,
    /// Whether ignore files are applied.
    ignores: bool,
    added: &'r dyn Fn(&str) -> bool,
    look: BoundedDisk<'r>,
    /// The patterns of ignore files, with the folders that they apply to.
    rules: Vec<(PathBuf, String)>,
}

impl Untracked<'_> {
    fn read_rules(&mut self, folder: &Path, file: &Path) {
        if !self.ignores || self.look.disk.kind(file) != Some(EntryKind::File) {
            return;
        }
        let text = self.look.disk.text(file).unwrap_or_default();
        // The part that was not read may negate any pattern.
        if text.len() as u64 >= MAX_BYTES {
            self.ignores = false;
        }
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        // Git removes only spaces. A tab at the end is part of the name.
        let lines = text
            .split('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line).trim_end_matches(' '))
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.rules.extend(lines.map(|line| (folder.to_owned(), line.to_owned())));
    }

    /// `Err` with the reason if a secret may be added.
    fn folder(&mut self, folder: &Path) -> Result<(), String> {
        let before = self.rules.len();
        self.read_rules(folder, &folder.join(".gitignore"));
        let entries = self.look.list(folder).map_err(|why| untold(why, &folder.to_string_lossy()))?;
        for entry in entries {
            let name = entry.name.to_string_lossy();
            let path = folder.join(&entry.name);
            let is_folder = entry.kind == EntryKind::Folder;
            if name == ".git" || self.is_ignored(&path, &name, is_folder) {
                continue;
            }
            if is_folder {
                self.folder(&path)?;
                continue;
            }
            let below = path.strip_prefix(self.top).unwrap_or(&path).to_string_lossy().into_owned();
            if is_secret(&below) && (self.added)(&below) {
                return Err(format!("git may add `{below}` on the same line; it may contain secrets"));
            }
        }
        self.rules.truncate(before);
        Ok(())
    }

    /// Whether a file or folder is ignored. A pattern that might not match is treated as not matching; a negated
    /// pattern that might match is treated as matching.
    fn is_ignored(&self, path: &Path, name: &str, is_folder: bool) -> bool {
        let mut ignored = false;
        for (folder, line) in self.rules.iter().filter(|_| self.ignores) {
            let Ok(below) = path.strip_prefix(folder) else { continue };
            if let Some(shown) = line.strip_prefix('!') {
                let last = shown.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                if finds_any(last, name) || last.contains('\\') {
                    return false;
                }
                continue;
            }
            let pattern = if is_folder { line.trim_end_matches('/') } else { line };
            let pattern = pattern.strip_prefix("**/").unwrap_or(pattern);
            if pattern.contains(['[', '\\']) || pattern.ends_with('/') {
                continue;
            }
            ignored |= match pattern.trim_start_matches('/') {
                anchored if anchored.contains('/') || anchored.len() < pattern.len() => {
                    below.to_str().is_some_and(|below| below == anchored)
                }
                pattern => finds_any(pattern, name),
            };
        }
        ignored
    }
}
