//! Server-sent events with their names and ids, bounded.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use pollux_domain::json::replace_unpaired;
use pollux_net::sse::{Record, Records};
use reqwest::Response;
use sse_stream::{Error as SseError, Sse};

use super::MAX_MESSAGE;

/// An event that is longer than a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event exceeds {} MB", MAX_MESSAGE >> 20)]
pub(crate) struct TooLong;

/// Takes bytes in any split and gives whole events, as the protocol's library knows them.
pub(crate) struct Parser {
    records: Records,
    whole: VecDeque<Record>,
}

impl Default for Parser {
    fn default() -> Self {
        Self { records: Records::with_limit(MAX_MESSAGE), whole: VecDeque::new() }
    }
}

impl Parser {
    /// Takes the next bytes and appends the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], events: &mut VecDeque<Sse>) -> Result<(), TooLong> {
        let fed = self.records.feed(bytes, &mut self.whole);
        events.extend(self.whole.drain(..).filter(Record::has_fields).map(|record| Sse {
            event: record.event,
            data: record.data.map(|data| readable(&String::from_utf8_lossy(&data))),
            id: record.id,
            retry: record.retry,
        }));
        fed.map_err(|_| TooLong)
    }
}

/// The text without half characters, which would cost the whole message.
fn readable(json: &str) -> String {
    replace_unpaired(json).into_owned()
}

/// The events of an answer.
pub(crate) fn of(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let begin = (response, Parser::default(), VecDeque::new(), false);
    stream::unfold(begin, |(mut response, mut parser, mut events, ended)| async move {
        loop {
            if let Some(event) = events.pop_front() {
                return Some((Ok(event), (response, parser, events, ended)));
            }
            if ended {
                return None;
            }
            let failed = match response.chunk().await {
                Ok(None) => return None,
                Ok(Some(bytes)) => match parser.feed(&bytes, &mut events) {
                    Ok(()) => continue,
                    Err(error) => SseError::Body(Box::new(error)),
                },
                Err(error) => SseError::Body(Box::new(error.without_url())),
            };
            events.clear();
            return Some((Err(failed), (response, parser, events, true)));
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = (Option<String>, Option<String>, Option<String>, Option<u64>);

    fn events(text: &str, size: usize) -> Vec<Fields> {
        let (mut parser, mut events) = (Parser::default(), VecDeque::new());
        for piece in text.as_bytes().chunks(size) {
            parser.feed(piece, &mut events).unwrap();
        }
        events.into_iter().map(|event| (event.event, event.data, event.id, event.retry)).collect()
    }

    #[test]
    fn events_are_the_same_in_every_split() {
        let text = "\u{feff}: hello\nevent: endpoint\ndata: /m?é\n\nid: 7\r\nretry: 500\r\ndata:\r\n\r\ndata: a\rdata: b\r\rnonsense\n\n";
        let some = |text: &str| Some(text.to_owned());
        let expected = vec![
            (some("endpoint"), some("/m?é"), None, None),
            (None, some(""), some("7"), Some(500)),
            (None, some("a\nb"), None, None),
        ];
        for size in [1, 2, 3, 7, 1000] {
            assert_eq!(events(text, size), expected, "{size}");
        }
    }

    #[test]
    fn half_a_character_is_replaced() {
        let found = events("data: {\"a\":\"\\ud83d\"}\n\n", 5);
        assert_eq!(found.first().unwrap().1.as_deref(), Some("{\"a\":\"\\ufffd\"}"));
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let (mut parser, mut events) = (Parser::default(), VecDeque::new());
        let piece = [b"data: ".as_slice(), &[b'x'; 1 << 20], b"\n"].concat();
        let fed = (0..20).try_for_each(|_| parser.feed(&piece, &mut events));
        assert_eq!(fed, Err(TooLong));
    }
}
