//! A container of a session: checked when the session begins, started with the first command.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pollux_config::paths::sha256_hex;
use rustix::net::sockopt::socket_peercred;

use super::binds::{self, HOME, OWN, Visible};
use super::engine::{self, Client};
use super::image::{self, Image};
use super::leftovers::{self, LABEL, Owner};
use super::own_program::OwnProgram;
use super::plan::{Bind, Plan, User};
use super::{ContainerError, ContainerRequest, Engine};
use crate::holder::setup::{Expected, Setup};
use crate::holder::{ARGUMENT, Holder};
use crate::identity::Identity;
use crate::mounts::{Mount, Placed};
use crate::new_session::keep_standard_streams_only;
use crate::paths::SandboxPaths;
use crate::{LevelError, SandboxRequest};

/// How long a container may take to start; a busy machine needs more than ten seconds.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The keeper's prefix: what a killed process leaves is removed by a later session.
const PREFIX: &str = "pollux-sandbox-";
const SOCKET: &str = "holder.sock";
const SAID: &str = "said";
/// What an image's own user database cannot know.
const PASSWD: &str = "passwd";

/// Variables of the user's that commands get. Others are only handed over by name.
const TAKEN: &[&str] = &[
    "CI",
    "COLORTERM",
    "GCM_INTERACTIVE",
    "GEMINI_CLI",
    "GH_PROMPT_DISABLED",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PAGER",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "NO_COLOR",
    "PAGER",
    "TERM",
    "TZ",
];
const TAKEN_PREFIXES: &[&str] = &["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "LC_"];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A container that can be started.
#[derive(Debug)]
pub(crate) struct Container {
    pub(super) client: Client,
    pub(super) request: Arc<ContainerRequest>,
    pub(super) image: Image,
    pub(super) roots: Vec<PathBuf>,
    pub(super) wished: Vec<Bind>,
    pub(super) network: bool,
    pub(super) user: User,
    pub(super) temp: PathBuf,
    pub(super) devices: Vec<PathBuf>,
}

impl Container {
    /// Checks engine, image and mounts.
    pub(crate) fn open(
        engine: Engine,
        places: &SandboxPaths,
        request: &SandboxRequest,
    ) -> Result<Self, LevelError> {
        let wish = request.container.clone().unwrap_or_default();
        if wish.image.is_none() {
            return Err(ContainerError::NoImage.into());
        }
        refuse_remote(&wish)?;
        let roots: Vec<PathBuf> =
            request.roots.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
        let wished = binds::wished(&wish.mounts, places, &roots, &request.gemini_dir)?;
        let open: Vec<PathBuf> =
            places.writable.iter().chain(&places.temp).chain(&places.homes).cloned().collect();
        let program = engine::find(engine, &request.search_path, &open)?;
        let client = Client { engine, program, environment: wish.environment.clone() };
        let image = image::provide(&client, &wish)?;
        let user = user(&client);
        let temp = places.temp.first().cloned().unwrap_or_else(|| "/tmp".into());
        let network = request.network;
        let devices = places.devices.clone();
        Ok(Self { client, request: wish, image, roots, wished, network, user, temp, devices })
    }

    pub(crate) fn engine(&self) -> Engine {
        self.client.engine
    }

    /// What appears inside now; `scratch` is its `/tmp`.
    pub(crate) fn visible(&self, places: &SandboxPaths, scratch: &Path) -> Visible {
        binds::visible(places, &self.roots, [scratch, &self.request.home], &self.wished)
    }

    /// The same as a list that shows whether something has changed.
    pub(crate) fn placed(&self, places: &SandboxPaths, scratch: &Path) -> Vec<Placed> {
        let Visible { binds, empty } = self.visible(places, scratch);
        let bound = binds.into_iter().map(|bind| {
            let mount = if bind.writable { Mount::Writable } else { Mount::ReadOnly };
            Placed::new(bind.target, mount)
        });
        bound.chain(empty.into_iter().map(|path| Placed::new(path, Mount::Empty))).collect()
    }

    /// The places of this machine that the user's own mounts let commands write.
    pub(crate) fn writable_mounts(&self) -> impl Iterator<Item = &Path> {
        self.wished.iter().filter(|bind| bind.writable).map(|bind| bind.source.as_path())
    }

    /// Whether a path of this machine is inside.
    pub(crate) fn shows(&self, path: &Path, places: &SandboxPaths) -> bool {
        let wished = self.wished.iter().map(|bind| &bind.target);
        let mut shown = self.roots.iter().chain(&places.writable).chain(&places.visible).chain(wished);
        shown.any(|seen| path.starts_with(seen))
    }

    /// The environment of a command: the image's, some of the user's, and what the user names.
    pub(crate) fn environment(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = vec![("PATH".to_owned(), DEFAULT_PATH.to_owned())];
        let is_taken = |name: &str| {
            TAKEN.contains(&name) || TAKEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        let home = [("HOME".to_owned(), HOME.to_owned())];
        let taken = given.iter().filter(|(name, _)| is_taken(name));
        for (name, value) in
            self.image.variables.iter().chain(taken).chain(&home).chain(&self.request.variables)
        {
            all.retain(|(known, _)| known != name);
            all.push((name.clone(), value.clone()));
        }
        all
    }

    /// Starts it and waits for the holder inside.
    pub(crate) fn start(
        &self,
        visible: &Visible,
        setup: impl FnOnce(Vec<Expected>) -> Setup,
    ) -> Result<(Holder, Vec<TcpListener>), LevelError> {
        let control = Control::create(&self.temp).map_err(prepare)?;
        create_home(&self.request.home).map_err(prepare)?;
        Self::create_mount_points(visible).map_err(prepare)?;
        let client = self.client.clone();
        // Off the way of the first command.
        std::thread::spawn(move || leftovers::remove(&client));
        let arguments = self.plan(visible, &control)?.arguments()?;
        // From here on, whatever takes the place of something is noticed.
        let expected = expected(visible).map_err(prepare)?;
        let mut command = self.client.command();
        let said = control.said().map_err(prepare)?;
        command.args(arguments).stdout(Stdio::null()).stderr(said);
        keep_standard_streams_only(&mut command);
        let mut process = command.spawn().map_err(LevelError::Start)?;
        match control.accept(&mut process) {
            Ok(socket) => Holder::adopt(process, socket, &setup(expected)),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(self.why(&control, &error).into())
            }
        }
    }

    /// What is mounted inside the folder for temporary files gets its place there by us: an engine would leave places
    /// that only it can remove.
    fn create_mount_points(visible: &Visible) -> io::Result<()> {
        let scratch = visible.binds.iter().find(|bind| bind.target == Path::new("/tmp"));
        let Some(scratch) = scratch.map(|bind| &bind.source) else { return Ok(()) };
        for bind in &visible.binds {
            let Ok(below) = bind.target.strip_prefix("/tmp") else { continue };
            let place = scratch.join(below);
            if below.as_os_str().is_empty() || place.symlink_metadata().is_ok() {
                continue;
            }
            if bind.source.is_dir() {
                fs::create_dir_all(place)?;
            } else {
                place.parent().map_or(Ok(()), fs::create_dir_all)?;
                OpenOptions::new().write(true).create_new(true).open(place)?;
            }
        }
        Ok(())
    }

    fn why(&self, control: &Control, error: &io::Error) -> ContainerError {
        let said = control.read_said();
        if said.trim().is_empty() {
            return ContainerError::Start { engine: self.engine(), said: error.to_string() };
        }
        self.client.classify(&said, Some(&self.image.name))
    }

    fn plan(&self, visible: &Visible, control: &Control) -> Result<Plan, ContainerError> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let own = OwnProgram::current()?;
        let owner = Owner::current().label();
        let count = STARTED.fetch_add(1, Ordering::Relaxed);
        let unique = sha256_hex(format!("{owner} {count} {}", control.folder.display()).as_bytes());
        let inside = |name: &str| Path::new(OWN).join(name);
        let mut binds = visible.binds.clone();
        binds.extend(own.binds);
        let folder = Bind { source: control.folder.clone(), target: inside("control"), writable: false };
        binds.push(folder);
        if let (Engine::Docker, User::Same { user: user @ 1.., group }) = (self.engine(), self.user) {
            let source = user_database(&control.folder, user, group).map_err(|error| {
                ContainerError::Prepare(format!("could not write a user database: {error}"))
            })?;
            binds.push(Bind { source, target: "/etc/passwd".into(), writable: false });
        }
        let mut command = own.command;
        command.extend([OsString::from(ARGUMENT), inside("control").join(SOCKET).into()]);
        Ok(Plan {
            engine: self.engine(),
            name: format!("pollux-{}", unique.get(..12).unwrap_or_default()),
            labels: vec![(LABEL, owner)],
            user: self.user,
            network: self.network,
            binds,
            empty: visible.empty.clone(),
            devices: self.devices.clone(),
            ports: self.request.ports.clone(),
            labels_files: Path::new("/sys/fs/selinux/enforce").exists(),
            flags: self.request.flags.clone(),
            image: self.image.name.clone(),
            command,
        })
    }
}

fn prepare(error: io::Error) -> LevelError {
    ContainerError::Prepare(error.to_string()).into()
}

/// Folders of this machine cannot be mounted by an engine elsewhere.
fn refuse_remote(wish: &ContainerRequest) -> Result<(), ContainerError> {
    for variable in ["DOCKER_HOST", "CONTAINER_HOST"] {
        let given = wish.environment.iter().find(|(name, _)| name == variable);
        if let Some((_, value)) =
            given.filter(|(_, value)| !value.is_empty() && !value.starts_with("unix://"))
        {
            return Err(ContainerError::Remote { variable, value: value.clone() });
        }
    }
    Ok(())
}

fn user(client: &Client) -> User {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match client.engine {
        Engine::Podman if user != 0 => User::KeptId { user, group },
        Engine::Docker if user != 0 && client.maps_root() => User::MappedRoot,
        Engine::Docker | Engine::Podman => User::Same { user, group },
    }
}

/// The identities that mounts must have inside: between a check and a mount, a folder may be replaced.
fn expected(visible: &Visible) -> io::Result<Vec<Expected>> {
    let own = visible.binds.iter().filter(|bind| bind.source != Path::new("/dev/null"));
    own.map(|bind| {
        let meta = bind.source.symlink_metadata()?;
        if meta.is_symlink() {
            return Err(io::Error::other(format!("`{}` was replaced by a link", bind.source.display())));
        }
        Ok(Expected { path: bind.target.clone(), identity: Identity::from(&meta) })
    })
    .collect()
}

/// Creates the folder that commands see as their home.
fn create_home(home: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let meta = home.symlink_metadata()?;
    let is_own = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    if is_own { Ok(()) } else { Err(io::Error::other(format!("`{}` is not your folder", home.display()))) }
}

/// Without a line for its user, programs in an image do not know who they are.
pub(super) fn user_database(folder: &Path, user: u32, group: u32) -> io::Result<PathBuf> {
    let path = folder.join(PASSWD);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
    writeln!(file, "root:x:0:0:root:/root:/bin/sh")?;
    writeln!(file, "pollux:x:{user}:{group}:pollux:{HOME}:/bin/sh")?;
    writeln!(file, "nobody:x:65534:65534:nobody:/:/bin/false")?;
    Ok(path)
}

/// A new folder that only this user can enter. If its owner is killed, a later session removes it.
pub(super) fn private_folder(temp: &Path, purpose: &str) -> io::Result<PathBuf> {
    static CREATED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let folder = temp.join(format!("{PREFIX}{}-{purpose}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(error) => return Err(error),
        }
    }
}

/// The folder through which a container and this program meet. Removed when they have.
#[derive(Debug)]
struct Control {
    folder: PathBuf,
    listener: UnixListener,
}

impl Control {
    fn create(temp: &Path) -> io::Result<Self> {
        let folder = private_folder(temp, "control")?;
        let listener = UnixListener::bind(folder.join(SOCKET))?;
        listener.set_nonblocking(true)?;
        Ok(Self { folder, listener })
    }

    /// A file for the engine's complaints: a pipe that nobody reads would stop it.
    fn said(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.folder.join(SAID))
    }

    fn read_said(&self) -> String {
        let mut bytes = Vec::new();
        let file = File::open(self.folder.join(SAID));
        let _ = file.and_then(|file| file.take(64 << 10).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for the holder, as long as the engine runs.
    fn accept(&self, engine: &mut Child) -> io::Result<UnixStream> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    let own = rustix::process::geteuid();
                    // Nobody else can reach the folder.
                    if socket_peercred(&socket)?.uid == own {
                        socket.set_nonblocking(false)?;
                        return Ok(socket);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if let Some(status) = engine.try_wait()? {
                return Err(io::Error::other(format!("it ended with {status}")));
            }
            if Instant::now() > deadline {
                let seconds = START_LIMIT.as_secs();
                return Err(io::Error::other(format!("the container did not answer within {seconds} s")));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // What stays is removed by a later session.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
