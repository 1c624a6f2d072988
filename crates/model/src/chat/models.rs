//! Lists of models, in the forms that servers give them.

use pollux_domain::model::{InfoSource, MicroUsd, ModelInfo, Prices};
use serde_json::Value;

use crate::http::Failure;
use crate::shared::fault;

/// Where servers write how much a model can read at once; the first that is there is taken.
const WINDOWS: &[&[&str]] = &[
    &["meta", "n_ctx"],
    &["loaded_context_length"],
    &["max_model_len"],
    &["context_length"],
    &["context_window"],
    &["max_context_length"],
];

/// Reads `GET /models`: a list under `data` or `models`, or a bare one.
pub(super) fn read(value: &Value, known: &dyn Fn(&str) -> ModelInfo) -> Result<Vec<ModelInfo>, Failure> {
    if let Some(failure) = fault::in_reply(value, false) {
        return Err(failure);
    }
    let list = value.as_array().or_else(|| value.get("data")?.as_array());
    let list = list.or_else(|| value.get("models")?.as_array());
    let list = list.ok_or_else(|| Failure::malformed("the list of models is missing in the answer"))?;
    Ok(list.iter().filter_map(|model| info(model, known)).collect())
}

fn info(model: &Value, known: &dyn Fn(&str) -> ModelInfo) -> Option<ModelInfo> {
    let id = ["id", "name", "model"].iter().find_map(|key| model.get(*key)?.as_str())?;
    let mut info = known(id);
    // What people set themselves holds.
    if info.source == InfoSource::User {
        return Some(info);
    }
    let guessed = info.source == InfoSource::Guess;
    let number = |path: &[&str]| path.iter().try_fold(model, |value, key| value.get(*key))?.as_u64();
    if let Some(window) = WINDOWS.iter().find_map(|path| number(path)).filter(|window| *window > 0) {
        info.context_window = window;
        info.source = InfoSource::Server;
    }
    let output = number(&["top_provider", "max_completion_tokens"]);
    if let (None, Some(output)) = (info.max_output, output.or_else(|| number(&["max_completion_tokens"]))) {
        info.max_output = Some(output);
    }
    if guessed {
        read_abilities(model, &mut info);
    }
    if info.prices.is_none() {
        info.prices = model.get("pricing").and_then(prices);
    }
    Some(info)
}

fn read_abilities(model: &Value, info: &mut ModelInfo) {
    let words = |value: Option<&Value>| -> Option<Vec<String>> {
        Some(value?.as_array()?.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
    };
    let inputs = words(model.get("architecture").and_then(|shape| shape.get("input_modalities")));
    if let Some(inputs) = inputs {
        let takes = |word: &str| inputs.iter().any(|input| input == word);
        (info.caps.images, info.caps.pdf, info.caps.audio) = (takes("image"), takes("file"), takes("audio"));
    }
    if let Some(params) = words(model.get("supported_parameters")) {
        let takes = |word: &str| params.iter().any(|param| param == word);
        info.caps.tools = takes("tools");
        info.caps.tool_choice = takes("tool_choice");
        info.caps.reasoning = takes("reasoning");
        info.caps.structured = takes("structured_outputs");
        info.caps.sampling = takes("temperature");
    }
    let able = |word: &str| model.get("capabilities").and_then(|all| all.get(word)?.as_bool());
    if let Some(tools) = able("function_calling") {
        info.caps.tools = tools;
    }
    if let Some(vision) = able("vision") {
        info.caps.images = vision;
    }
}

/// Dollars for one token, written as text.
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |key: &str| {
        let value = pricing.get(key)?;
        let dollars = value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_f64())?;
        let micro = dollars * 1e12;
        (0.0..1e15).contains(&micro).then(|| MicroUsd(micro.round() as u64))
    };
    let (input, output) = (price("prompt")?, price("completion")?);
    Some(Prices {
        input,
        output,
        cached: price("input_cache_read").unwrap_or(input),
        cache_write: price("input_cache_write").unwrap_or(input),
        above: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::{Dialect, ProviderId};
    use serde_json::json;

    fn guess(id: &str) -> ModelInfo {
        ModelInfo::unknown(id, ProviderId::new("lab"), Dialect::CHAT)
    }

    #[test]
    fn lists_are_read_in_every_form() {
        let windows = |value: Value| -> Vec<(String, u64)> {
            let models = read(&value, &guess).unwrap();
            models.into_iter().map(|info| (info.id, info.context_window)).collect()
        };
        let one = |window| vec![("m".to_owned(), window)];
        assert_eq!(windows(json!({"data": [{"id": "m"}, {"object": "model"}]})), one(128_000));
        assert_eq!(windows(json!([{"id": "m", "context_length": 9000}])), one(9000));
        assert_eq!(
            windows(json!({"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}]})),
            one(4096)
        );
        assert_eq!(
            windows(json!({"models": [{"name": "m", "max_context_length": 1, "loaded_context_length": 7}]})),
            one(7)
        );
        assert!(read(&json!({"error": "no"}), &guess).is_err());
        assert!(read(&json!({}), &guess).is_err());
    }

    #[test]
    fn a_broker_tells_abilities_and_prices() {
        let model = json!({"id": "a/b", "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "supported_parameters": ["tools", "reasoning"],
            "pricing": {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"},
            "top_provider": {"max_completion_tokens": 64_000}});
        let [info] = &read(&json!({"data": [model]}), &guess).unwrap()[..] else { panic!("one model") };
        assert!(info.caps.images && info.caps.tools && info.caps.reasoning && !info.caps.tool_choice);
        assert_eq!((info.max_output, info.source), (Some(64_000), InfoSource::Server));
        let prices = info.prices.as_ref().unwrap();
        assert_eq!(
            (prices.input, prices.output, prices.cached),
            (MicroUsd(2_000_000), MicroUsd(10_000_000), MicroUsd(200_000))
        );
        let known = |id: &str| ModelInfo { source: InfoSource::User, context_window: 5, ..guess(id) };
        assert_eq!(read(&json!([{"id": "m", "context_length": 9000}]), &known).unwrap()[0].context_window, 5);
    }
}
