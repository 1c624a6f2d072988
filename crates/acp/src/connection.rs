//! One connection: takes the client's messages, runs requests side by side, and ends with the client.

use std::rc::Rc;
use std::time::{Duration, Instant};

use pollux_domain::exit::{ExitKind, Received};
use pollux_front::rpc::{Incoming, RpcError};
use pollux_front::signals::Signals;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::methods;
use crate::prompt::{self, Prompt};
use crate::server::{Reply, Server};
use crate::session::{PromptAnswer, Session};

/// How long conversations may take to end when the client is gone; longer than each of them takes at most.
const LEAVING: Duration = Duration::from_millis(5_500);
/// A client that reads none of the last lines for so long is not waited for.
const FLUSHING: Duration = Duration::from_secs(2);

impl Server {
    /// Serves until the client leaves or a signal arrives.
    pub(crate) async fn serve(
        self: Rc<Self>,
        mut incoming: mpsc::Receiver<Incoming>,
        mut signals: Signals,
    ) -> ExitKind {
        let exit = loop {
            tokio::select! {
                biased;
                received = signals.next() => break Received::exit(received),
                () = self.client.outbox().client_gone() => break ExitKind::Success,
                message = incoming.recv() => match message {
                    Some(message) => self.take(message),
                    None => break ExitKind::Success,
                },
            }
        };
        self.leave().await;
        exit
    }

    /// Ends all sessions, within a time that a client waits.
    async fn leave(&self) {
        self.client.close();
        let end = Instant::now() + LEAVING;
        let sessions: Vec<Rc<Session>> = self.sessions.borrow().values().cloned().collect();
        sessions.iter().for_each(|session| session.abandon());
        for session in sessions {
            let _ = tokio::time::timeout_at(end.into(), session.over.cancelled()).await;
        }
        // Answers of requests that have just ended are written by tasks of their own.
        tokio::task::yield_now().await;
        let _ = self.client.outbox().drain(FLUSHING);
    }

    fn take(self: &Rc<Self>, message: Incoming) {
        match message {
            Incoming::Bad { id, error } => self.client.answer(&id, Err(error)),
            Incoming::Answer { id, result } => self.client.answered(id, result),
            Incoming::Notification { method, params } => self.notified(&method, &params),
            Incoming::Request { id, method, params } => self.request(id, method, params),
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                let session = params.get("sessionId").and_then(Value::as_str);
                if let Some(session) = session.and_then(|id| self.session(id).ok()) {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                let Some(id) = params.get("requestId") else { return };
                let is_it = |raw: &str| serde_json::from_str::<Value>(raw).is_ok_and(|raw| raw == *id);
                let running = self.running.borrow();
                running.iter().filter(|(raw, _)| is_it(raw)).for_each(|(_, token)| token.cancel());
            }
            // Unknown notifications are ignored, as the protocol asks.
            _ => {}
        }
    }

    fn request(self: &Rc<Self>, id: String, method: String, params: Value) {
        if method == "initialize" {
            return self.client.answer(&id, methods::initialize(self, &params));
        }
        if !self.client.is_known() {
            let error = RpcError::invalid_request("`initialize` must be the first request");
            return self.client.answer(&id, Err(error));
        }
        let cancelled = CancellationToken::new();
        self.running.borrow_mut().insert(id.clone(), cancelled.clone());
        if method == "session/prompt" {
            return self.prompt(id, &params, cancelled);
        }
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let reply = tokio::select! {
                biased;
                () = cancelled.cancelled() => Err(RpcError::cancelled()),
                reply = methods::call(&server, &method, &params) => reply,
            };
            server.running.borrow_mut().remove(&id);
            match reply {
                Ok(Reply { result, then }) => {
                    server.client.answer(&id, Ok(result));
                    if let Some(then) = then {
                        then();
                    }
                }
                Err(error) => server.client.answer(&id, Err(error)),
            }
        });
    }

    /// Begins a prompt at once, so that a cancel that follows finds it.
    fn prompt(self: &Rc<Self>, id: String, params: &Value, cancelled: CancellationToken) {
        let done = CancellationToken::new();
        let answer: PromptAnswer = {
            let (server, done) = (Rc::clone(self), done.clone());
            Box::new(move |result| {
                done.cancel();
                server.running.borrow_mut().remove(&id);
                server.client.answer(&id, result);
            })
        };
        let (session, prompt) = match self.read_prompt(params) {
            Ok(read) => read,
            Err(error) => return answer(Err(error)),
        };
        if !session.begin(prompt.typed, answer) {
            return;
        }
        prompt.unread.iter().for_each(|address| session.tell_unread(address));
        tokio::task::spawn_local(async move {
            tokio::select! {
                biased;
                () = done.cancelled() => {}
                () = cancelled.cancelled() => session.cancel(),
            }
        });
    }

    fn read_prompt(&self, params: &Value) -> Result<(Rc<Session>, Prompt), RpcError> {
        let session = self.session(crate::params::text(params, "sessionId")?)?;
        let prompt = prompt::read("prompt", params.get("prompt").unwrap_or(&Value::Null))?;
        Ok((session, prompt))
    }
}
