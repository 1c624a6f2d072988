//! Sends requests to a server, with timeout, cancellation and progress.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::Person;
use rmcp::ErrorData;
use rmcp::model::{ClientRequest, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::problem::describe;
use crate::rights::{Rights, is_about_rights};
use crate::server::{Progress, Server, ServerUse, Status};
use crate::transport::erased::AnyTransportError;
use crate::transport::http::HttpError;

/// Upper limit for a call that reports progress, as a multiple of its timeout.
const MAX_TIMEOUT_FACTOR: u32 = 10;

/// Receives progress messages.
pub(crate) type LiveOutput = Arc<dyn Fn(&str) + Send + Sync>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("MCP server '{server}' is not connected: {why}")]
    NotConnected { server: String, why: String },
    #[error("MCP server '{server}' exited before it responded{}", last_output(log))]
    Ended { server: String, log: Vec<String> },
    #[error("MCP server '{server}' did not respond within {} s", limit.as_secs_f64())]
    TimedOut { server: String, limit: Duration },
    #[error("MCP server '{server}' returned an error: {message} (code {code})")]
    Refused { server: String, code: i32, message: String },
    #[error("{text}")]
    SignIn { text: String, challenge: String },
    #[error("MCP server '{server}' requires additional OAuth scopes, which were not granted")]
    NoRights { server: String },
    #[error("MCP server '{server}': {why}")]
    Transport { server: String, why: String },
    #[error("cancelled")]
    Cancelled,
}

fn last_output(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last output:\n{}", log.join("\n")) }
}

impl ServerUse {
    /// Sends a request and waits for the response, as JSON. If the server requires more scopes, the user may grant
    /// them, once.
    pub(crate) async fn request(
        &self,
        request: ClientRequest,
        cancel: &CancellationToken,
        live: Option<&LiveOutput>,
    ) -> Result<Value, RequestError> {
        let _running = self.users.runs(&self.user);
        match self.try_request(request.clone(), cancel, live).await {
            Err(RequestError::SignIn { challenge, .. }) => {
                let person = self.user.person();
                self.widen(&challenge, person.as_deref(), cancel).await?;
                self.try_request(request, cancel, live).await
            }
            other => other,
        }
    }
}

impl Server {
    async fn try_request(
        &self,
        request: ClientRequest,
        cancel: &CancellationToken,
        live: Option<&LiveOutput>,
    ) -> Result<Value, RequestError> {
        let state = self.ready(cancel).await;
        if cancel.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        let Some(peer) = state.peer else {
            let why = match state.status {
                Status::Connecting => {
                    format!("no response {} s after it was started", state.since.elapsed().as_secs())
                }
                Status::Connected | Status::Disconnected => state.problem.unwrap_or_default(),
            };
            return Err(RequestError::NotConnected { server: self.name().to_owned(), why });
        };
        self.ask(&peer, request, cancel, live).await
    }

    pub(crate) async fn ask(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
        cancel: &CancellationToken,
        live: Option<&LiveOutput>,
    ) -> Result<Value, RequestError> {
        let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let mut handle = sent.await.map_err(|error| self.failed(error))?;
        let quiet: LiveOutput = Arc::new(|_: &str| {});
        let progress = Arc::new(Progress { tell: live.cloned().unwrap_or(quiet), made: Notify::new() });
        let token = handle.progress_token.clone();
        self.watch(token.clone(), Arc::clone(&progress));
        let limit = self.config.timeout;
        let last = Instant::now() + limit * MAX_TIMEOUT_FACTOR;
        let mut deadline = Instant::now() + limit;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break Some(answer),
                () = cancel.cancelled() => break None,
                () = progress.made.notified() => deadline = last.min(Instant::now() + limit),
                () = sleep_until(deadline) => break None,
            }
        };
        self.unwatch(&token);
        match answer {
            Some(Ok(answer)) => {
                answer.map_err(|error| self.failed(error)).and_then(|answer| self.json(answer))
            }
            Some(Err(_)) => Err(self.failed(ServiceError::TransportClosed)),
            None => {
                let stopped = cancel.is_cancelled();
                let reason = if stopped { "cancelled by the user" } else { "timed out" };
                // The server may ignore the cancellation.
                let told = handle.cancel(Some(reason.to_owned()));
                let _ = tokio::time::timeout(Duration::from_millis(500), told).await;
                let server = self.name().to_owned();
                Err(if stopped { RequestError::Cancelled } else { RequestError::TimedOut { server, limit } })
            }
        }
    }

    fn json(&self, answer: ServerResult) -> Result<Value, RequestError> {
        serde_json::to_value(answer).map_err(|error| RequestError::Transport {
            server: self.name().to_owned(),
            why: format!("invalid response ({error})"),
        })
    }

    fn failed(&self, error: ServiceError) -> RequestError {
        if let ServiceError::TransportSend(sent) = &error
            && let Some(challenge) = challenge(&*sent.error)
        {
            return self.wants_sign_in(challenge);
        }
        let server = self.name().to_owned();
        match error {
            ServiceError::McpError(ErrorData { code, message, .. }) => {
                RequestError::Refused { server, code: code.0, message: message.chars().take(2000).collect() }
            }
            ServiceError::TransportClosed => RequestError::Ended { server, log: self.log.last(5) },
            ServiceError::Cancelled { .. } => RequestError::Cancelled,
            ServiceError::TransportSend(sent) => {
                RequestError::Transport { server, why: self.log.hidden(&of_transport(&sent)) }
            }
            other => RequestError::Transport { server, why: self.log.hidden(&describe(&other)) },
        }
    }
}

/// What a server said to a stranger, if that is behind an error.
fn challenge<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e str> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(wanted) = error.downcast_ref::<AuthRequiredError>() {
            return Some(&wanted.www_authenticate_header);
        }
        if let Some(wanted) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(&wanted.www_authenticate_header);
        }
        source = error.source();
    }
    None
}

/// What went wrong on the way, in our own words where they are ours; the library's begin with names of types and
/// leave the cause out.
pub(crate) fn of_transport(error: &DynamicTransportError) -> String {
    let erased = error.error.downcast_ref::<AnyTransportError>();
    match erased.and_then(AnyTransportError::get::<StreamableHttpError<HttpError>>) {
        Some(StreamableHttpError::Client(own)) => describe(own),
        Some(_) | None => describe(&*error.error),
    }
}

impl Server {
    /// The message for requests that require sign-in.
    pub(crate) fn wants_sign_in(&self, challenge: &str) -> RequestError {
        let name = self.name();
        let text = if is_about_rights(challenge) {
            format!(
                "MCP server '{name}' requires additional OAuth scopes. Grant them using: pollux mcp auth {name}"
            )
        } else {
            format!("MCP server '{name}' requires authentication using: pollux mcp auth {name}")
        };
        RequestError::SignIn { text, challenge: challenge.to_owned() }
    }

    /// Tries to get what a refused request lacks. `Ok`: it may be sent again.
    pub(crate) async fn widen(
        &self,
        challenge: &str,
        person: Option<&dyn Person>,
        cancel: &CancellationToken,
    ) -> Result<(), RequestError> {
        let Some(access) = self.access.as_ref().filter(|_| is_about_rights(challenge)) else {
            return Err(self.wants_sign_in(challenge));
        };
        match access.widen(challenge, person, cancel).await {
            Ok(Rights::WiderScopes) => Ok(()),
            Ok(Rights::SignIn) => Err(self.wants_sign_in(challenge)),
            Ok(Rights::Refused) if cancel.is_cancelled() => Err(RequestError::Cancelled),
            Ok(Rights::Refused) => Err(RequestError::NoRights { server: self.name().to_owned() }),
            Err(error) => {
                Err(RequestError::Transport { server: self.name().to_owned(), why: error.to_string() })
            }
        }
    }
}
