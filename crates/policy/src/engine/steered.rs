//! Configuration of a folder that makes a program do more than its arguments say.
//!
//! A project's `.npmrc` names a registry, folders that npm writes to and variables that it sends; `rust-toolchain.toml` may
//! name a folder whose programs run
//! instead of `rustc`, and `go.mod` a version of Go that is downloaded and run. Does not look at files outside the workspace: they are the user's.

use std::path::Path;

use super::Engine;
use crate::disk::{BoundedDisk, EntryKind, MAX_BYTES};
use crate::shell::{self, Part, Steering};

impl Engine {
    /// Why the files of a folder, or of one above it, change what a read-only command does.
    pub(super) fn steered(&self, part: &Part, from: &Path, look: &BoundedDisk<'_>) -> Option<String> {
        let program = super::program_base(part.words.first()?.as_deref()?);
        let Steering { files, toolchains, texts, words } = shell::steered_by(program);
        if [files, toolchains, texts].iter().all(|list| list.is_empty()) {
            return None;
        }
        let resolve = |root: &Path| match &self.options.resolve {
            Some(resolve) => resolve(root),
            None => root.to_owned(),
        };
        let roots: Vec<_> = self.options.workspaces.iter().map(|root| resolve(root)).collect();
        let folders = from.ancestors().take_while(|folder| roots.iter().any(|root| folder.starts_with(root)));
        for folder in folders {
            let exists = |name: &&&str| look.disk.kind(&folder.join(name)).is_some();
            if let Some(name) = files.iter().find(exists) {
                return Some(format!("`{program}` reads this project's `{name}`"));
            }
            // A file that cannot be read completely may contain anything.
            let may = |name: &str, says: &dyn Fn(&str) -> bool| match look.disk.kind(&folder.join(name)) {
                None | Some(EntryKind::Folder) => false,
                Some(_) => look
                    .disk
                    .text(&folder.join(name))
                    .is_none_or(|text| text.len() as u64 >= MAX_BYTES || says(&text)),
            };
            if let Some(name) = toolchains.iter().find(|name| may(name, &names_path)) {
                return Some(format!("`{name}` may name a folder whose programs run instead of `{program}`"));
            }
            let has_line = |text: &str| {
                text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)))
            };
            if let Some(name) = texts.iter().find(|name| may(name, &has_line)) {
                return Some(format!(
                    "`{name}` makes `{program}` download and run another version of itself"
                ));
            }
        }
        None
    }
}

/// Whether a toolchain file may have the key `path`. The key may be written with escapes.
fn names_path(text: &str) -> bool {
    text.contains("path") || text.contains('\\') || !text.contains('[') && text.contains('/')
}
