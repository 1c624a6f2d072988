//! Items that are collected from both programs in the same way.

use std::path::Path;

use pollux_domain::JsonObject;
use pollux_extend::skills;
use serde_json::{Value, json};

use super::places::{MAX_PROMPT, SourceFolder};
use super::plan::{Collector, ImportChange, ImportItem, ImportKind, ImportScope};

/// Values of `model.effort`.
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A JSON file; one that cannot be read is an item of its own.
pub(super) fn json(source: &SourceFolder, file: &Path, items: &mut Vec<ImportItem>) -> Option<JsonObject> {
    usable(source, file, source.json(file), items)
}

/// A TOML file; one that cannot be read is an item of its own.
pub(super) fn toml(source: &SourceFolder, file: &Path, items: &mut Vec<ImportItem>) -> Option<JsonObject> {
    usable(source, file, source.toml(file), items)
}

fn usable(
    source: &SourceFolder,
    file: &Path,
    read: Result<Option<JsonObject>, String>,
    items: &mut Vec<ImportItem>,
) -> Option<JsonObject> {
    read.unwrap_or_else(|reason| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Collector::new(items, source.scope, file).skipped(ImportKind::Setting, name, reason);
        None
    })
}

/// `model.effort`, where the level has the same name.
pub(super) fn effort(key: &str, level: &str, out: &mut Collector<'_>) {
    if EFFORTS.contains(&level) {
        out.setting("model.effort", json!(level));
    } else {
        out.skipped(ImportKind::Setting, format!("{key} {level}"), "no equivalent level");
    }
}

/// Whether a URL contains no credentials.
pub(super) fn is_plain_url(url: &str) -> bool {
    let is_http = url.starts_with("https://") || url.starts_with("http://");
    is_http && !url.contains(['@', '?', '#', '$'])
}

/// The context files of the user. The first name is the program's own, which is copied to `~/.gemini`.
pub(super) fn user_notes(source: &SourceFolder, names: &[&str], items: &mut Vec<ImportItem>) {
    let Some((own, others)) = names.split_first() else { return };
    let file = source.root.join(own);
    match source.text(&file) {
        Ok(None) => {}
        Ok(Some(text)) if text.trim().is_empty() => {}
        Ok(Some(text)) if text.len() <= MAX_PROMPT => {
            names_setting(source, &file, &[own], items);
            let change = ImportChange::CreateFile { file: own.into(), text };
            Collector::new(items, source.scope, &file).ready(ImportKind::Context, *own, change);
        }
        Ok(Some(_)) => {
            let reason = format!("larger than {} KiB", MAX_PROMPT / 1024);
            Collector::new(items, source.scope, &file).skipped(ImportKind::Context, *own, reason);
        }
        Err(reason) => Collector::new(items, source.scope, &file).skipped(ImportKind::Context, *own, reason),
    }
    if !others.is_empty() {
        names_setting(source, &source.root, others, items);
    }
}

/// The context files of the project, which are read where they are once your settings name them.
pub(super) fn project_notes(source: &SourceFolder, root: &Path, names: &[&str], items: &mut Vec<ImportItem>) {
    let there: Vec<&str> = names.iter().copied().filter(|name| root.join(name).is_file()).collect();
    if !there.is_empty() {
        names_setting(source, root, &there, items);
    }
}

/// Adds names to the user's `context.fileName`, once.
fn names_setting(source: &SourceFolder, from: &Path, names: &[&str], items: &mut Vec<ImportItem>) {
    let path = vec!["context".to_owned(), "fileName".to_owned()];
    let values: Vec<Value> = names.iter().map(|name| json!(name)).collect();
    let change = ImportChange::AddToList { path, values };
    let is_known = |item: &ImportItem| item.state == super::plan::ImportState::Ready(change.clone());
    if !items.iter().any(is_known) {
        let name = format!("context.fileName {}", names.join(", "));
        let from = if source.scope == ImportScope::User { &source.root } else { from };
        Collector::new(items, ImportScope::User, from).ready(ImportKind::Context, name, change);
    }
}

/// The skills of the `skills` folder.
pub(super) fn skills(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let folder = source.root.join("skills");
    if !folder.is_dir() {
        return;
    }
    if !source.holds(&folder) {
        let reason = "a link that points outside the project";
        Collector::new(items, source.scope, &folder).skipped(ImportKind::Skill, "skills", reason);
        return;
    }
    let found = skills::in_folder(&folder);
    for skill in &found.all {
        let Some(inner) = skill.folder().filter(|inner| *inner != folder) else { continue };
        let mut out = Collector::new(items, source.scope, inner);
        if source.holds(&skill.location) {
            let change = ImportChange::CopySkill { folder: inner.to_path_buf(), name: skill.name.clone() };
            out.ready(ImportKind::Skill, &skill.name, change);
        } else {
            out.skipped(ImportKind::Skill, &skill.name, "a link that points outside the project");
        }
    }
    for warning in &found.warnings {
        Collector::new(items, source.scope, &folder).skipped(
            ImportKind::Skill,
            "skills",
            warning.to_string(),
        );
    }
}
