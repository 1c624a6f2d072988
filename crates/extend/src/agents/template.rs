//! `${name}` placeholders in prompts.

use pollux_domain::JsonObject;
use serde_json::Value;

/// A text uses an input that was not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown input `${{{name}}}` in its prompt (inputs: {})", known.join(", "))]
pub struct MissingInput {
    pub name: String,
    pub known: Vec<String>,
}

/// The text with `${name}` replaced; other uses of `${` are left unchanged.
pub fn fill(text: &str, inputs: &JsonObject) -> Result<String, MissingInput> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let named = after.split_once('}').filter(|(name, _)| is_name(name));
        let Some((name, tail)) = named else {
            result.push_str("${");
            rest = after;
            continue;
        };
        let value = inputs
            .get(name)
            .ok_or_else(|| MissingInput { name: name.to_owned(), known: inputs.keys().cloned().collect() })?;
        match value {
            Value::String(text) => result.push_str(text),
            other => result.push_str(&other.to_string()),
        }
        rest = tail;
    }
    result.push_str(rest);
    Ok(result)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_filled_in_and_a_missing_one_is_an_error() {
        let inputs = json!({"a": "x ${b}", "n": 3, "list": ["p"]});
        let inputs = inputs.as_object().unwrap();
        assert_eq!(
            fill("${a}-${n} ${list} ${not a name} $", inputs).unwrap(),
            "x ${b}-3 [\"p\"] ${not a name} $"
        );
        let missing = fill("say ${who}", inputs).unwrap_err();
        assert_eq!(missing.name, "who");
        assert!(missing.to_string().contains("`${who}`") && missing.to_string().contains("a, n, list"));
    }
}
