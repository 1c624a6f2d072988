//! Containers of docker and podman as a level: commands run inside, Pollux stays outside.
//!
//! The engine starts one container per session and set of rights, at the first command. Its first process is this
//! program again, as a [`crate::holder`]: it connects to a socket that only the container and its owner see, and gets
//! commands with their streams as descriptors. So everything else is the same as at other levels: one loopback, the
//! proxy's listeners, the system call filter, the end of everything when the socket closes.
//!
//! Use it if the user names an engine. It never pulls an image, and reads nothing of a project that is not trusted:
//! that is up to the caller that fills in the [`ContainerRequest`].

#[cfg(target_os = "linux")]
mod binds;
#[cfg(target_os = "linux")]
mod engine;
mod error;
#[cfg(target_os = "linux")]
mod image;
#[cfg(target_os = "linux")]
mod leftovers;
mod offline;
#[cfg(target_os = "linux")]
mod own_program;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod session;
mod values;
#[cfg(target_os = "linux")]
mod whole;

use std::fmt;
use std::path::PathBuf;

pub use error::ContainerError;
#[cfg(target_os = "linux")]
pub(crate) use session::Container;
pub use values::{parse_ports, parse_variables, split_flags};
#[cfg(target_os = "linux")]
pub use whole::{WholeCommand, WholeProgram, whole_program};

/// A program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Docker,
    Podman,
}

impl Engine {
    /// The program's name, which settings use too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        match word {
            "docker" => Some(Self::Docker),
            "podman" => Some(Self::Podman),
            _ => None,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// By name; it must be on this machine.
    Named(String),
    /// Built from a file of the project, with its folder as the context.
    Built(Dockerfile),
}

/// A trusted project's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dockerfile {
    /// The project's folder; the file is `.gemini/sandbox.Dockerfile` in it.
    pub root: PathBuf,
    /// Build it even if it was built before.
    pub rebuild: bool,
    /// Whether the build may use the network.
    pub network: bool,
}

/// What the user wants of a container. All of it comes from the user's own settings and environment, except for a
/// Dockerfile of a trusted project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerRequest {
    pub image: Option<ImageSource>,
    /// A file to load the image from if the engine does not have it.
    pub archive: Option<PathBuf>,
    /// The value of `SANDBOX_MOUNTS`: `from[:to[:ro|rw]]`, separated by commas.
    pub mounts: String,
    /// Variables for commands, by the user's own list.
    pub variables: Vec<(String, String)>,
    /// Ports to publish on this machine's loopback, if the network is open.
    pub ports: Vec<u16>,
    /// More arguments for the engine.
    pub flags: Vec<String>,
    /// The folder that commands see as their home.
    pub home: PathBuf,
    /// The engine's own environment.
    pub environment: Vec<(String, String)>,
}

impl ContainerRequest {
    /// Whether the first command or the start has to wait for an image to be built.
    #[cfg(target_os = "linux")]
    pub fn needs_build(&self, engine: Engine, search_path: &str) -> bool {
        let Some(ImageSource::Built(file)) = &self.image else { return false };
        let Ok(program) = engine::find(engine, search_path, std::slice::from_ref(&file.root)) else {
            return false;
        };
        let engine = engine::Client { engine, program, environment: self.environment.clone() };
        file.rebuild || file.tag().is_ok_and(|tag| engine.image_variables(&tag).is_err())
    }

    #[cfg(not(target_os = "linux"))]
    pub fn needs_build(&self, _: Engine, _: &str) -> bool {
        false
    }
}

/// There is none on this system.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct WholeCommand {
    pub command: std::process::Command,
}
