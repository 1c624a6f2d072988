//! Tools that read files: names that a shell command could not read without approval need it here as well.
//!
//! Judges what a call names; does not look into the folders of a search, and leaves to the tools what they never open.

use std::path::{Path, PathBuf};

use pollux_domain::closed_names::closed_part;
use pollux_domain::tool::Effect;

use super::tree_search::TreeSearch;
use super::working_dirs::WorkingDirs;
use super::{Engine, PolicyCall};
use crate::checker::place;
use crate::disk::{BoundedDisk, EntryKind, finds_any};
use crate::secrets::{is_private_folder, is_secret_name, samples};
use crate::shell::Tree;

/// Arguments that name or limit the files of a search, in any of their spellings.
const PATTERN_KEYS: [&str; 6] = ["include", "include_pattern", "glob", "paths", "file_path", "path"];
/// Characters that make a word a pattern.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

impl Engine {
    /// Why a tool may not read what a call names.
    pub(super) fn reads_secret(&self, call: &PolicyCall<'_>) -> Option<String> {
        let tool = call.name.canonical();
        if !matches!(tool, "read_file" | "read_many_files" | "grep_search") {
            return None;
        }
        let root = self.options.workspaces.first().map_or(Path::new("/"), PathBuf::as_path);
        if let Effect::Read(paths) = call.request.effect
            && let Some(why) = paths.iter().find_map(|path| self.secret_path(path))
        {
            return Some(why);
        }
        let given = PATTERN_KEYS.iter().filter_map(|key| call.request.args.get(*key));
        let mut texts = Vec::new();
        given.for_each(|value| super::strings(value, &mut texts));
        texts.into_iter().find_map(|text| match text.contains(SPECIAL) {
            false => self.secret_path(&place(root, text, None)).or_else(|| {
                (tool == "read_many_files").then(|| self.secret_in_search(root, text, Vec::new())).flatten()
            }),
            true if tool == "read_many_files" => {
                let (folder, name) = text.rsplit_once('/').unwrap_or(("", text));
                let fixed = folder.split('/').take_while(|part| !part.contains(SPECIAL));
                let fixed = fixed.collect::<Vec<_>>().join("/");
                self.secret_in_search(root, &fixed, vec![name.to_owned()])
            }
            true => {
                let last = text.rsplit('/').next().unwrap_or_default();
                let is_aimed = last.contains('{') && last.contains("env")
                    || !last.trim_matches('*').is_empty() && samples().any(|name| finds_any(last, &name));
                is_aimed.then(|| format!("`{text}` may match files that contain secrets"))
            }
        })
    }

    /// Why a file may not be read, judging by its name and what it is a link to.
    fn secret_path(&self, path: &Path) -> Option<String> {
        let real = place(path, "", self.options.resolve.as_ref());
        [path, &real].into_iter().find_map(|path| {
            let roots = self.options.workspaces.iter();
            let below = roots
                .filter_map(|root| {
                    let real = place(root, "", self.options.resolve.as_ref());
                    path.strip_prefix(root).or_else(|_| path.strip_prefix(real)).ok()
                })
                .next()?;
            // The tools refuse these themselves.
            if closed_part(below).is_some() {
                return None;
            }
            let mut names = below.components().map(|part| part.as_os_str().to_string_lossy());
            let is_secret = names.any(|name| is_secret_name(&name) || is_private_folder(&name));
            is_secret.then(|| format!("it would read `{}`, which may contain secrets", below.display()))
        })
    }

    /// Why the files below a folder, or those with such names, may not be read.
    fn secret_in_search(&self, root: &Path, folder: &str, only: Vec<String>) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let folder = place(root, folder, self.options.resolve.as_ref());
        let is_inside = self.inside(&folder, "");
        if !is_inside || disk.kind(&folder) != Some(EntryKind::Folder) {
            return None;
        }
        let closed = [".git", "node_modules", ".env"].map(str::to_owned).to_vec();
        let tree =
            Tree { hidden: true, only, without: closed.clone(), without_folders: closed, ..Tree::default() };
        let places = WorkingDirs { all: vec![folder.clone()], unknown: false, starts_outside: false };
        let mut look = BoundedDisk::new(disk);
        let found = TreeSearch::new(self, &places, &tree, &folder, &look).folder(&folder, &mut look);
        found.err().flatten()
    }
}
