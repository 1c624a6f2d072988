//! Devices that the user gives to commands, such as graphics cards.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Names below `/dev` that are never given: by them, a command could act as the user or as the system.
const NEVER: &[&str] = &[
    "autofs",
    "bsg",
    "btrfs-control",
    "bus",
    "console",
    "cpu",
    "cuse",
    "fuse",
    "hidraw*",
    "input",
    "kmem",
    "kmsg",
    "loop-control",
    "mapper",
    "mem",
    "mtd*",
    "net",
    "nvme*",
    "nvram",
    "port",
    "ptmx",
    "pts",
    "raw",
    "sg*",
    "shm",
    "snapshot",
    "tty*",
    "uhid",
    "uinput",
    "usb*",
    "userfaultfd",
    "vcs*",
    "vfio",
    "vhost*",
    "vsock",
    "watchdog*",
];
/// Nodes that a pattern may stand for, and how deep they are looked for.
const MAX_NODES: usize = 256;
const MAX_DEPTH: usize = 2;

/// Why a device cannot be given to commands; `None` if it can, or does not exist.
pub fn device_problem(pattern: &Path) -> Option<&'static str> {
    let Ok(below) = pattern.strip_prefix("/dev") else { return Some("not below /dev") };
    let mut parts = below.components();
    let Some(first) = parts.next().and_then(|part| part.as_os_str().to_str()) else {
        return Some("not a device");
    };
    if parts.any(|part| !matches!(part, std::path::Component::Normal(_))) || first == ".." {
        return Some("not a device");
    }
    // A pattern that could stand for one of them is refused as a whole.
    let overlaps = |known: &&str| matches(known, first) || matches(first, known.trim_end_matches('*'));
    if NEVER.iter().any(overlaps) {
        return Some("commands could use it to act outside the sandbox");
    }
    let nodes = nodes(pattern);
    let is_never = |path: &PathBuf| {
        let first = path.strip_prefix("/dev").ok().and_then(|below| below.iter().next()?.to_str());
        first.is_none_or(|first| NEVER.iter().any(|known| matches(known, first)))
    };
    if nodes.iter().any(is_never) {
        return Some("commands could use it to act outside the sandbox");
    }
    let is_disk = nodes.iter().any(|path| kind(path).is_some_and(|kind| kind.is_block_device()));
    is_disk.then_some("a disk")
}

/// The device nodes that patterns stand for now. A `*` can be in the last part of a path.
pub(crate) fn expand(patterns: &[PathBuf]) -> Vec<PathBuf> {
    let allowed = patterns.iter().filter(|pattern| device_problem(pattern).is_none());
    let mut all: Vec<PathBuf> = allowed.flat_map(|pattern| nodes(pattern)).collect();
    all.retain(|path| kind(path).is_some_and(|kind| kind.is_char_device()));
    all.sort();
    all.dedup();
    all.truncate(MAX_NODES);
    all
}

/// Everything that a pattern names, and everything in folders that it names.
fn nodes(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(last)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if last.contains('*') {
        let is_named = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| matches(last, name))
        };
        for path in entries(folder).filter(is_named) {
            collect(&path, 0, &mut found);
        }
    } else {
        collect(pattern, 0, &mut found);
    }
    found
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    match kind(path) {
        Some(kind) if kind.is_dir() && depth < MAX_DEPTH => {
            entries(path).for_each(|path| collect(&path, depth + 1, found));
        }
        Some(_) if found.len() < MAX_NODES => found.push(path.to_owned()),
        _ => {}
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn kind(path: &Path) -> Option<fs::FileType> {
    path.symlink_metadata().ok().map(|meta| meta.file_type())
}

/// Whether a name fits a pattern with one `*` at most.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((first, last)) => {
            name.len() >= first.len() + last.len() && name.starts_with(first) && name.ends_with(last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphics_cards_can_be_given_and_nothing_that_leads_out() {
        for allowed in
            ["/dev/dri", "/dev/dri/card0", "/dev/nvidia*", "/dev/kfd", "/dev/accel/accel0", "/dev/dxg"]
        {
            assert_eq!(device_problem(Path::new(allowed)), None, "{allowed}");
        }
        for refused in [
            "/dev",
            "/dev/",
            "/dev/*",
            "/dev/m*",
            "/dev/mem",
            "/dev/tty1",
            "/dev/tty*",
            "/dev/t*",
            "/dev/pts/0",
            "/dev/input/event0",
            "/dev/fuse",
            "/dev/../etc/shadow",
            "/dev/dri/../mem",
            "/etc/passwd",
            "dri",
            "/dev/vhost-vsock",
        ] {
            assert!(device_problem(Path::new(refused)).is_some(), "{refused}");
        }
        assert_eq!(
            expand(&["/dev/nul*".into(), "/dev/mem".into(), "/etc/passwd".into()]),
            [Path::new("/dev/null")]
        );
    }
}
