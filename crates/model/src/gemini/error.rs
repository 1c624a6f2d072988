//! What the API's errors mean and whether waiting helps.

mod body;

use std::time::Duration;

use pollux_domain::model::ModelErrorKind;
use pollux_net::backoff::{Cause, please_retry_in, retry_delay};
use serde_json::Value;

use crate::http::{Failure, Verdict};
use body::Facts;

const CAPACITY_REASONS: &[&str] = &["MODEL_CAPACITY_EXHAUSTED", "MODEL_CAPACITY_EXCEEDED"];

/// Reads the body of an answer with an error status.
pub(crate) fn from_response(
    status: u16,
    reason: &str,
    body: &[u8],
    retry_after: Option<Duration>,
) -> Failure {
    let mut facts = Facts::from_body(status, reason, body);
    // A body may quote another server's code, but the one that answered decides.
    facts.code = status;
    judge(facts, retry_after)
}

/// Finds `{"error": …}` in place of a reply, also wrapped in an array.
pub(crate) fn in_body(value: &Value) -> Option<Failure> {
    Facts::from_json(value).map(|facts| judge(facts, None))
}

fn judge(facts: Facts, retry_after: Option<Duration>) -> Failure {
    let hint = wanted_delay(&facts).max(retry_after);
    let verdict = match facts.code {
        400 if is_key_problem(&facts) => Verdict::never(ModelErrorKind::Auth),
        400 => Verdict::never(overflow(&facts.message).unwrap_or(ModelErrorKind::BadRequest)),
        403 if facts.reasons().any(|reason| reason == "SERVICE_DISABLED") => Verdict {
            advice: Some(
                "\nThe key is valid, but its project does not use this API; enable it there, or use another key.",
            ),
            ..Verdict::never(ModelErrorKind::BadRequest)
        },
        429 | 499 | 503 => quota(&facts, hint),
        code => Verdict::of_status(code),
    };
    verdict.into_failure(facts.code, facts.message, hint)
}

/// `The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).`
fn overflow(message: &str) -> Option<ModelErrorKind> {
    if !message.contains("token count") || !message.contains("exceeds the maximum number of tokens") {
        return None;
    }
    let mut numbers =
        message.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    Some(ModelErrorKind::ContextOverflow { asked: numbers.next(), limit: numbers.next() })
}

/// The rows are upstream's, in its order.
fn quota(facts: &Facts, hint: Option<Duration>) -> Verdict {
    let exhausted = Verdict::never(ModelErrorKind::QuotaExhausted);
    if says_limit_zero(&facts.message) {
        return Verdict {
            advice: Some(
                "\nThis API key has no quota for the model. Enable billing for its project, \
                                       or use another model.",
            ),
            ..exhausted
        };
    }
    let quota_ids: Vec<&str> = facts.quota_ids().collect();
    let quota_named = |word: &str| quota_ids.iter().any(|id| id.contains(word));
    if quota_named("PerDay") || quota_named("Daily") {
        return Verdict {
            advice: Some("\nThe daily quota is exhausted; another model may still be available."),
            ..exhausted
        };
    }
    if is_capacity(facts) {
        let kind = if facts.code == 429 { ModelErrorKind::RateLimited } else { ModelErrorKind::Server };
        return Verdict::retry(kind, Cause::Transient);
    }
    let cloud_code = facts.domains().any(|domain| domain.ends_with("cloudcode-pa.googleapis.com"));
    let reason = |word: &str| facts.reasons().any(|reason| reason == word);
    if reason("INSUFFICIENT_G1_CREDITS_BALANCE")
        || cloud_code && (reason("QUOTA_EXHAUSTED") || reason("RATE_LIMIT_EXCEEDED") && hint.is_none())
    {
        return exhausted;
    }
    if facts.code == 503 {
        return Verdict::retry(ModelErrorKind::Server, Cause::Transient);
    }
    let per_minute =
        quota_named("PerMinute") || facts.quota_limit().is_some_and(|limit| limit.contains("PerMinute"));
    let default_delay = per_minute.then_some(Duration::from_secs(60));
    Verdict { default_delay, ..Verdict::retry(ModelErrorKind::RateLimited, Cause::Throttled) }
}

/// `limit: 0`, but not `limit: 0.5` or `limit: 05`.
fn says_limit_zero(message: &str) -> bool {
    message.split("limit: 0").skip(1).any(|rest| {
        let mut next = rest.chars();
        match next.next() {
            Some('.') => !next.next().is_some_and(|c| c.is_ascii_digit()),
            other => !other.is_some_and(|c| c.is_ascii_digit()),
        }
    })
}

fn is_capacity(facts: &Facts) -> bool {
    let message = facts.message.to_ascii_lowercase();
    facts.reasons().any(|reason| CAPACITY_REASONS.contains(&reason))
        || message.contains("exhausted your capacity")
        || message.contains("capacity exceeded")
}

/// A wrong key is answered with 400, too.
fn is_key_problem(facts: &Facts) -> bool {
    facts.reasons().any(|reason| reason == "API_KEY_INVALID") || facts.message.contains("API key not valid")
}

fn wanted_delay(facts: &Facts) -> Option<Duration> {
    facts.retry_delays().filter_map(retry_delay).max().or_else(|| please_retry_in(&facts.message))
}

#[cfg(test)]
mod tests;
