//! Timestamps and clocks.

use chrono::{DateTime, Local, SecondsFormat, Utc};

/// A moment with millisecond precision, written as `2026-01-27T15:22:34.666Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The number of bytes of [`Timestamp::to_iso`] for every year with four digits.
    pub const ISO_LEN: usize = 24;

    /// From milliseconds since 1970.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Reads any RFC 3339 time.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|time| Self(time.timestamp_millis()))
    }

    /// UTC with milliseconds and `Z`.
    pub fn to_iso(self) -> String {
        self.utc().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// UTC cut to minutes, safe for file names: `2026-01-27T15-21`.
    pub fn to_file_minute(self) -> String {
        self.utc().format("%Y-%m-%dT%H-%M").to_string()
    }

    /// The local date for people: `Tuesday, January 27, 2026`.
    pub fn to_local_date(self) -> String {
        self.utc().with_timezone(&Local).format("%A, %B %-d, %Y").to_string()
    }

    fn utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }
}

/// Where the program takes the time from; tests bring their own.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(Utc::now().timestamp_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_a_fixed_width_and_read_back() {
        let time = Timestamp::parse("2026-01-27T15:22:34.666Z").unwrap();
        assert_eq!(time.to_iso(), "2026-01-27T15:22:34.666Z");
        assert_eq!(time.to_iso().len(), Timestamp::ISO_LEN);
        assert_eq!(time.to_file_minute(), "2026-01-27T15-22");
        assert_eq!(Timestamp::parse("2026-01-27T16:22:34.666+01:00"), Some(time));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }
}
