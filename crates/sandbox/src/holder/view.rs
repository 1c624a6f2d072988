//! Builds the holder's view of the file system, in a mount namespace of its own.
//!
//! Everything becomes read-only in place; then copies of the writable paths, taken before, are mounted over it, and
//! hidden paths are covered. Every path is opened without following links, so that a folder that is replaced by a
//! link in the meantime cannot lead elsewhere.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use super::init::{Trouble, doing};
use crate::mounts::{Mount, Placed};

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const READ_ONLY: u64 = 0x1;
const NO_SETUID: u64 = 0x2;
const RECURSIVE: u32 = 0x8000;
const EMPTY_PATH: u32 = 0x1000;
const NO_LINKS: u32 = 0x100;

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
    let devices = DEVICES.iter().map(|name| copy(&Path::new("/dev").join(name)).ok()).collect::<Vec<_>>();
    let sources = mounts.iter().map(source).collect::<Result<Vec<_>, Trouble>>()?;
    let covers = covers()?;
    change(CWD, c"/", RECURSIVE, Attributes { set: READ_ONLY | NO_SETUID, ..Attributes::default() })
        .map_err(doing("could not make the file system read-only"))?;
    build_devices(devices)?;
    let view = View { covers: Some(covers) };
    for (placed, source) in mounts.iter().zip(sources) {
        view.place(placed, source, mounts)?;
    }
    Ok(view)
}

impl View {
    /// Adds mounts for files that appeared or were replaced.
    pub(super) fn add(&self, mounts: &[Placed]) -> Result<(), Trouble> {
        for placed in mounts {
            let source = source(placed)?;
            if placed.mount == Mount::Writable
                && let Some(source) = &source
            {
                // Its copy was taken from the read-only view. A file system that was read-only before stays
                // read-only.
                let _ =
                    change(source, c"", EMPTY_PATH, Attributes { clear: READ_ONLY, ..Attributes::default() });
            }
            self.place(placed, source, mounts)?;
        }
        Ok(())
    }

    fn place(&self, placed: &Placed, source: Option<OwnedFd>, all: &[Placed]) -> Result<(), Trouble> {
        let Some(covers) = &self.covers else { return Ok(()) };
        let path = &placed.path;
        let trouble = || format!("could not mount `{}`", path.display());
        let is_kept = |other: &&Placed| other.path != *path && other.path.starts_with(path);
        let cover = |cover: &OwnedFd| copy_of(cover).map_err(doing(trouble()));
        let source = match &placed.mount {
            Mount::Empty if all.iter().any(|other| is_kept(&other)) => return sparse(path, all),
            Mount::Empty => cover(&covers.empty)?,
            Mount::Blocked => cover(&covers.blocked)?,
            Mount::ReadOnly | Mount::Writable | Mount::From(_) => match source {
                Some(source) => source,
                // Removed since it was listed.
                None => return Ok(()),
            },
        };
        if placed.mount == Mount::ReadOnly {
            change(
                &source,
                c"",
                EMPTY_PATH | RECURSIVE,
                Attributes { set: READ_ONLY, ..Attributes::default() },
            )
            .map_err(doing(trouble()))?;
        }
        match attach(&source, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if matches!(placed.mount, Mount::Empty | Mount::Blocked) {
                    // Removed since it was listed: nothing is left to hide.
                    return Ok(());
                }
                // Its parent folder was replaced, so the new one needs the mount.
                create_target(path, &source).and_then(|()| attach(&source, path)).map_err(doing(trouble()))
            }
            Err(error) => Err(doing(trouble())(error)),
        }
    }
}

/// A copy of what a mount shows; `None` if it does not exist or is a cover.
fn source(placed: &Placed) -> Result<Option<OwnedFd>, Trouble> {
    let path = match &placed.mount {
        Mount::Empty | Mount::Blocked => return Ok(None),
        Mount::From(source) => source,
        Mount::ReadOnly | Mount::Writable => &placed.path,
    };
    match copy(path) {
        Ok(copy) => Ok(Some(copy)),
        // A link in `/run` is created again instead.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_link(&error) => Ok(None),
        Err(error) => Err(doing(format!("could not open `{}`", path.display()))(error)),
    }
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// A detached copy of the mounts at a path. A link anywhere in the path is an error.
fn copy(path: &Path) -> io::Result<OwnedFd> {
    copy_of(&open(path)?)
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn copy_of(opened: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(opened, c"", flags)?)
}

/// Attaches a detached copy at a path.
fn attach(source: &OwnedFd, path: &Path) -> io::Result<()> {
    let target = open(path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(source, c"", &target, c"", flags)?)
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

/// An empty folder with mount points for the paths that stay visible.
fn sparse(path: &Path, all: &[Placed]) -> Result<(), Trouble> {
    let trouble = || format!("could not hide `{}`", path.display());
    let inside: Vec<&Placed> =
        all.iter().filter(|other| other.path != path && other.path.starts_with(path)).collect();
    // Before the folder is covered.
    let kinds: Vec<(PathBuf, Option<fs::Metadata>, Option<PathBuf>)> = inside
        .iter()
        .map(|placed| {
            let path = placed.path.clone();
            (path.clone(), path.symlink_metadata().ok(), fs::read_link(&path).ok())
        })
        .collect();
    temporary(path, c"mode=755,size=1m").map_err(doing(trouble()))?;
    for (path, kind, link) in kinds {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| match (kind, link) {
            (_, Some(to)) => std::os::unix::fs::symlink(to, &path),
            (Some(kind), None) if kind.is_dir() => fs::create_dir_all(&path),
            (Some(_), None) => fs::File::create_new(&path).map(drop),
            (None, None) => Ok(()),
        });
        made.map_err(doing(trouble()))?;
    }
    change(CWD, path, 0, Attributes { set: READ_ONLY, ..Attributes::default() }).map_err(doing(trouble()))
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
fn build_devices(devices: Vec<Option<OwnedFd>>) -> Result<(), Trouble> {
    let make = || -> io::Result<()> {
        temporary(Path::new("/dev"), c"mode=755,size=64k")?;
        for (name, device) in DEVICES.iter().zip(devices) {
            let path = Path::new("/dev").join(name);
            if let Some(device) = device {
                fs::File::create_new(&path)?;
                attach(&device, &path)?;
            }
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
        change(CWD, Path::new("/dev"), 0, Attributes { set: READ_ONLY, ..Attributes::default() })
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
            change(
                &copy,
                c"",
                EMPTY_PATH | RECURSIVE,
                Attributes { set: READ_ONLY, ..Attributes::default() },
            )?;
            attach(&copy, path)
        });
        sealed.map_err(doing(format!("could not seal `{}`", path.display())))?;
    }
    Ok(())
}

fn temporary(path: &Path, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount(c"tmpfs", path, c"tmpfs", flags, Some(options))?)
}

/// Changes the attributes of mounts.
fn change(
    folder: impl AsFd,
    path: impl rustix::path::Arg,
    flags: u32,
    attributes: Attributes,
) -> io::Result<()> {
    let call = |path: &CStr| {
        #[expect(unsafe_code, reason = "there is no safe interface to this system call")]
        // SAFETY: the path is terminated, and the pointer and the size describe `attributes`.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                folder.as_fd().as_raw_fd(),
                path.as_ptr(),
                flags | NO_LINKS,
                &raw const attributes,
                size_of::<Attributes>(),
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
        }
    };
    path.into_with_c_str(call).map_err(Into::into)
}
