//! Takes snapshots of the workspace with all contents in the store; only changed files are read again.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;

use crate::beneath;
use crate::coverage::{Reason, Uncovered};
use crate::entry::{Content, Node, Stamp, WorkspaceEntry};
use crate::parallel::map_pieces;
use crate::path::RelPath;
use crate::rights::Rights;
use crate::scan;
use crate::scope::Scope;
use crate::store::{SaveError, Store};

/// A file that changed this recently may change again without a new time: clocks of file systems tick.
const FRESH_NANOS: i64 = 100_000_000;
/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;
const PIECE: usize = 16;
const GIT_OBJECTS: &[u8] = b".git/objects/";

/// Everything below the root at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<RelPath, Node>,
    /// Folders with unknown content.
    pub(crate) unlisted: BTreeMap<RelPath, Reason>,
    /// Entries that could not be brought back.
    pub(crate) unsaved: BTreeMap<RelPath, Reason>,
}

/// The change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: RelPath,
    pub(crate) was: Option<WorkspaceEntry>,
    pub(crate) now: Option<WorkspaceEntry>,
}

/// A node, and why it could not be brought back if so.
pub(crate) type Found = (Node, Option<Reason>);

impl Tree {
    pub(crate) fn uncovered(&self) -> Vec<Uncovered> {
        let all = self.unlisted.iter().chain(&self.unsaved);
        let mut uncovered: Vec<_> =
            all.map(|(path, reason)| Uncovered { path: path.to_path_buf(), reason: *reason }).collect();
        uncovered.sort();
        uncovered
    }

    /// Whether the absence of this path would mean that there was nothing.
    fn would_list(&self, path: &RelPath) -> bool {
        self.unlisted.is_empty()
            || !(self.unlisted.contains_key(path)
                || path.ancestors().any(|folder| self.unlisted.contains_key(&folder)))
    }

    pub(crate) fn set(&mut self, path: &RelPath, found: Option<Found>) {
        self.unsaved.remove(path);
        match found {
            Some((node, reason)) => {
                self.nodes.insert(path.clone(), node);
                self.unsaved.extend(reason.map(|reason| (path.clone(), reason)));
            }
            None => {
                self.nodes.remove(path);
            }
        }
    }
}

/// Reads the workspace into the store.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// `None` when the root itself is missing.
    pub(crate) root: Option<BorrowedFd<'a>>,
    pub(crate) scope: &'a Scope,
    pub(crate) store: &'a Store,
}

impl Reader<'_> {
    /// Takes a snapshot; files with the same stamp as in `before` are not read again.
    pub(crate) fn capture(&self, before: &Tree) -> io::Result<Tree> {
        let Some(root) = self.root else { return Ok(Tree::default()) };
        let scan = scan::scan(root, self.scope)?;
        let mut found: Vec<Option<Found>> = Vec::with_capacity(scan.seen.len());
        let mut stale = Vec::new();
        let mut room = self.scope.limits.tree;
        for (index, (path, stamp)) in scan.seen.iter().enumerate() {
            let known = self.unchanged(before, path, stamp);
            match &known {
                Some((
                    Node { entry: WorkspaceEntry::File { len, content: Content::Saved(_), .. }, .. },
                    _,
                )) => {
                    room = room.saturating_sub(*len);
                }
                Some(_) => {}
                None => stale.push((index, true)),
            }
            found.push(known);
        }
        for (index, fits) in &mut stale {
            if let Some((_, stamp)) = scan.seen.get(*index)
                && stamp.kind() == FileType::RegularFile
                && stamp.len <= self.scope.limits.file
            {
                *fits = stamp.len <= room;
                room = if *fits { room - stamp.len } else { room };
            }
        }
        let read = map_pieces(&stale, PIECE, |piece| self.read_piece(piece, &scan.seen));
        for ((index, _), node) in stale.iter().zip(read) {
            if let Some(place) = found.get_mut(*index) {
                *place = node;
            }
        }
        let mut tree = Tree { unlisted: scan.unlisted, ..Tree::default() };
        let mut nodes = Vec::with_capacity(found.len());
        for ((path, _), node) in scan.seen.into_iter().zip(found) {
            if let Some((node, reason)) = node {
                tree.unsaved.extend(reason.map(|reason| (path.clone(), reason)));
                nodes.push((path, node));
            }
        }
        tree.nodes = nodes.into_iter().collect();
        Ok(tree)
    }

    /// The node as it was, if the stamp proves that it still is.
    fn unchanged(&self, before: &Tree, path: &RelPath, stamp: &Stamp) -> Option<Found> {
        let node = before.nodes.get(path).filter(|node| node.stamp == *stamp && !node.fresh)?;
        let reason = before.unsaved.get(path).copied();
        let for_good = matches!(reason, None | Some(Reason::Special));
        for_good.then(|| (node.clone(), reason))
    }

    fn read_piece(&self, piece: &[(usize, bool)], seen: &[(RelPath, Stamp)]) -> Vec<Option<Found>> {
        let mut last: Option<(RelPath, OwnedFd)> = None;
        let read = |(index, fits): &(usize, bool)| {
            let (path, stamp) = seen.get(*index)?;
            let Some((parent, name)) = path.split() else { return Some(folder_node(stamp)) };
            if last.as_ref().is_none_or(|(open, _)| *open != parent) {
                let folder = beneath::descend(self.root?, &parent).ok()?;
                last = Some((parent, folder));
            }
            let (_, folder) = last.as_ref()?;
            self.read(folder, path, name, *fits).ok().flatten()
        };
        piece.iter().map(read).collect()
    }

    /// The present entry at a path below the root, with its content saved.
    pub(crate) fn look(&self, path: &RelPath) -> io::Result<Option<Found>> {
        let Some(root) = self.root else { return Ok(None) };
        let Some((parent, name)) = path.split() else {
            return Ok(Some(folder_node(&beneath::stamp_of_handle(root)?)));
        };
        let read = |folder: io::Result<OwnedFd>| match folder {
            Ok(folder) => self.read(&folder, path, name, true),
            Err(error) if beneath::is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        };
        match read(beneath::descend(root, &parent)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let mut rights = Rights::new(root);
                let found = read(rights.open(&parent));
                rights.close();
                found
            }
            found => found,
        }
    }

    fn read(&self, folder: &OwnedFd, path: &RelPath, name: &[u8], fits: bool) -> io::Result<Option<Found>> {
        let stamp = match beneath::stamp_of(folder, name) {
            Ok(stamp) => stamp,
            Err(error) if beneath::is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let fresh = is_fresh(&stamp);
        match stamp.kind() {
            FileType::Directory => Ok(Some(folder_node(&stamp))),
            FileType::Symlink => match beneath::link_target(folder, name) {
                Ok(target) => Ok(Some((Node { entry: WorkspaceEntry::Link { target }, stamp, fresh }, None))),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput || beneath::is_absent(&error) => {
                    Ok(None)
                }
                Err(error) => Err(error),
            },
            FileType::RegularFile => Ok(self.read_file(folder, path, name, stamp, fits)),
            _ => {
                let entry = WorkspaceEntry::Special { inode: stamp.inode };
                Ok(Some((Node { entry, stamp, fresh }, Some(Reason::Special))))
            }
        }
    }

    fn read_file(
        &self,
        folder: &OwnedFd,
        path: &RelPath,
        name: &[u8],
        stamp: Stamp,
        fits: bool,
    ) -> Option<Found> {
        if stamp.len > self.scope.limits.file {
            if path.bytes().starts_with(GIT_OBJECTS)
                && let Ok(content) = self.store.keep_link(folder, name, &stamp)
            {
                // The second link is itself a change of the file's ctime.
                let stamp = beneath::stamp_of(folder, name).unwrap_or(stamp);
                return Some((file_node(stamp, content, is_fresh(&stamp)), None));
            }
            return Some(unsaved(stamp, Reason::TooLarge));
        }
        if !fits {
            return Some(unsaved(stamp, Reason::TreeFull));
        }
        let mut last = stamp;
        for _ in 0..ATTEMPTS {
            match self.save_steady(folder, name) {
                Ok(Ok(node)) => return Some((node, None)),
                Ok(Err(stamp)) => last = stamp,
                Err(SaveError::Full) => return Some(unsaved(stamp, Reason::StoreFull)),
                Err(SaveError::Io(error)) if beneath::is_absent(&error) => return None,
                Err(SaveError::Io(error)) if error.kind() == io::ErrorKind::FileTooLarge => {}
                Err(SaveError::Io(_)) => return Some(unsaved(stamp, Reason::Unreadable)),
            }
        }
        Some(unsaved(last, Reason::Changing))
    }

    /// Saves a file; the stamp instead of a node if it changed meanwhile.
    fn save_steady(&self, folder: &OwnedFd, name: &[u8]) -> Result<Result<Node, Stamp>, SaveError> {
        let mut file = beneath::open_file(folder, name)?;
        let stamp = beneath::stamp_of_handle(&file)?;
        if stamp.kind() != FileType::RegularFile || stamp.len > self.scope.limits.file {
            return Ok(Err(stamp));
        }
        let fresh = is_fresh(&stamp);
        let hash = self.store.save(&mut file, stamp.len)?;
        let after = beneath::stamp_of_handle(&file)?;
        Ok(if after == stamp { Ok(file_node(stamp, Content::Saved(hash), fresh)) } else { Err(after) })
    }

    /// What became of the paths between two snapshots.
    ///
    /// A path that one of them could not see is looked at by itself, or taken as it is.
    pub(crate) fn changes(&self, before: &Tree, after: &mut Tree) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (path, node) in &after.nodes {
            match before.nodes.get(path) {
                Some(old) if old.entry == node.entry => {}
                Some(old) => changes.push(change(path, Some(&old.entry), Some(&node.entry))),
                None if before.would_list(path) => changes.push(change(path, None, Some(&node.entry))),
                None => {}
            }
        }
        let gone: Vec<&RelPath> =
            before.nodes.keys().filter(|path| !after.nodes.contains_key(*path)).collect();
        for path in gone {
            let Some(old) = before.nodes.get(path) else { continue };
            let found = if after.would_list(path) { None } else { self.look(path)? };
            match &found {
                Some((node, _)) if node.entry == old.entry => {}
                Some((node, _)) => changes.push(change(path, Some(&old.entry), Some(&node.entry))),
                None => changes.push(change(path, Some(&old.entry), None)),
            }
            if found.is_some() {
                after.set(path, found);
            }
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }
}

fn change(path: &RelPath, was: Option<&WorkspaceEntry>, now: Option<&WorkspaceEntry>) -> Change {
    Change { path: path.clone(), was: was.cloned(), now: now.cloned() }
}

fn folder_node(stamp: &Stamp) -> Found {
    let entry = WorkspaceEntry::Folder { mode: stamp.permissions() };
    (Node { entry, stamp: *stamp, fresh: false }, None)
}

fn file_node(stamp: Stamp, content: Content, fresh: bool) -> Node {
    Node { entry: WorkspaceEntry::File { mode: stamp.permissions(), len: stamp.len, content }, stamp, fresh }
}

fn unsaved(stamp: Stamp, reason: Reason) -> Found {
    let content = Content::Unsaved { inode: stamp.inode, mtime: stamp.mtime };
    (file_node(stamp, content, is_fresh(&stamp)), Some(reason))
}

fn is_fresh(stamp: &Stamp) -> bool {
    // Compared with the file system's times and never shown, so it is the machine's clock and no other.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i128::from(stamp.ctime) + i128::from(FRESH_NANOS) >= i128::try_from(now).unwrap_or(i128::MAX)
}
