//! Bodies of responses: a document, or events as they happen.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// A comment is sent when nothing else was for so long, so that proxies keep the connection.
const SILENCE: Duration = Duration::from_secs(15);
const COMMENT: &str = ": keep-alive\n\n";

/// Events that wait for a client. The sender waits when it is full.
const WAITING: usize = 16;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Document(Option<Bytes>),
    Events { receiver: mpsc::Receiver<String>, silence: Pin<Box<Sleep>> },
}

/// Sends events to one client.
#[derive(Debug, Clone)]
pub struct EventSender(mpsc::Sender<String>);

/// A stream of events that ends when its sender is dropped.
pub fn events() -> (EventSender, mpsc::Receiver<String>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (EventSender(sender), receiver)
}

impl EventSender {
    /// Sends one event; false if the client is gone.
    pub async fn send(&self, data: &str) -> bool {
        let mut text = String::with_capacity(data.len() + 8);
        for line in data.lines() {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        self.0.send(text).await.is_ok()
    }

    /// Completes when the client is gone.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

impl ResponseBody {
    pub(crate) fn of_events(receiver: mpsc::Receiver<String>) -> Self {
        Self::Events { receiver, silence: Box::pin(sleep(SILENCE)) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Document(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events { receiver, silence } => {
                let text = match receiver.poll_recv(context) {
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Ready(Some(text)) => text,
                    Poll::Pending => {
                        std::task::ready!(silence.as_mut().poll(context));
                        COMMENT.to_owned()
                    }
                };
                silence.as_mut().reset(Instant::now() + SILENCE);
                Poll::Ready(Some(Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Document(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Document(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events { .. } => SizeHint::default(),
        }
    }
}
