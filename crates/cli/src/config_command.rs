//! `pollux config`: what is set, where it comes from, and changing it.

use std::io::Write;

use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{MASK, redact_value};
use pollux_domain::spelling::distance;
use pollux_domain::terminal_text;
use pollux_host::request::Scope;
use serde_json::{Value, json};

use crate::launch::ConfigCommand;
pub(crate) use pollux_host::settings::{Row, Settings};

/// Runs the command; the result goes to `out`.
pub(crate) fn run(
    command: &ConfigCommand,
    settings: &mut dyn Settings,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let text = match command {
        ConfigCommand::Show { origin, json: false } => table(&settings.rows(), *origin),
        ConfigCommand::Show { json: true, .. } => {
            return print_result(out, &terminal_text::json(format!("{:#}\n", object(&settings.rows()))));
        }
        ConfigCommand::Get { key } => format!("{}\n", get(&settings.rows(), key)?),
        ConfigCommand::Set { key, value, scope } => set(settings, key, value, *scope)?,
    };
    print_result(out, &terminal_text::plain(&text))
}

fn table(rows: &[Row], origin: bool) -> String {
    let width = rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{:width$} = {}", row.key, shown(row)));
        if origin {
            text.push_str(&format!("   ({})", row.origin));
        }
        text.push('\n');
    }
    text
}

/// The value as anybody may see it.
pub(crate) fn shown(row: &Row) -> Value {
    if row.secret && !row.value.is_null() {
        return Value::from(MASK);
    }
    // Whoever wrote a key into a setting that is not made for one shall not see it on a shared screen.
    let mut value = row.value.clone();
    redact_value(&mut value);
    value
}

fn object(rows: &[Row]) -> Value {
    let pairs = rows.iter().map(|row| (row.key.clone(), json!({"value": shown(row), "origin": row.origin})));
    Value::Object(pairs.collect())
}

fn get(rows: &[Row], key: &str) -> Result<String, Failure> {
    if let Some(row) = rows.iter().find(|row| row.key == key) {
        return Ok(bare(&shown(row)));
    }
    let group = group(rows, key);
    if group.is_empty() { Err(unknown(rows, key)) } else { Ok(format!("{:#}", Value::Object(group))) }
}

/// All settings below a key, as the nested object that a settings file would hold.
fn group(rows: &[Row], key: &str) -> JsonObject {
    let mut object = JsonObject::new();
    for row in rows {
        let below = row.key.strip_prefix(key).and_then(|rest| rest.strip_prefix('.'));
        if let Some(path) = below {
            insert(&mut object, path, shown(row));
        }
    }
    object
}

fn insert(object: &mut JsonObject, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// A string without quotes, anything else as JSON.
pub(crate) fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => format!("{value:#}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn set(settings: &mut dyn Settings, key: &str, text: &str, scope: Scope) -> Result<String, Failure> {
    let rows = settings.rows();
    let row = rows.iter().find(|row| row.key == key);
    let secret = row.is_some_and(|row| row.secret);
    if row.is_none() && !inside_open_object(&rows, key) {
        return Err(unknown(&rows, key));
    }
    let change = settings.set(key, text, scope)?;
    let file = change.file.display();
    Ok(match change.before {
        _ if secret => format!("{key} is set in {file}\n"),
        None => format!("{key} = {} in {file}\n", change.after),
        Some(before) if before == change.after => {
            format!("{key} = {before} stood in {file} already\n")
        }
        Some(before) => format!("{key} = {} in {file} (it was {before})\n", change.after),
    })
}

/// Whether the key lies inside a setting whose keys the user names, such as `mcpServers`.
fn inside_open_object(rows: &[Row], key: &str) -> bool {
    rows.iter().any(|row| {
        let below = key.strip_prefix(row.key.as_str()).is_some_and(|rest| rest.starts_with('.'));
        below && row.value.is_object()
    })
}

fn unknown(rows: &[Row], key: &str) -> Failure {
    let failure = Failure::new(ExitKind::Failure, format!("there is no setting `{key}`"));
    match nearest(rows, key) {
        Some(known) => failure.hint(format!("did you mean `{known}`?")),
        None => failure.hint("`pollux config show` lists every setting"),
    }
}

/// A key that ends in these words, or one that differs by a few letters.
fn nearest<'a>(rows: &'a [Row], key: &str) -> Option<&'a str> {
    let wanted = key.to_lowercase();
    let suffix = format!(".{wanted}");
    let keys = || rows.iter().map(|row| row.key.as_str());
    keys().find(|known| known.to_lowercase().ends_with(&suffix)).or_else(|| {
        let scored = keys().map(|known| (distance(&known.to_lowercase(), &wanted), known));
        let (distance, known) = scored.min_by_key(|(distance, _)| *distance)?;
        (distance <= 1 + wanted.chars().count() / 4).then_some(known)
    })
}

#[cfg(test)]
mod tests {
    use pollux_host::settings::Change;

    use super::*;

    struct Fixed(Vec<Row>);

    impl Settings for Fixed {
        fn rows(&self) -> Vec<Row> {
            self.0.clone()
        }

        fn notes(&self) -> &[String] {
            &[]
        }

        fn set(&mut self, key: &str, text: &str, scope: Scope) -> Result<Change, Failure> {
            assert_eq!(scope, Scope::Project);
            let after = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            let before = self.0.iter().find(|row| row.key == key).map(|row| row.value.clone());
            Ok(Change { file: "/p/.gemini/settings.json".into(), before, after })
        }

        fn written(&self, _: &str, _: Scope) -> Option<Value> {
            None
        }

        fn reset(&mut self, _: &str, _: Scope) -> Result<(), Failure> {
            Ok(())
        }
    }

    fn row(key: &str, value: Value, origin: &str, secret: bool) -> Row {
        Row { key: key.into(), value, origin: origin.into(), secret, of_system: false }
    }

    fn run_with(command: ConfigCommand) -> Result<String, Failure> {
        let mut settings = Fixed(vec![
            row("model.name", json!("auto"), "default", false),
            row("model.maxSessionTurns", json!(-1), "GEMINI_X", false),
            row("api.key", json!("AIza"), "/h/.gemini/settings.json", true),
            row("modelConfigs", json!({}), "default", false),
        ]);
        let mut out = Vec::new();
        run(&command, &mut settings, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn get(key: &str) -> Result<String, Failure> {
        run_with(ConfigCommand::Get { key: key.into() })
    }

    fn set(key: &str, value: &str) -> Result<String, Failure> {
        run_with(ConfigCommand::Set { key: key.into(), value: value.into(), scope: Scope::Project })
    }

    #[test]
    fn show_lists_settings_with_their_origin_and_hides_secrets() {
        let text = run_with(ConfigCommand::Show { origin: true, json: false }).unwrap();
        let expected = "\
model.name            = \"auto\"   (default)
model.maxSessionTurns = -1   (GEMINI_X)
api.key               = \"***\"   (/h/.gemini/settings.json)
modelConfigs          = {}   (default)
";
        assert_eq!(text, expected);
        let json = run_with(ConfigCommand::Show { origin: false, json: true }).unwrap();
        let object: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["model.name"], json!({"value": "auto", "origin": "default"}));
        assert_eq!(object["api.key"]["value"], "***");
    }

    #[test]
    fn get_prints_the_bare_value_or_a_whole_group() {
        assert_eq!(get("model.name").unwrap(), "auto\n");
        assert_eq!(get("model.maxSessionTurns").unwrap(), "-1\n");
        assert_eq!(get("api.key").unwrap(), "***\n");
        let group: Value = serde_json::from_str(&get("model").unwrap()).unwrap();
        assert_eq!(group, json!({"name": "auto", "maxSessionTurns": -1}));
    }

    #[test]
    fn an_unknown_key_is_refused_with_a_suggestion() {
        let hint = |key| get(key).unwrap_err().hint.unwrap();
        assert_eq!(hint("model.nme"), "did you mean `model.name`?");
        assert_eq!(hint("maxsessionturns"), "did you mean `model.maxSessionTurns`?");
        assert_eq!(hint("zzz"), "`pollux config show` lists every setting");
        assert_eq!(set("model.nme", "x").unwrap_err().exit, ExitKind::Failure);
    }

    #[test]
    fn set_says_what_changed_and_where() {
        assert_eq!(
            set("model.maxSessionTurns", "5").unwrap(),
            "model.maxSessionTurns = 5 in /p/.gemini/settings.json (it was -1)\n"
        );
        assert_eq!(
            set("model.name", "auto").unwrap(),
            "model.name = \"auto\" stood in /p/.gemini/settings.json already\n"
        );
        assert_eq!(set("api.key", "AIzb").unwrap(), "api.key is set in /p/.gemini/settings.json\n");
        assert_eq!(set("modelConfigs.x", "1").unwrap(), "modelConfigs.x = 1 in /p/.gemini/settings.json\n");
    }
}
