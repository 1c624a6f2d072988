//! The system calls on mounts. No path follows a link.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

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

/// A detached copy of the mounts at a path. A link anywhere in the path is an error.
pub(super) fn copy(path: &Path) -> io::Result<OwnedFd> {
    copy_of(&open(path)?)
}

pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

pub(super) fn copy_of(opened: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(opened, c"", flags)?)
}

/// Attaches a detached copy at a path.
pub(super) fn attach(source: &OwnedFd, path: &Path) -> io::Result<()> {
    let target = open(path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(source, c"", &target, c"", flags)?)
}

/// Makes a detached copy read-only.
pub(super) fn seal(source: &OwnedFd) -> io::Result<()> {
    let attributes = Attributes { set: READ_ONLY, ..Attributes::default() };
    change(source, c"", EMPTY_PATH | RECURSIVE, attributes)
}

/// Makes a detached copy writable, if its file system is.
pub(super) fn unseal(source: &OwnedFd) -> io::Result<()> {
    change(source, c"", EMPTY_PATH, Attributes { clear: READ_ONLY, ..Attributes::default() })
}

/// Makes all mounts read-only, without rights that a file gives.
pub(super) fn seal_everything() -> io::Result<()> {
    change(CWD, c"/", RECURSIVE, Attributes { set: READ_ONLY | NO_SETUID, ..Attributes::default() })
}

pub(super) fn temporary(path: &Path, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount(c"tmpfs", path, c"tmpfs", flags, Some(options))?)
}

/// Makes the mount at a path read-only.
pub(super) fn seal_in_place(path: &Path) -> io::Result<()> {
    change(CWD, path, 0, Attributes { set: READ_ONLY, ..Attributes::default() })
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
