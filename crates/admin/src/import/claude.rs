//! Collects Claude Code's files: settings, permissions, hooks, servers, commands, sub-agents, skills and notes.

use std::path::Path;

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::places::SourceFolder;
use super::plan::{Collector, ImportChange, ImportItem, ImportKind, object, texts};
use super::prompts::{self, CommandSyntax};
use super::rules::{RuleDecision, from_claude, overlaps};
use super::{hooks, servers, shared};

const NOTES: &str = "CLAUDE.md";

/// Collects the files in the user's home; `state` is `~/.claude.json`.
pub(super) fn user(source: &SourceFolder, state: &Path, items: &mut Vec<ImportItem>) {
    let file = source.root.join("settings.json");
    if let Some(found) = shared::json(source, &file, items) {
        user_settings(&found, &mut Collector::new(items, source.scope, &file));
    }
    if let Some(found) = shared::json(source, state, items) {
        let mut out = Collector::new(items, source.scope, state);
        if let Some(Value::Object(entries)) = found.get("mcpServers") {
            servers::from_claude(entries, &mut out);
        }
        for (folder, project) in object(&found, "projects") {
            let own = project.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
            for (name, _) in own {
                let reason = format!("only for `{folder}`; add it with `pollux mcp add`");
                out.skipped(ImportKind::Server, name, reason);
            }
        }
    }
    shared::user_notes(source, &[NOTES], items);
    folders(source, items);
}

/// Collects the files in the project, whose root is `root`.
pub(super) fn project(source: &SourceFolder, root: &Path, items: &mut Vec<ImportItem>) {
    let file = source.root.join("settings.json");
    if let Some(found) = shared::json(source, &file, items) {
        project_settings(&found, &mut Collector::new(items, source.scope, &file));
    }
    let personal = source.root.join("settings.local.json");
    if personal.exists() {
        let reason = "personal settings; `pollux hooks migrate --from-claude` converts its hooks";
        Collector::new(items, source.scope, &personal).skipped(
            ImportKind::Setting,
            "settings.local.json",
            reason,
        );
    }
    let file = root.join(".mcp.json");
    if let Some(found) = shared::json(source, &file, items)
        && let Some(Value::Object(entries)) = found.get("mcpServers")
    {
        servers::from_claude(entries, &mut Collector::new(items, source.scope, &file));
    }
    shared::project_notes(source, root, &[NOTES], items);
    folders(source, items);
}

fn folders(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    prompts::commands(source, "commands", CommandSyntax::Claude, items);
    prompts::claude_agents(source, items);
    shared::skills(source, items);
}

fn user_settings(found: &JsonObject, out: &mut Collector<'_>) {
    for (key, value) in found {
        match (key.as_str(), value) {
            ("$schema" | "disableAllHooks", _) => {}
            ("model", Value::String(model)) => self::model(model, out),
            ("effortLevel", Value::String(level)) => shared::effort(key, level, out),
            ("permissions", Value::Object(permissions)) => self::permissions(permissions, out),
            ("hooks", Value::Object(hooks)) => self::hooks(found, hooks, out),
            ("env", Value::Object(variables)) => environment(variables, out),
            _ => out.skipped(ImportKind::Setting, key, "no equivalent setting"),
        }
    }
}

/// A project cannot grant permissions or choose models and variables.
fn project_settings(found: &JsonObject, out: &mut Collector<'_>) {
    for (key, value) in found {
        match (key.as_str(), value) {
            ("$schema" | "disableAllHooks", _) => {}
            ("hooks", Value::Object(hooks)) => self::hooks(found, hooks, out),
            ("permissions", _) => {
                let reason =
                    "a project cannot grant permissions; only those in your home directory are converted";
                out.skipped(ImportKind::Rule, key, reason);
            }
            _ => out.skipped(ImportKind::Setting, key, "not converted from a project"),
        }
    }
}

fn hooks(found: &JsonObject, hooks: &JsonObject, out: &mut Collector<'_>) {
    if found.get("disableAllHooks") == Some(&Value::Bool(true)) {
        out.skipped(ImportKind::Hook, "hooks", "disabled by `disableAllHooks`");
    } else {
        hooks::collect(hooks, out);
    }
}

fn model(model: &str, out: &mut Collector<'_>) {
    if model.starts_with("claude-") && !model.contains('[') {
        out.setting("model.name", json!(format!("anthropic/{model}")));
    } else {
        let reason = "model aliases are not supported; run `pollux config set model.name anthropic/MODEL`";
        out.skipped(ImportKind::Setting, format!("model {model}"), reason);
    }
}

fn permissions(found: &JsonObject, out: &mut Collector<'_>) {
    let lists = [("allow", RuleDecision::Allow), ("ask", RuleDecision::Ask), ("deny", RuleDecision::Deny)];
    let mut lost = Vec::new();
    for (key, decision) in &lists[1..] {
        lost.extend(texts(found.get(*key)).filter(|rule| from_claude(rule, *decision).is_err()));
    }
    for (key, decision) in lists {
        for rule in texts(found.get(key)) {
            let name = format!("{key} {rule}");
            let narrower = lost.iter().find(|lost| decision == RuleDecision::Allow && overlaps(rule, lost));
            if let Some(narrower) = narrower {
                let reason = format!("it would allow more than before: `{narrower}` has no equivalent");
                out.skipped(ImportKind::Rule, name, reason);
                continue;
            }
            match from_claude(rule, decision) {
                Ok(block) => out.ready(ImportKind::Rule, name, ImportChange::AddRule(block)),
                Err(reason) => out.skipped(ImportKind::Rule, name, reason),
            }
        }
    }
    match found.get("defaultMode").and_then(Value::as_str) {
        None => {}
        Some("default") => out.setting("general.defaultApprovalMode", json!("default")),
        Some("acceptEdits") => out.setting("general.defaultApprovalMode", json!("auto_edit")),
        Some("plan") => out.setting("general.defaultApprovalMode", json!("plan")),
        Some(mode) => {
            let reason = "no equivalent in settings files; see `--approval-mode`";
            out.skipped(ImportKind::Setting, format!("permissions.defaultMode {mode}"), reason);
        }
    }
    let folders = texts(found.get("additionalDirectories"));
    let (absolute, relative): (Vec<&str>, Vec<&str>) = folders.partition(|folder| folder.starts_with('/'));
    if !absolute.is_empty() {
        let path = vec!["context".to_owned(), "includeDirectories".to_owned()];
        let values = absolute.into_iter().map(Value::from).collect();
        let change = ImportChange::AddToList { path, values };
        out.ready(ImportKind::Setting, "context.includeDirectories", change);
    }
    for folder in relative {
        let name = format!("permissions.additionalDirectories {folder}");
        out.skipped(ImportKind::Setting, name, "not an absolute path");
    }
}

/// Pollux has no settings for variables, only one for the base URL. Values may be secrets.
fn environment(variables: &JsonObject, out: &mut Collector<'_>) {
    for (name, value) in variables {
        match (name.as_str(), value.as_str()) {
            ("ANTHROPIC_BASE_URL", Some(url)) if shared::is_plain_url(url) => {
                out.setting("providers.anthropic.baseUrl", json!(url));
            }
            ("ANTHROPIC_MODEL", Some(model)) => self::model(model, out),
            _ => {
                let reason = "settings cannot set variables; set it in your shell or in ~/.gemini/.env";
                out.skipped(ImportKind::Setting, format!("env.{name}"), reason);
            }
        }
    }
}
