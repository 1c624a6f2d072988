//! The levels on Linux: which one works, and starting commands in it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use pollux_domain::sync::Locked as _;

use crate::container::Container;
use crate::family::Family;
use crate::holder::setup::{Kind, Setup};
use crate::holder::{Held, Holder, Start};
use crate::identity::Identity;
use crate::keeper::{Armed, Charge, Keeper, Watch};
use crate::mounts::{Placed, Planner, changes};
use crate::paths::SandboxPaths;
use crate::renewal::{Session, renew_while_commands_run};
use crate::syscalls::Sockets;
use crate::trials::Remembered;
use crate::{
    Confinement, Doors, Level, LevelError, PathAccess, SandboxError, SandboxRequest, Trial, Tripped,
    bubblewrap, landlock, own_program, placeholders, process_table,
};

/// How often a start of bubblewrap is tried.
const BUBBLEWRAP_ATTEMPTS: usize = 5;

/// A working sandbox. Its commands share a folder for temporary files, processes and, without network access, a
/// private loopback interface. All of it ends when this value is dropped.
#[derive(Debug)]
pub struct Sandbox {
    means: Means,
    network: bool,
    doors: Option<Doors>,
    places: Arc<SandboxPaths>,
    planner: OnceLock<Arc<Planner>>,
    /// The workspace's directories, and their identities at the start.
    roots: Vec<(PathBuf, Option<Identity>)>,
    held: Arc<Mutex<Session>>,
    charge: Charge,
    family: Arc<Family>,
    /// The trial that was skipped because it succeeded before.
    skipped: Option<Remembered>,
    /// This program's file, if it is visible to commands.
    own: Option<PathBuf>,
}

#[derive(Debug)]
enum Means {
    Namespaces,
    /// With the program.
    Bubblewrap(PathBuf),
    Landlock,
    Container(Container),
}

/// Ends processes that commands leave behind, without confining them.
#[derive(Debug)]
pub struct Guard {
    holder: Holder,
}

impl Guard {
    pub fn open() -> Result<Self, LevelError> {
        let setup = Setup {
            kind: Kind::Guard,
            own_network: false,
            sockets: None,
            mounts: Vec::new(),
            ruleset: None,
            join: Vec::new(),
            listen: Vec::new(),
            expected: Vec::new(),
        };
        Ok(Self { holder: Holder::start(&setup, None)?.0 })
    }

    /// Starts a program.
    pub fn start(&self, start: &Start<'_>) -> io::Result<Held> {
        self.holder.run(start, start.environment)
    }

    /// Whether it can start programs.
    pub fn is_alive(&self) -> bool {
        self.holder.is_alive()
    }
}

impl Sandbox {
    pub(crate) fn at(
        level: Level,
        places: &SandboxPaths,
        request: &SandboxRequest,
        trial: Trial,
    ) -> Result<Self, LevelError> {
        let means = match level {
            Level::Namespaces => Means::Namespaces,
            Level::Bubblewrap => Means::Bubblewrap(bubblewrap::find(places, request)?),
            Level::Landlock => {
                landlock::check()?;
                Means::Landlock
            }
            Level::Container(engine) => Means::Container(Container::open(engine, places, request)?),
            Level::Seatbelt => return Err(LevelError::OtherSystem),
        };
        let remembered = (trial != Trial::Now).then(|| {
            let program =
                if let Means::Bubblewrap(program) = &means { Some(program.as_path()) } else { None };
            Remembered::new(level, program, request)
        });
        let own = match &means {
            Means::Namespaces => own_program::file_to_show(),
            Means::Bubblewrap(_) => own_program::file(),
            Means::Landlock | Means::Container(_) => None,
        };
        let mut sandbox = Self {
            own,
            means,
            network: request.network,
            doors: doors(request, level),
            places: Arc::new(places.clone()),
            planner: OnceLock::new(),
            roots: roots(request),
            held: Arc::default(),
            charge: charge(places, request, level != Level::Landlock),
            family: Arc::default(),
            skipped: None,
        };
        // For Landlock, kernel support is nearly always enough. A container takes a second, and its engine and image were
        // checked.
        let is_enough = matches!(level, Level::Container(_))
            || (trial == Trial::FirstCommand && level == Level::Landlock);
        match remembered {
            _ if is_enough => {}
            Some(known) if known.is_known() => sandbox.skipped = Some(known),
            remembered => {
                sandbox.try_out()?;
                remembered.iter().for_each(Remembered::remember);
            }
        }
        Ok(sandbox)
    }

    /// Another set of rights in the same session: it has its own view of the file system, and shares processes,
    /// loopback and temporary files. Not for bubblewrap, whose namespaces cannot be entered.
    pub fn with_rights(&self, request: &SandboxRequest) -> Result<Self, SandboxError> {
        let failed = |error| SandboxError::NoneWorks(vec![(self.level(), error)]);
        if !matches!(self.means, Means::Namespaces) {
            return Err(failed(LevelError::OtherSystem));
        }
        let sandbox = self.sibling(Means::Namespaces, request)?;
        // A right that is taken back ends its holder, so the session's processes must belong to another one.
        self.holder().map_err(failed)?;
        sandbox.try_out().map_err(failed)?;
        Ok(sandbox)
    }

    /// The sandbox of another mode of the same session, with other files or another network. With namespaces it shares
    /// processes, the loopback and temporary files, with bubblewrap and Landlock temporary files alone.
    pub fn for_mode(&self, request: &SandboxRequest) -> Result<Self, SandboxError> {
        let means = match &self.means {
            Means::Namespaces => Means::Namespaces,
            Means::Bubblewrap(program) => Means::Bubblewrap(program.clone()),
            Means::Landlock => Means::Landlock,
            Means::Container(_) => {
                return Err(SandboxError::NoneWorks(vec![(self.level(), LevelError::OtherSystem)]));
            }
        };
        self.sibling(means, request)
    }

    fn sibling(&self, means: Means, request: &SandboxRequest) -> Result<Self, SandboxError> {
        Ok(Self {
            network: request.network,
            doors: doors(request, self.level()),
            places: Arc::new(SandboxPaths::survey(request)?),
            planner: OnceLock::new(),
            roots: roots(request),
            held: Arc::default(),
            charge: self.charge.clone(),
            family: Arc::clone(&self.family),
            skipped: None,
            own: self.own.clone(),
            means,
        })
    }

    fn try_out(&self) -> Result<(), LevelError> {
        let holder = self.holder()?;
        let null =
            fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(LevelError::Start)?;
        let start = Start {
            program: OsStr::new("/bin/sh"),
            arguments: vec![OsStr::new("-c"), OsStr::new(":")],
            directory: Path::new("/"),
            environment: &[],
            streams: [null.as_fd(), null.as_fd(), null.as_fd()],
        };
        let ended = holder.run(&start, &[]).and_then(|mut held| held.wait()).map_err(LevelError::Start)?;
        if ended.success() { Ok(()) } else { Err(LevelError::Trial(ended.to_string())) }
    }

    /// The holder, with mounts for everything that exists now.
    fn holder(&self) -> Result<Arc<Holder>, LevelError> {
        let mut session = self.held.locked();
        let mut plan = match &self.means {
            Means::Namespaces | Means::Bubblewrap(_) => self.planner()?.plan(),
            Means::Landlock => Vec::new(),
            Means::Container(container) => container.placed(&self.places, self.scratch()?),
        };
        if matches!(self.means, Means::Namespaces) {
            plan.extend(self.planner()?.sockets().map_err(LevelError::Start)?);
        }
        if let Some(holder) = session.holder.clone().filter(|holder| holder.is_alive()) {
            if matches!(self.means, Means::Namespaces) {
                session.renew(plan).map_err(LevelError::Start)?;
                return Ok(holder);
            }
            if changes(&session.mounted, &plan).is_empty() {
                return Ok(holder);
            }
            // Only bubblewrap or the engine can mount there.
            session.older.push(holder);
        }
        let holder = match self.means {
            Means::Bubblewrap(_) => self.start_bubblewrap(&plan)?,
            _ => self.start_holder(&plan)?,
        };
        session.mounted = plan;
        session.holder = Some(Arc::clone(&holder));
        Ok(holder)
    }

    /// Starts a holder with covers over the sockets of other programs. A socket or a mount of another program that vanishes
    /// meanwhile keeps bubblewrap from starting, so it is tried again. Sockets that appear after the first look count as
    /// later ones, which do not matter enough for another holder: those to cover become fewer and fewer.
    fn start_bubblewrap(&self, plan: &[Placed]) -> Result<Arc<Holder>, LevelError> {
        let is_there = |placed: &Placed| placed.path.symlink_metadata().is_ok();
        let mut sockets = self.planner()?.sockets().map_err(LevelError::Start)?;
        let mut left = BUBBLEWRAP_ATTEMPTS;
        loop {
            let (mounted, count) = (mount_table(), sockets.len());
            let all: Vec<Placed> = plan.iter().chain(&sockets).cloned().collect();
            let failure = match self.start_holder(&all) {
                Ok(holder) => return Ok(holder),
                Err(failure) => failure,
            };
            sockets.retain(is_there);
            if sockets.len() < count {
                continue;
            }
            left -= 1;
            let is_passing = !plan.iter().all(is_there) || mount_table() != mounted;
            if left == 0 || !is_passing {
                return Err(failure);
            }
        }
    }

    fn planner(&self) -> Result<&Planner, LevelError> {
        let scratch = self.scratch()?;
        let has_frames = matches!(self.means, Means::Namespaces);
        let plan = || Planner::new(&self.places, scratch, has_frames).with_own(self.own.clone());
        Ok(self.planner.get_or_init(|| Arc::new(plan())))
    }

    fn start_holder(&self, plan: &[Placed]) -> Result<Arc<Holder>, LevelError> {
        let mut joined = self.family.joined.locked();
        let ports = self.doors.as_ref().map(|doors| doors.ports.clone()).unwrap_or_default();
        let (join, listen) = match &self.means {
            // Without a domain of its own, a set of rights could be used through the processes of another one.
            Means::Namespaces if landlock::has_scopes() => {
                joined.plan(!self.network, &ports).map_err(LevelError::Start)?
            }
            _ => (Vec::new(), ports),
        };
        let everything = Sockets { unix: true, internet: true };
        let opened = listen.clone();
        let setup = |kind, sockets, mounts, ruleset| Setup {
            expected: Vec::new(),
            kind,
            own_network: !self.network,
            sockets: Some(sockets),
            mounts,
            ruleset,
            join,
            listen,
        };
        let (holder, listeners) = match &self.means {
            Means::Namespaces => {
                let ruleset = landlock::sockets_only(&self.places, self.scratch()?);
                let setup = setup(Kind::Namespaces, everything, plan.to_vec(), ruleset);
                Holder::start(&setup, None)
            }
            Means::Bubblewrap(program) => {
                let replaced = || {
                    LevelError::Trial("the Pollux executable has been replaced since it started".to_owned())
                };
                let own = own_program::file().ok_or_else(replaced)?;
                let arguments = bubblewrap::arguments(program, plan, self.network, &own);
                let setup = setup(
                    Kind::Inside,
                    everything,
                    Vec::new(),
                    landlock::scopes_only(&self.places, self.scratch()?),
                );
                Holder::start(&setup, Some((program, arguments)))
            }
            Means::Landlock => {
                // Daemon sockets are not hidden here, so all Unix sockets are blocked.
                let sockets = Sockets { unix: false, internet: self.network };
                let setup = setup(Kind::Rules, sockets, Vec::new(), Some(landlock::full(&self.places)?));
                Holder::start(&setup, None)
            }
            Means::Container(container) => {
                let setup = setup(Kind::Inside, everything, Vec::new(), None);
                container.start(&container.visible(&self.places, self.scratch()?), |expected| Setup {
                    expected,
                    ..setup
                })
            }
        }?;
        let holder = Arc::new(holder);
        joined.started(&holder, &opened).map_err(LevelError::Start)?;
        if let Some(doors) = self.doors.as_ref().filter(|_| !listeners.is_empty()) {
            (doors.open)(opened.into_iter().zip(listeners).collect());
        }
        Ok(holder)
    }

    /// Starts a program inside. Keep the second value as long as the program's group.
    pub fn start(&self, start: &Start<'_>) -> io::Result<(Held, Armed)> {
        if let Some((root, _)) = self.roots.iter().find(|(root, was)| Identity::of(root) != *was) {
            return Err(io::Error::other(format!(
                "`{}` was replaced by another folder since the session began; start a new session",
                root.display()
            )));
        }
        let failed = |error: &dyn std::fmt::Display| {
            // The next session finds out which level works.
            self.skipped.iter().for_each(Remembered::forget);
            io::Error::other(format!(
                "could not enter the sandbox: {error} (use `--sandbox=false` to run without it)"
            ))
        };
        let keeper = self.keeper().map_err(|error| failed(&error))?;
        let (protected, exempt) = (self.places.protected.clone(), self.places.exempt.clone());
        let watch = keeper.arm(&Watch { protected, exempt }).map_err(|error| failed(&error))?;
        let holder = self.holder().map_err(|error| failed(&error))?;
        keeper.follow(holder.id(), holder.last_id()).map_err(|error| failed(&error))?;
        let held = holder.run(start, &self.environment(start.environment))?;
        if let (Means::Namespaces, Some(planner)) = (&self.means, self.planner.get()) {
            renew_while_commands_run(&self.held, planner);
        }
        Ok((held, watch))
    }

    /// The process that watches protected files. If it ended, which it does not by itself, it is started again.
    fn keeper(&self) -> io::Result<Arc<Keeper>> {
        let mut kept = self.family.keeper.locked();
        if let Some(keeper) = kept.as_ref().filter(|keeper| keeper.is_alive()) {
            return Ok(Arc::clone(keeper));
        }
        let is_first = !matches!(self.means, Means::Landlock) && self.family.scratch.get().is_none();
        let keeper = if is_first {
            placeholders::remove(&self.places.protected);
            let charge = Charge { scratch_in: Some(self.temp().to_owned()), ..self.charge.clone() };
            let keeper = Keeper::start(&charge)?;
            let scratch = keeper.scratch().ok_or(io::ErrorKind::NotFound)?.to_owned();
            let _ = self.family.scratch.set(scratch);
            keeper
        } else {
            Keeper::start(&self.charge)?
        };
        let keeper = Arc::new(keeper);
        *kept = Some(Arc::clone(&keeper));
        Ok(keeper)
    }

    /// The folder that commands see as `/tmp`; the keeper creates it.
    fn scratch(&self) -> Result<&Path, LevelError> {
        let failed = |source| LevelError::Path { path: self.temp().to_owned(), source };
        if self.family.scratch.get().is_none() {
            self.keeper().map_err(failed)?;
        }
        self.family.scratch.get().map(PathBuf::as_path).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    fn temp(&self) -> &Path {
        self.places.temp.first().map_or(Path::new("/tmp"), PathBuf::as_path)
    }

    /// This program as commands see it, if they can. After an update, there is another one in its place.
    pub fn own_program(&self) -> Option<PathBuf> {
        self.own.as_ref().and(own_program::file()).map(|_| own_program::INSIDE.into())
    }

    /// Whether a variable names a path that was granted.
    pub(crate) fn is_granted(&self, value: &str) -> bool {
        let path = fs::canonicalize(value).ok();
        path.is_some_and(|path| self.places.visible.contains(&path))
    }

    /// The number of commands that run, with those that earlier ones left behind.
    pub fn running(&self) -> usize {
        let session = self.held.locked();
        let holders = session.holder.iter().chain(&session.older);
        holders.map(|holder| process_table::living_children(holder.id())).sum()
    }

    /// The process that starts commands, if one runs.
    pub(crate) fn holder_id(&self) -> Option<i32> {
        self.held.locked().holder.as_ref().map(|holder| holder.id())
    }

    /// The same with those that were replaced and whose commands may still run.
    pub(crate) fn holder_ids(&self) -> Vec<i32> {
        let session = self.held.locked();
        // The number of a process that has ended may be another program's by now.
        let alive = session.holder.iter().chain(&session.older).filter(|holder| holder.is_alive());
        alive.map(|holder| holder.id()).collect()
    }

    /// A way out was closed; it can be opened again.
    pub fn forget_port(&self, port: u16) {
        self.family.joined.locked().forget(port);
    }

    pub(crate) fn has_own_network(&self) -> bool {
        !self.network && matches!(self.means, Means::Namespaces | Means::Bubblewrap(_))
    }

    pub(crate) fn door_ports(&self) -> &[u16] {
        self.doors.as_ref().map_or(&[], |doors| doors.ports.as_slice())
    }

    /// Permits a protected name: Pollux itself, not a command, is about to write it.
    pub fn permit(&self, path: &Path) {
        if let Some(keeper) = self.family.keeper.locked().as_ref() {
            keeper.permit(path);
        }
    }

    /// Protected files that commands created or changed since the last call, and how they were handled.
    pub fn take_tripped(&self) -> Vec<Tripped> {
        let keeper = self.family.keeper.locked().clone();
        keeper.map(|keeper| keeper.collect()).unwrap_or_default()
    }

    pub fn level(&self) -> Level {
        match &self.means {
            Means::Namespaces => Level::Namespaces,
            Means::Bubblewrap(_) => Level::Bubblewrap,
            Means::Landlock => Level::Landlock,
            Means::Container(container) => Level::Container(container.engine()),
        }
    }

    /// Starts what a first command would have to start. An engine may take a second for it.
    pub fn enter(&self) -> Result<(), SandboxError> {
        self.holder().map(drop).map_err(|error| SandboxError::of(self.level(), error))
    }

    /// The container's own variables, if there is one.
    pub(crate) fn container_environment(&self, given: &[(String, String)]) -> Option<Vec<(String, String)>> {
        let Means::Container(container) = &self.means else { return None };
        Some(container.environment(given))
    }

    pub(crate) fn door_variables(&self) -> &[(String, String)] {
        self.doors.as_ref().map_or(&[], |doors| doors.variables.as_slice())
    }

    /// The places of this machine in which commands can write.
    pub fn open_to_commands(&self) -> Vec<PathBuf> {
        let mut places = self.places.open_to_commands();
        if let Means::Container(container) = &self.means {
            places.extend(container.writable_mounts().map(Path::to_owned));
        }
        places
    }

    /// How the sandbox treats a real path.
    pub fn access_to(&self, path: &Path) -> PathAccess {
        self.explain(path).0
    }

    /// The same, and the place that decides.
    pub fn explain(&self, path: &Path) -> (PathAccess, Option<PathBuf>) {
        let (access, place) = self.places.access_to(path);
        match &self.means {
            Means::Container(container) if !container.shows(path, &self.places) => {
                (PathAccess::Elsewhere, None)
            }
            Means::Container(_) | Means::Namespaces | Means::Bubblewrap(_) | Means::Landlock => {
                (access, place.map(Path::to_owned))
            }
        }
    }

    /// Whether commands see a folder of their own at this path.
    pub fn is_replaced(&self, path: &Path) -> bool {
        let is_mounted = matches!(self.means, Means::Namespaces | Means::Bubblewrap(_));
        let shown = || self.places.writable.iter().chain(&self.places.visible).chain(&self.places.homes);
        is_mounted
            && self.places.temp.iter().any(|temp| path != temp && path.starts_with(temp))
            && !shown().any(|seen| path.starts_with(seen))
    }

    pub fn confinement(&self) -> Confinement {
        let level = self.level();
        let signals_outside = level == Level::Landlock && !landlock::has_scopes();
        // A network namespace blocks them too.
        let has_own_network = level != Level::Landlock && !self.network;
        let is_contained = matches!(level, Level::Container(_));
        let abstract_sockets =
            level != Level::Landlock && !is_contained && !has_own_network && !landlock::has_scopes();
        Confinement {
            level,
            network: self.network,
            proxied: self.doors.is_some(),
            signals_outside,
            abstract_sockets,
            late_sockets: !is_contained && !landlock::resolves_sockets(),
            given_devices: !self.places.devices.is_empty(),
        }
    }
}

/// The table of mounts, to notice that another program changed it.
fn mount_table() -> Option<Vec<u8>> {
    fs::read("/proc/self/mountinfo").ok()
}

/// Ways out of an own network. Landlock has none: its rules cannot lead connections anywhere.
fn doors(request: &SandboxRequest, level: Level) -> Option<Doors> {
    request.grants.doors.clone().filter(|_| !request.network && level != Level::Landlock)
}

fn charge(places: &SandboxPaths, request: &SandboxRequest, is_mounted: bool) -> Charge {
    Charge {
        scratch_in: None,
        is_mounted,
        roots: roots(request).into_iter().map(|(root, _)| root).collect(),
        pinned: places.pinned.clone(),
        watched: places.watched.clone(),
    }
}

fn roots(request: &SandboxRequest) -> Vec<(PathBuf, Option<Identity>)> {
    let real = request.roots.iter().filter_map(|root| fs::canonicalize(root).ok());
    real.map(|root| (root.clone(), Identity::of(&root))).collect()
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Everything in it ends before its temporary files are removed.
        let session = std::mem::take(&mut *self.held.locked());
        drop((session.holder, session.older));
    }
}
