//! MCP servers of extensions, and how an entry in settings overrides one.

use pollux_config::env::Env;
use pollux_config::settings::expand;
use pollux_domain::JsonObject;
use serde_json::{Map, Value, json};

use super::Installed;
use super::values::Secrets;

impl Installed {
    /// Its settings as variables, including secrets: only for its own programs.
    pub fn environment(&self, secrets: &Secrets<'_>) -> Vec<(String, String)> {
        if !self.configurable {
            return Vec::new();
        }
        let values = self.values.read(&self.manifest.settings, secrets).into_iter();
        values
            .filter_map(|set| {
                Some((set.setting.variable, set.value.map(|(value, _)| value.reveal().to_owned())?))
            })
            .collect()
    }

    /// The entries of its MCP servers for display: paths are substituted, everything else is unchanged.
    pub fn servers_as_written(&self, env: &Env) -> Vec<Value> {
        let places = super::load::variables(&self.extension.path, env.cwd());
        let shown = |entry: &Value| {
            let mut entry = entry.clone();
            each_text(&mut entry, &mut |text| replaced(text, |name| places.get(name).cloned()));
            entry
        };
        self.manifest.servers().map(|(_, entry)| shown(entry)).collect()
    }

    /// Its MCP servers, ready to be used: variables replaced, its settings in their environment, and without
    /// the say about whether they may be trusted.
    pub fn servers(&self, env: &Env, secrets: &Secrets<'_>) -> Vec<(String, Value)> {
        let mut servers: Vec<(String, Value)> =
            self.manifest.servers().map(|(name, entry)| (name.to_owned(), entry.clone())).collect();
        if servers.is_empty() {
            return servers;
        }
        let own = self.environment(secrets);
        let inherited = env.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let known = Env::new(inherited.chain(own.clone()), env.cwd().to_path_buf());
        let places = super::load::variables(&self.extension.path, env.cwd());
        for (_, entry) in &mut servers {
            each_text(entry, &mut |text| {
                let text = replaced(text, |name| places.get(name).cloned());
                expand(&text, &known)
            });
            if let Value::Object(entry) = entry {
                entry.shift_remove("trust");
                if entry.get("command").is_some_and(Value::is_string) {
                    lend(entry, &own);
                }
            }
        }
        servers
    }
}

/// Adds the extension's settings to a server's environment; the values of its entry take precedence.
fn lend(entry: &mut JsonObject, own: &[(String, String)]) {
    if own.is_empty() {
        return;
    }
    let mut env: Map<String, Value> =
        own.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    if let Some(Value::Object(given)) = entry.get("env") {
        env.extend(given.clone());
    }
    entry.insert("env".to_owned(), Value::Object(env));
}

/// Keys that define how a server is reached and which variables it gets.
const REACHED: [&str; 13] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "tcp",
    "type",
    "headers",
    "oauth",
    "authProviderType",
    "targetAudience",
    "targetServiceAccount",
];

/// An extension's entry merged with the settings for the server of that name: scalars of the settings win,
/// both tool lists narrow, and variables accumulate. A server defined in settings takes no commands, URLs or
/// variables from an extension.
pub fn tuned(entry: &Value, by: &Value) -> Value {
    let (Value::Object(entry), Value::Object(by)) = (entry, by) else { return entry.clone() };
    let mut entry = entry.clone();
    if ["command", "url", "httpUrl", "tcp"].iter().any(|key| by.contains_key(*key)) {
        entry.retain(|key, _| !REACHED.contains(&key.as_str()));
    }
    let entry = &entry;
    let texts = |map: &JsonObject, key: &str| -> Option<Vec<String>> {
        let items = map.get(key)?.as_array()?;
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let mut merged = entry.clone();
    merged.extend(by.clone());
    if let (Some(mine), Some(theirs)) = (texts(entry, "includeTools"), texts(by, "includeTools")) {
        let both: Vec<String> = mine.into_iter().filter(|tool| theirs.contains(tool)).collect();
        merged.insert("includeTools".to_owned(), json!(both));
    }
    let mut out = texts(entry, "excludeTools").unwrap_or_default();
    for tool in texts(by, "excludeTools").unwrap_or_default() {
        if !out.contains(&tool) {
            out.push(tool);
        }
    }
    if !out.is_empty() {
        merged.insert("excludeTools".to_owned(), json!(out));
    }
    if let (Some(Value::Object(mine)), Some(Value::Object(theirs))) = (entry.get("env"), by.get("env")) {
        let mut env = mine.clone();
        env.extend(theirs.clone());
        merged.insert("env".to_owned(), Value::Object(env));
    }
    Value::Object(merged)
}

/// Changes every text in a tree; keys stay.
fn each_text(value: &mut Value, change: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::String(text) if text.contains('$') => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| each_text(item, change)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with known `${NAME}` replaced; unknown names are left unchanged.
pub(super) fn replaced(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let found = after.split_once('}').and_then(|(name, tail)| Some((known(name)?, tail)));
        match found {
            Some((value, tail)) => {
                result.push_str(&value);
                rest = tail;
            }
            None => {
                result.push_str("${");
                rest = after;
            }
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_tune_an_extensions_server() {
        let of_extension = json!({"command": "node", "args": ["x"], "timeout": 5, "includeTools": ["a", "b"],
            "excludeTools": ["c"], "env": {"A": "1", "B": "2"}});
        let of_settings = json!({"timeout": 9, "includeTools": ["b", "z"], "excludeTools": ["c", "d"], "env": {"B": "3"}, "trust": true});
        assert_eq!(
            tuned(&of_extension, &of_settings),
            json!({"command": "node", "args": ["x"], "timeout": 9, "includeTools": ["b"],
                "excludeTools": ["c", "d"], "env": {"A": "1", "B": "3"}, "trust": true})
        );
        assert_eq!(tuned(&of_extension, &json!({})), of_extension);
        // An extension cannot change a user's own server.
        assert_eq!(
            tuned(
                &json!({"httpUrl": "https://evil.example", "args": ["-e"], "excludeTools": ["x"]}),
                &json!({"command": "mine"})
            ),
            json!({"command": "mine", "excludeTools": ["x"]})
        );
    }
}
