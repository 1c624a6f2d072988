//! Schemas of a tool's arguments in the form that servers accept.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

/// Words at the root that say nothing to a model and that some servers refuse.
const DROPPED: &[&str] = &["$schema", "$id", "title"];

/// The schema of an object; one that is none becomes that of an object without properties.
pub(crate) fn parameters(schema: &Value) -> Value {
    let mut root = schema.as_object().cloned().unwrap_or_default();
    for word in DROPPED {
        root.remove(*word);
    }
    if root.get("type").and_then(Value::as_str) != Some("object") {
        root.insert("type".into(), json!("object"));
    }
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".into(), Value::Object(JsonObject::new()));
    }
    Value::Object(root)
}

/// Words that a server cannot hold a model to.
const NOT_STRICT: &[&str] = &[
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
    "$ref",
];
/// Nobody nests deeper.
const MAX_DEPTH: usize = 10;

/// The schema for a server that holds the model to it: every property is required, and one that was not may be
/// null. `None` if that cannot be said of this schema.
pub(crate) fn strict(schema: &Value) -> Option<Value> {
    let mut root = parameters(schema);
    if root.get("anyOf").is_some() || root.get("oneOf").is_some() {
        return None;
    }
    tighten(&mut root, MAX_DEPTH).then_some(root)
}

fn tighten(schema: &mut Value, depth: usize) -> bool {
    let Value::Object(fields) = schema else { return schema.is_boolean() };
    if depth == 0 || NOT_STRICT.iter().any(|word| fields.contains_key(*word)) {
        return false;
    }
    if fields.get("default") == Some(&Value::Null) {
        fields.remove("default");
    }
    if let Some(items) = fields.get_mut("items")
        && !tighten(items, depth - 1)
    {
        return false;
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = fields.get_mut(word)
            && !choices.iter_mut().all(|choice| tighten(choice, depth - 1))
        {
            return false;
        }
    }
    let is_object = fields.get("type") == Some(&json!("object"));
    if !is_object {
        return true;
    }
    // A map with any keys has no list of properties to require.
    if fields.get("additionalProperties").is_some_and(|more| *more != json!(false)) {
        return false;
    }
    let required = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = fields.get_mut("properties") else { return false };
    for (name, property) in properties.iter_mut() {
        if !tighten(property, depth - 1) {
            return false;
        }
        if !required.iter().any(|known| known.as_str() == Some(name)) && !allow_null(property) {
            return false;
        }
    }
    let all: Vec<Value> = properties.keys().map(|name| json!(name)).collect();
    fields.insert("required".into(), Value::Array(all));
    fields.insert("additionalProperties".into(), json!(false));
    true
}

fn allow_null(property: &mut Value) -> bool {
    let Value::Object(fields) = property else { return false };
    if let Some(Value::Array(choices)) = fields.get_mut("enum") {
        choices.push(Value::Null);
    }
    match fields.get_mut("type") {
        Some(Value::String(kind)) => {
            let both = json!([kind, "null"]);
            fields.insert("type".into(), both);
            true
        }
        Some(Value::Array(kinds)) => {
            if !kinds.contains(&json!("null")) {
                kinds.push(json!("null"));
            }
            true
        }
        _ => false,
    }
}

/// Takes nulls out of arguments where the schema has an optional property that cannot be null: a strict server made
/// the model say something.
pub(crate) fn without_nulls(args: &mut JsonObject, schema: &Value) {
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    args.retain(|name, value| {
        let is_required =
            required.is_some_and(|names| names.iter().any(|known| known.as_str() == Some(name)));
        let kind = properties.and_then(|all| all.get(name)?.get("type"));
        let nullable = match kind {
            Some(Value::String(kind)) => kind == "null",
            Some(Value::Array(kinds)) => kinds.contains(&json!("null")),
            _ => false,
        };
        !value.is_null() || is_required || nullable
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_an_object_with_properties_and_nothing_below_it_changes() {
        let properties = json!({"title": {"type": "string", "title": "T"}, "n": {"$ref": "#/$defs/n"}});
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "title": "Args",
            "type": "object", "properties": properties, "required": ["n"], "$defs": {"n": {"type": "integer"}}
        });
        let expected = json!({
            "type": "object", "properties": properties, "required": ["n"], "$defs": {"n": {"type": "integer"}}
        });
        assert_eq!(parameters(&schema), expected);
        let empty = json!({"type": "object", "properties": {}});
        for odd in
            [json!({}), json!(true), json!(null), json!({"type": ["object", "null"], "properties": null})]
        {
            assert_eq!(parameters(&odd), empty, "{odd}");
        }
    }

    #[test]
    fn a_strict_schema_requires_everything_and_lets_optional_properties_be_null() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer", "default": null},
            "mode": {"type": "string", "enum": ["a"]},
            "items": {"type": "array", "items": {"type": "object", "properties": {}}}
        }});
        let made = strict(&schema).unwrap();
        assert_eq!(made["required"], json!(["path", "limit", "mode", "items"]));
        assert_eq!(made["properties"]["limit"], json!({"type": ["integer", "null"]}));
        assert_eq!(made["properties"]["mode"]["enum"], json!(["a", null]));
        assert_eq!(made["properties"]["items"]["items"]["additionalProperties"], json!(false));
        for loose in [
            json!({"anyOf": [{}]}),
            json!({"properties": {"a": {"$ref": "#/x"}}}),
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {"type": "object", "additionalProperties": true}}}),
        ] {
            assert_eq!(strict(&loose), None, "{loose}");
        }
        let mut args = json!({"path": null, "limit": null, "other": 1}).as_object().unwrap().clone();
        without_nulls(&mut args, &schema);
        assert_eq!(Value::Object(args), json!({"path": null, "other": 1}));
    }
}
