//! A body as a decoder sees it: bytes become events, whatever pieces they arrive in.

use std::collections::VecDeque;

use pollux_domain::model::ReplyEvent;
use pollux_net::sse::{Item, Parser, SseError};

use super::{Decoder, Failure};

/// How much of a body that is no stream is kept for a message.
const MAX_STRAY_CHARS: usize = 2000;

/// What has come of a body.
pub(crate) struct BodyEvents {
    decoder: Box<dyn Decoder>,
    parser: Parser,
    items: VecDeque<Item>,
    /// The beginning of what was no event.
    stray: Option<String>,
    any_event: bool,
}

impl BodyEvents {
    pub(crate) fn new(decoder: Box<dyn Decoder>) -> Self {
        Self { decoder, parser: Parser::default(), items: VecDeque::new(), stray: None, any_event: false }
    }

    pub(crate) fn decoder(&mut self) -> &mut dyn Decoder {
        self.decoder.as_mut()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        self.parser.feed(bytes, &mut self.items)
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) -> Result<(), SseError> {
        self.items.extend(self.parser.finish()?);
        Ok(())
    }

    /// Whether the server has sent comments since the last call.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.parser.take_comments() > 0
    }

    /// Whether nothing that follows counts.
    pub(crate) fn is_over(&self) -> bool {
        self.decoder.is_over()
    }

    /// The body has said something without being a stream.
    pub(crate) fn note_object(&mut self) {
        self.any_event = true;
    }

    /// What came, if nothing of it was an event.
    pub(crate) fn only_stray(&self) -> Option<&str> {
        self.stray.as_deref().filter(|_| !self.any_event)
    }

    /// Reads the next of what has come. `false` if there is nothing.
    pub(crate) fn step(&mut self, events: &mut VecDeque<ReplyEvent>) -> Result<bool, Failure> {
        if self.decoder.is_over() {
            // Later pieces are not read either: a reply must not depend on how its bytes arrive.
            self.items.clear();
        }
        match self.items.pop_front() {
            None => return Ok(false),
            Some(Item::Event { name, data }) => {
                self.any_event = true;
                self.refuse_lost_event()?;
                if data.trim_ascii() == b"[DONE]" {
                    self.decoder.done();
                } else {
                    self.decoder.event(name.as_deref(), &data, events)?;
                }
            }
            Some(Item::Stray(text)) => self.note_stray(&text)?,
        }
        Ok(true)
    }

    fn note_stray(&mut self, text: &[u8]) -> Result<(), Failure> {
        if let Some(failure) = self.decoder.stray(text) {
            return Err(failure);
        }
        if self.stray.is_none() {
            self.stray = Some(String::from_utf8_lossy(text).chars().take(MAX_STRAY_CHARS).collect());
        }
        self.refuse_lost_event()
    }

    /// JSON on a line that is not data, among events: one whose field name was damaged. What it said is missing, and it
    /// may have been a piece of a call.
    fn refuse_lost_event(&self) -> Result<(), Failure> {
        match &self.stray {
            Some(text) if self.any_event && text.contains('{') => {
                Err(Failure::malformed("an event of the reply cannot be read"))
            }
            _ => Ok(()),
        }
    }
}
