//! Streamable HTTP: the requests that rmcp's worker wants to make, with credentials and within bounds.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use pollux_config::groups::Secret;
use pollux_domain::json::parse_lenient;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse};
use tokio_util::sync::CancellationToken;

use super::{MAX_MESSAGE, events};
use crate::access::{Access, AccessError};

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";

/// Makes requests to one server.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    headers: Arc<HeaderMap>,
    access: Option<Arc<dyn Access>>,
    /// Cancelled when the server no longer sends events.
    lost: CancellationToken,
}

/// Why a request gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("could not reach the server")]
    Request(#[source] reqwest::Error),
    #[error("the response exceeds {} MB", MAX_MESSAGE >> 20)]
    TooLong,
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("header `{name}` has an invalid name or value")]
    Header { name: String },
    #[error("could not encode the message as JSON")]
    Message(#[source] serde_json::Error),
}

type Failed = StreamableHttpError<HttpError>;

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Self {
        StreamableHttpError::Client(error)
    }
}

impl Http {
    pub(crate) fn new(
        client: reqwest::Client,
        headers: &[(String, Secret)],
        access: Option<Arc<dyn Access>>,
    ) -> Result<Self, HttpError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = || HttpError::Header { name: name.clone() };
            let mut value = HeaderValue::from_str(value.reveal().trim()).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        }
        Ok(Self { client, headers: Arc::new(map), access, lost: CancellationToken::new() })
    }

    /// Cancelled when the server could not be asked for its events, as at the start or after it closed their stream.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Sends a request; refused credentials are renewed once.
    pub(crate) async fn send(
        &self,
        build: impl Fn(&reqwest::Client) -> RequestBuilder,
    ) -> Result<Response, HttpError> {
        let mut renewed = false;
        loop {
            let proof = match &self.access {
                // An Authorization header in the settings takes precedence.
                Some(access) if !self.headers.contains_key(reqwest::header::AUTHORIZATION) => {
                    access.headers().await?
                }
                Some(_) | None => HeaderMap::new(),
            };
            let request = build(&self.client).headers((*self.headers).clone()).headers(proof.clone());
            let response = request.send().await.map_err(|error| HttpError::Request(error.without_url()))?;
            if response.status() != StatusCode::UNAUTHORIZED || renewed || proof.is_empty() {
                return Ok(response);
            }
            renewed = true;
            match &self.access {
                Some(access) if access.refused(&proof).await? => {}
                Some(_) | None => return Ok(response),
            }
        }
    }

    async fn ask(
        &self,
        method: Method,
        uri: &str,
        body: Option<Vec<u8>>,
        session: Option<&str>,
        custom: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failed> {
        let response = self
            .send(|client| {
                let mut request =
                    client.request(method.clone(), uri).header(ACCEPT, format!("{JSON}, {EVENT_STREAM}"));
                for (name, value) in custom {
                    request = request.header(name, value);
                }
                if let Some(session) = session {
                    request = request.header(SESSION, session);
                }
                match &body {
                    Some(body) => request.header(CONTENT_TYPE, JSON).body(body.clone()),
                    None => request,
                }
            })
            .await?;
        refused(response)
    }

    /// Opens the stream of a server's own messages.
    async fn events(
        &self,
        uri: &str,
        session: Option<&str>,
        custom: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let response = self.ask(Method::GET, uri, None, session, custom).await?;
        match response.status() {
            // Upstream takes 404 here as "no such stream", too.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            status if !status.is_success() => Err(status_error(&response)),
            _ if has_type(&response, EVENT_STREAM) => Ok(events::of(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

/// Detects responses that require sign-in.
fn refused(response: Response) -> Result<Response, Failed> {
    let challenge = || {
        let header = response.headers().get(WWW_AUTHENTICATE);
        header.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge())))
        }
        StatusCode::FORBIDDEN if !challenge().is_empty() => {
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge(), None)))
        }
        _ => Ok(response),
    }
}

fn status_error(response: &Response) -> Failed {
    let retry = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    StreamableHttpError::HttpStatus(HttpStatusError::new(response.status().as_u16(), retry))
}

fn has_type(response: &Response, wanted: &str) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|given| given.as_bytes().starts_with(wanted.as_bytes()))
}

/// A whole answer, if it is not longer than a message may be.
pub(crate) async fn body(mut response: Response) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| HttpError::Request(error.without_url()))? {
        if body.len() + bytes.len() > MAX_MESSAGE {
            return Err(HttpError::TooLong);
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let text = serde_json::to_vec(&message).map_err(HttpError::Message)?;
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let session = session_id.as_deref();
        let response = self.ask(Method::POST, &uri, Some(text), session, &custom_headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session =
            response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if status.is_success() && has_type(&response, EVENT_STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(events::of(response), session));
        }
        let failure = (!status.is_success()).then(|| status_error(&response));
        let body = body(response).await?;
        match (parse_lenient::<ServerJsonRpcMessage>(&body), failure) {
            (Ok(message), None) => Ok(StreamableHttpPostResponse::Json(message, session)),
            // An error may come with a status of its own.
            (Ok(message @ ServerJsonRpcMessage::Error(_)), Some(_)) => {
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            (_, Some(failure)) => Err(failure),
            (Err(_), None) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            (Err(error), None) => {
                let begin: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                let text = format!("the response is not a JSON-RPC message ({error}): {begin}");
                Err(StreamableHttpError::UnexpectedServerResponse(text.into()))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        // A server that keeps its sessions may do so.
        self.ask(Method::DELETE, &uri, None, Some(&session_id), &custom_headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        mut custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            custom_headers.insert(HeaderName::from_static("last-event-id"), id);
        }
        let opened = self.events(&uri, session_id.as_deref(), &custom_headers).await;
        if opened.is_err() {
            self.lost.cancel();
        }
        opened
    }
}
