//! Lines of JSON-RPC from the client.
//!
//! A line that is too long or malformed becomes an error answer, and reading goes on with the next one. Ids are kept as
//! they were written.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::RpcError;
use crate::stdio::{InputLine, read_line};

/// The longest line that is read; images are sent as text.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Messages that are read ahead. Each may be large, so there are few.
const READ_AHEAD: usize = 4;

/// A message of the client.
#[derive(Debug)]
pub enum Incoming {
    /// `id` is JSON as the client wrote it.
    Request {
        id: String,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours; the error is the client's.
    Answer {
        id: u64,
        result: Result<Value, Value>,
    },
    /// Something that cannot be served.
    Bad {
        id: String,
        error: RpcError,
    },
}

/// The messages of a client, read by a thread of their own. The channel closes when the client is gone.
pub fn messages(input: impl Read + Send + 'static) -> mpsc::Receiver<Incoming> {
    let (sender, messages) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        // The end of input and an error are the same.
        let _ =
            read_messages(BufReader::new(input), MAX_LINE, |message| sender.blocking_send(message).is_ok());
    });
    messages
}

/// Reads lines until the end of input or until `take` returns false.
fn read_messages(
    mut input: impl BufRead,
    longest: usize,
    mut take: impl FnMut(Incoming) -> bool,
) -> io::Result<()> {
    loop {
        let Some(line) = read_line(&mut input, longest)? else { return Ok(()) };
        let message = message(&line, longest);
        if message.is_some_and(|message| !take(message)) {
            return Ok(());
        }
    }
}

/// A line as a message; `None` for an empty one, and for answers that answer nothing. `longest` is what was accepted.
pub fn message(line: &InputLine, longest: usize) -> Option<Incoming> {
    match line {
        InputLine::TooLong => {
            let why = format!("Message exceeds {} MiB", longest / 1024 / 1024);
            Some(bad(RpcError::invalid_request(why)))
        }
        InputLine::Whole(bytes) => parse(bytes),
    }
}

fn bad(error: RpcError) -> Incoming {
    Incoming::Bad { id: "null".to_owned(), error }
}

fn parse(line: &[u8]) -> Option<Incoming> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Some(bad(RpcError::parse("Message is not valid UTF-8")));
    };
    let members: BTreeMap<String, Box<RawValue>> = match serde_json::from_str(text) {
        Ok(members) => members,
        Err(error) if error.is_data() => {
            let is_batch = text.trim_start().starts_with('[');
            let why = if is_batch { "Batches are not supported" } else { "A message must be a JSON object" };
            return Some(bad(RpcError::invalid_request(why)));
        }
        Err(error) => return Some(bad(RpcError::parse(format!("Parse error: {error}")))),
    };
    let value = |name: &str| members.get(name).map(|raw| raw.get());
    let id = value("id").map(str::to_owned);
    let is_id = |raw: &str| {
        raw == "null" || raw.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
    };
    if id.as_deref().is_some_and(|id| !is_id(id)) {
        return Some(bad(RpcError::invalid_request("`id` must be a number, a string or null")));
    }
    let unusable = |why: &str| {
        let id = id.clone().unwrap_or_else(|| "null".to_owned());
        Some(Incoming::Bad { id, error: RpcError::invalid_request(why) })
    };
    if value("jsonrpc") != Some("\"2.0\"") {
        return unusable("`jsonrpc` must be \"2.0\"");
    }
    let Some(method) = value("method") else {
        return answer(id.as_deref(), value("result"), value("error"));
    };
    let Ok(method) = serde_json::from_str::<String>(method) else {
        return unusable("`method` must be a string");
    };
    let params = value("params").unwrap_or("null");
    let Ok(params) = serde_json::from_str::<Value>(params) else {
        return unusable("`params` cannot be read");
    };
    Some(match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    })
}

fn answer(id: Option<&str>, result: Option<&str>, error: Option<&str>) -> Option<Incoming> {
    let Some(id) = id.and_then(|id| id.parse().ok()) else {
        let neither = result.is_none() && error.is_none();
        return neither.then(|| bad(RpcError::invalid_request("A message needs a `method`")));
    };
    let read = |raw: &str| serde_json::from_str(raw).unwrap_or(Value::Null);
    match (result, error) {
        (_, Some(error)) if error != "null" => Some(Incoming::Answer { id, result: Err(read(error)) }),
        (Some(result), _) => Some(Incoming::Answer { id, result: Ok(read(result)) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8], longest: usize) -> Vec<Incoming> {
        let mut found = Vec::new();
        // A small buffer, so that lines arrive in pieces.
        let input = BufReader::with_capacity(7, input);
        read_messages(input, longest, |message| {
            found.push(message);
            true
        })
        .unwrap();
        found
    }

    fn one(line: &str) -> Incoming {
        let mut found = all(line.as_bytes(), 1_000);
        assert_eq!(found.len(), 1, "{line}");
        found.remove(0)
    }

    #[test]
    fn ids_are_kept_as_they_were_written() {
        for id in ["\"a\"", "0", "null", "9007199254740992", "1.50", "\"\\u0041\"", "-3"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            let Incoming::Request { id: read, .. } = one(&line) else { panic!("{line}") };
            assert_eq!(read, id);
        }
        assert!(matches!(one(r#"{"jsonrpc":"2.0","method":"m"}"#), Incoming::Notification { .. }));
    }

    #[test]
    fn what_cannot_be_served_has_the_code_of_its_fault() {
        let cases: &[(&[u8], i32)] = &[
            (b"{not json", -32700),
            (b"{\"a\":\"\xff\"}", -32700),
            (b"[]", -32600),
            (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", -32600),
            (b"7", -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600),
            (b"{\"id\":1,\"method\":\"m\"}", -32600),
            (b"{\"jsonrpc\":\"2.0\"}", -32600),
        ];
        for (line, code) in cases {
            let found = all(line, 1_000);
            let [Incoming::Bad { error, .. }] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(error.code, *code, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        let long = format!("{}\n{{\"jsonrpc\":\"2.0\",\"method\":\"m\"}}\n\n", "x".repeat(100));
        let found = all(long.as_bytes(), 50);
        assert!(matches!(
            found.as_slice(),
            [Incoming::Bad { error, .. }, Incoming::Notification { .. }] if error.code == -32600
        ));
    }

    #[test]
    fn answers_are_told_from_requests() {
        let Incoming::Answer { id: 3, result: Ok(result) } = one(r#"{"jsonrpc":"2.0","id":3,"result":null}"#)
        else {
            panic!()
        };
        assert!(result.is_null());
        let Incoming::Answer { id: 4, result: Err(error) } =
            one(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}"#)
        else {
            panic!()
        };
        assert_eq!(error["code"], -1);
        assert!(all(br#"{"jsonrpc":"2.0","id":"x","result":1}"#, 1_000).is_empty());
    }
}
