//! The terminal's events, with a way to leave the terminal's input to another program.

use std::io;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;

pub(crate) struct Keyboard(Option<EventStream>);

impl Keyboard {
    pub(crate) fn open() -> Self {
        Self(Some(EventStream::new()))
    }

    /// The next event; `None` when the terminal is closed.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.0.get_or_insert_with(EventStream::new).next().await
    }

    /// Stops reading until the next call of [`Self::next`]. Returns when the stream's thread has left the terminal.
    pub(crate) fn release(&mut self) {
        // The thread holds the reader's lock while it waits for a key, and a new stream takes that lock: created before
        // the old stream is dropped, it would wait for the key.
        drop(self.0.take());
        self.0 = Some(EventStream::new());
    }
}
