//! Token counts: the server's, which grow while a reply streams, and the port's.

use pollux_domain::model::Usage;
use serde_json::Value;

use crate::shared::count::tokens;

/// The counts of one reply so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    /// Neither read from the cache nor written to it.
    input: u64,
    cache_read: u64,
    cache_written: u64,
    /// The part of `cache_written` that is kept for an hour.
    written_long: u64,
    output: u64,
    thinking: u64,
    server_tools: u64,
}

impl Counts {
    /// Takes a `usage` object: what it names replaces what was known.
    pub(super) fn update(&mut self, usage: &Value) {
        let take = |value: Option<&Value>, count: &mut u64| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                *count = number(value);
            }
        };
        take(usage.get("input_tokens"), &mut self.input);
        take(usage.get("cache_read_input_tokens"), &mut self.cache_read);
        take(usage.get("cache_creation_input_tokens"), &mut self.cache_written);
        take(usage.get("output_tokens"), &mut self.output);
        take(usage.pointer("/output_tokens_details/thinking_tokens"), &mut self.thinking);
        if let Some(created) = usage.get("cache_creation").filter(|created| created.is_object()) {
            let (mut short, mut long) = (0, 0);
            take(created.get("ephemeral_5m_input_tokens"), &mut short);
            take(created.get("ephemeral_1h_input_tokens"), &mut long);
            self.written_long = long;
            self.cache_written = self.cache_written.max(short.saturating_add(long));
        }
        if let Some(tools) = usage.get("server_tool_use").and_then(Value::as_object) {
            self.server_tools = tools.values().fold(0, |sum: u64, count| sum.saturating_add(number(count)));
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let input = self.input.saturating_add(self.cache_read).saturating_add(self.cache_written);
        let reasoning = self.thinking.min(self.output);
        Usage {
            input,
            output: self.output - reasoning,
            cached: self.cache_read,
            cache_write_short: self.cache_written.saturating_sub(self.written_long),
            cache_write_long: self.written_long,
            reasoning,
            server_tool_calls: u32::try_from(self.server_tools).unwrap_or(u32::MAX),
            total: input.saturating_add(self.output),
            ..Usage::default()
        }
    }
}

/// Anything that is no count is none.
pub(super) fn number(value: &Value) -> u64 {
    tokens(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cache_is_part_of_the_input_and_later_counts_replace_earlier_ones() {
        let mut counts = Counts::default();
        counts.update(&json!({"input_tokens": 10, "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20, "output_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5}}));
        counts.update(&json!({"output_tokens": 7, "input_tokens": null,
            "output_tokens_details": {"thinking_tokens": 3}, "server_tool_use": {"web_search_requests": 2}}));
        let expected = Usage {
            input: 130,
            output: 4,
            cached: 100,
            cache_write_short: 15,
            cache_write_long: 5,
            reasoning: 3,
            server_tool_calls: 2,
            total: 137,
            ..Usage::default()
        };
        assert_eq!(counts.usage(), expected);
        counts.update(&json!({"input_tokens": 12}));
        assert_eq!(counts.usage().input, 132);
    }

    #[test]
    fn counts_that_make_no_sense_are_zero_and_never_a_crash() {
        let mut counts = Counts::default();
        counts.update(&json!({"input_tokens": -5, "output_tokens": "x", "cache_read_input_tokens": 1.5,
            "output_tokens_details": {"thinking_tokens": u64::MAX}, "cache_creation_input_tokens": u64::MAX,
            "server_tool_use": {"a": u64::MAX, "b": 3}, "cache_creation": 3}));
        let usage = counts.usage();
        assert_eq!((usage.output, usage.reasoning, usage.input), (0, 0, 1));
        counts.update(&json!("nonsense"));
        counts.update(&json!({"output_tokens": 2}));
        assert_eq!((counts.usage().output, counts.usage().reasoning), (2, 0));
    }
}
