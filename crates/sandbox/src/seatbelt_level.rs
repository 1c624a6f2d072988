//! The level on macOS, and no level elsewhere.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths::SandboxPaths;
#[cfg(target_os = "macos")]
use crate::seatbelt::{self, Seatbelt};
use crate::{Confinement, Level, LevelError, PathAccess, SandboxError, SandboxRequest, Trial, Tripped};

/// A working sandbox.
#[derive(Debug)]
pub struct Sandbox {
    #[cfg(target_os = "macos")]
    seatbelt: Seatbelt,
    network: bool,
    open: Vec<PathBuf>,
}

/// Nothing to keep: protected names cannot be created on this system.
#[derive(Debug)]
pub struct Armed;

impl Sandbox {
    #[cfg(target_os = "macos")]
    pub(crate) fn at(
        level: Level,
        places: &SandboxPaths,
        request: &SandboxRequest,
        _: Trial,
    ) -> Result<Self, LevelError> {
        if level != Level::Seatbelt {
            return Err(LevelError::OtherSystem);
        }
        let seatbelt = Seatbelt::find(places, request.network)?;
        let sandbox = Self { seatbelt, network: request.network, open: places.open_to_commands() };
        let mut trial =
            sandbox.command(OsStr::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(":")], Path::new("/"), &[]);
        let output = trial.output().map_err(LevelError::Start)?;
        if output.status.success() {
            return Ok(sandbox);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty());
        Err(LevelError::Trial(said.map_or_else(|| output.status.to_string(), str::to_owned)))
    }

    #[cfg(not(target_os = "macos"))]
    pub(crate) fn at(_: Level, _: &SandboxPaths, _: &SandboxRequest, _: Trial) -> Result<Self, LevelError> {
        Err(LevelError::OtherSystem)
    }

    /// A command to run inside.
    pub fn command(
        &self,
        program: &OsStr,
        arguments: &[&OsStr],
        directory: &Path,
        environment: &[(String, String)],
    ) -> Command {
        #[cfg(target_os = "macos")]
        let mut command = {
            let mut command = Command::new(seatbelt::PROGRAM);
            command.arg("-p").arg(self.seatbelt.profile()).arg("--").arg(program);
            command
        };
        #[cfg(not(target_os = "macos"))]
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).env_clear().envs(self.environment(environment));
        command
    }

    /// This program as commands see it: not needed here.
    pub fn own_program(&self) -> Option<PathBuf> {
        None
    }

    /// Whether a variable names a path that was granted: unknown here.
    pub(crate) fn is_granted(&self, _: &str) -> bool {
        false
    }

    /// The number of commands that run: unknown here.
    pub fn running(&self) -> usize {
        0
    }

    /// Permits a protected name that did not exist: nothing to do here.
    pub fn permit(&self, _: &Path) {}

    /// Protected files that commands created or changed: they cannot do either here.
    pub fn take_tripped(&self) -> Vec<Tripped> {
        Vec::new()
    }

    pub fn level(&self) -> Level {
        Level::Seatbelt
    }

    /// Nothing is started beforehand on this system.
    pub fn enter(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    /// No containers on this system.
    pub(crate) fn container_environment(&self, _: &[(String, String)]) -> Option<Vec<(String, String)>> {
        None
    }

    pub(crate) fn door_variables(&self) -> &[(String, String)] {
        &[]
    }

    /// The places in which commands can write.
    pub fn open_to_commands(&self) -> Vec<PathBuf> {
        self.open.clone()
    }

    /// How the sandbox treats a real path: unknown here.
    pub fn access_to(&self, _: &Path) -> PathAccess {
        PathAccess::ReadOnly
    }

    /// The same, and the place that decides: unknown here.
    pub fn explain(&self, path: &Path) -> (PathAccess, Option<PathBuf>) {
        (self.access_to(path), None)
    }

    /// Another set of rights: not on this system.
    pub fn with_rights(&self, _: &SandboxRequest) -> Result<Self, SandboxError> {
        Err(SandboxError::NoneWorks(vec![(self.level(), LevelError::OtherSystem)]))
    }

    /// Every path is this machine's here.
    pub fn is_replaced(&self, _: &Path) -> bool {
        false
    }

    /// The sandbox of another mode: a new one on this system.
    pub fn for_mode(&self, _: &SandboxRequest) -> Result<Self, SandboxError> {
        Err(SandboxError::NoneWorks(vec![(self.level(), LevelError::OtherSystem)]))
    }

    /// Commands have no network of their own here.
    pub fn listening(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Nothing leads out here.
    pub fn forget_port(&self, _: u16) {}

    /// Commands have no network of their own here.
    pub fn client(&self, _: u16, _: u16) -> Option<i32> {
        None
    }

    /// Nothing leads out here.
    pub fn lets_through(&self, _: u16, _: u16) -> bool {
        false
    }

    /// Processes cannot be told apart here.
    pub fn is_of_these_rights(&self, _: i32) -> bool {
        false
    }

    pub fn confinement(&self) -> Confinement {
        Confinement {
            level: self.level(),
            network: self.network,
            proxied: false,
            signals_outside: true,
            abstract_sockets: false,
            late_sockets: false,
            given_devices: false,
        }
    }
}

/// The name of the program that a process runs: unknown here.
pub fn program_of(_: i32) -> Option<String> {
    None
}
