//! Programs that Pollux itself starts by name: git, clipboards, browsers, editors.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;
use pollux_sandbox::caches_of_commands;

fn search_path(env: &Env) -> SearchPath {
    let open: Vec<PathBuf> =
        caches(env).chain([env.cwd().to_owned()]).chain(env.lent().iter().cloned()).collect();
    SearchPath::new(env.get("PATH").map(OsStr::new), &open)
}

/// The caches that sandboxed commands can write.
pub fn caches(env: &Env) -> impl Iterator<Item = PathBuf> {
    env.non_empty("HOME").map(Path::new).into_iter().flat_map(caches_of_commands)
}

/// Finds a program on `PATH`, skipping folders of the workspace and others that commands or other users can write. Start
/// it with [`with_safe_path`], because many helpers are scripts that start other programs.
pub fn helper(name: &str, env: &Env) -> Option<PathBuf> {
    search_path(env).find_safe(name)
}

/// An environment for a helper: `PATH` without the folders that [`helper`] skips.
pub fn with_safe_path<S: Into<String>>(
    environment: impl IntoIterator<Item = (S, S)>,
    env: &Env,
) -> Vec<(String, String)> {
    let safe = search_path(env).for_helpers().to_string_lossy().into_owned();
    let given = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
    given.filter(|(name, _)| name != "PATH").chain([("PATH".to_owned(), safe)]).collect()
}

/// The path of git, or a path that does not exist.
pub fn git(env: &Env) -> PathBuf {
    helper("git", env).unwrap_or_else(|| PathBuf::from("/usr/bin/git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_never_a_program_of_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        for folder in ["work/bin", "own"] {
            std::fs::create_dir_all(place(folder)).unwrap();
            std::os::unix::fs::symlink("/bin/true", place(folder).join("xclip")).unwrap();
        }
        std::fs::create_dir(place("lent")).unwrap();
        std::os::unix::fs::symlink("/bin/true", place("lent/xclip")).unwrap();
        let folders = ["work/bin", "lent", "own"].map(|name| place(name).display().to_string());
        let path = format!("{}::.:{}:{}", folders[0], folders[1], folders[2]);
        let env = Env::new([("PATH".to_owned(), path)], place("work")).with_lent([place("lent")]);
        assert_eq!(helper("xclip", &env), Some(place("own/xclip")));
        assert_eq!(helper("xsel", &env), None);
        // A home that is the workspace is no exception.
        let home = place("work").display().to_string();
        let cached = place("work/.cache/pypoetry/virtualenvs/x/bin");
        std::fs::create_dir_all(&cached).unwrap();
        std::os::unix::fs::symlink("/bin/true", cached.join("xclip")).unwrap();
        let path = format!("{}:{}", cached.display(), place("work/bin").display());
        let in_home = Env::new([("PATH".to_owned(), path), ("HOME".to_owned(), home)], place("work"));
        assert_eq!(helper("xclip", &in_home), None);
        let own = place("own").display().to_string();
        let given = with_safe_path([("PATH", "/x"), ("A", "b")], &env);
        assert_eq!(given, [("A".to_owned(), "b".to_owned()), ("PATH".to_owned(), own)]);
    }
}
