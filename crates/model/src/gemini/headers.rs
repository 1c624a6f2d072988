//! The headers of a request.

use pollux_config::env::Env;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::GeminiOptions;

const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const API_CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");
const CLIENT_LABEL: HeaderValue = HeaderValue::from_static(concat!("pollux/", env!("CARGO_PKG_VERSION")));

/// A header that cannot be sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HeaderError {
    #[error("the API key contains invalid characters; copy the key again, without spaces or quotes")]
    Key,
    #[error("invalid header `{0}` in GEMINI_CLI_CUSTOM_HEADERS")]
    Custom(String),
    #[error("the user agent contains invalid characters")]
    UserAgent,
}

/// All headers but those of the connection.
pub(super) fn build(options: &GeminiOptions) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(API_CLIENT, CLIENT_LABEL);
    let agent = HeaderValue::from_str(&options.user_agent).map_err(|_| HeaderError::UserAgent)?;
    headers.insert(USER_AGENT, agent);
    let key = options.auth.key.reveal();
    // With tokens there is no key, and each request gets the token of its time.
    if options.tokens.is_none() {
        headers.insert(API_KEY, secret(key)?);
    }
    if options.auth.bearer {
        headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"))?);
    }
    for (name, value) in &options.custom_headers {
        let refused = || HeaderError::Custom(name.clone());
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        headers.insert(parsed, HeaderValue::from_str(value).map_err(|_| refused())?);
    }
    Ok(headers)
}

fn secret(text: &str) -> Result<HeaderValue, HeaderError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| HeaderError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Names this program in upstream's form, which servers have on their lists.
pub fn user_agent(version: &str, model: &str, surface: &str) -> String {
    let platform = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        other => other,
    };
    let text = format!("GeminiCLI-pollux/{version}/{model} ({platform}; {arch}; {surface})");
    // A model's name is the user's text; a header is not.
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '_' }).collect()
}

/// Where the program runs, in upstream's words.
pub(super) fn surface(env: &Env) -> &str {
    let github = || env.non_empty("GITHUB_SHA").map(|_| "GitHub");
    env.non_empty("GEMINI_CLI_SURFACE")
        .or_else(|| env.non_empty("SURFACE"))
        .or_else(github)
        .unwrap_or("terminal")
}

/// Reads `A: 1, B: 2`; a comma that no `name:` follows belongs to the value.
pub fn custom_headers(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for piece in text.split(',') {
        let header = piece.split_once(':').filter(|(name, _)| is_name(name.trim()));
        match (header, found.last_mut()) {
            (Some((name, value)), _) => found.push((name.trim().to_owned(), value.trim().to_owned())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(piece.trim_end());
            }
            (None, None) => {}
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_headers_are_split_only_before_a_name() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("nonsense", &[]),
            ("A: 1, B: 2", &[("A", "1"), ("B", "2")]),
            ("A: 1, 2, B:http://x", &[("A", "1, 2"), ("B", "http://x")]),
            ("User-Agent: me", &[("User-Agent", "me")]),
            ("A:", &[("A", "")]),
        ];
        for (text, expected) in cases {
            let found = custom_headers(text);
            let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(&found, expected, "{text:?}");
        }
    }

    #[test]
    fn the_user_agent_has_upstreams_form_whatever_the_model_is_called() {
        let agent = user_agent("1.2.3", "gemini-x", "terminal");
        assert!(agent.starts_with("GeminiCLI-pollux/1.2.3/gemini-x ("), "{agent}");
        assert!(agent.ends_with("; terminal)"), "{agent}");
        assert!(HeaderValue::from_str(&user_agent("1", "mod\nel é", "t")).is_ok());
    }
}
