//! Rate limits that servers announce in headers before they refuse anything.

use std::time::Duration;

use pollux_net::backoff::{retry_after, retry_delay};
use reqwest::header::HeaderMap;

/// No announced limit delays a request for longer.
const LONGEST: Duration = Duration::from_secs(60);
/// What is left, and when there is more: OpenAI's names and Anthropic's.
const LIMITS: &[(&str, &str)] = &[
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
];

/// How long the next request has to wait, if anything is used up.
pub(super) fn delay(headers: &HeaderMap, now_millis: i64) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let used_up = LIMITS.iter().filter(|(left, _)| text(left) == Some("0"));
    let delays = used_up.filter_map(|(_, reset)| {
        let reset = text(reset)?;
        retry_delay(reset).or_else(|| retry_after(reset, now_millis))
    });
    delays.max().filter(|delay| !delay.is_zero()).map(|delay| delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn wait(pairs: &[(&'static str, &'static str)]) -> Option<u64> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        delay(&pairs.collect(), 784_111_770_000).map(|delay| u64::try_from(delay.as_millis()).unwrap())
    }

    #[test]
    fn only_a_limit_that_is_used_up_delays() {
        let (left, reset) = ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests");
        assert_eq!(wait(&[(left, "0"), (reset, "1.5s")]), Some(1500));
        assert_eq!(wait(&[(left, "0"), (reset, "20ms")]), Some(20));
        assert_eq!(wait(&[(left, "0"), (reset, "6m0s")]), Some(60_000));
        assert_eq!(wait(&[(left, "3"), (reset, "6m0s")]), None);
        assert_eq!(wait(&[(left, "0")]), None);
        let anthropic = "anthropic-ratelimit-tokens-remaining";
        let at = "anthropic-ratelimit-tokens-reset";
        assert_eq!(wait(&[(anthropic, "0"), (at, "1994-11-06T08:49:37Z")]), Some(7000));
        assert_eq!(wait(&[(anthropic, "0"), (at, "1990-01-01T00:00:00Z")]), None);
    }
}
