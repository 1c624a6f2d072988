//! Moves files aside, in folders that are open, so that none of them can be replaced by a link to another one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Renamed files are numbered up to here, and by time after that.
const SMALL_NUMBERS: u128 = 20;
const ATTEMPTS: usize = 100;
/// The suffix of a renamed file.
const SUFFIX: &str = "sandbox-blocked";

/// Opens a folder. A link anywhere in the path is an error: these paths are real ones.
pub(super) fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Opens a folder in another one.
pub(super) fn open_inner(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

pub(super) fn exists(folder: impl AsFd, name: &OsStr) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Gives an entry a name that no program uses. `path` is for the answer only.
pub(super) fn move_aside(folder: impl AsFd, name: &OsStr, path: &Path) -> Option<PathBuf> {
    let unguessed = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    // A command may have taken all the small numbers in advance.
    let numbers = (1..=SMALL_NUMBERS).chain(std::iter::repeat_with(unguessed).take(ATTEMPTS));
    for number in numbers {
        let mut to = OsString::from(name);
        to.push(format!(".{SUFFIX}-{number}"));
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&folder, name, &folder, to.as_os_str(), flags) {
            Ok(()) => return Some(path.with_file_name(to)),
            Err(Errno::EXIST) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Whether a name was given by [`move_aside`]. One that only contains the suffix may have an ending that programs know.
pub(super) fn is_aside(name: &OsStr) -> bool {
    let number =
        name.to_str().and_then(|name| name.rsplit_once(&format!(".{SUFFIX}-"))).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Where an open folder is now; nothing if it was removed.
pub(super) fn place_of(folder: &OwnedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let stat = rustix::fs::fstat(folder).ok()?;
    let place = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
    (stat.st_nlink > 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_ends_with_the_suffix_was_moved_aside() {
        for (name, expected) in [
            (".envrc.sandbox-blocked-1", true),
            ("x.sandbox-blocked-17949000000000", true),
            ("evil.sandbox-blocked-1.toml", false),
            ("x.sandbox-blocked-", false),
            ("x.sandbox-blocked-1x", false),
            ("sandbox-blocked-1", false),
        ] {
            assert_eq!(is_aside(OsStr::new(name)), expected, "{name}");
        }
    }
}
