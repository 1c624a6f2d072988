//! Paths as people read them: relative inside the workspace, with `~` below the home directory, absolute elsewhere.
//!
//! Front ends use it for every path they show. It does not read the disk: links are resolved by the caller.

use std::path::{Component, Path, PathBuf};

/// The directories that displayed paths are relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathDisplay {
    /// The workspace root, and its real path where the root is a link. Relative paths start at the first.
    pub workspace: Vec<PathBuf>,
    pub home: Option<PathBuf>,
}

impl PathDisplay {
    /// The path as a person would type it: `src/cart.py`, `~/notes.md`, `/etc/hosts`.
    pub fn shown(&self, path: &Path) -> String {
        let path = self.absolute(path);
        if let Some(inside) = self.inside(&path) {
            return of_workspace(inside);
        }
        let home = self.home.as_ref().filter(|home| home.parent().is_some());
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None if path.is_relative() => of_workspace(&path),
            None => path.display().to_string(),
        }
    }

    /// The directory that a command runs in.
    pub fn folder(&self, path: &Path) -> String {
        match self.shown(path) {
            root if root == "." => "the workspace".to_owned(),
            inside if self.inside(&self.absolute(path)).is_some() => format!("{inside}/"),
            outside => outside,
        }
    }

    /// The path a tool was given and, where a link makes them differ, the path it resolves to.
    pub fn linked(&self, asked: Option<&str>, real: &Path) -> String {
        let real = self.shown(real);
        match asked.map(|asked| self.shown(Path::new(asked))) {
            Some(asked) if asked != real => format!("{asked} → {real} (link)"),
            _ => real,
        }
    }

    /// The path without `.` and `..`. Without a workspace, it stays relative and keeps what leads out of it.
    fn absolute(&self, path: &Path) -> PathBuf {
        let start = self.workspace.first().cloned().unwrap_or_default();
        let mut whole = PathBuf::new();
        for part in start.join(path).components() {
            let is_out = whole.components().next_back().is_none_or(|last| last == Component::ParentDir);
            match part {
                Component::CurDir => {}
                Component::ParentDir if is_out => whole.push(part),
                Component::ParentDir => drop(whole.pop()),
                other => whole.push(other),
            }
        }
        whole
    }

    /// An absolute path relative to the workspace, if it is inside.
    pub fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.workspace.iter().find_map(|root| path.strip_prefix(root).ok())
    }
}

fn of_workspace(inside: &Path) -> String {
    if inside.as_os_str().is_empty() { ".".to_owned() } else { inside.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> PathDisplay {
        PathDisplay { workspace: vec!["/home/a/link".into(), "/data/p".into()], home: Some("/home/a".into()) }
    }

    #[test]
    fn a_path_is_relative_inside_the_workspace_and_absolute_outside() {
        let paths = paths();
        let shown = |path: &str| paths.shown(Path::new(path));
        assert_eq!(shown("/home/a/link/src/cart.py"), "src/cart.py");
        assert_eq!(shown("/data/p/src/cart.py"), "src/cart.py");
        assert_eq!(shown("src/../lib/x"), "lib/x");
        assert_eq!(shown("/home/a/notes.md"), "~/notes.md");
        assert_eq!(shown("../other"), "~/other");
        assert_eq!(shown("/etc/hosts"), "/etc/hosts");
        assert_eq!(shown("/data/project"), "/data/project");
        assert_eq!(paths.folder(Path::new("/data/p")), "the workspace");
        assert_eq!(paths.folder(Path::new("/data/p/src")), "src/");
        assert_eq!(paths.folder(Path::new("/var")), "/var");
    }

    #[test]
    fn without_a_workspace_a_path_shows_where_it_leads() {
        let paths = PathDisplay::default();
        let shown = |path: &str| paths.shown(Path::new(path));
        assert_eq!(shown("../../.ssh/authorized_keys"), "../../.ssh/authorized_keys");
        assert_eq!(shown("a/../../b"), "../b");
        assert_eq!(shown("./a/../b"), "b");
        assert_eq!(shown("."), ".");
        assert_eq!(shown("/../etc/hosts"), "/etc/hosts");
        assert_eq!(paths.folder(Path::new(".")), "the workspace");
    }

    #[test]
    fn a_link_names_what_it_leads_to() {
        let paths = paths();
        assert_eq!(paths.linked(Some("a.txt"), Path::new("/data/p/a.txt")), "a.txt");
        assert_eq!(paths.linked(Some("a.txt"), Path::new("/etc/passwd")), "a.txt → /etc/passwd (link)");
        assert_eq!(paths.linked(None, Path::new("/data/p/a.txt")), "a.txt");
    }
}
