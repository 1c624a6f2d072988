//! Describes what a folder would run and set, for the trust question.

use serde_json::{Map, Value};

use super::shown::masked;
use crate::dotenv;
use crate::settings::{layers, project};

/// Maximum number of lines shown; the rest is counted.
const MAX_LINES: usize = 500;
/// Precedes the folder of a server.
const IN: &str = "in: ";

/// An effect of trusting the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The file that says so, relative to the folder.
    pub source: String,
    pub role: Role,
    /// The event of a hook, the name of a server, the key of a setting.
    pub name: String,
    /// The command, address or value.
    pub text: String,
    /// Further circumstances.
    pub details: Vec<String>,
    /// Whether it takes effect; some things are not taken from a project.
    pub used: bool,
}

impl Announcement {
    /// The folder that it is to run in, as written.
    pub(super) fn cwd(&self) -> Option<&str> {
        self.details.iter().find_map(|detail| detail.strip_prefix(IN))
    }
}

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Hook,
    /// An MCP server.
    Server,
    /// A command that finds or calls tools.
    ToolCommand,
    /// A shell command inside a custom command.
    Shell,
    Setting,
    Variable,
}

impl Role {
    /// How it is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Server => "MCP server",
            Self::ToolCommand => "tool command",
            Self::Shell => "shell in command",
            Self::Setting => "setting",
            Self::Variable => "variable",
        }
    }

    /// Whether it is a command or a server.
    pub fn runs(self) -> bool {
        !matches!(self, Self::Setting | Self::Variable)
    }
}

fn say(source: &str, role: Role, name: &str, text: String) -> Announcement {
    let (source, name) = (source.to_owned(), name.to_owned());
    Announcement { source, role, name, text, details: Vec::new(), used: true }
}

/// Names of variables; never their values.
pub(super) fn of_variables(source: &str, text: &str) -> Vec<Announcement> {
    let set = dotenv::parse(text).into_iter().take(MAX_LINES);
    set.map(|set| Announcement {
        used: !dotenv::is_guarded(&set.name),
        ..say(source, Role::Variable, &set.name, String::new())
    })
    .collect()
}

/// Of a settings file or the manifest of an extension.
pub(super) fn of_json(source: &str, text: &str) -> Vec<Announcement> {
    let Some(mut values) = layers::modern(text) else { return Vec::new() };
    let mut said = Vec::new();
    if let Some(Value::Object(events)) = values.shift_remove("hooks") {
        events.iter().for_each(|(event, hooks)| of_hooks(source, event, hooks, &mut said));
    }
    if let Some(Value::Object(servers)) = values.shift_remove("mcpServers") {
        said.extend(servers.iter().map(|(name, server)| of_server(source, name, server)));
    }
    if source == ".gemini/settings.json" {
        of_settings(source, values, &mut said);
    }
    said.truncate(MAX_LINES);
    said
}

fn of_hooks(source: &str, event: &str, hooks: &Value, said: &mut Vec<Announcement>) {
    match hooks {
        Value::Array(entries) => entries.iter().for_each(|entry| of_hooks(source, event, entry, said)),
        Value::Object(entry) => match (entry.get("hooks"), entry.get("command").and_then(Value::as_str)) {
            (Some(inner), _) => {
                let first = said.len();
                of_hooks(source, event, inner, said);
                if let Some(matcher) = entry.get("matcher").and_then(Value::as_str) {
                    let new = said.iter_mut().skip(first);
                    new.for_each(|hook| hook.details.push(format!("for: {matcher}")));
                }
            }
            (None, Some(command)) => said.push(say(source, Role::Hook, event, command.to_owned())),
            (None, None) => said.push(say(source, Role::Hook, event, masked("", hooks).to_string())),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            said.push(say(source, Role::Setting, &format!("hooks.{event}"), hooks.to_string()));
        }
    }
}

fn of_server(source: &str, name: &str, server: &Value) -> Announcement {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let mut shown: Vec<String> = text("command").map(quoted).into_iter().collect();
    let args = server.get("args").and_then(Value::as_array).into_iter().flatten();
    shown.extend(args.map(|arg| arg.as_str().map_or_else(|| arg.to_string(), quoted)));
    let address = ["httpUrl", "url", "tcp"].into_iter().find_map(text);
    shown.extend(address.map(str::to_owned));
    let mut details: Vec<String> = text("cwd").map(|cwd| format!("{IN}{cwd}")).into_iter().collect();
    for (key, word) in [("env", "variables"), ("headers", "headers")] {
        if let Some(Value::Object(pairs)) = server.get(key) {
            details.push(format!("{word}: {}", pairs.keys().cloned().collect::<Vec<_>>().join(", ")));
        }
    }
    if server.get("trust").is_some_and(|trust| trust != &Value::Bool(false)) {
        details.push("asks for its tools to run without approval".to_owned());
    }
    Announcement { details, ..say(source, Role::Server, name, shown.join(" ")) }
}

fn of_settings(source: &str, mut values: Map<String, Value>, said: &mut Vec<Announcement>) {
    let commands = [("tools", "discoveryCommand"), ("tools", "callCommand"), ("mcp", "serverCommand")];
    for (group, key) in commands {
        let Some(Value::Object(inner)) = values.get_mut(group) else { continue };
        if let Some(Value::String(command)) = inner.shift_remove(key) {
            said.push(say(source, Role::ToolCommand, &format!("{group}.{key}"), command));
        }
    }
    let withheld = project::withhold(&mut values, project::Widening::Refused);
    let mut kept = Vec::new();
    values.into_iter().for_each(|(key, value)| project::leaves(&key, value, &mut kept));
    for (used, pairs) in [(true, kept), (false, withheld)] {
        for (key, value) in pairs {
            let last = key.rsplit('.').next().unwrap_or_default().to_owned();
            let value = masked(&last, &value).to_string();
            said.push(Announcement { used, ..say(source, Role::Setting, &key, value) });
        }
    }
}

/// `!{…}` in the text of a custom command.
pub(super) fn of_text(source: &str, text: &str) -> Vec<Announcement> {
    if !source.ends_with(".toml") || source.starts_with(".gemini/policies/") {
        return Vec::new();
    }
    let mut said = Vec::new();
    for piece in text.split("!{").skip(1).take(MAX_LINES) {
        let mut depth = 1_usize;
        let inner = piece.chars().take_while(|char| {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth > 0
        });
        said.push(say(source, Role::Shell, source, inner.collect::<String>().trim().to_owned()));
    }
    said
}

/// A word as a shell would have to be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,$".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
