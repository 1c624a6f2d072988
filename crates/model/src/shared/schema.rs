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
}
