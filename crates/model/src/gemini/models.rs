//! The list of models that the Gemini API gives.

use pollux_domain::model::{ModelError, ModelErrorKind};
use reqwest::Url;
use serde_json::Value;

use crate::catalogue::known::ModelOverride;
use crate::http::Failure;

pub(super) const MAX_PAGES: usize = 20;

/// One page of the list.
pub(super) struct Page {
    pub(super) models: Vec<(String, ModelOverride)>,
    /// Asks for the next page, if there is one.
    pub(super) next: Option<String>,
}

pub(super) fn address(base: &str, token: Option<&str>) -> Result<Url, ModelError> {
    let mut url = Url::parse(&format!("{base}/models")).map_err(|error| {
        ModelError::new(ModelErrorKind::BadRequest, None, format!("invalid URL: {error}"))
    })?;
    url.query_pairs_mut().append_pair("pageSize", "1000");
    if let Some(token) = token {
        url.query_pairs_mut().append_pair("pageToken", token);
    }
    Ok(url)
}

pub(super) fn read_page(value: Value) -> Result<Page, Failure> {
    let list = value.get("models").and_then(Value::as_array);
    let list = list.ok_or_else(|| Failure::malformed("the response has no list of models"))?;
    let next = value.get("nextPageToken").and_then(Value::as_str).filter(|token| !token.is_empty());
    Ok(Page { models: list.iter().filter_map(said).collect(), next: next.map(str::to_owned) })
}

/// What an entry says; `None` for models that do not write text.
fn said(model: &Value) -> Option<(String, ModelOverride)> {
    let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
    if !methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent")) {
        return None;
    }
    let name = model.get("name")?.as_str()?;
    let count = |key: &str| model.get(key)?.as_u64().filter(|count| *count > 0);
    let said = ModelOverride {
        context: count("inputTokenLimit"),
        output: count("outputTokenLimit"),
        reasoning: model.get("thinking").and_then(Value::as_bool),
        ..ModelOverride::default()
    };
    Some((name.strip_prefix("models/").unwrap_or(name).to_owned(), said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn models_that_write_text_are_listed_with_their_limits() {
        let generate = json!(["generateContent", "countTokens"]);
        let page = read_page(json!({"models": [
            {"name": "models/gemini-x", "inputTokenLimit": 9, "outputTokenLimit": 4, "thinking": true,
             "supportedGenerationMethods": generate},
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            {"name": 3}], "nextPageToken": "t"}))
        .unwrap();
        let [(name, said)] = &page.models[..] else { panic!("one model") };
        assert_eq!((name.as_str(), said.context, said.output), ("gemini-x", Some(9), Some(4)));
        assert_eq!((said.reasoning, page.next.as_deref()), (Some(true), Some("t")));
        assert!(read_page(json!({"error": {}})).is_err());
        let url = address("http://h/v1beta", Some("a&b")).unwrap();
        assert_eq!(url.as_str(), "http://h/v1beta/models?pageSize=1000&pageToken=a%26b");
    }
}
