//! Where the core listens, and who may.
//!
//! The socket is in a directory of the user's own: 0700, not a link, not writable by others.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::files::FileLock;
use pollux_config::paths::{Home, sha256_hex};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_host::account::uid;
use tokio::net::UnixListener;

/// The longest path that every system takes for a socket.
const MAX_PATH: usize = 103;
/// How long another start may hold the lock; the system releases it with the process.
const START: Duration = Duration::from_secs(60);

/// Socket and log of the core of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorePlace {
    /// Where the socket can be, the preferred one first: programs without `XDG_RUNTIME_DIR` look in the home.
    sockets: Vec<PathBuf>,
    log_dir: PathBuf,
}

impl CorePlace {
    /// The place of the environment's home. Looks at the disk but creates nothing.
    pub fn of(env: &Env) -> Result<Self, Failure> {
        let home = Home::locate(env)
            .map_err(|error| Failure::from_error(ExitKind::Config, &error).hint(error.hint()))?;
        let runtime = env.non_empty("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|dir| dir.is_absolute() && is_own_folder(dir, uid()));
        Ok(Self::new(home.gemini_dir(), runtime.as_deref()))
    }

    fn new(gemini_dir: &Path, runtime: Option<&Path>) -> Self {
        let resolved = gemini_dir.canonicalize().unwrap_or_else(|_| gemini_dir.to_owned());
        let hash = sha256_hex(resolved.as_os_str().as_encoded_bytes());
        let name = format!("core-{}.sock", hash.get(..8).unwrap_or_default());
        let log_dir = gemini_dir.join("run");
        let in_runtime = runtime.map(|runtime| runtime.join("pollux").join(&name));
        let in_home = log_dir.join(&name);
        let mut sockets: Vec<PathBuf> =
            in_runtime.into_iter().chain([in_home]).filter(|path| fits(path)).collect();
        if sockets.is_empty() {
            sockets.push(PathBuf::from(format!("/tmp/pollux-{}/{name}", uid())));
        }
        Self { sockets, log_dir }
    }

    /// Where a new core listens.
    pub fn socket(&self) -> &Path {
        self.sockets.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    pub(crate) fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// The log file.
    pub fn log_file(&self) -> PathBuf {
        self.log_dir.join("core.log")
    }

    /// Creates the folders of socket and log, or checks that they are safe.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        make_private(&self.log_dir)?;
        let folder = self.socket().parent().unwrap_or(Path::new("/"));
        make_private(folder)
    }

    /// Starts to listen, unless a core runs already. One start at a time.
    pub(crate) fn bind(&self) -> Result<Option<UnixListener>, Failure> {
        self.prepare()?;
        let path = self.socket();
        let lock = FileLock::acquire_within(path, START);
        let _lock = lock.map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        if self.sockets.iter().any(|socket| UnixStream::connect(socket).is_ok()) {
            return Ok(None);
        }
        remove_stale(path)?;
        let listening = |error: &io::Error| {
            Failure::new(ExitKind::Failure, format!("could not listen on `{}`", path.display()))
                .because(error)
        };
        let listener = UnixListener::bind(path).map_err(|error| listening(&error))?;
        // The folder keeps others out in the meantime.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| listening(&error))?;
        Ok(Some(listener))
    }
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH
}

/// Removes the socket of a core that has died. Anything else at its path is left alone.
fn remove_stale(path: &Path) -> Result<(), Failure> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(Failure::new(ExitKind::Failure, format!("`{}` is not a socket", path.display()))
            .hint("remove it, then start the core again"));
    }
    let refused = UnixStream::connect(path).err().map(|error| error.kind());
    if refused != Some(io::ErrorKind::ConnectionRefused) {
        let text = format!("`{}` belongs to a process that does not respond", path.display());
        return Err(
            Failure::new(ExitKind::Failure, text).hint("stop that process, then start the core again")
        );
    }
    fs::remove_file(path).map_err(|error| {
        Failure::new(ExitKind::Failure, format!("could not remove `{}`", path.display())).because(&error)
    })
}

fn is_own_folder(path: &Path, uid: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

/// Makes a folder that only the user can enter; refuses one that others could have tampered with.
fn make_private(folder: &Path) -> Result<(), Failure> {
    let unusable = |why: &str| {
        let text = format!("`{}` cannot hold the core's socket: {why}", folder.display());
        Failure::new(ExitKind::Failure, text).hint("remove it, or set XDG_RUNTIME_DIR to another directory")
    };
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| unusable("it could not be created").because(&error))?;
    let found = fs::symlink_metadata(folder).map_err(|error| unusable("it vanished").because(&error))?;
    if found.file_type().is_symlink() {
        return Err(unusable("it is a symbolic link"));
    }
    if found.uid() != uid() {
        return Err(unusable("it belongs to another user"));
    }
    if found.mode() & 0o022 != 0 {
        return Err(unusable("other users can write to it"));
    }
    if found.mode() & 0o777 != 0o700 {
        let narrowed = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
        narrowed.map_err(|error| unusable("its permissions could not be changed").because(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn home() -> (tempfile::TempDir, CorePlace) {
        let dir = tempfile::tempdir().unwrap();
        let gemini = dir.path().join(".gemini");
        fs::create_dir(&gemini).unwrap();
        let place = CorePlace::new(&gemini, None);
        (dir, place)
    }

    #[test]
    fn each_home_has_its_own_socket_and_a_long_path_a_short_one() {
        let runtime = Path::new("/run/user/7");
        let one = CorePlace::new(Path::new("/home/a/.gemini"), Some(runtime));
        let other = CorePlace::new(Path::new("/home/b/.gemini"), Some(runtime));
        assert!(one.socket().starts_with("/run/user/7/pollux") && one.socket() != other.socket());
        let long = PathBuf::from(format!("/{}", "x".repeat(120)));
        let short = CorePlace::new(&long, None);
        assert!(short.socket().starts_with("/tmp") && fits(short.socket()), "{short:?}");
    }

    #[tokio::test]
    async fn one_core_listens_and_a_dead_ones_socket_is_replaced() {
        let (_dir, place) = home();
        let first = place.bind().unwrap().unwrap();
        assert!(place.bind().unwrap().is_none());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(place.socket()), mode(place.socket().parent().unwrap())), (0o600, 0o700));
        drop(first);
        assert!(place.socket().exists());
        assert!(place.bind().unwrap().is_some());
    }

    #[tokio::test]
    async fn what_is_not_a_socket_stays() {
        let (_dir, place) = home();
        place.prepare().unwrap();
        fs::File::create(place.socket()).unwrap();
        let failure = place.bind().unwrap_err();
        assert!(failure.summary.contains("is not a socket"), "{failure:?}");
        assert!(fs::metadata(place.socket()).unwrap().is_file());
    }

    #[tokio::test]
    async fn folders_that_others_can_change_are_refused() {
        let (dir, place) = home();
        let folder = place.socket().parent().unwrap().to_owned();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        assert!(place.bind().unwrap_err().summary.contains("symbolic link"));
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(place.bind().unwrap_err().summary.contains("other users can write"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(place.bind().unwrap().is_some());
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }
}
