//! The inputs of an agent: one schema internally, two ways to write it, and the mapping from a prompt.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

/// The default inputs of an agent.
pub(super) fn query_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"query": {"type": "string", "description": "The task for the agent."}},
    })
}

/// The schema of inputs as a file has them: a JSON Schema, or a map from names to `type`, `description` and `required`.
pub(super) fn schema_of(written: &JsonObject) -> Result<Value, String> {
    let is_schema = written.get("type").is_some_and(|kind| kind == "object")
        && written.get("properties").is_some_and(Value::is_object);
    if is_schema {
        return Ok(Value::Object(written.clone()));
    }
    let mut properties = JsonObject::new();
    let mut required = Vec::new();
    for (name, input) in written {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("invalid input name `{name}`: use letters, digits and `_`"));
        }
        let Value::Object(fields) = input else {
            return Err(format!("input `{name}` must be a table with `type`, `description` and `required`"));
        };
        let word = fields.get("type").and_then(Value::as_str).unwrap_or("string");
        let mut property = match word {
            "string" | "number" | "boolean" | "integer" => json!({"type": word}),
            "string[]" => json!({"type": "array", "items": {"type": "string"}}),
            "number[]" => json!({"type": "array", "items": {"type": "number"}}),
            other => {
                return Err(format!(
                    "input `{name}` has the unknown type `{other}` (expected string, number, boolean, integer, string[] or number[])"
                ));
            }
        };
        for key in ["description", "default"] {
            if let (Some(value), Some(property)) = (fields.get(key), property.as_object_mut()) {
                property.insert(key.to_owned(), value.clone());
            }
        }
        if fields.get("required").and_then(Value::as_bool) == Some(true) {
            required.push(name.clone());
        }
        properties.insert(name.clone(), property);
    }
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

/// The inputs for a prompt: the agent's only input, or a JSON object with several; defaults are filled in. Whether they
/// match the schema is not checked.
pub fn inputs_for(schema: &Value, prompt: &str) -> JsonObject {
    let empty = JsonObject::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut inputs = match properties.keys().collect::<Vec<_>>().as_slice() {
        [only] => only_input(only, properties.get(*only).unwrap_or(&Value::Null), prompt),
        names => match serde_json::from_str::<Value>(prompt) {
            Ok(Value::Object(given)) if given.keys().any(|key| names.contains(&key)) => given,
            _ => JsonObject::from_iter([("prompt".to_owned(), json!(prompt))]),
        },
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default").filter(|_| !inputs.contains_key(name)) {
            inputs.insert(name.clone(), default.clone());
        }
    }
    inputs
}

/// A text is taken as it is; any other input is read as JSON, alone or in an object with its name.
fn only_input(name: &str, property: &Value, prompt: &str) -> JsonObject {
    let named = |value| JsonObject::from_iter([(name.to_owned(), value)]);
    if property.get("type").is_none() || is_type(property, "string") {
        return named(json!(prompt));
    }
    let value = match serde_json::from_str(prompt) {
        Ok(Value::Object(given)) if given.contains_key(name) => return given,
        Ok(value) => value,
        Err(_) => json!(prompt),
    };
    if !is_type(property, "array") || value.is_array() {
        return named(value);
    }
    // A list of one item needs no brackets, and a text no quotes.
    let is_text = property.get("items").is_some_and(|items| is_type(items, "string"));
    named(json!([if is_text { json!(prompt) } else { value }]))
}

fn is_type(schema: &Value, word: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(words)) => words.iter().any(|known| known == word),
        known => known.is_some_and(|known| known == word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_input_syntaxes_give_the_same_schema() {
        let written = json!({
            "path": {"type": "string", "description": "where", "required": true},
            "tags": {"type": "string[]", "default": ["a"]},
        });
        let schema = schema_of(written.as_object().unwrap()).unwrap();
        assert_eq!(schema["required"], json!(["path"]));
        assert_eq!(schema["properties"]["tags"]["items"], json!({"type": "string"}));
        assert_eq!(schema_of(schema.as_object().unwrap()).unwrap(), schema);
        let wrong = json!({"x": {"type": "date"}});
        assert!(schema_of(wrong.as_object().unwrap()).unwrap_err().contains("`date`"));
        let wrong = json!({"x y": {}});
        assert!(schema_of(wrong.as_object().unwrap()).is_err());
        let given = inputs_for(&schema, r#"{"path": "src"}"#);
        assert_eq!(Value::Object(given), json!({"path": "src", "tags": ["a"]}));
        assert_eq!(inputs_for(&schema, "look")["prompt"], "look");
        assert_eq!(inputs_for(&query_schema(), r#"{"a": 1}"#)["query"], r#"{"a": 1}"#);
    }

    #[test]
    fn an_only_input_of_any_type_can_be_given() {
        let only = |kind: &str, prompt: &str| {
            let schema =
                schema_of(json!({"n": {"type": kind, "required": true}}).as_object().unwrap()).unwrap();
            inputs_for(&schema, prompt)["n"].clone()
        };
        for (kind, prompt, expected) in [
            ("number", "2.5", json!(2.5)),
            ("integer", " 7\n", json!(7)),
            ("integer", r#"{"n": 7}"#, json!(7)),
            ("integer", "seven", json!("seven")),
            ("boolean", "true", json!(true)),
            ("string[]", r#"["a", "b"]"#, json!(["a", "b"])),
            ("string[]", r#"{"n": ["a"]}"#, json!(["a"])),
            ("string[]", "src and tests", json!(["src and tests"])),
            ("string[]", "5", json!(["5"])),
            ("number[]", "[1, 2]", json!([1, 2])),
            ("number[]", "1", json!([1])),
            ("string", "5", json!("5")),
            ("string", r#"{"n": 7}"#, json!(r#"{"n": 7}"#)),
        ] {
            assert_eq!(only(kind, prompt), expected, "{kind}: {prompt}");
        }
        let nullable = json!({"type": "object", "properties": {"n": {"type": ["integer", "null"]}}});
        assert_eq!(inputs_for(&nullable, "null")["n"], Value::Null);
        let untyped = json!({"type": "object", "properties": {"n": {"enum": ["1", "2"]}}});
        assert_eq!(inputs_for(&untyped, "1")["n"], "1");
    }
}
