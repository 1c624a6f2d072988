//! The models that a server lists, and what it says they can do.

use pollux_domain::model::Effort;
use reqwest::Url;
use serde_json::Value;

use super::usage::number;
use crate::catalogue::known::ModelOverride;
use crate::http::Failure;
use crate::shared::fault;

pub(super) const MAX_PAGES: usize = 20;
const LIMIT: &str = "1000";

/// One page of the list.
pub(super) struct Page {
    pub(super) models: Vec<Value>,
    /// The last model of it, if more follow.
    pub(super) next: Option<String>,
}

pub(super) fn ask_for_page(url: &mut Url, after: Option<&str>) {
    let mut query = url.query_pairs_mut();
    query.append_pair("limit", LIMIT);
    if let Some(after) = after {
        query.append_pair("after_id", after);
    }
}

pub(super) fn read_page(value: Value) -> Result<Page, Failure> {
    if let Some(failure) = fault::in_reply(&value, false) {
        return Err(failure);
    }
    let models = value.get("data").and_then(Value::as_array);
    let models = models.ok_or_else(|| Failure::malformed("the response has no list of models"))?.clone();
    let more = value.get("has_more").and_then(Value::as_bool).unwrap_or(false) && !models.is_empty();
    let next = value.get("last_id").and_then(Value::as_str).filter(|_| more).map(str::to_owned);
    Ok(Page { models, next })
}

/// What the server says of a model.
pub(super) fn said(model: &Value) -> Option<(String, ModelOverride)> {
    let id = model.get("id")?.as_str()?.to_owned();
    let count = |key: &str| model.get(key).map(number).filter(|count| *count > 0);
    let says = |path: &str| model.pointer(&format!("/capabilities{path}/supported")).and_then(Value::as_bool);
    let said = ModelOverride {
        context: count("max_input_tokens"),
        output: count("max_tokens"),
        images: says("/image_input"),
        pdf: says("/pdf_input"),
        structured: says("/structured_outputs"),
        reasoning: says("/thinking"),
        efforts: efforts(says),
        ..ModelOverride::default()
    };
    Some((id, said))
}

/// The efforts that a model has, if the server speaks of them.
fn efforts(says: impl Fn(&str) -> Option<bool>) -> Option<Vec<Effort>> {
    let adaptive = says("/thinking/types/adaptive");
    let graded = says("/effort");
    if adaptive.or(graded)? && adaptive != Some(false) {
        let levels = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];
        let has = |level: &Effort| {
            graded == Some(true) && says(&format!("/effort/{}", level.as_str())) == Some(true)
        };
        let off = (says("/thinking/types/disabled") == Some(true)).then_some(Effort::None);
        return Some(off.into_iter().chain(levels.into_iter().filter(has)).collect());
    }
    Some(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::{Dialect, InfoSource, ModelInfo, ProviderId};
    use serde_json::json;

    #[test]
    fn the_servers_word_on_a_model_wins() {
        let known = ModelInfo::unknown("claude-x", ProviderId::known("anthropic"), Dialect::MESSAGES);
        let describe = |known: ModelInfo, model: &Value| said(model).unwrap().1.over(known);
        let yes = json!({"supported": true});
        let no = json!({"supported": false});
        let info = describe(
            known.clone(),
            &json!({"id": "claude-x", "max_input_tokens": 500_000, "max_tokens": 64_000, "lifecycle": "active",
            "capabilities": {"image_input": yes, "pdf_input": no, "structured_outputs": yes,
                "effort": {"supported": true, "low": yes, "medium": yes, "high": yes, "max": no, "xhigh": null},
                "thinking": {"supported": true, "types": {"adaptive": yes, "disabled": yes, "enabled": no}}}}),
        );
        assert_eq!((info.context_window, info.max_output), (500_000, Some(64_000)));
        assert!(info.caps.images && !info.caps.pdf && info.caps.structured && info.caps.reasoning);
        assert_eq!(info.caps.efforts, [Effort::None, Effort::Low, Effort::Medium, Effort::High]);
        assert_eq!(info.source, InfoSource::Server);
        let silent = describe(known.clone(), &json!({"id": "claude-x", "max_input_tokens": null}));
        assert_eq!((silent.context_window, &silent.caps), (known.context_window, &known.caps));
    }

    #[test]
    fn a_page_says_whether_more_follow() {
        let page = read_page(json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"})).unwrap();
        assert_eq!((page.models.len(), page.next.as_deref()), (1, Some("a")));
        assert_eq!(read_page(json!({"data": [], "has_more": true, "last_id": "a"})).unwrap().next, None);
        assert!(read_page(json!({"models": []})).is_err());
        let mut url: Url = "http://x/v1/models".parse().unwrap();
        ask_for_page(&mut url, Some("a&b=c"));
        assert_eq!(url.as_str(), "http://x/v1/models?limit=1000&after_id=a%26b%3Dc");
    }
}
