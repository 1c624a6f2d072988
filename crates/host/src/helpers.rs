//! Programs that Pollux itself starts by name: git, clipboards, browsers, editors.

use std::ffi::OsStr;
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;

/// Finds a program on `PATH`, skipping workspace folders and folders writable by other users.
pub fn helper(name: &str, env: &Env) -> Option<PathBuf> {
    let workspace = env.cwd().to_path_buf();
    SearchPath::new(env.get("PATH").map(OsStr::new), &[workspace]).find_safe(name)
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
        let path = format!("{}::.:{}", place("work/bin").display(), place("own").display());
        let env = Env::new([("PATH".to_owned(), path)], place("work"));
        assert_eq!(helper("xclip", &env), Some(place("own/xclip")));
        assert_eq!(helper("xsel", &env), None);
    }
}
