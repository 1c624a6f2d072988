//! Decides which files the tools may access.
//!
//! A path from the model is made absolute, its symlinks are resolved, and the result must be inside an allowed
//! directory. The check happens twice: when a call is prepared, and again when it runs. Files and folders are
//! then opened by their real path without following symlinks, so a link that is created between check and
//! opening has no effect; walks do the same for every folder they enter.
//!
//! A hard link cannot be distinguished from the file: a file linked into the workspace can be read there, but
//! it is never written through the link. A mount point is part of the directory that contains it.

mod beneath;
mod location;
mod lookup;
mod opening;
mod saving;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use pollux_domain::closed_names::closed_part;
use pollux_domain::file_view::FileView;
use pollux_domain::sync::SharedLocked as _;

pub(crate) use beneath::{DirectoryEntry, EntryKind, Folder};
pub(crate) use location::short_path;
pub(crate) use opening::OpenError;
pub(crate) use saving::SaveError;

pub use location::real_path;
use location::{absolute, blocked_below};

/// How many directories flags and commands can add to the project root. Settings have no limit, as upstream.
pub const MAX_EXTRA_DIRECTORIES: usize = 5;

/// The parameters of a workspace.
#[derive(Debug, Clone)]
pub struct WorkspaceSetup {
    /// The project root.
    pub root: PathBuf,
    /// Further directories, as the user gave them.
    pub include_directories: Vec<String>,
    /// The project's own folder below `~/.gemini/tmp`.
    pub project_temp: PathBuf,
    /// The `.gemini` folder of the user.
    pub gemini_dir: PathBuf,
    /// The value of `~` in `include_directories`.
    pub user_home: PathBuf,
}

/// A workspace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("`--include-directories` accepts at most {MAX_EXTRA_DIRECTORIES} directories ({given} given)")]
    TooManyDirectories { given: usize },
    #[error("could not read the project root `{}`: {source}", path.display())]
    Root { path: PathBuf, source: std::io::Error },
}

/// The directories in which tools work. All paths are real ones: without symlinks.
pub struct Workspace {
    directories: Vec<PathBuf>,
    project_temp: PathBuf,
    state_dir: PathBuf,
    global_context: PathBuf,
    /// Folders with read access added during the session, such as those of skills.
    readable: RwLock<Vec<PathBuf>>,
    warnings: Vec<String>,
    /// The editor that is attached.
    view: Option<Arc<dyn FileView>>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("directories", &self.directories).finish_non_exhaustive()
    }
}

/// A path that passed the access test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// The path as asked for: absolute, but with its symlinks.
    asked: PathBuf,
    /// The real path.
    path: PathBuf,
    /// The allowed directory that contains it.
    base: PathBuf,
    /// Nothing may be written there.
    read_only: bool,
}

impl Location {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn asked(&self) -> &Path {
        &self.asked
    }
}

/// A path that did not pass; the text goes to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathRefusal {
    #[error("Invalid path: {0}")]
    Invalid(String),
    #[error(
        "Path not in workspace: Attempted path \"{attempted}\" resolves outside the allowed workspace \
         directories: {directories} or the project temp directory: {temp}"
    )]
    Outside { attempted: String, directories: String, temp: String },
    #[error(
        "Path is protected: \"{attempted}\" is in the workspace, but `{part}` is closed to file tools because {why}. \
         Another path to it is refused as well; ask the user if you need it."
    )]
    Closed { attempted: String, part: String, why: &'static str },
}

impl PathRefusal {
    /// A short text for display.
    pub(crate) fn summary(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid path.",
            Self::Outside { .. } => "Path not in workspace.",
            Self::Closed { .. } => "Path is protected.",
        }
    }
}

/// Checks the number of directories given with `--include-directories`.
pub fn check_added_directories(given: &[String]) -> Result<(), WorkspaceError> {
    let distinct: BTreeSet<&String> = given.iter().collect();
    match distinct.len() {
        given if given > MAX_EXTRA_DIRECTORIES => Err(WorkspaceError::TooManyDirectories { given }),
        _ => Ok(()),
    }
}

impl Workspace {
    /// Checks and resolves the directories. Extra ones that cannot be read are left out with a warning.
    pub fn open(setup: &WorkspaceSetup) -> Result<Self, WorkspaceError> {
        let root = readable(&setup.root)
            .map_err(|source| WorkspaceError::Root { path: setup.root.clone(), source })?;
        let mut warnings = Vec::new();
        let mut directories = vec![root.clone()];
        for given in &setup.include_directories {
            let path = match given.strip_prefix("~/") {
                Some(rest) => setup.user_home.join(rest),
                None if given == "~" => setup.user_home.clone(),
                None => absolute(&root, Path::new(given)),
            };
            match readable(&path) {
                Ok(real) if directories.contains(&real) => {}
                Ok(real) => directories.push(real),
                Err(error) => {
                    warnings
                        .push(format!("[WARN] Skipping unreadable directory: {} ({error})", path.display()));
                }
            }
        }
        let real = |path: PathBuf| real_path(&path).unwrap_or(path);
        Ok(Self {
            directories,
            project_temp: real(setup.project_temp.clone()),
            state_dir: real(setup.gemini_dir.join("tmp")),
            global_context: real(setup.gemini_dir.join("GEMINI.md")),
            readable: RwLock::default(),
            warnings,
            view: None,
        })
    }

    /// The same with an editor whose text counts for files in these directories.
    pub fn seen_through(mut self, view: Option<Arc<dyn FileView>>) -> Self {
        self.view = view;
        self
    }

    /// Whether an editor may be asked, so that reading has to happen on a thread that may wait.
    pub(crate) fn has_editor(&self) -> bool {
        self.view.is_some()
    }

    /// The editor, for files that it may be asked about.
    fn view_of(&self, location: &Location) -> Option<&Arc<dyn FileView>> {
        let is_inside = !location.read_only && self.directories.contains(&location.base);
        self.view.as_ref().filter(|_| is_inside)
    }

    /// The project root.
    pub fn root(&self) -> &Path {
        self.directories.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// The project root and the added directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Opens a folder for reading and searching; nothing in it can be written.
    pub fn open_for_reading(&self, folder: &Path) {
        let Ok(real) = readable(folder) else { return };
        let mut readable = self.readable.write_locked();
        if !readable.contains(&real) {
            readable.push(real);
        }
    }

    /// The read-only folder that contains a real path.
    fn readable_base(&self, real: &Path) -> Option<PathBuf> {
        let readable = self.readable.read_locked();
        let holds = |folder: &&PathBuf| real.strip_prefix(folder).is_ok_and(|below| !blocked_below(below));
        readable.iter().find(holds).cloned()
    }

    /// Warnings about skipped directories.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Where this program keeps its own state; searches stay out of it unless they start there.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Resolves a path from the model and tests it.
    pub(crate) fn locate(&self, given: &str) -> Result<Location, PathRefusal> {
        self.admit(location::from_model(self.root(), given)?)
    }

    /// Tests an absolute path.
    pub(crate) fn admit(&self, asked: PathBuf) -> Result<Location, PathRefusal> {
        let path = real_path(&asked).map_err(|error| {
            PathRefusal::Invalid(format!("{} cannot be resolved ({error}).", asked.display()))
        })?;
        let writable = self.base_of(&asked, &path);
        let read_only = writable.is_none();
        match writable.or_else(|| self.readable_base(&path)) {
            Some(base) => Ok(Location { asked, path, base, read_only }),
            None => Err(self.closed(&asked, &path).unwrap_or_else(|| self.outside(&path))),
        }
    }

    /// A real path that a walk found.
    fn found(&self, path: &Path) -> Option<Location> {
        self.admit(path.to_owned()).ok().filter(|location| location.path == path)
    }

    /// The test once more, with the links as they are now.
    pub(crate) fn admit_again(&self, location: &Location) -> Result<Location, PathRefusal> {
        self.admit(location.asked.clone())
    }

    fn base_of(&self, asked: &Path, real: &Path) -> Option<PathBuf> {
        for directory in &self.directories {
            // A link's own name counts as well: `.git` stays closed wherever it points.
            if let Ok(below) = real.strip_prefix(directory)
                && !blocked_below(below)
                && !asked.strip_prefix(directory).is_ok_and(blocked_below)
            {
                return Some(directory.clone());
            }
        }
        if self.is_open_temp(real) {
            return Some(self.project_temp.clone());
        }
        if real == self.global_context {
            return real.parent().map(Path::to_owned);
        }
        None
    }

    /// Whether a path is in the project's temp folder, except for the memory inbox, the sessions (which record
    /// approvals) and the rewind store (which contains copies of protected files).
    fn is_open_temp(&self, real: &Path) -> bool {
        let is = |part: std::path::Component<'_>, name: &str| part.as_os_str().eq_ignore_ascii_case(name);
        real.strip_prefix(&self.project_temp).is_ok_and(|below| {
            let kept = below.components().next().is_some_and(|top| is(top, "chats") || is(top, "rewind"));
            !kept && !below.components().any(|part| is(part, ".inbox"))
        })
    }

    /// Whether a real path is in the project's scratch folder.
    pub fn is_scratch(&self, real: &Path) -> bool {
        real.is_absolute() && self.is_open_temp(real) && real.is_file()
    }

    /// Why a path inside the workspace is protected: because of its target, or of the requested name.
    fn closed(&self, asked: &Path, real: &Path) -> Option<PathRefusal> {
        let below = |path: &Path| {
            self.directories
                .iter()
                .find_map(|directory| path.strip_prefix(directory).ok().map(Path::to_owned))
        };
        let refusal = |attempted: &Path, part: String, why| {
            Some(PathRefusal::Closed { attempted: attempted.display().to_string(), part, why })
        };
        if let Ok(below) = real.strip_prefix(&self.project_temp) {
            return refusal(real, below.display().to_string(), "it is part of the program's own records");
        }
        if let Some((part, why)) = closed_part(&below(real)?) {
            return refusal(real, part, why);
        }
        let (part, why) = closed_part(&below(asked)?)?;
        refusal(asked, part, why)
    }

    /// Upstream names where the path really leads.
    fn outside(&self, attempted: &Path) -> PathRefusal {
        let directories: Vec<String> = self.directories.iter().map(|d| d.display().to_string()).collect();
        PathRefusal::Outside {
            attempted: attempted.display().to_string(),
            directories: directories.join(", "),
            temp: self.project_temp.display().to_string(),
        }
    }

    /// Whether a search may descend into or report this path, found below a workspace directory.
    pub(crate) fn may_see(&self, real: &Path) -> bool {
        self.directories.iter().any(|directory| real.strip_prefix(directory).is_ok_and(|p| !blocked_below(p)))
            || self.is_open_temp(real)
            || self.readable_base(real).is_some()
    }

    /// The path relative to the project root; absolute if it is outside.
    pub(crate) fn relative(&self, path: &Path) -> String {
        match path.strip_prefix(self.root()) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// The relative path in at most 35 characters, for titles.
    pub(crate) fn short(&self, path: &Path) -> String {
        short_path(&self.relative(path))
    }
}

fn readable(path: &Path) -> std::io::Result<PathBuf> {
    let real = std::fs::canonicalize(path)?;
    std::fs::read_dir(&real)?;
    Ok(real)
}
