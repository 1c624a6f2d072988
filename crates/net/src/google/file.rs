//! Google's credential files.

use pollux_config::groups::Secret;
use reqwest::Url;
use serde_json::Value;

use super::source::{Source, Subject};
use crate::oauth::is_loopback;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// Files inside files, as impersonation nests them.
const MAX_DEPTH: usize = 4;

/// The credentials in a file, and who pays; the error says what is wrong with it.
pub(super) fn read(text: &str) -> Result<(Source, Option<String>), String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "invalid JSON".to_owned())?;
    let quota = optional(&value, "quota_project_id");
    Ok((source(&value, 0)?, quota))
}

fn source(value: &Value, depth: usize) -> Result<Source, String> {
    if depth > MAX_DEPTH {
        return Err("nested too deeply".to_owned());
    }
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "service_account" => Ok(Source::ServiceAccount {
            email: required(value, "client_email")?,
            key: Secret::new(required(value, "private_key")?),
            key_id: optional(value, "private_key_id"),
            token_url: address(value, "token_uri")?.map_or_else(default_token_url, Ok)?,
        }),
        "authorized_user" => Ok(Source::User {
            client_id: required(value, "client_id")?,
            client_secret: Secret::new(required(value, "client_secret")?),
            refresh_token: Secret::new(required(value, "refresh_token")?),
            token_url: address(value, "token_uri")?.map_or_else(default_token_url, Ok)?,
        }),
        "external_account" => external(value),
        "impersonated_service_account" => {
            let inner = value.get("source_credentials").ok_or("`source_credentials` is missing")?;
            Ok(Source::Impersonated {
                source: Box::new(source(inner, depth + 1)?),
                url: required_address(value, "service_account_impersonation_url")?,
                delegates: texts(value, "delegates"),
            })
        }
        "" => Err("`type` is missing".to_owned()),
        other => {
            let kind: String = other.chars().filter(|c| !c.is_control()).take(60).collect();
            Err(format!("the type `{kind}` is not supported"))
        }
    }
}

/// Workload identity: somebody else's token, exchanged at Google.
fn external(value: &Value) -> Result<Source, String> {
    let origin = value.get("credential_source").ok_or("`credential_source` is missing")?;
    let format = origin.get("format");
    let field = match format.and_then(|format| format.get("type")).and_then(Value::as_str) {
        None | Some("text") => None,
        Some("json") => {
            let field = format.and_then(|format| optional(format, "subject_token_field_name"));
            Some(field.ok_or("`subject_token_field_name` is missing")?)
        }
        Some(_) => return Err("the format of its token is not supported".to_owned()),
    };
    let subject = if let Some(path) = optional(origin, "file") {
        Subject::File { path: path.into(), field }
    } else if let Some(url) = optional(origin, "url") {
        let url = Url::parse(&url).map_err(|_| "`credential_source.url` is not a URL")?;
        let headers = origin.get("headers").and_then(Value::as_object).into_iter().flatten();
        let headers = headers.filter_map(|(name, value)| Some((name.clone(), Secret::new(value.as_str()?))));
        Subject::Url { url, headers: headers.collect(), field }
    } else {
        return Err("only tokens from a file or a URL can be exchanged".to_owned());
    };
    let exchange = Source::External {
        subject,
        audience: required(value, "audience")?,
        subject_type: required(value, "subject_token_type")?,
        token_url: required_address(value, "token_url")?,
    };
    match address(value, "service_account_impersonation_url")? {
        None => Ok(exchange),
        Some(url) => Ok(Source::Impersonated { source: Box::new(exchange), url, delegates: Vec::new() }),
    }
}

fn default_token_url() -> Result<Url, String> {
    Url::parse(TOKEN_URL).map_err(|error| error.to_string())
}

fn required_address(value: &Value, name: &str) -> Result<Url, String> {
    address(value, name)?.ok_or_else(|| format!("`{name}` is missing"))
}

/// Secrets go there, so it is encrypted or on this machine.
fn address(value: &Value, name: &str) -> Result<Option<Url>, String> {
    let Some(text) = optional(value, name) else { return Ok(None) };
    let url = Url::parse(&text).map_err(|_| format!("`{name}` is not a URL"))?;
    if url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)) {
        Ok(Some(url))
    } else {
        Err(format!("`{name}` is not an https URL"))
    }
}

fn required(value: &Value, name: &str) -> Result<String, String> {
    optional(value, name).ok_or_else(|| format!("`{name}` is missing"))
}

fn optional(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    let items = value.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_says_why_and_shows_no_secret() {
        let cases = [
            (json!([]), "`type` is missing"),
            (json!({"type": "weird\u{7}"}), "the type `weird` is not supported"),
            (json!({"type": "service_account", "private_key": "hunter2"}), "`client_email` is missing"),
            (
                json!({"type": "authorized_user", "client_id": "c", "client_secret": "hunter2",
                       "refresh_token": "hunter2", "token_uri": "http://evil.example/t"}),
                "`token_uri` is not an https URL",
            ),
            (
                json!({"type": "external_account", "credential_source": {"executable": {}}}),
                "only tokens from a file or a URL can be exchanged",
            ),
        ];
        for (value, problem) in cases {
            assert_eq!(read(&value.to_string()).unwrap_err(), problem);
        }
        assert_eq!(read("{").unwrap_err(), "invalid JSON");
        let mut nested = json!({"type": "authorized_user"});
        for _ in 0..10 {
            nested = json!({"type": "impersonated_service_account", "source_credentials": nested,
                            "service_account_impersonation_url": "https://x/y"});
        }
        assert_eq!(read(&nested.to_string()).unwrap_err(), "nested too deeply");
    }
}
