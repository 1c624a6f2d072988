//! Shortens a turn to a number of tokens, for summarising.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Content, FunctionCall, FunctionResponse, Part};
use serde_json::{Value, json};

/// What stays of a text at the least, in characters.
const LEAST: usize = 40;

/// The turn with its long texts cut and its media left out; calls and answers stay paired.
pub(super) fn content(content: &Content, tokens: u64) -> Content {
    let share = tokens / (content.parts.len().max(1) as u64);
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    Content::new(content.role, content.parts.iter().map(|part| shortened(part, share)).collect())
}

fn shortened(part: &Part, tokens: usize) -> Part {
    let body = match &part.body {
        Body::Text(text) => Body::Text(cut(text, tokens)),
        Body::Call(call) => {
            let args = fields(&call.args, tokens);
            Body::Call(FunctionCall::new(call.id.clone(), call.name.clone(), args))
        }
        Body::Response(response) => Body::Response(FunctionResponse {
            id: response.id.clone(),
            name: response.name.clone(),
            response: fields(&response.response, tokens).into(),
            parts: Vec::new(),
        }),
        Body::Reasoning { .. } | Body::InlineData(_) | Body::FileData { .. } | Body::Other(_) => {
            return Part::text("[left out]");
        }
    };
    Part { body, seal: part.seal.clone(), extra: JsonObject::new() }
}

fn fields(fields: &JsonObject, tokens: usize) -> JsonObject {
    let share = tokens / fields.len().max(1);
    let short = |value: &Value| match value {
        Value::String(text) => json!(cut(text, share)),
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            if text.len() > limit(&text, share) { json!(cut(&text, share)) } else { value.clone() }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    };
    fields.iter().map(|(key, value)| (key.clone(), short(value))).collect()
}

/// The characters that so many tokens hold.
fn limit(text: &str, tokens: usize) -> usize {
    let per_token = if text.is_ascii() { 4 } else { 1 };
    tokens.saturating_mul(per_token).max(LEAST)
}

/// Both ends of a text.
fn cut(text: &str, tokens: usize) -> String {
    let limit = limit(text, tokens);
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let end = limit / 2;
    let head: String = text.chars().take(end).collect();
    let tail: String = text.chars().skip(count - end).collect();
    format!("{head} [... {} characters ...] {tail}", count - 2 * end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_keep_their_names_and_long_values_lose_their_middle() {
        let args = json!({"path": "a.rs", "text": "x".repeat(9_000), "list": ["y".repeat(9_000)]});
        let call = FunctionCall::new(Some("1".into()), "write", args.as_object().unwrap().clone());
        let short = content(&Content::model(vec![Part::call(call)]), 300);
        let call = short.calls().next().unwrap();
        assert_eq!((call.id.as_deref(), call.name.as_str()), (Some("1"), "write"));
        assert_eq!(call.args.get("path"), Some(&json!("a.rs")));
        for key in ["text", "list"] {
            assert!(call.args.get(key).unwrap().as_str().unwrap().len() < 500, "{key}");
        }
    }
}
