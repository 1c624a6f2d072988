//! Addresses that signing in may use, and requests to them.
//!
//! They come from untrusted documents: only https and only public servers are accepted, except for the server's own
//! host and hosts that the user's settings name.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Request, Url};
use serde_json::Value;

use super::OAuthServer;
use crate::address::{AllowedHosts, Refusal, judge};
use crate::client::{ClientError, ClientOptions};
use crate::guarded::{
    FetchError, FetchLimits, GuardedClient, GuardedOptions, GuardedResponse, system_resolver,
};

const LIMITS: FetchLimits = FetchLimits { time: Duration::from_secs(30), bytes: 1024 * 1024 };
const MAX_REDIRECTS: usize = 3;
const LOOPBACK: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// Why an address is not used, or gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("`{0}` is not a URL")]
    NotAnAddress(String),
    #[error("`{0}` is not encrypted; only https URLs are allowed, except for servers on this machine")]
    Insecure(String),
    #[error(
        "`{host}` was refused: {refusal}; if it is correct, set its URL in the server's `oauth` settings"
    )]
    Refused { host: String, refusal: Refusal },
    #[error("no response from `{host}`: {message}")]
    Unreachable { host: String, message: String },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The endpoints around one server.
pub(super) struct Endpoints {
    client: GuardedClient,
    allowed: AllowedHosts,
    on_loopback: bool,
}

impl Endpoints {
    pub(super) fn new(client: &ClientOptions, server: &OAuthServer) -> Result<Self, EndpointError> {
        let on_loopback = is_loopback(&server.url);
        let config = &server.config;
        let named = [&config.authorization_url, &config.token_url, &config.issuer, &config.registration_url];
        let provider = config.identity_provider.as_ref();
        let named = named.into_iter().flatten();
        let named = named.chain(provider.into_iter().flat_map(|idp| [&idp.issuer, &idp.token_url]).flatten());
        let named = named.filter_map(|text| Url::parse(text).ok());
        let hosts = named.chain([server.url.clone()]).filter_map(|url| url.host_str().map(str::to_owned));
        let own: &[&str] = if on_loopback { LOOPBACK } else { &[] };
        let allowed = AllowedHosts::new(hosts.chain(own.iter().map(|host| (*host).to_owned())));
        let client = GuardedClient::new(GuardedOptions {
            client: client.clone(),
            allowed: allowed.clone(),
            limits: LIMITS,
            resolver: system_resolver(),
        })?;
        Ok(Self { client, allowed, on_loopback })
    }

    /// An address that may be used.
    pub(super) fn check(&self, text: &str) -> Result<Url, EndpointError> {
        let url = Url::parse(text.trim()).map_err(|_| EndpointError::NotAnAddress(shown(text)))?;
        self.check_url(url)
    }

    pub(super) fn check_url(&self, url: Url) -> Result<Url, EndpointError> {
        let open = url.scheme() == "http" && self.on_loopback && is_loopback(&url);
        if url.scheme() != "https" && !open {
            return Err(EndpointError::Insecure(origin(&url)));
        }
        match judge(&url, &self.allowed) {
            Ok(_) => Ok(url),
            Err(refusal) => Err(EndpointError::Refused { host: origin(&url), refusal }),
        }
    }

    /// A JSON document, or `None` if it does not exist.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Value>, EndpointError> {
        let mut url = self.check_url(url.clone())?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Method::GET, url.clone());
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
            let answer = self.send(request).await?;
            if answer.status.is_redirection() {
                let target = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
                let Some(next) = target.and_then(|target| url.join(target).ok()) else { return Ok(None) };
                url = self.check_url(next)?;
                continue;
            }
            let found = answer.status.is_success().then(|| serde_json::from_slice(&answer.body).ok());
            return Ok(found.flatten().filter(Value::is_object));
        }
        Ok(None)
    }

    /// The response of a server to a request without a token.
    pub(super) async fn challenge(&self, url: &Url) -> Option<String> {
        let mut request = Request::new(Method::HEAD, url.clone());
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        request.headers_mut().insert(ACCEPT, accept);
        let answer = self.send(request).await.ok()?;
        let header = answer.headers.get("www-authenticate")?;
        header.to_str().ok().map(str::to_owned)
    }

    pub(super) async fn post_json(&self, url: &Url, body: &Value) -> Result<GuardedResponse, EndpointError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post(url, headers, body.to_string().into_bytes()).await
    }

    pub(super) async fn post_form(
        &self,
        url: &Url,
        fields: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<GuardedResponse, EndpointError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(mut value) = authorization {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        self.post(url, headers, form(fields).into_bytes()).await
    }

    async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<GuardedResponse, EndpointError> {
        let mut request = Request::new(Method::POST, self.check_url(url.clone())?);
        *request.headers_mut() = headers;
        let accept = HeaderValue::from_static("application/json, application/x-www-form-urlencoded");
        request.headers_mut().insert(ACCEPT, accept);
        *request.body_mut() = Some(body.into());
        self.send(request).await
    }

    async fn send(&self, mut request: Request) -> Result<GuardedResponse, EndpointError> {
        let host = origin(request.url());
        // A person may take minutes between two requests. On a connection that the server ends at that moment, a code
        // that works once would be lost.
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        self.client.exchange(request).await.map_err(|error| match error {
            FetchError::Refused(refusal) => EndpointError::Refused { host, refusal },
            other => EndpointError::Unreachable { host, message: other.to_string() },
        })
    }
}

/// Fields as a form sends them.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("http://form/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Scheme, host and port: the parts of a URL that are safe to show.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Untrusted text, truncated for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
