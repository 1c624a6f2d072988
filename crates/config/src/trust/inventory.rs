//! Inventory of everything in a folder that would run or be applied, with hashes.
//!
//! Taking it runs and applies nothing. Targets of links outside the folder are listed but not read.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pollux_domain::hex;

use sha2::{Digest, Sha256};

use super::announcement::{self, Announcement};
use super::named::{self, Lookups};
use super::shown;
use crate::paths::{GEMINI_DIR, sha256_hex};

/// More files than this cannot be looked over before every start.
const MAX_FILES: usize = 4096;
/// Bytes of all files together that are read for their hashes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_DEPTH: usize = 16;
/// Paths that words of commands may name.
const MAX_LOOKUPS: usize = 50_000;
/// A longer settings or `.env` file cannot be shown, so it cannot be agreed to.
const MAX_SHOWN: usize = 1024 * 1024;
/// How much of a file is kept for a later comparison, and of all files together.
const MAX_KEPT: usize = 64 * 1024;
const MAX_KEPT_TOTAL: usize = 512 * 1024;

/// Folders of which every file counts, and those of which only `.toml` files do.
const FOLDERS: &[(&str, &str, Which)] = &[
    (GEMINI_DIR, "agents", Which::All),
    (GEMINI_DIR, "commands", Which::Toml),
    (GEMINI_DIR, "extensions", Which::All),
    (GEMINI_DIR, "hooks", Which::All),
    (GEMINI_DIR, "policies", Which::Toml),
    (GEMINI_DIR, "skills", Which::All),
    (".agents", "skills", Which::All),
];

/// Files that make tools do more than they are asked, which run without approval in a trusted folder.
const TOOL_FILES: &[&str] =
    &[".npmrc", "rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml"];

/// Describes an image for the sandbox.
const SANDBOX_DOCKERFILE: &str = "sandbox.Dockerfile";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Toml,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Relative to the folder, with `/`; `../.env` is one of a folder above.
    pub path: String,
    pub kind: ItemKind,
    /// Of path, kind and content, in hex.
    pub hash: String,
    /// The content without secrets; `None` if it is not text or too long.
    pub text: Option<String>,
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    File,
    /// Variables; their values are nowhere kept.
    Variables,
    /// A link inside the folder; what it leads to is among the items, too.
    Link,
    /// A link that leads out of the folder or nowhere. Never followed.
    LinkOut,
    /// A pipe, a device, or something that cannot be read.
    Special,
}

/// The inventory of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The folder, links resolved.
    pub root: PathBuf,
    /// In order of their paths.
    pub items: Vec<Item>,
    /// One hash over all items.
    pub digest: String,
    /// What would run and what would be set.
    pub announcements: Vec<Announcement>,
    /// Why the list is incomplete. Such a folder cannot be trusted.
    pub excess: Option<String>,
}

impl Inventory {
    /// Looks over a folder; `env_files` are the `.env` files that a run in it would read.
    pub fn take(root: &Path, env_files: &[PathBuf]) -> Self {
        let root = super::real(root);
        let mut walk = Walk {
            root: root.clone(),
            items: BTreeMap::new(),
            announcements: Vec::new(),
            files_left: MAX_FILES,
            bytes_left: MAX_BYTES,
            text_left: MAX_KEPT_TOTAL,
            excess: None,
        };
        env_files.iter().for_each(|file| walk.env_file(file));
        walk.project();
        walk.named_scripts();
        let items: Vec<Item> = walk.items.into_values().collect();
        let mut all = String::new();
        items.iter().for_each(|item| all.extend([item.path.as_str(), "\0", &item.hash, "\0"]));
        let digest = sha256_hex(all.as_bytes());
        Self { root, items, digest, announcements: walk.announcements, excess: walk.excess }
    }

    /// The first item whose content was not read; it needs explicit approval.
    pub fn unread(&self) -> Option<&Item> {
        self.items.iter().find(|item| matches!(item.kind, ItemKind::LinkOut | ItemKind::Special))
    }
}

struct Walk {
    root: PathBuf,
    items: BTreeMap<String, Item>,
    announcements: Vec<Announcement>,
    files_left: usize,
    bytes_left: u64,
    text_left: usize,
    excess: Option<String>,
}

/// Where a path leads.
enum Place {
    Nothing,
    File(PathBuf),
    Folder(PathBuf),
}

/// A file's hash and, if it is short enough, its content.
struct Content {
    hash: String,
    bytes: Option<Vec<u8>>,
}

impl Walk {
    fn project(&mut self) {
        let mut entered: Vec<&str> = Vec::new();
        for top in [GEMINI_DIR, ".agents"] {
            if matches!(self.place(&self.root.join(top), top, &self.root.clone()), Place::Folder(_)) {
                entered.push(top);
            }
        }
        if entered.contains(&GEMINI_DIR) {
            let folder = self.root.join(GEMINI_DIR);
            let fixed = ["settings.json", "system.md"].map(str::to_owned);
            let mut sandbox = self.names(&folder, GEMINI_DIR);
            // An image is built from everything in the folder.
            let is_context = sandbox.iter().any(|name| name == SANDBOX_DOCKERFILE);
            let is_visited = |name: &str| {
                FOLDERS
                    .iter()
                    .any(|(top, known, which)| (*top, *known, *which) == (GEMINI_DIR, name, Which::All))
            };
            sandbox.retain(|name| name.starts_with("sandbox") || (is_context && !is_visited(name)));
            let is_listed = |name: &str| self.items.contains_key(&format!("{GEMINI_DIR}/{name}"));
            sandbox.retain(|name| !fixed.contains(name) && !is_listed(name));
            for name in fixed.into_iter().chain(sandbox) {
                self.visit(&folder.join(&name), &format!("{GEMINI_DIR}/{name}"), Which::All, 0);
            }
        }
        for (top, name, which) in FOLDERS {
            if entered.contains(top) {
                self.visit(&self.root.join(top).join(name), &format!("{top}/{name}"), *which, 0);
            }
        }
        self.tool_files();
    }

    /// Only their hashes are kept: they may hold secrets.
    fn tool_files(&mut self) {
        let root = self.root.clone();
        for name in TOOL_FILES {
            // A folder that is a link is an item of its own, and its files are looked over if it leads inside.
            let folder = match name.split_once('/') {
                None => root.clone(),
                Some((folder, _)) => match self.place(&root.join(folder), folder, &root) {
                    Place::Folder(real) => real,
                    Place::Nothing | Place::File(_) => continue,
                },
            };
            let last = name.rsplit('/').next().unwrap_or_default();
            if let Place::File(real) = self.place(&folder.join(last), name, &root)
                && let Some(content) = self.content(&real, name)
            {
                self.add(name, ItemKind::File, &content.hash, None);
            }
        }
    }

    /// A `.env` file in the folder or above it.
    fn env_file(&mut self, file: &Path) {
        let Some(folder) = file.parent() else { return };
        let in_gemini_dir = folder.file_name().is_some_and(|name| name == GEMINI_DIR);
        let owner = if in_gemini_dir { folder.parent().unwrap_or(folder) } else { folder };
        let owner = super::real(owner);
        let up = self.root.ancestors().position(|above| above == owner).unwrap_or_default();
        let inner = if in_gemini_dir { format!("{GEMINI_DIR}/.env") } else { ".env".to_owned() };
        let relative = "../".repeat(up) + &inner;
        if let Place::File(real) = self.place(file, &relative, &owner) {
            self.file(&real, &relative);
        }
    }

    fn visit(&mut self, path: &Path, relative: &str, which: Which, depth: usize) {
        if self.excess.is_some() {
            return;
        }
        match self.place(path, relative, &self.root.clone()) {
            Place::Nothing => {}
            Place::File(real) => {
                let wanted = depth == 0 || which == Which::All || relative.ends_with(".toml");
                if wanted {
                    self.file(&real, relative);
                }
            }
            Place::Folder(_) if depth >= MAX_DEPTH => {
                self.excess = Some(format!("`{relative}` is nested too deeply"));
            }
            Place::Folder(real) => {
                for name in self.names(&real, relative) {
                    self.visit(&real.join(&name), &format!("{relative}/{name}"), which, depth + 1);
                }
            }
        }
    }

    /// Names in a folder, sorted, so that the order does not depend on the disk.
    fn names(&mut self, folder: &Path, relative: &str) -> Vec<String> {
        let mut names = Vec::new();
        let Ok(entries) = fs::read_dir(folder) else {
            self.add(relative, ItemKind::Special, "", None);
            return names;
        };
        for entry in entries.flatten() {
            match entry.file_name().into_string() {
                Ok(name) if names.len() < MAX_FILES => names.push(name),
                Ok(_) => self.excess = Some(format!("`{relative}` has more than {MAX_FILES} entries")),
                // Two such names could not be told apart.
                Err(_) => self.excess = Some(format!("`{relative}` has a name that is not UTF-8")),
            }
            if self.excess.is_some() {
                break;
            }
        }
        names.sort();
        names
    }

    /// What is at a path. Links and special files become items here.
    fn place(&mut self, path: &Path, relative: &str, border: &Path) -> Place {
        let Ok(meta) = fs::symlink_metadata(path) else { return Place::Nothing };
        if !meta.is_symlink() {
            return self.kind_of(&meta, path.to_owned(), relative);
        }
        let target = fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned();
        let text = format!("link to {target}\n");
        let inside = fs::canonicalize(path).ok().filter(|real| real.starts_with(border));
        // A folder that contains its own link has been looked over already.
        let Some(real) = inside.filter(|real| !path.starts_with(real)) else {
            self.add(relative, ItemKind::LinkOut, &target, Some(text));
            return Place::Nothing;
        };
        self.add(&format!("{relative}@"), ItemKind::Link, &target, Some(text));
        match fs::metadata(&real) {
            Ok(meta) => self.kind_of(&meta, real, relative),
            Err(_) => Place::Nothing,
        }
    }

    fn kind_of(&mut self, meta: &Metadata, path: PathBuf, relative: &str) -> Place {
        if meta.is_file() {
            Place::File(path)
        } else if meta.is_dir() {
            Place::Folder(path)
        } else {
            self.add(relative, ItemKind::Special, "", None);
            Place::Nothing
        }
    }

    fn file(&mut self, path: &Path, relative: &str) {
        let Some(content) = self.content(path, relative) else { return };
        let text = content.bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let name = relative.rsplit('/').next().unwrap_or_default();
        let (json, env) = (name.ends_with(".json"), name == ".env" || name.starts_with(".env."));
        match text {
            Some(text) if env => {
                let lines = shown::variables(&text, &self.root);
                self.announcements.extend(announcement::of_variables(relative, &text));
                self.add(relative, ItemKind::Variables, &sha256_hex(lines.as_bytes()), Some(lines));
            }
            Some(text) => {
                let (said, kept) = match name {
                    _ if json => (announcement::of_json(relative, &text), shown::json(&text)),
                    _ => (announcement::of_text(relative, &text), Some(text)),
                };
                self.announcements.extend(said);
                self.add(relative, ItemKind::File, &content.hash, kept);
            }
            None if env || relative == ".gemini/settings.json" => {
                self.excess = Some(format!("`{relative}` is too long or not UTF-8"));
            }
            None => self.add(relative, ItemKind::File, &content.hash, None),
        }
    }

    /// A file's content. One that there is no room for is an excess, and one that cannot be read is an item.
    fn content(&mut self, path: &Path, relative: &str) -> Option<Content> {
        let Some(left) = self.files_left.checked_sub(1) else {
            self.excess = Some(format!("it has more than {MAX_FILES} relevant files"));
            return None;
        };
        self.files_left = left;
        match self.read(path) {
            Ok(Some(content)) => return Some(content),
            Ok(None) => {
                self.excess = Some(format!("`{relative}` and the files before it are too large together"));
            }
            Err(_) => self.add(relative, ItemKind::Special, "", None),
        }
        None
    }

    /// A file's hash; `None` if there is no room for it.
    fn read(&mut self, path: &Path) -> io::Result<Option<Content>> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut kept = Some(Vec::new());
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = file.read(&mut buffer)?;
            let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { break };
            let Some(left) = self.bytes_left.checked_sub(count as u64) else { return Ok(None) };
            self.bytes_left = left;
            hasher.update(piece);
            kept = kept.filter(|bytes: &Vec<u8>| bytes.len() + count <= MAX_SHOWN).map(|mut bytes| {
                bytes.extend_from_slice(piece);
                bytes
            });
        }
        Ok(Some(Content { hash: hex::encode(&hasher.finalize()), bytes: kept }))
    }

    /// Files of the folder that a command names: whatever they look like, changing one may change what runs.
    fn named_scripts(&mut self) {
        let (mut lookups, said) = (Lookups(MAX_LOOKUPS), self.announcements.len());
        let commands: Vec<Announcement> =
            self.announcements.iter().filter(|said| said.role.runs()).cloned().collect();
        for command in &commands {
            for real in named::files(&self.root, &command.text, command.cwd(), &mut lookups) {
                self.named(&real);
            }
        }
        // They are read for their hashes alone: a server that one of them describes is not started.
        self.announcements.truncate(said);
        if lookups.0 == 0 {
            self.excess = Some("its commands name too many files".to_owned());
        }
    }

    fn named(&mut self, real: &Path) {
        let Ok(relative) = real.strip_prefix(&self.root) else { return };
        let relative = relative.to_string_lossy().replace('\\', "/");
        if self.items.contains_key(&relative) {
            return;
        }
        // Of data only the hash is kept: it may hold secrets.
        let is_shown = real.extension().is_none()
            || fs::metadata(real).is_ok_and(|meta| meta.is_file() && is_program(real, &meta));
        if is_shown {
            self.file(real, &relative);
        } else if let Some(content) = self.content(real, &relative) {
            self.add(&relative, ItemKind::File, &content.hash, None);
        }
    }

    fn add(&mut self, relative: &str, kind: ItemKind, content: &str, text: Option<String>) {
        let text = text.filter(|text| text.len() <= MAX_KEPT.min(self.text_left));
        self.text_left -= text.as_ref().map_or(0, String::len);
        let hash = sha256_hex(format!("{relative}\0{}\0{content}", kind.word()).as_bytes());
        self.items.insert(relative.to_owned(), Item { path: relative.to_owned(), kind, hash, text });
    }
}

impl ItemKind {
    /// How it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Variables => "variables",
            Self::Link => "link",
            Self::LinkOut => "link-out",
            Self::Special => "special",
        }
    }
}

/// Whether a file looks as if it is run and not just read by what a command starts.
fn is_program(path: &Path, meta: &Metadata) -> bool {
    const SUFFIXES: &[&str] =
        &["bat", "bash", "cjs", "cmd", "js", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "ts", "zsh"];
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    #[cfg(unix)]
    let executable = {
        use std::os::unix::fs::PermissionsExt;
        meta.permissions().mode() & 0o111 != 0
    };
    #[cfg(not(unix))]
    let executable = {
        let _ = meta;
        suffix == Some("exe")
    };
    executable || suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix))
}

#[cfg(all(test, unix))]
mod tests;
