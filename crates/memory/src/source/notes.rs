//! Notes: `MEMORY.md`, `memory.md`, everything under `memory/`, additional paths, and the learnings.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use pollux_config::paths::sha256_hex;

use super::{Document, FileId, Listed, Provenance, Source, SourceLine, Stamp, file_id};
use crate::authorship::Authorship;
use crate::learnings::Learnings;
use crate::redaction::{self, Tombstone};
use crate::state::AgentDir;

const ROOTS: [&str; 2] = ["MEMORY.md", "memory.md"];
const FOLDER: &str = "memory";
/// The name of the learnings in the index.
pub(crate) const LEARNINGS: &str = "agent/LEARNINGS.md";
/// A deeper tree is a loop or no place for notes.
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 50_000;
/// A larger file is not a note.
pub(crate) const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Where notes are looked for.
#[derive(Debug, Clone)]
pub(crate) struct NotePlaces {
    pub(crate) workspace: PathBuf,
    pub(crate) extra: Vec<String>,
    pub(crate) learnings: PathBuf,
    /// Whether there is a workspace to look at.
    pub(crate) has_notes: bool,
}

impl NotePlaces {
    /// Every note once, in the documented order.
    pub(crate) fn list(&self) -> Vec<Listed> {
        self.look().found
    }

    /// The same with what cannot be indexed.
    pub(crate) fn look(&self) -> Listing {
        let mut listing = Listing::default();
        if !self.has_notes {
            return listing;
        }
        let real = self.real();
        for name in ROOTS {
            let file = self.workspace.join(name);
            // A link may lead to another place of the workspace, not out of it.
            if file.canonicalize().is_ok_and(|target| target.starts_with(&real)) {
                listing.add(name.to_owned(), file);
            }
        }
        listing.walk(&self.workspace.join(FOLDER), FOLDER, 0);
        for extra in self.extra.iter().filter(|extra| self.is_allowed(extra, &real)) {
            let path = self.workspace.join(extra);
            let name = name_of(&self.workspace, &path);
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => listing.walk(&path, &name, 0),
                Ok(meta) if meta.is_file() => listing.add(name, path),
                Ok(_) | Err(_) => {}
            }
        }
        listing.add(LEARNINGS.to_owned(), self.learnings.clone());
        listing
    }

    fn real(&self) -> PathBuf {
        self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone())
    }

    /// Whether a further path may be followed. One that stands below the workspace does not lead out of it by a link:
    /// the project's author could point it at another project.
    fn is_allowed(&self, extra: &str, real: &Path) -> bool {
        let path = Path::new(extra);
        let is_elsewhere =
            path.is_absolute() || path.components().any(|part| matches!(part, Component::ParentDir));
        is_elsewhere || self.workspace.join(path).canonicalize().is_ok_and(|target| target.starts_with(real))
    }

    /// The file of a note that may be read; `None` for whatever is no note once links were followed.
    pub(crate) fn file_of(&self, path: &str) -> Option<PathBuf> {
        if !self.has_notes {
            return None;
        }
        if path == LEARNINGS {
            return Some(self.learnings.clone());
        }
        let asked = Path::new(path);
        if asked.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir)) {
            return None;
        }
        let (file, real) = (self.workspace.join(asked), self.real());
        let places: Vec<PathBuf> = if ROOTS.contains(&path) {
            vec![real.clone()]
        } else if asked.starts_with(FOLDER) && is_markdown(asked) {
            // A folder that is a link to another project's notes does not count.
            vec![real.join(FOLDER)]
        } else {
            let allowed = self.extra.iter().filter(|extra| self.is_allowed(extra, &real));
            let places = allowed.map(|extra| self.workspace.join(extra));
            places
                .filter(|extra| file.starts_with(extra))
                .filter_map(|extra| extra.canonicalize().ok())
                .collect()
        };
        if places.is_empty() {
            return None;
        }
        let Ok(target) = file.canonicalize() else { return Some(file) };
        places.iter().any(|folder| target.starts_with(folder)).then_some(target)
    }
}

/// The notes of a workspace.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) found: Vec<Listed>,
    /// What is passed over, and why; a line for each.
    pub(crate) skipped: Vec<String>,
    seen: HashSet<FileId>,
}

impl Listing {
    fn add(&mut self, path: String, file: PathBuf) {
        let Ok(meta) = fs::metadata(&file) else { return };
        let Some(real) = file_id(&file, &meta) else { return };
        if !meta.is_file() || !self.seen.insert(real) {
            return;
        }
        if meta.len() > MAX_BYTES {
            let (size, most) = (meta.len().div_ceil(1 << 20), MAX_BYTES >> 20);
            self.skip(&file, &format!("it has {size} MiB, more than the limit of {most} MiB; split it"));
        } else if self.found.len() >= MAX_FILES {
            self.skip(&file, &format!("there are more than {MAX_FILES} notes; remove some"));
        } else {
            self.found.push(Listed { path, source: Source::Memory, file, stamp: Stamp::of(&meta) });
        }
    }

    fn skip(&mut self, file: &Path, why: &str) {
        self.skipped.push(format!("`{}` is not indexed: {why}", file.display()));
    }

    /// Files of a folder and those below it, by name. Links are not followed.
    fn walk(&mut self, folder: &Path, name: &str, depth: usize) {
        let is_folder = fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir());
        if depth > MAX_DEPTH || !is_folder {
            return;
        }
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut entries: Vec<fs::DirEntry> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            let own = entry.file_name();
            let Some(own) = own.to_str() else {
                // The names of two such files could look the same, and none could be asked for.
                if kind.is_dir() || is_markdown(&entry.path()) {
                    self.skip(&entry.path(), "its name is not valid UTF-8; rename it");
                }
                continue;
            };
            let name = format!("{name}/{own}");
            if kind.is_dir() {
                self.walk(&entry.path(), &name, depth + 1);
            } else if kind.is_file() && is_markdown(Path::new(&name)) {
                self.add(name, entry.path());
            }
        }
    }
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn name_of(workspace: &Path, path: &Path) -> String {
    let name = path.strip_prefix(workspace).unwrap_or(path);
    let parts: Vec<_> = name.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/").replace("//", "/")
}

/// How a note is read.
pub(crate) struct Reading<'a> {
    pub(crate) provenance: Provenance,
    /// Whose list of model-written lines applies.
    pub(crate) agent: &'a AgentDir,
    pub(crate) tombstones: &'a [Tombstone],
    /// The hash that it had.
    pub(crate) known: Option<&'a str>,
    /// For the learnings, of which not every line may be seen.
    pub(crate) learnings: Option<&'a Learnings>,
}

/// A note without its secrets; `None` when it is as it was.
pub(crate) fn read(file: &Path, reading: &Reading<'_>) -> io::Result<Option<Document>> {
    let Reading { provenance, agent, tombstones, known, learnings } = *reading;
    let bytes = fs::read(file)?;
    let mut text = String::from_utf8_lossy(&bytes);
    if let Some(learnings) = learnings {
        text = learnings.visible(&text).into();
    }
    let hash = sha256_hex(text.as_bytes());
    if known == Some(&hash) {
        return Ok(None);
    }
    // After the text: lines are listed as the model's before they are written, so none of them can be missed here.
    let authorship = Authorship::read(agent);
    let clean = redaction::clean(&text, tombstones);
    let mut as_written = text.split('\n');
    let lines = clean.split('\n').enumerate().map(|(index, line)| SourceLine {
        number: index + 1,
        text: line.to_owned(),
        provenance: authorship.of(as_written.next().unwrap_or_default(), provenance),
    });
    Ok(Some(Document { lines: lines.collect(), hash, date: None }))
}
