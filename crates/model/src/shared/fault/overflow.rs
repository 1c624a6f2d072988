//! Requests that do not fit the context window, in the words of many servers.

use pollux_domain::model::ModelErrorKind;

use super::Fault;

const WORDS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
    "string_above_max_length",
];

/// In lower case.
const TEXTS: &[&str] = &[
    "prompt is too long",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "maximum context length",
    "maximum prompt length is",
    "reduce the length of the messages",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "context_length_exceeded",
    "context length exceeded",
    "context_length exceeded",
    "context length_exceeded",
    "context length is only",
    "configured context size is",
    "model_context_window_exceeded",
    "token limit exceeded",
];

/// Both of a pair stand in the message.
const PAIRS: &[(&str, &str)] =
    &[("input token count", "exceeds the maximum"), ("too large for model with", "maximum context length")];

/// These name limits, too, but others.
const OTHERS: &[&str] = &["rate limit", "too many requests", "throttling"];

/// The kind of error if the request was too large; `lower` is the message in lower case.
pub(super) fn read(fault: &Fault, lower: &str) -> Option<ModelErrorKind> {
    let says_other = OTHERS.iter().any(|text| lower.contains(text));
    let says_so = TEXTS.iter().any(|text| lower.contains(text))
        || PAIRS.iter().any(|(first, second)| lower.contains(first) && lower.contains(second));
    let without_words = fault.status == 413 || fault.status == 400 && fault.empty;
    if !(fault.is_any(WORDS) || without_words || says_so && !says_other) {
        return None;
    }
    let (asked, limit) = if without_words { (None, None) } else { tokens(lower) };
    Some(ModelErrorKind::ContextOverflow { asked: fault.asked.or(asked), limit: fault.limit.or(limit) })
}

/// How much was asked and what fits: of two numbers the larger one was asked, one alone is what fits.
fn tokens(message: &str) -> (Option<u64>, Option<u64>) {
    let numbers: Vec<u64> = message
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ',')))
        .filter_map(|word| word.trim_matches(',').replace(',', "").parse().ok())
        .filter(|number| *number >= 256)
        .collect();
    match *numbers.as_slice() {
        [] => (None, None),
        [limit] => (None, Some(limit)),
        [first, second, ..] if first == second => (None, Some(first)),
        [first, second, ..] => (Some(first.max(second)), Some(first.min(second))),
    }
}
