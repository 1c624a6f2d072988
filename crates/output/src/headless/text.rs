//! `text`: the model's text on stdout as it arrives.
//!
//! For people and pipes that want the answer only; warnings and errors go to stderr (`notes.rs`).

use std::io::{self, Write};

use pollux_domain::event::{CallReport, Discarded, Event, NoticeCode};
use pollux_domain::terminal_text::one_line;
use serde_json::Value;

use super::run::Run;

/// Remembers whether the cursor is inside a line.
#[derive(Debug, Default)]
pub(super) struct Text {
    inside_line: bool,
}

impl Text {
    pub(super) fn event(&mut self, run: &Run, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::Text(_) => self.write(&run.piece, out),
            // What follows is another reply.
            Event::CallRequested(_) | Event::Notice { code: NoticeCode::Halted, .. } => self.end_line(out),
            Event::CallFinished(report) if run.style.shows_calls => self.write(&call_line(report), out),
            Event::AttemptDiscarded(discarded) if run.attempt_shown => {
                self.end_line(out)?;
                self.write(&void_marker(discarded), out)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_line(out)
    }

    fn write(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.inside_line = !text.ends_with('\n');
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn end_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.inside_line { self.write("\n", out) } else { Ok(()) }
    }
}

/// Marks shown text as invalid on stdout itself, for readers of stdout only.
fn void_marker(discarded: &Discarded) -> String {
    let reason = one_line(&discarded.reason);
    let again = if discarded.retry_in.is_some() { "; retrying" } else { "" };
    format!("[disregard the text above: {}{again}]\n", reason.trim_end_matches('.'))
}

/// One line about a call: the tool, what it was about, and how it ended.
fn call_line(report: &CallReport) -> String {
    let about = ["file_path", "dir_path", "command", "pattern"];
    let about =
        about.iter().find_map(|key| report.args.get(*key).and_then(Value::as_str)).unwrap_or_default();
    format!("  [{} {}: {}]\n", one_line(&report.name), one_line(about), report.outcome.status().as_str())
}
