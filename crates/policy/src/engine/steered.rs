//! Configuration of a folder that makes a program do more than its arguments say.
//!
//! A project's `.npmrc` names a registry, folders that npm writes to and variables that it sends; `rust-toolchain.toml` may
//! name a folder whose programs run instead of `rustc`. Does not look at files outside the workspace: they are the user's.

use std::path::Path;

use super::Engine;
use crate::disk::{BoundedDisk, EntryKind, MAX_BYTES};
use crate::shell::{self, Part};

impl Engine {
    /// Why the files of a folder, or of one above it, change what a read-only command does.
    pub(super) fn steered(&self, part: &Part, from: &Path, look: &BoundedDisk<'_>) -> Option<String> {
        let program = super::program_base(part.words.first()?.as_deref()?);
        let (configured, toolchains) = shell::steered_by(program);
        if configured.is_empty() && toolchains.is_empty() {
            return None;
        }
        let resolve = |root: &Path| match &self.options.resolve {
            Some(resolve) => resolve(root),
            None => root.to_owned(),
        };
        let roots: Vec<_> = self.options.workspaces.iter().map(|root| resolve(root)).collect();
        let folders = from.ancestors().take_while(|folder| roots.iter().any(|root| folder.starts_with(root)));
        for folder in folders {
            let finds = |name: &str| look.disk.kind(&folder.join(name)).is_some();
            if let Some(name) = configured.iter().find(|name| finds(name)) {
                return Some(format!("`{program}` reads this project's `{name}`"));
            }
            let names_folder = |name: &str| match look.disk.kind(&folder.join(name)) {
                None | Some(EntryKind::Folder) => false,
                Some(_) => look
                    .disk
                    .text(&folder.join(name))
                    .is_none_or(|text| text.len() as u64 >= MAX_BYTES || names_path(&text)),
            };
            if let Some(name) = toolchains.iter().find(|name| names_folder(name)) {
                return Some(format!("`{name}` may name a folder whose programs run instead of `{program}`"));
            }
        }
        None
    }
}

/// Whether a toolchain file may have the key `path`. The key may be written with escapes.
fn names_path(text: &str) -> bool {
    text.contains("path") || text.contains('\\') || !text.contains('[') && text.contains('/')
}
