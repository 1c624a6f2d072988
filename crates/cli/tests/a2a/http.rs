//! A client of HTTP/1.1 that shows what is on the wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A response whose body is read as it arrives.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    is_chunked: bool,
    length: Option<usize>,
    pending: Vec<u8>,
    is_over: bool,
}

/// Sends a request.
pub(crate) fn send(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Response {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: localhost:{port}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = body.unwrap_or_default();
    text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(text.as_bytes());
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut found = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        found.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let get = |wanted: &str| found.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let is_chunked = get("transfer-encoding").is_some_and(|value| value == "chunked");
    let length = get("content-length").map(|value| value.parse().unwrap());
    Response { status, headers: found, reader, is_chunked, length, pending: Vec::new(), is_over: false }
}

impl Response {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// Reads more of the body; false at its end.
    fn more(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        if !self.is_chunked {
            self.is_over = true;
            let mut bytes = vec![0; self.length.unwrap_or_default()];
            self.reader.read_exact(&mut bytes).unwrap();
            self.pending.extend(bytes);
            return true;
        }
        let mut line = String::new();
        if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
            self.is_over = true;
            return false;
        }
        let size = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("{line:?}"));
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes.truncate(size);
        self.pending.extend(bytes);
        self.is_over = size == 0;
        size > 0
    }

    pub(crate) fn text(mut self) -> String {
        while self.more() {}
        String::from_utf8(self.pending).unwrap()
    }

    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The next server-sent event; `None` at the end of the stream.
    pub(crate) fn event(&mut self) -> Option<Value> {
        loop {
            let end = self.pending.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let block: Vec<u8> = self.pending.drain(..end + 2).collect();
                let block = String::from_utf8(block).unwrap();
                let data: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                if !data.is_empty() {
                    return Some(serde_json::from_str(&data.join("\n")).unwrap());
                }
                continue;
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// All events to the end of the stream.
    pub(crate) fn events(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).collect()
    }
}
