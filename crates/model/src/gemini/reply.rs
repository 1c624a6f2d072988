//! Replies of the API as the program sees them, and back.

use pollux_domain::JsonObject;
use pollux_domain::content::Part;
use pollux_domain::model::{Citation, Finish, ReplyChunk, Usage};
use serde_json::{Value, json};

use super::{error, finish, grounding};
use crate::http::Failure;
use crate::shared::count::tokens;

/// Reads one response object. An `error` object in its place is the API's error.
pub(crate) fn read(value: Value) -> Result<ReplyChunk, Failure> {
    if let Some(error) = error::in_body(&value) {
        return Err(error);
    }
    Ok(chunk(value))
}

fn chunk(mut value: Value) -> ReplyChunk {
    let usage = value.get("usageMetadata").and_then(usage);
    let model_version = value.get("modelVersion").and_then(Value::as_str).map(str::to_owned);
    let blocked = value
        .get("promptFeedback")
        .and_then(|feedback| feedback.get("blockReason"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let candidate = value.get_mut("candidates").and_then(|candidates| candidates.get_mut(0)).map(Value::take);
    let Some(mut candidate) = candidate else {
        return ReplyChunk { usage, model_version, blocked, ..ReplyChunk::default() };
    };
    ReplyChunk {
        parts: parts(&mut candidate),
        finish: ending(&candidate),
        usage,
        origin: None,
        model_version,
        blocked,
        citations: citations(&candidate),
        grounding: grounding::read(&candidate).map(Box::new),
    }
}

fn parts(candidate: &mut Value) -> Vec<Part> {
    match candidate.get_mut("content").and_then(|content| content.get_mut("parts")).map(Value::take) {
        Some(Value::Array(parts)) => {
            joined(parts).into_iter().filter_map(|part| Part::from_json(part).ok()).collect()
        }
        _ => Vec::new(),
    }
}

/// Plain texts that stand side by side in one chunk are one text, as upstream shows them.
fn joined(parts: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts {
        match (joined.last_mut().and_then(plain_text), part) {
            (Some(text), Value::Object(fields)) if fields.len() == 1 => match fields.get("text") {
                Some(Value::String(more)) => text.push_str(more),
                _ => joined.push(Value::Object(fields)),
            },
            (_, part) => joined.push(part),
        }
    }
    joined
}

/// The text of a part that has nothing else.
fn plain_text(part: &mut Value) -> Option<&mut String> {
    match part.as_object_mut().filter(|fields| fields.len() == 1)?.get_mut("text")? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn ending(candidate: &Value) -> Option<Finish> {
    let reason = candidate.get("finishReason")?.as_str()?;
    let message = candidate.get("finishMessage").and_then(Value::as_str).map(str::to_owned);
    Some(Finish { reason: finish::read(reason), message })
}

fn usage(value: &Value) -> Option<Usage> {
    let fields = value.as_object()?;
    let count = |key: &str| fields.get(key).and_then(tokens).unwrap_or(0);
    Some(Usage {
        input: count("promptTokenCount"),
        output: count("candidatesTokenCount"),
        cached: count("cachedContentTokenCount"),
        reasoning: count("thoughtsTokenCount"),
        tool_input: count("toolUsePromptTokenCount"),
        total: count("totalTokenCount"),
        ..Usage::default()
    })
}

fn citations(candidate: &Value) -> Vec<Citation> {
    let listed = candidate
        .get("citationMetadata")
        .and_then(|metadata| metadata.get("citations").or_else(|| metadata.get("citationSources")))
        .and_then(Value::as_array);
    let text = |citation: &Value, key: &str| citation.get(key).and_then(Value::as_str).map(str::to_owned);
    listed
        .into_iter()
        .flatten()
        .filter_map(|citation| Some(Citation { title: text(citation, "title"), uri: text(citation, "uri")? }))
        .collect()
}

/// The answer to `countTokens`.
pub(crate) fn total_tokens(value: &Value) -> Option<u64> {
    value.get("totalTokens").and_then(tokens)
}

/// The object that reads back as this chunk, with only what a recording keeps.
pub(crate) fn to_json(chunk: &ReplyChunk) -> Value {
    let mut fields = JsonObject::new();
    let mut candidate = JsonObject::new();
    if !chunk.parts.is_empty() {
        let parts: Vec<Value> = chunk.parts.iter().map(Part::to_json).collect();
        candidate.insert("content".into(), json!({"parts": parts, "role": "model"}));
    }
    if let Some(finish) = &chunk.finish {
        candidate.insert("finishReason".into(), json!(finish.reason.as_str()));
        if let Some(message) = &finish.message {
            candidate.insert("finishMessage".into(), json!(message));
        }
    }
    if !chunk.citations.is_empty() {
        let citations: Vec<Value> = chunk
            .citations
            .iter()
            .map(|citation| json!({"uri": citation.uri, "title": citation.title}))
            .collect();
        candidate.insert("citationMetadata".into(), json!({"citations": citations}));
    }
    if let Some(info) = &chunk.grounding {
        grounding::write(info, &mut candidate);
    }
    if !candidate.is_empty() {
        candidate.insert("index".into(), json!(0));
        fields.insert("candidates".into(), json!([candidate]));
    }
    if let Some(usage) = chunk.usage {
        fields.insert("usageMetadata".into(), usage_json(usage));
    }
    Value::Object(fields)
}

fn usage_json(usage: Usage) -> Value {
    let counts = [
        ("promptTokenCount", usage.input),
        ("candidatesTokenCount", usage.output),
        ("cachedContentTokenCount", usage.cached),
        ("thoughtsTokenCount", usage.reasoning),
        ("toolUsePromptTokenCount", usage.tool_input),
        ("totalTokenCount", usage.total),
    ];
    let kept = counts.into_iter().filter(|(key, count)| *count > 0 || *key == "totalTokenCount");
    Value::Object(kept.map(|(key, count)| (key.to_owned(), json!(count))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::Body;
    use pollux_domain::model::FinishReason;

    #[test]
    fn a_full_chunk_is_read_and_written_back() {
        let value = json!({
            "candidates": [{
                "content": {"parts": [{"text": "a"}, {"text": "b", "thought": true},
                    {"functionCall": {"id": "1", "name": "ls", "args": {"z": 1, "a": 2}}, "thoughtSignature": "s"}],
                    "role": "model"},
                "finishReason": "STOP", "finishMessage": "done",
                "citationMetadata": {"citations": [{"uri": "https://x", "title": "X"}, {"title": "no uri"}]},
                "groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://g"}}]}
            }],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "cachedContentTokenCount": 1,
                "thoughtsTokenCount": 2, "toolUsePromptTokenCount": 3, "totalTokenCount": 18},
            "modelVersion": "gemini-x"
        });
        let chunk = read(value).unwrap();
        assert_eq!(chunk.parts.len(), 3);
        assert_eq!(chunk.parts[1].body, Body::Reasoning { text: "b".into(), summary: true, seal: None });
        assert_eq!(chunk.finish.as_ref().unwrap().reason, FinishReason::Stop);
        assert_eq!(
            chunk.usage,
            Some(Usage {
                input: 5,
                output: 7,
                cached: 1,
                reasoning: 2,
                tool_input: 3,
                total: 18,
                ..Usage::default()
            })
        );
        assert_eq!(chunk.citations, [Citation { title: Some("X".into()), uri: "https://x".into() }]);
        assert_eq!(chunk.grounding.as_ref().unwrap().sources[0].uri.as_deref(), Some("https://g"));
        let recorded = read(to_json(&chunk)).unwrap();
        assert_eq!(recorded, ReplyChunk { model_version: None, ..chunk });
    }

    #[test]
    fn texts_side_by_side_are_one_and_others_keep_apart() {
        let parts =
            |parts: Value| read(json!({"candidates": [{"content": {"parts": parts}}]})).unwrap().parts;
        let one = parts(json!([{"text": "hello "}, {"text": "world"}]));
        assert_eq!(one, [Part::text("hello world")]);
        let apart = json!([
            {"text": "a"}, {"text": "b", "thought": true}, {"text": "c"}, {"text": "d", "thoughtSignature": "s"},
            {"functionCall": {"name": "ls", "args": {}}}, {"text": "e"}
        ]);
        assert_eq!(parts(apart).len(), 6);
    }

    #[test]
    fn odd_chunks_are_read_as_far_as_they_go() {
        let empty = ReplyChunk::default();
        let cases = [
            json!({}),
            json!(null),
            json!([]),
            json!({"candidates": []}),
            json!({"candidates": [{}]}),
            json!({"candidates": [null]}),
            json!({"candidates": "x"}),
            json!({"candidates": [{"content": {}}]}),
            json!({"candidates": [{"content": {"parts": [3, null]}}]}),
            json!({"usageMetadata": null}),
        ];
        for case in cases {
            assert_eq!(read(case.clone()).unwrap(), empty, "{case}");
        }
        let metadata = read(json!({"usageMetadata": {"totalTokenCount": "9"}, "modelVersion": "m"})).unwrap();
        assert_eq!(metadata.usage.unwrap().total, 9);
        let blocked = read(json!({"promptFeedback": {"blockReason": "SAFETY"}})).unwrap();
        assert_eq!(blocked.blocked.as_deref(), Some("SAFETY"));
        let named = read(json!({"candidates": [{"finishReason": "NO_IMAGE"}]})).unwrap();
        assert_eq!(named.finish.unwrap().reason, FinishReason::Named("NO_IMAGE".into()));
    }

    #[test]
    fn an_error_in_place_of_a_chunk_is_the_apis_error() {
        let error = read(json!({"error": {"code": 503, "message": "overloaded"}})).unwrap_err();
        assert_eq!(error.error.status, Some(503));
        assert!(read(json!([{"error": {"code": 400, "message": "bad"}}])).is_err());
    }
}
