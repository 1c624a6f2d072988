//! Sandboxes for the commands that tools start.
//!
//! Each command is confined; the program itself is not. There are several levels: Pollux's own namespaces, bubblewrap
//! and Landlock (Linux), and Seatbelt (macOS). They differ in what they can block; see `docs/src/sandbox.md`. On
//! Linux, a small process per session, the [`holder`], sets the confinement up once and starts the commands.
//! [`Sandbox::open`] finds the best level that works; [`Trial`] says how much of that is left to the first command.
//!
//! Owns: the levels, what may be written, hidden or protected, and the processes that hold a session's commands.
//! Does not own: output, time limits and background commands (`exec`), or whether a command may run (`policy`).

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod connections;
pub mod container;
mod devices;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod family;
#[cfg(target_os = "linux")]
pub mod holder;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod levels;
#[cfg(target_os = "linux")]
mod mounts;
pub mod new_session;
#[cfg(target_os = "linux")]
mod own_program;
mod paths;
#[cfg(target_os = "linux")]
mod placeholders;
mod pointer;
pub mod process_table;
#[cfg(target_os = "linux")]
mod renewal;
mod report;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
#[cfg(not(target_os = "linux"))]
mod seatbelt_level;
pub mod signal_actions;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(target_os = "linux")]
mod trials;
mod tripped;
#[cfg(target_os = "linux")]
mod wire;

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use container::{ContainerError, ContainerRequest, Engine};
use paths::SandboxPaths;

#[cfg(target_os = "linux")]
pub use connections::program_of;
pub use devices::device_problem;
#[cfg(target_os = "linux")]
pub use keeper::Armed;
#[cfg(target_os = "linux")]
pub use levels::{Guard, Sandbox};
pub use paths::{RootError, START_UP_FILES, caches_of_commands};
pub use report::{Holding, Right};
#[cfg(not(target_os = "linux"))]
pub use seatbelt_level::{Armed, Sandbox, program_of};
pub use tripped::{TripAction, Tripped, notice, undone};

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
    /// The search path for programs, as in `PATH`.
    pub search_path: String,
    /// Whether commands reach the network directly.
    pub network: bool,
    /// `None` for the best that works.
    pub level: Option<Level>,
    /// Rights beyond the usual ones.
    pub grants: Grants,
    /// For the levels that are containers.
    pub container: Option<Arc<ContainerRequest>>,
}

/// Rights that were granted, and ways out of an own network.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// Places that become readable although they are hidden or covered, sockets among them.
    pub visible: Vec<PathBuf>,
    /// Hidden files with copies to be seen in their place, where the level can do that.
    pub replaced: Vec<(PathBuf, PathBuf)>,
    /// Files that can be read, with others to be seen in their place, where the level has a view of its own.
    pub overlaid: Vec<(PathBuf, PathBuf)>,
    /// More places that commands must not see. A workspace in one of them is seen, but nothing around it.
    pub hidden: Vec<PathBuf>,
    /// Devices beyond those that every program has, as the user names them.
    pub devices: Vec<PathBuf>,
    /// Protected files that may be written.
    pub unprotected: Vec<PathBuf>,
    /// Nothing of the workspace and the caches may be written.
    pub read_only: bool,
    /// Homes are empty except for the workspace, caches and toolchains.
    pub bare_home: bool,
    /// Ports of the commands' own loopback that lead out. Without an own network they have no effect.
    pub doors: Option<Doors>,
}

/// Gets the ports with their listeners from each holder that opens some.
pub type OpenDoors = Arc<dyn Fn(Vec<(u16, TcpListener)>) + Send + Sync>;

/// Ports on the commands' own loopback whose connections this program accepts.
///
/// A holder listens on them inside its network and hands the listeners over: a socket stays in the network that it was
/// made in, so accepting on it needs no process inside.
#[derive(Clone)]
pub struct Doors {
    pub ports: Vec<u16>,
    pub open: OpenDoors,
    /// Variables that tell commands about them.
    pub variables: Vec<(String, String)>,
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doors").field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// How the sandbox treats a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAccess {
    /// Can be written.
    Writable,
    /// Can be read.
    ReadOnly,
    /// Inside a writable folder, and cannot be changed.
    Protected,
    /// Cannot be seen.
    Hidden,
    /// A container shows its own instead of this machine's.
    Elsewhere,
}

/// A level of confinement, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Namespaces that this program creates itself.
    Namespaces,
    Bubblewrap,
    Landlock,
    Seatbelt,
    /// A container of an engine that the user names.
    Container(Engine),
}

impl Level {
    /// Those that are tried if none is named.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock, Self::Seatbelt];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "sandbox-exec",
            Self::Container(engine) => engine.as_str(),
        }
    }

    /// Whether it is used without a request: everyday programs do not notice it.
    pub fn is_default(self) -> bool {
        matches!(self, Self::Namespaces | Self::Bubblewrap)
    }

    /// The level named by a word in settings.
    pub fn named(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "namespaces" => Some(Self::Namespaces),
            "bwrap" | "bubblewrap" => Some(Self::Bubblewrap),
            "landlock" => Some(Self::Landlock),
            "sandbox-exec" | "seatbelt" => Some(Self::Seatbelt),
            other => Engine::named(other).map(Self::Container),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "Landlock",
            Self::Seatbelt => "Seatbelt",
            Self::Container(Engine::Docker) => "docker container",
            Self::Container(Engine::Podman) => "podman container",
        })
    }
}

/// The restrictions of a sandbox, for display and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement {
    pub level: Level,
    /// Whether commands can reach the network directly.
    pub network: bool,
    /// Whether commands reach it through a proxy that decides about each host.
    pub proxied: bool,
    /// Whether commands can send signals to processes outside.
    pub signals_outside: bool,
    /// Whether commands can reach abstract sockets.
    pub abstract_sockets: bool,
    /// Whether commands can reach sockets that other programs create while they run.
    pub late_sockets: bool,
    /// Whether the user gave commands devices.
    pub given_devices: bool,
}

impl Confinement {
    /// The permissions of commands, as the end of a sentence that begins with the level's name.
    pub fn rights(&self) -> String {
        let network = match (self.network, self.proxied) {
            (true, _) => "the network is open",
            (false, true) => "the network only through a proxy",
            (false, false) => "no network",
        };
        match self.level {
            Level::Container(_) => {
                format!(
                    "commands see only the workspace and the image, and write to the workspace; {network}"
                )
            }
            Level::Namespaces | Level::Bubblewrap | Level::Landlock | Level::Seatbelt => {
                format!("commands can write only to the workspace, caches and temporary files; {network}")
            }
        }
    }
}

/// Why no sandbox is available.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("no sandbox works on this machine: {}", reasons(.0))]
    NoneWorks(Vec<(Level, LevelError)>),
    #[error(transparent)]
    Container(#[from] ContainerError),
}

impl SandboxError {
    /// The failure of one level.
    fn of(level: Level, error: LevelError) -> Self {
        match error {
            LevelError::Container(error) => Self::Container(error),
            error => Self::NoneWorks(vec![(level, error)]),
        }
    }
}

/// Why one level cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    #[error("`{0}` not found in `PATH`")]
    NotInstalled(&'static str),
    #[error("not available on this system")]
    OtherSystem,
    #[error("missing from the kernel or disabled ({0})")]
    NotInKernel(io::Error),
    #[error("kernel support is too old (version {found}, need {needed} or later)")]
    TooOld { found: i64, needed: i64 },
    #[error("could not prepare `{}`: {source}", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error("too many folders next to hidden ones")]
    TooManyPaths,
    #[error("could not start a trial run: {0}")]
    Start(io::Error),
    #[error("a trial run failed: {0}")]
    Trial(String),
    #[error(transparent)]
    Container(#[from] ContainerError),
}

/// A level, and its restrictions or why it cannot be used.
pub type Probed = (Level, Result<Confinement, LevelError>);

/// When to test whether a level works. Where it is not tested, the first command opens the sandbox; if that fails, the
/// command fails, and never runs unconfined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    Now,
    /// Now, unless it worked before under the same conditions.
    UnlessKnown,
    /// The same, and for Landlock kernel support is enough.
    FirstCommand,
}

fn reasons(tried: &[(Level, LevelError)]) -> String {
    let reasons: Vec<String> = tried.iter().map(|(level, why)| format!("{level}: {why}")).collect();
    reasons.join("; ")
}

/// Variables that lead to agents, daemons and displays outside.
const LEADING_OUT: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "GPG_AGENT_INFO",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "TMUX",
    "WAYLAND_DISPLAY",
    "WSL_INTEROP",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "ALACRITTY_SOCKET",
    "BASH_ENV",
    "ENV",
    "GIT_ASKPASS",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "I3SOCK",
    "KUBECONFIG",
    "KITTY_LISTEN_ON",
    "KRB5CCNAME",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NVIM",
    "PROMPT_COMMAND",
    "PULSE_SERVER",
    "SSH_ASKPASS",
    "STY",
    "SWAYSOCK",
    "WEZTERM_UNIX_SOCKET",
    "ZDOTDIR",
];
const LEADING_OUT_PREFIXES: &[&str] = &["CONTAINER_", "CURSOR_", "DOCKER_", "PODMAN_", "VSCODE_"];

/// Variables that a sandbox sets.
const OWN_VARIABLES: &[&str] = &["SANDBOX", "POLLUX_SANDBOX_NETWORK"];

/// Messages of the system and of common programs when access was denied.
const REFUSALS: &[&str] = &[
    "permission denied",
    "read-only file system",
    "operation not permitted",
    "device or resource busy",
    "eacces",
    "ebusy",
    "eperm",
    "erofs",
];
/// A granted file is a mount point, which cannot be moved.
const MOUNT_POINT: &[&str] = &["device or resource busy", "ebusy"];
const NETWORK_REFUSALS: &[&str] = &[
    "could not resolve",
    "network is unreachable",
    "name resolution",
    "name or service not known",
    "enetunreach",
    "eai_again",
    "unable to resolve",
];

/// How much of a failed command's output is searched for these messages.
const EXPLAINED_BYTES: usize = 256 << 10;

/// Code that differs between systems is in their own modules.
impl Sandbox {
    /// Finds the best level that works, by trying it. Takes some milliseconds; call it once.
    pub fn open(request: &SandboxRequest) -> Result<Self, SandboxError> {
        Self::open_at(request, Trial::Now)
    }

    /// Finds the best level that works, or can be expected to work.
    pub fn open_at(request: &SandboxRequest, trial: Trial) -> Result<Self, SandboxError> {
        let places = SandboxPaths::survey(request)?;
        if let Some(level @ Level::Container(_)) = request.level {
            return Self::at(level, &places, request, trial).map_err(|error| SandboxError::of(level, error));
        }
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

    /// Tries every level of this system, best first.
    pub fn probe(request: &SandboxRequest) -> Result<Vec<Probed>, RootError> {
        let places = SandboxPaths::survey(request)?;
        // An engine is asked only if it is named.
        let named = request.level.filter(|level| matches!(level, Level::Container(_)));
        let tried = named.into_iter().chain(Level::ALL).map(|level| {
            (level, Self::at(level, &places, request, Trial::Now).map(|sandbox| sandbox.confinement()))
        });
        Ok(tried.filter(|(_, result)| !matches!(result, Err(LevelError::OtherSystem))).collect())
    }

    /// A note for the model if the sandbox may have caused a command to fail.
    pub fn explanation(&self, output: &str) -> Option<String> {
        // Refusals are near the end, and the output may be long.
        let end = output.get(output.floor_char_boundary(output.len().saturating_sub(EXPLAINED_BYTES))..);
        let output = end.unwrap_or_default().to_ascii_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| output.contains(word));
        let Confinement { network: is_open, proxied, .. } = self.confinement();
        if !names(REFUSALS) && (is_open || !names(NETWORK_REFUSALS)) {
            return None;
        }
        let (network, allow_network) = match (is_open, proxied) {
            (true, _) => ("", ""),
            (false, true) => (
                ", and reaches the network only through the proxy of its proxy variables",
                "a host with `--sandbox-allow host:NAME`, ",
            ),
            (false, false) => (", without network", "the network with `tools.sandboxNetworkAccess`, "),
        };
        let single_file = if names(MOUNT_POINT) {
            " A single file that was allowed can be written, but not renamed, replaced or removed: write it in place, \
             or ask the user to allow its folder."
        } else {
            ""
        };
        Some(format!(
            "Sandbox: the command ran in {}: it can write only to the workspace, caches and temporary files{network}.\
             {single_file} \
             If that is why it failed, the user can allow a path with `tools.sandboxAllowedPaths`, \
             {allow_network}or disable the sandbox with `--sandbox=false`.",
            self.level()
        ))
    }

    /// A line for the model about protected files that commands created or changed since the last call.
    pub fn take_notice(&self) -> Option<String> {
        notice(&self.take_tripped())
    }

    /// The environment without variables that lead out of the sandbox. `SANDBOX` tells programs that they are in one.
    fn environment(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let is_kept = |(name, value): &&(String, String)| {
            // The socket of an agent that was granted has to be found.
            !leads_out(name) || (name == "SSH_AUTH_SOCK" && self.is_granted(value))
        };
        let mut kept: Vec<(String, String)> = self
            .container_environment(given)
            .unwrap_or_else(|| given.iter().filter(is_kept).cloned().collect());
        let mut set = |name: &str, value: &str| {
            kept.retain(|(known, _)| known != name);
            kept.push((name.to_owned(), value.to_owned()));
        };
        set("SANDBOX", self.level().as_str());
        let Confinement { network, proxied, .. } = self.confinement();
        let network = if network {
            "open"
        } else if proxied {
            "proxy"
        } else {
            "none"
        };
        set("POLLUX_SANDBOX_NETWORK", network);
        for (name, value) in self.door_variables() {
            set(name, value);
        }
        if matches!(self.level(), Level::Namespaces | Level::Bubblewrap | Level::Container(_)) {
            // Inside the sandbox, it is always at this path.
            set("TMPDIR", "/tmp");
        }
        kept
    }
}

/// Runs a session's holder if this process was started as one; call it first in `main`, while there is one thread.
/// Returns the exit code.
pub fn run_holder_if_asked(arguments: &mut dyn Iterator<Item = std::ffi::OsString>) -> Option<u8> {
    #[cfg(target_os = "linux")]
    return holder::run_if_asked(arguments);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = arguments;
        None
    }
}

/// For tests: sandboxes that this thread opens use no later version of Landlock than this one.
#[doc(hidden)]
#[cfg(all(debug_assertions, target_os = "linux"))]
pub fn pretend_landlock(abi: Option<i64>) {
    landlock::pretend(abi);
}

fn leads_out(name: &str) -> bool {
    LEADING_OUT.contains(&name)
        || OWN_VARIABLES.contains(&name)
        || LEADING_OUT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
