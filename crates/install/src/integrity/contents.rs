//! Hashes the files of an extension, so that a change is detected.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use pollux_domain::hex;
use pollux_extend::extension::METADATA;
use ring::digest;
use serde_json::{Value, json};

/// Files that are hashed separately; all others share one hash.
const MAX_LISTED: usize = 500;
/// Limit of names in a description of changes.
const MAX_TOLD: usize = 5;
const MAX_DEPTH: usize = 64;
/// Files that users change on purpose, or that belong to the installation.
const PASSED_OVER: &[&str] = &[".env", ".env.lock", ".git", METADATA];
/// Third-party packages, with thousands of files.
const BULK: &str = "node_modules";

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    hash: String,
    length: u64,
    /// Nanoseconds since 1970.
    modified: String,
}

/// The files of an extension.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    listed: BTreeMap<String, Mark>,
    /// One hash of all that is not listed.
    rest: String,
}

/// How thoroughly files are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Listed files whose size or time changed.
    Glance,
    /// Every byte.
    Full,
}

/// The differences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub changed: Vec<String>,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }

    /// A short description: the counts per kind, and the first names.
    pub fn summary(&self) -> String {
        let kinds = [("changed", &self.changed), ("added", &self.added), ("removed", &self.removed)];
        let told = kinds.into_iter().filter(|(_, names)| !names.is_empty()).map(|(word, names)| {
            let first: Vec<&str> = names.iter().take(MAX_TOLD).map(String::as_str).collect();
            let more = names.len().saturating_sub(MAX_TOLD);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("{word}: {}{more}", first.join(", "))
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

impl Contents {
    /// Of everything in a folder; links are their targets' names and are not followed.
    pub fn of(folder: &Path) -> Self {
        let mut walk = Walk { found: Self::default(), rest: digest::Context::new(&digest::SHA256) };
        walk.folder(folder, "", 0, false);
        walk.found.rest = hex::encode(walk.rest.finish().as_ref());
        walk.found
    }

    /// How a folder differs from this.
    pub fn changes(&self, folder: &Path, depth: Depth) -> Changes {
        match depth {
            Depth::Full => self.compared(&Self::of(folder)),
            Depth::Glance => {
                let mut changes = Changes::default();
                for (name, mark) in &self.listed {
                    let path = folder.join(name);
                    match fs::symlink_metadata(&path) {
                        Err(_) => changes.removed.push(name.clone()),
                        Ok(meta) if meta.len() == mark.length && modified(&meta) == mark.modified => {}
                        Ok(meta) if hash(&path, &meta) == mark.hash => {}
                        Ok(_) => changes.changed.push(name.clone()),
                    }
                }
                changes
            }
        }
    }

    /// How others differ from these.
    pub fn compared(&self, now: &Self) -> Changes {
        let mut changes = Changes::default();
        for (name, mark) in &self.listed {
            match now.listed.get(name) {
                None => changes.removed.push(name.clone()),
                Some(other) if other.hash != mark.hash => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        changes.added = now.listed.keys().filter(|name| !self.listed.contains_key(*name)).cloned().collect();
        if self.rest != now.rest {
            changes.changed.push(format!("{BULK} and further files"));
        }
        changes
    }

    pub(super) fn to_json(&self) -> Value {
        let files = self.listed.iter().map(|(name, mark)| {
            (name.clone(), json!({"hash": mark.hash, "length": mark.length, "modified": mark.modified}))
        });
        json!({"files": files.collect::<serde_json::Map<_, _>>(), "rest": self.rest})
    }

    /// `None` if any part cannot be understood: its file would never count as changed.
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let listed = entry.get("files")?.as_object()?.iter().map(|(name, mark)| {
            let text = |key: &str| mark.get(key).and_then(Value::as_str).map(str::to_owned);
            let length = mark.get("length").and_then(Value::as_u64)?;
            Some((name.clone(), Mark { hash: text("hash")?, length, modified: text("modified")? }))
        });
        Some(Self { listed: listed.collect::<Option<_>>()?, rest: entry.get("rest")?.as_str()?.to_owned() })
    }
}

struct Walk {
    found: Contents,
    rest: digest::Context,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize, bulk: bool) {
        let mut entries: Vec<_> = match fs::read_dir(folder) {
            Ok(entries) if depth <= MAX_DEPTH => entries.flatten().collect(),
            Ok(_) | Err(_) => return,
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        let (folders, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        // Files first, so that those nearest to the top are the ones that are listed.
        for entry in others.into_iter().chain(folders) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if depth == 0 && PASSED_OVER.contains(&name.as_str()) {
                continue;
            }
            let shown = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
            if meta.is_dir() {
                self.folder(&entry.path(), &shown, depth + 1, bulk || name == BULK);
                continue;
            }
            let hash = hash(&entry.path(), &meta);
            if bulk || self.found.listed.len() >= MAX_LISTED {
                self.rest.update(format!("{shown}\0{hash}\0").as_bytes());
            } else {
                let mark = Mark { hash, length: meta.len(), modified: modified(&meta) };
                self.found.listed.insert(shown, mark);
            }
        }
    }
}

fn modified(meta: &fs::Metadata) -> String {
    let since = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.unwrap_or_default().as_nanos().to_string()
}

/// Hash of a file's bytes, or of a link's target; other entries have no content.
fn hash(path: &Path, meta: &fs::Metadata) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    if meta.file_type().is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        context.update(b"link\0");
        context.update(target.to_string_lossy().as_bytes());
    } else if meta.is_file() && read_into(path, &mut context).is_err() {
        return "unreadable".to_owned();
    }
    hex::encode(context.finish().as_ref())
}

fn read_into(path: &Path, context: &mut digest::Context) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        match buffer.get(..count) {
            Some(bytes) if count > 0 => context.update(bytes),
            Some(_) | None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pollux_config::files::{self, Mode};

    use super::*;

    fn put(folder: &Path, name: &str, text: &str) {
        files::replace(&folder.join(name), text.as_bytes(), Mode::Shared).unwrap();
    }

    #[test]
    fn every_kind_of_change_is_detected_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        for name in ["a.js", "b.js", "sub/c.js", "node_modules/x/index.js"] {
            put(folder, name, name);
        }
        let before = Contents::read(&Contents::of(folder).to_json()).unwrap();
        assert!(before.changes(folder, Depth::Full).is_empty());
        // User settings and installation metadata are not included.
        put(folder, ".env", "A=1");
        put(folder, METADATA, "{}");
        put(folder, ".git/HEAD", "x");
        assert!(before.changes(folder, Depth::Full).is_empty());
        put(folder, "a.js", "other");
        put(folder, "new.js", "");
        put(folder, "node_modules/x/index.js", "evil");
        fs::remove_file(folder.join("b.js")).unwrap();
        let changes = before.changes(folder, Depth::Full);
        assert_eq!(
            changes.summary(),
            "changed: a.js, node_modules and further files; added: new.js; removed: b.js"
        );
        let glance = before.changes(folder, Depth::Glance);
        assert_eq!((glance.changed, glance.removed), (vec!["a.js".to_owned()], vec!["b.js".to_owned()]));
    }

    #[test]
    fn a_new_modification_time_alone_is_not_a_change() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "a", "same");
        let before = Contents::of(dir.path());
        put(dir.path(), "a", "same");
        assert!(before.changes(dir.path(), Depth::Glance).is_empty());
    }
}
