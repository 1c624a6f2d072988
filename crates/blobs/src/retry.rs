//! Attempts and pauses, for every remote store.

use std::future::Future;
use std::time::Duration;

use crate::fault::Fault;
use crate::port::{StoreErrorKind, Version};

/// The pauses between attempts.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    pauses: Vec<Duration>,
}

/// How one attempt to write ended, as far as the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempted {
    Done(Version),
    /// The condition does not hold.
    Refused,
    /// What was begun is no longer known to the server; perhaps because it was finished.
    Gone,
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    Done(Version),
    Refused,
}

impl Retry {
    pub(crate) fn new(pauses: Vec<Duration>) -> Self {
        Self { pauses }
    }

    /// Repeats an attempt that changes nothing, or the same every time.
    pub(crate) async fn run<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut pauses = self.pauses.iter();
        loop {
            match (attempt().await, pauses.next()) {
                (Err(fault), Some(pause)) if fault.kind == StoreErrorKind::Unavailable => {
                    tokio::time::sleep(*pause).await;
                }
                (result, _) => return result,
            }
        }
    }

    /// Repeats a write. When an attempt failed without a clear answer it may have taken effect, and then the next one
    /// is refused because of our own write: `read_back` finds out before that is called a conflict. It gives the
    /// version of the object if the write took effect.
    pub(crate) async fn write<F, G>(
        &self,
        mut attempt: impl FnMut() -> F,
        mut read_back: impl FnMut() -> G,
    ) -> Result<Written, Fault>
    where
        F: Future<Output = Result<Attempted, Fault>>,
        G: Future<Output = Result<Option<Version>, Fault>>,
    {
        let mut pauses = self.pauses.iter();
        let mut in_doubt = false;
        loop {
            match (attempt().await, pauses.next()) {
                (Ok(Attempted::Done(version)), _) => return Ok(Written::Done(version)),
                (Ok(Attempted::Refused), _) if !in_doubt => return Ok(Written::Refused),
                (Ok(Attempted::Refused), _) => {
                    let found = self.run(&mut read_back).await?;
                    return Ok(found.map_or(Written::Refused, Written::Done));
                }
                (Ok(Attempted::Gone), _) => {
                    let found = self.run(&mut read_back).await?;
                    return found.map(Written::Done).ok_or_else(|| Fault::later("the upload was lost"));
                }
                (Err(fault), Some(pause)) if fault.kind == StoreErrorKind::Unavailable => {
                    in_doubt = true;
                    tokio::time::sleep(*pause).await;
                }
                (Err(fault), _) => return Err(fault),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn retry() -> Retry {
        Retry::new(vec![Duration::ZERO; 3])
    }

    fn version() -> Version {
        Version::new("7")
    }

    #[tokio::test]
    async fn only_failures_that_may_pass_are_repeated_and_only_so_often() {
        for (kind, expected) in [
            (StoreErrorKind::Unavailable, 4),
            (StoreErrorKind::Denied, 1),
            (StoreErrorKind::NoBucket, 1),
            (StoreErrorKind::Unusable, 1),
        ] {
            let count = Cell::new(0);
            let result: Result<(), Fault> = retry()
                .run(async || {
                    count.set(count.get() + 1);
                    Err(Fault::new(kind, "x"))
                })
                .await;
            assert_eq!((result.is_err(), count.get()), (true, expected), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_a_conflict_unless_an_earlier_attempt_may_have_been_ours() {
        // First outcome fails or not, then a refusal; what is read back decides only after a failure.
        for (fails_first, ours, expected) in [
            (false, true, Written::Refused),
            (true, false, Written::Refused),
            (true, true, Written::Done(version())),
        ] {
            let count = Cell::new(0);
            let attempt = async || {
                count.set(count.get() + 1);
                if fails_first && count.get() == 1 {
                    Err(Fault::later("lost"))
                } else {
                    Ok(Attempted::Refused)
                }
            };
            let written = retry().write(attempt, async || Ok(ours.then(version))).await;
            assert_eq!(written, Ok(expected), "{fails_first} {ours}");
        }
    }

    #[tokio::test]
    async fn an_upload_that_is_gone_was_finished_or_lost() {
        let gone = async || Ok(Attempted::Gone);
        assert_eq!(retry().write(gone, async || Ok(Some(version()))).await, Ok(Written::Done(version())));
        let lost = retry().write(gone, async || Ok(None)).await.unwrap_err();
        assert_eq!(lost.kind, StoreErrorKind::Unavailable);
    }
}
