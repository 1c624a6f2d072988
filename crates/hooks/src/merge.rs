//! Combines several answers into one.
//!
//! The strictest decision of all sources wins, in any order. Upstream lets a later `allow` for a model event
//! override an earlier `deny`; here it does not.

use std::collections::BTreeSet;

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use crate::answer::{Decision, HookAnswer};
use crate::event::Event;

/// Combines answers, given in the order of the hooks.
pub(crate) fn merge(event: Event, answers: &[&HookAnswer]) -> HookAnswer {
    let decision = answers.iter().map(|answer| answer.decision).max().unwrap_or_default();
    let stop = answers.iter().any(|answer| answer.stop);
    // Only the hooks that caused the decision explain it.
    let deciding = answers.iter().filter(|answer| answer.decision == decision);
    let explains = |answer: &HookAnswer| match (stop, decision) {
        (true, _) => answer.stop,
        (false, Decision::Ask | Decision::Deny) => answer.decision == decision,
        (false, Decision::None | Decision::Allow) => true,
    };
    let explaining = answers.iter().filter(|answer| explains(answer));
    let mut merged = HookAnswer {
        stop,
        stop_reason: joined(answers.iter().filter(|answer| answer.stop).map(|answer| &answer.stop_reason)),
        decision,
        reason: joined(deciding.map(|answer| &answer.reason)),
        system_message: joined(explaining.map(|answer| &answer.system_message)),
        suppress_output: answers.iter().any(|answer| answer.suppress_output),
        specific: JsonObject::new(),
        chose_foreign_model: false,
    };
    if merged.stop && merged.stop_reason.is_none() {
        let stopping = answers.iter().filter(|answer| answer.stop);
        merged.stop_reason = joined(stopping.map(|answer| &answer.reason));
    }
    for answer in answers {
        for (key, value) in &answer.specific {
            add(&mut merged.specific, key, value);
        }
    }
    if event == Event::BeforeToolSelection {
        let configs = answers.iter().filter_map(|answer| answer.specific.get("toolConfig"));
        if let Some(config) = tool_config(configs) {
            merged.specific.insert("toolConfig".to_owned(), config);
        }
    }
    merged
}

fn joined<'a>(texts: impl Iterator<Item = &'a Option<String>>) -> Option<String> {
    let mut said: Vec<&str> = Vec::new();
    for text in texts.filter_map(Option::as_deref).filter(|text| !text.is_empty()) {
        // A hook that runs twice gives the same answer twice.
        if !said.contains(&text) {
            said.push(text);
        }
    }
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Merges one key of `hookSpecificOutput`; the last one wins unless values accumulate.
fn add(into: &mut JsonObject, key: &str, value: &Value) {
    let merged = match (key, into.get_mut(key), value) {
        ("additionalContext", Some(Value::String(known)), Value::String(more)) => {
            known.push('\n');
            known.push_str(more);
            return;
        }
        ("llm_request", Some(Value::Object(known)), Value::Object(more)) => {
            known.extend(more.clone());
            return;
        }
        ("clearContext", Some(Value::Bool(true)), _) => return,
        (_, _, value) => value.clone(),
    };
    into.insert(key.to_owned(), merged);
}

/// `none` if any hook says so, else `any` if any does; the union of all names.
fn tool_config<'a>(configs: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let mut strictest = None;
    let mut names = BTreeSet::new();
    for config in configs.filter(|config| config.is_object()) {
        let mode = match config.get("mode").and_then(Value::as_str) {
            Some(word) if word.eq_ignore_ascii_case("none") => 2,
            Some(word) if word.eq_ignore_ascii_case("any") => 1,
            Some(_) | None => 0,
        };
        strictest = strictest.max(Some(mode));
        let listed = config.get("allowedFunctionNames").and_then(Value::as_array);
        names.extend(listed.into_iter().flatten().filter_map(Value::as_str));
    }
    Some(match strictest? {
        2 => json!({"mode": "NONE", "allowedFunctionNames": []}),
        1 => json!({"mode": "ANY", "allowedFunctionNames": names}),
        _ => json!({"mode": "AUTO", "allowedFunctionNames": names}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(decision: Decision, reason: &str) -> HookAnswer {
        HookAnswer {
            decision,
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            ..HookAnswer::default()
        }
    }

    fn specific(value: Value) -> HookAnswer {
        HookAnswer { specific: value.as_object().unwrap().clone(), ..HookAnswer::default() }
    }

    #[test]
    fn the_strictest_decision_wins_in_every_order_and_for_every_event() {
        use Decision::{Allow, Ask, Deny, None as Nothing};
        let all = [Nothing, Allow, Ask, Deny];
        for event in Event::ALL {
            for one in all {
                for two in all {
                    for three in all {
                        let answers = [one, two, three].map(|decision| answer(decision, ""));
                        let merged = merge(event, &answers.each_ref());
                        assert_eq!(merged.decision, one.max(two).max(three), "{event} {answers:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_hook_that_allows_does_not_explain_a_block() {
        let fine =
            HookAnswer { system_message: Some("lint is fine".to_owned()), ..answer(Decision::Allow, "") };
        let deny = answer(Decision::Deny, "not on production");
        let merged = merge(Event::BeforeAgent, &[&fine, &deny]);
        assert_eq!((merged.system_message, merged.reason.as_deref()), (None, Some("not on production")));
        assert_eq!(merge(Event::BeforeAgent, &[&fine]).system_message.as_deref(), Some("lint is fine"));
    }

    #[test]
    fn only_the_reasons_of_deciding_hooks_are_given() {
        let answers = [
            answer(Decision::Deny, "first"),
            answer(Decision::Allow, "fine"),
            answer(Decision::Deny, "second"),
        ];
        assert_eq!(merge(Event::BeforeTool, &answers.each_ref()).reason.as_deref(), Some("first\nsecond"));
        let stop = HookAnswer { stop: true, ..answer(Decision::None, "enough") };
        let merged = merge(Event::AfterTool, &[&answers[1], &stop]);
        assert!(merged.stop);
        assert_eq!(merged.stop_reason.as_deref(), Some("enough"));
        assert_eq!(merge(Event::AfterTool, &[]), HookAnswer::default());
        let twice = merge(Event::AfterTool, &[&answers[0], &answers[0]]);
        assert_eq!(twice.reason.as_deref(), Some("first"));
    }

    #[test]
    fn specific_outputs_accumulate_or_the_last_one_wins() {
        let one = specific(json!({"additionalContext": "a", "clearContext": true, "tool_input": {"x": 1},
            "llm_request": {"model": "m", "config": {}}}));
        let two = specific(json!({"additionalContext": "b", "clearContext": false, "tool_input": {"y": 2},
            "llm_request": {"config": {"topK": 1}}}));
        let merged = merge(Event::BeforeModel, &[&one, &two]).specific;
        assert_eq!(
            Value::Object(merged),
            json!({"additionalContext": "a\nb", "clearContext": true, "tool_input": {"y": 2},
                "llm_request": {"model": "m", "config": {"topK": 1}}})
        );
    }

    #[test]
    fn tool_filters_follow_the_strictest_mode() {
        let config = |mode: &str, names: &[&str]| {
            specific(json!({"toolConfig": {"mode": mode, "allowedFunctionNames": names}}))
        };
        let merged = |answers: &[&HookAnswer]| {
            merge(Event::BeforeToolSelection, answers).specific["toolConfig"].clone()
        };
        let (auto, any, none) = (config("AUTO", &["b"]), config("any", &["c", "a"]), config("NONE", &["a"]));
        assert_eq!(merged(&[&any, &auto]), json!({"mode": "ANY", "allowedFunctionNames": ["a", "b", "c"]}));
        assert_eq!(merged(&[&none, &any]), json!({"mode": "NONE", "allowedFunctionNames": []}));
        assert!(merge(Event::BeforeToolSelection, &[&specific(json!({}))]).specific.is_empty());
    }
}
