//! This program's own file inside a sandbox. ssh and published ports need it there, even if its folder is hidden: it
//! may be among temporary files, or in a home that is not shown.

use std::fs;
use std::path::{Path, PathBuf};

use crate::identity::Identity;

/// Where commands see it.
pub(crate) const INSIDE: &str = "/run/pollux/pollux";
const RUNNING: &str = "/proc/self/exe";

/// Its path outside; `None` if another file is there by now.
pub(crate) fn file() -> Option<PathBuf> {
    let path = fs::read_link(RUNNING).ok()?;
    (Identity::of(&path)? == identity()?).then_some(path)
}

/// Like [`file`], for a view that Pollux builds itself: such a view cannot create `/run`.
pub(crate) fn file_to_show() -> Option<PathBuf> {
    file().filter(|_| Path::new("/run").symlink_metadata().is_ok_and(|meta| meta.is_dir()))
}

/// The identity of the running program.
pub(crate) fn identity() -> Option<Identity> {
    fs::metadata(RUNNING).ok().map(|meta| Identity::from(&meta))
}
