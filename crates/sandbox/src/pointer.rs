//! Reading the short files by which git finds the parts of a repository.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Longer than any path.
const MAX_BYTES: u64 = 8192;

/// The text of a pointer such as `.git` or `commondir`. Commands can put anything in its place: a pipe would never
/// end, a link could lead to a device.
pub(crate) fn read_pointer(path: &Path) -> Option<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_short = |meta: &std::fs::Metadata| meta.is_file() && meta.len() <= MAX_BYTES;
    file.metadata().ok().filter(is_short)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_short_regular_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("pointer"), "gitdir: x\n").unwrap();
        assert_eq!(read_pointer(&path("pointer")).as_deref(), Some("gitdir: x\n"));
        fs::write(path("long"), "x".repeat(9000)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        std::os::unix::fs::symlink(path("pointer"), path("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        for name in ["long", "device", "link", "pipe", "missing", "."] {
            assert_eq!(read_pointer(&path(name)), None, "{name}");
        }
    }
}
