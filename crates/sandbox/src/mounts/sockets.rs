//! Sockets of other programs at paths that commands see.
//!
//! Connecting to a socket needs no right that a read-only mount takes away, so each of them has to be covered.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::is_covered;
use crate::paths::SandboxPaths;

/// Every bound Unix socket of this network namespace.
const ALL: &str = "/proc/net/unix";
/// The fields before the path.
const FIELDS: usize = 7;
/// How often the table is read. The kernel gives it out in pieces, and passes over a socket if others next to it are
/// closed in between.
const READS: usize = 3;
/// With more, the sandbox does not start.
const MAX_SOCKETS: usize = 2000;

/// The sockets to cover: not those in a workspace, which may be meant for its commands, not those that were granted, and
/// not those in other folders that commands can write, which may be their own.
pub(super) fn reachable(places: &SandboxPaths) -> io::Result<Vec<PathBuf>> {
    let tables = (0..READS).map(|_| table()).collect::<io::Result<Vec<Vec<u8>>>>()?;
    reachable_of(&tables, working_folders, places)
}

/// Empty if the kernel has no such sockets.
fn table() -> io::Result<Vec<u8>> {
    match fs::read(ALL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        table => table,
    }
}

/// Every folder in which a process of this user works.
fn working_folders() -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).collect()
}

fn reachable_of(
    tables: &[Vec<u8>],
    working_folders: impl FnOnce() -> BTreeSet<PathBuf>,
    places: &SandboxPaths,
) -> io::Result<Vec<PathBuf>> {
    let names: BTreeSet<&Path> = tables.iter().flat_map(|table| bound(table)).collect();
    let (absolute, relative): (Vec<&Path>, Vec<&Path>) =
        names.into_iter().partition(|name| name.is_absolute());
    let mut paths: BTreeSet<PathBuf> = absolute.into_iter().map(Path::to_owned).collect();
    if !relative.is_empty() {
        for folder in working_folders() {
            paths.extend(relative.iter().map(|name| folder.join(name)).filter(|path| is_socket(path)));
        }
    }
    let real = |path: &Path| fs::canonicalize(path).ok().filter(|path| is_reachable(places, path));
    let folders: BTreeSet<PathBuf> = paths.iter().filter_map(|path| real(path.parent()?)).collect();
    // The kernel keeps the first name of a socket. ssh, for one, gives its sockets another one in the same folder.
    let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let beside = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    // Folders that cannot be listed may be passed through.
    let named = paths.iter().filter_map(|path| real(path)).filter(|path| is_socket(path));
    let found: BTreeSet<PathBuf> =
        beside.map(|entry| entry.path()).chain(named).filter(|path| is_reachable(places, path)).collect();
    if found.len() > MAX_SOCKETS {
        return Err(io::Error::other(format!(
            "{} sockets of other programs are too many to cover",
            found.len()
        )));
    }
    Ok(found.into_iter().collect())
}

/// The paths in the kernel's table: absolute ones, and those that start in the folder where the process worked.
fn bound(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let mut rest = line;
        for _ in 0..FIELDS {
            let start = rest.iter().position(|byte| *byte != b' ')?;
            let end = start + rest[start..].iter().position(|byte| *byte == b' ')?;
            rest = &rest[end + 1..];
        }
        // `@` marks names that are no paths.
        Some(Path::new(OsStr::from_bytes(rest))).filter(|_| !rest.is_empty() && !rest.starts_with(b"@"))
    })
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

fn is_reachable(places: &SandboxPaths, path: &Path) -> bool {
    let is_in = |trees: &[PathBuf]| trees.iter().any(|tree| path.starts_with(tree));
    let is_in_home = || is_in(&places.homes);
    let is_replaced = is_covered(places, path) && !is_in_home();
    !is_replaced && !is_in(&places.hidden) && !is_in(&places.open) && !is_in(&places.writable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_the_kernels_table() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12345 /home/me/.x/a b.sock\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03  2245\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12346 @abstract\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12347 relative.sock\n\
                     0000000000000000: 00000002 00000000 00000000 0002 01 12348 /dev/log\n";
        let found: Vec<&Path> = bound(table).collect();
        assert_eq!(found, ["/home/me/.x/a b.sock", "relative.sock", "/dev/log"].map(Path::new));
    }

    #[test]
    fn sockets_that_commands_could_have_made_do_not_count_and_too_many_others_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        let mut table = String::from("Num RefCount Protocol Flags Type St Inode Path\n");
        let mut sockets = |place: &str, count: usize| {
            fs::create_dir(home.join(place)).unwrap();
            for number in 0..count {
                let path = home.join(place).join(number.to_string());
                // Sockets stay when their listeners are closed.
                std::os::unix::net::UnixListener::bind(&path).unwrap();
                table.push_str(&format!("0: 2 0 10000 1 1 1 {}\n", path.display()));
            }
            table.clone().into_bytes()
        };
        let places = SandboxPaths {
            homes: vec![home.clone()],
            writable: vec![home.join("cache")],
            ..SandboxPaths::default()
        };
        sockets("cache", MAX_SOCKETS + 1);
        // One of the tables lacks it.
        let tables = [Vec::new(), sockets("other", 1), Vec::new()];
        assert_eq!(reachable_of(&tables, BTreeSet::new, &places).unwrap(), [home.join("other/0")]);
        let nothing_writable = SandboxPaths { writable: Vec::new(), ..places };
        assert!(reachable_of(&tables, BTreeSet::new, &nothing_writable).is_err());
    }

    #[test]
    fn sockets_with_another_name_and_those_with_a_relative_one_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        let places = SandboxPaths { homes: vec![home.clone()], ..SandboxPaths::default() };
        for name in ["moved", "linked", "relative", "strange"] {
            fs::create_dir(home.join(name)).unwrap();
        }
        let strange = OsStr::from_bytes(b"strange/\xff");
        let mut table = b"Num RefCount Protocol Flags Type St Inode Path\n".to_vec();
        for name in [OsStr::new("moved/first"), OsStr::new("linked/first"), strange] {
            std::os::unix::net::UnixListener::bind(home.join(name)).unwrap();
            table.extend([b"0: 2 0 10000 1 1 1 ", home.join(name).as_os_str().as_bytes(), b"\n"].concat());
        }
        fs::rename(home.join("moved/first"), home.join("moved/now")).unwrap();
        fs::hard_link(home.join("linked/first"), home.join("linked/now")).unwrap();
        fs::remove_file(home.join("linked/first")).unwrap();
        std::os::unix::net::UnixListener::bind(home.join("relative/now")).unwrap();
        table.extend(b"0: 2 0 10000 1 1 1 relative/now\n");
        let working = || BTreeSet::from([PathBuf::from("/"), home.clone()]);
        let found = reachable_of(&[table], working, &places).unwrap();
        let expected = ["linked/now", "moved/now", "relative/now"].map(OsStr::new);
        assert_eq!(
            found,
            expected.into_iter().chain([strange]).map(|name| home.join(name)).collect::<Vec<_>>()
        );
    }
}
