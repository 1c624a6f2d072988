//! Sockets of other programs at paths that commands see.
//!
//! Connecting to a socket needs no right that a read-only mount takes away, so each of them has to be covered.

use std::collections::BTreeSet;
use std::fs;
use std::io;
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
    let tables = (0..READS).map(|_| table()).collect::<io::Result<Vec<String>>>()?;
    reachable_of(&tables, places)
}

/// Empty if the kernel has no such sockets.
fn table() -> io::Result<String> {
    match fs::read(ALL) {
        Ok(table) => Ok(String::from_utf8_lossy(&table).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn reachable_of(tables: &[String], places: &SandboxPaths) -> io::Result<Vec<PathBuf>> {
    let bound: BTreeSet<&Path> = tables.iter().flat_map(|table| bound(table)).collect();
    let sockets = bound.into_iter().filter_map(real_socket).filter(|path| is_reachable(places, path));
    let found: BTreeSet<PathBuf> = sockets.collect();
    if found.len() > MAX_SOCKETS {
        return Err(io::Error::other(format!(
            "{} sockets of other programs are too many to cover",
            found.len()
        )));
    }
    Ok(found.into_iter().collect())
}

/// The absolute paths in the kernel's table.
fn bound(table: &str) -> impl Iterator<Item = &Path> {
    table.lines().skip(1).filter_map(|line| {
        let mut rest = line;
        for _ in 0..FIELDS {
            rest = rest.trim_start().split_once(' ')?.1;
        }
        Some(Path::new(rest)).filter(|path| path.is_absolute())
    })
}

fn real_socket(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    real.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()).then_some(real)
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
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12345 /home/me/.x/a b.sock\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03  2245\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12346 @abstract\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12347 relative.sock\n\
                     0000000000000000: 00000002 00000000 00000000 0002 01 12348 /dev/log\n";
        let found: Vec<&Path> = bound(table).collect();
        assert_eq!(found, [Path::new("/home/me/.x/a b.sock"), Path::new("/dev/log")]);
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
            table.clone()
        };
        let places = SandboxPaths {
            homes: vec![home.clone()],
            writable: vec![home.join("cache")],
            ..SandboxPaths::default()
        };
        sockets("cache", MAX_SOCKETS + 1);
        // One of the tables lacks it.
        let tables = [String::new(), sockets("other", 1), String::new()];
        assert_eq!(reachable_of(&tables, &places).unwrap(), [home.join("other/0")]);
        let nothing_writable = SandboxPaths { writable: Vec::new(), ..places };
        assert!(reachable_of(&tables, &nothing_writable).is_err());
    }
}
