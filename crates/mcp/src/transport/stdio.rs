//! The stdio transport: one message per line; tolerates other output.

use std::io;
use std::sync::Arc;

use pollux_domain::json::parse_lenient;
use rmcp::RoleClient;
use rmcp::model::{ErrorData, NumberOrString, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::MAX_MESSAGE;
use crate::log::Log;

/// Bytes that are no message between two messages, until the server is given up.
const MAX_NOISE: usize = 1 << 20;
/// Bytes of a message that is too long which are read past, until the server is given up.
const MAX_SKIPPED: usize = 64 << 20;
/// Messages waiting to be written. While it is full nothing is read: a server that asks and never listens to
/// responses must not exhaust memory.
const WRITE_QUEUE: usize = 64;
/// How much of both ends of a line that is too long is kept to find the request that it answers.
const ENDS: usize = 256;

/// A connection through pipes.
pub(crate) struct StdioTransport<R> {
    output: BufReader<R>,
    line: Vec<u8>,
    /// Bytes of the line under way that were let go because it is too long.
    skipped: usize,
    tail: Vec<u8>,
    noise: usize,
    write: Option<mpsc::Sender<Vec<u8>>>,
    log: Arc<Log>,
}

impl<R: AsyncRead + Unpin> StdioTransport<R> {
    /// The transport, and the writer future, which the caller must run.
    pub(crate) fn new<W>(
        output: R,
        input: W,
        log: Arc<Log>,
    ) -> (Self, impl Future<Output = ()> + Send + use<R, W>)
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (write, queue) = mpsc::channel(WRITE_QUEUE);
        let transport = Self {
            output: BufReader::with_capacity(64 << 10, output),
            line: Vec::new(),
            skipped: 0,
            tail: Vec::new(),
            noise: 0,
            write: Some(write),
            log,
        };
        (transport, write_all(queue, input))
    }

    /// The next line that is worth a look; `None` when there will be none. Can be dropped and called again.
    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let available = self.output.fill_buf().await.ok()?;
            if available.is_empty() {
                return None;
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            let piece = available.get(..taken).unwrap_or_default();
            if self.skipped > 0 || self.line.len() + taken > MAX_MESSAGE {
                self.skipped += taken;
                self.tail.extend_from_slice(piece);
                let surplus = self.tail.len().saturating_sub(ENDS);
                self.tail.drain(..surplus);
                self.line.truncate(ENDS);
            } else {
                self.line.extend_from_slice(piece);
            }
            self.output.consume(taken);
            if self.skipped > MAX_SKIPPED {
                self.log.push("[unterminated message: the connection was closed]");
                return None;
            }
            if newline.is_none() {
                // A line that cannot become a message is noise already.
                if self.skipped == 0 && self.line.len() > MAX_NOISE && self.line.first() != Some(&b'{') {
                    self.log.push("[output that is not a message: the connection was closed]");
                    return None;
                }
                continue;
            }
            let found = self.end_line();
            // One large message must not keep its room for good.
            self.line.shrink_to(64 << 10);
            self.line.clear();
            match found {
                Some(message) => {
                    self.noise = 0;
                    return Some(message);
                }
                None if self.noise > MAX_NOISE => {
                    self.log.push("[too much output that is not a message: the connection was closed]");
                    return None;
                }
                None => {}
            }
        }
    }

    fn end_line(&mut self) -> Option<ServerJsonRpcMessage> {
        if std::mem::take(&mut self.skipped) > 0 {
            let tail = std::mem::take(&mut self.tail);
            let id = id_in(&tail).or_else(|| id_in(&self.line))?;
            let text = format!("the response exceeds {} MB", MAX_MESSAGE >> 20);
            let error = ErrorData::internal_error(text, None);
            return Some(ServerJsonRpcMessage::error(error, Some(NumberOrString::Number(id))));
        }
        let line = self.line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if line.first() == Some(&b'{') {
            // A wrong byte or half a character in a text is no reason to lose the message.
            if let Ok(message) = parse_lenient(line) {
                return Some(message);
            }
        }
        self.noise += line.len();
        let begin = line.get(..line.len().min(500)).unwrap_or_default();
        self.log.push(&format!("[stdout] {}", String::from_utf8_lossy(begin)));
        None
    }
}

/// The number of the request that a message answers, looked for in a piece of it.
fn id_in(piece: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(piece);
    let (_, after) = text.rsplit_once("\"id\":")?;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

async fn write_all(mut queue: mpsc::Receiver<Vec<u8>>, mut input: impl AsyncWrite + Unpin) {
    while let Some(message) = queue.recv().await {
        if input.write_all(&message).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleClient> for StdioTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let write = write.ok_or(io::ErrorKind::NotConnected)?;
            write.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let Some(write) = &self.write {
            drop(write.reserve().await.ok()?);
        }
        self.next().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> (StdioTransport<&[u8]>, Arc<Log>) {
        let log = Arc::new(Log::default());
        (StdioTransport::new(bytes, tokio::io::sink(), Arc::clone(&log)).0, log)
    }

    fn answer(id: u32, text: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\"{text}\"}}}}\n")
    }

    async fn ids(bytes: &[u8]) -> Vec<String> {
        let mut transport = reader(bytes).0;
        let mut ids = Vec::new();
        while let Some(message) = transport.next().await {
            ids.push(match message {
                ServerJsonRpcMessage::Response(response) => response.id.to_string(),
                ServerJsonRpcMessage::Error(error) => format!("error {}", error.id.unwrap()),
                other => format!("{other:?}"),
            });
        }
        ids
    }

    #[tokio::test]
    async fn half_a_character_does_not_cost_the_message() {
        let text = [answer(1, "cut \\ud83d"), answer(2, "\\uDE00 é")].concat();
        assert_eq!(ids(text.as_bytes()).await, ["1", "2"]);
        assert_eq!(ids(&[answer(3, "x").as_bytes(), b"{\"\xff\": 1}\n"].concat()).await, ["3"]);
    }

    #[tokio::test]
    async fn noise_between_messages_is_passed_over_and_kept_for_people() {
        let text = format!(
            "starting...\n\n{{\"not\": \"ours\"}}\n{}npm notice\r\n{}",
            answer(1, "a"),
            answer(2, "b")
        );
        assert_eq!(ids(text.as_bytes()).await, ["1", "2"]);
        let (mut transport, log) = reader(text.as_bytes());
        transport.next().await.unwrap();
        assert_eq!(log.last(2), ["[stdout] starting...", "[stdout] {\"not\": \"ours\"}"]);
    }

    #[tokio::test]
    async fn a_wrong_byte_does_not_lose_a_message() {
        let mut bytes = answer(1, "x").into_bytes();
        let at = bytes.iter().position(|byte| *byte == b'x').unwrap();
        bytes[at] = 0xff;
        assert_eq!(ids(&bytes).await, ["1"]);
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_fails_its_request_and_no_other() {
        let long = "y".repeat(MAX_MESSAGE);
        let head = answer(3, &long);
        let tail = format!("{{\"result\":{{\"text\":\"{long}\"}},\"jsonrpc\":\"2.0\",\"id\":4}}\n");
        let text = format!("{head}{tail}{}", answer(5, "z"));
        assert_eq!(ids(text.as_bytes()).await, ["error 3", "error 4", "5"]);
    }

    #[tokio::test]
    async fn endless_noise_ends_the_connection_early() {
        struct Endless(&'static [u8], usize);
        impl AsyncRead for Endless {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                while buffer.remaining() >= self.0.len() {
                    let piece = self.0;
                    buffer.put_slice(piece);
                    self.1 += piece.len();
                }
                std::task::Poll::Ready(Ok(()))
            }
        }
        for (piece, most) in [
            (&b"noise\n"[..], 2 << 20),
            (b"x", 2 << 20),
            (b"{\"a\":\"", MAX_SKIPPED + MAX_MESSAGE + (1 << 20)),
        ] {
            let (mut transport, _) =
                StdioTransport::new(Endless(piece, 0), tokio::io::sink(), Arc::default());
            assert!(transport.next().await.is_none());
            let read = transport.output.get_ref().1;
            assert!(read <= most, "{read} bytes of {piece:?}");
            assert!(transport.line.capacity() <= 2 * MAX_MESSAGE);
        }
    }
}
