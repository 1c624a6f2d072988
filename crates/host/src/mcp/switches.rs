//! `mcp-server-enablement.json`: the servers that the user disabled.

use std::path::PathBuf;

use pollux_config::files;
use pollux_config::settings::{self, EditError, read_object};
use pollux_domain::JsonObject;
use serde_json::Value;

use crate::Loaded;

/// How to repair a damaged file.
const REPAIR: &str = "Fix the file, or delete it to enable all servers.";

/// The switches of all servers.
pub(super) struct Switches {
    entries: JsonObject,
    file: PathBuf,
    /// Why the file cannot be used. Any server could be disabled in it.
    damage: Option<String>,
}

impl Switches {
    pub(super) fn read(loaded: &Loaded) -> Self {
        let file = switches_file(loaded);
        let (entries, damage) = match read_object(&file) {
            Ok(Some(entries)) => (entries, None),
            Ok(None) if file.symlink_metadata().is_err() => (JsonObject::new(), None),
            Ok(None) => (JsonObject::new(), Some("it is not a JSON object".to_owned())),
            Err(error) => {
                let place = |line| format!("line {line}: ");
                let reasons = error
                    .files
                    .iter()
                    .map(|bad| format!("{}{}", bad.line.map(place).unwrap_or_default(), bad.reason));
                (JsonObject::new(), Some(reasons.collect::<Vec<_>>().join("; ")))
            }
        };
        // A file without any text was cut off: an empty list is `{}`.
        let is_blank =
            || files::read_text(&file).is_ok_and(|text| text.is_some_and(|text| text.trim().is_empty()));
        let damage = damage.or_else(|| (entries.is_empty() && is_blank()).then(|| "it is empty".to_owned()));
        Self { entries, file, damage }
    }

    /// Why a server may not be started.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        if self.damage.is_some() {
            let file = self.file.display();
            return Some(format!("Server '{name}' is not started: `{file}` cannot be read. {REPAIR}"));
        }
        let is_off = self.entries.iter().any(|(key, entry)| is_key_of(key, name) && !allows(entry));
        is_off.then(|| format!("Server '{name}' is disabled. Run 'pollux mcp enable {name}' to enable."))
    }

    /// The line about a damaged file.
    pub(super) fn problem(&self) -> Option<String> {
        let (damage, file) = (self.damage.as_ref()?, self.file.display());
        Some(format!(
            "Warning: `{file}` cannot be read ({damage}), so no MCP server is started: it may disable some. {REPAIR}"
        ))
    }
}

/// The file that lists disabled servers.
pub fn switches_file(loaded: &Loaded) -> PathBuf {
    loaded.home.gemini_dir().join("mcp-server-enablement.json")
}

/// The line about a file of disabled servers that cannot be read, if there are servers that it could disable.
pub fn switches_problem(loaded: &Loaded) -> Option<String> {
    let is_needed = !loaded.only_client_servers && super::any(loaded);
    if is_needed { Switches::read(loaded).problem() } else { None }
}

/// Enables or disables a server in every project.
pub fn switch_server(loaded: &Loaded, name: &str, on: bool) -> Result<(), EditError> {
    let file = switches_file(loaded);
    let own = name.trim().to_lowercase();
    if !on {
        return settings::set_path(&file, &[&own, "enabled"], &Value::Bool(false)).map(drop);
    }
    // Written by hand, a name may have capitals.
    let entries = read_object(&file).ok().flatten().unwrap_or_default();
    for key in entries.keys().filter(|key| **key != own && is_key_of(key, name)) {
        settings::remove_path(&file, &[key])?;
    }
    settings::remove_path(&file, &[&own])
}

fn is_key_of(key: &str, name: &str) -> bool {
    key.trim().to_lowercase() == name.trim().to_lowercase()
}

/// An entry that cannot be understood disables its server.
fn allows(entry: &Value) -> bool {
    match entry {
        Value::Object(entry) => matches!(entry.get("enabled"), None | Some(Value::Bool(true))),
        Value::Bool(on) => *on,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;

    use pollux_config::env::Env;
    use pollux_test_support::TestHome;

    use super::*;
    use crate::load_settings;
    use crate::request::Request;

    fn loaded(home: &TestHome, switches: &[u8]) -> Loaded {
        fs::write(home.gemini_dir().join("mcp-server-enablement.json"), switches).unwrap();
        let user = home.home().to_str().unwrap().to_owned();
        let env = Env::new([("HOME".to_owned(), user)], home.project());
        load_settings(&Request { skip_trust: true, ..Request::default() }, &env).unwrap()
    }

    #[test]
    fn a_damaged_file_starts_no_server_and_says_how_to_repair_it() {
        let home = TestHome::new().settings(serde_json::json!({}));
        for damaged in [&b"{\"srv\": {\"ena"[..], b"", b" \n", b"[]", b"null", b"{\"srv\xff\": 1}"] {
            let switches = Switches::read(&loaded(&home, damaged));
            let refusal = switches.refusal("other").unwrap_or_else(|| panic!("{damaged:?}"));
            assert!(refusal.ends_with("cannot be read. Fix the file, or delete it to enable all servers."));
            let problem = switches.problem().unwrap();
            assert!(
                problem.contains("mcp-server-enablement.json` cannot be read (") && !problem.contains('\n')
            );
        }
        let whole = Switches::read(&loaded(&home, b"{}"));
        assert_eq!((whole.refusal("srv"), whole.problem()), (None, None));
    }

    #[test]
    fn only_a_plain_yes_enables_a_server_that_the_file_names() {
        let home = TestHome::new().settings(serde_json::json!({}));
        for (entry, is_off) in [
            ("{\"enabled\": false}", true),
            ("{\"enabled\": \"false\"}", true),
            ("false", true),
            ("\"off\"", true),
            ("{\"enabled\": true}", false),
            ("{}", false),
            ("true", false),
        ] {
            let text = format!("{{\"Srv\": {entry}}}");
            let loaded = loaded(&home, text.as_bytes());
            assert_eq!(Switches::read(&loaded).refusal(" srV").is_some(), is_off, "{entry}");
            switch_server(&loaded, "SRV", true).unwrap();
            assert_eq!(Switches::read(&loaded).refusal("srv"), None, "{entry}");
        }
    }
}
