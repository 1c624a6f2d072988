//! A cheap estimate of how many tokens something costs; the weights are upstream's.

use pollux_domain::JsonObject;
use pollux_domain::content::{AnswerFields, Blob, Body, Content, Part};
use pollux_domain::tool::ToolSpec;

const ASCII_TOKENS: f64 = 0.25;
const OTHER_TOKENS: f64 = 1.5;
/// Longer texts are not looked at character by character.
const EXACT_LIMIT: usize = 100_000;
const IMAGE_TOKENS: u64 = 3_000;
const PDF_TOKENS: u64 = 25_800;

/// Tokens of a text.
pub(crate) fn of_text(text: &str) -> u64 {
    if text.len() > EXACT_LIMIT {
        return (text.len() / 4) as u64;
    }
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.chars().count() - ascii;
    (ascii as f64 * ASCII_TOKENS + other as f64 * OTHER_TOKENS) as u64
}

/// Tokens of a turn.
pub(crate) fn of_content(content: &Content) -> u64 {
    content.parts.iter().map(of_part).sum()
}

/// Tokens of a part.
pub(crate) fn of_part(part: &Part) -> u64 {
    match &part.body {
        Body::Text(text) | Body::Reasoning { text, .. } => of_text(text),
        Body::InlineData(blob) => of_blob(blob),
        Body::Response(response) => {
            ((response.name.len() + answer_len(&response.response)) / 4) as u64
                + response.parts.iter().map(of_part).sum::<u64>()
        }
        Body::Call(call) => ((call.name.len() + fields_len(&call.args)) / 4) as u64,
        Body::FileData { uri, .. } => (uri.len() / 4) as u64,
        Body::Other(fields) => (fields.iter().map(|(k, v)| k.len() + json_len(v)).sum::<usize>() / 4) as u64,
    }
}

/// Tokens of a tool's declaration.
pub(crate) fn of_spec(spec: &ToolSpec) -> u64 {
    ((spec.name.len() + spec.description.len() + json_len(&spec.parameters)) / 4) as u64
}

fn of_blob(blob: &Blob) -> u64 {
    if blob.mime_type == "application/pdf" { PDF_TOKENS } else { IMAGE_TOKENS }
}

/// The same whether the answer was read or is still as it was stored.
fn answer_len(answer: &AnswerFields) -> usize {
    match answer.as_stored() {
        Some(text) => text.key.len() + 6 + text.length + 2,
        None => fields_len(answer),
    }
}

fn fields_len(fields: &JsonObject) -> usize {
    fields.iter().map(|(key, value)| key.len() + 6 + json_len(value)).sum()
}

/// The length of a value's JSON without building it; strings count as they are.
fn json_len(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len() + 2,
        serde_json::Value::Array(items) => items.iter().map(|item| json_len(item) + 1).sum::<usize>() + 2,
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + 4 + json_len(value)).sum::<usize>() + 2
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) => 5,
        serde_json::Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_cheap_and_other_scripts_are_dear() {
        assert_eq!(of_text("abcdefgh"), 2);
        assert_eq!(of_text("日本"), 3);
        assert_eq!(of_text(&"x".repeat(200_000)), 50_000);
    }

    #[test]
    fn an_answer_costs_the_same_whether_it_was_read_or_not() {
        for text in ["", "a\"\\\n\u{1}é", &"\tx = 1;\n".repeat(999)] {
            let json = std::sync::Arc::new(serde_json::json!(text).to_string());
            let (stored, _) = AnswerFields::from_stored("output", &json, 0).unwrap();
            assert_eq!(answer_len(&stored), fields_len(&stored), "{json}");
        }
    }
}
