//! Lines from a socket, of limited length.

use pollux_front::rpc::{Incoming, message};
use pollux_front::stdio::PartialLine;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Reads messages from one end of a connection.
pub(crate) struct Messages<R> {
    input: BufReader<R>,
    partial: PartialLine,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::new(input), partial: PartialLine::default() }
    }

    /// The next message; `None` at the end of the connection. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self, longest: usize) -> Option<Incoming> {
        loop {
            let found = self.input.fill_buf().await.ok()?;
            if found.is_empty() {
                return None;
            }
            let (used, line) = self.partial.take(found, longest);
            self.input.consume(used);
            if let Some(message) = line.and_then(|line| message(&line, longest)) {
                return Some(message);
            }
        }
    }
}
