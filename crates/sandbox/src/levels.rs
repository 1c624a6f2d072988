//! The levels on Linux: which one works, and starting commands in it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_domain::sync::Locked as _;

use crate::holder::setup::{Kind, Setup};
use crate::holder::{Held, Holder, Start};
use crate::mounts::{self, Placed, Scratch};
use crate::paths::SandboxPaths;
use crate::syscalls::Sockets;
use crate::tripwire::{self, Armed, Tripwire};
use crate::{Confinement, Level, LevelError, SandboxError, SandboxRequest, Trial, bubblewrap, landlock};

/// A working sandbox. Its commands share a folder for temporary files, processes and, without network access, a
/// private loopback interface. All of it ends when this value is dropped.
#[derive(Debug)]
pub struct Sandbox {
    means: Means,
    network: bool,
    places: SandboxPaths,
    /// The workspace's directories, and their identities at the start.
    roots: Vec<(PathBuf, Option<(u64, u64)>)>,
    held: Mutex<Session>,
    tripwire: Tripwire,
    /// The first set of rights of the session, whose namespaces this one shares.
    joined: Option<Arc<Holder>>,
}

/// The processes of a session.
#[derive(Debug, Default)]
struct Session {
    holder: Option<Arc<Holder>>,
    mounted: Vec<Placed>,
    /// Replaced holders, whose commands may still run.
    older: Vec<Arc<Holder>>,
}

#[derive(Debug)]
enum Means {
    Namespaces(Arc<Scratch>),
    Bubblewrap { program: PathBuf, scratch: Scratch },
    Landlock,
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
        };
        Ok(Self { holder: Holder::start(&setup, None)? })
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
        let scratch = || {
            tripwire::remove_old_placeholders(&places.protected);
            let temp = places.temp.first().map_or(Path::new("/tmp"), PathBuf::as_path);
            Scratch::create(temp).map_err(|source| LevelError::Path { path: temp.to_owned(), source })
        };
        let means = match level {
            Level::Namespaces => Means::Namespaces(Arc::new(scratch()?)),
            Level::Bubblewrap => {
                let program = bubblewrap::find(places, request)?;
                Means::Bubblewrap { program, scratch: scratch()? }
            }
            Level::Landlock => {
                landlock::check()?;
                Means::Landlock
            }
            Level::Seatbelt => return Err(LevelError::OtherSystem),
        };
        let sandbox = Self {
            means,
            network: request.network,
            places: places.clone(),
            roots: roots(request),
            held: Mutex::default(),
            tripwire: Tripwire::new(&places.protected),
            joined: None,
        };
        if trial == Trial::Now || level != Level::Landlock {
            sandbox.try_out()?;
        }
        Ok(sandbox)
    }

    /// Another set of rights in the same session: it has its own view of the file system, and shares processes,
    /// loopback and temporary files. Not for bubblewrap, whose namespaces cannot be entered.
    pub fn with_rights(&self, request: &SandboxRequest) -> Result<Self, SandboxError> {
        let places = SandboxPaths::survey(request)?;
        let level = self.level();
        let Means::Namespaces(scratch) = &self.means else {
            return Err(SandboxError::NoneWorks(vec![(level, LevelError::OtherSystem)]));
        };
        let failed = |error| SandboxError::NoneWorks(vec![(level, error)]);
        let sandbox = Self {
            means: Means::Namespaces(Arc::clone(scratch)),
            network: self.network,
            roots: roots(request),
            held: Mutex::default(),
            tripwire: Tripwire::new(&places.protected),
            joined: Some(self.holder().map_err(failed)?),
            places,
        };
        sandbox.try_out().map_err(failed)?;
        Ok(sandbox)
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
        let plan = match &self.means {
            Means::Namespaces(scratch) => mounts::mounts(&self.places, scratch.path()),
            Means::Bubblewrap { scratch, .. } => mounts::mounts(&self.places, scratch.path()),
            Means::Landlock => Vec::new(),
        };
        if let Some(holder) = session.holder.clone().filter(|holder| holder.is_alive()) {
            let new: Vec<Placed> =
                plan.iter().filter(|placed| !session.mounted.contains(placed)).cloned().collect();
            if new.is_empty() {
                return Ok(holder);
            }
            if matches!(self.means, Means::Namespaces(_)) {
                holder.mount(&new).map_err(LevelError::Start)?;
                session.mounted = plan;
                return Ok(holder);
            }
            // Only bubblewrap itself can mount there.
            session.older.push(holder);
        }
        let holder = Arc::new(self.start_holder(&plan)?);
        session.mounted = plan;
        session.holder = Some(Arc::clone(&holder));
        Ok(holder)
    }

    fn start_holder(&self, plan: &[Placed]) -> Result<Holder, LevelError> {
        let join = self.joined.iter().flat_map(|holder| &holder.namespaces).map(OwnedFd::try_clone);
        let join = join.collect::<io::Result<Vec<_>>>().map_err(LevelError::Start)?;
        let everything = Sockets { unix: true, internet: true };
        let setup = |kind, sockets, mounts, ruleset| Setup {
            kind,
            own_network: !self.network,
            sockets: Some(sockets),
            mounts,
            ruleset,
            join,
        };
        match &self.means {
            Means::Namespaces(_) => {
                let setup = setup(Kind::Namespaces, everything, plan.to_vec(), landlock::scopes_only());
                Holder::start(&setup, None)
            }
            Means::Bubblewrap { program, .. } => {
                let own = fs::read_link("/proc/self/exe").map_err(LevelError::Start)?;
                let arguments = bubblewrap::arguments(program, plan, self.network, &own);
                let setup = setup(Kind::Inside, everything, Vec::new(), landlock::scopes_only());
                Holder::start(&setup, Some((program, arguments)))
            }
            Means::Landlock => {
                // Daemon sockets are not hidden here, so all Unix sockets are blocked.
                let sockets = Sockets { unix: false, internet: self.network };
                let setup = setup(Kind::Rules, sockets, Vec::new(), Some(landlock::full(&self.places)?));
                Holder::start(&setup, None)
            }
        }
    }

    /// Starts a program inside. Keep the second value as long as the program's group.
    pub fn start(&self, start: &Start<'_>) -> io::Result<(Held, Armed)> {
        if let Some((root, _)) = self.roots.iter().find(|(root, was)| mounts::identity(root) != *was) {
            return Err(io::Error::other(format!(
                "`{}` was replaced by another folder since the session began; start a new session",
                root.display()
            )));
        }
        let holder = self.holder().map_err(|error| {
            io::Error::other(format!(
                "could not enter the sandbox: {error} (use `--sandbox=false` to run without it)"
            ))
        })?;
        let watch = self.tripwire.arm(Some(holder.id()));
        Ok((holder.run(start, &self.environment(start.environment))?, watch))
    }

    /// Permits a protected name that did not exist: Pollux itself, not a command, is about to create it.
    pub fn permit(&self, path: &Path) {
        self.tripwire.permit(path);
    }

    /// A notice about protected files that commands created since the last call, and how they were handled.
    pub fn take_notice(&self) -> Option<String> {
        let blocked = self.tripwire.take_blocked();
        let told: Vec<String> = blocked.iter().map(|blocked| blocked.to_string()).collect();
        (!told.is_empty()).then(|| format!("Sandbox: {}", told.join("; ")))
    }

    pub fn level(&self) -> Level {
        match self.means {
            Means::Namespaces(_) => Level::Namespaces,
            Means::Bubblewrap { .. } => Level::Bubblewrap,
            Means::Landlock => Level::Landlock,
        }
    }

    pub(crate) fn network(&self) -> bool {
        self.network
    }

    pub fn confinement(&self) -> Confinement {
        let level = self.level();
        let signals_outside = level == Level::Landlock && !landlock::has_scopes();
        // A network namespace blocks them too.
        let has_own_network = level != Level::Landlock && !self.network;
        let abstract_sockets = level != Level::Landlock && !has_own_network && !landlock::has_scopes();
        Confinement { level, network: self.network, signals_outside, abstract_sockets }
    }
}

fn roots(request: &SandboxRequest) -> Vec<(PathBuf, Option<(u64, u64)>)> {
    let real = request.roots.iter().filter_map(|root| fs::canonicalize(root).ok());
    real.map(|root| (root.clone(), mounts::identity(&root))).collect()
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Everything in it ends before its temporary files are removed.
        let session = std::mem::take(&mut *self.held.locked());
        drop((session.holder, session.older));
    }
}
