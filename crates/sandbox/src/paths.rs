//! The paths that a sandboxed command may write, must not see or must not change.

mod lists;
mod real;

pub use lists::START_UP_FILES;
pub(crate) use lists::{PROTECTED, PROTECTED_IN_GIT};

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::devices;
use crate::pointer::read_pointer;
use crate::{Grants, PathAccess, SandboxRequest};
use lists::{
    CACHES, GEMINI_SECRETS, OF_SYSTEM, OF_WINDOWS, PRIVATE_CACHE, SECRETS, SOCKETS, TOOLCHAINS, WATCHED,
};
use real::RealPaths;

/// A directory that sandboxed commands must not get.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("`{}` contains the home directory; a sandbox with write access to it would protect nothing", .0.display())]
    TooBroad(PathBuf),
    #[error("`{}` may contain secrets, so the sandbox hides it", .0.display())]
    Secret(PathBuf),
}

/// All relevant paths; real paths, except for those that do not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SandboxPaths {
    /// Trees and files that can be written, the workspace first.
    pub(crate) writable: Vec<PathBuf>,
    /// Folders for temporary files.
    pub(crate) temp: Vec<PathBuf>,
    /// Not to be read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Not to be changed, and not to be created if they do not exist.
    pub(crate) protected: Vec<PathBuf>,
    /// Paths at or below a protected one that the user allows to write.
    pub(crate) exempt: Vec<PathBuf>,
    /// Changes to these are reported.
    pub(crate) watched: Vec<PathBuf>,
    /// Folders that contain protected files and must not be renamed.
    pub(crate) pinned: Vec<PathBuf>,
    pub(crate) homes: Vec<PathBuf>,
    /// To be seen although something around them is covered.
    pub(crate) visible: Vec<PathBuf>,
    /// Folders of which commands get a copy of their own: what they create there is theirs, what exists is read-only.
    pub(crate) private: Vec<PathBuf>,
    /// The workspace and what the user allowed or granted: sockets in it may be meant for commands.
    pub(crate) open: Vec<PathBuf>,
    /// Hidden files with the copies to be seen in their place.
    pub(crate) replaced: Vec<(PathBuf, PathBuf)>,
    /// Devices that were given to commands.
    pub(crate) devices: Vec<PathBuf>,
    /// Files that can be read, with those to be seen in their place.
    pub(crate) overlaid: Vec<(PathBuf, PathBuf)>,
}

/// The caches below a home that commands can usually write, and what earlier ones left there.
pub fn caches_of_commands(home: &Path) -> impl Iterator<Item = PathBuf> {
    CACHES.iter().map(|cache| home.join(cache))
}

impl SandboxPaths {
    pub(crate) fn survey(request: &SandboxRequest) -> Result<Self, RootError> {
        let known = &RealPaths::default();
        let homes: Vec<PathBuf> = distinct(request.homes.iter().map(|home| known.real(home)));
        let roots = distinct(request.roots.iter().map(|root| known.real(root)));
        let allowed = distinct(request.allowed.iter().map(|path| known.real(path)));
        let mut hidden = hidden(&homes, &request.gemini_dir, known);
        for path in roots.iter().chain(&allowed) {
            refuse_broad(path, &homes)?;
        }
        let own = known.real(&request.gemini_dir);
        let more = distinct(request.grants.hidden.iter().map(|path| known.real(path)));
        let is_meant = |root: &Path| more.iter().any(|folder| root != folder && root.starts_with(folder));
        let is_secret = |root: &Path| {
            let is_listed = root.starts_with(&own) || hidden.iter().any(|path| root.starts_with(path));
            is_listed && !is_meant(root)
        };
        if let Some(secret) = roots.iter().find(|root| is_secret(root)) {
            return Err(RootError::Secret(secret.clone()));
        }
        hidden.extend(more.into_iter().filter(|path| !roots.contains(path)));
        let mut hidden = distinct(hidden.into_iter());
        hidden.retain(|path| !allowed.iter().any(|open| path.starts_with(open)));
        let mut places = Self { temp: temp(&request.temp, &homes, known), hidden, ..Self::default() };
        for root in &roots {
            places.add_root(root, &homes, known);
        }
        let caches = homes.iter().flat_map(|home| CACHES.iter().map(|cache| known.below(home, cache)));
        // A container has its own.
        let caches = caches.filter(|_| request.container.is_none());
        let caches = caches.filter(|cache| cache.exists() && refuse_broad(cache, &homes).is_ok());
        places.writable.extend(allowed.iter().cloned().chain(caches));
        places.writable = distinct(places.writable.drain(..));
        places.open = roots.iter().chain(&allowed).cloned().collect();
        places.private = private(&homes, &places, known);
        if request.container.is_some() {
            places.private.clear();
        }
        places.protect_homes(&homes, known);
        // An allowed folder around a protected file leaves it protected.
        let is_inside = |path: &&PathBuf| places.protected.iter().any(|kept| path.starts_with(kept));
        places.exempt = allowed.iter().filter(is_inside).cloned().collect();
        places.protected.retain(|path| !allowed.contains(path));
        places.homes = homes;
        places.grant(&request.grants, known);
        Ok(places)
    }

    /// Applies rights beyond the usual ones.
    fn grant(&mut self, grants: &Grants, known: &RealPaths) {
        self.visible = distinct(grants.visible.iter().map(|path| known.real(path)));
        self.open.extend(self.visible.iter().cloned());
        if grants.bare_home {
            let toolchains = self.homes.iter().flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name)));
            self.visible.extend(toolchains.map(|path| known.real(&path)).filter(|path| path.exists()));
            let kept = |path: &PathBuf| {
                let mut shown = self.visible.iter().chain(&self.writable);
                !self.homes.iter().any(|home| path.starts_with(home))
                    || shown.any(|seen| path.starts_with(seen))
            };
            self.hidden.retain(kept);
            self.hidden.extend(self.homes.iter().filter(|home| home.is_dir()).cloned());
        }
        let copies = grants.replaced.iter().map(|(path, copy)| (known.real(path), known.real(copy)));
        // Two of them may be links to the same file.
        let mut seen: HashSet<PathBuf> = HashSet::new();
        self.replaced = copies.filter(|(path, _)| seen.insert(path.clone())).collect();
        let overlaid = grants.overlaid.iter().map(|(path, copy)| (known.real(path), known.real(copy)));
        self.overlaid = overlaid.collect();
        self.devices = devices::expand(&grants.devices);
        let granted = distinct(grants.visible.iter().map(|path| known.real(path)));
        self.hidden.retain(|path| !granted.iter().any(|seen| path.starts_with(seen)));
        let open = distinct(grants.unprotected.iter().map(|path| known.real(path)));
        self.protected.retain(|path| !open.iter().any(|free| path.starts_with(free)));
        self.exempt.extend(open);
        if grants.read_only {
            // A workspace in a folder for temporary files would disappear.
            self.visible.append(&mut self.writable);
            self.pinned.clear();
            self.private.clear();
        }
    }

    /// The places outside in which commands can write. Folders for temporary files may be their own ones, but belong to
    /// everybody anyway; one with a home in it is not written.
    pub(crate) fn open_to_commands(&self) -> Vec<PathBuf> {
        let is_around_home = |temp: &&PathBuf| self.homes.iter().any(|home| home.starts_with(temp));
        let temp = self.temp.iter().filter(|temp| !is_around_home(temp));
        self.writable.iter().chain(&self.exempt).chain(temp).cloned().collect()
    }

    /// How a real path appears to commands, and the listed place that decides.
    pub(crate) fn access_to(&self, path: &Path) -> (PathAccess, Option<&Path>) {
        let below = |places: &[PathBuf]| {
            let around = places.iter().enumerate().filter(|(_, place)| path.starts_with(place));
            around.max_by_key(|(_, place)| depth(place)).map(|(index, place)| (depth(place), index))
        };
        let deep = |found: Option<(usize, usize)>| found.map(|(depth, _)| depth);
        let hidden = below(&self.hidden);
        if deep(hidden) > deep(below(&self.visible)).max(deep(below(&self.writable))) {
            return (PathAccess::Hidden, nth(&self.hidden, hidden));
        }
        let protected = below(&self.protected);
        if protected.is_some() {
            return (PathAccess::Protected, nth(&self.protected, protected));
        }
        // A home inside a folder for temporary files stays as it is.
        let (temp, home) = (below(&self.temp), deep(below(&self.homes)));
        let temp = temp.filter(|(temp, _)| home.is_none_or(|home| home < *temp));
        let written = below(&self.writable);
        if deep(written).max(deep(temp)).is_none() {
            let private = self.private.iter().find(|cache| path.starts_with(cache));
            // What is there already belongs to other programs.
            let is_own = |cache: &&PathBuf| {
                let first = path.strip_prefix(cache).ok().and_then(|inside| inside.components().next());
                first.is_none_or(|first| cache.join(first).symlink_metadata().is_err())
            };
            return match private.filter(is_own) {
                Some(cache) => (PathAccess::Writable, Some(cache)),
                None => (PathAccess::ReadOnly, None),
            };
        }
        let place =
            if deep(written) >= deep(temp) { nth(&self.writable, written) } else { nth(&self.temp, temp) };
        (PathAccess::Writable, place)
    }

    /// Protected paths that commands see. Those that are hidden too, or in a hidden folder, cannot be changed anyway.
    pub(crate) fn shown_protected(&self) -> impl Iterator<Item = &PathBuf> {
        // They were real paths: one that is a link now was replaced, and is not covered.
        let is_covered = |place: &Path| place.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
        let is_shown = move |path: &&PathBuf| match self.access_to(path) {
            (PathAccess::Hidden, place) => !place.is_some_and(is_covered),
            _ => true,
        };
        self.protected.iter().filter(is_shown)
    }

    fn add_root(&mut self, root: &Path, homes: &[PathBuf], known: &RealPaths) {
        self.writable.push(root.to_owned());
        self.protected.extend(PROTECTED.iter().map(|name| root.join(name)));
        self.watched.extend(WATCHED.iter().map(|name| root.join(name)));
        let entry = root.join(".git");
        if entry.is_file() {
            self.protected.push(entry);
        }
        let Some(git) = repository(root, homes, known) else { return };
        if !git.starts_with(root) {
            self.writable.push(git.clone());
        }
        self.protected.extend(PROTECTED_IN_GIT.iter().map(|name| git.join(name)));
        self.watched.push(git.join("info/attributes"));
        self.pinned.push(git);
    }

    /// Files that a shell, git or an editor reads at its start, where they can be written.
    fn protect_homes(&mut self, homes: &[PathBuf], known: &RealPaths) {
        let all = homes.iter().flat_map(|home| START_UP_FILES.iter().map(|name| known.below(home, name)));
        let is_inside =
            |path: &PathBuf| self.writable.iter().any(|tree| path != tree && path.starts_with(tree));
        let inside: Vec<PathBuf> = all.filter(is_inside).collect();
        self.protected.extend(inside);
        self.protected = distinct(self.protected.drain(..));
    }
}

/// A home, or a folder that contains one, is not a valid workspace.
pub(crate) fn refuse_broad(path: &Path, homes: &[PathBuf]) -> Result<(), RootError> {
    if path.parent().is_none() || homes.iter().any(|home| home.starts_with(path)) {
        return Err(RootError::TooBroad(path.to_owned()));
    }
    Ok(())
}

/// The folders for temporary files. A bad value of `TMPDIR` must not open a home.
fn temp(own: &Path, homes: &[PathBuf], known: &RealPaths) -> Vec<PathBuf> {
    let own = Some(known.real(own)).filter(|path| refuse_broad(path, homes).is_ok());
    let all = own.into_iter().chain(["/tmp", "/var/tmp"].map(|path| known.real(Path::new(path))));
    distinct(all.filter(|path| path.is_dir()))
}

fn hidden(homes: &[PathBuf], gemini_dir: &Path, known: &RealPaths) -> Vec<PathBuf> {
    // The superuser's home matters for a superuser whose home is elsewhere.
    let homes = distinct(homes.iter().cloned().chain([known.real(Path::new("/root"))]));
    let of_homes = homes.iter().flat_map(|home| SECRETS.iter().map(|name| known.below(home, name)));
    let gemini_dir = known.real(gemini_dir);
    let own = GEMINI_SECRETS.iter().map(|name| known.below(&gemini_dir, name));
    let own = own.chain(extension_secrets(&gemini_dir));
    let fixed = SOCKETS.iter().chain(OF_SYSTEM).map(|path| known.real(Path::new(path)));
    let mut all: Vec<PathBuf> = of_homes.chain(own).chain(fixed).collect();
    all.extend(homes.iter().flat_map(|home| histories(home, known)));
    all.extend(windows_secrets(Path::new("/mnt")));
    all
}

/// Caches that are replaced, unless they can be written as a whole.
fn private(homes: &[PathBuf], places: &SandboxPaths, known: &RealPaths) -> Vec<PathBuf> {
    let all = homes.iter().map(|home| known.below(home, PRIVATE_CACHE));
    let is_whole = |cache: &PathBuf| places.writable.iter().any(|tree| cache.starts_with(tree));
    let is_own = |cache: &PathBuf| homes.iter().any(|home| cache.starts_with(home));
    distinct(all.filter(|cache| !is_whole(cache) && is_own(cache)))
}

/// The variables of extensions, with keys among them.
fn extension_secrets(gemini_dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(gemini_dir.join("extensions")).into_iter().flatten().flatten();
    let real = |path: PathBuf| fs::canonicalize(path).ok();
    folders.filter_map(|folder| real(folder.path().join(".env"))).collect()
}

/// Whether a name in a home is that of a file with what was typed into a shell or an interpreter.
pub(crate) fn is_history(name: &str) -> bool {
    name.starts_with('.') && name.ends_with("_history")
}

/// What was typed into shells and interpreters.
fn histories(home: &Path, known: &RealPaths) -> Vec<PathBuf> {
    let names = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let found = names.filter_map(|name| name.to_str().filter(|name| is_history(name)).map(str::to_owned));
    found.map(|name| known.below(home, &name)).collect()
}

/// The same secrets of users of Windows, in the Windows Subsystem for Linux.
fn windows_secrets(drives: &Path) -> Vec<PathBuf> {
    let entries =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let users = entries(drives).flat_map(|drive| entries(&drive.join("Users")).collect::<Vec<_>>());
    users.flat_map(|user| OF_WINDOWS.iter().map(move |name| user.join(name))).collect()
}

/// The folder of the repository that a directory belongs to. Git must write it to commit, even if the
/// directory is only a part of the repository or one of its work trees.
fn repository(root: &Path, homes: &[PathBuf], known: &RealPaths) -> Option<PathBuf> {
    let inside = root.ancestors().take_while(|folder| refuse_broad(folder, homes).is_ok());
    let entry = inside.map(|folder| folder.join(".git")).find(|entry| entry.exists())?;
    if entry.is_dir() {
        return (entry.starts_with(root) || entry.join("HEAD").is_file()).then(|| known.real(&entry));
    }
    let pointer = read_pointer(&entry)?;
    let folder = known.real(&entry.parent()?.join(pointer.strip_prefix("gitdir:")?.trim()));
    // A `.git` file could name any folder; the folder of a real work tree links back to it.
    let back = read_pointer(&folder.join("gitdir"))?;
    if known.real(&folder.join(back.trim())) != known.real(&entry) {
        return None;
    }
    let common = read_pointer(&folder.join("commondir"))?;
    let common = known.real(&folder.join(common.trim()));
    (common.join("HEAD").is_file() && refuse_broad(&common, homes).is_ok()).then_some(common)
}

fn nth(places: &[PathBuf], found: Option<(usize, usize)>) -> Option<&Path> {
    found.and_then(|(_, index)| places.get(index)).map(PathBuf::as_path)
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    // Comparing hundreds of paths pairwise, or by component, would take much of a short run.
    let mut seen: HashSet<OsString> = HashSet::with_capacity(paths.size_hint().0);
    paths.filter(|path| path.is_absolute() && seen.insert(path.as_os_str().to_owned())).collect()
}
