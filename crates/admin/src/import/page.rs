//! Prints the result of an import.

use serde_json::{Value, json};

use super::plan::{ImportItem, ImportScope, ImportState};
use super::{Import, ImportAgent};

/// The result of an import, or of a dry run.
pub(super) fn text(import: &Import, dry_run: bool) -> String {
    let mut text = format!("{} ({})\n", import.agent.label(), import.folders());
    let is_new = |state: &ImportState| matches!(state, ImportState::Ready(_) | ImportState::Written);
    let done = if dry_run { "Would be converted" } else { "Converted" };
    for (title, wanted) in [
        (done, &is_new as &dyn Fn(&ImportState) -> bool),
        ("Already present", &|state| matches!(state, ImportState::Present)),
        ("Not overwritten", &|state| matches!(state, ImportState::Conflict(_))),
        ("Not converted", &|state| matches!(state, ImportState::Skipped(_))),
        ("Failed", &|state| matches!(state, ImportState::Failed(_))),
    ] {
        let items: Vec<&ImportItem> = import.items.iter().filter(|item| wanted(&item.state)).collect();
        if !items.is_empty() {
            text.push_str(&format!("\n{title}:\n"));
            items.iter().for_each(|item| text.push_str(&line(item)));
        }
    }
    if import.items.is_empty() {
        text.push_str("\nNothing to convert.\n");
    }
    text.push_str(&sessions(import));
    let of_project = |item: &ImportItem| item.scope == ImportScope::Project && is_new(&item.state);
    if import.items.iter().any(of_project) {
        text.push_str(
            "\nThe project's files take effect once you trust the folder: run `pollux trust show`, then \
             `pollux trust allow`.\n",
        );
    }
    text
}

fn line(item: &ImportItem) -> String {
    let mut line = format!("  {:<8}  {}", item.kind.word(), item.name);
    if item.scope == ImportScope::Project {
        line.push_str(" (project)");
    }
    if let (Some(to), ImportState::Ready(_) | ImportState::Written) = (&item.to, &item.state) {
        line.push_str(&format!(" -> {}", to.display()));
    }
    if let Some(note) = &item.note {
        line.push_str(&format!(" [{note}]"));
    }
    if let Some(reason) = reason(&item.state) {
        line.push_str(&format!(": {reason}"));
    }
    line.push('\n');
    line
}

fn sessions(import: &Import) -> String {
    let word = import.agent.store().as_str();
    match import.sessions {
        0 => String::new(),
        1 => format!("\n1 session: `pollux sessions list --source {word} --all-projects` lists it.\n"),
        count => format!(
            "\n{count} sessions: `pollux sessions list --source {word} --all-projects` lists them, and \
             `pollux sessions import ID --source {word}` converts one.\n"
        ),
    }
}

/// What was found, without importing it.
pub(super) fn overview(imports: &[Import]) -> String {
    if imports.is_empty() {
        return "No Claude Code or Codex files found.\n".to_owned();
    }
    let mut text = String::new();
    for import in imports {
        let count =
            |wanted: fn(&ImportState) -> bool| import.items.iter().filter(|item| wanted(&item.state)).count();
        text.push_str(&format!("{} ({})\n", import.agent.label(), import.folders()));
        for (title, count) in [
            ("to convert", count(|state| matches!(state, ImportState::Ready(_)))),
            ("already present", count(|state| matches!(state, ImportState::Present))),
            ("not overwritten", count(|state| matches!(state, ImportState::Conflict(_)))),
            ("not converted", count(|state| matches!(state, ImportState::Skipped(_)))),
            ("sessions", import.sessions),
        ] {
            if count > 0 {
                text.push_str(&format!("  {count:>4}  {title}\n"));
            }
        }
        let word = import.agent.word();
        text.push_str(&format!("  `pollux import {word} --dry-run` shows the details.\n"));
    }
    text
}

pub(super) fn json(imports: &[Import], dry_run: bool) -> Value {
    let agents: Vec<Value> = imports
        .iter()
        .map(|import| {
            json!({
                "agent": import.agent.word(),
                "dryRun": dry_run,
                "sessions": import.sessions,
                "items": import.items.iter().map(item).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "agents": agents })
}

fn item(item: &ImportItem) -> Value {
    let status = match &item.state {
        ImportState::Ready(_) => "ready",
        ImportState::Written => "written",
        ImportState::Present => "present",
        ImportState::Conflict(_) => "conflict",
        ImportState::Skipped(_) => "skipped",
        ImportState::Failed(_) => "failed",
    };
    json!({
        "kind": item.kind.word(),
        "scope": item.scope.word(),
        "name": item.name,
        "from": item.from,
        "to": item.to,
        "status": status,
        "reason": reason(&item.state),
        "note": item.note,
    })
}

fn reason(state: &ImportState) -> Option<&str> {
    match state {
        ImportState::Conflict(reason) | ImportState::Skipped(reason) | ImportState::Failed(reason) => {
            Some(reason)
        }
        ImportState::Ready(_) | ImportState::Written | ImportState::Present => None,
    }
}

impl ImportAgent {
    pub(super) fn label(self) -> &'static str {
        self.store().label()
    }
}
