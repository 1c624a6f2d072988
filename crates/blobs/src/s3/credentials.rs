//! Where keys come from: variables, AWS's files, the container's endpoint, the machine's metadata service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::files;
use pollux_config::groups::Secret;
use pollux_domain::time::{Clock, Timestamp};
use pollux_net::client::HttpClient;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use serde_json::Value;
use tokio::sync::Mutex;

use super::profile;
use super::sign::AwsKeys;
use crate::fault::Fault;
use crate::port::StoreErrorKind;
use crate::wire::{StoreAnswer, exchange};

/// Keys are renewed this long before their end, or half-way through shorter lives.
const MARGIN: i64 = 5 * 60 * 1000;
/// A machine that is none of Amazon's does not answer at this address at all.
const METADATA_TIME: Duration = Duration::from_secs(2);
const METADATA: &str = "http://169.254.169.254";
const CONTAINER: &str = "http://169.254.170.2";
/// Where containers may be told to ask over plain http: this machine, and what Amazon's agents listen on.
const CONTAINER_HOSTS: &[&str] =
    &["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "127.0.0.1", "[::1]", "localhost"];

/// The chain of sources, and what it gave last.
pub(crate) struct AwsCredentials {
    env: Env,
    user_home: PathBuf,
    /// Named in the store's address; comes before everything else.
    profile: Option<String>,
    /// Without a proxy: these servers stand next to us, and what they send is secret.
    http: HttpClient,
    clock: Arc<dyn Clock>,
    current: Mutex<Option<Current>>,
}

struct Current {
    keys: AwsKeys,
    renew_at: Option<i64>,
}

impl AwsCredentials {
    pub(crate) fn new(
        env: Env,
        user_home: PathBuf,
        profile: Option<String>,
        http: HttpClient,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { env, user_home, profile, http, clock, current: Mutex::new(None) }
    }

    /// Keys that are good for a while. Concurrent callers share one request.
    pub(crate) async fn keys(&self) -> Result<AwsKeys, Fault> {
        let mut current = self.current.lock().await;
        let now = self.clock.now().millis();
        if let Some(known) = current.as_ref().filter(|known| known.renew_at.is_none_or(|end| now < end)) {
            return Ok(known.keys.clone());
        }
        let fresh = self.find(now).await?;
        let keys = fresh.keys.clone();
        *current = Some(fresh);
        Ok(keys)
    }

    /// The server refused these keys as expired: the next question gets others.
    pub(crate) async fn discard(&self, refused: &AwsKeys) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|known| known.keys == *refused) {
            *current = None;
        }
    }

    async fn find(&self, now: i64) -> Result<Current, Fault> {
        if self.profile.is_none()
            && let Some(keys) = self.variable_keys()
        {
            return Ok(Current { keys, renew_at: None });
        }
        if let Some(keys) = self.file_keys()? {
            return Ok(Current { keys, renew_at: None });
        }
        if let Some(request) = self.container_request()? {
            let answer = exchange(&self.http, request).await?;
            return lasting(&answer, now, "the container's credential endpoint");
        }
        self.metadata_keys(now).await
    }

    fn variable_keys(&self) -> Option<AwsKeys> {
        Some(AwsKeys {
            id: self.env.non_empty("AWS_ACCESS_KEY_ID")?.to_owned(),
            secret: Secret::new(self.env.non_empty("AWS_SECRET_ACCESS_KEY")?),
            token: self.env.non_empty("AWS_SESSION_TOKEN").map(Secret::new),
        })
    }

    fn file_keys(&self) -> Result<Option<AwsKeys>, Fault> {
        let chosen = self.profile.as_deref().or_else(|| self.env.non_empty("AWS_PROFILE"));
        let name = chosen.unwrap_or("default");
        let found = profile::read(&self.env, &self.user_home, name);
        let found = found.map_err(|error| denied(error.to_string()))?;
        match (&found.keys, found.unsupported, chosen) {
            (Some(_), _, _) => Ok(found.keys),
            (None, Some(setting), _) => {
                Err(denied(format!("profile `{name}` needs `{setting}`, which is not supported")))
            }
            (None, None, Some(name)) if found.exists => Err(denied(format!("profile `{name}` has no keys"))),
            (None, None, Some(name)) => Err(denied(format!("no profile `{name}` in the AWS files"))),
            (None, None, None) => Ok(None),
        }
    }

    fn container_request(&self) -> Result<Option<Request>, Fault> {
        let relative = self.env.non_empty("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = self.env.non_empty("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let text = match (relative, full) {
            (Some(path), _) => format!("{CONTAINER}{path}"),
            (None, Some(url)) => url.to_owned(),
            (None, None) => return Ok(None),
        };
        let refused = || denied("the container's credential endpoint is not https and not on this machine");
        let url = Url::parse(&text).map_err(|_| refused())?;
        let host = url.host_str().unwrap_or_default();
        if url.scheme() != "https" && !(url.scheme() == "http" && CONTAINER_HOSTS.contains(&host)) {
            return Err(refused());
        }
        let token = match self.env.non_empty("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => files::read_text(&self.env.cwd().join(path))
                .map_err(|error| denied(error.to_string()))?
                .map(|text| text.trim().to_owned()),
            None => self.env.non_empty("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
        };
        let mut request = Request::new(Method::GET, url);
        if let Some(token) = token {
            insert_secret(&mut request, AUTHORIZATION, &token);
        }
        Ok(Some(request))
    }

    /// IMDSv2: a token first, then the role's keys.
    async fn metadata_keys(&self, now: i64) -> Result<Current, Fault> {
        if self.env.is_true("AWS_EC2_METADATA_DISABLED") {
            return Err(none());
        }
        let base = self.env.non_empty("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(METADATA);
        let base = base.trim_end_matches('/');
        let ask = |method: Method, path: &str, token: Option<&str>| {
            let url = Url::parse(&format!("{base}{path}")).map_err(|_| none())?;
            let mut request = Request::new(method, url);
            match token {
                Some(token) => {
                    let name = HeaderName::from_static("x-aws-ec2-metadata-token");
                    insert_secret(&mut request, name, token);
                }
                None => {
                    let name = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
                    request.headers_mut().insert(name, HeaderValue::from_static("300"));
                }
            }
            Ok(request)
        };
        let first = exchange(&self.http, ask(Method::PUT, "/latest/api/token", None)?);
        // Most machines have no such service: that is no failure that could pass.
        let answer = match tokio::time::timeout(METADATA_TIME, first).await {
            Ok(Ok(answer)) if answer.status == 200 => answer,
            Ok(Ok(_) | Err(_)) | Err(_) => return Err(none()),
        };
        let token = String::from_utf8_lossy(&answer.body).trim().to_owned();
        let roles = "/latest/meta-data/iam/security-credentials/";
        let answer = exchange(&self.http, ask(Method::GET, roles, Some(&token))?).await?;
        let role = String::from_utf8_lossy(&answer.body).lines().next().unwrap_or_default().trim().to_owned();
        if answer.status != 200 || role.is_empty() {
            return Err(denied("the machine has no IAM role"));
        }
        let answer = exchange(&self.http, ask(Method::GET, &format!("{roles}{role}"), Some(&token))?).await?;
        lasting(&answer, now, "the machine's metadata service")
    }
}

/// Keys with their end, as both services answer.
fn lasting(answer: &StoreAnswer, now: i64, place: &str) -> Result<Current, Fault> {
    if answer.status >= 500 {
        return Err(Fault::later(format!("{place} responded with status {}", answer.status)));
    }
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(id), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err(denied(format!("{place} returned no keys (status {})", answer.status)));
    };
    let keys =
        AwsKeys { id: id.to_owned(), secret: Secret::new(secret), token: text("Token").map(Secret::new) };
    let end = text("Expiration").and_then(Timestamp::parse).map(Timestamp::millis);
    let renew_at = end.map(|end| end - MARGIN.min((end - now).max(0) / 2));
    Ok(Current { keys, renew_at })
}

fn insert_secret(request: &mut Request, name: HeaderName, value: &str) {
    if let Ok(mut value) = HeaderValue::from_str(value) {
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
}

fn denied(message: impl Into<String>) -> Fault {
    Fault::new(StoreErrorKind::Denied, message)
}

fn none() -> Fault {
    denied(
        "no AWS credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run with a role",
    )
}

#[cfg(test)]
mod tests;
