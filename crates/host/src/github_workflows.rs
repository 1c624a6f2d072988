//! The workflows that `/setup-github` writes into a repository.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};

/// Names and contents of the files in `.github/workflows`.
const WORKFLOWS: &[(&str, &str)] = &[
    ("pollux-review.yml", include_str!("../../../recipes/github/pollux-review.yml")),
    ("pollux-triage.yml", include_str!("../../../recipes/github/pollux-triage.yml")),
];

const FOLDER: &str = ".github/workflows";

/// Files to be written into a repository.
#[derive(Debug)]
pub struct WorkflowSetup {
    root: PathBuf,
}

impl WorkflowSetup {
    /// The repository that contains the folder.
    pub fn find(folder: &Path) -> Result<Self, String> {
        let root = folder.ancestors().find(|folder| folder.join(".git").exists());
        let root = root.ok_or("`/setup-github` requires a Git repository; this folder is not in one.")?;
        Ok(Self { root: root.to_owned() })
    }

    /// The workflows that exist with another content.
    pub fn conflicts(&self) -> Vec<String> {
        let is_other = |name: &str, text: &str| {
            let path = self.root.join(FOLDER).join(name);
            path.symlink_metadata().is_ok() && files::read_text(&path).ok().flatten().as_deref() != Some(text)
        };
        let others = WORKFLOWS.iter().filter(|(name, text)| is_other(name, text));
        others.map(|(name, _)| format!("{FOLDER}/{name}")).collect()
    }

    /// Writes the files; returns what was done and what is left to do.
    pub fn write(&self) -> Result<String, String> {
        for (name, _) in WORKFLOWS {
            self.refuse_links(&format!("{FOLDER}/{name}"))?;
        }
        let folder = self.root.join(FOLDER);
        files::create_folder(&folder, Mode::Shared).map_err(|error| error.to_string())?;
        let mut done = Vec::new();
        for (name, text) in WORKFLOWS {
            files::replace(&folder.join(name), text.as_bytes(), Mode::Shared)
                .map_err(|error| error.to_string())?;
            done.push(format!("  {FOLDER}/{name}"));
        }
        if self.ignore_user_folder()? {
            done.push("  .gitignore (added .gemini/)".to_owned());
        }
        Ok(format!(
            "Written:\n{}\n\
             To complete the setup, open the repository's settings on GitHub, \"Secrets and variables\", \"Actions\":\n  \
             1. Add the secret GEMINI_API_KEY.\n  \
             2. Add the variable POLLUX_GIT_URL: the Git repository that Pollux is built from.\n\
             Then commit the files. Pull requests are reviewed and new issues labelled from then on.",
            done.join("\n")
        ))
    }

    /// A link in the repository must not lead a write out of it.
    fn refuse_links(&self, below: &str) -> Result<(), String> {
        let mut path = self.root.clone();
        for part in Path::new(below) {
            path.push(part);
            if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(format!("`{}` is a link; nothing was written to it.", path.display()));
            }
        }
        Ok(())
    }

    /// Adds `.gemini/` to `.gitignore`, as gemini-cli does; not where the repository has files there for everyone.
    fn ignore_user_folder(&self) -> Result<bool, String> {
        let path = self.root.join(".gitignore");
        let old = files::read_text(&path).map_err(|error| error.to_string())?.unwrap_or_default();
        let is_named = old.lines().any(|line| matches!(line.trim(), ".gemini" | ".gemini/" | "/.gemini/"));
        if is_named || self.root.join(".gemini").exists() {
            return Ok(false);
        }
        self.refuse_links(".gitignore")?;
        let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        files::replace(&path, format!("{old}{gap}.gemini/\n").as_bytes(), Mode::Shared)
            .map_err(|error| error.to_string())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;

    use super::*;

    fn repository() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("project/.git")).unwrap();
        fs::create_dir_all(scratch.path().join("project/src")).unwrap();
        scratch
    }

    #[test]
    fn workflows_are_written_at_the_root_of_the_repository() {
        let scratch = repository();
        let root = scratch.path().join("project");
        fs::write(root.join(".gitignore"), "target").unwrap();
        let setup = WorkflowSetup::find(&root.join("src")).unwrap();
        assert!(setup.conflicts().is_empty());
        let said = setup.write().unwrap();
        for word in
            ["pollux-review.yml", "pollux-triage.yml", "GEMINI_API_KEY", "POLLUX_GIT_URL", ".gitignore"]
        {
            assert!(said.contains(word), "{word}: {said}");
        }
        for (name, text) in WORKFLOWS {
            assert_eq!(fs::read_to_string(root.join(FOLDER).join(name)).unwrap(), *text);
        }
        assert_eq!(fs::read_to_string(root.join(".gitignore")).unwrap(), "target\n.gemini/\n");
        // A second time changes nothing and finds nothing in the way.
        assert!(setup.conflicts().is_empty());
        assert!(!setup.write().unwrap().contains(".gitignore"));
        assert_eq!(fs::read_to_string(root.join(".gitignore")).unwrap(), "target\n.gemini/\n");
        fs::write(root.join(FOLDER).join("pollux-triage.yml"), "mine").unwrap();
        assert_eq!(setup.conflicts(), [".github/workflows/pollux-triage.yml"]);
    }

    #[test]
    fn a_folder_with_shared_settings_is_not_ignored() {
        let scratch = repository();
        let root = scratch.path().join("project");
        fs::create_dir_all(root.join(".gemini")).unwrap();
        WorkflowSetup::find(&root).unwrap().write().unwrap();
        assert!(!root.join(".gitignore").exists());
    }

    #[test]
    fn links_lead_no_write_out_of_the_repository() {
        let scratch = repository();
        let (root, outside) = (scratch.path().join("project"), scratch.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join(".github")).unwrap();
        assert!(WorkflowSetup::find(&root).unwrap().write().unwrap_err().contains("is a link"));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

        fs::remove_file(root.join(".github")).unwrap();
        fs::create_dir_all(root.join(FOLDER)).unwrap();
        std::os::unix::fs::symlink(outside.join("target"), root.join(FOLDER).join("pollux-review.yml"))
            .unwrap();
        assert!(WorkflowSetup::find(&root).unwrap().write().unwrap_err().contains("is a link"));
        assert!(!outside.join("target").exists());
    }

    #[test]
    fn without_a_repository_nothing_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        // A folder above may be a repository on this machine.
        if scratch.path().ancestors().all(|folder| !folder.join(".git").exists()) {
            assert!(WorkflowSetup::find(scratch.path()).unwrap_err().contains("requires a Git repository"));
        }
    }
}
