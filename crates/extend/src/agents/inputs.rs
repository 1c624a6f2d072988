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

/// The inputs for a prompt: the agent's only input, or a JSON object with several; defaults are filled in.
pub fn inputs_for(schema: &Value, prompt: &str) -> JsonObject {
    let empty = JsonObject::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut inputs = match properties.keys().collect::<Vec<_>>().as_slice() {
        [only] => JsonObject::from_iter([((*only).clone(), json!(prompt))]),
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
}
