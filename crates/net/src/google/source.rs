//! The ways from credentials to a token.

use std::path::PathBuf;
use std::time::Duration;

use pollux_config::files;
use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::time::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use serde_json::{Value, json};

use super::{CLOUD_PLATFORM, GoogleError, Token};
use crate::jwt;
use crate::oauth::{form, origin};
use crate::transport;

const LIFETIME: Duration = Duration::from_secs(3600);
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The metadata server is next door; a machine that has none should not wait for it.
const METADATA_TIME: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 256 * 1024;

/// Where tokens come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    ServiceAccount { email: String, key: Secret, key_id: Option<String>, token_url: Url },
    User { client_id: String, client_secret: Secret, refresh_token: Secret, token_url: Url },
    External { subject: Subject, audience: String, subject_type: String, token_url: Url },
    Impersonated { source: Box<Source>, url: Url, delegates: Vec<String> },
    Metadata { host: String },
}

/// Where the external token is.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    File { path: PathBuf, field: Option<String> },
    Url { url: Url, headers: Vec<(String, Secret)>, field: Option<String> },
}

/// What a token is wanted for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) http: &'a reqwest::Client,
    pub(super) scopes: &'a [String],
    pub(super) now_ms: i64,
}

impl Source {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::ServiceAccount { .. } => "service_account",
            Self::User { .. } => "authorized_user",
            Self::External { .. } => "external_account",
            Self::Impersonated { .. } => "impersonated_service_account",
            Self::Metadata { .. } => "metadata",
        }
    }

    pub(super) fn token<'a>(&'a self, asked: &'a Asked<'a>) -> BoxFuture<'a, Result<Token, GoogleError>> {
        Box::pin(async move {
            match self {
                Self::ServiceAccount { email, key, key_id, token_url } => {
                    let now = asked.now_ms / 1000;
                    let claims = json!({
                        "iss": email, "scope": asked.scopes.join(" "), "aud": token_url.as_str(),
                        "iat": now, "exp": now + 3600,
                    });
                    let assertion = jwt::sign(&claims, key, key_id.as_deref())?;
                    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                    let fields = [("grant_type", grant), ("assertion", assertion.reveal())];
                    ask_token(asked, token_url, &fields).await
                }
                Self::User { client_id, client_secret, refresh_token, token_url } => {
                    let fields = [
                        ("grant_type", "refresh_token"),
                        ("client_id", client_id.as_str()),
                        ("client_secret", client_secret.reveal()),
                        ("refresh_token", refresh_token.reveal()),
                    ];
                    ask_token(asked, token_url, &fields).await
                }
                Self::External { subject, audience, subject_type, token_url } => {
                    let subject = subject.read(asked.http).await?;
                    let scope = asked.scopes.join(" ");
                    let fields = [
                        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                        ("audience", audience.as_str()),
                        ("scope", scope.as_str()),
                        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                        ("subject_token", subject.reveal()),
                        ("subject_token_type", subject_type.as_str()),
                    ];
                    ask_token(asked, token_url, &fields).await
                }
                Self::Impersonated { source, url, delegates } => {
                    let wide = [CLOUD_PLATFORM.to_owned()];
                    let inner = Box::pin(source.token(&Asked { scopes: &wide, ..*asked })).await?;
                    impersonate(asked, url, delegates, &inner.secret).await
                }
                Self::Metadata { host } => from_metadata(asked, host).await,
            }
        })
    }
}

impl Subject {
    async fn read(&self, http: &reqwest::Client) -> Result<Secret, GoogleError> {
        let (text, field, place) = match self {
            Self::File { path, field } => {
                let text = files::read_text(path).ok().flatten();
                (text, field, format!("the file `{}`", path.display()))
            }
            Self::Url { url, headers, field } => {
                let mut request = Request::new(Method::GET, url.clone());
                for (name, value) in headers {
                    let name = HeaderName::from_bytes(name.as_bytes());
                    if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(value.reveal())) {
                        value.set_sensitive(true);
                        request.headers_mut().insert(name, value);
                    }
                }
                let (status, body) = send(http, request, ANSWER_TIME).await?;
                let text = (status < 300).then(|| String::from_utf8_lossy(&body).into_owned());
                (text, field, format!("`{}`", origin(url)))
            }
        };
        let found = text.and_then(|text| match field {
            None => Some(text.trim().to_owned()),
            Some(field) => {
                let value: Value = serde_json::from_str(&text).ok()?;
                value.get(field)?.as_str().map(str::to_owned)
            }
        });
        found.filter(|token| !token.is_empty()).map(Secret::new).ok_or(GoogleError::Subject { place })
    }
}

async fn ask_token(asked: &Asked<'_>, url: &Url, fields: &[(&str, &str)]) -> Result<Token, GoogleError> {
    let mut request = Request::new(Method::POST, url.clone());
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    *request.body_mut() = Some(form(fields).into());
    let (status, body) = send(asked.http, request, ANSWER_TIME).await?;
    token_in(status, &body, &origin(url))
}

/// `access_token` and `expires_in`, as token endpoints and the metadata server answer.
fn token_in(status: u16, body: &[u8], host: &str) -> Result<Token, GoogleError> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let token = answer.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    match token {
        Some(token) if status < 300 => {
            let seconds = answer.get("expires_in").and_then(Value::as_u64);
            let lifetime = seconds.map_or(LIFETIME, Duration::from_secs);
            Ok(Token { secret: Secret::new(token), lifetime })
        }
        _ => Err(refused(status, &answer, host)),
    }
}

/// Only the code of the refusal is told: descriptions may quote what was sent.
fn refused(status: u16, answer: &Value, host: &str) -> GoogleError {
    let code = match answer.get("error") {
        Some(Value::String(code)) => Some(code.as_str()),
        Some(error) => error.get("status").and_then(Value::as_str),
        None => None,
    };
    let tame = |code: &str| {
        let tame: String = code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
        format!(", `{tame}`")
    };
    GoogleError::Refused { host: host.to_owned(), status, said: code.map(tame).unwrap_or_default() }
}

async fn impersonate(
    asked: &Asked<'_>,
    url: &Url,
    delegates: &[String],
    bearer: &Secret,
) -> Result<Token, GoogleError> {
    let mut body = json!({"scope": asked.scopes, "lifetime": "3600s"});
    if !delegates.is_empty()
        && let Some(fields) = body.as_object_mut()
    {
        fields.insert("delegates".to_owned(), json!(delegates));
    }
    let (status, answer) = post_json(asked.http, url, bearer, &body).await?;
    let token = answer.get("accessToken").and_then(Value::as_str).filter(|token| !token.is_empty());
    match token {
        Some(token) if status < 300 => {
            let end = answer.get("expireTime").and_then(Value::as_str).and_then(Timestamp::parse);
            let left = end.map(|end| end.millis() - asked.now_ms).and_then(|left| u64::try_from(left).ok());
            let lifetime = left.map_or(LIFETIME, Duration::from_millis);
            Ok(Token { secret: Secret::new(token), lifetime })
        }
        _ => Err(refused(status, &answer, &origin(url))),
    }
}

/// `POST …/serviceAccounts/<account>:generateIdToken`
pub(super) async fn identity_token(
    http: &reqwest::Client,
    iam: &str,
    bearer: &Secret,
    account: &str,
    audience: &str,
    now_ms: i64,
) -> Result<Token, GoogleError> {
    let unusable = || GoogleError::Subject { place: format!("`{iam}`") };
    let mut url = Url::parse(iam).map_err(|_| unusable())?;
    url.path_segments_mut().map_err(|()| unusable())?.pop_if_empty().extend([
        "v1",
        "projects",
        "-",
        "serviceAccounts",
        &format!("{account}:generateIdToken"),
    ]);
    let body = json!({"audience": audience, "includeEmail": true});
    let (status, answer) = post_json(http, &url, bearer, &body).await?;
    match answer.get("token").and_then(Value::as_str).filter(|token| !token.is_empty()) {
        Some(token) if status < 300 => {
            let left = jwt::expiry_ms(token).and_then(|end| u64::try_from(end - now_ms).ok());
            let lifetime = left.map_or(Duration::ZERO, Duration::from_millis);
            Ok(Token { secret: Secret::new(token), lifetime })
        }
        _ => Err(refused(status, &answer, &origin(&url))),
    }
}

async fn post_json(
    http: &reqwest::Client,
    url: &Url,
    bearer: &Secret,
    body: &Value,
) -> Result<(u16, Value), GoogleError> {
    let mut request = Request::new(Method::POST, url.clone());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(value) = crate::bearer::bearer(bearer) {
        request.headers_mut().insert(reqwest::header::AUTHORIZATION, value);
    }
    *request.body_mut() = Some(body.to_string().into());
    let (status, body) = send(http, request, ANSWER_TIME).await?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

async fn from_metadata(asked: &Asked<'_>, host: &str) -> Result<Token, GoogleError> {
    let unreachable = || GoogleError::Unreachable {
        host: host.chars().take(200).collect(),
        message: "not a host name".to_owned(),
        may_pass: false,
    };
    let place = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let mut url = Url::parse(&place).map_err(|_| unreachable())?;
    if !asked.scopes.is_empty() {
        url.query_pairs_mut().append_pair("scopes", &asked.scopes.join(","));
    }
    let mut request = Request::new(Method::GET, url.clone());
    request.headers_mut().insert("metadata-flavor", HeaderValue::from_static("Google"));
    let (status, body) = send(asked.http, request, METADATA_TIME).await?;
    token_in(status, &body, &origin(&url))
}

/// Sends; gives the status and a bounded body.
async fn send(
    http: &reqwest::Client,
    mut request: Request,
    time: Duration,
) -> Result<(u16, Vec<u8>), GoogleError> {
    let host = origin(request.url());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let unreachable = |message, may_pass| GoogleError::Unreachable { host: host.clone(), message, may_pass };
    let failed = |error: reqwest::Error| {
        let failure = transport::describe(&error);
        unreachable(failure.message, failure.may_pass)
    };
    let exchange = async {
        let mut response: Response = http.execute(request).await.map_err(failed)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(unreachable("the response is too large".to_owned(), false));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    };
    match tokio::time::timeout(time, exchange).await {
        Ok(result) => result,
        Err(_) => Err(unreachable(format!("no response within {} s", time.as_secs()), true)),
    }
}
