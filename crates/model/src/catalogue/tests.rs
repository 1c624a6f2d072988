use serde_json::json;

use super::*;

fn settings(catalogue: &Catalogue, name: &str) -> Value {
    Value::Object(catalogue.look_up(name, Occasion::default()).settings)
}

#[test]
fn the_built_in_tables_are_sound() {
    let mut tables = Catalogue::default();
    tables.add(&serde_json::from_str(BUILT_IN).unwrap()).unwrap();
    for alias in tables.aliases.keys() {
        tables.chain(alias).unwrap();
    }
    assert!(tables.aliases.len() > 20);
    assert_eq!(Catalogue::with_settings(&Value::Null).unwrap().aliases.len(), tables.aliases.len());
}

#[test]
fn names_lead_to_concrete_models() {
    let catalogue = Catalogue::built_in();
    let cases = [
        ("auto", "gemini-3.1-pro-preview"),
        ("auto-gemini-3", "gemini-3.1-pro-preview"),
        ("auto-gemini-2.5", "gemini-2.5-pro"),
        ("pro", "gemini-3.1-pro-preview"),
        ("flash", "gemini-3.8-flash"),
        ("flash-lite", "gemini-3.5-flash-lite"),
        ("gemini-3.5-flash", "gemini-3.8-flash"),
        ("gemini-3-flash-preview", "gemini-3-flash-preview"),
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("anything else", "anything else"),
        ("classifier", "gemini-3.5-flash-lite"),
        ("chat-compression-default", "gemini-3-pro-preview"),
    ];
    for (name, id) in cases {
        assert_eq!(catalogue.info(name).id, id, "{name}");
    }
}

#[test]
fn windows_and_nesting_follow_the_concrete_model() {
    let catalogue = Catalogue::built_in();
    let facts = |name: &str| {
        let info = catalogue.info(name);
        (info.context_window, info.caps.media_in_results)
    };
    assert_eq!(facts("gemma-4-31b-it"), (256_000, false));
    assert_eq!(facts("models/gemma-4-26b-a4b-it"), (256_000, false));
    assert_eq!(facts("gemini-3-pro-preview"), (1_048_576, true));
    assert_eq!(facts("gemini-3.1-pro-preview"), (1_048_576, false));
    assert_eq!(facts("gemini-2.5-pro"), (1_048_576, false));
}

#[test]
fn chat_models_think_in_the_way_of_their_family() {
    let catalogue = Catalogue::built_in();
    let chat =
        |thinking: Value| json!({"temperature": 1, "topP": 0.95, "topK": 64, "thinkingConfig": thinking});
    let budget = chat(json!({"includeThoughts": true, "thinkingBudget": 8192}));
    let level = chat(json!({"includeThoughts": true, "thinkingLevel": "HIGH"}));
    let plain = chat(json!({"includeThoughts": true}));
    for (name, expected) in [
        ("gemini-2.5-flash", &budget),
        ("models/gemini-2.5-pro", &budget),
        ("auto", &level),
        ("gemini-3-flash-preview", &level),
        ("gemma-4-31b-it", &level),
        ("my-own-model", &plain),
        ("gemini-35-turbo", &plain),
    ] {
        assert_eq!(&settings(&catalogue, name), expected, "{name}");
    }
}

#[test]
fn a_utility_alias_keeps_its_own_settings_on_its_concrete_model() {
    let catalogue = Catalogue::built_in();
    assert_eq!(
        settings(&catalogue, "classifier"),
        json!({"temperature": 0, "topP": 1, "maxOutputTokens": 1024, "thinkingConfig": {"thinkingBudget": 512}})
    );
    assert_eq!(settings(&catalogue, "chat-compression-default"), json!({}));
    assert_eq!(
        settings(&catalogue, "web-search"),
        json!({"temperature": 0, "topP": 1, "tools": [{"googleSearch": {}}]})
    );
}

#[test]
fn a_users_aliases_and_overrides_are_laid_over() {
    let catalogue = Catalogue::with_settings(&json!({
        "customAliases": {
            "calm": {"extends": "chat-base-2.5", "modelConfig": {"model": "flash-lite",
                "generateContentConfig": {"temperature": 0.2, "thinkingConfig": {"thinkingBudget": 1}}}},
            "gemini-2.5-pro": {"extends": "chat-base-2.5", "modelConfig": {"generateContentConfig": {"seed": 7}}}
        },
        "customOverrides": [
            {"match": {"model": "gemini-3.5-flash-lite"}, "modelConfig": {"generateContentConfig": {"topK": 3}}},
            {"match": {"model": "chat-base"}, "modelConfig": {"generateContentConfig": {"topK": 1, "topP": 0.1}}},
            {"match": {"model": "calm", "overrideScope": "core"}, "modelConfig": {"generateContentConfig": {"topK": 4}}},
            {"match": {"model": "calm", "overrideScope": "helper"}, "modelConfig": {"generateContentConfig": {"topK": 9}}},
            {"match": {}, "modelConfig": {"generateContentConfig": {"topK": 99}}},
            {"match": {"model": "calm", "isRetry": true}, "modelConfig": {"model": "pro"}}
        ],
        "modelIdResolutions": {"pro": {"default": "gemini-9-pro"}}
    }))
    .unwrap();
    let calm = catalogue.look_up("calm", Occasion::default());
    assert_eq!(calm.id, "gemini-3.5-flash-lite");
    assert_eq!(
        Value::Object(calm.settings),
        json!({"temperature": 0.2, "topP": 0.1, "topK": 4, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1}})
    );
    let helper = catalogue.look_up("calm", Occasion { scope: Some("helper"), is_retry: true });
    assert_eq!(helper.settings["topK"], 9);
    assert_eq!(helper.id, "gemini-9-pro");
    assert_eq!(settings(&catalogue, "gemini-2.5-pro")["seed"], 7);
    assert_eq!(catalogue.info("auto").id, "gemini-9-pro");
}

#[test]
fn unusable_settings_are_refused_by_name() {
    let refused = |configs: Value| Catalogue::with_settings(&configs).unwrap_err().to_string();
    assert_eq!(
        refused(json!({"customAliases": {"a": {"extends": "b"}, "b": {"extends": "a"}}})),
        "the model alias `a` extends itself through `a`"
    );
    assert_eq!(
        refused(json!({"customAliases": {"a": {"extends": "nowhere"}}})),
        "the model alias `a` extends `nowhere`, which does not exist"
    );
    assert_eq!(refused(json!({"customAliases": []})), "`modelConfigs.customAliases` must be an object");
    assert_eq!(refused(json!({"customOverrides": {}})), "`modelConfigs.customOverrides` must be an array");
    assert_eq!(
        refused(json!({"customAliases": {"a": {"modelConfig": 3}}})),
        "`modelConfigs.customAliases.a.modelConfig` must be an object"
    );
    let names = Catalogue::with_settings(&json!({"modelIdResolutions": {"x": "y", "y": "x"}})).unwrap();
    assert!(["x", "y"].contains(&names.info("x").id.as_str()), "a ring of names ends somewhere");
}

#[test]
fn what_a_person_chooses_from_has_aliases_models_and_ones_own_but_nothing_internal() {
    let own =
        json!({"customAliases": {"mine": {"extends": "chat-base-3", "modelConfig": {"model": "gemini-x"}}}});
    let choices = Catalogue::with_settings(&own).expect("tables").choices();
    let stands_for = |name: &str| choices.iter().find(|(known, _)| known == name).map(|(_, id)| id.as_str());
    assert_eq!(choices.first().map(|(name, _)| name.as_str()), Some("auto"));
    assert_eq!(stands_for("pro"), stands_for("auto"));
    assert_eq!(stands_for("mine"), Some("gemini-x"));
    let pro = stands_for("pro").expect("an alias");
    assert_eq!(stands_for(pro), Some(pro));
    assert_eq!(stands_for("web-search"), None);
}
