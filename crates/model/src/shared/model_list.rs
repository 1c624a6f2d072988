//! Lists of models, in the forms that servers give them.

use pollux_domain::model::{MicroUsd, Prices};
use serde_json::Value;

use crate::catalogue::known::ModelOverride;
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
pub(crate) fn read(value: &Value) -> Result<Vec<(String, ModelOverride)>, Failure> {
    if let Some(failure) = fault::in_reply(value, false) {
        return Err(failure);
    }
    let list = value.as_array().or_else(|| value.get("data")?.as_array());
    let list = list.or_else(|| value.get("models")?.as_array());
    let list = list.ok_or_else(|| Failure::malformed("the response has no list of models"))?;
    Ok(list.iter().filter_map(said).collect())
}

/// What an entry says of its model.
fn said(model: &Value) -> Option<(String, ModelOverride)> {
    let id = ["id", "name", "model"].iter().find_map(|key| model.get(*key)?.as_str())?;
    let number = |path: &[&str]| {
        let number = path.iter().try_fold(model, |value, key| value.get(*key))?.as_u64();
        number.filter(|number| *number > 0)
    };
    let output = number(&["top_provider", "max_completion_tokens"]);
    let mut said = ModelOverride {
        context: WINDOWS.iter().find_map(|path| number(path)),
        output: output.or_else(|| number(&["max_completion_tokens"])),
        prices: model.get("pricing").and_then(prices),
        ..ModelOverride::default()
    };
    read_abilities(model, &mut said);
    Some((id.to_owned(), said))
}

fn read_abilities(model: &Value, said: &mut ModelOverride) {
    let words = |value: Option<&Value>| -> Option<Vec<String>> {
        Some(value?.as_array()?.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
    };
    let inputs = words(model.get("architecture").and_then(|shape| shape.get("input_modalities")));
    if let Some(inputs) = inputs {
        let takes = |word: &str| Some(inputs.iter().any(|input| input == word));
        (said.images, said.pdf, said.audio) = (takes("image"), takes("file"), takes("audio"));
    }
    if let Some(params) = words(model.get("supported_parameters")) {
        let takes = |word: &str| Some(params.iter().any(|param| param == word));
        said.tools = takes("tools");
        said.tool_choice = takes("tool_choice");
        said.reasoning = takes("reasoning");
        said.structured = takes("structured_outputs");
        said.sampling = takes("temperature");
    }
    let able = |word: &str| model.get("capabilities").and_then(|all| all.get(word)?.as_bool());
    said.tools = able("function_calling").or(said.tools);
    said.images = able("vision").or(said.images);
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
    use serde_json::json;

    #[test]
    fn lists_are_read_in_every_form() {
        let windows = |value: Value| -> Vec<(String, Option<u64>)> {
            let models = read(&value).unwrap();
            models.into_iter().map(|(id, said)| (id, said.context)).collect()
        };
        let one = |window| vec![("m".to_owned(), window)];
        assert_eq!(windows(json!({"data": [{"id": "m"}, {"object": "model"}]})), one(None));
        assert_eq!(windows(json!([{"id": "m", "context_length": 9000}])), one(Some(9000)));
        assert_eq!(windows(json!([{"id": "m", "context_length": -1, "max_model_len": 0}])), one(None));
        assert_eq!(
            windows(json!({"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}]})),
            one(Some(4096))
        );
        assert_eq!(
            windows(json!({"models": [{"name": "m", "max_context_length": 1, "loaded_context_length": 7}]})),
            one(Some(7))
        );
        assert!(read(&json!({"error": "no"})).is_err());
        assert!(read(&json!({})).is_err());
    }

    #[test]
    fn a_broker_tells_abilities_and_prices() {
        let model = json!({"id": "a/b", "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "supported_parameters": ["tools", "reasoning"],
            "pricing": {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"},
            "top_provider": {"max_completion_tokens": 64_000}});
        let [(id, said)] = &read(&json!({"data": [model]})).unwrap()[..] else { panic!("one model") };
        assert_eq!((id.as_str(), said.output), ("a/b", Some(64_000)));
        assert_eq!((said.images, said.tools, said.reasoning), (Some(true), Some(true), Some(true)));
        assert_eq!((said.tool_choice, said.pdf), (Some(false), Some(false)));
        let prices = said.prices.as_ref().unwrap();
        assert_eq!(
            (prices.input, prices.output, prices.cached),
            (MicroUsd(2_000_000), MicroUsd(10_000_000), MicroUsd(200_000))
        );
        let negative = json!([{"id": "auto", "pricing": {"prompt": "-1", "completion": "-1"}}]);
        assert_eq!(read(&negative).unwrap()[0].1.prices, None);
    }
}
