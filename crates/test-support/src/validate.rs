//! Validates a request, more strictly than the API does.

use std::collections::HashSet;

use serde_json::Value;

const TOP_LEVEL: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "generationConfig",
];

/// Checks a generating request; on failure every broken rule is named.
pub fn validate_request(body: &Value) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    let Some(fields) = body.as_object() else { return Err(vec!["the body is not an object".into()]) };
    for key in fields.keys().filter(|key| !TOP_LEVEL.contains(&key.as_str())) {
        problems.push(format!("unknown top-level key `{key}`"));
    }
    let turns = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    check_roles(turns, &mut problems);
    for (index, turn) in turns.iter().enumerate() {
        check_parts(index, turn, &mut problems);
    }
    check_calls(turns, &mut problems);
    check_signatures(turns, &mut problems);
    check_tools(&body["tools"], &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn parts(turn: &Value) -> &[Value] {
    turn["parts"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn fields<'a>(turn: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    parts(turn).iter().filter_map(move |part| part.get(kind))
}

fn check_roles(turns: &[Value], problems: &mut Vec<String>) {
    if turns.is_empty() {
        problems.push("no contents".into());
    }
    for (index, turn) in turns.iter().enumerate() {
        let expected = if index % 2 == 0 { "user" } else { "model" };
        if turn["role"] != expected {
            problems.push(format!("contents[{index}] has role {}, expected `{expected}`", turn["role"]));
        }
    }
    if turns.len().is_multiple_of(2) && !turns.is_empty() {
        problems.push("the last turn is not the user's".into());
    }
}

fn check_parts(index: usize, turn: &Value, problems: &mut Vec<String>) {
    if parts(turn).is_empty() {
        problems.push(format!("contents[{index}] has no parts"));
    }
    for part in parts(turn) {
        if part.as_object().is_none_or(serde_json::Map::is_empty) {
            problems.push(format!("contents[{index}] has a part that is no object or empty"));
        }
        if part["thought"] == true {
            problems.push(format!("contents[{index}] sends a thought back"));
        }
        if part["text"] == "" && part.as_object().is_some_and(|part| part.len() == 1) {
            problems.push(format!("contents[{index}] has an empty text"));
        }
        if part.get("functionCall").is_some() && turn["role"] != "model" {
            problems.push(format!("contents[{index}] has a call in a user turn"));
        }
        if part.get("functionResponse").is_some() && turn["role"] != "user" {
            problems.push(format!("contents[{index}] has a response in a model turn"));
        }
    }
}

/// Calls and the responses of the following turn must be the same list.
fn check_calls(turns: &[Value], problems: &mut Vec<String>) {
    let pair = |value: &Value| (value["id"].clone(), value["name"].clone());
    for (index, turn) in turns.iter().enumerate() {
        for field in fields(turn, "functionCall").chain(fields(turn, "functionResponse")) {
            let (id, name) =
                (field["id"].as_str().unwrap_or_default(), field["name"].as_str().unwrap_or_default());
            if id.is_empty() || name.is_empty() {
                problems.push(format!("contents[{index}] has a call or response without id or name"));
            } else if id.starts_with(&format!("{name}__")) {
                problems.push(format!("contents[{index}] sends the internal id `{id}`"));
            }
        }
        let calls: Vec<_> = fields(turn, "functionCall").map(pair).collect();
        let next = turns.get(index + 1);
        let answers: Vec<_> =
            next.map(|next| fields(next, "functionResponse").map(pair).collect()).unwrap_or_default();
        if calls != answers {
            problems.push(format!(
                "the calls of contents[{index}] {calls:?} are not answered one by one: {answers:?}"
            ));
        }
        for response in fields(turn, "functionResponse") {
            if !response["response"].is_object() {
                problems.push(format!("contents[{index}] has a response that is no object"));
            }
        }
    }
    if turns.first().is_some_and(|first| fields(first, "functionResponse").next().is_some()) {
        problems.push("contents[0] answers a call that was never made".into());
    }
}

fn check_signatures(turns: &[Value], problems: &mut Vec<String>) {
    let speaks = |turn: &Value| {
        turn["role"] == "user"
            && fields(turn, "text").next().is_some()
            && fields(turn, "functionResponse").next().is_none()
    };
    let start = turns.iter().rposition(speaks).map_or(0, |index| index + 1);
    for (index, turn) in turns.iter().enumerate().skip(start) {
        let first = parts(turn).iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|part| !part["thoughtSignature"].is_string()) {
            problems.push(format!("the first call of contents[{index}] has no thoughtSignature"));
        }
    }
}

fn check_tools(tools: &Value, problems: &mut Vec<String>) {
    let Some(entries) = tools.as_array() else {
        if !tools.is_null() {
            problems.push("`tools` is not an array".into());
        }
        return;
    };
    let declaring = entries.iter().filter(|entry| entry.get("functionDeclarations").is_some()).count();
    if declaring > 1 {
        problems.push(format!("{declaring} entries of `tools` declare functions, expected one"));
    }
    let mut names = HashSet::new();
    for tool in entries.iter().filter_map(|entry| entry["functionDeclarations"].as_array()).flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !names.insert(name) || name.is_empty() {
            problems.push(format!("tool name `{name}` is empty or declared twice"));
        }
        if !tool["parametersJsonSchema"].is_object() || tool.get("parameters").is_some() {
            problems.push(format!("tool `{name}` must have its schema in `parametersJsonSchema`"));
        }
        if !tool["description"].is_string() {
            problems.push(format!("tool `{name}` has no description"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "1", "name": "glob", "args": {}}, "thoughtSignature": "s"},
                    {"functionCall": {"id": "2", "name": "glob", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "1", "name": "glob", "response": {"output": "a"}}},
                    {"functionResponse": {"id": "2", "name": "glob", "response": {"output": "b"}}}]}
            ],
            "tools": [{"functionDeclarations": [
                {"name": "glob", "description": "d", "parametersJsonSchema": {"type": "object"}}]}]
        })
    }

    #[test]
    fn a_proper_tool_round_is_valid() {
        assert_eq!(validate_request(&good()), Ok(()));
    }

    #[test]
    fn every_broken_rule_is_named() {
        type Break = fn(&mut Value);
        let cases: &[(Break, &str)] = &[
            (|body| body["extra"] = json!(1), "unknown top-level key"),
            (|body| body["contents"][0]["role"] = json!("model"), "has role"),
            (|body| body["contents"][1]["parts"][0]["functionCall"]["id"] = json!("9"), "not answered"),
            (
                |body| body["contents"][2]["parts"][0]["functionResponse"]["name"] = json!("ls"),
                "not answered",
            ),
            (|body| body["contents"][1]["parts"][0]["functionCall"]["id"] = json!("glob__1"), "internal id"),
            (|body| body["contents"][1]["parts"][0]["thoughtSignature"] = Value::Null, "thoughtSignature"),
            (|body| body["contents"][1]["parts"][1] = json!({"text": "x", "thought": true}), "thought back"),
            (|body| body["contents"][0]["parts"] = json!([]), "no parts"),
            (|body| body["contents"][0]["parts"] = json!([{"text": ""}]), "empty text"),
            (
                |body| body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] = Value::Null,
                "parametersJsonSchema",
            ),
        ];
        for (breaks, expected) in cases {
            let mut body = good();
            breaks(&mut body);
            let problems = validate_request(&body).unwrap_err();
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
        }
    }
}
