//! Landlock rules for files plus a system call filter, where bubblewrap is not available.
//!
//! A process that has given up rights cannot regain them, so the holder of a session enters the rules, and the
//! commands that it starts inherit them.

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use crate::LevelError;
use crate::paths::{SandboxPaths, refuse_broad};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// To connect to a socket at a path that was not created under the same rules.
const RESOLVE_UNIX: u64 = 1 << 16;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const WRITE: u64 = READ
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE;
const HANDLED: u64 = WRITE | MAKE_CHAR | MAKE_BLOCK;
/// The rights that a rule for a file can grant.
const OF_FILES: u64 = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | RESOLVE_UNIX;

const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;
const CREATE_VERSION: u32 = 1;
const RULE_PATH_BENEATH: i32 = 1;
/// With older versions, files outside could still be truncated.
const ABI_OF_TRUNCATE: i64 = 3;
const ABI_OF_SCOPES: i64 = 6;
const ABI_OF_RESOLVE_UNIX: i64 = 9;
/// The maximum number of rules in a set.
const MAX_CAPABILITIES: u64 = 64;
/// A home with more entries than this is not walked.
const MAX_RULES: usize = 20_000;

/// Devices that every program may need; the others include disks. No terminals: a command that can open the
/// user's terminal reads the input and draws on it, and a rule cannot distinguish a command's own terminal
/// from others.
const DEVICES: &[(&str, u64)] = &[
    ("/dev/full", READ_FILE | WRITE_FILE),
    ("/dev/null", READ_FILE | WRITE_FILE | TRUNCATE),
    ("/dev/random", READ_FILE),
    ("/dev/shm", WRITE),
    ("/dev/urandom", READ_FILE),
    ("/dev/zero", READ_FILE | WRITE_FILE),
];

#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// Only the restrictions that mounts cannot express: sockets outside the file system, such as X11's, signals to
/// processes outside, and sockets of other programs. Kernels without support leave them open.
pub(crate) fn scopes_only(places: &SandboxPaths, scratch: &Path) -> Option<OwnedFd> {
    without_files(scopes(), places, scratch)
}

/// The same for commands that see no processes outside: commands with other rights may be signalled, but not traced.
pub(crate) fn sockets_only(places: &SandboxPaths, scratch: &Path) -> Option<OwnedFd> {
    without_files(scopes() & SCOPE_ABSTRACT_UNIX_SOCKET, places, scratch)
}

fn without_files(scopes: u64, places: &SandboxPaths, scratch: &Path) -> Option<OwnedFd> {
    if resolves_sockets()
        && let Ok(ruleset) = create(RESOLVE_UNIX | REFER, scopes)
        && allow_sockets(&ruleset, places, scratch).is_ok()
    {
        return Some(ruleset);
    }
    if scopes == 0 { None } else { create(0, scopes).ok() }
}

/// Whether the kernel confines connections to sockets at paths.
pub(crate) fn resolves_sockets() -> bool {
    abi().is_ok_and(|abi| abi >= ABI_OF_RESOLVE_UNIX)
}

/// Files can be moved as before, and sockets can be reached where commands may create them.
fn allow_sockets(ruleset: &OwnedFd, places: &SandboxPaths, scratch: &Path) -> io::Result<()> {
    allow(ruleset, Path::new("/"), REFER)?;
    let places = places.open.iter().map(PathBuf::as_path).chain([scratch]);
    for place in places.filter(|place| place.exists()) {
        allow(ruleset, place, RESOLVE_UNIX)?;
    }
    Ok(())
}

/// Everything that needs no mounts.
pub(crate) fn full(places: &SandboxPaths) -> Result<OwnedFd, LevelError> {
    check()?;
    let ruleset = create(HANDLED, scopes()).map_err(LevelError::NotInKernel)?;
    for (path, access) in rules(places)? {
        match allow(&ruleset, &path, access) {
            Ok(()) => {}
            // Removed since it was listed, or not accessible to this user anyway.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
                    || error.raw_os_error() == Some(libc::ELOOP) => {}
            Err(source) => return Err(LevelError::Path { path, source }),
        }
    }
    Ok(ruleset)
}

/// Whether the kernel supports a full restriction.
pub(crate) fn check() -> Result<(), LevelError> {
    let abi = abi().map_err(LevelError::NotInKernel)?;
    if abi < ABI_OF_TRUNCATE {
        return Err(LevelError::TooOld { found: abi, needed: ABI_OF_TRUNCATE });
    }
    Ok(())
}

/// Whether the kernel confines signals and abstract sockets.
pub(crate) fn has_scopes() -> bool {
    scopes() != 0
}

/// Every path with the rights below it. Rules have no exceptions, so a hidden path is excluded by allowing all
/// its siblings.
fn rules(places: &SandboxPaths) -> Result<Vec<(PathBuf, u64)>, LevelError> {
    let hidden: Vec<PathBuf> = places.hidden.iter().filter(|path| path.exists()).cloned().collect();
    let mut unread = hidden.clone();
    unread.push(PathBuf::from("/dev"));
    // Names may be listed everywhere, or `ls` would fail in parent folders.
    let mut rules = vec![(PathBuf::from("/"), READ_DIR)];
    let mut add = |tree: &Path, without: &[PathBuf], access: u64| {
        let mut trees = Vec::new();
        beside(tree, without, &mut trees)?;
        rules.extend(trees.into_iter().map(|path| (path, access)));
        Ok::<(), LevelError>(())
    };
    add(Path::new("/"), &unread, READ)?;
    // A home directory inside it must not become writable too.
    let temp = places.temp.iter().filter(|temp| refuse_broad(temp, &places.homes).is_ok());
    for tree in places.writable.iter().chain(temp) {
        // An explicitly allowed path may itself be in a hidden folder.
        let below: Vec<PathBuf> = hidden.iter().filter(|path| path.starts_with(tree)).cloned().collect();
        add(tree, &below, WRITE)?;
    }
    for tree in &places.visible {
        let below: Vec<PathBuf> = hidden.iter().filter(|path| path.starts_with(tree)).cloned().collect();
        add(tree, &below, READ)?;
    }
    // Some systems have the shared memory elsewhere, behind a link.
    let place = |path: &str| fs::canonicalize(path).unwrap_or_else(|_| path.into());
    rules.extend(DEVICES.iter().map(|(path, access)| (place(path), *access)));
    rules.extend(places.devices.iter().map(|path| (path.clone(), READ_FILE | WRITE_FILE)));
    Ok(rules)
}

/// The largest trees below `tree` that contain none of `without`.
fn beside(tree: &Path, without: &[PathBuf], found: &mut Vec<PathBuf>) -> Result<(), LevelError> {
    if without.iter().any(|path| tree.starts_with(path)) {
        return Ok(());
    }
    if found.len() >= MAX_RULES {
        return Err(LevelError::TooManyPaths);
    }
    if !without.iter().any(|path| path.starts_with(tree)) {
        found.push(tree.to_owned());
        return Ok(());
    }
    // A folder that cannot be listed cannot be read by a command of the same user either.
    for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
        // A rule for a link would be one for its target, which may be hidden.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            beside(&entry.path(), without, found)?;
        }
    }
    Ok(())
}

/// The scopes that the kernel supports.
fn scopes() -> u64 {
    let has_scopes = abi().is_ok_and(|abi| abi >= ABI_OF_SCOPES);
    if has_scopes { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 }
}

/// The version of Landlock that the kernel has.
pub(crate) fn abi() -> io::Result<i64> {
    let found = abi_of_kernel()?;
    #[cfg(debug_assertions)]
    let found = PRETENDED.get().map_or(found, |pretended| found.min(pretended));
    Ok(found)
}

#[cfg(debug_assertions)]
thread_local! {
    static PRETENDED: std::cell::Cell<Option<i64>> = const { std::cell::Cell::new(None) };
}

/// For tests: sandboxes that this thread opens use no later version of Landlock.
#[cfg(debug_assertions)]
pub(crate) fn pretend(abi: Option<i64>) {
    PRETENDED.set(abi);
}

#[expect(unsafe_code, reason = "there is no safe interface to Landlock's system calls")]
fn abi_of_kernel() -> io::Result<i64> {
    // SAFETY: with this flag the kernel takes no structure and only returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, CREATE_VERSION)
    };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

#[expect(unsafe_code, reason = "there is no safe interface to Landlock's system calls")]
fn create(handled_access_fs: u64, scoped: u64) -> io::Result<OwnedFd> {
    let attributes = RulesetAttributes { handled_access_fs, handled_access_net: 0, scoped };
    // SAFETY: the pointer and the size describe `attributes`, which lives through the call. Older kernels
    // accept a longer structure if its unknown part is zero.
    let status = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attributes,
            mem::size_of::<RulesetAttributes>(),
            0u32,
        )
    };
    let descriptor = RawFd::try_from(status).map_err(|_| io::Error::last_os_error())?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[expect(unsafe_code, reason = "there is no safe interface to Landlock's system calls")]
fn allow(ruleset: &OwnedFd, path: &Path, access: u64) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // All are real paths: a folder that was replaced by a link since then must not open what the link names.
    let opened: File =
        rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?.into();
    let access = if opened.metadata()?.is_dir() { access } else { access & OF_FILES };
    let rule = PathBeneath { allowed_access: access, parent_fd: opened.as_raw_fd() };
    // SAFETY: both descriptors are open, and the pointer is to a rule of the kind that is named.
    let status = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0u32,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Commands of root run as an ordinary user who owns root's files. Other users have no capabilities to drop, and the
/// kernel reports that.
#[expect(unsafe_code, reason = "the standard library has no prctl")]
pub(crate) fn give_up_capabilities() {
    for capability in 0..MAX_CAPABILITIES {
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0u64, 0u64, 0u64) };
    }
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0u64, 0u64, 0u64) };
    let none = CapabilitySet::empty();
    let _ = set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none });
}

#[expect(unsafe_code, reason = "there is no safe interface to Landlock's system calls")]
pub(crate) fn restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let status = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_are_excluded_by_allowing_their_siblings() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        for path in [".ssh", ".config/gh", ".config/nvim/lua", "src"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(home.join(".ssh"), home.join("keys")).unwrap();
        let hidden = [home.join(".ssh"), home.join(".config/gh")];
        let mut found = Vec::new();
        beside(home, &hidden, &mut found).unwrap();
        found.sort();
        assert_eq!(found, [home.join(".config/nvim"), home.join("src")]);
        let mut whole = Vec::new();
        beside(&home.join("src"), &hidden, &mut whole).unwrap();
        assert_eq!(whole, [home.join("src")]);
        let mut nothing = Vec::new();
        beside(&home.join(".ssh/keys"), &hidden, &mut nothing).unwrap();
        assert!(nothing.is_empty());
    }

    #[test]
    fn only_the_workspace_and_temporary_files_get_the_right_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("w");
        fs::create_dir(&root).unwrap();
        let places = SandboxPaths {
            writable: vec![root.clone()],
            temp: vec!["/var/tmp".into()],
            ..SandboxPaths::default()
        };
        let rules = rules(&places).unwrap();
        let writing = rules.iter().filter(|(_, access)| access & MAKE_REG != 0);
        let writing: Vec<&Path> = writing.map(|(path, _)| path.as_path()).collect();
        assert_eq!(writing, [root.as_path(), Path::new("/var/tmp"), Path::new("/dev/shm")]);
        assert!(rules.contains(&("/".into(), READ_DIR)) && rules.contains(&("/usr".into(), READ)));
        assert!(!rules.iter().any(|(path, _)| path == Path::new("/dev")));
    }
}
