//! The first start: a key is entered, checked and stored.

use pollux_test_support::{Reply, Screen, TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, quit};
use crate::scene::{MODEL, Scene, until};

const KEY: &str = "AIzaSyEnteredAtTheFirstStart123456789ab";
const OTHER_KEY: &str = "AIzaSyAnotherOneOfTheSameLength12345678";

/// A home that names the kind of key and has none: a server of one's own may need none, Google's does.
fn scene(replies: impl IntoIterator<Item = Reply>) -> Scene {
    let home = TestHome::new().settings(json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}));
    Scene::with(home, replies)
}

fn start(scene: &Scene) -> Screen {
    let run = scene.prepare(&["-m", MODEL]).without_env("GEMINI_API_KEY");
    let screen = run.env("GEMINI_FORCE_FILE_STORAGE", "true").on_screen(100, 40);
    screen.expect("Get started");
    screen
}

fn no_models() -> Reply {
    Reply::http(200, r#"{"models": []}"#)
}

fn enter(screen: &Screen, key: &str) {
    screen.expect("API key (not shown)").type_text(key).key("Enter");
}

fn key_of(scene: &Scene, request: usize) -> String {
    scene.server.request(request).header("x-goog-api-key").unwrap_or_default().to_owned()
}

#[test]
fn a_key_is_checked_and_stored() {
    let scene = scene([no_models(), reply().text("hello to you")]);
    let screen = start(&scene);
    screen
        .expect("● 1. Use Gemini API Key")
        .expect("Use Anthropic API Key")
        .expect("Use OpenAI API Key")
        .expect("Another provider…")
        .expect("Vertex AI");
    assert!(!screen.text().contains("Sign in with Google"), "{}", screen.text());
    screen.key("1");
    enter(&screen, KEY);
    screen.expect("API key stored in").expect(PLACEHOLDER).say("good morning").expect("hello to you");
    assert!(!screen.whole_text().contains(KEY), "{}", screen.whole_text());
    quit(screen);
    assert_eq!(scene.server.request(0).path, "/v1beta/models");
    assert_eq!((key_of(&scene, 0).as_str(), key_of(&scene, 1).as_str()), (KEY, KEY));
}

/// The counts of texts in `state.json`.
fn counts(scene: &Scene) -> Vec<u64> {
    let text = std::fs::read_to_string(scene.home.gemini_dir().join("state.json")).unwrap_or_default();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let counts = state["defaultBannerShownCount"].as_object().cloned().unwrap_or_default();
    counts.values().filter_map(serde_json::Value::as_u64).collect()
}

#[test]
fn tips_are_counted_and_no_longer_shown_to_those_who_know_them() {
    let scene = Scene::new([]);
    let screen = super::open(&scene, &[]);
    screen.expect("Tips for getting started");
    until("the tips are counted", || counts(&scene) == [1]);
    quit(screen);
    let file = scene.home.gemini_dir().join("state.json");
    let state = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, state.replace(": 1", ": 10")).unwrap();
    let screen = super::open(&scene, &[]);
    screen.expect(PLACEHOLDER);
    assert!(!screen.text().contains("Tips for getting started"), "{}", screen.text());
    quit(screen);
    assert_eq!(counts(&scene), [10]);
}

#[test]
fn a_key_that_the_provider_rejects_is_not_stored() {
    let refused = Reply::error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.");
    let scene = scene([refused, no_models(), reply().text("hello to you")]);
    let screen = start(&scene);
    screen.key("1");
    // What cannot be a key is not sent anywhere.
    enter(&screen, "too short");
    screen.expect("invalid API key");
    enter(&screen, KEY);
    screen.expect("Gemini rejected the key").expect("API key not valid").expect("● 2. Enter another key");
    assert!(!scene.home.gemini_dir().join("gemini-credentials.json").exists());
    screen.key("Enter");
    enter(&screen, OTHER_KEY);
    screen.expect("API key stored in").expect(PLACEHOLDER).say("good morning").expect("hello to you");
    quit(screen);
    assert_eq!(scene.server.requests().len(), 3);
    assert_eq!((key_of(&scene, 0).as_str(), key_of(&scene, 2).as_str()), (KEY, OTHER_KEY));
}

#[test]
fn a_key_that_cannot_be_checked_can_be_stored_anyway() {
    let down = |words: &str| Reply::error(503, "UNAVAILABLE", words);
    let scene =
        scene([down("The service is down."), down("It is still down."), reply().text("hello to you")]);
    let screen = start(&scene);
    screen.key("1");
    enter(&screen, KEY);
    screen.expect("The key could not be checked").expect("The service is down.").key("1");
    screen.expect("It is still down.").key("3");
    screen.expect("API key stored in").expect(PLACEHOLDER).say("good morning").expect("hello to you");
    quit(screen);
    assert_eq!(key_of(&scene, 2), KEY);
}
