//! MCP servers in an agent definition, translated to the keys of the settings file.

use std::path::Path;

use pollux_config::settings::MCP_SERVER_KEYS;
use pollux_domain::JsonObject;
use serde_json::{Map, Value, json};

use super::definition_file::{self, Owner};
use super::{Definition, Kind};

/// Keys with a different spelling in definitions.
const WORDS: [(&str, &str); 3] =
    [("http_url", "httpUrl"), ("include_tools", "includeTools"), ("exclude_tools", "excludeTools")];

/// A key that only the program itself writes.
const OWN: &str = "extension";

/// The servers in the format of settings; an error if one of them is invalid.
pub(super) fn as_in_settings(written: JsonObject) -> Result<JsonObject, String> {
    let read = |(name, entry): (String, Value)| {
        let entry = server(entry).map_err(|why| format!("mcp_servers.{name}: {why}"))?;
        Ok((name, Value::Object(entry)))
    };
    written.into_iter().map(read).collect()
}

fn server(written: Value) -> Result<JsonObject, String> {
    let Value::Object(written) = written else { return Err("must be a mapping".to_owned()) };
    let mut entry = JsonObject::new();
    for (key, value) in written {
        if key == "auth" {
            entry.extend(auth(value)?);
            continue;
        }
        let word = WORDS.iter().find(|(own, _)| *own == key).map_or(key.as_str(), |(_, word)| word);
        if word == OWN || !MCP_SERVER_KEYS.contains(&word) {
            return Err(format!("unknown field `{key}`"));
        }
        entry.insert(word.to_owned(), value);
    }
    Ok(entry)
}

/// `auth: {type: oauth, client_id: …}` and `auth: {type: google-credentials, scopes: […]}`.
fn auth(written: Value) -> Result<JsonObject, String> {
    let Value::Object(mut written) = written else {
        return Err("`auth` must be a mapping".to_owned());
    };
    let kind = written.shift_remove("type");
    let mut entry = JsonObject::new();
    match kind.as_ref().and_then(Value::as_str) {
        Some("google-credentials") => {
            entry.insert("authProviderType".to_owned(), json!("google_credentials"));
        }
        Some("oauth") => {
            entry.insert("oauth".to_owned(), json!({"enabled": true}));
        }
        _ => return Err("`auth.type` must be oauth or google-credentials".to_owned()),
    }
    if !written.is_empty() {
        let oauth = entry.entry("oauth").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(oauth) = oauth {
            oauth.extend(written.into_iter().map(|(key, value)| (camel(&key), value)));
        }
    }
    Ok(entry)
}

/// `client_id` becomes `clientId`.
fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut whole, word| {
        let mut letters = word.chars();
        whole.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        whole.push_str(letters.as_str());
        whole
    })
}

/// The servers that the agents of a file would start, with the agents' names, for review before installation.
pub fn servers_in(file: &Path) -> Vec<(String, String, Value)> {
    let found = definition_file::read(file, &Owner::User).unwrap_or_default();
    let of = |definition: Definition| {
        let servers = match definition.kind {
            Kind::Local(local) => local.mcp_servers,
            Kind::Remote(_) => JsonObject::new(),
        };
        servers.into_iter().map(move |(name, entry)| (definition.name.clone(), name, entry))
    };
    found.into_iter().flat_map(|found| of(found.definition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_definitions_become_keys_of_settings() {
        let written = json!({
            "db": {"command": "db", "include_tools": ["a"], "excludeTools": ["b"], "timeout": 5},
            "web": {"http_url": "https://e/mcp", "auth": {"type": "oauth", "client_id": "c", "token_url": "https://t"}},
            "cloud": {"url": "https://g/mcp", "auth": {"type": "google-credentials", "scopes": ["s"]}},
        });
        let Value::Object(written) = written else { panic!() };
        let expected = json!({
            "db": {"command": "db", "includeTools": ["a"], "excludeTools": ["b"], "timeout": 5},
            "web": {"httpUrl": "https://e/mcp", "oauth": {"enabled": true, "clientId": "c", "tokenUrl": "https://t"}},
            "cloud": {"url": "https://g/mcp", "authProviderType": "google_credentials", "oauth": {"scopes": ["s"]}},
        });
        assert_eq!(Value::Object(as_in_settings(written).unwrap()), expected);
    }

    #[test]
    fn an_invalid_server_is_reported() {
        for (entry, expected) in [
            (json!("db"), "mcp_servers.s: must be a mapping"),
            (json!({"comand": "db"}), "mcp_servers.s: unknown field `comand`"),
            (json!({"url": "u", "auth": {"type": "basic"}}), "mcp_servers.s: `auth.type` must be oauth or"),
        ] {
            let error = as_in_settings(JsonObject::from_iter([("s".to_owned(), entry)])).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
