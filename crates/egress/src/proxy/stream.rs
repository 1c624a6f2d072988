//! Bytes from one side to the other.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Meter;
use crate::http::{Chunks, Framing};

/// The size of the buffer of one direction. Two of them are what a connection costs.
const BUFFER: usize = 32 * 1024;
/// How much is read ahead of a head.
const AHEAD: usize = 8 * 1024;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A reader with the bytes that were read ahead.
pub(crate) struct Source {
    reader: Reader,
    ahead: Vec<u8>,
}

impl Source {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader, ahead: Vec::new() }
    }

    /// What was read and not yet used.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.ahead
    }

    /// Reads more; 0 at the end.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        self.ahead.reserve(AHEAD);
        self.reader.read_buf(&mut self.ahead).await
    }

    /// Takes the first bytes.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(count.min(self.ahead.len()));
        std::mem::replace(&mut self.ahead, rest)
    }

    /// Reads and drops what still comes, up to a limit.
    pub(super) async fn drain(&mut self, limit: usize) {
        let mut seen = 0;
        while seen < limit {
            self.ahead.clear();
            match self.fill().await {
                Ok(count) if count > 0 => seen += count,
                _ => return,
            }
        }
    }

    /// Whether nothing was read ahead and nothing has arrived: the state between two messages.
    pub(super) fn is_quiet(&mut self) -> bool {
        use std::pin::Pin;
        use std::task::{Context, Poll, Waker};
        if !self.ahead.is_empty() {
            return false;
        }
        let mut byte = [0];
        let mut buffer = tokio::io::ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        let polled: Poll<io::Result<()>> = Pin::new(&mut self.reader).poll_read(&mut context, &mut buffer);
        polled.is_pending()
    }
}

/// Copies until the end and closes the other side's direction.
pub(super) async fn pump(source: &mut Source, sink: &mut Writer, meter: &Meter) -> io::Result<()> {
    copy_to_end(source, sink, meter).await?;
    sink.shutdown().await
}

async fn copy_to_end(source: &mut Source, sink: &mut Writer, meter: &Meter) -> io::Result<()> {
    let ahead = std::mem::take(&mut source.ahead);
    if !ahead.is_empty() {
        sink.write_all(&ahead).await?;
        meter.add(ahead.len());
    }
    drop(ahead);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = source.reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        sink.write_all(buffer.get(..count).unwrap_or_default()).await?;
        meter.add(count);
    }
}

/// The side of a transfer that failed.
#[derive(Debug)]
pub(super) enum BodyError {
    Source,
    Sink,
}

/// Copies one body and nothing after it.
pub(super) async fn copy_body(
    source: &mut Source,
    sink: &mut Writer,
    framing: Framing,
    meter: &Meter,
) -> Result<(), BodyError> {
    match framing {
        Framing::Empty => Ok(()),
        Framing::Length(length) => copy_length(source, sink, length, meter).await,
        Framing::Chunked => copy_chunks(source, sink, meter).await,
        Framing::Close => copy_to_end(source, sink, meter).await.map_err(|_| BodyError::Source),
    }
}

async fn copy_length(
    source: &mut Source,
    sink: &mut Writer,
    length: u64,
    meter: &Meter,
) -> Result<(), BodyError> {
    let mut left = length;
    let ready = source.ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    let ahead = source.take(ready);
    sink.write_all(&ahead).await.map_err(|_| BodyError::Sink)?;
    meter.add(ahead.len());
    left -= ahead.len() as u64;
    let mut buffer = vec![0; BUFFER.min(usize::try_from(left).unwrap_or(BUFFER))];
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let part = buffer.get_mut(..want).unwrap_or_default();
        let count = source.reader.read(part).await.map_err(|_| BodyError::Source)?;
        if count == 0 {
            return Err(BodyError::Source);
        }
        sink.write_all(buffer.get(..count).unwrap_or_default()).await.map_err(|_| BodyError::Sink)?;
        meter.add(count);
        left -= count as u64;
    }
    Ok(())
}

async fn copy_chunks(source: &mut Source, sink: &mut Writer, meter: &Meter) -> Result<(), BodyError> {
    let mut chunks = Chunks::default();
    let mut out = Vec::new();
    loop {
        let used = chunks.advance(&source.ahead, &mut out).map_err(|_| BodyError::Source)?;
        source.ahead.drain(..used);
        sink.write_all(&out).await.map_err(|_| BodyError::Sink)?;
        meter.add(out.len());
        out.clear();
        if chunks.is_done() {
            return Ok(());
        }
        if source.fill().await.map_err(|_| BodyError::Source)? == 0 {
            return Err(BodyError::Source);
        }
    }
}
