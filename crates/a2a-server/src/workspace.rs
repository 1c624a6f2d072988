//! The folder of a task: below the root, or a new one of its own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use crate::error::{A2aError, ErrorKind};
use crate::options::Config;

/// The workspace of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub(crate) path: PathBuf,
    /// It was made for this task and goes with it.
    pub(crate) is_own: bool,
}

/// The folder of a new task, which exists afterwards. `wished` comes from the client.
pub(crate) fn open(config: &Config, task: &str, wished: Option<&str>) -> Result<Workspace, A2aError> {
    if let Some(wished) = wished.filter(|path| !path.is_empty()) {
        let path = below(&config.allowed_root, Path::new(wished))?;
        return Ok(Workspace { path, is_own: false });
    }
    if let Some(path) = &config.workspace {
        let path = path.canonicalize().map_err(|_| unusable("the server's workspace does not exist"))?;
        return Ok(Workspace { path, is_own: false });
    }
    Ok(Workspace { path: own(config, task)?, is_own: true })
}

/// The folder of its own that a task has on this machine, which exists afterwards.
pub(crate) fn own(config: &Config, task: &str) -> Result<PathBuf, A2aError> {
    let made = create(&config.workspace_root).and_then(|()| {
        let root = config.workspace_root.canonicalize()?;
        let path = root.join(task);
        create(&path)?;
        let is_plain = fs::symlink_metadata(&path)?.is_dir();
        if is_plain { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) }
    });
    made.map_err(|_| A2aError::new(ErrorKind::Internal, "could not create the workspace"))
}

/// A folder that a client names, with its links resolved.
fn below(root: &Path, wished: &Path) -> Result<PathBuf, A2aError> {
    let outside = || unusable("`workspacePath` is outside the allowed folder");
    let is_clean = wished.is_absolute()
        && wished.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !is_clean {
        return Err(unusable("`workspacePath` must be an absolute path without `..`"));
    }
    let root = root.canonicalize().map_err(|_| outside())?;
    // What exists of it decides where the rest would be created.
    let exists = wished.ancestors().find(|path| fs::symlink_metadata(path).is_ok()).ok_or_else(outside)?;
    let real = exists.canonicalize().map_err(|_| outside())?;
    let rest = wished.strip_prefix(exists).map_err(|_| outside())?;
    if !real.starts_with(&root) {
        return Err(outside());
    }
    let path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    create(&path).map_err(|_| unusable("could not create `workspacePath`"))?;
    let path = path.canonicalize().map_err(|_| outside())?;
    if path.starts_with(&root) { Ok(path) } else { Err(outside()) }
}

fn unusable(why: &str) -> A2aError {
    A2aError::params(why)
}

/// Creates a folder and its parents, for this user only.
fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pollux_config::env::Env;

    use super::*;
    use crate::options::ServeOptions;

    #[test]
    fn folders_outside_of_the_root_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, elsewhere) = (base.join("root"), base.join("elsewhere"));
        fs::create_dir_all(root.join("inside")).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        symlink(&elsewhere, root.join("out")).unwrap();
        symlink(root.join("inside"), root.join("in")).unwrap();
        let options = ServeOptions { workspace_root: Some(root.clone()), ..ServeOptions::default() };
        let env = Env::new(std::iter::empty::<(String, String)>(), base.clone());
        let config = Config::new(&options, &env, false).unwrap();
        let open = |path: &Path| open(&config, "t1", Some(path.to_str().unwrap())).map(|it| it.path);
        assert_eq!(open(&root.join("inside")).unwrap(), root.join("inside"));
        assert_eq!(open(&root.join("in/new/deep")).unwrap(), root.join("inside/new/deep"));
        for wrong in [
            elsewhere.clone(),
            root.join("out"),
            root.join("out/new"),
            root.join("inside/../../elsewhere"),
            PathBuf::from("relative"),
            PathBuf::from("/"),
            base.join("root2"),
        ] {
            assert!(open(&wrong).is_err(), "{}", wrong.display());
        }
        assert!(!elsewhere.join("new").exists() && !base.join("root2").exists());
    }

    #[test]
    fn a_task_without_a_wish_gets_a_private_folder() {
        let dir = tempfile::tempdir().unwrap();
        let options = ServeOptions { workspace_root: Some(dir.path().join("r")), ..ServeOptions::default() };
        let env = Env::new(std::iter::empty::<(String, String)>(), dir.path().to_path_buf());
        let config = Config::new(&options, &env, false).unwrap();
        let workspace = open(&config, "t1", None).unwrap();
        assert!(workspace.is_own && workspace.path.ends_with("r/t1"));
        assert_eq!(fs::metadata(&workspace.path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir(&workspace.path).unwrap();
        symlink("/", &workspace.path).unwrap();
        assert!(open(&config, "t1", None).is_err(), "a link in its place is not followed");
    }
}
