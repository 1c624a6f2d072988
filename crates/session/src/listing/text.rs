//! Formats the session list, in upstream's words.

use std::fmt::Write;

use pollux_domain::text::with_dots;
use pollux_domain::time::Timestamp;

use super::Listing;

const TITLE_CHARS: usize = 100;

/// The output of `--list-sessions`.
pub fn list_text(listing: &Listing, now: Timestamp) -> String {
    if listing.sessions.is_empty() {
        return "No previous sessions found for this project.".to_owned();
    }
    let mut text = format!("\nAvailable sessions for this project ({}):\n", listing.sessions.len());
    for (index, session) in listing.sessions.iter().enumerate() {
        let title = with_dots(&session.title, TITLE_CHARS);
        let time = relative_time(session.last_updated, now);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {}. {title} ({time}) [{}]",
            index + 1,
            crate::title::clean(session.id.as_str())
        );
    }
    text
}

/// How long ago that was: `3 days ago`, `1 hour ago`, `5 minutes ago`, `Just now`.
pub fn relative_time(then: Timestamp, now: Timestamp) -> String {
    let minutes = now.millis().saturating_sub(then.millis()) / 60_000;
    let (count, unit) = match minutes {
        ..1 => return "Just now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_largest_whole_unit() {
        let cases = [
            (-5, "Just now"),
            (59, "Just now"),
            (60, "1 minute ago"),
            (3599, "59 minutes ago"),
            (3600, "1 hour ago"),
            (7200, "2 hours ago"),
            (86_400, "1 day ago"),
            (86_400 * 400, "400 days ago"),
        ];
        for (seconds, expected) in cases {
            let now = Timestamp::from_millis(1_800_000_000_000);
            let then = Timestamp::from_millis(now.millis() - seconds * 1000);
            assert_eq!(relative_time(then, now), expected, "{seconds}");
        }
    }
}
