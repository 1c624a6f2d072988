//! `pollux config`: what is set, where it comes from, and changing it.

mod arguments;

use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::spelling::distance;
use pollux_domain::terminal_text;
use serde_json::{Value, json};

use pollux_host::settings::{self, Change, SettingsRow, bare};

pub use arguments::{ConfigArgs, ConfigCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &ConfigCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut settings = settings::settings(context.request, context.env)?;
    context.note(settings.notes());
    let rows = settings.rows();
    let text = match command {
        ConfigCommand::Show { origin, json: false } => table(&rows, *origin),
        ConfigCommand::Show { json: true, .. } => {
            return print_result(
                context.out,
                &terminal_text::json(format!(
                    "{:#}
",
                    object(&rows)
                )),
            );
        }
        ConfigCommand::Get { key } => format!(
            "{}
",
            get(&rows, key)?
        ),
        ConfigCommand::Set { key, value, scope } => {
            check_known(&rows, key)?;
            changed(&rows, key, &settings.set(key, value, *scope)?)
        }
    };
    print_result(context.out, &terminal_text::plain(&text))
}

fn table(rows: &[SettingsRow], origin: bool) -> String {
    let width = rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{:width$} = {}", row.key, row.shown()));
        if origin {
            text.push_str(&format!("   ({})", row.origin));
        }
        text.push('\n');
    }
    text
}

fn object(rows: &[SettingsRow]) -> Value {
    let pairs = rows.iter().map(|row| (row.key.clone(), json!({"value": row.shown(), "origin": row.origin})));
    Value::Object(pairs.collect())
}

fn get(rows: &[SettingsRow], key: &str) -> Result<String, Failure> {
    if let Some(row) = rows.iter().find(|row| row.key == key) {
        return Ok(bare(&row.shown()));
    }
    let group = group(rows, key);
    if group.is_empty() { Err(unknown(rows, key)) } else { Ok(format!("{:#}", Value::Object(group))) }
}

/// All settings below a key, as the nested object that a settings file would hold.
fn group(rows: &[SettingsRow], key: &str) -> JsonObject {
    let mut object = JsonObject::new();
    for row in rows {
        let below = row.key.strip_prefix(key).and_then(|rest| rest.strip_prefix('.'));
        if let Some(path) = below {
            insert(&mut object, path, row.shown());
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

/// Refuses a key that no setting has.
fn check_known(rows: &[SettingsRow], key: &str) -> Result<(), Failure> {
    let is_known = rows.iter().any(|row| row.key == key) || inside_open_object(rows, key);
    if is_known { Ok(()) } else { Err(unknown(rows, key)) }
}

/// What a change did.
fn changed(rows: &[SettingsRow], key: &str, change: &Change) -> String {
    let secret = rows.iter().any(|row| row.key == key && row.secret);
    let file = change.file.display();
    match &change.before {
        _ if secret => format!(
            "{key} is set in {file}
"
        ),
        None => format!(
            "{key} = {} in {file}
",
            change.after
        ),
        Some(before) if *before == change.after => {
            format!(
                "{key} = {before} stood in {file} already
"
            )
        }
        Some(before) => format!(
            "{key} = {} in {file} (it was {before})
",
            change.after
        ),
    }
}

/// Whether the key is inside a setting whose keys the user names, such as `mcpServers`.
fn inside_open_object(rows: &[SettingsRow], key: &str) -> bool {
    rows.iter().any(|row| {
        let below = key.strip_prefix(row.key.as_str()).is_some_and(|rest| rest.starts_with('.'));
        below && row.value.is_object()
    })
}

fn unknown(rows: &[SettingsRow], key: &str) -> Failure {
    let failure = Failure::new(ExitKind::Failure, format!("unknown setting `{key}`"));
    match nearest(rows, key) {
        Some(known) => failure.hint(format!("did you mean `{known}`?")),
        None => failure.hint("run `pollux config show` to list all settings"),
    }
}

/// A key that ends in these words, or one that differs by a few letters.
fn nearest<'a>(rows: &'a [SettingsRow], key: &str) -> Option<&'a str> {
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
    use super::*;

    fn row(key: &str, value: Value, origin: &str, secret: bool) -> SettingsRow {
        SettingsRow { key: key.into(), value, origin: origin.into(), secret, of_system: false }
    }

    fn rows() -> Vec<SettingsRow> {
        vec![
            row("model.name", json!("auto"), "default", false),
            row("model.maxSessionTurns", json!(-1), "GEMINI_X", false),
            row("api.key", json!("AIza"), "/h/.gemini/settings.json", true),
            row("modelConfigs", json!({}), "default", false),
        ]
    }

    fn get(key: &str) -> Result<String, Failure> {
        super::get(&rows(), key)
    }

    fn set(key: &str, text: &str) -> Result<String, Failure> {
        let rows = rows();
        check_known(&rows, key)?;
        let after = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let before = rows.iter().find(|row| row.key == key).map(|row| row.value.clone());
        Ok(changed(&rows, key, &Change { file: "/p/.gemini/settings.json".into(), before, after }))
    }

    #[test]
    fn show_lists_settings_with_their_origin_and_hides_secrets() {
        let text = table(&rows(), true);
        let expected = "\
model.name            = \"auto\"   (default)
model.maxSessionTurns = -1   (GEMINI_X)
api.key               = \"***\"   (/h/.gemini/settings.json)
modelConfigs          = {}   (default)
";
        assert_eq!(text, expected);
        let object = object(&rows());
        assert_eq!(object["model.name"], json!({"value": "auto", "origin": "default"}));
        assert_eq!(object["api.key"]["value"], "***");
    }

    #[test]
    fn get_prints_the_bare_value_or_a_whole_group() {
        assert_eq!(get("model.name").unwrap(), "auto");
        assert_eq!(get("model.maxSessionTurns").unwrap(), "-1");
        assert_eq!(get("api.key").unwrap(), "***");
        let group: Value = serde_json::from_str(&get("model").unwrap()).unwrap();
        assert_eq!(group, json!({"name": "auto", "maxSessionTurns": -1}));
    }

    #[test]
    fn an_unknown_key_is_refused_with_a_suggestion() {
        let hint = |key| get(key).unwrap_err().hint.unwrap();
        assert_eq!(hint("model.nme"), "did you mean `model.name`?");
        assert_eq!(hint("maxsessionturns"), "did you mean `model.maxSessionTurns`?");
        assert_eq!(hint("zzz"), "run `pollux config show` to list all settings");
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
