//! `bwrap` provides a private view of the file system on systems that let it, but not us, create namespaces.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pollux_config::search_path::SearchPath;

use crate::mounts::{Mount, Placed};
use crate::own_program::INSIDE;
use crate::paths::SandboxPaths;
use crate::{LevelError, SandboxRequest};

/// Finds it in a place that neither commands nor other users can write, and not in a home directory.
pub(crate) fn find(places: &SandboxPaths, request: &SandboxRequest) -> Result<PathBuf, LevelError> {
    let open: Vec<PathBuf> =
        places.writable.iter().chain(&places.temp).chain(&places.homes).cloned().collect();
    SearchPath::new(Some(OsStr::new(&request.search_path)), &open)
        .find_guarded("bwrap")
        .ok_or(LevelError::NotInstalled("bwrap"))
}

/// The options to start a holder. `own` is the program's own file.
pub(crate) fn arguments(program: &Path, mounts: &[Placed], network: bool, own: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
        .into_iter()
        .chain(["--as-pid-1", "--cap-drop", "ALL"])
        .map(OsString::from)
        .collect();
    // A setuid `bwrap` cannot do this, and the system call filter does it too.
    let is_setuid = fs::metadata(program).is_ok_and(|meta| meta.mode() & 0o4000 != 0);
    if !is_setuid {
        arguments.push("--disable-userns".into());
    }
    if !network {
        arguments.push("--unshare-net".into());
    }
    arguments.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(OsString::from));
    // bubblewrap checks only the folder, which is read-only, not the files in it, which root can write.
    arguments.extend(["--ro-bind", "/proc/sys", "/proc/sys"].map(OsString::from));
    // Empty folders are sealed last: until then, mount points are created in them for visible paths.
    let mut seals: Vec<OsString> = Vec::new();
    for Placed { path, mount, .. } in mounts {
        let path = path.clone().into_os_string();
        match mount {
            Mount::ReadOnly => arguments.extend(["--ro-bind".into(), path.clone(), path]),
            Mount::Writable => arguments.extend(["--bind".into(), path.clone(), path]),
            Mount::From(source) => {
                arguments.extend(["--bind".into(), source.clone().into_os_string(), path]);
            }
            // This program holds the session, so it is always there.
            Mount::Gone | Mount::Own(_) => {}
            Mount::Device => arguments.extend(["--dev-bind".into(), path.clone(), path]),
            Mount::Copy(source) => {
                arguments.extend(["--ro-bind".into(), source.clone().into_os_string(), path]);
            }
            Mount::Empty | Mount::Frame => {
                arguments.extend(["--tmpfs".into(), path.clone()]);
                seals.extend(["--remount-ro".into(), path]);
            }
            // A device that cannot be opened on this mount.
            Mount::Blocked => arguments.extend(["--ro-bind".into(), "/dev/null".into(), path]),
        }
    }
    arguments.extend(["--ro-bind".into(), own.into(), INSIDE.into()]);
    arguments.extend(seals);
    arguments.extend(["--chdir", "/", "--", INSIDE].map(OsString::from));
    arguments
}
