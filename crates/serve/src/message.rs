//! Requests and responses as sites see them.

use std::net::SocketAddr;

use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use pollux_domain::percent;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::body::ResponseBody;

/// A request before its body is read.
#[derive(Debug, Clone)]
pub struct Head {
    pub method: Method,
    /// The path as sent, still encoded.
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    /// Both ends of the connection: the client's and ours.
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub head: Head,
    pub body: Bytes,
}

/// The parameters after `?`, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

impl Head {
    /// A header as text; `None` if it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The only value of a header; `None` if it is missing, twice or not text.
    pub fn only(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// The bearer token that the client shows.
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }
}

impl Query {
    pub(crate) fn read(text: &str) -> Self {
        let decode =
            |text: &str| String::from_utf8(percent::decode(&text.replace('+', " "))).unwrap_or_default();
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// All parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first parameter of this name; case does not matter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Response {
    /// A response without content.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: ResponseBody::Document(None) }
    }

    pub fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::document(status, "text/plain; charset=utf-8", text.into())
    }

    pub fn json(status: StatusCode, value: &Value) -> Self {
        Self::document(status, "application/json", value.to_string())
    }

    pub fn document(status: StatusCode, content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let mut response = Self::empty(status).header(CONTENT_TYPE, content_type);
        response.body = ResponseBody::Document(Some(content.into()));
        response
    }

    /// A stream of server-sent events.
    pub fn events(receiver: mpsc::Receiver<String>) -> Self {
        let mut response = Self::empty(StatusCode::OK)
            .header(CONTENT_TYPE, "text/event-stream")
            .header(CACHE_CONTROL, "no-cache");
        response.body = ResponseBody::of_events(receiver);
        response
    }

    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_decoded() {
        let query = Query::read("pageSize=5&A2A-Version=1.0&x=a%20b+c&flag&=z");
        assert_eq!(query.get("pageSize"), Some("5"));
        assert_eq!(query.get("a2a-version"), Some("1.0"));
        assert_eq!(query.get("x"), Some("a b c"));
        assert_eq!(query.get("flag"), Some(""));
        assert_eq!(query.get("y"), None);
    }
}
