//! Definitions of remote agents.

use pollux_domain::JsonObject;
use pollux_domain::remote_agent::{CardSource, RemoteAuth, RemoteOAuth, RemoteTarget};
use serde::Deserialize;

/// The keys of a remote agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteFields {
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "read before to choose the form; accepted here so that other keys are refused"
    )]
    kind: Option<String>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    #[serde(alias = "displayName")]
    pub(super) display_name: Option<String>,
    #[serde(alias = "agentCardUrl")]
    agent_card_url: Option<String>,
    #[serde(alias = "agentCardJson")]
    agent_card_json: Option<String>,
    #[expect(dead_code, reason = "a label for people")]
    experimental: Option<bool>,
    #[serde(rename = "inputConfig")]
    #[expect(dead_code, reason = "the agent gets the prompt as a text, whatever it says")]
    input_config: Option<JsonObject>,
    #[serde(rename = "outputConfig")]
    #[expect(dead_code, reason = "the agent's card says what it returns")]
    output_config: Option<JsonObject>,
    auth: Option<AuthFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthFields {
    #[serde(rename = "type")]
    kind: String,
    key: Option<String>,
    name: Option<String>,
    scheme: Option<String>,
    token: Option<String>,
    username: Option<String>,
    password: Option<String>,
    value: Option<String>,
    scopes: Option<Vec<String>>,
    client_id: Option<String>,
    client_secret: Option<String>,
    authorization_url: Option<String>,
    token_url: Option<String>,
    issuer: Option<String>,
    audiences: Option<Vec<String>>,
    redirect_uri: Option<String>,
    token_param_name: Option<String>,
    registration_url: Option<String>,
}

impl RemoteFields {
    /// Where the agent is; the reason if the keys do not say.
    pub(super) fn target(self) -> Result<RemoteTarget, String> {
        let card = match (self.agent_card_url, self.agent_card_json) {
            (Some(url), None) if is_web(&url) => CardSource::Url(url),
            (Some(url), None) => return Err(format!("`agent_card_url` is not an http or https URL: {url}")),
            (None, Some(json)) => {
                serde_json::from_str::<serde_json::Value>(&json)
                    .map_err(|error| format!("`agent_card_json` is not valid JSON: {error}"))?;
                CardSource::Json(json)
            }
            (Some(_), Some(_)) => {
                return Err("`agent_card_url` and `agent_card_json` are mutually exclusive".to_owned());
            }
            (None, None) => {
                return Err("a remote agent needs `agent_card_url` or `agent_card_json`".to_owned());
            }
        };
        let auth = self.auth.map(AuthFields::auth).transpose()?;
        Ok(RemoteTarget { name: self.name, card, auth })
    }
}

fn is_web(url: &str) -> bool {
    ["http://", "https://"].iter().any(|start| url.strip_prefix(start).is_some_and(|rest| !rest.is_empty()))
}

impl AuthFields {
    fn auth(self) -> Result<RemoteAuth, String> {
        let needs = |value: Option<String>, key: &str, what: &str| {
            value.filter(|text| !text.is_empty()).ok_or_else(|| format!("auth of type {what} needs `{key}`"))
        };
        match self.kind.as_str() {
            "apiKey" => Ok(RemoteAuth::ApiKey { key: needs(self.key, "key", "apiKey")?, header: self.name }),
            "http" => {
                let scheme = needs(self.scheme, "scheme", "http")?;
                match scheme.to_ascii_lowercase().as_str() {
                    "bearer" if self.value.is_none() => {
                        Ok(RemoteAuth::Bearer { token: needs(self.token, "token", "http (Bearer)")? })
                    }
                    "basic" if self.value.is_none() => Ok(RemoteAuth::Basic {
                        username: needs(self.username, "username", "http (Basic)")?,
                        password: needs(self.password, "password", "http (Basic)")?,
                    }),
                    _ => Ok(RemoteAuth::Scheme { value: needs(self.value, "value", "http")?, scheme }),
                }
            }
            "google-credentials" => {
                Ok(RemoteAuth::GoogleCredentials { scopes: self.scopes.unwrap_or_default() })
            }
            "oauth" => Ok(RemoteAuth::OAuth(Box::new(RemoteOAuth {
                client_id: self.client_id,
                client_secret: self.client_secret,
                scopes: self.scopes.unwrap_or_default(),
                authorization_url: self.authorization_url,
                token_url: self.token_url,
                issuer: self.issuer,
                audiences: self.audiences.unwrap_or_default(),
                redirect_uri: self.redirect_uri,
                token_param_name: self.token_param_name,
                registration_url: self.registration_url,
            }))),
            other => Err(format!(
                "unknown auth type `{other}` (expected apiKey, http, google-credentials or oauth)"
            )),
        }
    }
}
