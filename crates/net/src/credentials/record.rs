//! One stored sign-in, in the JSON that gemini-cli and the older files use.

use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use serde_json::{Value, json};

/// A token is renewed this long before its end; the number is upstream's.
pub(super) const EXPIRY_MARGIN_MS: i64 = 5 * 60 * 1000;

/// The value of `token.tokenType` for an API key.
pub(super) const API_KEY_TYPE: &str = "ApiKey";

/// A sign-in: a token, and the data to refresh it.
#[derive(Debug, Clone, PartialEq)]
pub struct OAuthCredentials {
    pub server_name: String,
    pub token: OAuthToken,
    pub client_id: Option<String>,
    /// Only in our files: upstream does not store the secret of a dynamically registered client.
    pub client_secret: Option<Secret>,
    pub token_url: Option<String>,
    pub mcp_server_url: Option<String>,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    /// Fields of other writers.
    pub other: JsonObject,
}

/// The token itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthToken {
    pub access_token: Secret,
    pub refresh_token: Option<Secret>,
    /// Milliseconds since 1970; `None` if the server did not say.
    pub expires_at: Option<i64>,
    /// `Bearer`, `ApiKey`, …
    pub token_type: String,
    pub scope: Option<String>,
}

impl OAuthToken {
    /// Whether it ends within the margin.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at.is_some_and(|end| now_ms.saturating_add(EXPIRY_MARGIN_MS) >= end)
    }
}

impl OAuthCredentials {
    /// An API key in the form of a sign-in.
    pub fn api_key(account: &str, key: &Secret, now_ms: i64) -> Self {
        Self {
            server_name: account.to_owned(),
            token: OAuthToken {
                access_token: key.clone(),
                refresh_token: None,
                expires_at: None,
                token_type: API_KEY_TYPE.to_owned(),
                scope: None,
            },
            client_id: None,
            client_secret: None,
            token_url: None,
            mcp_server_url: None,
            updated_at: now_ms,
            other: JsonObject::new(),
        }
    }

    /// Expired, and nothing is there to renew it with.
    pub fn is_spent(&self, now_ms: i64) -> bool {
        self.token.is_expired(now_ms) && self.token.refresh_token.is_none()
    }

    /// Reads an entry: an object, or the same object as text.
    pub(crate) fn read(entry: &Value) -> Option<Self> {
        let mut fields = match entry {
            Value::String(text) => serde_json::from_str::<JsonObject>(text).ok()?,
            Value::Object(fields) => fields.clone(),
            _ => return None,
        };
        let token = fields.shift_remove("token")?;
        let access_token = token.get("accessToken")?.as_str()?.trim().to_owned();
        if access_token.is_empty() {
            return None;
        }
        let within = |name: &str| text(token.get(name));
        let token = OAuthToken {
            access_token: Secret::new(access_token),
            refresh_token: within("refreshToken").map(Secret::new),
            expires_at: token.get("expiresAt").and_then(millis),
            token_type: within("tokenType").unwrap_or_else(|| "Bearer".to_owned()),
            scope: within("scope"),
        };
        let mut take = |name: &str| text(fields.shift_remove(name).as_ref());
        let (server_name, client_id, client_secret, token_url, mcp_server_url) = (
            take("serverName").unwrap_or_default(),
            take("clientId"),
            take("clientSecret").map(Secret::new),
            take("tokenUrl"),
            take("mcpServerUrl"),
        );
        let updated_at = fields.shift_remove("updatedAt").as_ref().and_then(millis).unwrap_or(0);
        Some(Self {
            server_name,
            token,
            client_id,
            client_secret,
            token_url,
            mcp_server_url,
            updated_at,
            other: fields,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        let token = &self.token;
        let mut fields = json!({"accessToken": token.access_token.reveal()});
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        put(&mut fields, "refreshToken", secret(&token.refresh_token));
        put(&mut fields, "expiresAt", token.expires_at);
        put(&mut fields, "tokenType", Some(token.token_type.clone()));
        put(&mut fields, "scope", token.scope.clone());
        let mut entry = json!({"serverName": self.server_name, "token": fields});
        put(&mut entry, "clientId", self.client_id.clone());
        put(&mut entry, "clientSecret", secret(&self.client_secret));
        put(&mut entry, "tokenUrl", self.token_url.clone());
        put(&mut entry, "mcpServerUrl", self.mcp_server_url.clone());
        put(&mut entry, "updatedAt", Some(self.updated_at));
        for (name, value) in &self.other {
            put(&mut entry, name, Some(value.clone()));
        }
        entry
    }
}

fn put(object: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(name.to_owned(), value.into());
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// JavaScript's numbers may come with a fraction.
fn millis(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_written_as_it_was_read_with_what_others_added() {
        let entry = json!({
            "serverName": "s",
            "token": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1_000, "tokenType": "Bearer", "scope": "x y"},
            "clientId": "c", "tokenUrl": "https://t", "mcpServerUrl": "https://m", "updatedAt": 5, "newer": {"k": 1}
        });
        let read = OAuthCredentials::read(&entry).unwrap();
        assert_eq!(read.to_json(), entry);
        assert_eq!(OAuthCredentials::read(&Value::String(entry.to_string())), Some(read.clone()));
        assert!(!format!("{read:?}").contains("\"a\""), "{read:?}");
    }

    #[test]
    fn a_token_ends_five_minutes_early() {
        let entry = json!({"token": {"accessToken": "a", "expiresAt": 1_000_000.5}});
        let read = OAuthCredentials::read(&entry).unwrap();
        assert!(!read.token.is_expired(699_999));
        assert!(read.token.is_expired(700_000) && read.is_spent(700_000));
        for hostile in [json!(null), json!("{"), json!({}), json!({"token": {"accessToken": " "}})] {
            assert_eq!(OAuthCredentials::read(&hostile), None, "{hostile}");
        }
    }
}
