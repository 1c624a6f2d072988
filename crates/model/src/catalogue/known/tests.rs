use super::*;
use crate::catalogue::cost::micro_usd;

fn info(provider: &str, model: &str) -> ModelInfo {
    Served::by(provider).unwrap().info(model)
}

#[test]
fn the_table_is_sound_and_small() {
    let text = include_str!("../models.json");
    assert!(text.len() <= 60_000, "{} bytes", text.len());
    let table: crate::catalogue::table::Table = serde_json::from_str(text).unwrap();
    assert_eq!(as_of().len(), "2026-11-16".len());
    for (id, row) in &table.providers {
        for name in [&row.default, &row.small].into_iter().flatten() {
            // A broker has too many models for a table.
            assert!(id == "openrouter" || super::row(id, name).is_some(), "{id} has no row for {name}");
        }
        for (name, model) in &row.models {
            assert!(model.context.is_some_and(|context| context >= 32_000), "{id}/{name}");
            let prices = info(id, name).prices;
            assert!(prices.is_none_or(|prices| prices.output >= prices.input), "{id}/{name}");
        }
    }
    for id in table.providers.keys() {
        assert!(BuiltInProvider::find(id).is_some(), "{id} is not a built-in provider");
    }
}

#[test]
fn names_are_found_with_and_without_their_provider() {
    let cases = [
        ("anthropic/claude-sonnet-5-5", Some(("anthropic", "claude-sonnet-5-5"))),
        ("claude-opus-4-5-20251101", Some(("anthropic", "claude-opus-4-5"))),
        ("gpt-5.5-2026-04-23", Some(("openai", "gpt-5.5"))),
        ("gpt-5.5-pro", Some(("openai", "gpt-5.5-pro"))),
        ("gpt-5.5-ultra", None),
        ("gemini-2.5-flash-lite-preview-09-2025", Some(("gemini", "gemini-2.5-flash-lite"))),
        ("models/gemini-3-pro", Some(("gemini", "gemini-3-pro-preview"))),
        ("groq/openai/gpt-oss-120b", Some(("groq", "openai/gpt-oss-120b"))),
        ("vertex/gemini-2.5-pro", Some(("vertex", "gemini-2.5-pro"))),
        ("azure/gpt-6.1-sol", Some(("azure", "gpt-6.1-sol"))),
        ("claude-opus-4", None),
        ("nobody/knows", None),
        ("", None),
    ];
    for (name, expected) in cases {
        assert_eq!(find(name), expected, "{name}");
    }
}

#[test]
fn rows_say_what_models_can_do_and_cost() {
    let opus = info("anthropic", "claude-opus-5-5");
    assert_eq!((opus.context_window, opus.max_output), (1_000_000, Some(128_000)));
    assert!(opus.caps.sealed_prefix && opus.caps.mid_system && opus.caps.pdf && !opus.caps.sampling);
    assert!(!info("anthropic", "claude-opus-5").caps.sealed_prefix);
    assert_eq!(opus.small.as_deref(), Some("claude-haiku-5-5"));
    let prices = opus.prices.unwrap();
    assert_eq!((prices.input, prices.output), (MicroUsd(4_000_000), MicroUsd(20_000_000)));
    assert_eq!((prices.cached, prices.cache_write), (MicroUsd(200_000), MicroUsd(5_000_000)));
    let sol = info("openai", "gpt-6.1-sol");
    assert_eq!(sol.dialect, Dialect::RESPONSES);
    assert!(sol.caps.reasoning && sol.caps.efforts.contains(&Effort::Max));
    let (tokens, above) = sol.prices.unwrap().above.unwrap();
    assert_eq!((tokens, above.input), (272_000, MicroUsd(4_000_000)));
    let old = info("openai", "gpt-4.1");
    assert!(!old.caps.reasoning && old.caps.sampling);
    assert_eq!(ends("gpt-4.1"), Some("2027-01-14"));
    assert!(is_approximate("deepseek/deepseek-v4-pro") && !is_approximate("gpt-4.1"));
    let mistral = info("mistral", "codestral-latest").prices.unwrap();
    assert_eq!(mistral.cached, MicroUsd(30_000));
}

#[test]
fn an_unknown_model_is_assumed_to_be_small_and_of_unknown_price() {
    let unknown = info("openai", "gpt-99");
    assert_eq!((unknown.context_window, unknown.max_output), (128_000, Some(8_192)));
    assert_eq!((unknown.source, &unknown.prices), (InfoSource::Guess, &None));
    assert!(unknown.caps.tools && !unknown.caps.images && !unknown.caps.sampling && !unknown.caps.reasoning);
    let local = info("ollama", "qwen3:8b");
    assert_eq!(local.context_window, 32_768);
    assert_eq!(local.prices.map(|prices| (prices.input, prices.output)), Some((MicroUsd(0), MicroUsd(0))));
    assert_eq!(prices("ollama/qwen3:8b").unwrap().output, MicroUsd(0));
    assert_eq!(prices("gpt-99"), None);
}

#[test]
fn the_users_word_wins_over_the_servers_and_that_over_the_table() {
    let mut served = Served::by("ollama").unwrap();
    let server = ModelOverride { context: Some(4_096), images: Some(true), ..ModelOverride::default() };
    served.live.insert("qwen3:8b".into(), server);
    let info = served.info("qwen3:8b");
    assert_eq!((info.context_window, info.caps.images, info.source), (4_096, true, InfoSource::Server));
    let price = Prices {
        input: micro_usd("0.2").unwrap(),
        output: micro_usd("0.6").unwrap(),
        cached: micro_usd("0.02").unwrap(),
        cache_write: micro_usd("0.25").unwrap(),
        above: None,
    };
    let user = ModelOverride {
        context: Some(64_000),
        efforts: Some(vec![Effort::Low]),
        prices: Some(price.clone()),
        ..ModelOverride::default()
    };
    served.user.insert("qwen3:8b".into(), user);
    let info = served.clone().into_facts()("qwen3:8b");
    assert_eq!((info.context_window, info.caps.images, info.source), (64_000, true, InfoSource::User));
    assert_eq!((info.prices, info.caps.efforts), (Some(price), vec![Effort::Low]));
    assert_eq!(served.info("other").context_window, 32_768);
}

#[test]
fn list_prices_are_those_of_the_table() {
    let usage = Usage { input: 150_000, cached: 50_000, output: 100_000, ..Usage::default() };
    let many = Usage { input: 1_000_000, ..Usage::default() };
    assert_eq!(
        list_price("gemini-2.5-pro", &many),
        Some(MicroUsd(1_250_000)),
        "no single prompt was that long"
    );
    // 100 k × 0.1 + 50 k × 0.01 + 100 k × 0.4 dollars for a million
    assert_eq!(list_price("gemini-2.5-flash-lite-preview", &usage), Some(MicroUsd(50_500)));
    assert_eq!(list_price("a-model-of-mine", &usage), None);
}
