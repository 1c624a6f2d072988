//! Applies a hook's answer to the input of the next hook.

use pollux_domain::JsonObject;
use serde_json::Value;

use crate::answer::HookAnswer;
use crate::event::Event;

/// Changes the input for the next hook.
pub(crate) fn carry(event: Event, input: &mut JsonObject, answer: &HookAnswer) {
    let key = match event {
        Event::BeforeAgent => "additionalContext",
        Event::BeforeModel => "llm_request",
        Event::BeforeTool => "tool_input",
        _ => return,
    };
    match (answer.specific.get(key), event) {
        (Some(Value::String(context)), Event::BeforeAgent) => {
            if let Some(Value::String(prompt)) = input.get_mut("prompt") {
                prompt.push_str("\n\n");
                prompt.push_str(context);
            }
        }
        (Some(Value::Object(request)), Event::BeforeModel) => {
            if let Some(Value::Object(known)) = input.get_mut("llm_request") {
                known.extend(request.clone());
            }
        }
        (Some(arguments @ Value::Object(_)), Event::BeforeTool) => {
            input.insert("tool_input".to_owned(), arguments.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_event_carries_its_own_fields() {
        let answer = HookAnswer {
            specific:
                json!({"additionalContext": "c", "llm_request": {"model": "n"}, "tool_input": {"b": 2}})
                    .as_object()
                    .unwrap()
                    .clone(),
            ..HookAnswer::default()
        };
        let before =
            json!({"prompt": "p", "llm_request": {"model": "m", "messages": []}, "tool_input": {"a": 1}});
        let after = |event| {
            let mut input = before.as_object().unwrap().clone();
            carry(event, &mut input, &answer);
            Value::Object(input)
        };
        assert_eq!(after(Event::BeforeAgent)["prompt"], "p\n\nc");
        assert_eq!(after(Event::BeforeModel)["llm_request"], json!({"model": "n", "messages": []}));
        assert_eq!(after(Event::BeforeTool)["tool_input"], json!({"b": 2}));
        assert_eq!(after(Event::AfterTool), before);
    }
}
