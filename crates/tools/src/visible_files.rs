//! Which files the model may be told of without having asked for them.

use std::path::Path;
use std::sync::Arc;

use pollux_config::groups::FileFiltering;
use pollux_domain::secret_names::secret_part;

use crate::ignore_rules::{IgnoreRules, Respect};
use crate::workspace::Workspace;

/// The files of the workspace that are not protected, whose names promise no secrets and that no ignore file names.
pub struct VisibleFiles {
    workspace: Arc<Workspace>,
    rules: IgnoreRules,
    respect: Respect,
}

impl VisibleFiles {
    pub fn new(workspace: Arc<Workspace>, filtering: &FileFiltering) -> Self {
        let rules = IgnoreRules::new(workspace.directories(), &filtering.custom_ignore_files);
        let respect = Respect { git: filtering.respect_git_ignore, gemini: filtering.respect_gemini_ignore };
        Self { workspace, rules, respect }
    }

    fn is_secret(&self, path: &Path) -> bool {
        let mut below =
            self.workspace.directories().iter().filter_map(|folder| path.strip_prefix(folder).ok());
        below.any(|below| secret_part(below).is_some())
    }

    /// Whether an absolute path leads to such a file.
    pub fn contain(&self, path: &Path) -> bool {
        let Ok(location) = self.workspace.admit(path.to_owned()) else { return false };
        let real = location.path();
        self.workspace.directories().iter().any(|directory| real.starts_with(directory))
            && real.is_file()
            && !self.is_secret(path)
            && !self.is_secret(real)
            && !self.rules.is_ignored(path, false, self.respect)
            && !self.rules.is_ignored(real, false, self.respect)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::WorkspaceSetup;

    #[test]
    fn only_files_of_the_workspace_that_are_not_ignored_are_visible() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("project");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".gitignore"), ".env\n").unwrap();
        fs::write(root.join(".geminiignore"), "secret.txt\n").unwrap();
        for file in ["a.rs", ".env", ".env.local", "secret.txt", ".git/config"] {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(scratch.path().join("outside"), "").unwrap();
        symlink(scratch.path().join("outside"), root.join("link")).unwrap();
        symlink(root.join("secret.txt"), root.join("alias")).unwrap();
        symlink(root.join(".env.local"), root.join("local")).unwrap();
        let workspace = Workspace::open(&WorkspaceSetup {
            root: root.clone(),
            include_directories: Vec::new(),
            project_temp: PathBuf::from("/nonexistent/temp"),
            gemini_dir: PathBuf::from("/nonexistent/gemini"),
            user_home: PathBuf::from("/nonexistent"),
        });
        let filtering = FileFiltering {
            respect_git_ignore: true,
            respect_gemini_ignore: true,
            ..FileFiltering::default()
        };
        let files = VisibleFiles::new(Arc::new(workspace.unwrap()), &filtering);
        assert!(files.contain(&root.join("a.rs")));
        for hidden in [
            ".env",
            ".env.local",
            "local",
            "secret.txt",
            ".git/config",
            "link",
            "alias",
            "missing",
            "../outside",
            ".",
        ] {
            assert!(!files.contain(&root.join(hidden)), "{hidden}");
        }
        assert!(!files.contain(Path::new("/etc/passwd")));
    }
}
