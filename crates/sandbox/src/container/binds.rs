//! What of this machine appears inside a container, and the mounts that a user may add.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use super::ContainerError;
use super::plan::Bind;
use crate::paths::{SandboxPaths, refuse_broad};

/// Where the user's folder for a container's home appears.
pub(crate) const HOME: &str = "/cache/home";
/// Where this program, its libraries and its socket appear.
pub(crate) const OWN: &str = "/run/pollux";

/// Places of this machine that are never mounted.
const NEVER: &[&str] = &["/proc", "/sys", "/dev", "/run", "/var/run"];
/// Places whose content as a whole is not mounted; a part of it may be.
const NOT_WHOLE: &[&str] = &["/etc", "/var", "/home", "/root", "/usr", "/boot"];
/// Places inside that belong to the container.
const OF_CONTAINER: &[&str] = &["/proc", "/sys", "/dev", "/run", "/cache", "/tmp"];

/// What appears inside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Visible {
    /// Parents first; every target once.
    pub(crate) binds: Vec<Bind>,
    /// Folders that appear empty.
    pub(crate) empty: Vec<PathBuf>,
}

/// Everything of the workspace and the user's own wishes. Reads the disk to include new files.
pub(crate) fn visible(
    places: &SandboxPaths,
    roots: &[PathBuf],
    folders: [&Path; 2],
    wished: &[Bind],
) -> Visible {
    let [scratch, home] = folders;
    // They were real paths: one that is a link now was replaced.
    let is_real = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
    let same = |path: &PathBuf, writable| Bind { source: path.clone(), target: path.clone(), writable };
    let mut binds = vec![
        Bind { source: scratch.to_owned(), target: "/tmp".into(), writable: true },
        Bind { source: home.to_owned(), target: HOME.into(), writable: true },
    ];
    binds.extend(wished.iter().cloned());
    binds.extend(roots.iter().filter(is_real).map(|path| same(path, false)));
    binds.extend(places.writable.iter().filter(is_real).map(|path| same(path, true)));
    // A mount cannot be renamed.
    binds.extend(places.pinned.iter().filter(is_real).map(|path| same(path, true)));
    binds.extend(places.visible.iter().filter(is_real).map(|path| same(path, false)));
    binds.extend(places.shown_protected().filter(is_real).map(|path| same(path, false)));
    let mut all: Vec<Bind> = Vec::new();
    for bind in binds {
        all.retain(|known| known.target != bind.target);
        all.push(bind);
    }
    let mut empty = Vec::new();
    for hidden in places.hidden.iter().filter(is_real) {
        let is_shown = |bind: &&Bind| bind.source == bind.target && hidden.starts_with(&bind.source);
        let around = all.iter().filter(is_shown).max_by_key(|bind| bind.source.components().count());
        // What is named itself was granted.
        if around.is_none_or(|bind| bind.source == *hidden) {
            continue;
        }
        if hidden.is_dir() {
            empty.push(hidden.clone());
        } else {
            all.push(Bind { source: "/dev/null".into(), target: hidden.clone(), writable: false });
        }
    }
    // A protected file can only be seen where something around it is.
    let seen: Vec<PathBuf> = roots.iter().chain(&places.writable).chain(&places.visible).cloned().collect();
    let is_needed =
        |bind: &Bind| bind.source != bind.target || seen.iter().any(|path| bind.target.starts_with(path));
    all.retain(is_needed);
    all.sort_by_key(|bind| bind.target.components().count());
    Visible { binds: all, empty }
}

/// Reads `SANDBOX_MOUNTS` and refuses what would open more than a container should.
pub(crate) fn wished(
    text: &str,
    places: &SandboxPaths,
    roots: &[PathBuf],
    own: &Path,
) -> Result<Vec<Bind>, ContainerError> {
    let specs = text.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    let read = |spec: &str| {
        parse(spec)
            .and_then(|bind| checked_source(bind, places, own))
            .and_then(|bind| checked_target(bind, places, roots))
            .map_err(|why| ContainerError::Mount { spec: spec.to_owned(), why })
    };
    specs.map(read).collect()
}

fn parse(spec: &str) -> Result<Bind, String> {
    let mut parts = spec.split(':');
    let source = PathBuf::from(parts.next().unwrap_or_default());
    let target = parts.next().map_or_else(|| source.clone(), PathBuf::from);
    let writable = match parts.next() {
        None | Some("ro") => false,
        Some("rw") => true,
        Some(other) => return Err(format!("unknown option `{other}`")),
    };
    if parts.next().is_some() {
        return Err("too many colons".to_owned());
    }
    for path in [&source, &target] {
        let is_plain =
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !is_plain {
            return Err(format!("`{}` is not an absolute path", path.display()));
        }
    }
    Ok(Bind { source, target, writable })
}

fn checked_source(bind: Bind, places: &SandboxPaths, own: &Path) -> Result<Bind, String> {
    let source = fs::canonicalize(&bind.source).map_err(|error| error.to_string())?;
    let kind = fs::metadata(&source).map_err(|error| error.to_string())?.file_type();
    let shown = source.display();
    if kind.is_socket() {
        return Err(format!("`{shown}` is a socket; use `--sandbox-allow socket:{shown}`"));
    }
    if !kind.is_dir() && !kind.is_file() {
        return Err(format!("`{shown}` is a device"));
    }
    refuse_broad(&source, &places.homes).map_err(|_| format!("`{shown}` contains the home directory"))?;
    let is_below = |places: &[&str]| places.iter().any(|place| source.starts_with(place));
    if is_below(NEVER) || NOT_WHOLE.iter().any(|place| source == Path::new(place)) {
        return Err(format!("`{shown}` belongs to the system"));
    }
    let own = fs::canonicalize(own).unwrap_or_else(|_| own.to_owned());
    let secret = places.hidden.iter().find(|hidden| {
        source.starts_with(hidden) || (hidden.starts_with(&source) && hidden.symlink_metadata().is_ok())
    });
    if source.starts_with(&own) || own.starts_with(&source) {
        return Err(format!("`{}` contains settings and keys of Pollux", own.display()));
    }
    if let Some(secret) = secret {
        let secret = secret.display();
        return Err(format!("`{secret}` may contain secrets; use `--sandbox-allow read:{secret}`"));
    }
    Ok(Bind { source, ..bind })
}

fn checked_target(bind: Bind, places: &SandboxPaths, roots: &[PathBuf]) -> Result<Bind, String> {
    let target = &bind.target;
    let shown = target.display();
    let is_of_container =
        OF_CONTAINER.iter().any(|place| target.starts_with(place) || Path::new(place).starts_with(target));
    // A workspace below `/tmp` is there too.
    if is_of_container && !(bind.source == *target && target.starts_with("/tmp/")) {
        return Err(format!("`{shown}` belongs to the container"));
    }
    let covers = |path: &PathBuf| path.starts_with(target);
    if roots.iter().any(covers) {
        return Err(format!("`{shown}` would cover the workspace"));
    }
    if places.protected.iter().any(|path| covers(path) || target.starts_with(path)) {
        return Err(format!("`{shown}` is protected"));
    }
    Ok(bind)
}

#[cfg(test)]
mod tests;
