//! Signals end a headless run in order: cancel, finish the output, then exit. Also while the prompt is read.

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use pollux_domain::exit::{ExitKind, Received};
use pollux_front::signals::Signals;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// After this long, a message says that cancelling takes a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// What waits for the work of a headless run, and for signals. Until there is one, a signal kills the process.
pub(crate) struct Supervisor {
    pub(crate) runtime: Runtime,
    pub(crate) signals: Signals,
}

impl Supervisor {
    pub(crate) fn start() -> io::Result<Self> {
        // One thread is enough for waiting, and the cheapest to start.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        Ok(Self { runtime, signals })
    }

    /// Runs work that cannot be cancelled on a thread, which is left behind when a signal comes first.
    pub(crate) fn unless_signalled<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Received> {
        let Self { runtime, signals } = self;
        let (sender, done) = oneshot::channel();
        std::thread::spawn(move || drop(sender.send(work())));
        runtime.block_on(async {
            tokio::select! {
                biased;
                received = signals.next() => Err(received),
                // Without a result the work panicked, which was reported.
                done = done => Ok(done.ok()),
            }
        })
    }
}

/// Runs `work` to its end. The first signal cancels it; a second interrupt ends the process at once,
/// because pressing Ctrl+C twice means not waiting.
pub(crate) async fn supervise<T>(
    signals: &mut Signals,
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> (T, Option<Received>) {
    let mut work = std::pin::pin!(work);
    let first = tokio::select! {
        biased;
        result = &mut work => return (result, None),
        first = signals.next() => first,
    };
    cancel.cancel();
    tokio::select! {
        biased;
        result = &mut work => return (result, Some(first)),
        () = tokio::time::sleep(PATIENCE) => {
            // A closed stderr cannot be reported.
            let _ = writeln!(io::stderr(), "Cancelling...");
        }
        () = second_interrupt(signals) => std::process::exit(i32::from(ExitKind::Cancelled.code())),
    }
    tokio::select! {
        biased;
        result = &mut work => (result, Some(first)),
        () = second_interrupt(signals) => std::process::exit(i32::from(ExitKind::Cancelled.code())),
    }
}

async fn second_interrupt(signals: &mut Signals) {
    while signals.next().await != Received::Interrupt {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_cancels_the_work_and_is_remembered() {
        let mut signals = Signals::listen().unwrap();
        let cancel = CancellationToken::new();
        let work = async {
            let pid = std::process::id().to_string();
            let sent = tokio::process::Command::new("kill").args(["-HUP", &pid]).status().await.unwrap();
            assert!(sent.success());
            cancel.cancelled().await;
            "ended in order"
        };
        let (result, signal) = supervise(&mut signals, &cancel, work).await;
        assert_eq!((result, signal), ("ended in order", Some(Received::HangUp)));
    }

    #[tokio::test]
    async fn work_that_ends_by_itself_saw_no_signal() {
        let mut signals = Signals::listen().unwrap();
        let (result, signal) = supervise(&mut signals, &CancellationToken::new(), async { 7 }).await;
        assert_eq!((result, signal), (7, None));
    }
}
