//! Context files: finds them, reads them once, and frames them for the model.
//!
//! Imports are resolved in [`crate::imports`]. Files of untrusted projects are not read, and neither are those that the
//! file tools refuse: otherwise anyone who can write a context file could read them.

mod ignored;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use pollux_config::groups::{Context, ImportFormat};
use pollux_domain::closed_names::closed_part;
use pollux_domain::secret_names::{is_secret_name, secret_part};
use pollux_domain::untrusted::sealed;

use self::ignored::Ignored;
use crate::imports::{self, Bounds};

/// A context file longer than this is cut; it would crowd out the conversation.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Limit for all context files of a session, imports included. A tree with a long file in every folder would
/// otherwise fill the context window as it is explored.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// The endings of files that are notes and not keys, settings or records.
const NOTE_SUFFIXES: &[&str] = &["markdown", "md", "mdc", "mdx", "txt"];

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
    ignored: Ignored,
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
        let ignored = Ignored::new(&places.roots, &settings.filtering);
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
    /// `a2a-server-token` or `tmp/shop/shell_history` this way.
    fn notes(&self) -> impl Iterator<Item = &String> {
        self.names
            .iter()
            .filter(|name| is_note(Path::new(name)) && !name.starts_with('.') && !name.contains('/'))
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
            let (Ok(real), Ok(place)) = (fs::canonicalize(file), fs::canonicalize(folder)) else { continue };
            if !real.starts_with(&place) {
                self.warn(file, "it is a link to a path outside the extension");
                continue;
            }
            let places = [folder.clone(), place];
            let refuses = |asked: &Path, real: &Path| closed_in(&places, asked, real);
            if let Some(why) = refuses(file, &real) {
                self.warn(file, why);
                continue;
            }
            match read_bounded(&real) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let bounds = Bounds { folder, refuses: &refuses };
                    let text = imports::expand(&text, file, &bounds, self.format);
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
            // A name may have folders in it.
            .filter(|file| !file.starts_with(&self.places.gemini_dir))
            .collect()
    }

    /// The nearest ancestor with a marker such as `.git`; without one, the workspace root itself. A home under
    /// version control does not make every file in it part of a project.
    fn boundary(&self, dir: &Path, root: &Path) -> PathBuf {
        dir.ancestors()
            .take_while(|folder| !self.holds_a_home(folder))
            .find(|folder| self.markers.iter().any(|marker| folder.join(marker).exists()))
            .map_or_else(|| root.to_path_buf(), Path::to_path_buf)
    }

    fn holds_a_home(&self, folder: &Path) -> bool {
        self.places.homes.iter().any(|home| home.starts_with(folder))
    }

    fn load(&mut self, files: &[PathBuf], reach: Reach) -> Option<String> {
        let mut framed = Vec::new();
        for file in files {
            if self.ignored.by_gemini(file) || !self.is_new(file) {
                continue;
            }
            let real = match self.admitted(file, reach) {
                Ok(real) => real,
                Err(why) => {
                    self.warn(file, &why);
                    continue;
                }
            };
            match read_bounded(&real) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let text = self.frame(file, &real, &text, reach);
                    framed.extend(text.and_then(|text| self.fits(file, text)))
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

    /// The file with its links resolved; the reason if it may not be read.
    fn admitted(&self, file: &Path, reach: Reach) -> Result<PathBuf, String> {
        let real = fs::canonicalize(file).map_err(|error| error.to_string())?;
        if reach == Reach::Project {
            let places = self.project_folders(file);
            if !places.iter().any(|place| real.starts_with(place)) {
                return Err("it is a link to a path outside the project".to_owned());
            }
            if let Some(why) = closed_in(&places, file, &real).or_else(|| self.hidden(&real)) {
                return Err(why.to_owned());
            }
        }
        Ok(real)
    }

    /// Where a file of the project may really be: in the workspace's folders, or below the top of the one that it was
    /// looked for in. The file's own folder says nothing, since it may be a link to anywhere.
    fn project_folders(&self, file: &Path) -> Vec<PathBuf> {
        let roots = &self.places.roots;
        let tops = roots.iter().map(|root| self.boundary(root, root)).filter(|top| file.starts_with(top));
        let places: Vec<PathBuf> = roots.iter().cloned().chain(tops).collect();
        places.iter().filter_map(|place| fs::canonicalize(place).ok()).collect()
    }

    fn frame(&self, file: &Path, real: &Path, text: &str, reach: Reach) -> Option<String> {
        let folder = match reach {
            Reach::Anywhere => file.parent().map(|dir| self.boundary(dir, dir)),
            Reach::Project => self.project_dir(file, real).map(|dir| self.boundary(&dir, &dir)),
        };
        let folder = folder.unwrap_or_else(|| self.places.gemini_dir.clone());
        let mut places = self.places.roots.clone();
        places.push(folder.clone());
        places.extend(fs::canonicalize(&folder));
        let refuses = |asked: &Path, target: &Path| {
            closed_in(&places, asked, target)
                .or_else(|| self.closed_import(target, reach))
                .or_else(|| secret(&places, asked).or_else(|| secret(&places, target)))
        };
        let bounds = Bounds { folder: &folder, refuses: &refuses };
        framed_text(file, &imports::expand(text, file, &bounds, self.format))
    }

    /// The folder of a project's file: where it was looked for if that is in the project, otherwise where it really is.
    fn project_dir(&self, file: &Path, real: &Path) -> Option<PathBuf> {
        let places = self.project_folders(file);
        let asked = file.parent().and_then(|dir| fs::canonicalize(dir).ok());
        asked
            .filter(|dir| real.starts_with(dir) && places.iter().any(|place| dir.starts_with(place)))
            .or_else(|| real.parent().map(Path::to_path_buf))
    }

    /// Why a project's context does not contain a file, links resolved, although its name is open.
    fn hidden(&self, real: &Path) -> Option<&'static str> {
        // The project may be the home itself.
        let is_users = fs::canonicalize(&self.places.gemini_dir).is_ok_and(|dir| real.starts_with(dir));
        if is_users && !is_note(real) {
            return Some("it is one of your own files in `.gemini`");
        }
        self.ignored.by_gemini(real).then_some("`.geminiignore` names it")
    }

    /// Why a file, links resolved, may not be imported although its name is open.
    fn closed_import(&self, target: &Path, reach: Reach) -> Option<&'static str> {
        match reach {
            // The model may write the user's notes, and keys and sessions are next to them.
            Reach::Anywhere => {
                (!is_note(target)).then_some("only text files such as `.md` are imported here")
            }
            Reach::Project => self.hidden(target).or_else(|| {
                // Notes such as `GEMINI.local.md` are ignored because nobody else needs them.
                let ignored = !is_note(target) && self.ignored.by_git(target, |dir| self.holds_a_home(dir));
                ignored.then_some("`.gitignore` names it")
            }),
        }
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

/// Whether a file has the ending of a note.
fn is_note(file: &Path) -> bool {
    let suffix = file.extension().map(|suffix| suffix.to_ascii_lowercase());
    suffix.is_some_and(|suffix| NOTE_SUFFIXES.iter().any(|known| suffix == *known))
}

const SECRET: &str = "it usually contains secrets";

/// Why a file is not imported although the tools may read it if the user approves: its name, or that of a folder.
fn secret(places: &[PathBuf], path: &Path) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let in_private_folder = || below_all(places, path, |below| secret_part(below).map(|_| SECRET));
    is_secret_name(&name).then_some(SECRET).or_else(in_private_folder)
}

/// Why a file stays closed in each of the folders that contain it: for its real name, or for the one asked for.
fn closed_in(places: &[PathBuf], asked: &Path, real: &Path) -> Option<&'static str> {
    let closed = |path| below_all(places, path, |below| closed_part(below).map(|(_, why)| why));
    closed(real).or_else(|| closed(asked))
}

/// The reason that holds for a path below each of the folders that contain it.
fn below_all(
    places: &[PathBuf],
    path: &Path,
    why: impl Fn(&Path) -> Option<&'static str>,
) -> Option<&'static str> {
    let below = places.iter().filter_map(|place| path.strip_prefix(place).ok());
    let reasons: Option<Vec<_>> = below.map(why).collect();
    reasons?.into_iter().next()
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
mod tests;
