//! Completions for shell commands: programs and paths.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_front::editors::is_program;
use pollux_tui::composer::Item;

/// Directory entries that are read.
const MOST_ENTRIES: usize = 20_000;
/// Maximum number of suggestions.
const MOST: usize = 200;

/// Programs that start with a prefix.
pub(super) fn programs(word: &str, env: &Env) -> Vec<Item> {
    let mut names: Vec<String> = folders(env)
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.take(MOST_ENTRIES).flatten())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| name.starts_with(word) && is_program(path))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    names.dedup();
    names.truncate(MOST);
    names.into_iter().map(|name| Item { label: name.clone(), insert: name, ..Item::default() }).collect()
}

/// Paths that start with a prefix, as typed in a folder. Hidden ones only if the prefix starts with a dot.
pub(super) fn paths(word: &str, here: &Path, home: &Path) -> Vec<Item> {
    let (folder, start) = word.rsplit_once('/').map_or(("", word), |(folder, start)| (folder, start));
    let typed = word.strip_suffix(start).unwrap_or_default();
    let place = match typed.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if typed == "/" => PathBuf::from("/"),
        None => here.join(folder),
    };
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(MOST_ENTRIES)
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let fits = name.starts_with(start) && (!name.starts_with('.') || start.starts_with('.'));
            // Links to folders count as folders.
            fits.then(|| if entry.path().is_dir() { format!("{name}/") } else { name })
        })
        .collect();
    names.sort_unstable();
    names.truncate(MOST);
    let item =
        |name: String| Item { insert: format!("{typed}{name}"), label: name, path: true, ..Item::default() };
    names.into_iter().map(item).collect()
}

fn folders(env: &Env) -> impl Iterator<Item = PathBuf> {
    let path = env.get("PATH").unwrap_or_default();
    // Relative folders are not trusted.
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect::<Vec<_>>().into_iter()
}
