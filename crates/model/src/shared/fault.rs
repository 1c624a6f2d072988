//! What the errors of servers mean, whatever form their bodies have, and whether waiting helps.

mod body;
mod overflow;
mod unsupported;

use std::time::Duration;

use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_net::backoff::{Cause, retry_delay};
use serde_json::Value;

use crate::http::{Failure, Refusal, Retry, Verdict};
pub(crate) use body::Fault;

/// A local server that fails does so again.
const LOCAL_ATTEMPTS: u32 = 2;

const BILLING_WORDS: &[&str] = &[
    "insufficient_quota",
    "insufficient_balance",
    "billing_error",
    "billing_hard_limit_reached",
    "enforced_spend_limit_reached",
    "usage_not_included",
];
const BILLING_TEXTS: &[&str] =
    &["exceeded your current quota", "credit balance is too low", "insufficient balance", "spend limit"];
const POLICY_WORDS: &[&str] = &[
    "content_policy_violation",
    "content_filter",
    "cyber_policy",
    "bio_policy",
    "misalignment_policy_violation",
    "data_residency_mismatch",
];
const OVERLOADED_WORDS: &[&str] =
    &["overloaded_error", "server_is_overloaded", "engine_overloaded", "slow_down"];
/// Errors about reasoning that was sent back and that the server does not take for its own.
const SEAL_TEXTS: &[&str] = &[
    "`signature` in `thinking`",
    "signature in thinking block",
    "bound to a different conversation",
    "without its required 'reasoning' item",
    "encrypted content could not be verified",
];

/// Reads an answer with an error status. `local` servers run on this machine or next to it.
pub(crate) fn refused(refusal: &Refusal<'_>, local: bool) -> Failure {
    let mut fault = Fault::from_body(refusal.status, refusal.reason, refusal.body);
    // A body may quote another server's code, but the one that answered decides.
    fault.status = refusal.status;
    let mut failure = judge(fault, refusal.retry_after, local);
    match refusal.should_retry {
        Some(false) => failure.retry = Retry::Never,
        Some(true) if failure.retry == Retry::Never => {
            failure.retry = Retry::After { cause: Cause::Transient, hint: refusal.retry_after };
        }
        Some(true) | None => {}
    }
    failure
}

/// Finds an error in place of a piece of the reply.
pub(crate) fn in_reply(value: &Value, local: bool) -> Option<Failure> {
    Fault::in_reply(value).map(|fault| judge(fault, None, local))
}

/// Whether the server refuses reasoning that it was sent back.
pub(crate) fn refuses_seals(error: &ModelError) -> bool {
    let lacks_item = error.message.contains("'rs_") && error.message.contains("not found");
    lacks_item || SEAL_TEXTS.iter().any(|text| error.message.contains(text))
}

/// What kind of error it is, and what may be tried.
pub(crate) fn judge(fault: Fault, header: Option<Duration>, local: bool) -> Failure {
    let hint = header.or_else(|| try_again_in(&fault.message));
    let status = fault.status;
    let verdict = verdict(&fault);
    let loading = verdict.kind == ModelErrorKind::Loading;
    let code = fault.code.or(fault.word);
    let mut failure = verdict.into_failure(status, fault.message, hint);
    if loading {
        failure.retry = Retry::WhileLoading;
    } else if local && status >= 500 && failure.retry != Retry::Never {
        failure.retry = Retry::AtMost { cause: Cause::Transient, attempts: LOCAL_ATTEMPTS };
    }
    failure.error.details.code = code;
    failure.error.details.request_id = fault.request_id;
    failure.rejected = fault.rejected.map(String::into_boxed_str);
    failure
}

fn verdict(fault: &Fault) -> Verdict {
    let lower = fault.message.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if fault.status == 402 || fault.is_any(BILLING_WORDS) || says(BILLING_TEXTS) {
        let advice = Some(
            "\nThe account has no credit left or has reached its spending limit. Add credit or raise the \
                  limit on the provider's billing page.",
        );
        return Verdict { advice, ..Verdict::never(ModelErrorKind::Billing) };
    }
    if fault.is_any(POLICY_WORDS) {
        return Verdict::never(ModelErrorKind::PolicyBlocked);
    }
    if let Some(kind) = overflow::read(fault, &lower) {
        return Verdict::never(kind);
    }
    if fault.status == 503 && (fault.is_any(&["unavailable_error"]) || says(&["loading model", "is loading"]))
    {
        return Verdict::never(ModelErrorKind::Loading);
    }
    let overloaded = fault.status >= 500 && lower.contains("overloaded");
    if fault.status == 529 || fault.is_any(OVERLOADED_WORDS) || overloaded {
        return Verdict::retry(ModelErrorKind::Overloaded, Cause::Throttled);
    }
    if matches!(fault.status, 400 | 422)
        && let Some(param) = unsupported::read(fault, &lower)
    {
        return Verdict::never(ModelErrorKind::Unsupported { param });
    }
    Verdict::of_status(fault.status)
}

/// Finds `try again in 11.054s` or `retry in 28ms`.
fn try_again_in(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let rest = ["try again in ", "retry in "].iter().find_map(|phrase| Some(lower.split_once(phrase)?.1))?;
    let word = rest.split_whitespace().next()?.trim_end_matches(['.', ',', ')', ';']);
    retry_delay(word)
}

#[cfg(test)]
mod tests;
