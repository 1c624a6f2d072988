//! Collects Codex's files: settings, providers, rules, hooks, servers, prompts, sub-agents, skills and notes.

use std::collections::BTreeMap;
use std::path::Path;

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_model::providers::{Providers, read_settings};
use serde_json::{Map, Value, json};

use super::places::SourceFolder;
use super::plan::{Collector, ImportChange, ImportItem, ImportKind, texts};
use super::prompts::{self, CommandSyntax};
use super::rules::{allows_more, from_codex};
use super::{hooks, servers, shared};

const NOTES: &str = "AGENTS.md";

/// Collects the files in the user's home.
pub(super) fn user(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let file = source.root.join("config.toml");
    let mut fallbacks = Vec::new();
    if let Some(found) = shared::toml(source, &file, items) {
        user_settings(&found, &mut Collector::new(items, source.scope, &file));
        fallbacks = texts(found.get("project_doc_fallback_filenames")).map(str::to_owned).collect();
    }
    rules(source, items);
    let names: Vec<&str> = std::iter::once(NOTES).chain(fallbacks.iter().map(String::as_str)).collect();
    shared::user_notes(source, &names, items);
    prompts::commands(source, "prompts", CommandSyntax::Codex, items);
    folders(source, items);
}

/// Collects the files in the project, whose root is `root`.
pub(super) fn project(source: &SourceFolder, root: &Path, items: &mut Vec<ImportItem>) {
    let file = source.root.join("config.toml");
    if let Some(found) = shared::toml(source, &file, items) {
        project_settings(&found, &mut Collector::new(items, source.scope, &file));
    }
    for below in source.files(&source.root.join("rules"), "rules") {
        let file = source.root.join("rules").join(&below);
        let reason = "a project cannot grant permissions; only those in your home directory are converted";
        let name = below.display().to_string();
        Collector::new(items, source.scope, &file).skipped(ImportKind::Rule, name, reason);
    }
    shared::project_notes(source, root, &[NOTES], items);
    folders(source, items);
}

fn folders(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let file = source.root.join("hooks.json");
    if let Some(found) = shared::json(source, &file, items)
        && let Some(Value::Object(found)) = found.get("hooks")
    {
        hooks::collect(found, &mut Collector::new(items, source.scope, &file));
    }
    prompts::codex_agents(source, items);
    shared::skills(source, items);
}

fn user_settings(found: &JsonObject, out: &mut Collector<'_>) {
    model(found, out);
    for (key, value) in found {
        match (key.as_str(), value) {
            ("model" | "model_provider" | "project_doc_fallback_filenames", _) => {}
            ("model_reasoning_effort", Value::String(level)) => shared::effort(key, level, out),
            ("model_providers", Value::Object(entries)) => providers(entries, out),
            ("openai_base_url", Value::String(url)) if shared::is_plain_url(url) => {
                out.setting("providers.openai.baseUrl", json!(url));
            }
            ("mcp_servers", Value::Object(entries)) => servers::from_codex(entries, out),
            ("hooks", Value::Object(found)) => hooks::collect(&events(found), out),
            ("approval_policy" | "sandbox_mode" | "sandbox_workspace_write", _) => {
                let reason =
                    "approvals and sandbox work differently; see `--approval-mode` and `tools.sandbox`";
                out.skipped(ImportKind::Setting, key, reason);
            }
            ("projects", _) => {
                let reason = "trust is not imported; review each folder with `pollux trust show`";
                out.skipped(ImportKind::Setting, key, reason);
            }
            ("notify", _) => {
                out.skipped(ImportKind::Setting, key, "no equivalent setting; use an `AfterAgent` hook");
            }
            _ => out.skipped(ImportKind::Setting, key, "no equivalent setting"),
        }
    }
}

/// A project cannot grant permissions or choose models and providers.
fn project_settings(found: &JsonObject, out: &mut Collector<'_>) {
    for (key, value) in found {
        match (key.as_str(), value) {
            ("mcp_servers", Value::Object(entries)) => servers::from_codex(entries, out),
            ("hooks", Value::Object(found)) => hooks::collect(&events(found), out),
            _ => out.skipped(ImportKind::Setting, key, "not converted from a project"),
        }
    }
}

/// The events of the `hooks` table, without the state that Codex keeps there.
fn events(found: &JsonObject) -> JsonObject {
    let events = found.iter().filter(|(key, _)| *key != "state" && *key != "managed_dir");
    events.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn model(found: &JsonObject, out: &mut Collector<'_>) {
    let text = |key: &str| found.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(id) = text("model_provider").filter(|id| !is_usable(id, found)) {
        let reason = format!("its provider `{id}` could not be converted");
        for key in ["model", "model_provider"].into_iter().filter(|key| text(key).is_some()) {
            out.skipped(ImportKind::Setting, key, &reason);
        }
        return;
    }
    match (text("model"), text("model_provider")) {
        (None, None) => {}
        (Some(model), provider) => {
            out.setting("model.name", json!(format!("{}/{model}", provider.unwrap_or("openai"))));
        }
        (None, Some(provider)) => out.setting("model.provider", json!(provider)),
    }
}

/// Whether there is a provider of this name after the import.
fn is_usable(id: &str, found: &JsonObject) -> bool {
    let own = found.get("model_providers").and_then(|entries| entries.get(id));
    match own {
        Some(entry) => provider(id, entry).is_ok(),
        None => Providers::new(&Env::default(), &BTreeMap::new()).find(id).is_some(),
    }
}

fn providers(entries: &JsonObject, out: &mut Collector<'_>) {
    for (id, entry) in entries {
        match provider(id, entry) {
            Ok((value, note)) => {
                let path = vec!["providers".to_owned(), id.clone()];
                out.ready_with_note(ImportKind::Provider, id, note, ImportChange::SetKey { path, value });
            }
            Err(reason) => out.skipped(ImportKind::Provider, id, reason),
        }
    }
}

/// An entry of `model_providers`. Keys of providers are not copied.
fn provider(id: &str, entry: &Value) -> Result<(Value, Option<String>), String> {
    let fields = entry.as_object().ok_or("the entry is not a table")?;
    let mut converted = Map::new();
    let mut lost = Vec::new();
    for (key, value) in fields {
        let ours = match key.as_str() {
            "name" => "name",
            "base_url" => "baseUrl",
            "env_key" => "envKey",
            "wire_api" => "dialect",
            "query_params" => "query",
            "http_headers" => "headers",
            "env_http_headers" => "envHeaders",
            "request_max_retries" => {
                let attempts = value.as_u64().ok_or("`request_max_retries` is not a number")?;
                converted.insert("maxAttempts".to_owned(), json!(attempts.saturating_add(1)));
                continue;
            }
            "stream_idle_timeout_ms" => {
                converted.insert("timeouts".to_owned(), json!({"stallMs": value}));
                continue;
            }
            "stream_max_retries" | "env_key_instructions" | "supports_websockets" => continue,
            _ => {
                lost.push(format!("`{key}`"));
                continue;
            }
        };
        converted.insert(ours.to_owned(), value.clone());
    }
    let address = fields.get("base_url").and_then(Value::as_str);
    if !address.is_some_and(shared::is_plain_url) {
        return Err("`base_url` is missing or contains credentials".to_owned());
    }
    let value = Value::Object(converted);
    let (_, errors) = read_settings(&json!({ id: value }));
    if let Some(error) = errors.first() {
        return Err(error.to_string());
    }
    Ok((value, (!lost.is_empty()).then(|| format!("without {}", lost.join(" and ")))))
}

fn rules(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let folder = source.root.join("rules");
    for below in source.files(&folder, "rules") {
        let file = folder.join(&below);
        let mut out = Collector::new(items, source.scope, &file);
        let text = match source.text(&file) {
            Ok(text) => text.unwrap_or_default(),
            Err(reason) => {
                out.skipped(ImportKind::Rule, below.display().to_string(), reason);
                continue;
            }
        };
        // A rule that is lost may have restricted what another one allows.
        let is_lost = |line: &&str| from_codex(line).is_some_and(|rule| rule.is_err());
        let lost: Vec<&str> = text.lines().filter(is_lost).collect();
        for (number, line) in text.lines().enumerate() {
            let name = format!("{}:{}", below.display(), number + 1);
            match from_codex(line) {
                None => {}
                Some(Ok(_)) if lost.iter().any(|lost| allows_more(line, lost)) => {
                    let reason = "it would allow more than before: a narrower rule has no equivalent";
                    out.skipped(ImportKind::Rule, name, reason);
                }
                Some(Ok(block)) => out.ready(ImportKind::Rule, name, ImportChange::AddRule(block)),
                Some(Err(reason)) => out.skipped(ImportKind::Rule, name, reason),
            }
        }
    }
}
