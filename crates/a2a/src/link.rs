//! The HTTP connection to an agent: requests with credentials, and bounded responses.

use std::collections::VecDeque;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::json::parse_wire;
use pollux_domain::percent;
use pollux_domain::terminal_text::one_line;
use pollux_net::sse::{Item, Parser, SseError};
use pollux_net::transport::describe;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::access::{Access, AccessError};
use crate::card::{Endpoint, Transport};
use crate::protocol::{self, Dialect, Ids, Message, Part, Role, Update, Version};

/// How long a server may be silent; upstream's value.
const IDLE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Size limits of a card, of one event, and of a complete answer.
pub(crate) const MAX_CARD: usize = 1024 * 1024;
const MAX_EVENT: usize = 8 * 1024 * 1024;
const MAX_ANSWER: usize = 128 * 1024 * 1024;
/// How often credentials are looked up again when they are refused; upstream's value.
const MAX_RETRIES: usize = 2;
/// Characters of a server's complaint that are passed on.
const MAX_COMPLAINT: usize = 500;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("could not reach {origin}: {why}")]
    Unreachable { origin: String, why: String },
    #[error("no response from {0} for {minutes} minutes", minutes = IDLE_LIMIT.as_secs() / 60)]
    Silent(String),
    #[error("{origin} requires credentials (HTTP {status}); set `auth` in the agent's definition")]
    Credentials { origin: String, status: u16 },
    #[error("{origin} rejected the credentials (HTTP {status})")]
    Refused { origin: String, status: u16 },
    #[error("{origin} responded with HTTP {status}{complaint}")]
    Status { origin: String, status: u16, complaint: String },
    #[error("the agent returned an error: {0}")]
    Agent(String),
    #[error("response from {0} exceeds the size limit")]
    TooLarge(String),
    #[error("invalid response from {origin}: {why}")]
    Protocol { origin: String, why: String },
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// The connection to one agent.
pub(crate) struct Link<'a> {
    pub(crate) http: &'a Client,
    pub(crate) access: &'a Access,
}

/// A message to send.
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) text: &'a str,
    pub(crate) id: String,
    pub(crate) context: Option<String>,
    pub(crate) task: Option<String>,
}

/// A streamed answer.
pub(crate) struct IncomingEvents {
    response: Response,
    origin: String,
    rpc: bool,
    parser: Parser,
    items: VecDeque<Item>,
    total: usize,
    ended: bool,
}

impl Link<'_> {
    /// The card: without credentials first, as most cards are public.
    pub(crate) async fn card(&self, url: &Url) -> Result<Vec<u8>, LinkError> {
        let json = HeaderValue::from_static("application/json");
        let first = self.once(&Method::GET, url, None, &json, &HeaderMap::new()).await?;
        let response = match first.status().as_u16() {
            401 | 403 if self.access.is_configured() => self.send(&Method::GET, url, None, &json).await?,
            _ => first,
        };
        body(self.accepted(response, url).await?, &origin(url), MAX_CARD).await
    }

    /// Sends a message whose answer is one document.
    pub(crate) async fn ask(
        &self,
        endpoint: &Endpoint,
        message: &OutgoingMessage<'_>,
    ) -> Result<Update, LinkError> {
        let document = match endpoint.transport {
            Transport::JsonRpc => {
                self.rpc(endpoint, method(endpoint, protocol::Method::Send), message.params(endpoint)).await?
            }
            Transport::Rest => {
                self.rest(&Method::POST, endpoint, "message:send", Some(message.params(endpoint))).await?
            }
        };
        read(&document, endpoint)
    }

    /// Sends a message whose answer is a stream.
    pub(crate) async fn stream(
        &self,
        endpoint: &Endpoint,
        message: &OutgoingMessage<'_>,
    ) -> Result<IncomingEvents, LinkError> {
        let (url, body, rpc) = match endpoint.transport {
            Transport::JsonRpc => {
                let call = call(method(endpoint, protocol::Method::Stream), message.params(endpoint));
                (endpoint.url.clone(), call, true)
            }
            Transport::Rest => (rest_url(endpoint, "message:stream"), message.params(endpoint), false),
        };
        let accept = HeaderValue::from_static("text/event-stream, application/json");
        let response = self.send(&Method::POST, &url, Some(&(body, endpoint.version)), &accept).await?;
        let response = self.accepted(response, &url).await?;
        let origin = origin(&url);
        Ok(IncomingEvents {
            response,
            origin,
            rpc,
            parser: Parser::with_limit(MAX_EVENT),
            items: VecDeque::new(),
            total: 0,
            ended: false,
        })
    }

    /// Queries the state of a task.
    pub(crate) async fn task(&self, endpoint: &Endpoint, id: &str) -> Result<Update, LinkError> {
        let document = match endpoint.transport {
            Transport::JsonRpc => {
                self.rpc(endpoint, method(endpoint, protocol::Method::Get), json!({"id": id})).await?
            }
            Transport::Rest => {
                self.rest(
                    &Method::GET,
                    endpoint,
                    &format!("tasks/{}", percent::encode(id.as_bytes(), percent::UNRESERVED)),
                    None,
                )
                .await?
            }
        };
        read(&document, endpoint)
    }

    /// Asks the agent to cancel a task.
    pub(crate) async fn cancel(&self, endpoint: &Endpoint, id: &str) -> Result<(), LinkError> {
        match endpoint.transport {
            Transport::JsonRpc => {
                self.rpc(endpoint, method(endpoint, protocol::Method::Cancel), json!({"id": id})).await?;
            }
            Transport::Rest => {
                let path = format!("tasks/{}:cancel", percent::encode(id.as_bytes(), percent::UNRESERVED));
                self.rest(&Method::POST, endpoint, &path, Some(json!({}))).await?;
            }
        }
        Ok(())
    }

    async fn rpc(&self, endpoint: &Endpoint, method: &str, params: Value) -> Result<Value, LinkError> {
        let json = HeaderValue::from_static("application/json");
        let sent = (call(method, params), endpoint.version);
        let response = self.send(&Method::POST, &endpoint.url, Some(&sent), &json).await?;
        let bytes =
            body(self.accepted(response, &endpoint.url).await?, &origin(&endpoint.url), MAX_EVENT).await?;
        result(document(&bytes, &origin(&endpoint.url))?)
    }

    async fn rest(
        &self,
        method: &Method,
        endpoint: &Endpoint,
        path: &str,
        sent: Option<Value>,
    ) -> Result<Value, LinkError> {
        let json = HeaderValue::from_static("application/json");
        let url = rest_url(endpoint, path);
        let sent = sent.map(|body| (body, endpoint.version));
        let response = self.send(method, &url, sent.as_ref(), &json).await?;
        let bytes = body(self.accepted(response, &url).await?, &origin(&url), MAX_EVENT).await?;
        document(&bytes, &origin(&url))
    }

    /// Sends a request with credentials; refused ones are looked up again.
    async fn send(
        &self,
        method: &Method,
        url: &Url,
        sent: Option<&(Value, Version)>,
        accept: &HeaderValue,
    ) -> Result<Response, LinkError> {
        let mut tries = 0;
        loop {
            let headers = self.access.headers(url).await?;
            let response = self.once(method, url, sent, accept, &headers).await?;
            let refused = matches!(response.status().as_u16(), 401 | 403);
            if !refused || tries >= MAX_RETRIES || !self.access.refused(&headers, url).await? {
                return Ok(response);
            }
            tries += 1;
        }
    }

    async fn once(
        &self,
        method: &Method,
        url: &Url,
        sent: Option<&(Value, Version)>,
        accept: &HeaderValue,
        credentials: &HeaderMap,
    ) -> Result<Response, LinkError> {
        let mut request = self
            .http
            .request(method.clone(), url.clone())
            .headers(credentials.clone())
            .header(ACCEPT, accept);
        if let Some((body, version)) = sent {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
            if *version == Version::One {
                request = request.header("A2A-Version", "1.0");
            }
        }
        let sent = timeout(IDLE_LIMIT, request.send()).await.map_err(|_| LinkError::Silent(origin(url)))?;
        sent.map_err(|error| LinkError::Unreachable { origin: origin(url), why: describe(&error).message })
    }

    /// The response, or an error for a failure status.
    async fn accepted(&self, response: Response, url: &Url) -> Result<Response, LinkError> {
        let (status, origin) = (response.status().as_u16(), origin(url));
        match status {
            200..=299 => Ok(response),
            401 | 403 if self.access.is_configured() => Err(LinkError::Refused { origin, status }),
            401 | 403 => Err(LinkError::Credentials { origin, status }),
            300..=399 => Err(LinkError::Status {
                origin,
                status,
                complaint: ": redirect to another server".to_owned(),
            }),
            _ => {
                let bytes = body(response, &origin, MAX_CARD).await.unwrap_or_default();
                let said = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| complaint(&value));
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                Err(LinkError::Status { origin, status, complaint: said })
            }
        }
    }
}

impl OutgoingMessage<'_> {
    fn params(&self, endpoint: &Endpoint) -> Value {
        let dialect = match endpoint.transport {
            Transport::JsonRpc => Dialect::of_rpc(endpoint.version),
            Transport::Rest => Dialect::of_http(endpoint.version),
        };
        let message = Message {
            id: self.id.clone(),
            ids: Ids { context: self.context.clone(), task: self.task.clone() },
            role: Role::User,
            parts: vec![Part::text(self.text)],
            metadata: JsonObject::new(),
        };
        json!({"message": message.to_json(dialect)})
    }
}

impl IncomingEvents {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Update>, LinkError> {
        loop {
            while let Some(item) = self.items.pop_front() {
                let (Item::Event { data: bytes, .. } | Item::Stray(bytes)) = item;
                if bytes.trim_ascii().is_empty() {
                    continue;
                }
                let mut value = document(&bytes, &self.origin)?;
                if self.rpc {
                    value = result(value)?;
                } else if let Some(said) = value.get("error").and_then(complaint) {
                    return Err(LinkError::Agent(said));
                }
                if let Some(reply) = Update::read(&value) {
                    return Ok(Some(reply));
                }
            }
            if self.ended {
                return Ok(None);
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> Result<(), LinkError> {
        let origin = self.origin.clone();
        let chunk = timeout(IDLE_LIMIT, self.response.chunk())
            .await
            .map_err(|_| LinkError::Silent(origin.clone()))?;
        let too_large = |error| match error {
            SseError::TooLong => LinkError::TooLarge(origin.clone()),
            SseError::Incomplete => LinkError::Unreachable {
                origin: origin.clone(),
                why: "the connection closed in the middle of a response".to_owned(),
            },
        };
        match chunk {
            Err(error) => Err(LinkError::Unreachable { origin, why: describe(&error).message }),
            Ok(Some(bytes)) => {
                self.total += bytes.len();
                if self.total > MAX_ANSWER {
                    return Err(LinkError::TooLarge(origin));
                }
                self.parser.feed(&bytes, &mut self.items).map_err(too_large)
            }
            Ok(None) => {
                self.ended = true;
                self.items.extend(self.parser.finish().map_err(too_large)?);
                Ok(())
            }
        }
    }
}

fn call(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn method(endpoint: &Endpoint, method: protocol::Method) -> &'static str {
    method.name(endpoint.version)
}

fn rest_url(endpoint: &Endpoint, path: &str) -> Url {
    let mut url = endpoint.url.clone();
    let base = url.path().trim_end_matches('/').to_owned();
    let version = if endpoint.version == Version::Old { "/v1" } else { "" };
    url.set_path(&format!("{base}{version}/{path}"));
    url
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// A body of at most so many bytes.
async fn body(mut response: Response, origin: &str, most: usize) -> Result<Vec<u8>, LinkError> {
    let mut bytes = Vec::new();
    loop {
        let chunk =
            timeout(IDLE_LIMIT, response.chunk()).await.map_err(|_| LinkError::Silent(origin.to_owned()))?;
        let unreachable =
            |error| LinkError::Unreachable { origin: origin.to_owned(), why: describe(&error).message };
        let Some(chunk) = chunk.map_err(unreachable)? else { return Ok(bytes) };
        if bytes.len() + chunk.len() > most {
            return Err(LinkError::TooLarge(origin.to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
}

fn document(bytes: &[u8], origin: &str) -> Result<Value, LinkError> {
    parse_wire(bytes).map_err(|error| LinkError::Protocol {
        origin: origin.to_owned(),
        why: format!("not valid JSON ({error})"),
    })
}

fn read(document: &Value, endpoint: &Endpoint) -> Result<Update, LinkError> {
    Update::read(document).ok_or_else(|| LinkError::Protocol {
        origin: origin(&endpoint.url),
        why: "neither a message nor a task".to_owned(),
    })
}

/// The result of a JSON-RPC answer.
fn result(mut answer: Value) -> Result<Value, LinkError> {
    if let Some(said) = answer.get("error").filter(|error| !error.is_null()).map(complaint) {
        return Err(LinkError::Agent(said.unwrap_or_else(|| "no reason given".to_owned())));
    }
    Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())
}

/// The message of a server error.
fn complaint(error: &Value) -> Option<String> {
    let inner = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    let text = ["message", "detail", "title"].iter().find_map(|key| inner.get(key).and_then(Value::as_str));
    let code = inner
        .get("code")
        .filter(|code| code.is_number())
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    text.map(|text| format!("{}{code}", one_line(text).chars().take(MAX_COMPLAINT).collect::<String>()))
}
