//! Which provider is taken.

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_embed::{Choice, EmbedContext, EmbedSettings, Provider, choose};
use pollux_net::client::ClientOptions;
use serde_json::json;

use crate::local::copy;

fn found(settings: &EmbedSettings, vars: &[(&str, &str)], models: &Path) -> Choice {
    let env = Env::new(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), PathBuf::from("/"));
    let client = ClientOptions::new("test");
    choose(settings, &EmbedContext { env: &env, client, models: models.to_owned(), cache: None })
}

fn provider(choice: &Choice) -> Option<&str> {
    choice.embedder.as_ref().map(|embedder| embedder.origin().provider.as_str())
}

#[test]
fn auto_takes_the_first_that_is_there_and_says_why_not_the_others() {
    let scratch = tempfile::tempdir().unwrap();
    let none = scratch.path();
    let auto = EmbedSettings::default();
    let both = [("OPENAI_API_KEY", "o"), ("GEMINI_API_KEY", "g")];
    assert_eq!(provider(&found(&auto, &both, none)), Some("openai"));
    let choice = found(&auto, &[("GOOGLE_API_KEY", "g")], none);
    assert_eq!(provider(&choice), Some("gemini"));
    assert_eq!(choice.skipped[0].provider, Provider::Openai);
    assert!(choice.skipped[0].reason.contains("OPENAI_API_KEY"));
    // Nothing at all is no failure.
    let choice = found(&auto, &[("OPENAI_API_KEY", "")], none);
    assert_eq!(provider(&choice), None);
    let skipped: Vec<&str> = choice.skipped.iter().map(|skipped| skipped.provider.as_str()).collect();
    assert_eq!(skipped, ["openai", "gemini", "local"]);
    assert!(choice.skipped[2].reason.contains("memory model install"));
    // An installed model is better than nothing, a named folder better than anything.
    let (models, folder) = copy("words");
    std::fs::rename(&folder, models.path().join("minilm")).unwrap();
    assert_eq!(provider(&found(&auto, &[], models.path())), Some("local"));
    assert_eq!(provider(&found(&auto, &both, models.path())), Some("openai"));
    let path = models.path().join("minilm").to_string_lossy().into_owned();
    let named = EmbedSettings { model_path: Some(path), ..EmbedSettings::default() };
    assert_eq!(provider(&found(&named, &both, none)), Some("local"));
    let nowhere = EmbedSettings { model_path: Some("/nowhere".to_owned()), ..EmbedSettings::default() };
    assert_eq!(provider(&found(&nowhere, &both, none)), Some("openai"));
}

#[test]
fn an_error_other_than_absence_ends_the_search() {
    let scratch = tempfile::tempdir().unwrap();
    let broken = EmbedSettings { base_url: Some("nonsense".to_owned()), ..EmbedSettings::default() };
    let choice = found(&broken, &[("OPENAI_API_KEY", "o"), ("GEMINI_API_KEY", "g")], scratch.path());
    assert_eq!((provider(&choice), choice.skipped.len()), (None, 1));
    assert!(choice.skipped[0].reason.contains("baseUrl"));
}

#[test]
fn a_named_provider_that_cannot_start_is_replaced_by_the_fallback_only() {
    let scratch = tempfile::tempdir().unwrap();
    let keys = [("OPENAI_API_KEY", "o")];
    let gemini = EmbedSettings { provider: Provider::Gemini, ..EmbedSettings::default() };
    assert_eq!(provider(&found(&gemini, &keys, scratch.path())), None);
    let gemini = EmbedSettings { fallback: Some(Provider::Openai), ..gemini };
    let choice = found(&gemini, &keys, scratch.path());
    assert_eq!(provider(&choice), Some("openai"));
    assert_eq!((choice.requested, choice.skipped[0].provider), (Provider::Gemini, Provider::Gemini));
    let local = EmbedSettings {
        provider: Provider::Local,
        model_path: Some("https://example.com/x".to_owned()),
        ..EmbedSettings::default()
    };
    assert!(found(&local, &keys, scratch.path()).skipped[0].reason.contains("is a URL"));
}

#[test]
fn the_objects_of_the_settings_are_read() {
    let remote = json!({
        "baseUrl": " http://localhost:11434/v1 ", "apiKey": "", "headers": { "a": "b", "c": 3 },
        "outputDimensionality": 768, "unknown": true
    });
    let local = json!({ "modelPath": "~/m" });
    let settings = EmbedSettings { provider: Provider::Openai, ..EmbedSettings::default() }
        .with_objects(remote.as_object().unwrap(), local.as_object().unwrap());
    assert_eq!(settings.base_url.as_deref(), Some("http://localhost:11434/v1"));
    assert_eq!((settings.api_key.as_deref(), settings.dimensions), (None, Some(768)));
    assert_eq!(settings.headers, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(settings.model_path.as_deref(), Some("~/m"));
    // A server of one's own needs no key.
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(provider(&found(&settings, &[], scratch.path())), Some("openai"));
    let secret = EmbedSettings { api_key: Some("hunter2".to_owned()), ..settings };
    assert!(!format!("{secret:?}").contains("hunter2"));
    // The name of a variable in the place of a key means its value.
    let named = EmbedSettings {
        provider: Provider::Gemini,
        api_key: Some("GOOGLE_API_KEY".to_owned()),
        ..EmbedSettings::default()
    };
    assert_eq!(provider(&found(&named, &[("GEMINI_API_KEY", "g")], scratch.path())), None);
    assert_eq!(provider(&found(&named, &[("GOOGLE_API_KEY", "g")], scratch.path())), Some("gemini"));
}
