//! The settings in the manual's pages on providers and migration are valid as printed.

use std::fs;
use std::path::Path;

use pollux_host::load_settings;
use pollux_model::providers::read_settings;
use serde_json::Value;

use crate::test_home::TestHome;

const PAGES: &[&str] = &[
    "from-claude-code.md",
    "from-codex.md",
    "provider-anthropic.md",
    "provider-compatible.md",
    "provider-gemini.md",
    "provider-openai.md",
    "providers.md",
];

/// The JSON blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src").join(page);
    let text = fs::read_to_string(&file).unwrap();
    let blocks = text.split("```json\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_settings_block_of_the_pages_is_accepted() {
    for page in PAGES {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page} has no settings");
        for block in blocks {
            let value: Value =
                serde_json::from_str(&block).unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
            let home = TestHome::new().user_settings(&block);
            let loaded = load_settings(&home.request, &home.environment()).ok().unwrap();
            let warnings = loaded.settings.warnings.iter().map(ToString::to_string);
            // The reader has the variables of the examples.
            let warnings: Vec<String> =
                warnings.filter(|text| !text.contains("environment variable")).collect();
            assert!(warnings.is_empty(), "{page}: {warnings:?}\n{block}");
            let (providers, errors) = read_settings(&value["providers"]);
            assert!(errors.is_empty(), "{page}: {errors:?}\n{block}");
            let named = value["providers"].as_object().map_or(0, serde_json::Map::len);
            assert_eq!(providers.len(), named, "{page}\n{block}");
        }
    }
}

#[test]
fn invalid_settings_are_detected() {
    let home = TestHome::new().user_settings(r#"{"model": {"efort": "high", "effort": "enormous"}}"#);
    let loaded = load_settings(&home.request, &home.environment()).ok().unwrap();
    assert_eq!(loaded.settings.warnings.len(), 2, "{:?}", loaded.settings.warnings);
}
