//! The whole program in a container, as gemini-cli does it, instead of only its commands.
//!
//! Everything that a session starts is inside then, and so are the keys it uses. The engine runs in the foreground with
//! the program's own streams.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use pollux_config::paths::sha256_hex;
use rustix::fs::FlockOperation;

use super::binds::{self, HOME, Visible};
use super::leftovers::{self, LABEL, Owner};
use super::own_program::OwnProgram;
use super::plan::{Bind, LOADER, User, device, empty, mount};
use super::session::{Container, private_folder, user_database};
use super::{ContainerError, Engine};
use crate::new_session::{end_with_parent, keep_standard_streams_only};
use crate::paths::SandboxPaths;
use crate::{LevelError, SandboxError, SandboxRequest};

/// The program to run inside, and what it needs there.
#[derive(Debug, Clone, Default)]
pub struct WholeProgram {
    /// The name under which it was called.
    pub name: String,
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    /// Whether its streams are a terminal.
    pub at_terminal: bool,
    /// Variables that it gets, beyond those of `SANDBOX_ENV`.
    pub variables: Vec<(String, String)>,
    /// Files and folders of its own, their places below the home inside, and whether they can be written.
    pub own_files: Vec<(PathBuf, PathBuf, bool)>,
    /// Files that are there at the same path.
    pub shown: Vec<PathBuf>,
    /// Whether it runs as the user, and not as the image says.
    pub as_user: bool,
}

/// The engine's command that runs the whole program, after engine, image and mounts were checked. Its exit code is the
/// program's, or 125 if the container could not be started.
pub fn whole_program(
    engine: Engine,
    request: &SandboxRequest,
    program: &WholeProgram,
) -> Result<WholeCommand, SandboxError> {
    let places = SandboxPaths::survey(request)?;
    let failed = |error: LevelError| SandboxError::of(crate::Level::Container(engine), error);
    let container = Container::open(engine, &places, request).map_err(failed)?;
    let prepare =
        |error: io::Error| failed(LevelError::Container(ContainerError::Prepare(error.to_string())));
    let own_folder = OwnFolder::create(&container.temp).map_err(prepare)?;
    // What the program leaves there must not meet the next one.
    let home = own_folder.path.join("home");
    DirBuilder::new().mode(0o700).create(&home).map_err(prepare)?;
    let client = container.client.clone();
    std::thread::spawn(move || leftovers::remove(&client));
    let Visible { mut binds, empty } = visible(&container, &places, &home);
    let own = OwnProgram::named(&program.name).map_err(|error| failed(error.into()))?;
    binds.extend(own.binds);
    binds.extend(program.shown.iter().map(|path| Bind {
        source: path.clone(),
        target: path.clone(),
        writable: false,
    }));
    for (source, below, writable) in &program.own_files {
        // Its place is made by us: an engine would leave one that only it can remove.
        mount_point(source, &home.join(below)).map_err(prepare)?;
        binds.push(Bind { source: source.clone(), target: Path::new(HOME).join(below), writable: *writable });
    }
    let user = if program.as_user { Some(container.user) } else { None };
    if let (Engine::Docker, Some(User::Same { user: user @ 1.., group })) = (engine, user) {
        let source = user_database(&own_folder.path, user, group).map_err(prepare)?;
        binds.push(Bind { source, target: "/etc/passwd".into(), writable: false });
    }
    binds.sort_by_key(|bind| bind.target.components().count());
    let variables = program.variables.iter().chain(&container.request.variables);
    let variables = own_folder.write_variables(variables).map_err(|error| failed(error.into()))?;
    let plan =
        WholePlan { container: &container, program, binds, empty, user, variables, command: own.command };
    let mut command = container.client.in_foreground();
    command.args(plan.arguments().map_err(|error| failed(error.into()))?);
    end_with_parent(&mut command);
    keep_standard_streams_only(&mut command);
    Ok(WholeCommand { command, _own_folder: own_folder })
}

/// The engine's command. Its folder is removed when this is dropped.
#[derive(Debug)]
pub struct WholeCommand {
    pub command: Command,
    _own_folder: OwnFolder,
}

/// Locked, so that no other session takes it for one that was left behind.
#[derive(Debug)]
struct OwnFolder {
    path: PathBuf,
    _lock: OwnedFd,
}

impl OwnFolder {
    fn create(temp: &Path) -> io::Result<Self> {
        let path = private_folder(temp, "whole")?;
        let lock = OwnedFd::from(File::open(&path)?);
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Writes variables for the container. On a command line everyone could read them, and in the environment of the
    /// engine they would change the engine.
    fn write_variables<'a>(
        &self,
        variables: impl Iterator<Item = &'a (String, String)>,
    ) -> Result<PathBuf, ContainerError> {
        let mut lines = String::new();
        for (name, value) in variables {
            if value.contains(['\n', '\r']) {
                let why = format!("`{name}` has a value of several lines");
                return Err(ContainerError::Variable { variable: "SANDBOX_ENV", why });
            }
            lines.push_str(&format!("{name}={value}\n"));
        }
        let path = self.path.join("env");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(|error| ContainerError::Prepare(error.to_string()))?;
        Ok(path)
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // What stays is removed by a later session.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What of the workspace appears inside. `/tmp` is the container's own.
fn visible(container: &Container, places: &SandboxPaths, home: &Path) -> Visible {
    let mut visible = binds::visible(places, &container.roots, [home, home], &container.wished);
    visible.binds.retain(|bind| bind.target != Path::new("/tmp"));
    visible
}

/// Makes something to mount a file or a folder at.
fn mount_point(source: &Path, place: &Path) -> io::Result<()> {
    if place.symlink_metadata().is_ok() {
        return Ok(());
    }
    let folder = if source.is_dir() { Some(place) } else { place.parent() };
    folder.map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder))?;
    if !source.is_dir() {
        OpenOptions::new().write(true).create_new(true).open(place)?;
    }
    Ok(())
}

struct WholePlan<'a> {
    container: &'a Container,
    program: &'a WholeProgram,
    binds: Vec<Bind>,
    /// Folders that appear empty.
    empty: Vec<PathBuf>,
    user: Option<User>,
    /// The file with the container's variables.
    variables: PathBuf,
    command: Vec<OsString>,
}

impl WholePlan<'_> {
    /// The container's name, as upstream makes it.
    fn name(&self) -> String {
        let image = self.container.image.name.rsplit('/').next().unwrap_or_default();
        let image: String = image
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '-' })
            .collect();
        let unique = sha256_hex(Owner::current().label().as_bytes());
        format!("{}-{}", image.trim_start_matches(['-', '.', '_']), unique.get(..12).unwrap_or_default())
    }

    fn arguments(&self) -> Result<Vec<OsString>, ContainerError> {
        let Container { client, request, image, network, .. } = self.container;
        let name = self.name();
        let mut all: Vec<OsString> = ["run", "--interactive", "--rm", "--pull=never"].map(Into::into).into();
        if self.program.at_terminal {
            all.push("--tty".into());
        }
        if client.engine == Engine::Docker {
            // Podman needs another program for it, which may be missing.
            all.push("--init".into());
        } else {
            // It would hand over the user's proxy, perhaps with a password.
            all.push("--http-proxy=false".into());
        }
        all.push(format!("--name={name}").into());
        all.push(format!("--hostname={}", name.get(..name.len().min(63)).unwrap_or("pollux")).into());
        all.push(format!("--label={LABEL}={}", Owner::current().label()).into());
        all.extend(self.user.iter().flat_map(|user| user.arguments()));
        let mut directory = OsString::from("--workdir=");
        directory.push(&self.program.directory);
        all.push(directory);
        all.extend(
            ["--entrypoint=", "--cap-drop=ALL", "--security-opt=no-new-privileges"].map(OsString::from),
        );
        all.extend(LOADER.map(OsString::from));
        if Path::new("/sys/fs/selinux/enforce").exists() {
            all.push("--security-opt=label=disable".into());
        }
        if *network {
            all.extend(request.ports.iter().map(|port| format!("--publish=127.0.0.1:{port}:{port}").into()));
        } else {
            all.push("--network=none".into());
        }
        all.extend(["--tmpfs".into(), "/tmp:mode=1777".into(), "--tmpfs".into(), "/run:mode=755".into()]);
        for bind in &self.binds {
            all.extend(["--mount".into(), mount(bind)?]);
        }
        for folder in &self.empty {
            all.extend(["--mount".into(), empty(folder)?]);
        }
        all.extend(self.container.devices.iter().map(|path| device(path)));
        all.extend([format!("--env=SANDBOX={name}").into(), format!("--env=HOME={HOME}").into()]);
        let mut variables = OsString::from("--env-file=");
        variables.push(&self.variables);
        all.push(variables);
        all.extend(request.flags.iter().map(OsString::from));
        all.push(image.name.clone().into());
        all.extend(self.command.iter().chain(&self.program.arguments).cloned());
        Ok(all)
    }
}
