use super::*;
use crate::gemini::wire::GenerateBody;
use pollux_domain::content::Content;
use pollux_domain::model::RequestRole;
use std::sync::Arc;

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

fn request(model: &str, settings: GenerationSettings) -> ModelRequest {
    ModelRequest {
        model: model.into(),
        chosen_by: Default::default(),
        role: RequestRole::Main,
        system: None,
        contents: vec![Arc::new(Content::user_text("hi"))],
        tools: Arc::new([]),
        settings,
        grounding: Default::default(),
    }
}

fn body(catalogue: &Catalogue, request: &ModelRequest) -> String {
    let resolved = plan(catalogue, request);
    serde_json::to_string(&GenerateBody::new(request, resolved.settings, false)).unwrap()
}

/// A catalogue whose only alias has these words and no default of its own.
fn with_alias(words: &Value) -> Catalogue {
    let alias = json!({"modelConfig": {"model": "gemini-2.5-pro", "generateContentConfig": words}});
    Catalogue::with_settings(&json!({"customAliases": {"mine": alias}})).unwrap()
}

/// Every key that people can write, in the order in which neutral fields are written.
fn all_words() -> Value {
    json!({
        "temperature": 1, "maxOutputTokens": 900, "topP": 0.95, "topK": 64, "seed": -7,
        "stopSequences": ["END"],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a", "b"]}},
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192},
        "safetySettings": [{"category": "C", "threshold": "T"}], "labels": {"z": "1", "a": "2"},
        "cachedContent": "c", "responseModalities": ["TEXT"], "speechConfig": {"x": 1},
        "mediaResolution": "LOW", "tools": [{"googleSearch": {}}], "presencePenalty": 0.5,
        "fromTheFuture": null, "alsoNew": {"b": 1, "a": 2}
    })
}

const BODY: &str = concat!(
    r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"googleSearch":{}}],"#,
    r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a","b"]}},"#,
    r#""safetySettings":[{"category":"C","threshold":"T"}],"cachedContent":"c","labels":{"z":"1","a":"2"},"#,
    r#""generationConfig":{"temperature":1,"maxOutputTokens":900,"topP":0.95,"topK":64,"seed":-7,"#,
    r#""stopSequences":["END"],"responseMimeType":"application/json","#,
    r#""responseJsonSchema":{"type":"object"},"thinkingConfig":{"includeThoughts":true,"#,
    r#""thinkingBudget":8192},"responseModalities":["TEXT"],"speechConfig":{"x":1},"mediaResolution":"LOW","#,
    r#""presencePenalty":0.5,"alsoNew":{"b":1,"a":2}}}"#,
);

#[test]
fn every_key_reaches_the_api_as_it_was_written_in_an_alias() {
    let catalogue = with_alias(&all_words());
    assert_eq!(body(&catalogue, &request("mine", GenerationSettings::default())), BODY);
}

#[test]
fn every_key_reaches_the_api_as_it_was_written_for_a_sub_agent() {
    let catalogue = with_alias(&json!({}));
    let settings = GenerationSettings::in_words_of(Dialect::GEMINI, object(all_words()));
    assert_eq!(body(&catalogue, &request("mine", settings)), BODY);
}

#[test]
fn every_key_means_the_same_to_the_api_after_translation() {
    let catalogue = with_alias(&json!({}));
    let through_neutral = request("mine", read(&object(all_words())));
    let sent = plan(&catalogue, &through_neutral).settings;
    let mut expected = object(all_words());
    expected.remove("fromTheFuture");
    assert_eq!(sent, expected);
}

#[test]
fn the_order_of_people_is_kept() {
    let words = json!({"topK": 3, "labels": {}, "temperature": 0.0, "seed": 1, "topP": 1e-3});
    let expected = r#""labels":{},"generationConfig":{"topK":3,"temperature":0.0,"seed":1,"topP":0.001}}"#;
    let text = body(&with_alias(&words), &request("mine", GenerationSettings::default()));
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn words_have_the_neutral_meaning_of_the_table() {
    let settings = read(&object(all_words()));
    assert_eq!(settings.sampling.temperature, Setting::Set(1.into()));
    assert_eq!(settings.sampling.top_p.value().and_then(Number::as_f64), Some(0.95));
    assert_eq!(settings.sampling.top_k, Setting::Set(64.into()));
    assert_eq!(settings.sampling.seed, Setting::Set(-7));
    assert_eq!(settings.sampling.stop, Setting::Set(vec!["END".to_owned()]));
    assert_eq!(settings.max_output, Setting::Set(900));
    assert_eq!(settings.effort, Setting::Set(Effort::Medium));
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(settings.tool_choice, Setting::Set(ToolChoice::Allowed { names, required: true }));
    let schema = Some(json!({"type": "object"}));
    assert_eq!(settings.output, Setting::Set(OutputFormat::Json { name: None, schema, strict: true }));
    let rest: Vec<&String> = settings.words_of(&Dialect::GEMINI).unwrap().keys().collect();
    assert_eq!(
        rest,
        [
            "thinkingConfig",
            "safetySettings",
            "labels",
            "cachedContent",
            "responseModalities",
            "speechConfig",
            "mediaResolution",
            "tools",
            "presencePenalty",
            "fromTheFuture",
            "alsoNew"
        ]
    );
}

#[test]
fn budgets_and_levels_are_efforts() {
    let cases = [
        (json!({"thinkingBudget": 0}), Some(Effort::None)),
        (json!({"thinkingBudget": 512}), Some(Effort::Low)),
        (json!({"thinkingBudget": 2049}), Some(Effort::Medium)),
        (json!({"thinkingBudget": 8193}), Some(Effort::High)),
        (json!({"thinkingBudget": -1}), None),
        (json!({"thinkingLevel": "LOW"}), Some(Effort::Low)),
        (json!({"thinkingLevel": "HIGH", "includeThoughts": true}), Some(Effort::High)),
        (json!({"includeThoughts": true}), None),
        (json!("odd"), None),
    ];
    for (value, expected) in cases {
        let settings = read(&object(json!({"thinkingConfig": value})));
        assert_eq!(settings.effort.value().copied(), expected, "{value}");
    }
}

#[test]
fn modes_of_calling_are_tool_choices_there_and_back() {
    let cases = [
        (json!({"mode": "AUTO"}), Some(ToolChoice::Auto)),
        (json!({"mode": "NONE"}), Some(ToolChoice::None)),
        (json!({"mode": "ANY"}), Some(ToolChoice::Required)),
        (json!({"mode": "ANY", "allowedFunctionNames": ["x"]}), Some(ToolChoice::Only("x".into()))),
        (json!({"mode": "VALIDATED"}), None),
        (json!({"mode": "ANY", "allowedFunctionNames": [1]}), None),
        (json!({"mode": "AUTO", "more": 1}), None),
    ];
    for (value, expected) in cases {
        let words = object(json!({"toolConfig": {"functionCallingConfig": value}}));
        let settings = read(&words);
        assert_eq!(settings.tool_choice.value(), expected.as_ref(), "{words:?}");
        assert_eq!(write(&settings), words);
    }
}

#[test]
fn a_neutral_field_wins_over_the_alias_and_can_take_its_default_away() {
    let catalogue = with_alias(&json!({"temperature": 1, "topP": 0.9, "thinkingConfig": {
        "includeThoughts": true, "thinkingBudget": 512}}));
    let mut settings = GenerationSettings { effort: Setting::Set(Effort::High), ..Default::default() };
    settings.sampling.temperature = Setting::Unset;
    let asked = request("mine", settings.clone());
    let sent = Value::Object(plan(&catalogue, &asked).settings);
    assert_eq!(
        sent,
        json!({"topP": 0.9, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 24576}})
    );
    let newer = request("gemini-3.1-pro-preview", settings);
    let sent = plan(&catalogue, &newer).settings;
    assert_eq!(sent["thinkingConfig"], json!({"includeThoughts": true, "thinkingLevel": "HIGH"}));
}

#[test]
fn settings_are_those_of_the_alias_with_the_requests_over_them() {
    let catalogue = with_alias(&json!({"temperature": 1, "topP": 0.9, "topK": 5}));
    let words = object(json!({"topP": 0.5, "labels": {}}));
    let mut over = GenerationSettings::in_words_of(Dialect::GEMINI, words);
    over.sampling.top_k = Setting::Unset;
    over.parallel_calls = Setting::Set(false);
    let found = settings(&catalogue, &request("mine", over));
    assert_eq!(found.sampling.temperature, Setting::Set(1.into()));
    assert_eq!(found.sampling.top_p.value().and_then(Number::as_f64), Some(0.5));
    assert_eq!(found.sampling.top_k, Setting::Unset);
    assert_eq!(found.parallel_calls, Setting::Set(false));
    assert_eq!(found.words_of(&Dialect::GEMINI), Some(&object(json!({"labels": {}}))));
}
