//! The headers that are this API's own.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::MessagesOptions;
use crate::shared::body::RequestBody;

const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// The version of Anthropic's own server, and the one that every other server knows. Bodies obey both.
const NEWEST: &str = "2026-10-21";
const FIRST: &str = "2023-06-01";

/// Lets a request say what happens to reasoning that no longer fits its beginning.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// Sent with every request.
pub(super) fn own(options: &MessagesOptions, first_party: bool) -> Vec<(&'static str, String)> {
    let usual = if first_party { NEWEST } else { FIRST };
    vec![("anthropic-version", options.api_version.clone().unwrap_or_else(|| usual.to_owned()))]
}

/// What is asked for and what a body makes use of.
pub(super) fn betas(asked: &[String], body: &RequestBody) -> Vec<String> {
    let mut betas = asked.to_vec();
    let binds = body.value("thinking").is_some_and(|thinking| thinking.get("block_binding").is_some());
    if binds {
        betas.push(BINDING_BETA.to_owned());
    }
    betas
}

/// Puts betas behind those that a header of the user's names.
pub(super) fn add_betas(headers: &mut HeaderMap, betas: Vec<String>) {
    let given = headers.get(BETA).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut all: Vec<String> = Vec::new();
    for beta in given.iter().flat_map(|given| given.split(',')).chain(betas.iter().map(String::as_str)) {
        let beta = beta.trim().to_owned();
        if !beta.is_empty() && !all.contains(&beta) {
            all.push(beta);
        }
    }
    if let Ok(value) = HeaderValue::from_str(&all.join(","))
        && !all.is_empty()
    {
        headers.insert(BETA, value);
    }
}
