//! The recent output of a server: stderr and log messages.

use std::collections::VecDeque;
use std::sync::Mutex;

use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::plain;

const LINES: usize = 200;
const LINE_CHARS: usize = 1000;

/// A ring of lines.
#[derive(Default)]
pub(crate) struct Log {
    lines: Mutex<VecDeque<String>>,
    /// Values that must not be shown.
    secrets: Vec<String>,
}

impl Log {
    pub(crate) fn hiding(secrets: impl IntoIterator<Item = String>) -> Self {
        // Short values are not masked, because that would garble ordinary text.
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= 6).collect();
        Self { lines: Mutex::default(), secrets }
    }

    pub(crate) fn push(&self, text: &str) {
        let mut lines = self.lines.locked();
        for line in text.lines().filter(|line| !line.trim().is_empty()).take(LINES) {
            let cut: String = line.chars().take(LINE_CHARS).collect();
            if lines.len() == LINES {
                lines.pop_front();
            }
            lines.push_back(self.hidden(&plain(&cut)));
        }
    }

    /// The text with secrets replaced.
    pub(crate) fn hidden(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let lines = self.lines.locked();
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_stay_and_secrets_do_not() {
        let log = Log::hiding(["hunter22".to_owned(), "a".to_owned()]);
        for number in 0..500 {
            log.push(&format!("line {number}\n"));
        }
        log.push(&format!("password hunter22 a \x1b[31m{}", "x".repeat(5000)));
        let last = log.last(2);
        assert_eq!(last[0], "line 499");
        assert!(last[1].starts_with("password *** a xxx"), "{}", last[1]);
        assert!(last[1].len() <= LINE_CHARS);
        assert_eq!(log.last(1000).len(), LINES);
    }
}
