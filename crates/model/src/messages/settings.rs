//! How a model is to answer, in the API's words: reasoning, output, which tools.

use pollux_domain::JsonObject;
use pollux_domain::model::{
    Capabilities, Effort, GenerationSettings, ModelInfo, OutputFormat, RequestRole, ToolChoice,
};
use serde_json::{Value, json};

/// More is not asked for unless the settings do: a reply of that length takes minutes.
const USUAL_OUTPUT: u64 = 32_000;
/// For models whose limit is not known.
const GUESSED_OUTPUT: u64 = 8_192;
/// The API accepts no smaller budget.
const MIN_BUDGET: u64 = 1_024;
/// Room that reasoning leaves for the answer, where the limits allow it.
const ANSWER_ROOM: u64 = 4_096;

/// What reasoning depends on.
pub(super) struct Situation {
    pub(super) role: RequestRole,
    pub(super) first_party: bool,
    /// The model is in the middle of its calls, and whether it reasoned before them.
    pub(super) active_loop: Option<bool>,
}

/// `max_tokens`.
pub(super) fn max_tokens(settings: &GenerationSettings, info: &ModelInfo) -> u64 {
    let limit = info.max_output.unwrap_or(GUESSED_OUTPUT);
    match settings.max_output.value() {
        Some(wanted) => info.max_output.map_or(*wanted, |limit| limit.min(*wanted)).max(1),
        None => limit.min(USUAL_OUTPUT),
    }
}

/// Writes `thinking` and the effort. Says whether the model reasons.
pub(super) fn reasoning(
    settings: &GenerationSettings,
    info: &ModelInfo,
    situation: &Situation,
    body: &mut JsonObject,
) -> bool {
    let caps = &info.caps;
    if !caps.reasoning {
        return false;
    }
    let wanted = settings.effort.value().copied();
    let mut on = match wanted {
        Some(effort) => effort != Effort::None,
        None => matches!(situation.role, RequestRole::Main | RequestRole::Subagent),
    };
    // A chain of calls ends with the setting that it began with.
    on |= situation.active_loop == Some(true);
    // A model that is forced to call cannot reason first.
    on &= !is_forced(settings);
    if caps.efforts.is_empty() {
        return budget(wanted, on, situation, body);
    }
    if let Some(effort) = wanted.filter(|_| on).and_then(|effort| level(effort, &caps.efforts)) {
        output_config(body, "effort", json!(effort.as_str()));
    }
    if on {
        body.insert("thinking".into(), displayed(json!({"type": "adaptive"}), situation, caps));
    } else if caps.efforts.contains(&Effort::None) {
        body.insert("thinking".into(), json!({"type": "disabled"}));
    }
    on
}

/// Older models reason within a number of tokens.
fn budget(wanted: Option<Effort>, on: bool, situation: &Situation, body: &mut JsonObject) -> bool {
    // Such a model refuses a chain of calls that does not begin with its reasoning.
    if !on || situation.active_loop == Some(false) {
        return false;
    }
    let most = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(GUESSED_OUTPUT);
    let wish = match wanted {
        Some(Effort::None | Effort::Minimal) => MIN_BUDGET,
        Some(Effort::Low) => 2_048,
        Some(Effort::Medium) | None => 8_192,
        Some(Effort::High) => 16_384,
        Some(Effort::XHigh | Effort::Max) => 24_576,
    };
    let budget = wish.min(most.saturating_sub(ANSWER_ROOM)).max(MIN_BUDGET);
    if budget >= most {
        return false;
    }
    let thinking = json!({"type": "enabled", "budget_tokens": budget});
    body.insert("thinking".into(), displayed(thinking, situation, &Capabilities::default()));
    true
}

/// Anthropic's own server is asked for summaries, which newer models leave out otherwise, and to drop reasoning that
/// no longer fits its beginning instead of refusing the request.
fn displayed(mut thinking: Value, situation: &Situation, caps: &Capabilities) -> Value {
    if situation.first_party {
        thinking["display"] = json!("summarized");
        if caps.sealed_prefix {
            thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
        }
    }
    thinking
}

fn level(effort: Effort, known: &[Effort]) -> Option<Effort> {
    let levels: Vec<Effort> = known.iter().copied().filter(|level| *level != Effort::None).collect();
    effort.nearest(&levels)
}

fn is_forced(settings: &GenerationSettings) -> bool {
    matches!(
        settings.tool_choice.value(),
        Some(ToolChoice::Required | ToolChoice::Only(_) | ToolChoice::Allowed { required: true, .. })
    )
}

fn output_config(body: &mut JsonObject, key: &str, value: Value) {
    let config = body.entry("output_config").or_insert_with(|| json!({}));
    config[key] = value;
}

/// Writes the form of the reply's text; what a model without that ability is told instead.
pub(super) fn output(
    settings: &GenerationSettings,
    caps: &Capabilities,
    body: &mut JsonObject,
) -> Option<String> {
    let Some(OutputFormat::Json { schema, .. }) = settings.output.value() else { return None };
    match schema {
        Some(schema) if caps.structured => {
            output_config(body, "format", json!({"type": "json_schema", "schema": closed(schema)}));
            None
        }
        Some(schema) => Some(format!("Answer with JSON only, of this schema:\n{schema}")),
        None => Some("Answer with JSON only.".to_owned()),
    }
}

/// The API wants every object to say that it has no other properties.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut fields: JsonObject =
                fields.iter().map(|(key, value)| (key.clone(), closed(value))).collect();
            if fields.get("type").and_then(Value::as_str) == Some("object") {
                fields.insert("additionalProperties".into(), json!(false));
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

/// `tool_choice`; `None` where the model may choose as it likes anyway.
pub(super) fn tool_choice(
    settings: &GenerationSettings,
    caps: &Capabilities,
    wire_name: impl Fn(&str) -> String,
) -> Option<Value> {
    if !caps.tool_choice {
        return None;
    }
    let one_at_a_time = settings.parallel_calls.value() == Some(&false);
    let mut choice = match settings.tool_choice.value() {
        Some(ToolChoice::None) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Required | ToolChoice::Allowed { required: true, .. }) => json!({"type": "any"}),
        Some(ToolChoice::Only(name)) => json!({"type": "tool", "name": wire_name(name)}),
        Some(ToolChoice::Auto | ToolChoice::Allowed { required: false, .. }) | None if one_at_a_time => {
            json!({"type": "auto"})
        }
        Some(ToolChoice::Auto | ToolChoice::Allowed { required: false, .. }) | None => return None,
    };
    if one_at_a_time {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    Some(choice)
}

/// Writes how the next token is picked. Anthropic's own server refuses every one of these, and a model that reasons
/// refuses most.
pub(super) fn sampling(settings: &GenerationSettings, allowed: bool, body: &mut JsonObject) {
    let sampling = &settings.sampling;
    if let Some(stop) = sampling.stop.value() {
        let stop: Vec<&String> = stop.iter().filter(|text| !text.trim().is_empty()).collect();
        if !stop.is_empty() {
            body.insert("stop_sequences".into(), json!(stop));
        }
    }
    if !allowed {
        return;
    }
    let numbers =
        [("temperature", &sampling.temperature), ("top_p", &sampling.top_p), ("top_k", &sampling.top_k)];
    for (key, number) in numbers {
        if let Some(number) = number.value() {
            body.insert(key.into(), json!(number));
        }
    }
}
