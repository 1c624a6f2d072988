//! Converts Markdown commands into command files, and definitions of sub-agents.
//!
//! A text is converted only if every placeholder in it has an equivalent. A text that already contains Pollux
//! placeholders is refused: `!{…}` would become a command that its author did not write.

use std::path::{Component, Path, PathBuf};

use pollux_domain::JsonObject;
use pollux_extend::frontmatter;
use pollux_hooks::claude_tool_name;
use serde_json::{Value, json};
use toml::Table;

use super::places::{MAX_PROMPT, SourceFolder};
use super::plan::{Collector, ImportChange, ImportItem, ImportKind};

/// The program whose placeholders a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandSyntax {
    /// `$ARGUMENTS`, `` !`command` ``, `@file`.
    Claude,
    /// `$ARGUMENTS`.
    Codex,
}

/// A file to create, and the part of the original that is lost.
type Converted = (ImportChange, Option<String>);

/// Collects the commands of a folder.
pub(super) fn commands(
    source: &SourceFolder,
    folder: &str,
    syntax: CommandSyntax,
    items: &mut Vec<ImportItem>,
) {
    let folder = source.root.join(folder);
    for below in source.files(&folder, "md") {
        let file = folder.join(&below);
        let name = command_name(&below).map(|name| format!("/{name}"));
        let converted = match &name {
            None => Err("its name contains unsupported characters".to_owned()),
            Some(_) => prompt_of(source, &file).and_then(|text| command(&below, &text, syntax)),
        };
        let shown = name.unwrap_or_else(|| below.display().to_string());
        add(ImportKind::Command, shown, converted, &mut Collector::new(items, source.scope, &file));
    }
}

/// Collects the sub-agents of a folder of Claude Code.
pub(super) fn claude_agents(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let folder = source.root.join("agents");
    for below in source.files(&folder, "md") {
        let file = folder.join(&below);
        let converted =
            prompt_of(source, &file).and_then(|text| claude_agent(&text, may_choose_model(source)));
        let shown = below.with_extension("").display().to_string();
        add(ImportKind::Agent, shown, converted, &mut Collector::new(items, source.scope, &file));
    }
}

/// Collects the sub-agents of a folder of Codex.
pub(super) fn codex_agents(source: &SourceFolder, items: &mut Vec<ImportItem>) {
    let folder = source.root.join("agents");
    for below in source.files(&folder, "toml") {
        let file = folder.join(&below);
        let converted = source
            .toml(&file)
            .and_then(|found| codex_agent(&found.unwrap_or_default(), may_choose_model(source)));
        let shown = below.with_extension("").display().to_string();
        add(ImportKind::Agent, shown, converted, &mut Collector::new(items, source.scope, &file));
    }
}

/// A project's file must not choose the provider that prompts go to.
fn may_choose_model(source: &SourceFolder) -> bool {
    source.scope == super::plan::ImportScope::User
}

fn add(kind: ImportKind, name: String, converted: Result<Converted, String>, out: &mut Collector<'_>) {
    match converted {
        Ok((change, note)) => out.ready_with_note(kind, name, note, change),
        Err(reason) => out.skipped(kind, name, reason),
    }
}

fn prompt_of(source: &SourceFolder, file: &Path) -> Result<String, String> {
    let text = source.text(file)?.unwrap_or_default();
    if text.len() > MAX_PROMPT {
        return Err(format!("larger than {} KiB", MAX_PROMPT / 1024));
    }
    Ok(text)
}

/// `git/review.md` is `git:review`.
fn command_name(below: &Path) -> Option<String> {
    let stem = below.with_extension("");
    let segments: Option<Vec<String>> = stem
        .components()
        .map(|component| match component {
            Component::Normal(segment) => segment.to_str().map(str::to_owned),
            _ => None,
        })
        .collect();
    let fine = |name: &String| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    segments.filter(|segments| segments.iter().all(fine)).map(|segments| segments.join(":"))
}

fn command(below: &Path, text: &str, syntax: CommandSyntax) -> Result<Converted, String> {
    let (front, body) = frontmatter::split(text).unwrap_or(("", text));
    if ["!{", "@{", "{{args}}"].iter().any(|sign| body.contains(sign)) {
        return Err(
            "its text contains `!{`, `@{` or `{{args}}`, which have a special meaning in Pollux".to_owned()
        );
    }
    let prompt = match syntax {
        CommandSyntax::Claude => with_files(&with_commands(body)?),
        CommandSyntax::Codex => body.to_owned(),
    };
    let mut table = Table::new();
    if let Some(description) = frontmatter::line_value(front, "description").filter(|text| !text.is_empty()) {
        table.insert("description".to_owned(), description.into());
    }
    table.insert("prompt".to_owned(), with_arguments(&prompt)?.trim().into());
    let text = toml::to_string_pretty(&table).map_err(|error| error.to_string())?;
    let lost: Vec<&str> = ["allowed-tools", "model"]
        .into_iter()
        .filter(|key| frontmatter::line_value(front, key).is_some())
        .collect();
    let note = (!lost.is_empty()).then(|| format!("without `{}`", lost.join("` and `")));
    let file = Path::new("commands").join(below.with_extension("toml"));
    Ok((ImportChange::CreateFile { file, text }, note))
}

/// `$ARGUMENTS` becomes `{{args}}`; other placeholders have no equivalent.
fn with_arguments(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split('$');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match piece.strip_prefix("ARGUMENTS") {
            Some(rest) if !rest.starts_with(is_word) && !rest.starts_with('[') => {
                out.push_str("{{args}}");
                out.push_str(rest);
            }
            _ if piece.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || c == '{') => {
                return Err("placeholders other than `$ARGUMENTS` have no equivalent".to_owned());
            }
            _ => {
                out.push('$');
                out.push_str(piece);
            }
        }
    }
    Ok(out)
}

/// `` !`command` `` becomes `!{command}`.
fn with_commands(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("!`") {
        let Some((command, behind)) = after.split_once('`') else { break };
        if command.contains(['{', '}']) {
            return Err("a command in it contains braces".to_owned());
        }
        out.push_str(before);
        out.push_str(&format!("!{{{command}}}"));
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// `@src/main.rs` becomes `@{src/main.rs}`. A word that does not look like a path of the workspace stays text.
fn with_files(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.strip_prefix(c).unwrap_or_default();
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let word: &str = rest.split(|c| !is_path(c)).next().unwrap_or_default();
        let path = word.trim_end_matches('.');
        let looks = path.contains(['/', '.']) && !path.starts_with('/') && !path.contains("..");
        let followed = rest.strip_prefix(word).unwrap_or_default();
        if c == '@' && before.is_whitespace() && looks && !followed.starts_with('(') {
            out.push_str(&format!("@{{{path}}}"));
            rest = rest.strip_prefix(path).unwrap_or_default();
            before = '}';
            continue;
        }
        out.push(c);
        before = c;
    }
    out
}

fn claude_agent(text: &str, may_choose_model: bool) -> Result<Converted, String> {
    const KNOWN: &[&str] = &["name", "description", "tools", "model", "color", "maxTurns"];
    let (front, body) = frontmatter::split(text).ok_or("it has no front matter")?;
    let fields: JsonObject = frontmatter::parse(front).or_else(|_| {
        // A description with a colon is invalid YAML, but common.
        let lines = ["name", "description", "tools", "model", "disallowedTools", "permissionMode"];
        let found = lines
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), json!(frontmatter::line_value(front, key)?))));
        let found: JsonObject = found.collect();
        if found.is_empty() { Err("its front matter is not valid".to_owned()) } else { Ok(found) }
    })?;
    if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("`{key}` has no equivalent"));
    }
    let mut notes = Vec::new();
    let mut keys = vec![];
    if let Some(tools) = fields.get("tools") {
        let (ours, lost) = tools_of(tools);
        if ours.is_empty() {
            return Err("none of its tools are available in Pollux".to_owned());
        }
        if !lost.is_empty() {
            notes.push(format!("without the tools {}", lost.join(", ")));
        }
        keys.push(("tools", json!(ours)));
    }
    match fields.get("model").and_then(Value::as_str) {
        None | Some("inherit") => {}
        Some(model) if model.starts_with("claude-") && may_choose_model => {
            keys.push(("model", json!(format!("anthropic/{model}"))));
        }
        Some(model) => notes.push(format!("with your model instead of `{model}`")),
    }
    if let Some(turns) = fields.get("maxTurns").and_then(Value::as_u64).filter(|turns| *turns > 0) {
        keys.push(("max_turns", json!(turns)));
    }
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let change = agent_file(text("name"), text("description"), body, keys)?;
    Ok((change, (!notes.is_empty()).then(|| notes.join("; "))))
}

fn codex_agent(fields: &JsonObject, may_choose_model: bool) -> Result<Converted, String> {
    const KNOWN: &[&str] = &[
        "name",
        "description",
        "developer_instructions",
        "model",
        "model_reasoning_effort",
        "nickname_candidates",
    ];
    if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("`{key}` has no equivalent"));
    }
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let (mut keys, mut note) = (vec![], None);
    match text("model") {
        "" => {}
        model if may_choose_model => keys.push(("model", json!(format!("openai/{model}")))),
        model => note = Some(format!("with your model instead of `{model}`")),
    }
    Ok((agent_file(text("name"), text("description"), text("developer_instructions"), keys)?, note))
}

/// A definition file. Strings are written as JSON, which YAML reads.
fn agent_file(
    name: &str,
    description: &str,
    body: &str,
    keys: Vec<(&str, Value)>,
) -> Result<ImportChange, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
        return Err("its name may contain only lower-case letters, digits, `-` and `_`".to_owned());
    }
    if description.trim().is_empty() || body.trim().is_empty() {
        return Err("its description or instructions are missing".to_owned());
    }
    if body.contains("${") {
        return Err("its text contains `${`, which has a special meaning in Pollux".to_owned());
    }
    let mut text = format!("---\nname: {name}\ndescription: {}\n", json!(description.trim()));
    keys.iter().for_each(|(key, value)| text.push_str(&format!("{key}: {value}\n")));
    text.push_str(&format!("---\n\n{}\n", body.trim()));
    Ok(ImportChange::CreateFile { file: PathBuf::from(format!("agents/{name}.md")), text })
}

/// The tools by their Pollux names, and those without an equivalent.
fn tools_of(tools: &Value) -> (Vec<String>, Vec<String>) {
    let named: Vec<&str> = match tools {
        Value::String(list) => list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let (mut ours, mut lost): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for tool in named {
        // An agent cannot delegate to another agent.
        match claude_tool_name(tool).filter(|name| *name != "invoke_agent") {
            Some(name) if !ours.iter().any(|known| known == name) => ours.push(name.to_owned()),
            Some(_) => {}
            None if tool.starts_with("mcp__") => ours.push(tool.replace("__", "_")),
            None => lost.push(tool.to_owned()),
        }
    }
    (ours, lost)
}
