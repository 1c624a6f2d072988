//! Sandboxes for the commands that tools start.
//!
//! Each command is confined separately; the program itself is not. There are several levels: bubblewrap, then
//! Landlock with a system call filter (Linux), and Seatbelt (macOS). They differ in what they can block; see
//! `docs/src/sandbox.md`. [`Sandbox::open`] tests them once; [`Sandbox::open_lazily`] leaves the expensive part
//! to the first command.

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod landlock;
pub mod new_session;
mod paths;
pub mod process_table;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
mod starter;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(target_os = "linux")]
mod tripwire;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use pollux_config::search_path::SearchPath;
use tokio::process::Command;

use new_session::lead_new_session;
use paths::SandboxPaths;
use starter::Starter;

pub use paths::RootError;
#[cfg(target_os = "linux")]
pub use tripwire::Armed;

/// Nothing to keep: protected names cannot be created on this system.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Armed;

/// The parameters of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// The workspace's directories.
    pub roots: Vec<PathBuf>,
    /// Additional writable paths from the user's settings; hidden paths in them become visible.
    pub allowed: Vec<PathBuf>,
    /// The user's home, and the program's home if it is a different one.
    pub homes: Vec<PathBuf>,
    /// The user's `.gemini` folder.
    pub gemini_dir: PathBuf,
    /// The system's folder for temporary files.
    pub temp: PathBuf,
    /// Where programs are looked for: a value of `PATH`.
    pub search_path: String,
    pub network: bool,
    /// `None` for the best that works.
    pub level: Option<Level>,
}

/// A level of confinement, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Bubblewrap,
    Landlock,
    Seatbelt,
}

impl Level {
    const ALL: [Self; 3] = [Self::Bubblewrap, Self::Landlock, Self::Seatbelt];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "sandbox-exec",
        }
    }

    /// The level named by a word in settings.
    pub fn named(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "bwrap" | "bubblewrap" => Some(Self::Bubblewrap),
            "landlock" => Some(Self::Landlock),
            "sandbox-exec" | "seatbelt" => Some(Self::Seatbelt),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "Landlock",
            Self::Seatbelt => "Seatbelt",
        })
    }
}

/// The restrictions of a sandbox, for display and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement {
    pub level: Level,
    /// Whether commands reach the network.
    pub network: bool,
    /// Whether commands can send signals to processes outside.
    pub signals_outside: bool,
}

impl Confinement {
    /// The permissions of commands, as the end of a sentence that begins with the level's name.
    pub fn rights(&self) -> String {
        let network = if self.network { "the network is open" } else { "no network" };
        format!("commands can write only the workspace, caches and temporary files; {network}")
    }
}

/// Why no sandbox is available.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("no sandbox works on this machine: {}", reasons(.0))]
    NoneWorks(Vec<(Level, LevelError)>),
}

/// Why one level cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    #[error("`{0}` is not installed")]
    NotInstalled(&'static str),
    #[error("not available on this system")]
    OtherSystem,
    #[error("missing from the kernel or disabled ({0})")]
    NotInKernel(io::Error),
    #[error("kernel support is too old (version {found}, need {needed} or later)")]
    TooOld { found: i64, needed: i64 },
    #[error("could not prepare `{}`: {source}", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error("too many folders next to the ones to hide")]
    TooManyPaths,
    #[error("could not start a trial run: {0}")]
    Start(io::Error),
    #[error("a trial run failed: {0}")]
    Trial(String),
}

/// When to test whether a level works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    Now,
    FirstCommand,
}

fn reasons(tried: &[(Level, LevelError)]) -> String {
    let reasons: Vec<String> = tried.iter().map(|(level, why)| format!("{level}: {why}")).collect();
    reasons.join("; ")
}

/// A working sandbox. Its commands share a folder for temporary files, which is removed when this value is
/// dropped.
#[derive(Debug)]
pub struct Sandbox {
    means: Means,
    network: bool,
    signals_outside: bool,
    starter: LazyStarter,
    #[cfg(target_os = "linux")]
    tripwire: tripwire::Tripwire,
}

/// The thread that starts commands, or the parameters to create it.
#[derive(Debug)]
struct LazyStarter {
    made: OnceLock<Starter>,
    #[cfg(target_os = "linux")]
    places: SandboxPaths,
}

#[derive(Debug)]
enum Means {
    #[cfg(target_os = "linux")]
    Bubblewrap(Box<bubblewrap::Bubblewrap>),
    #[cfg(target_os = "linux")]
    Landlock,
    #[cfg(target_os = "macos")]
    Seatbelt(seatbelt::Seatbelt),
}

/// Variables that lead to agents, daemons and displays outside.
const LEADING_OUT: &[&str] = &[
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "TMUX",
    "WAYLAND_DISPLAY",
    "WSL_INTEROP",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Messages of the system and of common programs when access was denied.
const REFUSALS: &[&str] = &[
    "permission denied",
    "read-only file system",
    "operation not permitted",
    "device or resource busy",
    "eacces",
    "eperm",
    "erofs",
];
const NETWORK_REFUSALS: &[&str] = &[
    "could not resolve",
    "network is unreachable",
    "name resolution",
    "name or service not known",
    "enetunreach",
    "eai_again",
    "unable to resolve",
];

/// How much of a failed command's output is searched for them.
const EXPLAINED_BYTES: usize = 256 << 10;

impl Sandbox {
    /// Finds the best level that works, by trying it. Takes some milliseconds; call it once.
    pub fn open(request: &SandboxRequest) -> Result<Self, SandboxError> {
        Self::best(request, Trial::Now)
    }

    /// The same for runs that may never start a command: for Landlock, kernel support is enough, and the rules
    /// are built for the first command. If that fails, the command fails; it never runs unconfined.
    pub fn open_lazily(request: &SandboxRequest) -> Result<Self, SandboxError> {
        Self::best(request, Trial::FirstCommand)
    }

    fn best(request: &SandboxRequest, trial: Trial) -> Result<Self, SandboxError> {
        let places = SandboxPaths::survey(request)?;
        let wanted = Level::ALL.into_iter().filter(|level| request.level.is_none_or(|only| only == *level));
        let mut tried = Vec::new();
        for level in wanted {
            match Self::at(level, &places, request, trial) {
                Ok(sandbox) => return Ok(sandbox),
                // Levels of other systems are not reported as missing, unless requested.
                Err(LevelError::OtherSystem) if request.level.is_none() => {}
                Err(why) => tried.push((level, why)),
            }
        }
        Err(SandboxError::NoneWorks(tried))
    }

    #[cfg(target_os = "linux")]
    fn at(
        level: Level,
        places: &SandboxPaths,
        request: &SandboxRequest,
        trial: Trial,
    ) -> Result<Self, LevelError> {
        let made = OnceLock::new();
        let (means, signals_outside) = match level {
            Level::Bubblewrap => {
                let bubblewrap = bubblewrap::Bubblewrap::find(places, request)?;
                let restriction = bubblewrap.restriction();
                let signals_outside = !restriction.scopes_signals();
                let starter = Starter::new(move || restriction.enter()).map_err(LevelError::Start)?;
                made.get_or_init(|| starter);
                (Means::Bubblewrap(Box::new(bubblewrap)), signals_outside)
            }
            Level::Landlock => {
                landlock::check(request.network)?;
                (Means::Landlock, !landlock::has_scopes())
            }
            Level::Seatbelt => return Err(LevelError::OtherSystem),
        };
        let starter = LazyStarter { made, places: places.clone() };
        let tripwire = tripwire::Tripwire::new(&places.protected);
        let sandbox = Self { means, network: request.network, signals_outside, starter, tripwire };
        if trial == Trial::Now || level != Level::Landlock {
            sandbox.try_out()?;
        }
        Ok(sandbox)
    }

    #[cfg(not(target_os = "linux"))]
    fn at(
        level: Level,
        places: &SandboxPaths,
        request: &SandboxRequest,
        _: Trial,
    ) -> Result<Self, LevelError> {
        let means = match level {
            #[cfg(target_os = "macos")]
            Level::Seatbelt => Means::Seatbelt(seatbelt::Seatbelt::find(places, request.network)?),
            _ => return Err(LevelError::OtherSystem),
        };
        let made = OnceLock::from(Starter::new(|| Ok(())).map_err(LevelError::Start)?);
        let starter = LazyStarter { made };
        let sandbox = Self { means, network: request.network, signals_outside: true, starter };
        sandbox.try_out()?;
        Ok(sandbox)
    }

    /// The thread that starts commands. Two first commands may both create one; one of them is kept.
    fn starter(&self) -> Result<&Starter, LevelError> {
        #[cfg(target_os = "linux")]
        if self.starter.made.get().is_none() {
            let restriction = landlock::Restriction::full(&self.starter.places, self.network)?;
            let starter = Starter::new(move || restriction.enter()).map_err(LevelError::Start)?;
            return Ok(self.starter.made.get_or_init(|| starter));
        }
        self.starter.made.get().ok_or(LevelError::OtherSystem)
    }

    fn try_out(&self) -> Result<(), LevelError> {
        let environment = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let root = Path::new("/");
        let mut command = self
            .command(OsStr::new("/bin/sh"), &["-c", ":"], root, &environment)
            .map_err(LevelError::Start)?;
        let run = move || command.as_std_mut().stdin(Stdio::null()).output();
        let output = self.starter()?.run(run).map_err(LevelError::Start)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty());
        Err(LevelError::Trial(said.map_or_else(|| output.status.to_string(), str::to_owned)))
    }

    /// Runs `start`, which spawns a command made by [`Sandbox::command`], on a thread with the sandbox's limits.
    /// Keep the second value as long as the command's group.
    pub fn start<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(T, Armed)> {
        let starter = self.starter().map_err(|error| {
            io::Error::other(format!(
                "could not enter the sandbox: {error} (use `--sandbox=false` to run without it)"
            ))
        })?;
        #[cfg(target_os = "linux")]
        let watch = self.tripwire.arm();
        #[cfg(not(target_os = "linux"))]
        let watch = Armed;
        Ok((starter.run(start)?, watch))
    }

    /// Permits a protected name that did not exist: the program itself, not a command, is about to create it.
    pub fn permit(&self, path: &Path) {
        #[cfg(target_os = "linux")]
        self.tripwire.permit(path);
        #[cfg(not(target_os = "linux"))]
        let _ = path;
    }

    /// A notice about protected files that commands created since the last call, and how they were handled.
    pub fn take_notice(&self) -> Option<String> {
        #[cfg(target_os = "linux")]
        {
            let blocked = self.tripwire.take_blocked();
            let told: Vec<String> = blocked.iter().map(|blocked| blocked.to_string()).collect();
            (!told.is_empty()).then(|| format!("Sandbox: {}", told.join("; ")))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    pub fn level(&self) -> Level {
        match self.means {
            #[cfg(target_os = "linux")]
            Means::Bubblewrap(_) => Level::Bubblewrap,
            #[cfg(target_os = "linux")]
            Means::Landlock => Level::Landlock,
            #[cfg(target_os = "macos")]
            Means::Seatbelt(_) => Level::Seatbelt,
        }
    }

    pub fn confinement(&self) -> Confinement {
        let (network, signals_outside) = (self.network, self.signals_outside);
        Confinement { level: self.level(), network, signals_outside }
    }

    /// A line for the model if the output of a failed command may be caused by the sandbox.
    pub fn explanation(&self, output: &str) -> Option<String> {
        // Refusals are near the end, and the output may be long.
        let end = output.get(output.floor_char_boundary(output.len().saturating_sub(EXPLAINED_BYTES))..);
        let output = end.unwrap_or_default().to_ascii_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| output.contains(word));
        if !names(REFUSALS) && (self.network || !names(NETWORK_REFUSALS)) {
            return None;
        }
        let network = if self.network { "" } else { ", without network" };
        let allow_network = if self.network { "" } else { "the network with `tools.sandboxNetworkAccess`, " };
        Some(format!(
            "Sandbox: the command ran in {}: it can write only the workspace, caches and temporary files{network}. \
             If that is why it failed, the user can allow a path with `tools.sandboxAllowedPaths`, \
             {allow_network}or disable the sandbox with `--sandbox=false`.",
            self.level()
        ))
    }

    /// A command that will run inside.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        program: &OsStr,
        arguments: &[A],
        directory: &Path,
        environment: &[(String, String)],
    ) -> io::Result<Command> {
        let mut command = match &self.means {
            #[cfg(target_os = "linux")]
            Means::Bubblewrap(bubblewrap) => {
                must_exist(program, directory, environment)?;
                let mut command = Command::new(bubblewrap.program());
                command.args(bubblewrap.arguments(directory)?).arg("--").arg(program);
                command
            }
            #[cfg(target_os = "linux")]
            Means::Landlock => Command::new(program),
            #[cfg(target_os = "macos")]
            Means::Seatbelt(seatbelt) => {
                must_exist(program, directory, environment)?;
                let mut command = Command::new(seatbelt::PROGRAM);
                command.arg("-p").arg(seatbelt.profile()).arg("--").arg(program);
                command
            }
        };
        command.args(arguments).current_dir(directory).env_clear().envs(self.environment(environment));
        lead_new_session(&mut command);
        Ok(command)
    }

    /// The environment without ways out of the sandbox. `SANDBOX` tells programs that they are in one.
    fn environment(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let leads_out = |name: &str| LEADING_OUT.contains(&name) || name == "SANDBOX";
        let mut kept: Vec<(String, String)> =
            given.iter().filter(|(name, _)| !leads_out(name)).cloned().collect();
        kept.push(("SANDBOX".to_owned(), self.level().as_str().to_owned()));
        #[cfg(target_os = "linux")]
        if let Means::Bubblewrap(_) = self.means {
            // Whatever its path outside, inside it is here.
            kept.retain(|(name, _)| name != "TMPDIR");
            kept.push(("TMPDIR".to_owned(), "/tmp".to_owned()));
        }
        kept
    }
}

/// Reports a missing program before a wrapper is started, which would report it only in its output.
fn must_exist(program: &OsStr, directory: &Path, environment: &[(String, String)]) -> io::Result<()> {
    let path = Path::new(program);
    let exists = if path.components().count() > 1 || path.is_absolute() {
        directory.join(path).exists()
    } else {
        let search = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let search = SearchPath::new(Some(OsStr::new(search.unwrap_or("/usr/bin:/bin"))), &[]);
        program.to_str().is_some_and(|name| search.candidates(name, None).next().is_some())
    };
    if exists { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(test)]
mod tests;
