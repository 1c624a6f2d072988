//! Replies without a connection, for the fuzz targets. Not part of the interface.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::model::{Dialect, ModelError, Origin, ProviderId, ReplyEvent};
use pollux_net::sse::SseError;

use crate::chat::quirks::Echo;
use crate::chat::reply::ChatDecoder;
use crate::gemini::protocol::GeminiDecoder;
use crate::http::events::BodyEvents;
use crate::http::{Decoder, Failure};
use crate::messages::reply::MessagesDecoder;
use crate::responses::decoder::ResponsesDecoder;
use crate::shared::tool_names::ToolNames;

/// What a stream says until it ends or cannot be read further.
#[derive(Debug, PartialEq)]
pub struct Said {
    pub events: Vec<ReplyEvent>,
    pub error: Option<ModelError>,
}

/// Reads the body of a reply that arrives in these pieces.
pub fn read_reply<'a>(dialect: &Dialect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Said {
    let mut events = VecDeque::new();
    let read = read(decoder(dialect), pieces, &mut events);
    Said { events: events.into(), error: read.err().map(|failure| failure.error) }
}

fn decoder(dialect: &Dialect) -> Box<dyn Decoder> {
    let names = || Arc::new(ToolNames::default());
    if *dialect == Dialect::CHAT {
        Box::new(ChatDecoder::new(ToolNames::default(), Echo::Details, true, 0))
    } else if *dialect == Dialect::MESSAGES {
        Box::new(MessagesDecoder::new(names(), false))
    } else if *dialect == Dialect::RESPONSES {
        let origin = Origin {
            provider: ProviderId::known("test"),
            dialect: dialect.clone(),
            host: "https://example.com".to_owned(),
            model: "model".to_owned(),
            response_id: None,
            phase: None,
        };
        Box::new(ResponsesDecoder::new(Arc::new(origin), names(), false))
    } else {
        Box::new(GeminiDecoder)
    }
}

fn read<'a>(
    decoder: Box<dyn Decoder>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    events: &mut VecDeque<ReplyEvent>,
) -> Result<(), Failure> {
    let malformed = |error: SseError| Failure::malformed(error.to_string());
    let mut body = BodyEvents::new(decoder);
    for piece in pieces {
        let fed = body.feed(piece);
        while body.step(events)? {}
        fed.map_err(malformed)?;
        if body.is_over() {
            return body.decoder().end(events);
        }
    }
    body.finish().map_err(malformed)?;
    while body.step(events)? {}
    match body.only_stray() {
        Some(_) => Err(Failure::malformed("the reply is no stream")),
        None => body.decoder().end(events),
    }
}
