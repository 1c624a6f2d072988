//! Lines to the host.

use std::io::{self, Write};
use std::sync::Arc;

use pollux_config::groups::Dialect;
use pollux_domain::terminal_text;
use pollux_domain::time::Clock;
use pollux_front::stdio::Outbox;
use serde_json::{Map, Value};

use crate::outgoing::Outgoing;
use crate::shape::snake;

/// The host's end of standard output. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wire {
    outbox: Outbox,
    dialect: Dialect,
    clock: Arc<dyn Clock>,
}

impl Wire {
    pub(crate) fn new(outbox: Outbox, dialect: Dialect, clock: Arc<dyn Clock>) -> Self {
        Self { outbox, dialect, clock }
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Sends a message in the words of the dialect.
    pub(crate) fn send(&self, message: &Outgoing) {
        let Ok(Value::Object(fields)) = message.to_fields() else { return };
        let in_dialect = |name: &str| match self.dialect {
            Dialect::Pollux => name.to_owned(),
            Dialect::GeminiCli => snake(name),
        };
        let word = match self.dialect {
            Dialect::Pollux => message.word().to_owned(),
            Dialect::GeminiCli => message.word().to_ascii_lowercase(),
        };
        let mut line = Map::new();
        line.insert("type".to_owned(), word.into());
        line.extend(fields.into_iter().map(|(name, value)| (in_dialect(&name), value)));
        line.insert("timestamp".to_owned(), self.clock.now().to_iso().into());
        self.send_json(&Value::Object(line));
    }

    /// Sends any object. No text in it can end the line: line breaks inside of strings are escaped.
    pub(crate) fn send_json(&self, line: &Value) {
        self.outbox.send(terminal_text::json(line.to_string()));
    }

    /// A writer for the events of a run, which come as whole lines.
    pub(crate) fn writer(&self) -> LineWriter {
        LineWriter { outbox: self.outbox.clone(), open: Vec::new() }
    }
}

/// Passes whole lines on.
pub(crate) struct LineWriter {
    outbox: Outbox,
    /// A line that has not ended yet.
    open: Vec<u8>,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.outbox.is_broken() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.open.extend_from_slice(piece);
            if self.open.pop_if(|last| *last == b'\n').is_some() {
                let line = std::mem::take(&mut self.open);
                self.outbox.send(String::from_utf8_lossy(&line).into_owned());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
