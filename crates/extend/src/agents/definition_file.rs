//! Parses definition files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use pollux_domain::remote_agent::CardSource;
use serde_json::Value;

use super::fields::LocalFields;
use super::remote::RemoteFields;
use super::{Definition, Kind, MAX_FILE, Origin, Prompt};
use crate::extension::Extension;
use crate::frontmatter;

/// A definition, and the hash of its content where approval is needed.
pub(super) struct FoundDefinition {
    pub(super) definition: Definition,
    pub(super) hash: String,
}

/// Whose file it is.
pub(super) enum Owner {
    Project,
    User,
    Extension(Arc<Extension>),
}

impl Owner {
    fn origin(&self, path: &Path) -> Origin {
        let path = path.to_path_buf();
        match self {
            Self::Project => Origin::Project(path),
            Self::User => Origin::User(path),
            Self::Extension(extension) => Origin::Extension { name: extension.name.clone(), path },
        }
    }
}

/// The files of a folder that define agents, sorted; a missing folder has none.
pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let known = path.extension().is_some_and(|extension| extension == "md" || extension == "toml");
            known && !name.starts_with(['_', '.'])
        })
        .collect();
    files.sort();
    files
}

/// The agents that a file defines; the reason if it does not.
pub(super) fn read(path: &Path, owner: &Owner) -> Result<Vec<FoundDefinition>, String> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        read_toml(path, owner)
    } else {
        read_markdown(path, owner)
    }
}

fn read_markdown(path: &Path, owner: &Owner) -> Result<Vec<FoundDefinition>, String> {
    // An approval covers the complete file; of other files the front matter is enough for now.
    let (front, hash) = match owner {
        Owner::Project => {
            let text = frontmatter::read_whole(path, MAX_FILE).map_err(|error| error.to_string())?;
            let front = frontmatter::split(&text).map(|(front, _)| front.to_owned());
            (front, sha256_hex(text.as_bytes()))
        }
        Owner::User | Owner::Extension(_) => {
            (frontmatter::read(path).map_err(|error| error.to_string())?, String::new())
        }
    };
    let front = front.ok_or("missing front matter (between two `---` lines)")?;
    let mut value: Value = frontmatter::parse(&front).map_err(|error| error.to_string())?;
    hydrate(owner, &mut value);
    let mut fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => return remotes(items, path, owner, &hash),
        _ => return Err("the front matter must be a mapping or a list of remote agents".to_owned()),
    };
    if is_remote(&fields) {
        return remotes(vec![Value::Object(fields)], path, owner, &hash);
    }
    flatten(&mut fields, &CONFIGS)?;
    let below = Prompt::File {
        path: path.to_path_buf(),
        extension: match owner {
            Owner::Extension(extension) => Some(Arc::clone(extension)),
            Owner::Project | Owner::User => None,
        },
        agreed: matches!(owner, Owner::Project).then(|| hash.clone()),
    };
    let prompt = match written_prompt(&mut fields)? {
        None => below,
        Some(written)
            if below.text().map_err(|error| error.to_string())?.is_none_or(|text| text.is_empty()) =>
        {
            written
        }
        Some(_) => {
            return Err(format!(
                "`{SYSTEM_PROMPT}` is set and there is a text below the front matter; keep one"
            ));
        }
    };
    Ok(vec![local(fields, prompt, path, owner, hash)?])
}

/// The system prompt among the keys.
fn written_prompt(fields: &mut JsonObject) -> Result<Option<Prompt>, String> {
    match fields.shift_remove(SYSTEM_PROMPT) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => {
            Ok(Some(Prompt::Text(text.trim().to_owned())))
        }
        Some(_) => Err("the system prompt must be a text that is not empty".to_owned()),
    }
}

fn read_toml(path: &Path, owner: &Owner) -> Result<Vec<FoundDefinition>, String> {
    let text = frontmatter::read_whole(path, MAX_FILE).map_err(|error| error.to_string())?;
    let hash = sha256_hex(text.as_bytes());
    let mut value: Value =
        toml::from_str(&text).map_err(|error| format!("not valid TOML: {}", error.message()))?;
    hydrate(owner, &mut value);
    let Value::Object(mut fields) = value else { return Err("the front matter is empty".to_owned()) };
    if let Some(list) = fields.shift_remove("remote_agents") {
        let Value::Array(items) = list else {
            return Err("`remote_agents` must be a list of tables".to_owned());
        };
        if let Some(other) = fields.keys().next() {
            return Err(format!("unknown field `{other}` next to `remote_agents`"));
        }
        return remotes(items, path, owner, &hash);
    }
    if is_remote(&fields) {
        return remotes(vec![Value::Object(fields)], path, owner, &hash);
    }
    flatten(&mut fields, &OLDER)?;
    flatten(&mut fields, &CONFIGS)?;
    let Some(prompt) = written_prompt(&mut fields)? else {
        return Err(format!("`prompts.system_prompt` or `{SYSTEM_PROMPT}` is missing"));
    };
    Ok(vec![local(fields, prompt, path, owner, hash)?])
}

/// A table of keys, and the keys that a definition has for them.
type Table = (&'static str, &'static [(&'static str, &'static str)]);

/// The tables of older TOML files.
const OLDER: [Table; 3] = [
    (
        "prompts",
        &[
            ("system_prompt", SYSTEM_PROMPT),
            ("query", "query"),
            ("initial_messages", "initial_messages"),
            ("initialMessages", "initial_messages"),
        ],
    ),
    ("model", &[("model", "model"), ("temperature", "temperature")]),
    (
        "run",
        &[
            ("max_turns", "max_turns"),
            ("maxTurns", "max_turns"),
            ("timeout_mins", "timeout_mins"),
            ("maxTimeMinutes", "timeout_mins"),
        ],
    ),
];

/// The tables of upstream's own definitions, with the names of each release.
const CONFIGS: [Table; 5] = [
    ("inputConfig", &[("inputs", "inputs"), ("inputSchema", "inputs")]),
    (
        "promptConfig",
        &[("systemPrompt", SYSTEM_PROMPT), ("query", "query"), ("initialMessages", "initial_messages")],
    ),
    (
        "modelConfig",
        &[
            ("model", "model"),
            ("temp", "temperature"),
            ("temperature", "temperature"),
            ("top_p", "modelConfig.topP"),
            ("topP", "modelConfig.topP"),
            ("thinkingBudget", "modelConfig.thinkingBudget"),
            ("generateContentConfig", "modelConfig.generateContentConfig"),
        ],
    ),
    (
        "runConfig",
        &[
            ("maxTurns", "max_turns"),
            ("max_turns", "max_turns"),
            ("maxTimeMinutes", "timeout_mins"),
            ("max_time_minutes", "timeout_mins"),
        ],
    ),
    ("toolConfig", &[("tools", "tools")]),
];

/// The key of a system prompt that is not the text below the front matter.
const SYSTEM_PROMPT: &str = "promptConfig.systemPrompt";

/// Moves what is in tables to the keys of a definition.
fn flatten(fields: &mut JsonObject, tables: &[Table]) -> Result<(), String> {
    for (table, keys) in tables {
        let Some(Value::Object(_)) = fields.get(*table) else { continue };
        let Some(Value::Object(inner)) = fields.shift_remove(*table) else { continue };
        for (key, value) in inner {
            let Some((_, target)) = keys.iter().find(|(known, _)| *known == key) else {
                let known: Vec<&str> = keys.iter().map(|(known, _)| *known).collect();
                return Err(format!("unknown field `{table}.{key}` (expected {})", known.join(", ")));
            };
            if fields.insert((*target).to_owned(), value).is_some() {
                return Err(format!("`{table}.{key}` is set twice, the other time as `{target}`; keep one"));
            }
        }
    }
    Ok(())
}

fn local(
    fields: JsonObject,
    prompt: Prompt,
    path: &Path,
    owner: &Owner,
    hash: String,
) -> Result<FoundDefinition, String> {
    if let Some(kind) = fields.get("kind").filter(|kind| *kind != "local") {
        return Err(format!("`kind` must be local or remote, not {kind}"));
    }
    let fields: LocalFields =
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    let name = checked(&fields.name)?;
    let (display_name, description) = (fields.display_name.clone(), fields.description.trim().to_owned());
    let kind = Kind::Local(Box::new(fields.local(prompt)?));
    let definition = Definition { name, display_name, description, origin: owner.origin(path), kind };
    Ok(FoundDefinition { definition, hash })
}

fn remotes(
    items: Vec<Value>,
    path: &Path,
    owner: &Owner,
    hash: &str,
) -> Result<Vec<FoundDefinition>, String> {
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        if !item.as_object().is_some_and(is_remote) {
            return Err("only remote agents (kind: remote) can be in a list".to_owned());
        }
        let fields: RemoteFields = serde_json::from_value(item).map_err(|error| error.to_string())?;
        let name = checked(&fields.name)?;
        let (display_name, description) =
            (fields.display_name.clone(), fields.description.clone().unwrap_or_default());
        let target = fields.target()?;
        // The approval covers the agent's location; its authentication is part of that.
        let hash = match (&target.card, &target.auth) {
            (CardSource::Url(url), None) => url.clone(),
            (CardSource::Json(json), None) => sha256_hex(json.as_bytes()),
            (_, Some(_)) => hash.to_owned(),
        };
        let kind = Kind::Remote(Box::new(target));
        let definition = Definition { name, display_name, description, origin: owner.origin(path), kind };
        found.push(FoundDefinition { definition, hash });
    }
    Ok(found)
}

fn is_remote(fields: &JsonObject) -> bool {
    let named = fields.get("kind").is_some_and(|kind| kind == "remote");
    let cards = ["agent_card_url", "agentCardUrl", "agent_card_json", "agentCardJson"];
    let implied = !fields.contains_key("kind") && cards.iter().any(|card| fields.contains_key(*card));
    named || implied
}

/// Substitutes an extension's variables in every string. Values cannot change the structure of the keys.
fn hydrate(owner: &Owner, value: &mut Value) {
    let Owner::Extension(extension) = owner else { return };
    match value {
        Value::String(text) => *text = extension.hydrate(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hydrate(owner, item)),
        Value::Object(fields) => fields.values_mut().for_each(|item| hydrate(owner, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A name is a single word without special characters.
fn checked(name: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
        let shown: String = name.chars().take(64).collect();
        return Err(format!("invalid name {shown:?}: use 1 to 64 lower-case letters, digits, `-` and `_`"));
    }
    Ok(name.to_owned())
}
