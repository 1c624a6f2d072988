//! Writes a session as a readable transcript: messages, tool calls and failures.

use std::io::{self, Write};
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::event::CallStatus;
use pollux_domain::terminal_text::{self, plain};
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::blobs::Blobs;
use crate::load::{LoadError, RepairNote};
use crate::message::StoredStatus;
use crate::stream::{Stream, is_readable};
use crate::texts::whole;
use crate::view::{CallView, Outcome, Speaker, View};

/// The transcript format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptForm {
    Text,
    Markdown,
    /// One JSON object for each line of the transcript.
    JsonLines,
}

/// Why a transcript is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("could not write the transcript")]
    Write(#[from] io::Error),
}

/// One line of a transcript.
enum Entry {
    Said { role: &'static str, text: String },
    Called { tool: String, args: Vec<(&'static str, String)>, outcome: Outcome, error: Option<String> },
}

/// Writes the transcript of a session, a message at a time. Returns what is damaged in the file.
pub fn write_transcript(
    path: &Path,
    form: TranscriptForm,
    out: &mut dyn Write,
) -> Result<Option<RepairNote>, TranscriptError> {
    let stream = Stream::open(path)?;
    let blobs = Blobs::of_file(path);
    let mut writer = Transcript::new(form, out);
    let mut unreadable = 0;
    stream.for_each(|index, text| {
        unreadable += usize::from(!is_readable(text));
        let text = whole(text, &blobs);
        match View::of(index, &text) {
            Some(view) => writer.message(&view),
            None => Ok(()),
        }
    })?;
    writer.finish()?;
    Ok(RepairNote::with_unreadable(stream.damage, unreadable))
}

/// A transcript that is being written, an entry at a time; also for sessions that are no files of ours.
pub struct Transcript<'a> {
    form: TranscriptForm,
    out: &'a mut dyn Write,
    /// Number of lines so far.
    lines: u64,
    after_call: bool,
}

impl<'a> Transcript<'a> {
    pub fn new(form: TranscriptForm, out: &'a mut dyn Write) -> Self {
        Self { form, out, lines: 0, after_call: false }
    }

    /// Adds text of the user (`user`), the model (`agent`) or an error (`error`).
    pub fn said(
        &mut self,
        role: &'static str,
        text: &str,
        time: Option<Timestamp>,
        id: &str,
    ) -> io::Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        self.entry(&Entry::Said { role, text: text.to_owned() }, time, Some(id))
    }

    /// Adds a call with its main arguments.
    pub fn called(
        &mut self,
        tool: &str,
        args: &str,
        status: StoredStatus,
        error: Option<&str>,
        time: Option<Timestamp>,
    ) -> io::Result<()> {
        let outcome = match status {
            StoredStatus::Pending => Outcome::Unfinished,
            StoredStatus::Ended(CallStatus::Success) => Outcome::Ok,
            StoredStatus::Ended(CallStatus::Error) => Outcome::Error,
            StoredStatus::Ended(CallStatus::Cancelled) => Outcome::Cancelled,
        };
        let args = if args.is_empty() { Vec::new() } else { vec![("args", args.replace('\n', "⏎"))] };
        let error = error.map(str::to_owned);
        self.entry(&Entry::Called { tool: tool.to_owned(), args, outcome, error }, time, None)
    }

    /// Flushes the output.
    pub fn finish(self) -> io::Result<()> {
        self.out.flush()
    }

    fn message(&mut self, view: &View<'_>) -> Result<(), TranscriptError> {
        let role = match view.speaker {
            Speaker::User => "user",
            Speaker::Agent => "agent",
            Speaker::Error => "error",
            Speaker::Nobody => return Ok(()),
        };
        let mut text = view.words();
        if view.speaker == Speaker::User {
            if View::is_context(&text) {
                return Ok(());
            }
            for note in view.attachments() {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&note);
            }
        }
        if !text.trim().is_empty() {
            self.entry(&Entry::Said { role, text }, view.time(), Some(&view.id))?;
        }
        if view.speaker == Speaker::Agent {
            for call in view.calls() {
                self.entry(&called(&call), call.time().or_else(|| view.time()), call.id().as_deref())?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, time: Option<Timestamp>, id: Option<&str>) -> io::Result<()> {
        self.lines += 1;
        match self.form {
            TranscriptForm::Text => self.text(entry)?,
            TranscriptForm::Markdown => self.markdown(entry)?,
            TranscriptForm::JsonLines => self.json(entry, time, id)?,
        }
        self.after_call = matches!(entry, Entry::Called { .. });
        Ok(())
    }

    fn text(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Said { role, text } => {
                let gap = if self.lines > 1 { "\n" } else { "" };
                writeln!(self.out, "{gap}{role}: {}", plain(text.trim()))
            }
            Entry::Called { tool, args, outcome, error } => {
                write!(self.out, "  [{}]", plain(tool))?;
                for (key, value) in args {
                    write!(self.out, " {key}={}", plain(value))?;
                }
                writeln!(self.out, "{}", plain(&ending(*outcome, error.as_deref())).replace('\n', "⏎"))
            }
        }
    }

    fn markdown(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Said { role, text } => {
                let gap = if self.lines > 1 { "\n" } else { "" };
                let heading = match *role {
                    "user" => "User",
                    "agent" => "Agent",
                    _ => "Error",
                };
                writeln!(self.out, "{gap}## {heading}\n\n{}", plain(text.trim()))
            }
            Entry::Called { tool, args, outcome, error } => {
                let gap = if self.after_call || self.lines == 1 { "" } else { "\n" };
                write!(self.out, "{gap}- **{}**", plain(tool))?;
                for (key, value) in args {
                    write!(self.out, " {key}: {}", code(&plain(value)))?;
                }
                writeln!(self.out, "{}", plain(&ending(*outcome, error.as_deref())).replace('\n', " "))
            }
        }
    }

    fn json(&mut self, entry: &Entry, time: Option<Timestamp>, id: Option<&str>) -> io::Result<()> {
        let mut fields = JsonObject::new();
        fields.insert("n".into(), json!(self.lines));
        match entry {
            Entry::Said { role, text } => {
                fields.insert("role".into(), json!(role));
                fields.insert("text".into(), json!(text));
            }
            Entry::Called { tool, args, outcome, error } => {
                fields.insert("role".into(), json!("tool"));
                fields.insert("tool".into(), json!(tool));
                let args: JsonObject =
                    args.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
                fields.insert("args".into(), Value::Object(args));
                fields.insert("status".into(), json!(outcome.as_str()));
                fields.extend(error.as_ref().map(|error| ("error".to_owned(), json!(error))));
            }
        }
        fields.extend(time.map(|time| ("timestamp".to_owned(), json!(time.to_iso()))));
        fields.extend(id.map(|id| ("id".to_owned(), json!(id))));
        writeln!(self.out, "{}", terminal_text::json(Value::Object(fields).to_string()))
    }
}

fn called(call: &CallView<'_>) -> Entry {
    Entry::Called {
        tool: call.name(),
        args: call.telling_args(),
        outcome: call.outcome(),
        error: call.error(),
    }
}

fn ending(outcome: Outcome, error: Option<&str>) -> String {
    match outcome {
        Outcome::Ok => String::new(),
        Outcome::Error => {
            let reason = error.map(str::trim).filter(|reason| !reason.is_empty());
            format!(" ERROR: {}", reason.unwrap_or("no reason recorded"))
        }
        Outcome::Cancelled | Outcome::Unfinished => format!(" ({})", outcome.as_str()),
    }
}

/// Markdown code with a fence longer than any run of backticks in the text.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_without_a_reason_says_so() {
        assert_eq!(ending(Outcome::Error, None), " ERROR: no reason recorded");
        assert_eq!(ending(Outcome::Error, Some(" \n")), " ERROR: no reason recorded");
        assert_eq!(ending(Outcome::Error, Some("exit 1")), " ERROR: exit 1");
        assert_eq!(ending(Outcome::Ok, None), "");
    }
}
