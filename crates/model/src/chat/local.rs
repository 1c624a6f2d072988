//! What local servers say about a model beyond the dialect.

use serde_json::Value;

use crate::prompt_tools::LocalFacts;

/// Agents work badly below this window.
const SMALL_WINDOW: u64 = 16_384;

/// Reads Ollama's `/api/show`, and `/api/ps` for what is loaded now.
pub(super) fn ollama(model: &str, show: &Value, running: &Value) -> LocalFacts {
    let able = |word: &str| {
        let words = show.get("capabilities")?.as_array()?;
        Some(words.iter().any(|known| known.as_str() == Some(word)))
    };
    let trained = show.get("model_info").and_then(Value::as_object).and_then(|info| {
        let (_, length) = info.iter().find(|(key, _)| key.ends_with(".context_length"))?;
        length.as_u64()
    });
    let loaded = running.get("models").and_then(Value::as_array).into_iter().flatten().find(|loaded| {
        ["model", "name"].iter().any(|key| {
            let name = loaded.get(*key).and_then(Value::as_str).unwrap_or_default();
            name == model || name.strip_suffix(":latest") == Some(model)
        })
    });
    let in_use = loaded.and_then(|loaded| loaded.get("context_length")?.as_u64());
    let advice = in_use.filter(|window| *window < SMALL_WINDOW).map(|window| {
        format!(
            "Ollama runs {model} with a context window of {window} tokens and cuts longer prompts silently; \
             restart it with `OLLAMA_CONTEXT_LENGTH=64000 ollama serve`"
        )
    });
    LocalFacts {
        context_window: in_use.or(trained),
        tools: able("tools"),
        images: able("vision"),
        reasoning: able("thinking"),
        advice,
    }
}

/// Reads llama.cpp's `/props`.
pub(super) fn llama_cpp(props: &Value) -> LocalFacts {
    let caps = props.get("chat_template_caps");
    let tools = caps.and_then(|caps| {
        let able = |key: &str| caps.get(key).and_then(Value::as_bool);
        Some(able("supports_tools")? && able("supports_tool_calls").unwrap_or(true))
    });
    let window =
        props.get("default_generation_settings").and_then(|settings| settings.get("n_ctx")?.as_u64());
    let images = props.get("modalities").and_then(|modalities| modalities.get("vision")?.as_bool());
    LocalFacts { context_window: window, tools, images, ..LocalFacts::default() }
}

/// Reads LM Studio's `/api/v0/models`.
pub(super) fn lm_studio(model: &str, list: &Value) -> LocalFacts {
    let models = list.get("data").and_then(Value::as_array).into_iter().flatten();
    let Some(found) = models.into_iter().find(|found| found["id"] == model) else {
        return LocalFacts::default();
    };
    let number = |key: &str| found.get(key).and_then(Value::as_u64);
    LocalFacts {
        context_window: number("loaded_context_length").or_else(|| number("max_context_length")),
        images: found.get("type").and_then(Value::as_str).map(|kind| kind == "vlm"),
        ..LocalFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ollama_tells_the_window_in_use_and_what_to_do_about_a_small_one() {
        let show =
            json!({"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]});
        let loaded = |window: u64| json!({"models": [{"name": "qwen3:latest", "context_length": window}]});
        let small = ollama("qwen3", &show, &loaded(4096));
        assert_eq!((small.context_window, small.tools, small.images), (Some(4096), Some(true), Some(false)));
        assert!(small.advice.unwrap().contains("OLLAMA_CONTEXT_LENGTH=64000 ollama serve"));
        assert_eq!(ollama("qwen3", &show, &loaded(65536)).advice, None);
        let idle = ollama("qwen3", &show, &json!({"models": []}));
        assert_eq!((idle.context_window, idle.advice), (Some(40960), None));
        assert_eq!(ollama("x", &json!(null), &json!(null)), LocalFacts::default());
    }

    #[test]
    fn llama_cpp_tells_whether_its_template_knows_tools() {
        let props = |tools: bool| {
            json!({"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": false},
                "chat_template_caps": {"supports_tools": tools, "supports_tool_calls": tools}})
        };
        let without = llama_cpp(&props(false));
        assert_eq!((without.context_window, without.tools), (Some(4096), Some(false)));
        assert_eq!(llama_cpp(&props(true)).tools, Some(true));
        assert_eq!(llama_cpp(&json!({})).tools, None);
    }

    #[test]
    fn lm_studio_tells_the_loaded_window() {
        let list = json!({"data": [{"id": "a", "type": "vlm", "max_context_length": 9, "loaded_context_length": 7}]});
        let facts = lm_studio("a", &list);
        assert_eq!((facts.context_window, facts.images), (Some(7), Some(true)));
        assert_eq!(lm_studio("b", &list), LocalFacts::default());
    }
}
