//! What a reply cost, in this dialect's words.

use pollux_domain::model::{MicroUsd, Usage};
use serde_json::Value;

use crate::shared::count::tokens;

/// Reads `usage`; `None` for anything but an object.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let fields = value.as_object()?;
    let count = |key: &str| fields.get(key).map(number);
    let detail = |group: &str, key: &str| fields.get(group).and_then(|group| group.get(key)).map(number);
    let input = count("prompt_tokens").unwrap_or(0);
    let completion = count("completion_tokens").unwrap_or(0);
    let reasoning = detail("completion_tokens_details", "reasoning_tokens").unwrap_or(0).min(completion);
    let output = completion - reasoning;
    let cached = detail("prompt_tokens_details", "cached_tokens");
    let cached = cached.or_else(|| count("prompt_cache_hit_tokens")).unwrap_or(0).min(input);
    let written = detail("prompt_tokens_details", "cache_write_tokens").unwrap_or(0);
    Some(Usage {
        input,
        output,
        cached,
        cache_write_short: written.min(input - cached),
        reasoning,
        total: input.saturating_add(completion),
        cost_reported: fields.get("cost").and_then(Value::as_f64).and_then(micro_usd),
        ..Usage::default()
    })
}

fn number(value: &Value) -> u64 {
    tokens(value).unwrap_or(0)
}

fn micro_usd(dollars: f64) -> Option<MicroUsd> {
    let micro = dollars * 1e6;
    (0.0..1e15).contains(&micro).then(|| MicroUsd(micro.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_those_of_the_port() {
        let usage = read(&json!({
            "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 10}, "cost": 0.00125
        }));
        let expected = Usage {
            input: 100,
            output: 20,
            cached: 60,
            cache_write_short: 20,
            reasoning: 10,
            total: 130,
            cost_reported: Some(MicroUsd(1250)),
            ..Usage::default()
        };
        assert_eq!(usage, Some(expected));
        let deepseek = read(&json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4})).unwrap();
        assert_eq!((deepseek.input, deepseek.cached, deepseek.total), (9, 4, 9));
    }

    #[test]
    fn nonsense_counts_nothing() {
        let usage = read(&json!({
            "prompt_tokens": -5, "completion_tokens": "7", "cost": -1,
            "prompt_tokens_details": null, "completion_tokens_details": {"reasoning_tokens": 900}
        }));
        assert_eq!(usage, Some(Usage { reasoning: 7, total: 7, ..Usage::default() }));
        assert_eq!(read(&json!(null)), None);
        assert_eq!(read(&json!({"prompt_tokens": "x", "completion_tokens": 1e300})), Some(Usage::default()));
    }
}
