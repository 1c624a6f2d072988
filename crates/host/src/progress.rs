//! A progress line on stderr.

use std::io::{self, Write};

const WIDTH: usize = 24;

/// Shows progress if stderr is a terminal; the line is cleared at the end.
#[derive(Debug)]
pub struct Gauge {
    is_visible: bool,
    /// The text currently shown.
    percent: Option<usize>,
}

impl Gauge {
    pub fn new(is_visible: bool) -> Self {
        Self { is_visible, percent: None }
    }

    pub fn step(&mut self, what: &str, done: usize, total: usize) {
        let percent = (done * 100).checked_div(total).unwrap_or(100).min(100);
        if !self.is_visible || self.percent == Some(percent) {
            return;
        }
        self.percent = Some(percent);
        let full = percent * WIDTH / 100;
        let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full));
        // Failing to show progress is not an error.
        let _ = write!(io::stderr(), "\r{what} [{bar}] {done}/{total}\u{1b}[K");
        if percent == 100 {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        if self.percent.take().is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.clear();
    }
}
