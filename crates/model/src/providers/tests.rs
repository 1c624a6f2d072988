use super::*;
use serde_json::{Value, json};

fn env(vars: &[(&str, &str)]) -> Env {
    Env::new(vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), "/".into())
}

fn settings(value: Value) -> BTreeMap<String, ProviderSettings> {
    let (settings, errors) = read_settings(&value);
    assert_eq!(errors, []);
    settings
}

fn errors(value: Value) -> Vec<String> {
    read_settings(&value).1.iter().map(ToString::to_string).collect()
}

fn location(vars: &[(&str, &str)], value: Value, id: &str) -> Result<Location, LocationError> {
    let env = env(vars);
    let found = settings(value);
    let providers = Providers::new(&env, &found);
    let provider = providers.find(id).unwrap();
    providers.locate(&provider)
}

#[test]
fn model_names_lead_to_their_provider() {
    let env = env(&[]);
    let found = settings(json!({"lab": {"baseUrl": "https://llm.lab.example/v1"}}));
    let providers = Providers::new(&env, &found);
    let split = |name: &str| {
        let name = providers.split(name, |id| id == "anthropic");
        (name.provider, name.model)
    };
    let named = |provider: &str, model: &str| (Some(provider.to_owned()), model.to_owned());
    let bare = |model: &str| (None, model.to_owned());
    assert_eq!(split("openrouter/anthropic/claude-x"), named("openrouter", "anthropic/claude-x"));
    assert_eq!(split("ollama/qwen3:8b"), named("ollama", "qwen3:8b"));
    assert_eq!(split("lab/qwen3-coder"), named("lab", "qwen3-coder"));
    assert_eq!(split("models/gemini-2.5-pro"), named("gemini", "models/gemini-2.5-pro"));
    assert_eq!(split("a/b"), bare("a/b"));
    assert_eq!(split("lab/"), bare("lab/"));
    assert_eq!(split("claude-opus-5-5"), named("anthropic", "claude-opus-5-5"));
    // OpenAI has no key here, so the default provider is asked.
    assert_eq!(split("gpt-6.1-sol"), bare("gpt-6.1-sol"));
    assert_eq!(split("o3"), bare("o3"));
    assert_eq!(split("auto"), bare("auto"));
}

#[test]
fn another_host_under_the_id_of_openai_speaks_chat() {
    let own = location(&[], json!({}), "openai").unwrap();
    assert_eq!((own.dialect, own.source), (Dialect::RESPONSES, AddressSource::BuiltIn));
    let other = location(&[("OPENAI_BASE_URL", "https://proxy.example/v1/")], json!({}), "openai").unwrap();
    assert_eq!(other.dialect, Dialect::CHAT);
    assert_eq!(other.base.as_str(), "https://proxy.example/v1");
    let said = json!({"openai": {"baseUrl": "https://eu.example/v1", "dialect": "responses"}});
    assert_eq!(location(&[], said, "openai").unwrap().dialect, Dialect::RESPONSES);
}

#[test]
fn a_variable_wins_over_settings_and_settings_over_the_table() {
    let both = json!({"anthropic": {"baseUrl": "https://settings.example"}});
    assert_eq!(location(&[], both.clone(), "anthropic").unwrap().source, AddressSource::Settings);
    let variable =
        [("POLLUX_ANTHROPIC_BASE_URL", "https://own.example"), ("ANTHROPIC_BASE_URL", "https://x.example")];
    let found = location(&variable, both, "anthropic").unwrap();
    assert_eq!(found.base.host_str(), Some("own.example"));
    assert_eq!(location(&[], json!({"lab": {}}), "lab"), Err(LocationError::Missing("lab".into())));
}

#[test]
fn addresses_of_local_servers_and_of_azure_are_completed() {
    let base = |name: &str, value: &str, id: &str| {
        location(&[(name, value)], json!({}), id).unwrap().base.to_string()
    };
    for (value, expected) in [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box:9999", "http://box:9999/v1"),
        ("http://box", "http://box:11434/v1"),
        ("https://box.example/", "https://box.example/v1"),
    ] {
        assert_eq!(base("OLLAMA_HOST", value, "ollama"), expected, "{value}");
    }
    assert_eq!(base("AZURE_RESOURCE_NAME", "team", "azure"), "https://team.openai.azure.com/openai/v1");
    assert_eq!(base("AZURE_OPENAI_ENDPOINT", "https://x.example/", "azure"), "https://x.example/openai/v1");
}

#[test]
fn addresses_that_cannot_be_used_are_refused_with_the_reason() {
    for value in ["nonsense", "ftp://host/v1", "https://", "https://host/v1?key=1"] {
        let found = location(&[("OPENAI_BASE_URL", value)], json!({}), "openai");
        assert!(matches!(found, Err(LocationError::Invalid { .. })), "{value}: {found:?}");
    }
    let secret =
        location(&[("OPENAI_BASE_URL", "https://me:hunter2@host/v1")], json!({}), "openai").unwrap_err();
    assert!(!secret.to_string().contains("hunter2"), "{secret}");
    for value in ["https://h/v1?key=hunter2", "me:hunter2@host/v1", "https://me:hunter2@h:99999"] {
        let error = location(&[("OPENAI_BASE_URL", value)], json!({}), "openai").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn a_key_travels_without_encryption_only_to_near_machines() {
    let check = |base: &str, insecure: bool| {
        let env = env(&[]);
        let found = settings(json!({"lab": {"baseUrl": base, "allowInsecure": insecure}}));
        let providers = Providers::new(&env, &found);
        let provider = providers.find("lab").unwrap();
        providers.locate(&provider).unwrap().check_key(&provider)
    };
    for near in [
        "http://127.0.0.1:1/v1",
        "http://localhost/v1",
        "http://10.1.2.3/v1",
        "http://[::1]:8/v1",
        "https://x.example",
    ] {
        assert_eq!(check(near, false), Ok(()), "{near}");
    }
    for far in ["http://x.example/v1", "http://8.8.8.8/v1", "http://localhost.example/v1"] {
        assert!(check(far, false).is_err(), "{far}");
        assert_eq!(check(far, true), Ok(()), "{far}");
    }
}

#[test]
fn blocks_of_codex_and_opencode_can_be_pasted() {
    let found = settings(json!({
        "codex": {"base_url": "https://a.example/v1", "env_key": "A_KEY", "wire_api": "responses",
                  "http_headers": {"X-Team": "core"}, "query_params": {"api-version": "1"}},
        "opencode": {"npm": "@ai-sdk/anthropic", "options": {"baseURL": "https://b.example"}},
    }));
    let codex = &found["codex"];
    assert_eq!(codex.base_url.as_deref(), Some("https://a.example/v1"));
    assert_eq!((codex.env_key.as_deref(), &codex.dialect), (Some("A_KEY"), &Some(Dialect::RESPONSES)));
    assert_eq!((codex.headers.len(), codex.query.len()), (1, 1));
    let opencode = &found["opencode"];
    assert_eq!(opencode.base_url.as_deref(), Some("https://b.example"));
    assert_eq!(opencode.dialect, Some(Dialect::MESSAGES));
}

#[test]
fn mistakes_name_the_setting_and_leave_the_other_providers_usable() {
    let (found, errors) = read_settings(&json!({
        "good": {"baseUrl": "https://a.example"},
        "kind": {"baseUrl": 5},
        "wire": {"dialect": "soap"},
        "head": {"headers": {"Authorization": "x"}},
        "list": [],
        "a b": {},
    }));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["good"]);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for part in [
        "providers.kind`",
        "providers.wire.dialect`",
        "providers.head.headers.Authorization`",
        "providers.list`",
        "providers.a b`",
    ] {
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
    }
}

#[test]
fn a_key_in_a_settings_file_is_refused_without_being_shown() {
    for key in ["apiKey", "api_key", "experimental_bearer_token"] {
        let found = errors(json!({"lab": {key: "sk-canary"}}));
        assert!(found[0].contains("providers.lab.envKey") && !found[0].contains("canary"), "{found:?}");
    }
    let options = errors(json!({"lab": {"options": {"apiKey": "sk-canary"}}}));
    assert!(options[0].contains("apiKey") && !options[0].contains("canary"), "{options:?}");
}

#[test]
fn two_providers_do_not_share_a_variable() {
    let found = errors(json!({"my-lab": {"baseUrl": "http://a"}, "my.lab": {"baseUrl": "http://b"}}));
    assert_eq!(
        found,
        [
            "the providers `my-lab` and `my.lab` share the variable POLLUX_MY_LAB_API_KEY; rename one of them in \
          `providers`"
        ]
    );
    assert!(errors(json!({"OpenAI": {"baseUrl": "http://b"}}))[0].contains("`openai` and `OpenAI`"));
    assert!(errors(json!({"openai": {"baseUrl": "http://b"}})).is_empty());
}

#[test]
fn tools_are_offered_as_the_test_found_unless_the_user_says_otherwise() {
    let probed = json!({"a": {"tools": false}, "b": {"tools": true}, "c": 3});
    let found = settings(json!({"lab": {"probed": probed}, "own": {"tools": "none", "probed": probed}}));
    let modes = |id: &str| ["a", "b", "c", "d"].map(|model| found[id].tool_mode(model));
    assert_eq!(modes("lab"), [Some(ToolMode::Prompt), Some(ToolMode::Native), None, None]);
    assert_eq!(modes("own"), [Some(ToolMode::None); 4]);
}

#[test]
fn the_default_provider_follows_the_keys() {
    let env = env(&[]);
    let none = BTreeMap::new();
    let providers = Providers::new(&env, &none);
    let choose = |gemini, keys: &[&str]| {
        let choice = providers.default_choice(gemini, |provider| keys.contains(&provider.id));
        (choice.provider, choice.reason)
    };
    let all = ["openai", "anthropic", "groq", "ollama"];
    assert_eq!(choose(true, &all), ("gemini".into(), DefaultReason::Gemini));
    assert_eq!(choose(false, &["groq"]), ("groq".into(), DefaultReason::OnlyKey));
    let others = DefaultReason::FirstOf(vec!["openai".into(), "groq".into()]);
    assert_eq!(choose(false, &all), ("anthropic".into(), others));
    assert_eq!(choose(false, &["ollama"]), ("gemini".into(), DefaultReason::Gemini));
}

#[test]
fn every_row_has_its_own_id_and_a_usable_address() {
    let env = env(&[]);
    let none = BTreeMap::new();
    let providers = Providers::new(&env, &none);
    let mut ids: Vec<&str> = BUILT_IN_PROVIDERS.iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), BUILT_IN_PROVIDERS.len());
    // Their address is chosen elsewhere, or only the user knows it.
    let without = ["gemini", "vertex", "azure", "gguf"];
    for provider in providers.all().filter(|provider| !without.contains(&provider.id)) {
        let location = providers.locate(&provider).unwrap();
        assert_eq!(location.check_key(&provider), Ok(()), "{}", provider.id);
        assert_eq!(provider.is_local(), location.base.scheme() == "http", "{}", provider.id);
    }
}

#[test]
fn the_users_own_variable_comes_first() {
    let env = env(&[]);
    let found = settings(json!({"my-lab": {"envKey": "LAB_KEY"}}));
    let providers = Providers::new(&env, &found);
    assert_eq!(providers.find("my-lab").unwrap().key_variables(), ["LAB_KEY", "POLLUX_MY_LAB_API_KEY"]);
    assert_eq!(providers.find("my-lab").unwrap().main_key_variable(), "LAB_KEY");
    assert_eq!(providers.find("anthropic").unwrap().main_key_variable(), "ANTHROPIC_API_KEY");
    let anthropic = providers.find("anthropic").unwrap().key_variables();
    assert_eq!(anthropic, ["POLLUX_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
}

#[test]
fn tools_are_a_mode_of_a_provider_or_of_a_model() {
    let found = settings(json!({"lab": {"tools": "prompt", "models": {
        "a": {}, "b": {"tools": "none"}, "c": {"tools": true, "compact": true}, "d": {"tools": false}}}}));
    let lab = &found["lab"];
    let of = |model: &str| lab.models[model].tools;
    assert_eq!(lab.tools, Some(ToolMode::Prompt));
    let modes = [of("a"), of("b"), of("c"), of("d")];
    assert_eq!(modes, [None, Some(ToolMode::None), Some(ToolMode::Native), Some(ToolMode::None)]);
    let env = env(&[]);
    let providers = Providers::new(&env, &found);
    let facts = model_facts(&providers.find("lab").unwrap(), &Dialect::CHAT, BTreeMap::new());
    let can = |model: &str| (facts(model).caps.tools, facts(model).is_compact());
    assert_eq!(
        [can("a"), can("b"), can("c"), can("x")],
        [(true, false), (false, false), (true, true), (true, false)]
    );
    assert!(
        errors(json!({"lab": {"tools": "maybe"}}))[0].contains("expected one of `native`, `prompt`, `none`")
    );
}

#[test]
fn local_providers_say_how_they_are_started_and_are_compact() {
    let env = env(&[]);
    let none = BTreeMap::new();
    let providers = Providers::new(&env, &none);
    for id in ["ollama", "lmstudio", "llamacpp", "vllm"] {
        let provider = providers.find(id).unwrap();
        assert!(provider.start_command().is_some(), "{id}");
        let info = model_facts(&provider, &Dialect::CHAT, BTreeMap::new())("m");
        assert!(info.is_compact() && info.caps.structured && info.context_window == 32_768, "{id}");
    }
    assert_eq!(providers.find("groq").unwrap().start_command(), None);
}
