//! A line that says how far something is.

use std::io::{self, Write};

const WIDTH: usize = 24;

/// Shows progress on stderr, if that is a terminal; the line is gone when the work is done.
#[derive(Debug)]
pub struct Gauge {
    is_visible: bool,
    /// What is on the screen.
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
        // Progress that nobody sees is no failure.
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
