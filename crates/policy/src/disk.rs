//! The part of the file system that decisions need: the files that a pattern matches and the entries below a
//! folder.
//!
//! Use it only through [`Disk`], so that tests can supply their own. Matching errs on the side of more files
//! than bash finds: `[…]` counts as any text, and quoted characters of a pattern count as special.

mod ignored;

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

pub(crate) use self::ignored::{IGNORE_FILES, Revealed};
use crate::wildcard::{ANY_FOLDERS, ANY_NAME};

/// Limit of file names examined for one decision.
pub(crate) const MAX_NAMES: usize = 100_000;
/// Limit of bytes read from one file.
pub(crate) const MAX_BYTES: u64 = 64 * 1024;

/// Files of a repository that may contain credentials.
pub(crate) const GIT_SETTINGS: [&str; 2] = ["config", "config.worktree"];

/// Access to the file system.
pub trait Disk: Send + Sync {
    /// The entries of a folder, without following a link at its end; `None` if it is not a folder or cannot be
    /// read.
    fn list(&self, folder: &Path) -> Option<Vec<DirectoryEntry>>;

    /// The kind of entry at a path, without following a link at its end.
    fn kind(&self, path: &Path) -> Option<EntryKind>;

    /// The first bytes of a small regular file, as text.
    fn text(&self, file: &Path) -> Option<String>;

    /// The bytes of a regular file; `None` if it cannot be read or has more than the limit.
    fn bytes(&self, file: &Path, limit: u64) -> Option<Vec<u8>>;

    /// Whether the mode of a file or folder lets anyone write to it. It does not check whether the current user may.
    fn is_writable(&self, path: &Path) -> bool;
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: OsString,
    pub kind: EntryKind,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn list(&self, folder: &Path) -> Option<Vec<DirectoryEntry>> {
        let entries = fs::read_dir(folder).ok()?;
        let entry = |entry: fs::DirEntry| {
            Some(DirectoryEntry { name: entry.file_name(), kind: kind_of(entry.file_type().ok()?) })
        };
        Some(entries.take(MAX_NAMES + 1).filter_map(|found| entry(found.ok()?)).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        fs::symlink_metadata(path).ok().map(|facts| kind_of(facts.file_type()))
    }

    fn text(&self, file: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        open(file)?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn bytes(&self, file: &Path, limit: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        open(file)?.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    fn is_writable(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|facts| !facts.permissions().readonly())
    }
}

/// Opens a regular file. To open a pipe would wait for a writer that may never come.
fn open(file: &Path) -> Option<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

fn kind_of(kind: fs::FileType) -> EntryKind {
    if kind.is_symlink() {
        EntryKind::Link
    } else if kind.is_dir() {
        EntryKind::Folder
    } else if kind.is_file() {
        EntryKind::File
    } else {
        EntryKind::Other
    }
}

/// A file that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// As passed to the command.
    pub word: String,
    pub path: PathBuf,
    pub kind: EntryKind,
    /// Whether it is a link, or one is on the way to it.
    pub linked: bool,
}

/// A partially matched pattern.
#[derive(Clone)]
struct PartialMatch {
    path: PathBuf,
    /// The same as passed to the command.
    word: String,
    linked: bool,
}

impl PartialMatch {
    fn to(&self, name: &str) -> Self {
        Self { path: self.path.join(name), word: format!("{}{name}", self.word), linked: self.linked }
    }

    fn ends(self, kind: EntryKind) -> Match {
        Match { word: self.word, path: self.path, kind, linked: self.linked }
    }
}

/// Why the matches of a pattern cannot be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unresolved {
    TooMany,
    /// A file name that is not valid UTF-8.
    Name,
}

/// File system access with a limit per decision, so that it terminates.
pub(crate) struct BoundedDisk<'d> {
    pub disk: &'d dyn Disk,
    left: usize,
}

impl<'d> BoundedDisk<'d> {
    pub(crate) fn new(disk: &'d dyn Disk) -> Self {
        Self { disk, left: MAX_NAMES }
    }

    /// The entries of a folder.
    pub(crate) fn list(&mut self, folder: &Path) -> Result<Vec<DirectoryEntry>, Unresolved> {
        let entries = self.disk.list(folder).unwrap_or_default();
        self.left = self.left.checked_sub(entries.len()).ok_or(Unresolved::TooMany)?;
        Ok(entries)
    }

    /// Every file that a pattern matches, starting from a folder.
    pub(crate) fn expand(&mut self, from: &Path, pattern: &str) -> Result<Vec<Match>, Unresolved> {
        let (start, word, rest) = match pattern.strip_prefix('/') {
            Some(rest) => (PathBuf::from("/"), "/".to_owned(), rest),
            None => (from.to_owned(), String::new(), pattern),
        };
        let components: Vec<&str> = rest.split('/').filter(|component| !component.is_empty()).collect();
        let mut found = Vec::new();
        self.descend(&PartialMatch { path: start, word, linked: false }, &components, &mut found)?;
        Ok(found)
    }

    fn descend(
        &mut self,
        way: &PartialMatch,
        components: &[&str],
        found: &mut Vec<Match>,
    ) -> Result<(), Unresolved> {
        let Some((component, rest)) = components.split_first() else { return Ok(()) };
        // Two stars at the end mean a list of visible files; in other positions bash reads them as one.
        let lists = *component == "**" && rest.is_empty();
        if lists || component.starts_with(ANY_FOLDERS) {
            return match rest.len() {
                0 | 1 => {
                    let shown = lists.then(|| Revealed::above(self.disk, &way.path));
                    self.below(way, shown.as_ref(), rest, found)
                }
                _ => Err(Unresolved::TooMany),
            };
        }
        if !component.contains(['*', '?', '[', ANY_NAME]) {
            let next = way.to(component);
            let Some(kind) = self.disk.kind(&next.path) else { return Ok(()) };
            return self.take(next, kind, rest, found);
        }
        for entry in self.list(&way.path)? {
            let name = entry.name.to_string_lossy();
            if !finds(component, &name) {
                continue;
            }
            let name = entry.name.to_str().ok_or(Unresolved::Name)?;
            self.take(way.to(name), entry.kind, rest, found)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        mut way: PartialMatch,
        kind: EntryKind,
        rest: &[&str],
        found: &mut Vec<Match>,
    ) -> Result<(), Unresolved> {
        way.linked |= kind == EntryKind::Link;
        // The list of files below a file contains the file itself.
        let deep = |component: &str| component == "**" || component.starts_with(ANY_FOLDERS);
        let itself = match rest {
            [] => true,
            [below] => kind != EntryKind::Folder && deep(below),
            [below, name] => {
                let own = way.path.file_name().unwrap_or_default().to_string_lossy();
                kind != EntryKind::Folder && deep(below) && finds_any(name, &own)
            }
            _ => false,
        };
        if itself {
            found.push(way.ends(kind));
            return Ok(());
        }
        way.word.push('/');
        self.descend(&way, rest, found)
    }

    /// Files in a folder and in those below it, links not followed; of hidden ones only those that `shown` includes, if it is
    /// given.
    fn below(
        &mut self,
        way: &PartialMatch,
        shown: Option<&Revealed>,
        rest: &[&str],
        found: &mut Vec<Match>,
    ) -> Result<(), Unresolved> {
        let entries = self.list(&way.path)?;
        let is_told = |name: &OsString| name == ".git" || IGNORE_FILES.iter().any(|file| name == file);
        let told = shown.filter(|_| entries.iter().any(|entry| is_told(&entry.name))).map(|shown| {
            let mut shown = shown.clone();
            shown.add(self.disk, &way.path);
            shown
        });
        let shown = told.as_ref().or(shown);
        for entry in entries {
            let name = entry.name.to_str().ok_or(Unresolved::Name)?;
            if name.starts_with('.') && shown.is_some_and(|shown| !shown.shows(name)) {
                continue;
            }
            let mut next = way.to(name);
            let is_folder = entry.kind == EntryKind::Folder;
            let wants = |name: &str| match rest {
                [] => true,
                [last] => finds(last, name),
                _ => false,
            };
            if is_folder && name == ".git" {
                next.word.push('/');
                self.settings_of_git(&next, &wants, found)?;
                continue;
            }
            if wants(name) {
                let found_here =
                    PartialMatch { linked: next.linked || entry.kind == EntryKind::Link, ..next.clone() };
                found.push(found_here.ends(entry.kind));
            }
            if is_folder {
                next.word.push('/');
                self.below(&next, shown, rest, found)?;
            }
        }
        Ok(())
    }

    /// The only ones of a repository's own files that may contain credentials: its settings and those of submodules.
    fn settings_of_git(
        &mut self,
        git: &PartialMatch,
        wants: &dyn Fn(&str) -> bool,
        found: &mut Vec<Match>,
    ) -> Result<(), Unresolved> {
        for name in GIT_SETTINGS.into_iter().filter(|name| wants(name)) {
            let mut next = git.to(name);
            if let Some(kind) = self.disk.kind(&next.path) {
                next.linked |= kind == EntryKind::Link;
                found.push(next.ends(kind));
            }
        }
        let modules = git.to("modules");
        if self.disk.kind(&modules.path) == Some(EntryKind::Folder) {
            for mut module in self.folders_of_modules(&modules)? {
                module.word.push('/');
                self.settings_of_git(&module, wants, found)?;
            }
        }
        Ok(())
    }

    /// The repositories of submodules, whose names may contain slashes.
    fn folders_of_modules(&mut self, folder: &PartialMatch) -> Result<Vec<PartialMatch>, Unresolved> {
        let mut all = Vec::new();
        for entry in self.list(&folder.path)? {
            if entry.kind != EntryKind::Folder {
                continue;
            }
            let name = entry.name.to_str().ok_or(Unresolved::Name)?;
            let next = PartialMatch { word: format!("{}/", folder.word), ..folder.clone() }.to(name);
            if self.disk.kind(&next.path.join("HEAD")).is_none() {
                all.extend(self.folders_of_modules(&next)?);
            }
            all.push(next);
        }
        Ok(all)
    }
}

/// Whether a pattern matches a name. A leading dot must be matched explicitly.
pub(crate) fn finds(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with(['.', ANY_NAME]) {
        return false;
    }
    finds_any(pattern, name)
}

/// The same for the patterns of programs, to which a leading dot is like any other character.
pub(crate) fn finds_any(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    matches(&loosened(pattern), &name)
}

/// The pattern with `[…]` as any text, and every star the same.
fn loosened(pattern: &str) -> Vec<char> {
    let bracket = pattern.find('[');
    let text: String = match bracket {
        Some(open) => {
            let (before, after) = pattern.split_at(open);
            let end = after.rsplit_once(']').map_or("", |(_, end)| end);
            format!("{before}*{end}")
        }
        None => pattern.to_owned(),
    };
    text.chars().map(|c| if c == ANY_NAME || c == ANY_FOLDERS { '*' } else { c }).collect()
}

/// Stars and question marks, in linear time for one star and bounded for more.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut from) = (0, 0);
    let (mut star, mut mark) = (None, 0);
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some(at);
                mark = from;
                at += 1;
            }
            Some(c) if *c == '?' || Some(c) == name.get(from) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some(place) => {
                    at = place + 1;
                    mark += 1;
                    from = mark;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

#[cfg(test)]
mod tests;
