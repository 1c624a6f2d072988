//! Dates in names, items and questions.

use pollux_domain::time::Timestamp;

const DAY_MS: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The date in the name of a note: `memory/2026-01-31.md`, `memory/x/2026-01-31-trip.md`.
pub(crate) fn of_path(path: &str) -> Option<String> {
    let name = path.strip_prefix("memory/")?.rsplit('/').next()?;
    let date = iso(name.get(..10)?)?;
    let rest = name.get(10..)?;
    (rest.starts_with('-') || rest.starts_with('.')).then_some(date)
}

/// The date of an item: `- [2026-01-31] …`.
pub(crate) fn of_item(text: &str) -> Option<String> {
    let item = text.trim_start().strip_prefix("- [")?;
    iso(item.get(..10)?)
}

/// The last date in a text.
pub(crate) fn in_text(text: &str) -> Option<String> {
    let mut found = None;
    for (at, _) in text.match_indices("20") {
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        if !before.is_some_and(u8::is_ascii_digit)
            && let Some(date) = text.get(at..at + 10).and_then(iso)
        {
            found = Some(date);
        }
    }
    found
}

/// Days since 1970.
pub(crate) fn days(date: &str) -> Option<i64> {
    Timestamp::parse(&format!("{date}T00:00:00Z")).map(|time| time.millis().div_euclid(DAY_MS))
}

pub(crate) fn today(now: Timestamp) -> String {
    now.to_iso().chars().take(10).collect()
}

pub(crate) fn day_of(now: Timestamp) -> i64 {
    now.millis().div_euclid(DAY_MS)
}

/// Ways to write a date in a query: `2026-01-31` is also January 31, 2026.
pub(crate) fn spoken(date: &str) -> String {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let month = month
        .and_then(|month| month.parse::<usize>().ok())
        .and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    match (year, month, day) {
        (Some(year), Some(month), Some(day)) => {
            format!("{date} {month} {} {year}", day.trim_start_matches('0'))
        }
        _ => date.to_owned(),
    }
}

/// Dates that a query refers to in other words.
pub(crate) fn meant(question: &str, now: Timestamp) -> Vec<String> {
    let lower = question.to_lowercase();
    let at = |days: i64| today(Timestamp::from_millis(now.millis() - days * DAY_MS));
    let mut dates = Vec::new();
    if lower.contains("yesterday") {
        dates.push(at(1));
    }
    if lower.contains("today") {
        dates.push(at(0));
    }
    dates
}

fn iso(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let shaped = bytes.len() == 10 && digits(0..4) && digits(5..7) && digits(8..10);
    let dashed = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
    (shaped && dashed && days(text).is_some()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_where_they_are_meant() {
        let some = |date: &str| Some(date.to_owned());
        assert_eq!(of_path("memory/2026-01-31.md"), some("2026-01-31"));
        assert_eq!(of_path("memory/trips/2026-01-31-rome.md"), some("2026-01-31"));
        assert_eq!(
            (of_path("MEMORY.md"), of_path("memory/2026-13-01.md"), of_path("memory/20260131.md")),
            (None, None, None)
        );
        assert_eq!(of_item("- [2026-01-31] x"), some("2026-01-31"));
        assert_eq!(of_item("[2026-01-31] x"), None);
        assert_eq!(in_text("Log > 2026-01-30 and 2026-02-01"), some("2026-02-01"));
        assert_eq!(spoken("2026-01-05"), "2026-01-05 january 5 2026");
        let now = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        assert_eq!(meant("what broke Yesterday?", now), ["2026-02-28"]);
    }
}
