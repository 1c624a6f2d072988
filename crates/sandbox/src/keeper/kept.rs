//! Protected files that exist and are not mounted read-only: what they were before a command, and how to get back there.
//!
//! Works in open folders and follows no links: commands that still run may replace anything at any time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};

use super::aside;
use crate::tripped::{TripAction, Tripped};

/// Larger files are recognized as changed, but cannot be restored.
const MAX_FILE_BYTES: u64 = 256 << 10;
const MAX_TOTAL_BYTES: usize = 16 << 20;
const MAX_ENTRIES: usize = 4000;
const MAX_DEPTH: usize = 12;
/// The same for one repository that commands may have created, so that none can use up what the others need.
const REPOSITORY_BYTES: usize = 1 << 20;
const REPOSITORY_ENTRIES: usize = 400;
/// The folder in which git has examples.
const HOOKS: &str = "hooks";

/// A protected entry of an open folder.
#[derive(Debug)]
pub(super) struct Kept {
    folder: Arc<OwnedFd>,
    name: OsString,
    pub(super) path: PathBuf,
    state: Node,
}

/// What an entry was.
#[derive(Debug, Clone)]
enum Node {
    Missing,
    File {
        stamp: Stamp,
        content: Option<Arc<[u8]>>,
    },
    Link(OsString),
    Folder {
        mode: u32,
        entries: BTreeMap<OsString, Node>,
    },
    /// A socket, a device, or more than is kept.
    Unknown,
}

/// A file cannot change without a change in this: nobody can set the last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: i64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What is restored.
pub(super) struct Rules<'a> {
    pub(super) is_exempt: &'a dyn Fn(&Path) -> bool,
    /// Also what was removed. While a command runs, it may be about to remove the rest.
    pub(super) is_thorough: bool,
}

/// How much may still be read.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    entries: usize,
}

impl Budget {
    pub(super) fn of_repository() -> Self {
        Self { bytes: REPOSITORY_BYTES, entries: REPOSITORY_ENTRIES }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MAX_TOTAL_BYTES, entries: MAX_ENTRIES }
    }
}

impl Kept {
    /// Looks at an entry now. What `before` knows of it and is unchanged is not read again.
    pub(super) fn new(
        folder: &Arc<OwnedFd>,
        name: &OsStr,
        path: PathBuf,
        before: Option<&Self>,
        budget: &mut Budget,
    ) -> Self {
        let state = look(folder, name, before.map(|before| &before.state), budget, 0);
        Self { folder: Arc::clone(folder), name: name.to_owned(), path, state }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self.state, Node::Missing)
    }

    /// Whether it is restored to nothing, or to an empty folder.
    pub(super) fn is_empty(&self) -> bool {
        match &self.state {
            Node::Missing => true,
            Node::Folder { entries, .. } => entries.is_empty(),
            Node::File { .. } | Node::Link(_) | Node::Unknown => false,
        }
    }

    /// The content that it is restored to, if it is a text.
    pub(super) fn text(&self) -> Option<&str> {
        let Node::File { content: Some(content), .. } = &self.state else { return None };
        std::str::from_utf8(content).ok()
    }

    /// From now on, anything that is there is removed.
    pub(super) fn accept_nothing(&mut self) {
        self.state = Node::Missing;
    }

    /// Accepts what a path at, in or around it is now.
    pub(super) fn accept(&mut self, open: &Path, budget: &mut Budget) {
        if self.path.starts_with(open) {
            accept(&self.folder, &self.name, &mut self.state, Path::new(""), budget, 0);
        } else if let Ok(rest) = open.strip_prefix(&self.path) {
            accept(&self.folder, &self.name, &mut self.state, rest, budget, 0);
        }
    }

    /// Restores it if it changed.
    pub(super) fn sweep(&mut self, rules: &Rules<'_>, tripped: &mut Vec<Tripped>) {
        restore(&self.folder, &self.name, &self.path, &mut self.state, rules, tripped);
    }
}

/// Looks again at one entry of a tree; everything else in it stays as it was.
fn accept(folder: &OwnedFd, name: &OsStr, node: &mut Node, rest: &Path, budget: &mut Budget, depth: usize) {
    let mut parts = rest.components();
    let (Some(first), Node::Folder { entries, .. }) = (parts.next(), &mut *node) else {
        *node = look(folder, name, Some(&*node), budget, depth);
        return;
    };
    let Ok(inner) = aside::open_inner(folder, name) else { return };
    let entry = entries.entry(first.as_os_str().to_owned()).or_insert(Node::Missing);
    accept(&inner, first.as_os_str(), entry, parts.as_path(), budget, depth + 1);
    if matches!(entry, Node::Missing) {
        entries.remove(first.as_os_str());
    }
}

fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        file: (stat.st_dev, stat.st_ino),
        size: stat.st_size,
        mode: stat.st_mode,
        owner: (stat.st_uid, stat.st_gid),
        modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
        changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
    }
}

fn look(folder: impl AsFd, name: &OsStr, before: Option<&Node>, budget: &mut Budget, depth: usize) -> Node {
    let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Node::Missing };
    if budget.entries == 0 || depth > MAX_DEPTH {
        return Node::Unknown;
    }
    budget.entries -= 1;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let stamp = stamp(&stat);
            if let Some(Node::File { stamp: known, content }) = before
                && *known == stamp
            {
                return Node::File { stamp, content: content.clone() };
            }
            let content = read(&folder, name).filter(|content| content.len() <= budget.bytes);
            budget.bytes -= content.as_ref().map_or(0, Vec::len);
            Node::File { stamp, content: content.map(Arc::from) }
        }
        FileType::Symlink => link(&folder, name).map_or(Node::Unknown, Node::Link),
        FileType::Directory => {
            let known = if let Some(Node::Folder { entries, .. }) = before { Some(entries) } else { None };
            let Ok(inner) = aside::open_inner(&folder, name) else { return Node::Unknown };
            let mut entries = BTreeMap::new();
            for name in tracked(name, &inner) {
                let before = known.and_then(|known| known.get(&name));
                let node = look(&inner, &name, before, budget, depth + 1);
                entries.insert(name, node);
            }
            Node::Folder { mode: stat.st_mode, entries }
        }
        _ => Node::Unknown,
    }
}

fn read(folder: impl AsFd, name: &OsStr) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let mut content = Vec::new();
    std::fs::File::from(file).take(MAX_FILE_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_FILE_BYTES).then_some(content)
}

fn link(folder: impl AsFd, name: &OsStr) -> Option<OsString> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(OsString::from_vec(target.into_bytes()))
}

/// The entries of a folder, except those that were moved aside.
pub(super) fn names(folder: &OwnedFd) -> Vec<OsString> {
    let Ok(listing) = rustix::fs::Dir::read_from(folder) else { return Vec::new() };
    let names = listing.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
    names.filter(|name| name != "." && name != ".." && !aside::is_aside(name)).collect()
}

/// Whether git never runs a file of this name.
pub(super) fn is_sample(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("sample"))
}

/// The entries of a folder that matter.
fn tracked(folder_name: &OsStr, folder: &OwnedFd) -> Vec<OsString> {
    let mut names = names(folder);
    if folder_name == HOOKS {
        names.retain(|name| !is_sample(name));
    }
    names
}

fn restore(
    folder: &OwnedFd,
    name: &OsStr,
    path: &Path,
    node: &mut Node,
    rules: &Rules<'_>,
    tripped: &mut Vec<Tripped>,
) {
    let now = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    if (rules.is_exempt)(path) || (now.is_none() && !rules.is_thorough) {
        return;
    }
    let kind = now.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
    match node {
        Node::Unknown => {}
        Node::Missing => {
            if now.is_some() {
                let action = aside::move_aside(folder, name, path);
                tell(path, action.map_or(TripAction::Failed, TripAction::Renamed), tripped);
            }
        }
        Node::File { stamp: known, content } => {
            let current = now.as_ref().filter(|_| kind == Some(FileType::RegularFile)).map(stamp);
            if current == Some(*known) {
                return;
            }
            // Touched, or written with the same bytes: nothing to restore.
            let is_same = |content: &Arc<[u8]>| read(folder, name).as_deref() == Some(&**content);
            if let Some(current) = current
                && (current.mode, current.owner) == (known.mode, known.owner)
                && content.as_ref().is_some_and(is_same)
            {
                *known = current;
                return;
            }
            let Some(content) = content else {
                tell(path, TripAction::Failed, tripped);
                *known = current.unwrap_or(*known);
                return;
            };
            let action = put_back(folder, name, path, now.is_some(), |temporary| {
                write(folder, temporary, content, known)
            });
            // The old stamp stays: a command may have replaced the file meanwhile, so the next look reads it again.
            tell(path, action, tripped);
        }
        Node::Link(target) => {
            if kind == Some(FileType::Symlink) && link(folder, name).as_ref() == Some(target) {
                return;
            }
            let action = put_back(folder, name, path, now.is_some(), |temporary| {
                rustix::fs::symlinkat(&*target, folder, temporary)
            });
            tell(path, action, tripped);
        }
        Node::Folder { mode, entries } => {
            if kind != Some(FileType::Directory) {
                let mode = Mode::from_raw_mode(*mode);
                let action = put_back(folder, name, path, now.is_some(), |temporary| {
                    rustix::fs::mkdirat(folder, temporary, mode)
                });
                tell(path, action, tripped);
            }
            let Ok(inner) = aside::open_inner(folder, name) else { return };
            for name in tracked(name, &inner).into_iter().filter(|name| !entries.contains_key(name)) {
                let new = path.join(&name);
                restore(&inner, &name, &new, &mut Node::Missing, rules, tripped);
            }
            for (name, node) in entries {
                restore(&inner, name, &path.join(name), node, rules, tripped);
            }
        }
    }
}

/// Makes something under another name, moves what is there aside, and gives it the name.
fn put_back(
    folder: &OwnedFd,
    name: &OsStr,
    path: &Path,
    is_occupied: bool,
    make: impl FnOnce(&OsStr) -> rustix::io::Result<()>,
) -> TripAction {
    let unguessed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let temporary = OsString::from(format!(".pollux-restore-{unguessed}"));
    if make(&temporary).is_err() {
        return TripAction::Failed;
    }
    let kept = if is_occupied { aside::move_aside(folder, name, path) } else { None };
    match rustix::fs::renameat(folder, &*temporary, folder, name) {
        Ok(()) => TripAction::Restored(kept),
        Err(_) => {
            let _ = rustix::fs::unlinkat(folder, &*temporary, AtFlags::empty());
            let _ = rustix::fs::unlinkat(folder, &*temporary, AtFlags::REMOVEDIR);
            TripAction::Failed
        }
    }
}

fn write(folder: &OwnedFd, name: &OsStr, content: &[u8], like: &Stamp) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?;
    let (user, group) = (Uid::from_raw(like.owner.0), Gid::from_raw(like.owner.1));
    // Only a superuser can give files away, and only then they may belong to others.
    let _ = rustix::fs::fchown(&file, Some(user), Some(group));
    rustix::fs::fchmod(&file, Mode::from_raw_mode(like.mode))?;
    let mut file = std::fs::File::from(file);
    file.write_all(content)
        .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
}

/// The same trouble is told once.
fn tell(path: &Path, action: TripAction, tripped: &mut Vec<Tripped>) {
    let found = Tripped { path: path.to_owned(), action };
    if !tripped.contains(&found) {
        tripped.push(found);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        open: Arc<OwnedFd>,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        Place { open: Arc::new(aside::open_folder(&real).unwrap()), folder }
    }

    impl Place {
        fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn keep(&self, name: &str) -> Kept {
            Kept::new(&self.open, OsStr::new(name), self.path(name), None, &mut Budget::default())
        }

        fn text(&self, path: &str) -> String {
            fs::read_to_string(self.path(path)).unwrap()
        }
    }

    fn sweep(kept: &mut Kept) -> Vec<(String, &'static str)> {
        let mut tripped = Vec::new();
        kept.sweep(&Rules { is_exempt: &|_| false, is_thorough: true }, &mut tripped);
        let told = tripped
            .iter()
            .map(|one| (one.path.file_name().unwrap().to_string_lossy().into_owned(), one.action.as_str()));
        told.collect()
    }

    #[test]
    fn a_folder_is_restored_whatever_was_done_to_it() {
        let place = place();
        fs::create_dir(place.path("hooks")).unwrap();
        fs::write(place.path("hooks/pre-push"), "mine").unwrap();
        fs::set_permissions(place.path("hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path("hooks/gone"), "mine too").unwrap();
        symlink("pre-push", place.path("hooks/link")).unwrap();
        let mut kept = place.keep("hooks");
        assert_eq!(sweep(&mut kept), []);
        fs::write(place.path("hooks/pre-push"), "evil").unwrap();
        fs::remove_file(place.path("hooks/gone")).unwrap();
        fs::write(place.path("hooks/pre-commit"), "evil").unwrap();
        fs::remove_file(place.path("hooks/link")).unwrap();
        symlink("/etc/passwd", place.path("hooks/link")).unwrap();
        let mut told = sweep(&mut kept);
        told.sort();
        let expected =
            [("gone", "restored"), ("link", "restored"), ("pre-commit", "renamed"), ("pre-push", "restored")];
        assert_eq!(told, expected.map(|(name, action)| (name.to_owned(), action)));
        assert_eq!(place.text("hooks/pre-push"), "mine");
        assert_eq!(place.text("hooks/pre-push.sandbox-blocked-1"), "evil", "nothing is lost");
        assert_eq!(fs::metadata(place.path("hooks/pre-push")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(place.text("hooks/gone"), "mine too");
        assert!(!place.path("hooks/pre-commit").exists());
        assert_eq!(fs::read_link(place.path("hooks/link")).unwrap(), Path::new("pre-push"));
        assert_eq!(sweep(&mut kept), [], "that is all");
        // The whole folder is replaced by a link to another one, which must not be touched.
        fs::create_dir(place.path("other")).unwrap();
        fs::rename(place.path("hooks"), place.path("away")).unwrap();
        symlink("other", place.path("hooks")).unwrap();
        sweep(&mut kept);
        assert_eq!(place.text("hooks/pre-push"), "mine");
        assert!(fs::read_dir(place.path("other")).unwrap().next().is_none());
    }

    #[test]
    fn a_touched_file_is_left_alone_and_a_large_one_is_reported() {
        let place = place();
        fs::write(place.path("config"), "a").unwrap();
        fs::write(place.path("large"), vec![b'x'; 300 << 10]).unwrap();
        let (mut small, mut large) = (place.keep("config"), place.keep("large"));
        fs::write(place.path("config"), "a").unwrap();
        fs::write(place.path("large"), "short").unwrap();
        assert_eq!(sweep(&mut small), []);
        assert_eq!(sweep(&mut large), [("large".to_owned(), "failed")]);
        fs::set_permissions(place.path("config"), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(sweep(&mut small), [("config".to_owned(), "restored")]);
        assert_eq!(place.text("large"), "short");
    }
}
