//! A disk as a power failure leaves it.
//!
//! What was written since the last sync of a file may have reached the disk in any order, in part, or not at all; the
//! length of a file may be there before its bytes (which are then zeros), and a sector may be torn. A name is on the
//! disk for certain only when its folder was synced. That is harsher than common file systems.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::trace::{SystemCall, TraceLine};
use pollux_test_support::chance::Chance;

const SECTOR: usize = 512;

/// The files of a disk by their paths below its root.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

type Number = usize;
/// Names of a folder that change together.
type Names = Vec<(OsString, Option<Number>)>;

/// What a failure does to changes that are not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure {
    /// All of them are lost.
    Everything,
    /// None is lost.
    Nothing,
    /// Each is lost with this chance in 100.
    Some(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Debug, Clone)]
enum Node {
    File { live: Vec<u8>, durable: Vec<u8>, pending: Vec<Change> },
    Folder { live: BTreeMap<OsString, Number>, durable: BTreeMap<OsString, Number>, pending: Vec<Names> },
}

#[derive(Debug, Clone)]
struct Opened {
    node: Number,
    at: Rc<Cell<usize>>,
    appends: bool,
}

/// The disk below a root folder.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
    opened: HashMap<i64, Opened>,
    /// Syncs under way by thread: the node, and how many of its changes they cover.
    syncs: HashMap<u32, (Number, usize)>,
}

impl Disk {
    /// The disk as it is now.
    pub(crate) fn of(root: &Path) -> Self {
        let empty = Node::Folder { live: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() };
        let mut disk =
            Self { root: root.to_owned(), nodes: vec![empty], opened: HashMap::new(), syncs: HashMap::new() };
        disk.add(root, 0);
        disk
    }

    fn add(&mut self, folder: &Path, number: Number) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let node = if path.is_dir() {
                Node::Folder { live: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() }
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                Node::File { live: bytes.clone(), durable: bytes, pending: Vec::new() }
            };
            let is_folder = matches!(node, Node::Folder { .. });
            self.nodes.push(node);
            let child = self.nodes.len() - 1;
            if let Node::Folder { live, durable, .. } = &mut self.nodes[number] {
                live.insert(entry.file_name(), child);
                durable.insert(entry.file_name(), child);
            }
            if is_folder {
                self.add(&path, child);
            }
        }
    }

    /// The folder and the name of a path below the root.
    fn place(&self, path: &Path) -> Option<(Number, OsString)> {
        let inside = path.strip_prefix(&self.root).ok()?;
        let mut folder = 0;
        for part in inside.parent()? {
            folder = self.child(folder, part)?;
        }
        Some((folder, inside.file_name()?.to_owned()))
    }

    fn child(&self, folder: Number, name: &std::ffi::OsStr) -> Option<Number> {
        match &self.nodes[folder] {
            Node::Folder { live, .. } => live.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    fn find(&self, path: &Path) -> Option<Number> {
        if path == self.root {
            return Some(0);
        }
        let (folder, name) = self.place(path)?;
        self.child(folder, &name)
    }

    fn name(&mut self, path: &Path, node: Option<Number>) -> bool {
        let Some((folder, name)) = self.place(path) else { return false };
        self.change_names(folder, vec![(name, node)])
    }

    fn change_names(&mut self, folder: Number, names: Names) -> bool {
        let Node::Folder { live, pending, .. } = &mut self.nodes[folder] else { return false };
        names.iter().for_each(|(name, node)| set(live, name, *node));
        pending.push(names);
        true
    }

    fn change(&mut self, node: Number, change: Change) {
        if let Node::File { live, pending, .. } = &mut self.nodes[node] {
            apply(live, &change);
            pending.push(change);
        }
    }

    /// Follows one line of the trace. Returns the paths below the root that it changed.
    pub(crate) fn follow(&mut self, line: &TraceLine) -> Vec<PathBuf> {
        let changed = self.follow_line(line);
        let below = |path: PathBuf| path.strip_prefix(&self.root).map(Path::to_path_buf).ok();
        changed.into_iter().filter_map(below).collect()
    }

    /// What a file holds.
    pub(crate) fn content(&self, path: &Path) -> Option<&Vec<u8>> {
        match &self.nodes[self.find(&self.root.join(path))?] {
            Node::File { live, .. } => Some(live),
            Node::Folder { .. } => None,
        }
    }

    fn follow_line(&mut self, line: &TraceLine) -> Vec<PathBuf> {
        match line {
            TraceLine::Ended(call) if call.name.starts_with("rename") => {
                let (from, to) = match call.name.as_str() {
                    "rename" => (call.path(0), call.path(1)),
                    _ => (call.path_at(0), call.path_at(2)),
                };
                let below = self.below(&from);
                let ends = ["".into()].into_iter().chain(below);
                let both = ends.flat_map(|end: PathBuf| [from.join(&end), to.join(&end)]).collect();
                self.rename(&from, &to).map(|()| both).unwrap_or_default()
            }
            other => self.follow_other(other).into_iter().collect(),
        }
    }

    /// The files of a folder, by their paths in it.
    fn below(&self, folder: &Path) -> Vec<PathBuf> {
        let Ok(inside) = folder.strip_prefix(&self.root) else { return Vec::new() };
        let files = self.live().into_keys();
        files.filter_map(|path| path.strip_prefix(inside).map(Path::to_path_buf).ok()).collect()
    }

    fn follow_other(&mut self, line: &TraceLine) -> Option<PathBuf> {
        match line {
            TraceLine::SyncStarts { thread, descriptor } => {
                let node = self.opened.get(descriptor)?.node;
                let covered = match &self.nodes[node] {
                    Node::File { pending, .. } => pending.len(),
                    Node::Folder { pending, .. } => pending.len(),
                };
                self.syncs.insert(*thread, (node, covered));
                None
            }
            TraceLine::Ended(call) => self.follow_call(call),
        }
    }

    fn follow_call(&mut self, call: &SystemCall) -> Option<PathBuf> {
        match call.name.as_str() {
            "openat" => self.open(call, call.path_at(0)),
            "open" | "creat" => self.open(call, call.path(0)),
            "close" => {
                self.opened.remove(&call.number(0));
                None
            }
            "dup" | "dup2" | "dup3" => self.duplicate(call),
            "fcntl" if call.text(1).starts_with("F_DUPFD") => self.duplicate(call),
            "lseek" => {
                self.opened.get(&call.number(0))?.at.set(usize::try_from(call.result).unwrap());
                None
            }
            "read" | "readv" => {
                let at = &self.opened.get(&call.number(0))?.at;
                at.set(at.get() + usize::try_from(call.result).unwrap());
                None
            }
            "write" => self.write(call, call.bytes(1), None),
            "writev" => self.write(call, call.buffers(1), None),
            "pwrite64" => self.write(call, call.bytes(1), Some(call.number(3))),
            "pwritev" | "pwritev2" => self.write(call, call.buffers(1), Some(call.number(3))),
            "ftruncate" => {
                let node = self.opened.get(&call.number(0))?.node;
                self.change(node, Change::Length(usize::try_from(call.number(1)).unwrap()));
                self.path_of(node)
            }
            "fsync" | "fdatasync" => {
                let (node, covered) = self.syncs.remove(&call.thread)?;
                self.sync(node, covered);
                None
            }
            "link" => self.link(&call.path(0), &call.path(1)),
            "linkat" => self.link(&call.path_at(0), &call.path_at(2)),
            "unlink" | "rmdir" => self.remove(&call.path(0)),
            "unlinkat" => self.remove(&call.path_at(0)),
            "mkdir" => self.make_folder(&call.path(0)),
            "mkdirat" => self.make_folder(&call.path_at(0)),
            "sendfile" => self.copy(call, 0, 1),
            "copy_file_range" => self.copy(call, 2, 0),
            "truncate" | "fallocate" | "symlink" | "symlinkat" => {
                assert!(!call.names_below(&self.root), "not understood: {call:?}");
                None
            }
            _ => None,
        }
    }

    fn open(&mut self, call: &SystemCall, path: PathBuf) -> Option<PathBuf> {
        if !path.starts_with(&self.root) {
            return None;
        }
        let mut changed = None;
        let node = match self.find(&path) {
            Some(node) => node,
            None => {
                self.nodes.push(Node::File { live: Vec::new(), durable: Vec::new(), pending: Vec::new() });
                let node = self.nodes.len() - 1;
                // The name of a file without one.
                if call.has_flag("O_TMPFILE") || !self.name(&path, Some(node)) {
                    return None;
                }
                changed = Some(path);
                node
            }
        };
        let is_filled = matches!(&self.nodes[node], Node::File { live, .. } if !live.is_empty());
        if call.has_flag("O_TRUNC") && is_filled {
            self.change(node, Change::Length(0));
            changed = self.path_of(node);
        }
        let opened = Opened { node, at: Rc::default(), appends: call.has_flag("O_APPEND") };
        self.opened.insert(call.result, opened);
        changed
    }

    fn duplicate(&mut self, call: &SystemCall) -> Option<PathBuf> {
        let opened = self.opened.get(&call.number(0))?.clone();
        self.opened.insert(call.result, opened);
        None
    }

    fn write(&mut self, call: &SystemCall, bytes: Vec<u8>, at: Option<i64>) -> Option<PathBuf> {
        self.write_to(call.number(0), call.result, bytes, at)
    }

    fn write_to(&mut self, to: i64, written: i64, bytes: Vec<u8>, at: Option<i64>) -> Option<PathBuf> {
        let Opened { node, at: position, appends } = self.opened.get(&to)?.clone();
        let Node::File { live, .. } = &self.nodes[node] else { return None };
        let written = usize::try_from(written).unwrap();
        let place = match at {
            Some(at) => usize::try_from(at).unwrap(),
            None if appends => live.len(),
            None => position.get(),
        };
        if at.is_none() {
            position.set(place + written);
        }
        self.change(node, Change::Write { at: place, bytes: bytes[..written].to_vec() });
        self.path_of(node)
    }

    /// A copy of a whole file; the trace has no bytes of it.
    fn copy(&mut self, call: &SystemCall, to: usize, from: usize) -> Option<PathBuf> {
        let at = self.opened.get(&call.number(to))?.at.get();
        let from = call.named(from);
        let source = match from.strip_prefix(&self.root) {
            Ok(inside) => self.content(inside)?.clone(),
            Err(_) => fs::read(&from).unwrap(),
        };
        let bytes = source[at..at + usize::try_from(call.result).unwrap()].to_vec();
        self.write_to(call.number(to), call.result, bytes, None)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Option<()> {
        let node = self.find(from)?;
        let ((source, old), (target, new)) = (self.place(from)?, self.place(to)?);
        let done = if source == target {
            self.change_names(target, vec![(old, None), (new, Some(node))])
        } else {
            self.name(to, Some(node)) && self.name(from, None)
        };
        done.then_some(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> Option<PathBuf> {
        let node = self.find(from)?;
        self.name(to, Some(node)).then(|| to.to_owned())
    }

    fn remove(&mut self, path: &Path) -> Option<PathBuf> {
        self.find(path)?;
        self.name(path, None).then(|| path.to_owned())
    }

    fn make_folder(&mut self, path: &Path) -> Option<PathBuf> {
        self.place(path)?;
        self.nodes.push(Node::Folder {
            live: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
        });
        let node = self.nodes.len() - 1;
        self.name(path, Some(node)).then(|| path.to_owned())
    }

    fn sync(&mut self, node: Number, covered: usize) {
        match &mut self.nodes[node] {
            Node::File { durable, pending, .. } => {
                pending.drain(..covered).for_each(|change| apply(durable, &change));
            }
            Node::Folder { durable, pending, .. } => {
                for (name, node) in pending.drain(..covered).flatten() {
                    set(durable, &name, node);
                }
            }
        }
    }

    /// A path of a node that has one.
    fn path_of(&self, node: Number) -> Option<PathBuf> {
        let mut folders = vec![(self.root.clone(), 0)];
        while let Some((path, folder)) = folders.pop() {
            let Node::Folder { live, .. } = &self.nodes[folder] else { continue };
            for (name, child) in live {
                if *child == node {
                    return Some(path.join(name));
                }
                folders.push((path.join(name), *child));
            }
        }
        None
    }

    /// What programs see before the failure.
    pub(crate) fn live(&self) -> Image {
        self.image(|node| match node {
            Node::File { live, .. } => Found::File(live.clone()),
            Node::Folder { live, .. } => Found::Folder(live.clone()),
        })
    }

    /// What is on the disk after a failure.
    pub(crate) fn after(&self, failure: Failure, chance: &mut Chance) -> Image {
        self.image(|node| match node {
            Node::File { durable, pending, .. } => {
                let mut bytes = durable.clone();
                let mut longest = bytes.len();
                for change in pending {
                    longest = longest.max(fail(&mut bytes, change, failure, chance));
                }
                // The length alone may be there.
                if matches!(failure, Failure::Some(_)) && longest > bytes.len() && chance.one_in(4) {
                    bytes.resize(longest, 0);
                }
                Found::File(bytes)
            }
            Node::Folder { durable, pending, .. } => {
                let mut names = durable.clone();
                for change in pending {
                    if !failure.loses(chance) {
                        change.iter().for_each(|(name, node)| set(&mut names, name, *node));
                    }
                }
                Found::Folder(names)
            }
        })
    }

    fn image(&self, mut look: impl FnMut(&Node) -> Found) -> Image {
        let mut image = Image::new();
        // A file with two names has one content.
        let mut seen: HashMap<Number, Vec<u8>> = HashMap::new();
        let mut left = vec![(PathBuf::new(), 0)];
        while let Some((path, number)) = left.pop() {
            if let Some(bytes) = seen.get(&number) {
                image.insert(path, bytes.clone());
                continue;
            }
            match look(&self.nodes[number]) {
                Found::File(bytes) => {
                    seen.insert(number, bytes.clone());
                    image.insert(path, bytes);
                }
                Found::Folder(names) => {
                    left.extend(names.into_iter().map(|(name, child)| (path.join(name), child)));
                }
            }
        }
        image
    }
}

enum Found {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, Number>),
}

impl Failure {
    fn loses(self, chance: &mut Chance) -> bool {
        match self {
            Self::Everything => true,
            Self::Nothing => false,
            Self::Some(percent) => chance.below(100) < percent,
        }
    }
}

fn set(names: &mut BTreeMap<OsString, Number>, name: &OsString, node: Option<Number>) {
    match node {
        Some(node) => names.insert(name.clone(), node),
        None => names.remove(name),
    };
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write { at, bytes: new } => put(bytes, *at, new),
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// Applies what a failure leaves of a change, sector by sector. Returns the length that the file was to have.
fn fail(bytes: &mut Vec<u8>, change: &Change, failure: Failure, chance: &mut Chance) -> usize {
    match change {
        Change::Length(length) => {
            if !failure.loses(chance) {
                bytes.resize(*length, 0);
            }
            *length
        }
        Change::Write { at, bytes: new } => {
            let mut from = 0;
            while from < new.len() {
                let in_sector = SECTOR - (at + from) % SECTOR;
                let to = new.len().min(from + in_sector);
                if !failure.loses(chance) {
                    put(bytes, at + from, &new[from..to]);
                } else if matches!(failure, Failure::Some(_)) && chance.one_in(4) {
                    // Torn: written from its beginning or from its end.
                    let cut = from + chance.below(to - from + 1);
                    let part = if chance.one_in(2) { from..cut } else { cut..to };
                    if !part.is_empty() {
                        put(bytes, at + part.start, &new[part]);
                    }
                }
                from = to;
            }
            at + new.len()
        }
    }
}
