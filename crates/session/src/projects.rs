//! The projects known to a home.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::read_text;
use pollux_config::paths::{Home, sha256_hex};
use pollux_domain::json::parse_lenient_str;
use serde_json::Value;

use crate::listing::{project_hash, session_files};

/// A project with sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProject {
    /// Its path; `None` if only its hash or short name is known.
    pub root: Option<PathBuf>,
    /// SHA-256 of the root's path.
    pub hash: Option<String>,
    /// Every folder that holds sessions of it.
    pub chats_dirs: Vec<PathBuf>,
}

/// The projects whose sessions are in this home: by hash, by short name, and where seeds put them. A folder
/// that cannot be read is passed over.
pub fn known_projects(home: &Home) -> Vec<KnownProject> {
    let register = Register::read(home);
    let mut projects: BTreeMap<String, KnownProject> = BTreeMap::new();
    for folder in [home.tmp_dir(), home.gemini_dir().join("projects")] {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            let chats = entry.join("chats");
            // A folder that cannot be entered may hold sessions; listing it tells why they are missing.
            let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            if !fs::metadata(&chats).map_or_else(is_denied, |metadata| metadata.is_dir()) {
                continue;
            }
            let (root, hash) = register.identify(&entry, &chats);
            let key = hash.clone().unwrap_or_else(|| entry.to_string_lossy().into_owned());
            let project = projects.entry(key).or_insert_with(|| KnownProject {
                root: root.clone(),
                hash,
                chats_dirs: Vec::new(),
            });
            project.root = project.root.take().or(root);
            project.chats_dirs.push(chats);
        }
    }
    let mut projects: Vec<KnownProject> = projects.into_values().collect();
    projects.sort_by(|a, b| (a.root.is_none(), &a.root, &a.hash).cmp(&(b.root.is_none(), &b.root, &b.hash)));
    projects
}

/// The recorded paths, short names and hashes of a home.
#[derive(Debug, Default)]
struct Register {
    by_slug: BTreeMap<String, PathBuf>,
    by_hash: BTreeMap<String, PathBuf>,
}

impl Register {
    fn read(home: &Home) -> Self {
        let mut register = Self::default();
        let text = read_text(&home.projects_file()).ok().flatten().unwrap_or_default();
        let value: Value = parse_lenient_str(&text).unwrap_or_default();
        for (path, slug) in value.get("projects").and_then(Value::as_object).into_iter().flatten() {
            let Some(slug) = slug.as_str().filter(|slug| is_slug(slug)) else { continue };
            register.by_slug.insert(slug.to_owned(), PathBuf::from(path));
            register.by_hash.insert(sha256_hex(path.as_bytes()), PathBuf::from(path));
        }
        for entry in fs::read_dir(home.tmp_dir()).into_iter().flatten().flatten() {
            if let Some(root) = marker(&entry.path()) {
                register.by_hash.insert(sha256_hex(root.to_string_lossy().as_bytes()), root);
            }
        }
        register
    }

    /// The root and hash of the project with this folder. A marker in the folder takes precedence over
    /// the register; the sessions are read last.
    fn identify(&self, folder: &Path, chats: &Path) -> (Option<PathBuf>, Option<String>) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if is_hash(&name) {
            return (self.by_hash.get(name.as_ref()).cloned(), Some(name.into_owned()));
        }
        if let Some(root) = marker(folder).or_else(|| self.by_slug.get(name.as_ref()).cloned()) {
            let hash = sha256_hex(root.to_string_lossy().as_bytes());
            return (Some(root), Some(hash));
        }
        let hash = session_files(&[chats.to_owned()]).iter().rev().find_map(|path| project_hash(path));
        let hash = hash.filter(|hash| is_hash(hash));
        (hash.as_ref().and_then(|hash| self.by_hash.get(hash).cloned()), hash)
    }
}

/// The path that upstream recorded in a project's folder.
fn marker(folder: &Path) -> Option<PathBuf> {
    let text = read_text(&folder.join(".project_root")).ok()??;
    let path = PathBuf::from(text.trim());
    path.is_absolute().then_some(path)
}

fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
