//! How paths are written for people: relative to the workspace, absolute only outside of it.

use std::path::{Component, Path, PathBuf};

/// Where paths are seen from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The workspace; by more than one name where a link leads to it. Relative paths start at the first.
    pub workspace: Vec<PathBuf>,
    pub home: Option<PathBuf>,
}

impl Places {
    /// A path as a person knows it: `src/cart.py`, `~/notes.md`, `/etc/hosts`.
    pub fn shown(&self, path: &Path) -> String {
        let path = self.absolute(path);
        if let Some(inside) = self.inside(&path) {
            let whole = inside.as_os_str().is_empty();
            return if whole { ".".to_owned() } else { inside.display().to_string() };
        }
        let home = self.home.as_ref().filter(|home| home.parent().is_some());
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }

    /// A folder in which something runs.
    pub fn folder(&self, path: &Path) -> String {
        match self.shown(path) {
            root if root == "." => "the workspace".to_owned(),
            inside if self.inside(&self.absolute(path)).is_some() => format!("{inside}/"),
            outside => outside,
        }
    }

    /// A path that was asked for and the one it really is; both where a link makes them differ.
    pub fn linked(&self, asked: Option<&str>, real: &Path) -> String {
        let real = self.shown(real);
        match asked.map(|asked| self.shown(Path::new(asked))) {
            Some(asked) if asked != real => format!("{asked} → {real} (link)"),
            _ => real,
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let start = self.workspace.first().cloned().unwrap_or_default();
        let mut whole = PathBuf::new();
        for part in start.join(path).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(whole.pop()),
                other => whole.push(other),
            }
        }
        whole
    }

    /// The rest of an absolute path in the workspace.
    pub(crate) fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.workspace.iter().find_map(|root| path.strip_prefix(root).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places { workspace: vec!["/home/a/link".into(), "/data/p".into()], home: Some("/home/a".into()) }
    }

    #[test]
    fn a_path_is_relative_inside_the_workspace_and_absolute_outside() {
        let places = places();
        let shown = |path: &str| places.shown(Path::new(path));
        assert_eq!(shown("/home/a/link/src/cart.py"), "src/cart.py");
        assert_eq!(shown("/data/p/src/cart.py"), "src/cart.py");
        assert_eq!(shown("src/../lib/x"), "lib/x");
        assert_eq!(shown("/home/a/notes.md"), "~/notes.md");
        assert_eq!(shown("../other"), "~/other");
        assert_eq!(shown("/etc/hosts"), "/etc/hosts");
        assert_eq!(shown("/data/project"), "/data/project");
        assert_eq!(places.folder(Path::new("/data/p")), "the workspace");
        assert_eq!(places.folder(Path::new("/data/p/src")), "src/");
        assert_eq!(places.folder(Path::new("/var")), "/var");
    }

    #[test]
    fn a_link_names_what_it_leads_to() {
        let places = places();
        assert_eq!(places.linked(Some("a.txt"), Path::new("/data/p/a.txt")), "a.txt");
        assert_eq!(places.linked(Some("a.txt"), Path::new("/etc/passwd")), "a.txt → /etc/passwd (link)");
        assert_eq!(places.linked(None, Path::new("/data/p/a.txt")), "a.txt");
    }
}
