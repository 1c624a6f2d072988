//! Infers the root of a project from tool arguments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use serde_json::Value;

use super::{Proof, name_match};
use crate::listing::{project_hash, session_files};
use crate::load::LoadError;
use crate::projects::KnownProject;
use crate::stream::Stream;
use crate::view::{Speaker, View};

/// So many sessions of a project are read, the latest first, and so many paths taken from them.
const MAX_SESSIONS: usize = 20;
const MAX_PATHS: usize = 2000;

const SINGLE: [&str; 6] = ["file_path", "absolute_path", "path", "dir_path", "directory", "cwd"];
const LISTS: [&str; 2] = ["paths", "include"];

/// The root of a project whose home does not name it. A folder whose hash is the sessions' is proved;
/// otherwise the deepest one that all paths share and that has the name is a guess.
pub(super) fn root_of(project: &KnownProject, name: &str) -> Option<(PathBuf, Proof)> {
    let files = session_files(&project.chats_dirs);
    let latest: Vec<&PathBuf> = files.iter().rev().take(MAX_SESSIONS).collect();
    let mut hashes: BTreeSet<String> = latest.iter().filter_map(|path| project_hash(path)).collect();
    hashes.extend(project.hash.clone());
    let mut paths = BTreeSet::new();
    for file in latest {
        // Unreadable sessions are skipped.
        let _ = collect(file, &mut paths);
    }
    let folders: BTreeSet<&Path> = paths.iter().flat_map(|path| path.ancestors()).collect();
    let proved =
        folders.iter().find(|folder| hashes.contains(&sha256_hex(folder.to_string_lossy().as_bytes())));
    if let Some(root) = proved {
        return Some((root.to_path_buf(), Proof::PathsAndHash));
    }
    let shared = folders.into_iter().filter(|folder| paths.iter().all(|path| path.starts_with(folder)));
    let fitting = shared.filter(|folder| name_match(folder, name).is_some());
    let root = fitting.max_by_key(|folder| folder.components().count())?;
    Some((root.to_owned(), Proof::Inferred))
}

/// Adds the absolute paths that the calls of a session name.
fn collect(file: &Path, paths: &mut BTreeSet<PathBuf>) -> Result<(), LoadError> {
    let stream = Stream::open(file)?;
    stream.for_each(|index, text| {
        if paths.len() < MAX_PATHS
            && let Some(view) = View::of(index, text)
            && view.speaker == Speaker::Agent
        {
            for call in view.calls() {
                paths.extend(named(&call.args()));
            }
        }
        Ok(())
    })
}

fn named(args: &JsonObject) -> Vec<PathBuf> {
    let single = SINGLE.iter().filter_map(|key| args.get(*key)?.as_str());
    let lists = LISTS.iter().filter_map(|key| args.get(*key)?.as_array()).flatten().filter_map(Value::as_str);
    let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
    let tokens =
        command.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '=' | '(' | ')'));
    single
        .chain(lists)
        .chain(tokens)
        .map(Path::new)
        .filter(|path| path.is_absolute() && path.components().count() > 1)
        .map(Path::to_owned)
        .collect()
}
