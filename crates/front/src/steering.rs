//! What is said while a turn runs, on its way to the session: the files it mentions are read first.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use pollux_domain::event::{Op, RequestId};
use pollux_domain::failure::Failure;
use pollux_host::{Loaded, Services};
use tokio_util::sync::CancellationToken;

use crate::input::Typed;

type Reading<'a> = Pin<Box<dyn Future<Output = Option<Result<Read, Failure>>> + 'a>>;

/// A text as an operation, and lines about files that were not read.
type Read = (Op, Vec<String>);

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// To the model, with the next request of the turn.
    Turn,
    /// To the prompts that wait for the end of the turn.
    Queue,
}

/// Texts on their way, in order.
pub(super) struct Steering<'a> {
    services: Arc<Services>,
    loaded: &'a Loaded,
    waiting: VecDeque<(RequestId, Typed, Destination)>,
    reading: Option<(RequestId, Reading<'a>)>,
}

impl<'a> Steering<'a> {
    pub(super) fn new(services: Arc<Services>, loaded: &'a Loaded) -> Self {
        Self { services, loaded, waiting: VecDeque::new(), reading: None }
    }

    pub(super) fn add(&mut self, id: RequestId, typed: Typed, to: Destination) {
        self.waiting.push_back((id, typed, to));
    }

    /// Takes a text back; false if it is not on its way.
    pub(super) fn withdraw(&mut self, prompt: &RequestId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(id, ..)| id != prompt);
        self.waiting.len() < before || self.reading.take_if(|(id, _)| id == prompt).is_some()
    }

    /// The next text. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (RequestId, Result<Read, Failure>) {
        loop {
            if self.reading.is_none() {
                let Some((id, typed, to)) = self.waiting.pop_front() else { std::future::pending().await };
                let (services, loaded) = (Arc::clone(&self.services), self.loaded);
                let reading = async move {
                    let Typed { text: typed, parts: attached, .. } = typed;
                    let expanded = services.expand(&typed, loaded, &CancellationToken::new()).await?;
                    Some(expanded.map(|(mut parts, passed_over)| {
                        parts.extend(attached);
                        let op = match to {
                            Destination::Turn => Op::Steer { parts, typed },
                            Destination::Queue => Op::Prompt { parts, typed },
                        };
                        (op, passed_over)
                    }))
                };
                self.reading = Some((id, Box::pin(reading)));
            }
            let Some((_, reading)) = &mut self.reading else { continue };
            let read = reading.await;
            let Some((id, _)) = self.reading.take() else { continue };
            if let Some(read) = read {
                return (id, read);
            }
        }
    }
}
