//! Builds the holder's view of the file system, in a mount namespace of its own.
//!
//! Everything becomes read-only in place; then copies of the writable paths, taken before, are mounted over it, and
//! hidden paths are covered. Every path is opened without following links, so that a folder that is replaced by a
//! link in the meantime cannot lead elsewhere.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::frame::Frame;
use super::mount_calls::{
    attach, copy, copy_of, open, seal, seal_everything, seal_in_place, temporary, unseal,
};
use super::trouble::{Trouble, doing};
use crate::identity::Identity;
use crate::mounts::{Mount, Placed};
use crate::own_program;

/// The devices that commands have.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];
/// Parts of `/proc` that change the system when written, which root can do even without capabilities.
const SYSTEM_SWITCHES: &[&str] = &["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];
const SHARED_MEMORY: &CStr = c"mode=1777,size=1g";

/// State that later mounts need.
#[derive(Debug, Default)]
pub(super) struct View {
    covers: Option<Covers>,
    /// The mounted folders, and whether each replaces another one. Mount points may be created only in a replaced
    /// folder; elsewhere they would remain in one of the user's folders.
    mounted: HashMap<PathBuf, bool>,
    frames: Vec<Frame>,
}

/// An empty folder and a file that cannot be opened, to put over what is hidden.
#[derive(Debug)]
struct Covers {
    empty: OwnedFd,
    blocked: OwnedFd,
}

/// Builds the view.
pub(super) fn build(mounts: &[Placed]) -> Result<View, Trouble> {
    // Later mounts of the host must not appear here, where they would be writable.
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(doing("could not detach the mounts"))?;
    let own: Vec<PathBuf> = DEVICES.iter().map(|name| Path::new("/dev").join(name)).collect();
    let given = mounts.iter().filter(|placed| placed.mount == Mount::Device && !own.contains(&placed.path));
    let given: Vec<PathBuf> = given.map(|placed| placed.path.clone()).collect();
    let devices = own.into_iter().chain(given);
    // One that is missing is missing inside.
    let devices = devices.filter_map(|path| copy(&path).ok().map(|copy| (path, copy))).collect::<Vec<_>>();
    let sources = mounts.iter().map(source).collect::<Result<Vec<_>, Trouble>>()?;
    let covers = covers()?;
    seal_everything().map_err(doing("could not make the file system read-only"))?;
    build_devices(devices)?;
    let mut view = View { covers: Some(covers), mounted: HashMap::new(), frames: Vec::new() };
    view.record_mounts(mounts);
    for (placed, source) in mounts.iter().zip(sources) {
        view.place(placed, source)?;
    }
    Ok(view)
}

impl View {
    /// Adds mounts for files that appeared or were replaced, and removes what is gone from frames.
    pub(super) fn add(&mut self, mounts: &[Placed]) -> Result<(), Trouble> {
        self.record_mounts(mounts);
        for placed in mounts {
            if let Some(frame) = self.frame_around(placed) {
                frame.clear(&placed.path).map_err(doing(trouble(&placed.path)))?;
            }
            let source = match (&placed.mount, self.frame_around(placed)) {
                (Mount::Writable, Some(frame)) => frame.source(&placed.path).ok(),
                // Copies are kept in a folder that this view hides.
                (Mount::Copy(copy), _) => match self.deepest_frame(copy) {
                    Some(frame) => frame.source(copy).ok(),
                    None => source(placed)?,
                },
                _ => source(placed)?,
            };
            if placed.mount == Mount::Writable
                && let Some(source) = &source
            {
                // Its copy was taken from the read-only view. A file system that was read-only before stays
                // read-only.
                let _ = unseal(source);
            }
            self.place(placed, source)?;
        }
        Ok(())
    }

    fn record_mounts(&mut self, mounts: &[Placed]) {
        for Placed { path, mount, .. } in mounts {
            let is_replaced = match mount {
                Mount::From(_) => true,
                Mount::ReadOnly | Mount::Writable => false,
                _ => continue,
            };
            // A later mount on the same path covers the earlier one.
            self.mounted.insert(path.clone(), is_replaced);
        }
    }

    /// Whether the nearest mount around a path is a replaced folder, which may not contain the path yet.
    fn is_in_replaced(&self, path: &Path) -> bool {
        path.ancestors().skip(1).find_map(|folder| self.mounted.get(folder)) == Some(&true)
    }

    /// The frame that a path is placed in.
    fn frame_around(&self, placed: &Placed) -> Option<&Frame> {
        self.deepest_frame(&placed.path).filter(|_| placed.is_framed)
    }

    fn deepest_frame(&self, path: &Path) -> Option<&Frame> {
        let around = self.frames.iter().filter(|frame| path.starts_with(&frame.path));
        around.max_by_key(|frame| frame.path.components().count())
    }

    fn place(&mut self, placed: &Placed, source: Option<OwnedFd>) -> Result<(), Trouble> {
        let path = &placed.path;
        if let Some(frame) = self.frame_around(placed) {
            return place_in_frame(frame, placed, source).map_err(doing(trouble(path)));
        }
        let Some(covers) = &self.covers else { return Ok(()) };
        let cover = |cover: &OwnedFd| copy_of(cover).map_err(doing(trouble(path)));
        let source = match &placed.mount {
            Mount::Gone | Mount::Device | Mount::Own(_) => return Ok(()),
            Mount::Frame => {
                let frame = Frame::mount(path).map_err(doing(trouble(path)))?;
                self.frames.push(frame);
                return Ok(());
            }
            Mount::Empty => cover(&covers.empty)?,
            Mount::Blocked => cover(&covers.blocked)?,
            // Without its copy, a file stays hidden.
            Mount::Copy(_) => source.map_or_else(|| cover(&covers.blocked), Ok)?,
            Mount::ReadOnly | Mount::Writable | Mount::From(_) => match source {
                Some(source) => source,
                // Removed since it was listed.
                None => return Ok(()),
            },
        };
        if matches!(placed.mount, Mount::ReadOnly | Mount::Copy(_)) {
            seal(&source).map_err(doing(trouble(path)))?;
        }
        match attach(&source, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_cover = matches!(placed.mount, Mount::Empty | Mount::Blocked);
                if is_cover || !self.is_in_replaced(path) {
                    // Removed since it was listed: nothing is left to hide or to protect.
                    return Ok(());
                }
                // Its parent folder was replaced, so the new one needs the mount.
                match create_target(path, &source).and_then(|()| attach(&source, path)) {
                    // A folder around it is shown as it is, and does not have it.
                    Err(error) if error.raw_os_error() == Some(libc::EROFS) => Ok(()),
                    done => done.map_err(doing(trouble(path))),
                }
            }
            Err(error) => Err(doing(trouble(path))(error)),
        }
    }
}

fn trouble(path: &Path) -> String {
    format!("could not mount `{}`", path.display())
}

/// Shows something in a frame. Secrets need no cover there: what is not placed does not exist.
fn place_in_frame(frame: &Frame, placed: &Placed, source: Option<OwnedFd>) -> io::Result<()> {
    let path = &placed.path;
    let source = match &placed.mount {
        Mount::Gone | Mount::Device => return Ok(()),
        Mount::Frame | Mount::Empty => return frame.create_folder(path),
        Mount::Blocked => return frame.create_file(path),
        Mount::ReadOnly => match frame.source(path) {
            // The folder below became read-only before, and so are copies of what is in it.
            Ok(source) => source,
            Err(error) if is_link(&error) => return frame.copy_link(path),
            // Removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        },
        Mount::Copy(_) => match source {
            Some(source) => {
                seal(&source)?;
                source
            }
            None => return frame.create_file(path),
        },
        Mount::Own(_) => match source {
            Some(source) => {
                seal(&source)?;
                source
            }
            None => return Ok(()),
        },
        Mount::Writable | Mount::From(_) => match source {
            Some(source) => source,
            None => return Ok(()),
        },
    };
    if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode).is_dir() {
        frame.create_folder(path)?;
    } else {
        frame.create_file(path)?;
    }
    attach(&source, path)
}

/// A copy of what a mount shows; `None` if it does not exist or is taken later.
fn source(placed: &Placed) -> Result<Option<OwnedFd>, Trouble> {
    let path = match &placed.mount {
        Mount::Empty | Mount::Blocked | Mount::Frame | Mount::Gone | Mount::Device => return Ok(None),
        Mount::ReadOnly if placed.is_framed => return Ok(None),
        Mount::Own(file) => return Ok(own_file(file)),
        Mount::From(source) | Mount::Copy(source) => source,
        Mount::ReadOnly | Mount::Writable => &placed.path,
    };
    match copy(path) {
        Ok(copy) => Ok(Some(copy)),
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_link(&error) => Ok(None),
        Err(error) => Err(doing(format!("could not open `{}`", path.display()))(error)),
    }
}

/// A copy of this program's file, which a holder also runs. If another process replaced the file, the replacement must
/// not become visible.
fn own_file(path: &Path) -> Option<OwnedFd> {
    let opened = File::from(open(path).ok()?);
    let found = Identity::from(&opened.metadata().ok()?);
    (Some(found) == own_program::identity()).then(|| copy_of(&opened.into()).ok()).flatten()
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Creates a mount point.
fn create_target(path: &Path, source: &OwnedFd) -> io::Result<()> {
    let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(source)?.st_mode).is_dir();
    if is_folder {
        return fs::create_dir_all(path);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::File::create_new(path).map(drop)
}

/// Creates the covers in a file system that the devices will cover.
fn covers() -> Result<Covers, Trouble> {
    let place = Path::new("/dev");
    let make = || -> io::Result<Covers> {
        temporary(place, c"mode=755,size=64k")?;
        fs::create_dir(place.join("empty"))?;
        fs::File::create_new(place.join("blocked"))?;
        rustix::fs::chmod(place.join("blocked"), Mode::empty())?;
        Ok(Covers { empty: open(&place.join("empty"))?, blocked: open(&place.join("blocked"))? })
    };
    make().map_err(doing("could not create an empty folder"))
}

/// A `/dev` with the devices that every program may need, and terminals of its own.
fn build_devices(devices: Vec<(PathBuf, OwnedFd)>) -> Result<(), Trouble> {
    let make = || -> io::Result<()> {
        temporary(Path::new("/dev"), c"mode=755,size=64k")?;
        for (path, device) in devices {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::File::create_new(&path)?;
            attach(&device, &path)?;
        }
        for name in ["/dev/pts", "/dev/shm"] {
            fs::create_dir(name)?;
        }
        temporary(Path::new("/dev/shm"), SHARED_MEMORY)?;
        let options = c"newinstance,ptmxmode=0666,mode=620";
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        rustix::mount::mount(c"devpts", "/dev/pts", c"devpts", flags, Some(options))?;
        for (to, link) in LINKS {
            std::os::unix::fs::symlink(to, link)?;
        }
        seal_in_place(Path::new("/dev"))
    };
    make().map_err(doing("could not create the devices"))
}

/// Mounts a `/proc` with the namespace's processes and without files that change the system. Call it inside the
/// namespace.
pub(super) fn mount_processes() -> Result<(), Trouble> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None)
        .map_err(doing("could not mount `/proc`"))?;
    for path in SYSTEM_SWITCHES.iter().map(Path::new).filter(|path| path.exists()) {
        let sealed = copy(path).and_then(|copy| {
            seal(&copy)?;
            attach(&copy, path)
        });
        sealed.map_err(doing(format!("could not seal `{}`", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_created_in_replaced_folders_only() {
        let placed = |path: &str, mount| Placed::new(path.into(), mount);
        let mut view = View::default();
        view.record_mounts(&[
            placed("/tmp", Mount::From("/scratch".into())),
            placed("/tmp/a/w", Mount::Writable),
        ]);
        let is_in_replaced = |view: &View, path: &str| view.is_in_replaced(Path::new(path));
        assert!(is_in_replaced(&view, "/tmp/a/w") && is_in_replaced(&view, "/tmp/a/x"));
        assert!(!is_in_replaced(&view, "/tmp/a/w/.envrc") && !is_in_replaced(&view, "/home/x"));
        view.record_mounts(&[placed("/tmp/a/x", Mount::Writable)]);
        assert!(is_in_replaced(&view, "/tmp/a/x") && !is_in_replaced(&view, "/tmp/a/x/y"));
        // A workspace that is a folder for temporary files.
        view.record_mounts(&[placed("/tmp", Mount::Writable)]);
        assert!(!is_in_replaced(&view, "/tmp/.envrc"));
    }
}
