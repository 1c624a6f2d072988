//! Watches for protected files that sandboxed commands must not create.
//!
//! A mount cannot cover a name that does not exist, and an empty placeholder would be visible to everyone who lists
//! the folder. So the folder is watched instead: a protected name that appears while a command runs is renamed
//! immediately within the folder, so that no program uses it and nothing is lost. Files that existed before are left
//! alone.

use std::fmt;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pollux_domain::sync::Locked as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

use crate::process_table;

/// How often the watcher checks whether a confined process is still alive, in addition to change events.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// Renamed files are numbered up to here, and by time after that.
const SMALL_NUMBERS: u128 = 20;
const ATTEMPTS: usize = 100;
/// The suffix of a renamed file.
const SUFFIX: &str = "sandbox-blocked";

/// Watches the protected names as long as a confined process is alive.
#[derive(Debug)]
pub(crate) struct Tripwire {
    shared: Arc<Shared>,
}

/// A group of confined processes that is alive.
#[derive(Debug)]
pub struct Armed {
    shared: Arc<Shared>,
}

/// A file that a confined command created and that was renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked {
    path: PathBuf,
    /// Its new name; `None` if it could not be renamed.
    renamed: Option<PathBuf>,
}

#[derive(Debug)]
struct Shared {
    protected: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: usize,
    /// The process that adopts what commands leave behind.
    holder: Option<i32>,
    /// The number of the watcher that runs.
    watcher: Option<u64>,
    watchers: u64,
    /// The names that did not exist when the first command started.
    absent: Vec<Absent>,
    blocked: Vec<Blocked>,
}

/// A name in an open folder, so that the folder cannot be replaced by a link to another one.
#[derive(Debug)]
struct Absent {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    name: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.renamed.as_deref().and_then(Path::file_name) {
            Some(name) => write!(
                f,
                "`{path}` was created by a sandboxed command, which is not allowed; renamed to `{}`",
                name.display()
            ),
            None => {
                write!(
                    f,
                    "`{path}` was created by a sandboxed command, which is not allowed, and could not be renamed; delete it"
                )
            }
        }
    }
}

impl Tripwire {
    pub(crate) fn new(protected: &[PathBuf]) -> Self {
        Self { shared: Arc::new(Shared { protected: protected.to_vec(), state: Mutex::default() }) }
    }

    /// Call it before a command starts; keep the value as long as its group.
    pub(crate) fn arm(&self, holder: Option<i32>) -> Armed {
        let mut state = self.shared.locked();
        state.groups += 1;
        state.holder = holder;
        if state.groups == 1 && state.watcher.is_none() {
            state.absent = absent(&self.shared.protected);
            state.watchers += 1;
            let number = state.watchers;
            // Without a watcher, a check still happens at the end of each command.
            state.watcher = watch(&self.shared, &state.absent, number).is_ok().then_some(number);
        }
        drop(state);
        Armed { shared: Arc::clone(&self.shared) }
    }

    /// Permits a name: the program itself is about to create it.
    pub(crate) fn permit(&self, path: &Path) {
        self.shared.locked().absent.retain(|entry| !path.starts_with(&entry.path));
    }

    /// Checks now, and returns what was found since the last call.
    pub(crate) fn take_blocked(&self) -> Vec<Blocked> {
        let mut state = self.shared.locked();
        sweep(&mut state);
        std::mem::take(&mut state.blocked)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let mut state = self.shared.locked();
        sweep(&mut state);
        state.groups = state.groups.saturating_sub(1);
        if state.groups == 0 && !state.has_leftovers() {
            state.disarm();
        }
    }
}

impl State {
    /// Whether a process that lost its parent is alive: the holder adopts it.
    fn has_leftovers(&self) -> bool {
        let Some(holder) = self.holder else { return false };
        process_table::processes().iter().any(|process| process.parent == holder && process.is_alive)
    }

    fn disarm(&mut self) {
        // A process may have created it just before it ended.
        sweep(self);
        self.watcher = None;
        self.absent.clear();
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}

fn absent(protected: &[PathBuf]) -> Vec<Absent> {
    let mut folders: Vec<(PathBuf, Arc<OwnedFd>)> = Vec::new();
    let mut found = Vec::new();
    for path in protected {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            continue;
        };
        let folder = match folders.iter().find(|(known, _)| known == parent) {
            Some((_, folder)) => Arc::clone(folder),
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // If the folder does not exist, it contains nothing; a new one is opened again.
                let Ok(folder) = rustix::fs::open(parent, flags, Mode::empty()) else { continue };
                let folder = Arc::new(folder);
                folders.push((parent.to_owned(), Arc::clone(&folder)));
                folder
            }
        };
        let entry = Absent { folder, path: path.clone(), name: name.to_owned() };
        if !entry.exists() {
            found.push(entry);
        }
    }
    found
}

impl Absent {
    fn exists(&self) -> bool {
        rustix::fs::statat(&*self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Renames it to a name that no program uses.
    fn rename(&self) -> Option<PathBuf> {
        let unguessed = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        // A command may have created all the low numbers in advance.
        let numbers = (1..=SMALL_NUMBERS).chain(std::iter::repeat_with(unguessed).take(ATTEMPTS));
        for number in numbers {
            let name = format!("{}.{SUFFIX}-{number}", self.name);
            let renamed = rustix::fs::renameat_with(
                &*self.folder,
                self.name.as_str(),
                &*self.folder,
                name.as_str(),
                RenameFlags::NOREPLACE,
            );
            match renamed {
                Ok(()) => return Some(self.path.with_file_name(name)),
                Err(rustix::io::Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

fn sweep(state: &mut State) {
    let State { absent, blocked, .. } = state;
    for entry in absent.iter().filter(|entry| entry.exists()) {
        let found = Blocked { path: entry.path.clone(), renamed: entry.rename() };
        // Otherwise a file that cannot be renamed would be reported repeatedly.
        if found.renamed.is_some() || !blocked.contains(&found) {
            blocked.push(found);
        }
    }
}

/// Starts the watcher.
fn watch(shared: &Arc<Shared>, absent: &[Absent], number: u64) -> io::Result<()> {
    if absent.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    for entry in absent {
        let folder = format!("/proc/self/fd/{}", entry.folder.as_raw_fd());
        inotify::add_watch(&events, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    }
    let shared = Arc::clone(shared);
    thread::Builder::new().name("tripwire".to_owned()).spawn(move || follow(&shared, &events, number))?;
    Ok(())
}

fn follow(shared: &Shared, events: &OwnedFd, number: u64) {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    loop {
        let mut polled = [PollFd::new(events, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&ROUND));
        let mut reader = inotify::Reader::new(events, &mut buffer);
        while reader.next().is_ok() {}
        let mut state = shared.locked();
        if state.watcher != Some(number) {
            return;
        }
        sweep(&mut state);
        if state.groups == 0 && !state.has_leftovers() {
            state.disarm();
            return;
        }
    }
}

/// Removes the placeholders of an earlier version for names that did not exist: an empty folder `.envrc`,
/// which no other program creates, and the empty folders created at the same moment.
pub(crate) fn remove_old_placeholders(protected: &[PathBuf]) {
    let made_at = |path: &Path| -> Option<SystemTime> {
        let meta = path.symlink_metadata().ok()?;
        let is_empty = meta.is_dir() && fs::read_dir(path).ok()?.next().is_none();
        if is_empty { meta.modified().ok() } else { None }
    };
    for envrc in protected.iter().filter(|path| path.ends_with(".envrc")) {
        let (Some(made), Some(folder)) = (made_at(envrc), envrc.parent()) else { continue };
        let is_beside = |path: &&PathBuf| path.parent() == Some(folder);
        for path in protected.iter().filter(is_beside) {
            let apart = made_at(path)
                .and_then(|other| other.duration_since(made).or_else(|_| made.duration_since(other)).ok());
            if apart.is_some_and(|apart| apart < Duration::from_secs(1)) {
                let _ = fs::remove_dir(path);
            }
        }
    }
}
