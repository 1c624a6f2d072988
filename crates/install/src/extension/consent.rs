//! The consent text: everything that an extension would run, add or disable.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::files;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text;
use pollux_extend::agents::servers_in;
use pollux_extend::extension::Manifest;
use pollux_extend::frontmatter;
use serde_json::Value;

/// Limit of entries shown per kind.
const MAX_ITEMS: usize = 100;
/// Most characters of one entry.
const MAX_CHARS: usize = 400;
const MAX_DEPTH: usize = 8;
/// A longer file of an extension is not looked into for this.
const MAX_BYTES: u64 = 1024 * 1024;

const WARNING: &str = "\
Extensions come from third parties and are not reviewed. This extension's commands run with your permissions, its texts influence the model, and its servers see the data sent to them. Review its source before you agree.";

/// Everything that an extension adds or runs; also used to compare two versions.
pub fn body(manifest: &Manifest, folder: &Path) -> String {
    let mut text = String::new();
    let mut section = |title: &str, items: Vec<String>| {
        if items.is_empty() {
            return;
        }
        text.push_str(&format!("\n{title}\n"));
        let more = items.len().saturating_sub(MAX_ITEMS);
        items.iter().take(MAX_ITEMS).for_each(|item| text.push_str(item));
        if more > 0 {
            text.push_str(&format!("  … and {more} more\n"));
        }
    };
    section(
        "It runs these MCP servers:",
        manifest.servers().map(|(name, entry)| server(name, entry)).collect(),
    );
    section("Its agents run these MCP servers while they work:", servers_of_agents(folder));
    section("⚠ Its hooks run these commands automatically:", hooks(folder));
    section("Its policies (they can deny and ask, never allow):", listed(folder, "policies", "toml"));
    section("It adds these agent skills:", skills(folder));
    section("It adds these agents:", agents(folder));
    section("It adds these commands:", commands(folder));
    section("The model reads these of its files in every session:", context(manifest, folder));
    section("It disables these tools:", items(manifest.excluded_tools().iter()));
    let wanted = manifest.settings.iter().map(|setting| {
        let secret = if setting.sensitive { ", stored as a secret" } else { "" };
        format!("{} ({}{secret})", setting.name, setting.variable)
    });
    section("It asks you for these settings:", items(wanted));
    let themes = manifest.themes().iter().filter_map(|theme| theme.get("name")?.as_str());
    section("It adds these themes:", items(themes));
    if text.is_empty() {
        text.push_str("\nIt adds nothing that runs or that the model reads.\n");
    }
    text
}

/// The complete text: heading, body, and a warning.
pub fn text(heading: &str, body: &str) -> String {
    format!("{heading}\n{body}\n{WARNING}\n")
}

/// Only the warning, for consent given in advance.
pub fn warning() -> &'static str {
    WARNING
}

/// Removed lines (`-`) and added lines (`+`).
pub fn difference(old: &str, new: &str) -> String {
    let only = |these: &str, those: &str, sign: char| {
        let others: Vec<&str> = those.lines().collect();
        let lines = these.lines().filter(|line| !line.trim().is_empty() && !others.contains(line));
        lines.map(|line| format!("{sign} {}\n", line.trim_end())).collect::<String>()
    };
    format!("{}{}", only(old, new, '-'), only(new, old, '+'))
}

/// One entry: on one line, nothing in it hides, and no key is spilled.
fn shown(text: &str) -> String {
    let text = terminal_text::name(text).into_owned();
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    redacted(&short).into_owned()
}

fn items<T: AsRef<str>>(names: impl Iterator<Item = T>) -> Vec<String> {
    names.map(|name| format!("  * {}\n", shown(name.as_ref()))).collect()
}

fn server(name: &str, entry: &Value) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let words = |key: &str| -> Vec<String> {
        let items = entry.get(key).and_then(Value::as_array).into_iter().flatten();
        items.map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
    };
    let address = text("httpUrl").or(text("url")).or(text("tcp"));
    let local = text("command").is_some();
    let mut run: Vec<String> = text("command").map(str::to_owned).into_iter().collect();
    run.extend(if local { words("args") } else { address.map(str::to_owned).into_iter().collect() });
    let kind = if local { "local" } else { "remote" };
    let mut said = format!("  * {} ({kind}): {}\n", shown(name), shown(&run.join(" ")));
    let mut detail = |title: &str, value: &str| {
        if !value.is_empty() {
            said.push_str(&format!("    {title}: {}\n", shown(value)));
        }
    };
    detail("Working directory", text("cwd").unwrap_or_default());
    for (key, title) in [("env", "Variables"), ("headers", "Headers")] {
        let pairs = entry.get(key).and_then(Value::as_object).into_iter().flatten();
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
        detail(title, &pairs.join(", "));
    }
    detail("Only these tools", &words("includeTools").join(", "));
    detail("Without these tools", &words("excludeTools").join(", "));
    detail("Signs in with", text("authProviderType").unwrap_or_default());
    said
}

fn hooks(folder: &Path) -> Vec<String> {
    let file = folder.join("hooks").join("hooks.json");
    let Some(text) = small(&file) else {
        return if file.exists() {
            vec!["  * hooks/hooks.json (could not be read)\n".to_owned()]
        } else {
            Vec::new()
        };
    };
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let Some(Value::Object(events)) = parsed.as_ref().and_then(|parsed| parsed.get("hooks")) else {
        return vec!["  * hooks/hooks.json (invalid, ignored)\n".to_owned()];
    };
    let mut found = Vec::new();
    for (event, definitions) in events {
        hook_commands(event, definitions, "", 0, &mut found);
    }
    found
}

fn hook_commands(event: &str, value: &Value, matcher: &str, depth: usize, found: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(entries) => {
            entries.iter().for_each(|entry| hook_commands(event, entry, matcher, depth + 1, found));
        }
        Value::Object(entry) => {
            let matcher = entry.get("matcher").and_then(Value::as_str).unwrap_or(matcher);
            if let Some(command) = entry.get("command").and_then(Value::as_str) {
                let of = if matcher.is_empty() { String::new() } else { format!(" [{}]", shown(matcher)) };
                found.push(format!("  * {}{of}: {}\n", shown(event), shown(command)));
            }
            if let Some(inner) = entry.get("hooks") {
                hook_commands(event, inner, matcher, depth + 1, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn skills(folder: &Path) -> Vec<String> {
    skills_of(folder).iter().map(|(name, about)| format!("  * {}: {}\n", shown(name), shown(about))).collect()
}

/// Names and descriptions of an extension's skills.
pub fn skills_of(folder: &Path) -> Vec<(String, String)> {
    let root = folder.join("skills");
    let mut files = vec![root.join("SKILL.md")];
    files.extend(entries(&root).into_iter().map(|folder| folder.join("SKILL.md")));
    files.into_iter().filter_map(|file| described(&file)).collect()
}

fn agent_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let is_agent = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "md" || ending == "toml");
    entries(&folder.join("agents")).into_iter().filter(is_agent)
}

fn servers_of_agents(folder: &Path) -> Vec<String> {
    let servers = agent_files(folder).flat_map(|file| servers_in(&file));
    servers.map(|(agent, name, entry)| server(&format!("{name} of {agent}"), &entry)).collect()
}

fn agents(folder: &Path) -> Vec<String> {
    let named = |file: PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match described(&file) {
            Some((name, about)) => format!("  * {}: {}\n", shown(&name), shown(&about)),
            None => format!("  * {}\n", shown(&name)),
        }
    };
    agent_files(folder).map(named).collect()
}

/// Name and description of a file with front matter.
fn described(file: &Path) -> Option<(String, String)> {
    let front = frontmatter::read(file).ok()??;
    let value = |key: &str| frontmatter::line_value(&front, key).unwrap_or_default();
    Some((value("name"), value("description"))).filter(|(name, _)| !name.is_empty())
}

/// Custom commands, with the shell commands that are in them.
fn commands(folder: &Path) -> Vec<String> {
    let root = folder.join("commands");
    let mut files = Vec::new();
    below(&root, "toml", 0, &mut files);
    files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(&root).unwrap_or(file).with_extension("");
            let name = name.to_string_lossy().replace(std::path::MAIN_SEPARATOR, ":");
            let mut said = format!("  * /{}\n", shown(&name));
            let text = small(file).unwrap_or_default();
            for piece in text.split("!{").skip(1).take(MAX_ITEMS) {
                let command = piece.lines().next().unwrap_or_default().trim_end_matches(['}', '"', ' ']);
                said.push_str(&format!("    runs: {}\n", shown(command)));
            }
            said
        })
        .collect()
}

fn context(manifest: &Manifest, folder: &Path) -> Vec<String> {
    let files = manifest.context_files(folder).into_iter();
    let existing = files.filter_map(|file| {
        let path = file.path.ok().filter(|path| path.is_file())?;
        let length = fs::metadata(&path).map(|meta| meta.len()).unwrap_or_default();
        Some(format!("{} ({length} bytes)", file.name))
    });
    items(existing)
}

fn listed(folder: &Path, part: &str, ending: &str) -> Vec<String> {
    let mut files = Vec::new();
    below(&folder.join(part), ending, 0, &mut files);
    items(files.iter().map(|file| file.strip_prefix(folder).unwrap_or(file).to_string_lossy()))
}

fn below(folder: &Path, ending: &str, depth: usize, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() && depth < MAX_DEPTH {
            below(&path, ending, depth + 1, found);
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn small(file: &Path) -> Option<String> {
    fs::metadata(file).ok().filter(|meta| meta.len() <= MAX_BYTES)?;
    files::read_text(file).ok().flatten()
}

#[cfg(test)]
mod tests {
    use pollux_config::files::Mode;
    use pollux_extend::extension::MANIFEST;
    use serde_json::json;

    use super::*;

    fn put(folder: &Path, name: &str, text: &str) {
        files::replace(&folder.join(name), text.as_bytes(), Mode::Shared).unwrap();
    }

    fn body_of(folder: &Path, manifest: &Value) -> String {
        put(folder, MANIFEST, &manifest.to_string());
        body(&Manifest::read(folder).unwrap(), folder)
    }

    #[test]
    fn everything_that_would_run_or_be_read_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        put(
            folder,
            "hooks/hooks.json",
            r#"{"hooks": {"AfterTool": [{"matcher": "write_file", "hooks": [{"type": "command", "command": "${extensionPath}/fmt.sh"}]}],
                "SessionStart": [{"command": "curl evil\u001b[2J"}]}}"#,
        );
        put(folder, "policies/strict.toml", "");
        put(folder, "skills/triage/SKILL.md", "---\nname: triage\ndescription: sorts things\n---\n");
        put(
            folder,
            "agents/helper.md",
            "---\nname: helper\ndescription: helps\nmcp_servers: {db: {command: db, args: [--all]}}\n---\n",
        );
        put(folder, "commands/git/fix.toml", "prompt = \"\"\"\n!{git status}\n\"\"\"");
        put(folder, "NOTES.md", "12345");
        let body = body_of(
            folder,
            &json!({"name": "x", "version": "1", "contextFileName": "NOTES.md", "excludeTools": ["glob"],
            "settings": [{"name": "Token", "envVar": "T", "sensitive": true}], "themes": [{"name": "Dusk"}],
            "mcpServers": {"s": {"command": "node", "args": ["a b", "c"], "cwd": "/d", "env": {"A": "1"}},
                "r": {"httpUrl": "https://example.com/mcp"}}}),
        );
        for line in [
            "  * s (local): node a b c",
            "    Working directory: /d",
            "    Variables: A=1",
            "  * r (remote): https://example.com/mcp",
            "  * db of helper (local): db --all",
            "  * AfterTool [write_file]: ${extensionPath}/fmt.sh",
            "  * policies/strict.toml",
            "  * triage: sorts things",
            "  * helper: helps",
            "  * /git:fix",
            "    runs: git status",
            "  * NOTES.md (5 bytes)",
            "  * glob",
            "  * Token (T, stored as a secret)",
            "  * Dusk",
        ] {
            assert!(body.lines().any(|found| found == line), "{line}\n{body}");
        }
        assert!(!body.contains('\u{1b}') && body.contains("SessionStart: curl evil"), "{body}");
    }

    #[test]
    fn a_hostile_extension_cannot_flood_or_hide() {
        let dir = tempfile::tempdir().unwrap();
        let servers: serde_json::Map<_, _> =
            (0..5000).map(|n| (format!("s{n}"), json!({"command": "x".repeat(5000)}))).collect();
        put(dir.path(), "hooks/hooks.json", &format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)));
        let body = body_of(
            dir.path(),
            &json!({"name": "x", "version": "1", "mcpServers": {"a\nb": {"command": "c\nd"}}}),
        );
        assert!(body.contains("hooks.json (invalid, ignored)"), "{body}");
        assert!(!body.contains("\nb (local)"), "{body}");
        put(dir.path(), MANIFEST, &json!({"name": "x", "version": "1"}).to_string());
        let many = json!({"name": "x", "version": "1", "mcpServers": servers.into_iter().take(150).collect::<serde_json::Map<_, _>>()});
        let body = body_of(dir.path(), &many);
        assert!(body.len() < 100_000 && body.contains("… and 50 more"), "{}", body.len());
    }

    #[test]
    fn a_difference_lists_added_and_removed_lines() {
        assert_eq!(difference("\nA:\n  * one\n", "\nA:\n  * two\n"), "-   * one\n+   * two\n");
        assert_eq!(difference("same\n", "same\n"), "");
    }
}
