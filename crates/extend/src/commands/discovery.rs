//! Finds command files. Does not read them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pollux_domain::text::with_dots;

use super::{CommandFile, Origin};

/// Limits of files read from one folder, and of its depth.
const MAX_FILES: usize = 2_000;
const MAX_FOLDERS: usize = 2_000;
const MAX_DEPTH: usize = 16;

/// Characters of one segment of a name; upstream's values.
const SEGMENT: usize = 50;

/// The folders with command files.
#[derive(Debug, Clone, Default)]
pub struct CommandFolders {
    pub user: Option<PathBuf>,
    pub project: Option<PathBuf>,
    /// Active extensions: the name and the folder.
    pub extensions: Vec<(String, PathBuf)>,
}

/// The command files found.
#[derive(Debug, Clone, Default)]
pub struct FoundCommands {
    /// User, project, extensions by name; each by path.
    pub files: Vec<CommandFile>,
    /// Folders that could not be read.
    pub problems: Vec<String>,
}

/// Walks the folders; links are followed, each folder is entered once.
pub fn find(places: &CommandFolders) -> FoundCommands {
    let mut found = FoundCommands::default();
    let mut roots: Vec<(Origin, &Path)> = Vec::new();
    roots.extend(places.user.iter().map(|path| (Origin::User, path.as_path())));
    roots.extend(places.project.iter().map(|path| (Origin::Project, path.as_path())));
    let mut extensions: Vec<_> = places.extensions.iter().collect();
    extensions.sort();
    roots
        .extend(extensions.into_iter().map(|(name, path)| (Origin::Extension(name.clone()), path.as_path())));
    for (origin, root) in roots {
        let mut walk = Walk { files: Vec::new(), entered: BTreeSet::new(), cut: false };
        if let Err(error) = walk.enter(root, 0) {
            found.problems.push(format!("could not list the commands in `{}`: {error}", root.display()));
        }
        if walk.cut {
            found.problems.push(format!(
                "`{}` contains too many files; only the first {MAX_FILES} files, {MAX_FOLDERS} folders and {MAX_DEPTH} levels are read",
                root.display()
            ));
        }
        walk.files.sort();
        found.files.extend(walk.files.into_iter().map(|path| {
            let below = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            CommandFile { name: name(&below), origin: origin.clone(), path, below }
        }));
    }
    found
}

struct Walk {
    files: Vec<PathBuf>,
    entered: BTreeSet<PathBuf>,
    /// Something was left out.
    cut: bool,
}

impl Walk {
    /// Collects the files below a folder; a missing folder is empty.
    fn enter(&mut self, folder: &Path, depth: usize) -> std::io::Result<()> {
        let missing = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        };
        // The real path, so that circular links end.
        let real = match fs::canonicalize(folder) {
            Ok(real) => real,
            Err(error) if missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if depth > MAX_DEPTH || self.entered.len() >= MAX_FOLDERS {
            self.cut = true;
            return Ok(());
        }
        if !self.entered.insert(real) {
            return Ok(());
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            if self.files.len() >= MAX_FILES {
                self.cut = true;
                return Ok(());
            }
            self.take(&entry?.path(), depth);
        }
        Ok(())
    }

    fn take(&mut self, path: &Path, depth: usize) {
        // A broken link is not a command.
        let Ok(meta) = fs::metadata(path) else { return };
        if meta.is_dir() {
            // One folder that cannot be entered does not hide the others.
            let _ = self.enter(path, depth + 1);
            return;
        }
        if path.extension() == Some(OsStr::new("toml")) && meta.is_file() {
            self.files.push(path.to_path_buf());
        }
    }
}

/// `git/fix it.toml` is `git:fix_it`.
fn name(below: &Path) -> String {
    let stem = below.with_extension("");
    let segments = stem.components().filter_map(|component| match component {
        Component::Normal(segment) => Some(segment.to_string_lossy()),
        _ => None,
    });
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let clean = |segment: &str| segment.chars().map(|c| if allowed(c) { c } else { '_' }).collect::<String>();
    segments.map(|segment| with_dots(&clean(&segment), SEGMENT)).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_come_from_paths() {
        for (path, expected) in [
            ("fix.toml", "fix"),
            ("git/fix.toml", "git:fix"),
            ("a b/c:d/é.toml", "a_b:c_d:_"),
            (".hidden.toml", ".hidden"),
            ("v1.2.toml", "v1.2"),
        ] {
            assert_eq!(name(Path::new(path)), expected);
        }
        let long = name(Path::new(&format!("{}.toml", "x".repeat(60))));
        assert_eq!(long, format!("{}...", "x".repeat(47)));
    }

    #[test]
    fn folders_are_walked_with_links_and_without_circles() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("commands");
        fs::create_dir_all(root.join("git")).unwrap();
        for path in ["b.toml", "git/fix.toml", ".dot.toml", "note.md"] {
            fs::write(root.join(path), "prompt = 'p'").unwrap();
        }
        fs::write(dir.path().join("elsewhere.toml"), "prompt = 'p'").unwrap();
        symlink(dir.path().join("elsewhere.toml"), root.join("linked.toml")).unwrap();
        symlink(&root, root.join("git/again")).unwrap();
        symlink("/nonexistent", root.join("gone.toml")).unwrap();
        let extensions =
            vec![("zed".to_owned(), root.join("git")), ("alpha".to_owned(), root.join("missing"))];
        let places = CommandFolders { user: Some(root.clone()), project: None, extensions };
        let found = find(&places);
        let names: Vec<_> = found.files.iter().map(|file| (file.name.as_str(), &file.origin)).collect();
        let (user, zed) = (Origin::User, Origin::Extension("zed".into()));
        // The cycle leads from `git` back to the root once, which another root may do.
        let of_user: Vec<&str> =
            names.iter().filter(|(_, origin)| **origin == user).map(|(name, _)| *name).collect();
        assert_eq!(of_user, [".dot", "b", "git:fix", "linked"]);
        assert!(names.contains(&("fix", &zed)), "{names:?}");
        assert_eq!(found.problems, Vec::<String>::new());
    }

    #[test]
    fn an_oversized_command_folder_is_truncated() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES + 5 {
            fs::write(dir.path().join(format!("{number}.toml")), "").unwrap();
        }
        let found =
            find(&CommandFolders { user: Some(dir.path().to_path_buf()), ..CommandFolders::default() });
        assert_eq!(found.files.len(), MAX_FILES);
        assert_eq!(found.problems.len(), 1);
    }
}
