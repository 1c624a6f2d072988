//! Tools that read files: names that a shell command could not read without approval need it here as well.
//!
//! Judges what a call names. What a search finds is left to the tools: they leave out secrets unless the pattern itself
//! names them, and never open closed files.

use std::path::{Path, PathBuf};

use pollux_domain::closed_names::closed_part;

use super::{Engine, PolicyCall};
use crate::checker::place;
use crate::secrets::secret_part;

/// Arguments that name or limit the files of a search, in any of their spellings.
const PATTERN_KEYS: [&str; 6] = ["include", "include_pattern", "glob", "paths", "file_path", "path"];
/// Characters that make a word a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

impl Engine {
    /// Why a tool may not read what a call names.
    pub(super) fn reads_secret(&self, call: &PolicyCall<'_>) -> Option<String> {
        let tool = call.name.canonical();
        // A failed replacement shows the text that is most similar.
        if !matches!(tool, "read_file" | "read_many_files" | "grep_search" | "replace") {
            return None;
        }
        let root = self.options.workspaces.first().map_or(Path::new("/"), PathBuf::as_path);
        if let Some(why) = call.request.effect.paths().iter().find_map(|path| self.secret_path(path)) {
            return Some(why);
        }
        let given = PATTERN_KEYS.iter().filter_map(|key| call.request.args.get(*key));
        let mut texts = Vec::new();
        given.for_each(|value| super::strings(value, &mut texts));
        // A slash at its start ties the pattern of a search to the folder that is searched.
        let tied = texts.iter().filter(|_| tool == "grep_search").map(|text| text.trim_start_matches('/'));
        let tied: Vec<&str> = tied.collect();
        texts.into_iter().chain(tied).find_map(|text| self.secret_text(root, text))
    }

    /// Why a file or pattern that a call names may not be read.
    fn secret_text(&self, root: &Path, text: &str) -> Option<String> {
        let path = place(root, text, None);
        // Tools test patterns as they are written: an alternative may hide a name behind `..` or a closed folder.
        let roots = self.options.workspaces.iter().map(|root| place(root, "", self.options.resolve.as_ref()));
        let below = roots.chain(self.options.workspaces.iter().cloned()).find_map(|root| {
            let rest = text.strip_prefix(root.to_str()?)?;
            rest.strip_prefix('/')
        });
        let below = Path::new(below.unwrap_or(text));
        if text.contains(SPECIAL) && !below.is_absolute() && secret_part(below).is_some() {
            return Some(format!("`{text}` may match files that contain secrets"));
        }
        self.secret_path(&path)
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
            secret_part(below)?;
            Some(format!("it would read `{}`, which may contain secrets", below.display()))
        })
    }
}
