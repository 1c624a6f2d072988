//! `keybindings.json`: an array of `{"command": "[-]id", "key": "mod+mod+base"}`, comments allowed.

use jsonc_parser::{JsonValue, ParseOptions, parse_to_value};

use pollux_domain::spelling::distance;

use super::chord::Chord;
use super::{Command, KeyMap};

/// An error in the file or in one of its entries, which are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    #[error("keybindings.json is not valid JSON: {0}; using the default keys")]
    Syntax(String),
    #[error("keybindings.json must be an array of {{\"command\", \"key\"}} entries; using the default keys")]
    NotAnArray,
    #[error("keybindings.json, entry {entry}: \"command\" and \"key\" must be strings")]
    Shape { entry: usize },
    #[error("keybindings.json, entry {entry}: unknown command \"{command}\"{}", did_you_mean(.near))]
    UnknownCommand { entry: usize, command: String, near: Option<&'static str> },
    #[error(
        "keybindings.json, entry {entry} ({command}): invalid key \"{key}\"; join modifiers (ctrl, shift, alt, \
         cmd) and one character or a name such as enter, escape, up or f1 with +"
    )]
    UnknownKey { entry: usize, command: String, key: String },
    #[error(
        "keybindings.json, entry {entry} ({command}): cannot remove \"{key}\": it is not bound to this command"
    )]
    NotBound { entry: usize, command: String, key: String },
}

fn did_you_mean(near: &Option<&'static str>) -> String {
    near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default()
}

/// The default keys with the file's changes. An invalid entry is reported, and the others still apply.
pub(super) fn read(text: &str) -> (KeyMap, Vec<BindingError>) {
    let mut map = KeyMap::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let entries = match parse_to_value(text, &ParseOptions::default()) {
        Ok(None) => return (map, Vec::new()),
        Ok(Some(JsonValue::Array(entries))) => entries,
        Ok(Some(_)) => return (map, vec![BindingError::NotAnArray]),
        Err(error) => return (map, vec![BindingError::Syntax(error.to_string())]),
    };
    let errors = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| apply(&mut map, index + 1, entry).err())
        .collect();
    (map, errors)
}

fn apply(map: &mut KeyMap, entry: usize, value: &JsonValue<'_>) -> Result<(), BindingError> {
    let JsonValue::Object(fields) = value else { return Err(BindingError::Shape { entry }) };
    let field = |name| match fields.get(name) {
        Some(JsonValue::String(text)) => Ok(text.as_ref()),
        _ => Err(BindingError::Shape { entry }),
    };
    let (name, key) = (field("command")?, field("key")?);
    let (id, removes) = name.strip_prefix('-').map_or((name, false), |id| (id, true));
    let command = Command::from_id(id).ok_or_else(|| BindingError::UnknownCommand {
        entry,
        command: name.to_owned(),
        near: nearest(id),
    })?;
    let unknown = || BindingError::UnknownKey { entry, command: name.to_owned(), key: key.to_owned() };
    let chord = Chord::parse(key).ok_or_else(unknown)?;
    if !removes {
        map.add(command, chord);
    } else if !map.remove(command, chord) {
        return Err(BindingError::NotBound { entry, command: id.to_owned(), key: key.to_owned() });
    }
    Ok(())
}

fn nearest(id: &str) -> Option<&'static str> {
    // A distance costs the product of both lengths, and no id is this long.
    if id.len() > 60 {
        return None;
    }
    let (far, near) = Command::ALL.iter().map(|command| (distance(id, command.id()), command.id())).min()?;
    (far <= 3).then_some(near)
}
