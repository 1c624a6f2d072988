//! The folder of a task: one that its client names, or a new one of its own. Each owner has a folder below the root.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use pollux_config::files::{self, Mode};
use uuid::Uuid;

use crate::error::{A2aError, ErrorKind};
use crate::options::Config;
use crate::store::is_task_id;

/// Notes on who used which folder last. No owner has such a name.
const USED: &str = ".used";
/// How folders begin that are being deleted.
const DISCARDED: &str = ".discarded-";
/// How folders for archives begin, for the same reason.
pub(crate) const SCRATCH: &str = ".scratch-";

/// The workspace of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub(crate) path: PathBuf,
    /// It was made for this task and goes with it.
    pub(crate) is_own: bool,
}

/// The folder of a new task, which exists afterwards. `wished` comes from the client.
pub(crate) fn open(
    config: &Config,
    owner: &str,
    task: &str,
    wished: Option<&str>,
) -> Result<Workspace, A2aError> {
    if let Some(wished) = wished.filter(|path| !path.is_empty()) {
        return Ok(Workspace { path: named(config, owner, Path::new(wished))?, is_own: false });
    }
    if let Some(path) = &config.workspace {
        let path = path.canonicalize().map_err(|_| unusable("the server's workspace does not exist"))?;
        return Ok(Workspace { path, is_own: false });
    }
    Ok(Workspace { path: own(config, owner, task)?, is_own: true })
}

/// The folder of its own that a task has on this machine, which exists afterwards.
pub(crate) fn own(config: &Config, owner: &str, task: &str) -> Result<PathBuf, A2aError> {
    let made = of_owner(&config.workspace_root, owner).and_then(|root| plain_folder(root.join(task)));
    made.map_err(|_| A2aError::new(ErrorKind::Internal, "could not create the workspace"))
}

/// The folder of an owner, which exists afterwards, without links.
fn of_owner(root: &Path, owner: &str) -> io::Result<PathBuf> {
    create(root)?;
    plain_folder(root.canonicalize()?.join(owner))
}

/// Creates a folder; a link in its place is an error.
fn plain_folder(path: PathBuf) -> io::Result<PathBuf> {
    create(&path)?;
    let is_plain = fs::symlink_metadata(&path)?.is_dir();
    if is_plain { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// The holder that used the own folder of a task last on this machine.
pub(crate) fn used(config: &Config, task: &str) -> Option<u64> {
    let text = files::read_text(&config.workspace_root.join(USED).join(task)).ok().flatten()?;
    text.trim().parse().ok()
}

/// Remembers that a holder uses the own folder of a task. It is noted outside of all workspaces.
pub(crate) fn set_used(config: &Config, task: &str, epoch: u64) -> Result<(), A2aError> {
    let file = config.workspace_root.join(USED).join(task);
    files::replace(&file, epoch.to_string().as_bytes(), Mode::Private)
        .map_err(|_| A2aError::new(ErrorKind::Internal, "could not record the workspace's holder"))
}

/// Tasks whose own folders were used on this machine, and not for so long.
pub(crate) fn unused(config: &Config, age: Duration) -> Vec<String> {
    let notes = fs::read_dir(config.workspace_root.join(USED)).into_iter().flatten().flatten();
    let is_old = |note: &fs::DirEntry| {
        let changed = note.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?;
        Some(changed.elapsed().ok()? >= age)
    };
    let old = notes.filter(|note| is_old(note) == Some(true));
    old.filter_map(|note| note.file_name().into_string().ok()).filter(|id| is_task_id(id)).collect()
}

/// The own folder of a task was used until now.
pub(crate) fn touch_used(config: &Config, task: &str) {
    let note = fs::File::options().write(true).open(config.workspace_root.join(USED).join(task));
    let _ = note.and_then(|note| note.set_modified(SystemTime::now()));
}

/// Deletes the own folder of a task, and only that: links in it, or in its place, are removed and not followed.
pub(crate) fn delete_own(config: &Config, owner: &str, task: &str) -> io::Result<()> {
    let folder = config.workspace_root.canonicalize()?.join(owner);
    if !fs::symlink_metadata(&folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // First: half a folder must not pass for the newest one.
    let _ = fs::remove_file(config.workspace_root.join(USED).join(task));
    let place = folder.join(task);
    // Deleting takes a while, in which the task may come back.
    let discarded = config.workspace_root.join(format!("{DISCARDED}{}", Uuid::new_v4().simple()));
    let moved = match fs::symlink_metadata(&place) {
        Ok(metadata) if metadata.is_dir() => fs::rename(&place, &discarded),
        Ok(_) => fs::remove_file(&place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    if moved.is_err() {
        // Tried again later. No holder has this number.
        let _ = set_used(config, task, 0);
    }
    remove_discarded(&config.workspace_root);
    moved
}

/// Deletes folders that are not needed any more, also those that a process before could not delete.
fn remove_discarded(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let is_discarded = entry.file_name().as_encoded_bytes().starts_with(DISCARDED.as_bytes());
        if is_discarded && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            if fs::remove_dir_all(&path).is_err() {
                open_up(&path);
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

/// Lets folders be deleted that a command has closed to its own user.
fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Bytes that a folder takes on the disk; links are not followed.
pub(crate) fn size(folder: &Path) -> u64 {
    let (mut bytes, mut folders) = (0_u64, vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    bytes
}

/// A folder that a client names, with its links resolved. It is below that of its owner, or below what the operator
/// opened for clients; never a folder that has those of others in it.
fn named(config: &Config, owner: &str, wished: &Path) -> Result<PathBuf, A2aError> {
    let outside = || unusable("`workspacePath` is outside the folders that this client may use");
    let is_clean = wished.is_absolute()
        && wished.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !is_clean {
        return Err(unusable("`workspacePath` must be an absolute path without `..`"));
    }
    let own = of_owner(&config.workspace_root, owner).map_err(|_| outside())?;
    let all = own.parent().map(Path::to_path_buf).unwrap_or_default();
    let opened = config.allowed_root.as_ref().and_then(|root| match config.has_owners {
        true => of_owner(root, owner).ok(),
        false => root.canonicalize().ok(),
    });
    let of_server = config.workspace.as_ref().and_then(|path| path.canonicalize().ok());
    let is_below = |path: &Path, root: &Path| path.starts_with(root) && path != root;
    let is_allowed = |path: &Path| {
        let is_opened = opened.as_ref().is_some_and(|root| is_below(path, root));
        let is_clear = !path.starts_with(&all) && !all.starts_with(path);
        is_below(path, &own) || is_opened && is_clear || of_server.as_deref() == Some(path)
    };
    // What exists of it decides where the rest would be created.
    let exists = wished.ancestors().find(|path| fs::symlink_metadata(path).is_ok()).ok_or_else(outside)?;
    let real = exists.canonicalize().map_err(|_| outside())?;
    let rest = wished.strip_prefix(exists).map_err(|_| outside())?;
    let path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    if !is_allowed(&path) {
        return Err(outside());
    }
    create(&path).map_err(|_| unusable("could not create `workspacePath`"))?;
    let path = path.canonicalize().map_err(|_| outside())?;
    if is_allowed(&path) { Ok(path) } else { Err(outside()) }
}

fn unusable(why: &str) -> A2aError {
    A2aError::params(why)
}

/// Creates a folder and its parents, for this user only.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::os::unix::fs::symlink;

    use pollux_config::env::Env;

    use super::*;
    use crate::options::ServeOptions;

    fn config(base: &Path, options: ServeOptions, vars: &[(&str, &Path)], owners: usize) -> Config {
        let vars = vars.iter().map(|(name, path)| ((*name).to_owned(), path.to_str().unwrap().to_owned()));
        Config::new(&options, &Env::new(vars, base.to_path_buf()), owners).unwrap()
    }

    fn with_root(root: &Path) -> ServeOptions {
        ServeOptions { workspace_root: Some(root.to_path_buf()), ..ServeOptions::default() }
    }

    #[test]
    fn folders_outside_of_the_owners_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, elsewhere) = (base.join("root"), base.join("elsewhere"));
        let anna = root.join("anna");
        fs::create_dir_all(anna.join("inside")).unwrap();
        fs::create_dir_all(root.join("ben/secret")).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        symlink(&elsewhere, anna.join("out")).unwrap();
        symlink(anna.join("inside"), anna.join("in")).unwrap();
        symlink(root.join("ben"), anna.join("ben")).unwrap();
        let config = config(&base, with_root(&root), &[], 2);
        let open = |path: &Path| open(&config, "anna", "t1", Some(path.to_str().unwrap())).map(|it| it.path);
        assert_eq!(open(&anna.join("inside")).unwrap(), anna.join("inside"));
        assert_eq!(open(&anna.join("in/new/deep")).unwrap(), anna.join("inside/new/deep"));
        for wrong in [
            elsewhere.clone(),
            root.clone(),
            anna.clone(),
            root.join("ben"),
            root.join("ben/secret"),
            root.join("ben/new"),
            root.join("new"),
            anna.join("ben"),
            anna.join("ben/secret"),
            anna.join("out"),
            anna.join("out/new"),
            anna.join("inside/../../../elsewhere"),
            PathBuf::from("relative"),
            PathBuf::from("/"),
            base.clone(),
            base.join("root2"),
            root.join(USED),
        ] {
            assert!(open(&wrong).is_err(), "{}", wrong.display());
        }
        assert!(!elsewhere.join("new").exists() && !base.join("root2").exists());
        assert!(!root.join("ben/new").exists() && !root.join("new").exists());
    }

    #[test]
    fn the_operator_can_open_another_folder_but_not_those_of_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let projects = base.join(".gemini/tmp");
        fs::create_dir_all(projects.join("a2a-workspaces/ben/secret")).unwrap();
        fs::create_dir_all(base.join("project")).unwrap();
        let vars: &[(&str, &Path)] = &[("HOME", &base), ("CODER_AGENT_ALLOWED_ROOT", &base)];
        for (owners, is_allowed) in [(1, true), (2, false)] {
            let config = config(&base, ServeOptions::default(), vars, owners);
            let open = |path: PathBuf| open(&config, "anna", "t1", Some(path.to_str().unwrap()));
            assert_eq!(open(base.join("project")).is_ok(), is_allowed, "owners have folders of their own");
            for wrong in
                ["", ".gemini", ".gemini/tmp/a2a-workspaces", ".gemini/tmp/a2a-workspaces/ben/secret"]
            {
                assert!(open(base.join(wrong)).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn a_folder_is_deleted_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let config = config(&base, with_root(&base.join("root")), &[], 0);
        let outside = base.join("outside");
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        let place = own(&config, "local", "t1").unwrap();
        fs::create_dir_all(place.join("closed/deep")).unwrap();
        fs::write(place.join("closed/deep/file"), "x".repeat(10_000)).unwrap();
        symlink(&outside, place.join("closed/link")).unwrap();
        assert!((10_000..1_000_000).contains(&size(&config.workspace_root)));
        fs::set_permissions(place.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        set_used(&config, "t1", 3).unwrap();
        assert!(unused(&config, Duration::from_secs(600)).is_empty());
        let note = config.workspace_root.join(USED).join("t1");
        let old = SystemTime::now() - Duration::from_secs(601);
        fs::File::options().write(true).open(&note).unwrap().set_modified(old).unwrap();
        assert_eq!(unused(&config, Duration::from_secs(600)), ["t1"]);
        delete_own(&config, "local", "t1").unwrap();
        assert!(!place.exists() && outside.join("precious").exists());
        let left: Vec<_> =
            fs::read_dir(&config.workspace_root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(used(&config, "t1"), None, "another server's copy is not taken for this one");
        // A link in place of the folder, and in place of the owner's.
        symlink(&outside, &place).unwrap();
        delete_own(&config, "local", "t1").unwrap();
        assert!(fs::symlink_metadata(&place).is_err());
        fs::remove_dir(place.parent().unwrap()).unwrap();
        fs::create_dir_all(outside.join("t1")).unwrap();
        symlink(&outside, place.parent().unwrap()).unwrap();
        assert!(delete_own(&config, "local", "t1").is_err());
        assert!(outside.join("t1").exists() && outside.join("precious").exists());
    }

    #[test]
    fn a_task_without_a_wish_gets_a_private_folder() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), with_root(&dir.path().join("r")), &[], 0);
        let workspace = open(&config, "local", "t1", None).unwrap();
        assert!(workspace.is_own && workspace.path.ends_with("r/local/t1"));
        assert_eq!(fs::metadata(&workspace.path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir(&workspace.path).unwrap();
        symlink("/", &workspace.path).unwrap();
        assert!(open(&config, "local", "t1", None).is_err(), "a link in its place is not followed");
        assert_eq!(used(&config, "t1"), None);
        set_used(&config, "t1", 7).unwrap();
        assert_eq!(used(&config, "t1"), Some(7));
    }
}
