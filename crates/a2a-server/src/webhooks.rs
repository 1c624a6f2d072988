//! Calls webhooks. Their addresses come from clients: only public servers are called, over https, and redirects are not
//! followed.

use std::time::Duration;

use pollux_a2a::protocol::{VERSION_HEADER, Version};
use pollux_net::address::{AllowedHosts, judge};
use pollux_net::client::{ClientError, ClientOptions, Proxies};
use pollux_net::guarded::{FetchError, FetchLimits, GuardedClient, GuardedOptions, Resolver};
use pollux_net::sealed::SealKey;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use serde_json::Value;
use tokio::time::sleep;

use crate::error::A2aError;
use crate::push::PushConfig;

/// One call may take so long, and so much of its answer is read.
const LIMITS: FetchLimits = FetchLimits { time: Duration::from_secs(15), bytes: 1024 * 1024 };
/// Pauses before the second and the third attempt.
pub(crate) const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// The header with the token that a client gave.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// What the key is used for.
const PURPOSE: &str = "a2a push notifications";

/// Calls webhooks, and hides what is stored about them.
pub(crate) struct Webhooks {
    client: GuardedClient,
    /// Hosts that may be private, and reached over http.
    allowed: AllowedHosts,
    key: SealKey,
    pauses: [Duration; 2],
}

/// What [`Webhooks::new`] needs.
pub(crate) struct WebhookOptions {
    pub(crate) client: ClientOptions,
    pub(crate) allowed: Vec<String>,
    pub(crate) resolver: Resolver,
    pub(crate) key: SealKey,
    /// Before the second and the third attempt.
    pub(crate) pauses: [Duration; 2],
}

/// The key that hides what is stored.
pub(crate) fn key(secret: &pollux_config::groups::Secret) -> Option<SealKey> {
    SealKey::of_secret(secret, PURPOSE)
}

impl Webhooks {
    pub(crate) fn new(options: WebhookOptions) -> Result<Self, ClientError> {
        let allowed = AllowedHosts::new(options.allowed);
        // A proxy would look names up itself, after they were checked.
        let client = ClientOptions { proxies: Proxies::default(), ..options.client };
        let client = GuardedClient::new(GuardedOptions {
            client,
            allowed: allowed.clone(),
            limits: LIMITS,
            resolver: options.resolver,
        })?;
        Ok(Self { client, allowed, key: options.key, pauses: options.pauses })
    }

    /// Whether an address may be called, as far as it tells by itself.
    pub(crate) fn check(&self, url: &Url) -> Result<(), A2aError> {
        let refused = |why: &str| A2aError::params(format!("the webhook's `url` is not allowed: {why}"));
        let is_allowed = url.host_str().is_some_and(|host| self.allowed.contains(host));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_allowed) {
            return Err(refused("it must be an https URL"));
        }
        judge(url, &self.allowed).map(drop).map_err(|refusal| refused(&refusal.to_string()))
    }

    /// The text that is stored about a webhook.
    pub(crate) fn seal(&self, config: &PushConfig, task: &str) -> Option<String> {
        self.key.seal(config.to_stored(task).to_string().as_bytes())
    }

    /// The webhook that a stored text is about; `None` if it was written with another key or for another task.
    pub(crate) fn open(&self, text: &str, task: &str) -> Option<PushConfig> {
        let value: Value = serde_json::from_slice(&self.key.open(text)?).ok()?;
        PushConfig::from_stored(&value, task)
    }

    /// Calls a webhook, up to three times.
    pub(crate) async fn call(&self, config: &PushConfig, body: &Value) -> Result<(), String> {
        let mut pauses = self.pauses.iter();
        loop {
            let (why, may_pass) = match self.attempt(config, body).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            match pauses.next().filter(|_| may_pass) {
                Some(pause) => sleep(*pause).await,
                None => return Err(why),
            }
        }
    }

    /// One attempt; why it failed, and whether another could succeed.
    async fn attempt(&self, config: &PushConfig, body: &Value) -> Result<(), (String, bool)> {
        // The setting may have changed since it was stored.
        self.check(&config.url).map_err(|error| (error.message, false))?;
        match self.client.exchange(request(config, body)).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status;
                let may_pass = status.is_server_error() || [408, 425, 429].contains(&status.as_u16());
                Err((format!("status {}", status.as_u16()), may_pass))
            }
            Err(error @ FetchError::Refused(_)) => Err((error.to_string(), false)),
            Err(error) => Err((error.to_string(), true)),
        }
    }
}

fn request(config: &PushConfig, body: &Value) -> Request {
    let mut request = Request::new(Method::POST, config.url.clone());
    let content_type = match config.version {
        Version::Old => "application/json",
        Version::One => "application/a2a+json",
    };
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(VERSION_HEADER, HeaderValue::from_static(config.version.as_str()));
    let token = config.token.as_ref().map(|token| token.reveal().to_owned());
    for (name, value) in [(AUTHORIZATION, config.authorization()), (TOKEN_HEADER, token)] {
        if let Some(Ok(mut value)) = value.map(|value| HeaderValue::from_str(&value)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    *request.body_mut() = Some(body.to_string().into());
    request
}
