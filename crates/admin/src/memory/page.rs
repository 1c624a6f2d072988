//! What `pollux memory` prints, apart from search results.

use std::fmt::Write as _;

use pollux_domain::plural::counted;
use pollux_domain::terminal_text::one_line;
use pollux_memory::Synced;
use serde_json::{Value, json};

use super::{Finding, Learned, Model, Passage};

/// Names of the state in the order in which they are shown, and their words.
const FACTS: &[(&str, &str)] = &[
    ("/stateDir", "Kept in"),
    ("/agentId", "Agent"),
    ("/workspaceDir", "Workspace"),
    ("/shared", "Shared"),
    ("/dbPath", "Index"),
    ("/provider", "Vectors by"),
    ("/model", "Model"),
    ("/requestedProvider", "Asked for"),
    ("/fallback/reason", "Because"),
    ("/files", "Files"),
    ("/chunks", "Passages"),
    ("/dirty", "Out of date"),
    ("/outdated", "Reason"),
    ("/cache/entries", "Cached vectors"),
    ("/vector/available", "Vector search"),
    ("/fts/available", "Word search"),
    ("/vector/dims", "Dimensions"),
    ("/learnings", "Learnings"),
    ("/sessions", "Transcripts"),
];

pub(super) fn status(status: &Value) -> String {
    let on = status.get("enabled").and_then(Value::as_bool).unwrap_or_default();
    let mut text = if on {
        "Durable memory is on.\n".to_owned()
    } else {
        "Durable memory is off: nothing is recorded, read or watched. To turn it on, run `pollux memory enable`.\n"
            .to_owned()
    };
    for (path, name) in FACTS {
        let Some(value) = status.pointer(path).filter(|value| !value.is_null()) else { continue };
        let shown = match value {
            Value::String(word) => one_line(word),
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            Value::Array(items) => items.len().to_string(),
            Value::Null | Value::Number(_) | Value::Object(_) => value.to_string(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<16} {shown}");
    }
    for source in status.get("sourceCounts").and_then(Value::as_array).into_iter().flatten() {
        let number = |name: &str| source.get(name).and_then(Value::as_u64).unwrap_or_default();
        let many =
            |name: &str, what: &str| counted(usize::try_from(number(name)).unwrap_or(usize::MAX), what);
        let _ = writeln!(
            text,
            "  {:<16} {}, {}",
            format!("  {}", source.get("source").and_then(Value::as_str).unwrap_or_default()),
            many("files", "file"),
            many("chunks", "passage")
        );
    }
    text
}

pub(super) fn indexed(indexed: &Synced) -> String {
    if indexed.busy {
        return "Another process is updating the index; nothing was done.\n".to_owned();
    }
    let mut text = match &indexed.reindexed {
        Some(why) => format!("Rebuilt ({}).\n", one_line(why)),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "{}: {} changed, {} removed. {} written, {} removed; {} embedded, {} from the cache.",
        counted(indexed.files, "file"),
        indexed.changed,
        indexed.removed,
        counted(indexed.chunks_written, "passage"),
        indexed.chunks_removed,
        indexed.embedded,
        indexed.from_cache
    );
    text
}

pub(super) fn indexed_json(indexed: &Synced) -> Value {
    json!({
        "files": indexed.files,
        "changed": indexed.changed,
        "removed": indexed.removed,
        "chunksWritten": indexed.chunks_written,
        "chunksRemoved": indexed.chunks_removed,
        "embedded": indexed.embedded,
        "fromCache": indexed.from_cache,
        "reindexed": indexed.reindexed,
        "skipped": indexed.skipped,
        "busy": indexed.busy,
    })
}

pub(super) fn passage(passage: &Passage) -> String {
    let mut text = passage.text.clone();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(next) = passage.next {
        let _ = writeln!(
            text,
            "[lines {}-{} of {}; continue with --lines {next}-]",
            passage.from,
            passage.from + passage.lines.saturating_sub(1),
            passage.total
        );
    }
    text
}

pub(super) fn passage_json(passage: &Passage) -> Value {
    json!({
        "path": passage.path,
        "text": passage.text,
        "from": passage.from,
        "lines": passage.lines,
        "totalLines": passage.total,
        "next": passage.next,
        "provenance": passage.provenance,
    })
}

pub(super) fn learnings(learned: &[Learned]) -> String {
    if learned.is_empty() {
        return "No learnings yet.\n".to_owned();
    }
    let mut text = String::new();
    let mut heading = "";
    for one in learned {
        if one.heading != heading {
            heading = one.heading;
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{heading}");
        }
        let _ = writeln!(text, "  [{}] {}", one_line(&one.date), one_line(&one.text));
    }
    text
}

pub(super) fn learnings_json(learned: &[Learned]) -> Value {
    let one = |one: &Learned| {
        json!({
            "category": one.category,
            "text": one.text,
            "date": one.date,
            "confidence": one.confidence,
        })
    };
    Value::Array(learned.iter().map(one).collect())
}

pub(super) fn findings(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{}: {}", finding.level.word(), one_line(&finding.what));
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "  hint: {}", one_line(hint));
        }
    }
    text
}

pub(super) fn findings_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| json!({"level": finding.level.word(), "what": finding.what, "hint": finding.hint});
    Value::Array(findings.iter().map(one).collect())
}

pub(super) fn models(models: &[Model]) -> String {
    let mut text = String::new();
    for model in models {
        let state = match &model.folder {
            Some(folder) if model.installed => format!("installed in {}", one_line(folder)),
            _ => "not installed".to_owned(),
        };
        let _ = writeln!(text, "{}: {} ({state})", one_line(&model.name), one_line(&model.about));
    }
    text
}

pub(super) fn models_json(models: &[Model]) -> Value {
    let one = |model: &Model| {
        json!({
            "name": model.name,
            "about": model.about,
            "installed": model.installed,
            "folder": model.folder,
        })
    };
    Value::Array(models.iter().map(one).collect())
}
