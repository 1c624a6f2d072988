//! Parses the tool declarations that a discovery command prints.

use serde_json::{Value, json};

/// The API takes names of this length; our prefix has its share.
const MAX_NAME: usize = 47;
/// More than anybody declares.
const MAX_TOOLS: usize = 512;

/// One tool.
#[derive(Debug, PartialEq)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Value,
}

/// All declarations, bare or in groups; invalid ones come with the reason.
pub(super) fn read_all(listed: Vec<Value>) -> Vec<Result<Declaration, String>> {
    let mut found = Vec::new();
    for mut entry in listed {
        let grouped = ["function_declarations", "functionDeclarations"]
            .into_iter()
            .find_map(|key| entry.get_mut(key).map(Value::take));
        match grouped {
            Some(Value::Array(group)) => found.extend(group.into_iter().map(read)),
            Some(_) => found.push(Err("ignoring a group of discovered tools: not an array".to_owned())),
            None => found.push(read(entry)),
        }
    }
    if found.len() > MAX_TOOLS {
        let count = found.len();
        found.truncate(MAX_TOOLS);
        found.push(Err(format!("found {count} discovered tools; only the first {MAX_TOOLS} are used")));
    }
    found
}

fn read(mut entry: Value) -> Result<Declaration, String> {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() {
        return Err("ignoring a discovered tool without a name".to_owned());
    }
    // The name becomes an argument of a command; it must not look like an option.
    if name.len() > MAX_NAME || !name.chars().all(is_plain) || name.starts_with('-') {
        return Err(format!("ignoring the discovered tool `{}`: invalid name", name.escape_debug()));
    }
    let description = entry.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let parameters = entry.get_mut("parametersJsonSchema").map(Value::take).filter(Value::is_object);
    Ok(Declaration { name, description, parameters: with_wait(parameters.unwrap_or_else(|| json!({}))) })
}

/// Adds the switch that every tool without a schema of the program's own has.
fn with_wait(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| json!("object"));
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.entry("wait_for_previous").or_insert_with(|| {
                json!({
                    "type": "boolean",
                    "description": "Start only after the calls before this one are done."
                })
            });
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_forms_are_read() {
        let listed = json!([
            {"function_declarations": [{"name": "a", "description": "A"}]},
            {"functionDeclarations": [{"name": "b", "parametersJsonSchema": {"type": "object", "required": ["x"]}}]},
            {"name": "c"}
        ]);
        let found = read_all(listed.as_array().unwrap().clone());
        let names: Vec<&str> = found.iter().map(|found| found.as_ref().unwrap().name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let schema = &found[1].as_ref().unwrap().parameters;
        assert_eq!(schema["required"], json!(["x"]));
        assert_eq!(schema["properties"]["wait_for_previous"]["type"], "boolean");
    }

    #[test]
    fn invalid_tools_are_skipped_with_the_reason() {
        let bad = [
            json!(3),
            json!({}),
            json!({"name": ""}),
            json!({"name": "a b"}),
            json!({"name": "../x"}),
            json!({"name": "-rf"}),
            json!({"name": "x".repeat(99)}),
            json!({"name": "ü"}),
            json!({"function_declarations": {}}),
        ];
        for entry in bad {
            let found = read_all(vec![entry.clone()]);
            assert!(matches!(found.as_slice(), [Err(_)]), "{entry}");
        }
        assert_eq!(read_all(vec![json!({"name": "n"}); 600]).len(), MAX_TOOLS + 1);
    }
}
