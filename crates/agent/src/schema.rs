//! Checks arguments against a tool's JSON Schema, in the sentences models know from upstream.
//!
//! A subset of JSON Schema: what tool declarations use. A keyword it does not know is passed over,
//! as a schema that cannot be compiled is upstream.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Deeper nesting than any real schema; a cycle of our own making cannot arise, `$ref` is not followed.
const MAX_DEPTH: usize = 32;

/// Checks `args`; the error is the sentence for the model.
pub fn check(schema: &Value, args: &JsonObject) -> Result<(), String> {
    let mut faults = Vec::new();
    object(schema, args, "params", 0, &mut faults);
    // As upstream's checker, which stops at the first fault.
    faults.into_iter().next().map_or(Ok(()), Err)
}

fn value(schema: &Value, given: &Value, path: &str, depth: usize, faults: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(expected) = type_words(schema)
        && !expected.iter().any(|word| is_type(given, word))
    {
        faults.push(format!("{path} must be {}", expected.join(",")));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(given)
    {
        faults.push(format!("{path} must be equal to one of the allowed values"));
    }
    if let Some(only) = schema.get("const")
        && only != given
    {
        faults.push(format!("{path} must be equal to constant"));
    }
    match given {
        Value::Object(fields) => object(schema, fields, path, depth, faults),
        Value::Array(items) => array(schema, items, path, depth, faults),
        Value::String(text) => string(schema, text, path, faults),
        Value::Number(number) => range(schema, number.as_f64().unwrap_or_default(), path, faults),
        Value::Null | Value::Bool(_) => {}
    }
    alternatives(schema, given, path, depth, faults);
}

fn object(schema: &Value, fields: &JsonObject, path: &str, depth: usize, faults: &mut Vec<String>) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = name.as_str()
            && !fields.contains_key(name)
        {
            faults.push(format!("{path} must have required property '{name}'"));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    for (name, given) in fields {
        match known.and_then(|known| known.get(name)) {
            Some(inner) => value(inner, given, &format!("{path}/{name}"), depth + 1, faults),
            None => match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {
                    faults.push(format!("{path} must NOT have additional properties"));
                }
                Some(inner @ Value::Object(_)) => {
                    value(inner, given, &format!("{path}/{name}"), depth + 1, faults);
                }
                _ => {}
            },
        }
    }
}

fn array(schema: &Value, items: &[Value], path: &str, depth: usize, faults: &mut Vec<String>) {
    limit(schema, "minItems", items.len(), path, "fewer", "items", faults);
    limit(schema, "maxItems", items.len(), path, "more", "items", faults);
    if let Some(inner @ Value::Object(_)) = schema.get("items") {
        for (index, item) in items.iter().enumerate() {
            value(inner, item, &format!("{path}/{index}"), depth + 1, faults);
        }
    }
}

fn string(schema: &Value, text: &str, path: &str, faults: &mut Vec<String>) {
    let length = text.chars().count();
    limit(schema, "minLength", length, path, "fewer", "characters", faults);
    limit(schema, "maxLength", length, path, "more", "characters", faults);
}

fn limit(
    schema: &Value,
    keyword: &str,
    length: usize,
    path: &str,
    word: &str,
    of_what: &str,
    faults: &mut Vec<String>,
) {
    let Some(bound) = schema.get(keyword).and_then(Value::as_u64) else { return };
    let length = length as u64;
    let broken = if word == "fewer" { length < bound } else { length > bound };
    if broken {
        faults.push(format!("{path} must NOT have {word} than {bound} {of_what}"));
    }
}

fn range(schema: &Value, number: f64, path: &str, faults: &mut Vec<String>) {
    for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        let Some(bound) = schema.get(keyword).and_then(Value::as_f64) else { continue };
        let (sign, holds) = match keyword {
            "minimum" => (">=", number >= bound),
            "maximum" => ("<=", number <= bound),
            "exclusiveMinimum" => (">", number > bound),
            _ => ("<", number < bound),
        };
        if !holds {
            faults.push(format!("{path} must be {sign} {bound}"));
        }
    }
}

fn alternatives(schema: &Value, given: &Value, path: &str, depth: usize, faults: &mut Vec<String>) {
    for keyword in ["anyOf", "oneOf"] {
        let Some(choices) = schema.get(keyword).and_then(Value::as_array) else { continue };
        let fits = choices.iter().any(|choice| {
            let mut inner = Vec::new();
            value(choice, given, path, depth + 1, &mut inner);
            inner.is_empty()
        });
        if !fits {
            let word = if keyword == "anyOf" {
                "match a schema in anyOf"
            } else {
                "match exactly one schema in oneOf"
            };
            faults.push(format!("{path} must {word}"));
        }
    }
}

fn type_words(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(word) => Some(vec![word]),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn is_type(given: &Value, word: &str) -> bool {
    match word {
        "object" => given.is_object(),
        "array" => given.is_array(),
        "string" => given.is_string(),
        "number" => given.is_number(),
        // 2.0 is an integer in JSON Schema.
        "integer" => given.is_i64() || given.is_u64() || given.as_f64().is_some_and(|n| n.fract() == 0.0),
        "boolean" => given.is_boolean(),
        "null" => given.is_null(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fault_is_named_in_the_sentence_a_model_knows() {
        let schema = json!({"type": "object", "required": ["file_path"], "properties": {
            "file_path": {"type": "string"},
            "start_line": {"type": "integer", "minimum": 1},
            "mode": {"enum": ["a", "b"]},
            "tags": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        }});
        let cases = [
            (json!({}), Some("params must have required property 'file_path'")),
            (json!({"file_path": 3}), Some("params/file_path must be string")),
            (json!({"file_path": "a", "start_line": 0}), Some("params/start_line must be >= 1")),
            (json!({"file_path": "a", "start_line": 1.5}), Some("params/start_line must be integer")),
            (
                json!({"file_path": "a", "mode": "c"}),
                Some("params/mode must be equal to one of the allowed values"),
            ),
            (json!({"file_path": "a", "tags": []}), Some("params/tags must NOT have fewer than 1 items")),
            (json!({"file_path": "a", "tags": [1]}), Some("params/tags/0 must be string")),
            (json!({"file_path": "a", "start_line": 2.0, "extra": true}), None),
        ];
        for (args, expected) in cases {
            let found = check(&schema, args.as_object().unwrap()).err();
            assert_eq!(found.as_deref(), expected, "{args}");
        }
    }
}
