//! The HTTP transport of the protocol's first version: one stream of events in, a POST for each message out.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::AuthRequiredError;
use sse_stream::{Error as SseError, Sse};

use super::events;
use super::http::{Http, HttpError};

/// A connection.
pub(crate) struct SseTransport {
    http: Http,
    /// Where messages go.
    endpoint: Url,
    events: Option<BoxStream<'static, Result<Sse, SseError>>>,
    waiting: VecDeque<ServerJsonRpcMessage>,
}

/// Why a message did not arrive, or no stream began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SseTransportError {
    #[error("Auth required")]
    AuthRequired(#[source] AuthRequiredError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("HTTP {0}")]
    Status(u16),
    #[error("the response is not an event stream")]
    NoStream,
    #[error("the stream ended before it announced a message endpoint")]
    NoEndpoint,
    #[error("the stream announced a message endpoint on another server")]
    ForeignEndpoint,
}

impl SseTransport {
    /// Opens the stream and waits for the address that it begins with.
    pub(crate) async fn open(http: Http, url: &str) -> Result<Self, SseTransportError> {
        let base = Url::parse(url).map_err(|_| SseTransportError::NoEndpoint)?;
        let response =
            http.send(|client| client.get(base.clone()).header(ACCEPT, "text/event-stream")).await?;
        check(&response)?;
        let kind =
            response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
        if !kind.starts_with(b"text/event-stream") {
            return Err(SseTransportError::NoStream);
        }
        let mut events = events::of(response);
        while let Some(Ok(event)) = events.next().await {
            if event.event.as_deref() != Some("endpoint") {
                continue;
            }
            let endpoint = base.join(event.data.as_deref().unwrap_or_default().trim());
            let endpoint = endpoint.map_err(|_| SseTransportError::NoEndpoint)?;
            // Credentials go along with every message.
            if endpoint.origin() != base.origin() {
                return Err(SseTransportError::ForeignEndpoint);
            }
            return Ok(Self { http, endpoint, events: Some(events), waiting: VecDeque::new() });
        }
        Err(SseTransportError::NoEndpoint)
    }
}

fn check(response: &reqwest::Response) -> Result<(), SseTransportError> {
    let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    match (response.status(), header) {
        (StatusCode::UNAUTHORIZED, header) => {
            let challenge = header.unwrap_or_default().to_owned();
            Err(SseTransportError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            Err(SseTransportError::AuthRequired(AuthRequiredError::new(challenge.to_owned())))
        }
        (status, _) if !status.is_success() => Err(SseTransportError::Status(status.as_u16())),
        _ => Ok(()),
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseTransportError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (http, endpoint) = (self.http.clone(), self.endpoint.clone());
        async move {
            let text = serde_json::to_vec(&item).map_err(HttpError::Message)?;
            let build = |client: &reqwest::Client| {
                client.post(endpoint.clone()).header(CONTENT_TYPE, "application/json").body(text.clone())
            };
            check(&http.send(build).await?)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let event = self.events.as_mut()?.next().await?.ok()?;
            if event.event.as_deref().is_none_or(|name| name == "message") {
                let data = event.data.unwrap_or_default();
                self.waiting.extend(serde_json::from_str(&data).ok());
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = None;
        Ok(())
    }
}
