//! The delays that servers ask for, in the forms they write them.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime};

/// Reads a `Retry-After` header: seconds, or a date compared with `now_millis` since 1970.
pub fn retry_after(value: &str, now_millis: i64) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return seconds_to_duration(seconds);
    }
    let at = http_date(value)?;
    // A date that has passed means now.
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now_millis)).unwrap_or(0)))
}

fn http_date(value: &str) -> Option<i64> {
    if let Ok(date) = DateTime::parse_from_rfc2822(value) {
        return Some(date.timestamp_millis());
    }
    // Not HTTP's, but some servers write their limits so.
    if let Ok(date) = DateTime::parse_from_rfc3339(value) {
        return Some(date.timestamp_millis());
    }
    // The two older forms that HTTP still allows.
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(value, format).ok())
        .map(|date| date.and_utc().timestamp_millis())
}

/// Reads a delay such as `34.07s`, `500ms` or `1h2m3s`.
pub fn retry_delay(text: &str) -> Option<Duration> {
    let (total, rest) = leading_delay(text.trim())?;
    rest.is_empty().then_some(total)
}

/// Finds "Please retry in 34.07s" in a message.
pub fn please_retry_in(message: &str) -> Option<Duration> {
    const PHRASE: &str = "please retry in ";
    // ASCII lower-casing keeps every byte position.
    let at = message.to_ascii_lowercase().find(PHRASE)?;
    let rest = message.get(at + PHRASE.len()..)?;
    leading_delay(rest.trim_start()).map(|(total, _)| total)
}

/// Takes number-and-unit pairs from the front.
fn leading_delay(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text;
    let mut total: Option<Duration> = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (Ok(number), Some(tail)) =
            (rest.get(..digits).unwrap_or_default().parse::<f64>(), rest.get(digits..))
        else {
            break;
        };
        let Some((seconds, tail)) = unit(tail.trim_start()) else { break };
        let piece = seconds_to_duration(number * seconds)?;
        total = Some(total.unwrap_or_default().saturating_add(piece));
        rest = tail;
    }
    total.map(|total| (total, rest))
}

/// The longer units first, so that `ms` is not read as minutes.
fn unit(text: &str) -> Option<(f64, &str)> {
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
        .into_iter()
        .find_map(|(word, seconds)| text.strip_prefix(word).map(|rest| (seconds, rest)))
}

fn seconds_to_duration(seconds: f64) -> Option<Duration> {
    if seconds.is_nan() {
        return None;
    }
    // A century is as good as never, and keeps sums far from overflow.
    Duration::try_from_secs_f64(seconds.min(3.2e9)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_in_every_form() {
        let cases: &[(&str, Option<u64>)] = &[
            ("34.07s", Some(34_070)),
            ("500ms", Some(500)),
            ("1h2m3.5s", Some(3_723_500)),
            ("0s", Some(0)),
            ("", None),
            ("12", None),
            ("s", None),
            ("-3s", None),
            ("1.2.3s", None),
            ("5s later", None),
            ("99999999999999999999s", Some(3_200_000_000_000)),
        ];
        for (text, expected) in cases {
            assert_eq!(retry_delay(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn a_message_may_hold_the_delay() {
        let cases: &[(&str, Option<u64>)] = &[
            ("Quota exceeded. Please retry in 34.5s.", Some(34_500)),
            ("please retry in 250ms", Some(250)),
            ("Please retry in 12h0m1s. Bye", Some(43_201_000)),
            ("Please retry in a while", None),
            ("İ Please retry in 2s", Some(2_000)),
            ("try later", None),
        ];
        for (text, expected) in cases {
            assert_eq!(please_retry_in(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn a_retry_after_header_is_seconds_or_a_date() {
        let now = 784_111_770_000; // 1994-11-06 08:49:30
        let cases: &[(&str, Option<u64>)] = &[
            ("1", Some(1_000)),
            (" 120 ", Some(120_000)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7_000)),
            ("Sun Nov  6 08:49:37 1994", Some(7_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("NaN", None),
        ];
        for (text, expected) in cases {
            assert_eq!(retry_after(text, now), expected.map(Duration::from_millis), "{text:?}");
        }
    }
}
