//! The JSON schema of the protocol and its reference, from the types of the messages.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::own::PROTOCOL;
use crate::shape::{Field, Kind, object_schema};

/// The schema of every line in both directions. `#/$defs/input` and `#/$defs/output` are those of one.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let input = direction("input", Incoming::kinds(), &mut definitions);
    let output = direction("output", Outgoing::kinds(), &mut definitions);
    definitions.insert("input".to_owned(), input);
    definitions.insert("output".to_owned(), output);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pollux stream-json",
        "description": format!("Lines of `pollux --input-format stream-json`, protocol {PROTOCOL}"),
        "oneOf": [{"$ref": "#/$defs/input"}, {"$ref": "#/$defs/output"}],
        "$defs": definitions,
    })
}

fn direction(name: &str, kinds: Vec<Kind>, definitions: &mut Map<String, Value>) -> Value {
    let mut every = Vec::new();
    for mut kind in kinds {
        let key = format!("{name}.{}", kind.word);
        every.push(json!({"$ref": format!("#/$defs/{key}")}));
        kind.fields.insert(
            0,
            Field {
                name: "type".to_owned(),
                about: String::new(),
                schema: json!({"const": kind.word}),
                is_optional: false,
            },
        );
        if name == "output" {
            kind.fields.push(Field {
                name: "timestamp".to_owned(),
                about: String::new(),
                schema: json!({"type": "string", "format": "date-time"}),
                is_optional: false,
            });
        }
        let mut schema = object_schema(&kind.fields);
        if let Some(members) = schema.as_object_mut() {
            members.insert("description".to_owned(), kind.about.into());
        }
        definitions.insert(key, schema);
    }
    json!({"oneOf": every})
}

/// The reference of all messages, as Markdown.
pub fn reference() -> String {
    let mut page = String::new();
    for (title, kinds) in [("To Pollux", Incoming::kinds()), ("From Pollux", Outgoing::kinds())] {
        let _ = write!(page, "\n## {title}\n");
        for kind in kinds {
            let _ = write!(page, "\n### `{}`\n\n{}\n", kind.word, kind.about);
            if kind.fields.is_empty() {
                continue;
            }
            page.push_str("\n| Field | Type | Meaning |\n|---|---|---|\n");
            for field in kind.fields {
                let optional = if field.is_optional { ", optional" } else { "" };
                let kind = type_name(&field.schema);
                let _ = writeln!(page, "| `{}` | {kind}{optional} | {} |", field.name, field.about);
            }
        }
    }
    page
}

/// A schema in a few words.
fn type_name(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(" or ");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            format!("array of {}", type_name(items))
        }
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(members) if !members.is_empty() => {
                let names: Vec<String> = members.keys().map(|name| format!("`{name}`")).collect();
                format!("object ({})", names.join(", "))
            }
            _ => "object".to_owned(),
        },
        Some(name) => name.to_owned(),
        None if schema.get("oneOf").is_some() => "string or array of parts".to_owned(),
        None => "any JSON".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_every_message_and_its_required_fields() {
        let schema = schema();
        let of = |key: &str| &schema["$defs"][key];
        assert_eq!(of("input.approve")["required"], json!(["type", "callId"]));
        assert_eq!(of("input.message")["required"], json!(["type", "content"]));
        assert_eq!(
            of("output.HOST_CALL")["required"],
            json!(["type", "callId", "name", "args", "timestamp"])
        );
        assert_eq!(of("input.call")["required"], json!(["type", "name"]));
        assert_eq!(of("input.message")["properties"]["when"]["enum"], json!(["now", "queue"]));
        assert_eq!(schema["$defs"]["input"]["oneOf"].as_array().unwrap().len(), 12);
    }

    #[test]
    fn the_reference_explains_every_message() {
        let page = reference();
        for kind in Incoming::kinds().iter().chain(&Outgoing::kinds()) {
            assert!(page.contains(&format!("### `{}`", kind.word)) && !kind.about.is_empty());
        }
    }
}
