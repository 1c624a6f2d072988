//! Holds calls of tools back while it is not certain that this server still has the task.

use std::sync::Arc;

use pollux_domain::{BoxFuture, JsonObject};
use pollux_host::request::{CallbackError, CallbackPort, Callbacks, client_hooks};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Whether calls may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    May,
    /// The store does not answer.
    Wait,
    /// Another server has the task.
    Never,
}

/// The guard of one task.
#[derive(Debug)]
pub(crate) struct Guard(watch::Sender<Calls>);

struct Port(watch::Receiver<Calls>);

impl Guard {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Calls::May))
    }

    /// Changes what calls may do.
    pub(crate) fn set(&self, calls: Calls) {
        self.0.send_if_modified(|now| {
            let is_new = *now != calls && *now != Calls::Never;
            if is_new {
                *now = calls;
            }
            is_new
        });
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

impl CallbackPort for Port {
    fn call<'a>(
        &'a self,
        _id: &'a str,
        _call: Option<&'a str>,
        _input: JsonObject,
    ) -> BoxFuture<'a, Result<JsonObject, CallbackError>> {
        let mut calls = self.0.clone();
        Box::pin(async move {
            let decided = calls.wait_for(|calls| *calls != Calls::Wait).await.map(|calls| *calls);
            match decided {
                Ok(Calls::May) => Ok(JsonObject::new()),
                // A guard that nobody sets any more belongs to a lease that was given up.
                _ => Err(CallbackError::NotAsked("another server is running this task".to_owned())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_wait_while_the_lease_is_in_doubt_and_never_start_without_it() {
        let guard = Guard::new();
        let port = Port(guard.0.subscribe());
        let call = || port.call("lease", None, JsonObject::new());
        assert!(call().await.is_ok());
        guard.set(Calls::Wait);
        let mut waiting = call();
        tokio::select! {
            _ = &mut waiting => panic!("it must wait"),
            () = tokio::time::sleep(std::time::Duration::from_secs(60)) => {}
        }
        guard.set(Calls::May);
        assert!(waiting.await.is_ok());
        guard.set(Calls::Never);
        guard.set(Calls::May);
        assert!(call().await.is_err());
        assert!(guard.callbacks().is_some());
    }
}
