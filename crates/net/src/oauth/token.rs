//! The token endpoint: exchanges a code, a refresh token or an assertion for a token.

use pollux_config::groups::Secret;
use reqwest::Url;
use serde_json::Value;

use super::endpoint::{EndpointError, Endpoints, shown};
use super::registration::{ClientIdentity, Method};
use crate::credentials::{OAuthCredentials, OAuthToken};

/// Refusals after which the same question is pointless.
const FINAL: &[&str] = &["invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope"];

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// A grant for one server from the identity provider of another.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Why the endpoint issued no token. Contains nothing of the request.
#[derive(Debug, thiserror::Error)]
pub enum TokenEndpointError {
    #[error("the server refused with `{code}`{description}")]
    Refused { code: String, description: String },
    #[error("the server returned status {status} and no token")]
    NoToken { status: u16 },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl TokenEndpointError {
    /// Whether only a new sign-in can help.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if FINAL.contains(&code.as_str()))
    }
}

/// The grant to exchange.
pub(super) enum Grant<'a> {
    Code {
        code: &'a Secret,
        verifier: &'a Secret,
        redirect_uri: &'a str,
    },
    Renewal {
        refresh_token: &'a Secret,
    },
    /// The client acts on its own behalf.
    Client {
        scope: &'a str,
    },
    /// At an identity provider: exchanges an ID token for a grant at another server (RFC 8693).
    Exchange {
        id_token: &'a Secret,
        scope: &'a str,
    },
    /// Such a grant (RFC 7523).
    Assertion {
        assertion: &'a Secret,
        scope: &'a str,
    },
}

impl<'a> Grant<'a> {
    fn fields(&self) -> Vec<(&'static str, &'a str)> {
        let mut fields = match *self {
            Self::Code { code, verifier, redirect_uri } => vec![
                ("grant_type", "authorization_code"),
                ("code", code.reveal()),
                ("redirect_uri", redirect_uri),
                ("code_verifier", verifier.reveal()),
            ],
            Self::Renewal { refresh_token } => {
                vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token.reveal())]
            }
            Self::Client { .. } => vec![("grant_type", "client_credentials")],
            Self::Exchange { id_token, .. } => vec![
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("requested_token_type", ID_JAG),
                ("subject_token", id_token.reveal()),
                ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ],
            Self::Assertion { assertion, .. } => {
                vec![("grant_type", JWT_BEARER), ("assertion", assertion.reveal())]
            }
        };
        match *self {
            Self::Client { scope } | Self::Exchange { scope, .. } | Self::Assertion { scope, .. }
                if !scope.is_empty() =>
            {
                fields.push(("scope", scope));
            }
            _ => {}
        }
        fields
    }
}

/// A token as it came.
pub(super) struct Fresh {
    access_token: Secret,
    refresh_token: Option<Secret>,
    /// Seconds from now.
    expires_in: Option<i64>,
    token_type: String,
    scope: Option<String>,
    issued_type: Option<String>,
}

impl Fresh {
    /// The grant that [`Grant::Exchange`] asked for; any other token is not for strangers.
    pub(super) fn into_grant(self) -> Option<Secret> {
        (self.issued_type.as_deref() == Some(ID_JAG)).then_some(self.access_token)
    }

    pub(super) fn into_token(self, now_ms: i64) -> OAuthToken {
        OAuthToken {
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            expires_at: self.expires_in.map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1000))),
            token_type: self.token_type,
            scope: self.scope,
        }
    }

    /// Refreshes a sign-in; fields missing in the response are kept, in particular the refresh token.
    pub(super) fn merged_into(self, mut old: OAuthCredentials, now_ms: i64) -> OAuthCredentials {
        let mut token = self.into_token(now_ms);
        token.refresh_token = token.refresh_token.or_else(|| old.token.refresh_token.take());
        token.scope = token.scope.or_else(|| old.token.scope.take());
        OAuthCredentials { token, updated_at: now_ms, ..old }
    }
}

/// Asks for a token.
pub(super) async fn ask(
    endpoints: &Endpoints,
    token_url: &Url,
    grant: &Grant<'_>,
    client: &ClientIdentity,
    audience: &str,
    resource: &str,
) -> Result<Fresh, TokenEndpointError> {
    let mut fields = grant.fields();
    if client.method != Method::Basic {
        fields.push(("client_id", &client.id));
    }
    if let (Method::Post, Some(secret)) = (client.method, &client.secret) {
        fields.push(("client_secret", secret.reveal()));
    }
    if let Some(assertion) = &client.assertion {
        fields.push(("client_assertion_type", ASSERTION_TYPE));
        fields.push(("client_assertion", assertion.reveal()));
    }
    if !audience.is_empty() {
        fields.push(("audience", audience));
    }
    fields.push(("resource", resource));
    let answer = endpoints.post_form(token_url, &fields, client.header()).await?;
    let status = answer.status.as_u16();
    let answered = Answered::read(&answer.body);
    if answer.status.is_success()
        && let Some(fresh) = answered.token()
    {
        return Ok(fresh);
    }
    match answered.get("error") {
        Some(code) => {
            let description = answered.get("error_description").unwrap_or_default();
            let secrets: Vec<&str> = fields.iter().map(|(_, value)| *value).collect();
            let description = without(&shown(&description), &secrets);
            let description = if description.is_empty() { description } else { format!(": {description}") };
            Err(TokenEndpointError::Refused { code: shown(&code), description })
        }
        None => Err(TokenEndpointError::NoToken { status }),
    }
}

/// Removes secrets, because a server may quote the request.
fn without(text: &str, secrets: &[&str]) -> String {
    let long = secrets.iter().filter(|secret| secret.len() >= 6);
    long.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

/// An answer in JSON, or as a form, as a few servers still send.
enum Answered {
    Json(Value),
    Form(Vec<(String, String)>),
}

impl Answered {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if value.is_object() => Self::Json(value),
            _ => {
                let mut pairs = Vec::new();
                if let Ok(mut url) = Url::parse("http://form/") {
                    url.set_query(Some(&String::from_utf8_lossy(body)));
                    pairs.extend(
                        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())),
                    );
                }
                Self::Form(pairs)
            }
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        let text = match self {
            Self::Json(value) => match value.get(name)? {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            },
            Self::Form(pairs) => pairs.iter().find(|(known, _)| known == name)?.1.clone(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn token(&self) -> Option<Fresh> {
        let seconds = |text: String| text.parse::<f64>().ok().map(|seconds| seconds as i64);
        Some(Fresh {
            access_token: Secret::new(self.get("access_token")?),
            refresh_token: self.get("refresh_token").map(Secret::new),
            expires_in: self.get("expires_in").and_then(seconds).filter(|seconds| *seconds > 0),
            token_type: self.get("token_type").unwrap_or_else(|| "Bearer".to_owned()),
            scope: self.get("scope"),
            issued_type: self.get("issued_token_type"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_from_json_and_from_forms() {
        let json = Answered::read(br#"{"access_token": "a", "expires_in": 60, "token_type": "bearer"}"#);
        let form = Answered::read(b"access_token=a&expires_in=60&token_type=bearer");
        for answered in [json, form] {
            let token = answered.token().unwrap().into_token(1_000);
            assert_eq!((token.access_token.reveal(), token.expires_at), ("a", Some(61_000)));
        }
        let hostile: [&[u8]; 5] = [b"", b"{", b"[]", b"\xff\xfe", br#"{"access_token": {}}"#];
        assert!(hostile.iter().all(|body| Answered::read(body).token().is_none()));
        let odd = Answered::read(br#"{"access_token": "a", "expires_in": "soon"}"#).token().unwrap();
        assert_eq!(odd.into_token(0).expires_at, None);
    }

    #[test]
    fn a_refusal_does_not_repeat_what_was_sent() {
        assert_eq!(without("token SECRET-1 is old", &["SECRET-1", "x"]), "token *** is old");
    }
}
