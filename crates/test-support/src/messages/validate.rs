//! The rules of the API for a conversation.

use std::collections::HashSet;

use serde_json::Value;

const MAX_MARKS: usize = 4;

/// What the API would refuse in a request.
pub fn validate_messages(body: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |holds: bool, problem: String| {
        if !holds {
            problems.push(problem);
        }
    };
    let messages = list(&body["messages"]);
    check(body["model"].is_string(), "model is missing".to_owned());
    check(
        messages.first().is_some_and(|first| first["role"] == "user"),
        "the first turn is not the user's".into(),
    );
    let marks = count_marks(body);
    check(marks <= MAX_MARKS, format!("{marks} cache marks"));
    let mut names = HashSet::new();
    for tool in list(&body["tools"]) {
        let name = tool["name"].as_str().unwrap_or_default();
        check(is_plain(name) && name.len() <= 128, format!("tool name {name:?}"));
        check(names.insert(name.to_owned()), format!("tool {name:?} is declared twice"));
        if tool.get("type").is_none() {
            check(tool["input_schema"]["type"] == "object", format!("schema of {name:?} is no object"));
        }
    }
    if let Some(choice) = body.get("tool_choice") {
        check(!names.is_empty(), "tool_choice without tools".into());
        let forced = choice["type"] == "any" || choice["type"] == "tool";
        let thinks = body["thinking"]["type"] == "enabled" || body["thinking"]["type"] == "adaptive";
        check(!(forced && thinks), "thinking with a forced call".into());
    }
    if let Some(budget) = body["thinking"]["budget_tokens"].as_u64() {
        let most = body["max_tokens"].as_u64().unwrap_or(0);
        check((1024..most).contains(&budget), format!("budget {budget} of max_tokens {most}"));
    }
    for block in list(&body["system"]) {
        check(has_text(block), "system holds an empty text".into());
    }
    for (turn, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let expected = if turn % 2 == 0 { "user" } else { "assistant" };
        check(role == expected, format!("turn {turn} is the {role}'s"));
        check(!list(&message["content"]).is_empty(), format!("turn {turn} is empty"));
    }
    problems.extend(blocks(messages));
    problems.extend(pairing(messages));
    problems
}

fn blocks(messages: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    let called = messages.iter().flat_map(|message| list(&message["content"]));
    let mut ids = HashSet::new();
    for block in called.filter(|block| block["type"] == "tool_use") {
        let id = block["id"].as_str().unwrap_or_default();
        if !is_plain(id) || !ids.insert(id) || !block["input"].is_object() {
            problems.push(format!("call {block}"));
        }
    }
    for (turn, message) in messages.iter().enumerate() {
        let content = list(&message["content"]);
        let is_model = message["role"] == "assistant";
        let mut others = false;
        for block in content {
            let kind = block["type"].as_str().unwrap_or_default();
            let fits = match kind {
                "text" => has_text(block),
                "image" | "document" => !is_model && block["source"]["type"].is_string(),
                "tool_result" => !is_model && !others,
                "thinking" => is_model && block["signature"].is_string() && block["thinking"].is_string(),
                "redacted_thinking" => is_model && block["data"].is_string(),
                "tool_use" | "server_tool_use" => is_model,
                _ => is_model && kind.ends_with("_tool_result"),
            };
            others |= kind != "tool_result";
            if !fits {
                problems.push(format!("turn {turn}: block {block}"));
            }
            if kind == "tool_result" && block["is_error"] == true && block["content"].is_array() {
                problems.push(format!("turn {turn}: a failure holds more than text"));
            }
            if list(&block["content"]).iter().any(|inner| inner["type"] == "text" && !has_text(inner)) {
                problems.push(format!("turn {turn}: a result holds an empty text"));
            }
        }
        if content.last().is_some_and(|last| last["type"] == "thinking") {
            problems.push(format!("turn {turn} ends with thinking"));
        }
    }
    problems
}

fn pairing(messages: &[Value]) -> Vec<String> {
    let ids = |message: Option<&Value>, kind: &str, key: &str| -> Vec<String> {
        let blocks = message.map(|message| list(&message["content"])).unwrap_or_default();
        let blocks = blocks.iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[key].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut problems = Vec::new();
    for (turn, message) in messages.iter().enumerate() {
        let mut calls = ids(Some(message), "tool_use", "id");
        let mut results = ids(messages.get(turn + 1), "tool_result", "tool_use_id");
        calls.sort();
        results.sort();
        if calls != results {
            problems.push(format!("turn {turn}: calls {calls:?}, results {results:?}"));
        }
    }
    if !ids(messages.first(), "tool_result", "tool_use_id").is_empty() {
        problems.push("results before any call".to_owned());
    }
    problems
}

/// What of a request is not the one before with more behind it. Marks for the cache do not count.
pub fn extends(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (without_marks(before), without_marks(after));
    let mut problems = Vec::new();
    for key in ["system", "tools"] {
        let (old, new) = (list(&before[key]), list(&after[key]));
        if old != new {
            problems.push(format!("`{key}` changed: {old:?} became {new:?}"));
        }
    }
    let flat = |body: &Value| -> Vec<(Value, Value)> {
        let turns = list(&body["messages"]).iter();
        turns
            .flat_map(|turn| list(&turn["content"]).iter().map(|block| (turn["role"].clone(), block.clone())))
            .collect()
    };
    let (old, new) = (flat(&before), flat(&after));
    if !new.starts_with(&old) {
        let at = old.iter().zip(&new).position(|(old, new)| old != new).unwrap_or(new.len());
        problems.push(format!("block {at} changed: {:?} became {:?}", old.get(at), new.get(at)));
    }
    problems
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "cache_control")
            .map(|(key, value)| (key.clone(), without_marks(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_marks).collect(),
        other => other.clone(),
    }
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| usize::from(key == "cache_control") + count_marks(value)).sum()
        }
        Value::Array(items) => items.iter().map(count_marks).sum(),
        _ => 0,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_text(block: &Value) -> bool {
    block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(messages: Value) -> usize {
        validate_messages(&json!({"model": "m", "messages": messages})).len()
    }

    #[test]
    fn rules_are_checked_one_by_one() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let user = |blocks: Value| json!({"role": "user", "content": blocks});
        let model = |blocks: Value| json!({"role": "assistant", "content": blocks});
        let call = json!({"type": "tool_use", "id": "a", "name": "ls", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
        let good =
            json!([user(json!([text("hi")])), model(json!([call])), user(json!([result, text("go on")]))]);
        assert_eq!(problems(good), 0);
        let bad = [
            json!([model(json!([text("hi")]))]),
            json!([user(json!([text(" ")]))]),
            json!([user(json!([text("hi")])), user(json!([text("hi")]))]),
            json!([user(json!([text("hi")])), model(json!([call])), user(json!([text("late")]))]),
            json!([user(json!([text("hi")])), model(json!([call])), user(json!([text("first"), result]))]),
            json!([user(json!([result]))]),
            json!([
                user(json!([text("hi")])),
                model(json!([{"type": "tool_use", "id": "a.b", "name": "ls", "input": {}}])),
                user(json!([{"type": "tool_result", "tool_use_id": "a.b"}]))
            ]),
        ];
        for messages in bad {
            assert!(problems(messages.clone()) > 0, "{messages}");
        }
    }

    #[test]
    fn a_conversation_that_only_grew_extends_the_one_before() {
        let body = |texts: &[&str], mark: bool| {
            let mut blocks: Vec<Value> =
                texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            if mark {
                blocks[0]["cache_control"] = json!({"type": "ephemeral"});
            }
            json!({"system": [], "messages": [{"role": "user", "content": blocks}]})
        };
        assert!(extends(&body(&["a"], true), &body(&["a", "b"], false)).is_empty());
        assert_eq!(extends(&body(&["a"], false), &body(&["b", "a"], false)).len(), 1);
        assert_eq!(extends(&body(&["a", "b"], false), &body(&["a"], false)).len(), 1);
    }
}
