//! Context files: finds them, reads them once, and frames them for the model.
//!
//! Imports are resolved in [`crate::imports`]. Files of untrusted projects are not read.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use ignore::gitignore::Gitignore;
use pollux_config::groups::{Context, ImportFormat};
use pollux_domain::untrusted::sealed;

use crate::imports;

/// A context file longer than this is cut; it would crowd out the conversation.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Limit for all context files of a session, imports included. A tree with a long file in every folder would
/// otherwise fill the context window as it is explored.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// An ignore file longer than this is not one.
const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// Where context files may be.
#[derive(Debug, Clone)]
pub struct ContextFolders {
    /// The user's `.gemini` folder.
    pub gemini_dir: PathBuf,
    /// The project's own state folder, which may contain private notes.
    pub project_temp: PathBuf,
    /// The workspace's folders, the project's root first.
    pub roots: Vec<PathBuf>,
    /// Whether the project's files may be sent to the model.
    pub trusted: bool,
    /// The user's home. A project never reaches up to it, whatever marks there are.
    pub homes: Vec<PathBuf>,
}

/// Where a context file may really be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The user's own file may be a link to any location.
    Anywhere,
    /// A project must not read the user's other files.
    Project,
}

/// Finds context files and remembers which ones the model already has.
#[derive(Debug, Clone)]
pub struct ContextFiles {
    places: ContextFolders,
    names: Vec<String>,
    format: ImportFormat,
    markers: Vec<String>,
    load_from_extra_roots: bool,
    ignored: Vec<(PathBuf, Gitignore)>,
    seen: HashSet<PathBuf>,
    seen_files: HashSet<(u64, u64)>,
    /// Bytes that may still be added.
    room: usize,
    warnings: Vec<String>,
}

impl ContextFiles {
    /// Prepares the search; nothing is read yet.
    pub fn new(mut places: ContextFolders, settings: &Context) -> Self {
        let real = places.homes.iter().filter_map(|home| fs::canonicalize(home).ok());
        places.homes.extend(real.collect::<Vec<_>>());
        let ignored = if settings.filtering.respect_gemini_ignore {
            places.roots.iter().filter_map(|root| gemini_ignore(root)).collect()
        } else {
            Vec::new()
        };
        Self {
            places,
            names: settings.file_names.iter().filter(|name| is_inner(name)).cloned().collect(),
            format: settings.import_format,
            markers: settings.boundary_markers.clone(),
            load_from_extra_roots: settings.load_memory_from_include_directories,
            ignored,
            seen: HashSet::new(),
            seen_files: HashSet::new(),
            room: MAX_TOTAL_BYTES,
            warnings: Vec::new(),
        }
    }

    /// The user's own instructions for every project: the context files in `.gemini`, then `memory.md`.
    pub fn global(&mut self) -> Option<String> {
        let dir = self.places.gemini_dir.clone();
        let mut files: Vec<PathBuf> = self.notes().map(|name| dir.join(name)).collect();
        files.push(dir.join("memory.md"));
        self.load(&files, Reach::Anywhere)
    }

    /// Private notes about this project, kept outside the repository.
    pub fn private(&mut self) -> Option<String> {
        let dir = self.places.project_temp.join("memory");
        let main = dir.join("MEMORY.md");
        if main.is_file() {
            return self.load(&[main], Reach::Anywhere);
        }
        let files: Vec<PathBuf> = self.notes().map(|name| dir.join(name)).collect();
        self.load(&files, Reach::Anywhere)
    }

    /// Names that may be read next to the user's keys and settings. A project can add names, but must not read
    /// `.env` or `oauth_creds.json` this way.
    fn notes(&self) -> impl Iterator<Item = &String> {
        const SUFFIXES: &[&str] = &["markdown", "md", "mdc", "mdx", "txt"];
        self.names.iter().filter(|name| {
            let suffix = Path::new(name).extension().map(|suffix| suffix.to_ascii_lowercase());
            let is_text = suffix.is_none_or(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
            is_text && !name.starts_with('.')
        })
    }

    /// The project's instructions: from each root up to the boundary.
    pub fn project(&mut self) -> Option<String> {
        if !self.places.trusted {
            return None;
        }
        let roots = self.places.roots.clone();
        let used = if self.load_from_extra_roots { roots.len() } else { 1 };
        let mut files: Vec<PathBuf> =
            roots.iter().take(used).flat_map(|root| self.candidates(root, root)).collect();
        files.sort();
        files.dedup();
        self.load(&files, Reach::Project)
    }

    /// The context files of extensions: each file with the folder of its extension, which it must not leave.
    pub fn extensions(&mut self, files: &[(PathBuf, PathBuf)]) -> Option<String> {
        let mut framed = Vec::new();
        for (folder, file) in files {
            if !self.is_new(file) {
                continue;
            }
            let inside = fs::canonicalize(file)
                .and_then(|real| Ok(real.starts_with(fs::canonicalize(folder)?)))
                .unwrap_or(false);
            if !inside {
                self.warn(file, "it is a link to a path outside the extension");
                continue;
            }
            match read_bounded(file) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let text = imports::expand(&text, file, folder, self.format);
                    framed.extend(framed_text(file, &text).and_then(|text| self.fits(file, text)));
                }
                Err(error) => self.warn(file, &error.to_string()),
            }
        }
        (!framed.is_empty()).then(|| framed.join("\n\n"))
    }

    /// Context files near a path that a tool just accessed and that the model has not seen yet.
    pub fn near(&mut self, path: &Path) -> Option<String> {
        if !self.places.trusted {
            return None;
        }
        let dir = if path.is_dir() { path } else { path.parent()? };
        let root = self.places.roots.iter().find(|root| dir.starts_with(root))?.clone();
        let files = self.candidates(dir, &root);
        self.load(&files, Reach::Project)
    }

    /// Read errors since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Possible context files from the boundary down to `dir`.
    fn candidates(&self, dir: &Path, root: &Path) -> Vec<PathBuf> {
        let top = self.boundary(dir, root);
        let mut folders: Vec<&Path> = dir.ancestors().take_while(|folder| folder.starts_with(&top)).collect();
        folders.reverse();
        folders
            .into_iter()
            .filter(|folder| !folder.starts_with(&self.places.gemini_dir))
            .flat_map(|folder| self.names.iter().map(move |name| folder.join(name)))
            .collect()
    }

    /// The nearest ancestor with a marker such as `.git`; without one, the workspace root itself. A home under
    /// version control does not make every file in it part of a project.
    fn boundary(&self, dir: &Path, root: &Path) -> PathBuf {
        dir.ancestors()
            .take_while(|folder| !self.places.homes.iter().any(|home| home.starts_with(folder)))
            .find(|folder| self.markers.iter().any(|marker| folder.join(marker).exists()))
            .map_or_else(|| root.to_path_buf(), Path::to_path_buf)
    }

    fn load(&mut self, files: &[PathBuf], reach: Reach) -> Option<String> {
        let mut framed = Vec::new();
        for file in files {
            if self.is_ignored(file) || !self.is_new(file) {
                continue;
            }
            if reach == Reach::Project && !self.stays_in_project(file) {
                self.warn(file, "it is a link to a path outside the project");
                continue;
            }
            match read_bounded(file) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    framed.extend(self.frame(file, &text).and_then(|text| self.fits(file, text)))
                }
                Err(error) => self.warn(file, &error.to_string()),
            }
        }
        (!framed.is_empty()).then(|| framed.join("\n\n"))
    }

    fn warn(&mut self, file: &Path, reason: &str) {
        self.warnings.push(format!("could not read context file `{}`: {reason}", file.display()));
    }

    /// Passes a text on as long as there is room for it.
    fn fits(&mut self, file: &Path, text: String) -> Option<String> {
        match self.room.checked_sub(text.len()) {
            Some(left) => {
                self.room = left;
                Some(text)
            }
            None => {
                self.warn(file, "the size limit for context files is reached");
                None
            }
        }
    }

    /// Whether a file is, links resolved, below its boundary or in one of the workspace's folders.
    fn stays_in_project(&self, file: &Path) -> bool {
        let Ok(real) = fs::canonicalize(file) else { return false };
        let boundary = file.parent().map(|dir| self.boundary(dir, dir));
        let mut places = boundary.iter().chain(&self.places.roots);
        places.any(|place| fs::canonicalize(place).is_ok_and(|place| real.starts_with(place)))
    }

    fn frame(&self, file: &Path, text: &str) -> Option<String> {
        let confine = file
            .parent()
            .map(|dir| self.boundary(dir, dir))
            .unwrap_or_else(|| self.places.gemini_dir.clone());
        framed_text(file, &imports::expand(text, file, &confine, self.format))
    }

    /// Remembers the file by path and by identity, so that links do not load it twice.
    fn is_new(&mut self, file: &Path) -> bool {
        let Ok(meta) = fs::metadata(file) else { return false };
        if !meta.is_file() || self.seen.contains(file) {
            return false;
        }
        if let Some(identity) = identity(&meta)
            && !self.seen_files.insert(identity)
        {
            return false;
        }
        self.seen.insert(file.to_path_buf())
    }

    fn is_ignored(&self, file: &Path) -> bool {
        self.ignored.iter().any(|(root, rules)| {
            file.starts_with(root) && rules.matched_path_or_any_parents(file, false).is_ignore()
        })
    }
}

fn framed_text(file: &Path, text: &str) -> Option<String> {
    let text = sealed(text.trim());
    let path = file.display().to_string();
    let path = sealed(&path);
    (!text.is_empty())
        .then(|| format!("--- Context from: {path} ---\n{text}\n--- End of Context from: {path} ---"))
}

/// Whether a name stays below the folder that it is looked for in.
fn is_inner(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn gemini_ignore(root: &Path) -> Option<(PathBuf, Gitignore)> {
    let file = root.join(".geminiignore");
    if !fs::metadata(&file).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_IGNORE_BYTES) {
        return None;
    }
    let (rules, _problem) = Gitignore::new(&file);
    Some((root.to_path_buf(), rules))
}

/// Reads a file as text; `None` if it does not exist or is not a regular file.
fn read_bounded(file: &Path) -> std::io::Result<Option<String>> {
    let handle = match File::open(file) {
        Ok(handle) => handle,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    handle.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    let cut = bytes.len() as u64 > MAX_FILE_BYTES;
    bytes.truncate(usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX));
    let mut text = String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned();
    if cut {
        text.push_str("\n[this context file was cut at 1 MB]");
    }
    Ok(Some(text))
}

#[cfg(unix)]
fn identity(meta: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(_meta: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        dir: tempfile::TempDir,
    }

    impl Scene {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
                fs::write(path, text).unwrap();
            }
            Self { dir }
        }

        fn files(&self, names: &[&str], trusted: bool) -> ContextFiles {
            let settings = Context {
                file_names: names.iter().map(|name| (*name).to_owned()).collect(),
                boundary_markers: vec![".git".into()],
                filtering: pollux_config::groups::FileFiltering {
                    respect_gemini_ignore: true,
                    ..Default::default()
                },
                ..Default::default()
            };
            let places = ContextFolders {
                gemini_dir: self.dir.path().join("home/.gemini"),
                project_temp: self.dir.path().join("home/.gemini/tmp/x"),
                roots: vec![self.dir.path().join("repo/app")],
                trusted,
                homes: vec![self.dir.path().join("home")],
            };
            ContextFiles::new(places, &settings)
        }
    }

    #[test]
    fn project_files_are_taken_from_the_boundary_down_and_only_once() {
        let scene = Scene::new(&[
            ("repo/.git/HEAD", "x"),
            ("GEMINI.md", "outside the repository"),
            ("repo/GEMINI.md", "top"),
            ("repo/app/GEMINI.md", "app"),
            ("repo/app/src/GEMINI.md", "src"),
        ]);
        let mut files = scene.files(&["GEMINI.md"], true);
        let text = files.project().unwrap();
        assert!(text.find("top").unwrap() < text.find("app\n").unwrap(), "{text}");
        assert!(!text.contains("outside"));
        let near = files.near(&scene.dir.path().join("repo/app/src/main.rs")).unwrap();
        assert!(near.contains("src\n") && !near.contains("top"), "{near}");
        assert_eq!(files.near(&scene.dir.path().join("repo/app/src/main.rs")), None);
    }

    #[test]
    fn without_a_marker_only_the_root_itself_is_read() {
        let scene = Scene::new(&[("repo/GEMINI.md", "parent"), ("repo/app/AGENTS.md", "app")]);
        let text = scene.files(&["AGENTS.md", "GEMINI.md"], true).project().unwrap();
        assert!(text.contains("app") && !text.contains("parent"), "{text}");
    }

    #[test]
    fn global_files_and_the_older_memory_file_are_both_read() {
        let scene = Scene::new(&[("home/.gemini/GEMINI.md", "rules"), ("home/.gemini/memory.md", "notes")]);
        let text = scene.files(&["GEMINI.md"], true).global().unwrap();
        assert!(text.find("rules").unwrap() < text.find("notes").unwrap());
    }

    #[test]
    fn an_untrusted_or_ignored_project_file_is_not_read() {
        let scene = Scene::new(&[("repo/app/GEMINI.md", "app"), ("repo/app/.geminiignore", "GEMINI.md\n")]);
        assert_eq!(scene.files(&["GEMINI.md"], false).project(), None);
        assert_eq!(scene.files(&["GEMINI.md"], true).project(), None);
    }

    #[test]
    fn a_directory_named_like_a_context_file_is_skipped() {
        let scene = Scene::new(&[("repo/app/GEMINI.md/x", "")]);
        let mut files = scene.files(&["GEMINI.md"], true);
        assert_eq!(files.project(), None);
        assert!(files.take_warnings().is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_within_the_project_and_not_out_of_it() {
        let scene = Scene::new(&[
            ("secret.txt", "a key"),
            ("repo/.git/HEAD", "x"),
            ("repo/AGENTS.md", "shared rules"),
            ("repo/app/src/main.rs", ""),
        ]);
        let repo = scene.dir.path().join("repo");
        std::os::unix::fs::symlink(repo.join("AGENTS.md"), repo.join("app/GEMINI.md")).unwrap();
        std::os::unix::fs::symlink(scene.dir.path().join("secret.txt"), repo.join("app/src/GEMINI.md"))
            .unwrap();
        let mut files = scene.files(&["GEMINI.md"], true);
        assert!(files.project().unwrap().contains("shared rules"));
        assert_eq!(files.near(&repo.join("app/src/main.rs")), None);
        assert_eq!(files.take_warnings().len(), 1);
    }

    #[test]
    fn a_home_under_version_control_is_not_a_project() {
        let scene = Scene::new(&[
            ("home/.git/HEAD", "x"),
            ("home/.ssh/id_rsa", "a key"),
            ("home/GEMINI.md", "about the home"),
            ("home/src/app/GEMINI.md", "app @../../.ssh/id_rsa @../../../home/.ssh/id_rsa"),
        ]);
        let mut files = scene.files(&["GEMINI.md"], true);
        files.places.roots = vec![scene.dir.path().join("home/src/app")];
        let text = files.project().unwrap();
        assert!(text.contains("app ") && !text.contains("about the home"), "{text}");
        assert!(!text.contains("a key"), "{text}");
        assert_eq!(text.matches("outside the project").count(), 2, "{text}");
    }

    #[test]
    fn a_variable_name_cannot_escape_its_folder_or_read_user_keys() {
        let scene = Scene::new(&[
            ("home/.ssh/id_rsa", "a key"),
            ("home/.gemini/.env", "a key"),
            ("home/.gemini/oauth_creds.json", "a key"),
            ("home/.gemini/AGENTS.md", "rules"),
            ("repo/app/oauth_creds.json", "their own"),
        ]);
        let absolute = scene.dir.path().join("home/.ssh/id_rsa");
        let names = ["../.ssh/id_rsa", absolute.to_str().unwrap(), ".env", "oauth_creds.json", "AGENTS.md"];
        let mut files = scene.files(&names, true);
        let global = files.global().unwrap();
        assert!(global.contains("rules") && !global.contains("a key"), "{global}");
        let own = files.project().unwrap();
        assert!(own.contains("their own") && !own.contains("a key"), "{own}");
    }

    #[test]
    fn files_of_extensions_may_import_what_is_theirs() {
        let scene = Scene::new(&[
            ("home/.gemini/extensions/x/docs/X.md", "rules @../more.md @../../../keys"),
            ("home/.gemini/extensions/x/more.md", "more of them"),
            ("home/.gemini/keys", "a key"),
        ]);
        let folder = scene.dir.path().join("home/.gemini/extensions/x");
        let listed =
            [(folder.clone(), folder.join("docs/X.md")), (folder.join("docs"), folder.join("more.md"))];
        let mut files = scene.files(&["GEMINI.md"], false);
        let text = files.extensions(&listed).unwrap();
        assert!(text.contains("rules") && text.contains("more of them") && !text.contains("a key"), "{text}");
        assert_eq!(files.take_warnings().len(), 1);
        assert_eq!(files.extensions(&listed), None);
    }

    #[test]
    fn names_that_other_agents_use_are_read_too() {
        let scene = Scene::new(&[
            ("home/.gemini/AGENTS.md", "for all projects"),
            ("repo/.git/HEAD", "x"),
            ("repo/CLAUDE.md", "top"),
            ("repo/app/AGENTS.md", "app"),
            ("repo/app/GEMINI.md", "usual"),
            ("repo/app/src/CLAUDE.md", "deeper"),
        ]);
        let mut files = scene.files(&["AGENTS.md", "CLAUDE.md", "GEMINI.md"], true);
        assert!(files.global().unwrap().contains("for all projects"));
        let text = files.project().unwrap();
        for expected in ["top\n", "app\n", "usual\n"] {
            assert_eq!(text.matches(expected).count(), 1, "{text}");
        }
        assert!(files.near(&scene.dir.path().join("repo/app/src/x.rs")).unwrap().contains("deeper"));
    }

    #[test]
    fn all_files_together_are_bounded() {
        let long = "x".repeat(900_000);
        let paths: Vec<String> = (0..9).map(|n| format!("repo/app/d{n}/GEMINI.md")).collect();
        let listed: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), long.as_str())).collect();
        let scene = Scene::new(&listed);
        let mut files = scene.files(&["GEMINI.md"], true);
        let found: usize = paths
            .iter()
            .filter_map(|path| files.near(&scene.dir.path().join(path)))
            .map(|text| text.len())
            .sum();
        assert!((900_000..=MAX_TOTAL_BYTES).contains(&found), "{found}");
        assert_eq!(files.take_warnings().len(), 5);
    }
}
