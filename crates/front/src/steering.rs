//! What the person says to a running turn, on its way to the session: the files it mentions are read first.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use pollux_domain::event::{Op, RequestId};
use pollux_domain::failure::Failure;
use pollux_host::{Loaded, Services};
use tokio_util::sync::CancellationToken;

type Reading<'a> = Pin<Box<dyn Future<Output = Option<Result<Read, Failure>>> + 'a>>;

/// A text as an operation, and lines about files that were not read.
type Read = (Op, Vec<String>);

/// Texts on their way, in order.
pub(super) struct Steering<'a> {
    services: Arc<Services>,
    loaded: &'a Loaded,
    waiting: VecDeque<(RequestId, String)>,
    reading: Option<(RequestId, Reading<'a>)>,
}

impl<'a> Steering<'a> {
    pub(super) fn new(services: Arc<Services>, loaded: &'a Loaded) -> Self {
        Self { services, loaded, waiting: VecDeque::new(), reading: None }
    }

    pub(super) fn add(&mut self, id: RequestId, typed: String) {
        self.waiting.push_back((id, typed));
    }

    /// Takes a text back; false if it is not on its way.
    pub(super) fn withdraw(&mut self, prompt: &RequestId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(id, _)| id != prompt);
        self.waiting.len() < before || self.reading.take_if(|(id, _)| id == prompt).is_some()
    }

    /// The next text. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (RequestId, Result<Read, Failure>) {
        loop {
            if self.reading.is_none() {
                let Some((id, typed)) = self.waiting.pop_front() else { std::future::pending().await };
                let (services, loaded) = (Arc::clone(&self.services), self.loaded);
                let reading = async move {
                    let expanded = services.expand(&typed, loaded, &CancellationToken::new()).await?;
                    Some(expanded.map(|(parts, passed_over)| (Op::Steer { parts, typed }, passed_over)))
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
