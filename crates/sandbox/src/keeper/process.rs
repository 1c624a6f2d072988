//! The keeper's own process: answers requests, looks at protected files while commands run, and cleans up at the end.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags};

use super::exemptions::Exemptions;
use super::kept::{Budget, Kept, Rules};
use super::names::Names;
use super::repositories::{Finder, Kind};
use super::scratch::{Scratch, remove_abandoned};
use super::watched::Watched;
use super::{
    ARM, COLLECT, Charge, DISARM, FOLLOW, OPEN, PERMIT, Watch, aside, disarm, read_paths, write_tripped,
};
use crate::holder::signals::Signals;
use crate::identity::Identity;
use crate::paths::PROTECTED_IN_GIT;
use crate::process_table;
use crate::tripped::{TripAction, Tripped};
use crate::wire::{self, Reader, Writer};

/// How often existing files are looked at while commands run.
const ROUND: Duration = Duration::from_millis(300);
/// How long the end of the commands may take once the program is gone.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Repositories beyond are not watched.
const MAX_REPOSITORIES: usize = 200;
/// More than that is not told.
const MAX_TRIPPED: usize = 100;
/// The same of files below the top that other programs act on, in one look.
const MAX_NESTED: usize = 10;
/// How often a new repository is made harmless if something changes it meanwhile.
const ATTEMPTS: usize = 5;
/// What must not change in the folder of a work tree.
const OF_WORK_TREES: &[&str] = &["hooks", "config.worktree", "gitdir", "commondir"];

/// Runs a keeper on the socket that stands in for its input, until the program is gone.
pub(crate) fn run() -> u8 {
    #[expect(unsafe_code, reason = "the descriptor is known by its number")]
    // SAFETY: the program gave it to this process, and nobody else uses it.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let Ok(_signals) = Signals::hold_back() else { return 1 };
    let Some(mut state) = wire::receive(&socket).ok().flatten().and_then(|first| State::open(&first.body))
    else {
        return 1;
    };
    let mut answer = Writer::default();
    answer.text(state.scratch.as_ref().map_or(OsStr::new(""), |scratch| scratch.path.as_os_str()));
    if wire::send(&socket, &answer.bytes, &[]).is_ok() {
        while state.round(&socket) {}
    }
    state.end();
    0
}

/// A repository in the workspace, or a part of one.
#[derive(Debug)]
struct Repository {
    path: PathBuf,
    kind: Kind,
    identity: Identity,
    folder: Arc<OwnedFd>,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct State {
    charge: Charge,
    scratch: Option<Scratch>,
    is_armed: bool,
    looked: Instant,
    /// The processes that adopt what commands leave behind, and those that end last.
    holders: Vec<(i32, i32)>,
    exemptions: Exemptions,
    /// The protected paths of the first command.
    protected: Vec<PathBuf>,
    names: Names,
    kept: Vec<Kept>,
    pins: Vec<(PathBuf, OwnedFd)>,
    repositories: Vec<Repository>,
    watched: Vec<Watched>,
    finder: Finder,
    tripped: Vec<Tripped>,
}

impl State {
    fn open(body: &[u8]) -> Option<Self> {
        let mut body = Reader { bytes: body };
        if body.number().ok()? != OPEN {
            return None;
        }
        let charge = Charge::read(&mut body).ok()?;
        let scratch = match &charge.scratch_in {
            Some(temp) => {
                remove_abandoned(temp);
                Some(Scratch::create(temp).ok()?)
            }
            None => None,
        };
        Some(Self {
            finder: Finder::new(&charge.roots, &charge.pinned),
            charge,
            scratch,
            is_armed: false,
            looked: Instant::now(),
            holders: Vec::new(),
            exemptions: Exemptions::default(),
            protected: Vec::new(),
            names: Names::default(),
            kept: Vec::new(),
            pins: Vec::new(),
            repositories: Vec::new(),
            watched: Vec::new(),
            tripped: Vec::new(),
        })
    }

    /// Waits for a request, an event or the time of the next look; false if the program is gone.
    fn round(&mut self, socket: &UnixStream) -> bool {
        let mut polled = vec![PollFd::new(socket, PollFlags::IN)];
        polled.extend(self.names.events().map(|events| PollFd::new(events, PollFlags::IN)));
        let limit = self.is_armed.then(|| timespec(ROUND.saturating_sub(self.looked.elapsed())));
        match poll(&mut polled, limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        }
        let is_asked = polled.first().is_some_and(|polled| !polled.revents().is_empty());
        drop(polled);
        self.names.drain();
        self.names.sweep(&mut self.tripped);
        // By time, not by silence: a command that creates files all the time must not keep this from happening.
        if self.is_armed && self.looked.elapsed() >= ROUND {
            self.sweep(false);
            let ended = self.exemptions.expire();
            self.protect_again(&ended);
            self.disarm_if_over();
        }
        !is_asked || self.answer(socket).is_ok()
    }

    fn answer(&mut self, socket: &UnixStream) -> io::Result<()> {
        let message = wire::receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut body = Reader { bytes: &message.body };
        let mut answer = Vec::new();
        match body.number()? {
            ARM => {
                let watch = Watch { protected: read_paths(&mut body)?, exempt: read_paths(&mut body)? };
                let mut number = Writer::default();
                number.number(self.arm(watch));
                answer = number.bytes;
            }
            DISARM => {
                // What the command was allowed to change counts before its exception ends.
                self.sweep(true);
                let ended = self.exemptions.end(body.number()?);
                self.protect_again(&ended);
                self.disarm_if_over();
            }
            PERMIT => self.permit(body.path()?),
            COLLECT => {
                self.sweep(true);
                answer = write_tripped(&std::mem::take(&mut self.tripped));
            }
            FOLLOW => self.holders.push((body.number()?.cast_signed(), body.number()?.cast_signed())),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        wire::send(socket, &answer, &[])
    }

    fn arm(&mut self, watch: Watch) -> u32 {
        if self.is_armed {
            self.sweep(true);
        } else {
            self.exemptions.clear_permits();
            self.look(&watch.protected);
            self.protected = watch.protected;
            self.looked = Instant::now();
            self.is_armed = true;
        }
        let number = self.exemptions.add(watch.exempt);
        let exempt = self.exemptions.all();
        self.names.permit(|path| exempt.iter().any(|open| open.starts_with(path)));
        number
    }

    /// The program itself writes a protected file, or one in a protected folder.
    fn permit(&mut self, path: PathBuf) {
        self.names.permit(|name| path.starts_with(name));
        self.exemptions.permit(path);
    }

    /// Protects paths, as they are now, whose exception ended.
    fn protect_again(&mut self, ended: &[PathBuf]) {
        if !self.is_armed || ended.is_empty() {
            return;
        }
        let mut budget = Budget::default();
        let of_repositories = self.repositories.iter_mut().flat_map(|repository| &mut repository.kept);
        for kept in self.kept.iter_mut().chain(of_repositories) {
            ended.iter().for_each(|path| kept.accept(path, &mut budget));
        }
        let left = self.exemptions.all();
        let is_open = |paths: &[PathBuf], name: &Path| paths.iter().any(|open| open.starts_with(name));
        let names = self.protected.iter().filter(|name| is_open(ended, name) && !is_open(&left, name));
        for path in names
            .filter(|path| !self.kept.iter().any(|kept| kept.path == **path))
            .cloned()
            .collect::<Vec<_>>()
        {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let Ok(folder) = aside::open_folder(parent) else { continue };
            let kept = Kept::new(&Arc::new(folder), name, path.clone(), None, &mut budget);
            if kept.is_missing() {
                self.names.add(&path);
            } else {
                self.kept.push(kept);
            }
        }
        let is_below = |path: &Path| ended.iter().any(|open| path.starts_with(open));
        for (path, kind) in self.finder.find().into_iter().filter(|(path, _)| is_below(path)) {
            if !self.repositories.iter().any(|known| known.path == path) {
                let record = Repository::new(path, kind, None);
                self.repositories.extend(record.filter(|_| self.repositories.len() < MAX_REPOSITORIES));
            }
        }
    }

    /// Looks for the last time if no command runs any more, and returns whether that is so.
    fn disarm_if_over(&mut self) -> bool {
        if !self.is_armed || self.exemptions.has_commands() || self.has_leftovers() {
            return false;
        }
        self.sweep(true);
        self.is_armed = false;
        self.names.clear();
        true
    }

    /// Whether a process of a command is alive: the holder adopts those that lost their parent.
    fn has_leftovers(&self) -> bool {
        self.holders.iter().any(|(holder, _)| process_table::has_living_child(*holder))
    }

    /// Remembers how everything is before the first command.
    fn look(&mut self, protected: &[PathBuf]) {
        self.names.find(protected);
        let mut before: HashMap<PathBuf, Kept> =
            self.kept.drain(..).map(|kept| (kept.path.clone(), kept)).collect();
        let mut budget = Budget::default();
        let is_mounted = self.charge.is_mounted;
        let mut keep = |path: &Path, even_mounted: bool| {
            let is_link = || path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
            if is_mounted && !even_mounted && !is_link() {
                return None;
            }
            let (folder, name) = (Arc::new(aside::open_folder(path.parent()?).ok()?), path.file_name()?);
            let known = before.remove(path);
            let kept = Kept::new(&folder, name, path.to_owned(), known.as_ref(), &mut budget);
            (!kept.is_missing()).then_some(kept)
        };
        self.kept = protected.iter().filter_map(|path| keep(path, false)).collect();
        let workspaces = self.charge.roots.iter().flat_map(|root| editor_workspaces(root));
        self.kept.extend(workspaces.filter_map(|path| keep(&path, true)));
        self.pins.clear();
        if !is_mounted {
            let pinned = self.charge.pinned.iter();
            self.pins.extend(pinned.filter_map(|path| Some((path.clone(), aside::open_folder(path).ok()?))));
        }
        let known = std::mem::take(&mut self.repositories);
        for (path, kind) in self.finder.find_before() {
            let old = known.iter().find(|old| old.path == path && old.kind == kind);
            let record = Repository::new(path, kind, old);
            self.repositories.extend(record.filter(|_| self.repositories.len() < MAX_REPOSITORIES));
        }
        let nested = self.finder.nested.iter();
        self.watched = self.charge.watched.iter().chain(nested).map(|path| Watched::new(path)).collect();
    }

    /// Looks at everything, and restores it. A thorough look also finds what is new.
    fn sweep(&mut self, is_thorough: bool) {
        self.looked = Instant::now();
        if !self.is_armed {
            return;
        }
        self.names.sweep(&mut self.tripped);
        let mut tripped = std::mem::take(&mut self.tripped);
        for (path, folder) in &self.pins {
            put_in_place(path, folder, &mut tripped);
        }
        let exempt = self.exemptions.all();
        let is_exempt = |path: &Path| exempt.iter().any(|open| path.starts_with(open));
        let rules = Rules { is_exempt: &is_exempt, is_thorough };
        for kept in &mut self.kept {
            kept.sweep(&rules, &mut tripped);
        }
        // A repository that was removed is gone; one that was moved is watched where it is.
        self.repositories.retain(|repository| aside::place_of(&repository.folder).is_some());
        for kept in self.repositories.iter_mut().flat_map(|repository| &mut repository.kept) {
            kept.sweep(&rules, &mut tripped);
        }
        if is_thorough {
            self.find_new(&is_exempt, &mut tripped);
            for watched in &mut self.watched {
                watched.sweep(&mut tripped);
            }
        }
        tripped.truncate(MAX_TRIPPED);
        self.tripped = tripped;
    }

    /// Repositories and editors' workspaces that commands created.
    fn find_new(&mut self, is_exempt: &dyn Fn(&Path) -> bool, tripped: &mut Vec<Tripped>) {
        for path in self.charge.roots.iter().flat_map(|root| editor_workspaces(root)) {
            if !self.kept.iter().any(|kept| kept.path == path) && !is_exempt(&path) {
                move_aside(&path, tripped);
            }
        }
        let mut found = self.finder.find();
        if self.finder.is_flooded {
            let what = Some("too many folders to search all of them for repositories".to_owned());
            let path = self.charge.roots.first().cloned().unwrap_or_default();
            tripped.push(Tripped { path, action: TripAction::Reported(what) });
        }
        self.find_nested(tripped);
        // Where a pointer leads to is looked at first.
        found.sort_by_key(|(_, kind)| *kind == Kind::Pointer);
        for (path, kind) in found {
            let is_known = |known: &Repository| match kind {
                Kind::Pointer => known.path == path,
                _ => Some(known.identity) == Identity::of(&path),
            };
            if is_exempt(&path) {
                continue;
            }
            if !self.repositories.iter().any(is_known) {
                self.admit(&path, kind, tripped);
            } else if kind == Kind::Pointer {
                self.admit_target(&path, tripped);
            }
        }
    }

    /// Reports files below the top that other programs act on and that are new.
    fn find_nested(&mut self, tripped: &mut Vec<Tripped>) {
        let is_new = |path: &&PathBuf| !self.watched.iter().any(|known| known.path() == path.as_path());
        let new: Vec<PathBuf> = self.finder.nested.iter().filter(is_new).cloned().collect();
        let told = new.iter().take(MAX_NESTED);
        tripped.extend(told.map(|path| Tripped { path: path.clone(), action: TripAction::Reported(None) }));
        self.watched.extend(new.iter().map(|path| Watched::new(path)));
    }

    /// Makes a new repository harmless and remembers it as it is then. What is remembered is checked itself: a process
    /// may have changed the files meanwhile.
    fn admit(&mut self, path: &Path, kind: Kind, tripped: &mut Vec<Tripped>) {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            self.vet(path, kind, tripped);
            let Some(record) = Repository::new(path.to_owned(), kind, None) else { return };
            let is_fine = self.is_harmless(&record);
            last = Some(record);
            if is_fine {
                break;
            }
        }
        let Some(mut record) = last else { return };
        if !self.is_harmless(&record) {
            record.kept.iter_mut().for_each(Kept::accept_nothing);
        }
        if self.repositories.len() < MAX_REPOSITORIES {
            self.repositories.push(record);
        }
    }

    /// Whether what a new repository would be restored to can run no program.
    fn is_harmless(&self, record: &Repository) -> bool {
        record.kept.iter().all(|kept| {
            let name = kept.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            match (name, record.kind) {
                ("hooks", _) => kept.is_empty(),
                ("config" | "config.worktree", kind) => {
                    let is_fine = |text: &str| disarm::is_harmless_text(text, kind);
                    kept.is_missing() || kept.text().is_some_and(is_fine)
                }
                ("commondir", Kind::Repository | Kind::Module) => kept.is_missing(),
                (_, Kind::Pointer) => {
                    let target = kept.text().and_then(|text| disarm::target_of(&kept.path, text));
                    let is_watched = |target: &PathBuf| {
                        self.repositories.iter().any(|known| known.path == *target)
                            || self.charge.pinned.contains(target)
                    };
                    kept.is_missing() || target.as_ref().is_some_and(is_watched)
                }
                _ => true,
            }
        })
    }

    /// Where a known pointer leads may be new: another folder with the same name, in a place that is not searched.
    fn admit_target(&mut self, pointer: &Path, tripped: &mut Vec<Tripped>) {
        let Some(target) = disarm::target(pointer) else { return };
        let identity = Identity::of(&target);
        let is_known = self.charge.pinned.contains(&target)
            || self.repositories.iter().any(|known| Some(known.identity) == identity);
        let is_inside = self.charge.roots.iter().any(|root| target.starts_with(root));
        if is_inside && !is_known && aside::open_folder(&target).is_ok() {
            self.admit(&target, Kind::Module, tripped);
        }
    }

    /// Makes a new repository harmless.
    fn vet(&mut self, path: &Path, kind: Kind, tripped: &mut Vec<Tripped>) {
        match kind {
            Kind::Repository | Kind::Module => {
                if let Ok(folder) = aside::open_folder(path) {
                    disarm::disarm(&folder, path, kind, tripped);
                }
            }
            Kind::WorkTree if disarm::is_own_work_tree(path) => {
                if let Ok(folder) = aside::open_folder(path) {
                    disarm::disarm(&folder, path, kind, tripped);
                }
            }
            Kind::WorkTree => move_aside(path, tripped),
            Kind::Pointer => {
                let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
                let Some(target) = disarm::target(path).filter(|_| !is_link) else {
                    return move_aside(path, tripped);
                };
                if self.repositories.iter().any(|known| known.path == target) {
                    return self.admit_target(path, tripped);
                }
                let is_inside = self.charge.roots.iter().any(|root| target.starts_with(root));
                match aside::open_folder(&target) {
                    Ok(_) if is_inside => self.admit(&target, Kind::Module, tripped),
                    // Where nobody watches, anything may be in it later.
                    _ => move_aside(path, tripped),
                }
            }
        }
    }

    /// The program is gone: waits for the end of its commands, and looks for the last time.
    fn end(mut self) {
        let deadline = Instant::now() + END_LIMIT;
        for (_, last) in std::mem::take(&mut self.holders) {
            let Some(id) = Pid::from_raw(last) else { continue };
            let Ok(process) = rustix::process::pidfd_open(id, PidfdFlags::empty()) else { continue };
            let left = deadline.saturating_duration_since(Instant::now());
            let left = timespec(left);
            let _ = poll(&mut [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)], Some(&left));
        }
        self.sweep(true);
        drop(self.scratch.take());
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

impl Repository {
    fn new(path: PathBuf, kind: Kind, old: Option<&Self>) -> Option<Self> {
        let budget = &mut Budget::of_repository();
        let identity = Identity::of(&path)?;
        let (place, names): (&Path, Vec<OsString>) = match kind {
            Kind::Pointer => (path.parent()?, vec![".git".into()]),
            Kind::WorkTree => (&path, OF_WORK_TREES.iter().map(OsString::from).collect()),
            Kind::Repository | Kind::Module => (&path, PROTECTED_IN_GIT.iter().map(OsString::from).collect()),
        };
        let folder = Arc::new(aside::open_folder(place).ok()?);
        let kept = names.iter().map(|name| {
            let known = old.and_then(|old| old.kept.iter().find(|kept| kept.path == place.join(name)));
            Kept::new(&folder, name, place.join(name), known, budget)
        });
        let kept = kept.collect();
        Some(Self { kind, identity, kept, folder, path })
    }
}

/// Files that open a set of folders, with settings and tasks.
fn editor_workspaces(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension() == Some(OsStr::new("code-workspace"))).collect()
}

fn move_aside(path: &Path, tripped: &mut Vec<Tripped>) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let moved = aside::open_folder(parent).ok().and_then(|folder| aside::move_aside(&folder, name, path));
    let action = moved.map_or(TripAction::Failed, TripAction::Renamed);
    tripped.push(Tripped { path: path.to_owned(), action });
}

/// Moves a folder back that was renamed, and what took its place aside.
fn put_in_place(path: &Path, folder: &OwnedFd, tripped: &mut Vec<Tripped>) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(own) = rustix::fs::fstat(folder) else { return };
    if Identity::of(path).is_some_and(|now| now.is_open_as(own.st_dev, own.st_ino)) {
        return;
    }
    // One that was removed cannot come back; what took its place is looked at as new.
    let Some(now) = aside::place_of(folder) else { return };
    let Ok(open) = aside::open_folder(parent) else { return };
    let kept = if aside::exists(&open, name) { aside::move_aside(&open, name, path) } else { None };
    let (from, from_name) = (now.parent().map(aside::open_folder), now.file_name());
    let moved = match (from, from_name) {
        (Some(Ok(from)), Some(from_name)) => rustix::fs::renameat(&from, from_name, &open, name).is_ok(),
        _ => false,
    };
    let action = if moved { TripAction::Restored(kept) } else { TripAction::Failed };
    tripped.push(Tripped { path: path.to_owned(), action });
}
