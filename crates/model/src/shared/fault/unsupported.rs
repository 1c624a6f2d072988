//! Parameters that a server does not know.

use super::Fault;

/// Parameters that can be left out or sent under another name.
const KNOWN: &[&str] = &[
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning_content",
    "reasoning_details",
    "reasoning_effort",
    "response_format",
    "stream_options",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "store",
    "strict",
    "seed",
    "stop",
    "reasoning",
    "include",
    "truncation",
    "thinking",
    "output_config",
    "metadata",
];

const WORDS: &[&str] =
    &["unsupported_parameter", "unknown_parameter", "unsupported_value", "extra_forbidden"];

/// In lower case.
const TEXTS: &[&str] = &[
    "unsupported",
    "not supported",
    "does not support",
    "unrecognized",
    "unknown",
    "not permitted",
    "unexpected",
    "not allowed",
    "deprecated",
];

/// The parameter that an error names; `lower` is its message in lower case.
pub(super) fn read(fault: &Fault, lower: &str) -> Option<String> {
    if !(fault.is_any(WORDS) || TEXTS.iter().any(|text| lower.contains(text))) {
        return None;
    }
    let named = fault.param.as_deref().and_then(known_in);
    named.or_else(|| known_in(lower)).map(str::to_owned)
}

/// The first known parameter in a text, or the last of a path such as `tools[0].function.strict`.
fn known_in(text: &str) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = text.split(|c: char| !is_word(c));
    let known = |word: &str| KNOWN.iter().find(|known| **known == word).copied();
    if text.contains(char::is_whitespace) { words.find_map(known) } else { words.rev().find_map(known) }
}
