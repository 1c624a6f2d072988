//! What is said while a turn runs, on its way to the session: the files it mentions are read first.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::event::{Op, RequestId};
use pollux_domain::failure::Failure;
use pollux_host::{Loaded, Services};
use tokio_util::sync::CancellationToken;

use crate::input::Typed;

type Reading<'a> = Pin<Box<dyn Future<Output = Option<Result<(Vec<Part>, Vec<String>), Failure>>> + 'a>>;

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

/// A text on its way.
struct Unsent {
    id: RequestId,
    typed: Typed,
    to: Destination,
}

/// Texts on their way, in order.
pub(super) struct Steering<'a> {
    /// Reads the files that a text mentions.
    read: Box<dyn Fn(String) -> Reading<'a> + 'a>,
    waiting: VecDeque<Unsent>,
    reading: Option<(Unsent, Reading<'a>)>,
}

impl<'a> Steering<'a> {
    pub(super) fn new(services: Arc<Services>, loaded: &'a Loaded) -> Self {
        Self::reading_with(move |text| {
            let services = Arc::clone(&services);
            Box::pin(async move { services.expand(&text, loaded, &CancellationToken::new()).await })
        })
    }

    fn reading_with(read: impl Fn(String) -> Reading<'a> + 'a) -> Self {
        Self { read: Box::new(read), waiting: VecDeque::new(), reading: None }
    }

    pub(super) fn add(&mut self, id: RequestId, typed: Typed, to: Destination) {
        self.waiting.push_back(Unsent { id, typed, to });
    }

    /// Takes a text back; false if it is not on its way.
    pub(super) fn withdraw(&mut self, prompt: &RequestId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|unsent| unsent.id != *prompt);
        self.waiting.len() < before || self.reading.take_if(|(unsent, _)| unsent.id == *prompt).is_some()
    }

    /// The prompts for the queue that did not reach it, in order.
    pub(super) fn into_prompts(self) -> impl Iterator<Item = (RequestId, Typed)> {
        let unsent = self.reading.map(|(unsent, _)| unsent).into_iter().chain(self.waiting);
        unsent.filter(|unsent| unsent.to == Destination::Queue).map(|unsent| (unsent.id, unsent.typed))
    }

    /// The next text. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (RequestId, Result<Read, Failure>) {
        loop {
            if self.reading.is_none() {
                let Some(unsent) = self.waiting.pop_front() else { std::future::pending().await };
                let reading = (self.read)(unsent.typed.text.clone());
                self.reading = Some((unsent, reading));
            }
            let Some((_, reading)) = &mut self.reading else { continue };
            let read = reading.await;
            let Some((Unsent { id, typed, to }, _)) = self.reading.take() else { continue };
            let Some(expanded) = read else { continue };
            let read = expanded.map(|(mut parts, passed_over)| {
                let Typed { text: typed, parts: attached, .. } = typed;
                parts.extend(attached);
                let op = match to {
                    Destination::Turn => Op::Steer { parts, typed },
                    Destination::Queue => Op::Prompt { parts, typed },
                };
                (op, passed_over)
            });
            return (id, read);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn prompts_whose_files_were_not_read_when_the_turn_ended_are_not_lost() {
        let mut steering = Steering::reading_with(|_| Box::pin(std::future::pending()));
        let texts = [
            ("1", "see @big.txt", Destination::Queue),
            ("2", "not that", Destination::Turn),
            ("3", "taken back", Destination::Queue),
            ("4", "then test", Destination::Queue),
        ];
        for (id, text, to) in texts {
            steering.add(RequestId::new(id), text.to_owned().into(), to);
        }
        assert!(tokio::time::timeout(Duration::from_millis(1), steering.next()).await.is_err());
        assert!(steering.withdraw(&RequestId::new("3")));
        let left: Vec<(String, String)> =
            steering.into_prompts().map(|(id, typed)| (id.to_string(), typed.text)).collect();
        assert_eq!(
            left,
            [("1", "see @big.txt"), ("4", "then test")].map(|(id, text)| (id.into(), text.into()))
        );
    }
}
