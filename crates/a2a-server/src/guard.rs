//! Holds calls of tools back while it is not certain that this server still has the task.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::{BoxFuture, JsonObject};
use pollux_host::request::{CallbackError, CallbackPort, Callbacks, client_hooks};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

/// Without a renewal for so long no call may start: another server may be about to take the task.
pub(crate) const DOUBT: Duration = Duration::from_secs(12);

/// Whether calls may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// No other server uses the store.
    Always,
    /// Until this moment; a renewal moves it. Each call looks at the clock itself, because the renewal may hang.
    Until(Instant),
    /// Another server has the task.
    Never,
}

/// The guard of one task.
#[derive(Debug)]
pub(crate) struct Guard(watch::Sender<Calls>);

struct Port(watch::Receiver<Calls>);

impl Guard {
    /// The guard of a lease that cannot be lost.
    pub(crate) fn open() -> Self {
        Self(watch::Sender::new(Calls::Always))
    }

    /// The guard of a lease that was asked for at this moment.
    pub(crate) fn since(sent: Instant) -> Self {
        Self(watch::Sender::new(Calls::Until(sent + DOUBT)))
    }

    /// The lease was renewed with a request that was sent at this moment.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.0.send_if_modified(|calls| match calls {
            Calls::Until(end) if *end < sent + DOUBT => {
                *end = sent + DOUBT;
                true
            }
            _ => false,
        });
    }

    /// No call may start any more.
    pub(crate) fn close(&self) {
        self.0.send_replace(Calls::Never);
    }

    /// Whether a call may start now.
    pub(crate) fn is_open(&self) -> bool {
        self.0.borrow().may_start() == Some(true)
    }

    /// The guard as a hook that runs before every call.
    pub(crate) fn callbacks(&self) -> Option<Callbacks> {
        let port: Arc<dyn CallbackPort> = Arc::new(Port(self.0.subscribe()));
        let events =
            json!({"PreToolUse": [{"hookCallbackIds": ["lease"], "timeout": 3600, "onFailure": "block"}]});
        let Value::Object(events) = events else { return None };
        client_hooks(&port, &events).ok().map(|(callbacks, _)| callbacks)
    }
}

impl Calls {
    /// `None` while that is in doubt.
    fn may_start(self) -> Option<bool> {
        match self {
            Self::Always => Some(true),
            Self::Until(end) => (Instant::now() < end).then_some(true),
            Self::Never => Some(false),
        }
    }
}

impl CallbackPort for Port {
    fn call<'a>(
        &'a self,
        _id: &'a str,
        _call: Option<&'a str>,
        _input: JsonObject,
    ) -> BoxFuture<'a, Result<JsonObject, CallbackError>> {
        let mut calls = self.0.clone();
        Box::pin(async move {
            loop {
                let known = *calls.borrow_and_update();
                match known.may_start() {
                    Some(true) => return Ok(JsonObject::new()),
                    None if calls.changed().await.is_ok() => {}
                    // A guard without an owner belongs to a lease that was given up.
                    _ => {
                        let why = "another server is running this task".to_owned();
                        return Err(CallbackError::NotAsked(why));
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_wait_while_the_lease_is_in_doubt_and_never_start_without_it() {
        let guard = Guard::since(Instant::now());
        let port = Port(guard.0.subscribe());
        let call = || port.call("lease", None, JsonObject::new());
        assert!(call().await.is_ok());
        // Nobody says anything: the time alone decides.
        tokio::time::advance(DOUBT).await;
        let mut waiting = call();
        tokio::select! {
            _ = &mut waiting => panic!("it must wait"),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        guard.renewed(Instant::now());
        assert!(waiting.await.is_ok());
        guard.close();
        guard.renewed(Instant::now());
        assert!(call().await.is_err());
        assert!(guard.callbacks().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_the_moment_it_was_sent() {
        let guard = Guard::since(Instant::now());
        let sent = Instant::now();
        tokio::time::advance(DOUBT + Duration::from_secs(1)).await;
        guard.renewed(sent);
        assert!(!guard.is_open(), "its answer took longer than the lease is certain");
        guard.renewed(Instant::now());
        assert!(guard.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_never_wait_where_no_other_server_is() {
        let guard = Guard::open();
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(guard.is_open());
    }
}
