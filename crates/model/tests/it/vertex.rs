//! The same client in Vertex AI, with tokens of a local token endpoint.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::model::{ModelClient, ModelErrorKind};
use pollux_domain::time::SystemClock;
use pollux_model::auth::{AuthKind, VertexPlace};
use pollux_model::gemini::{GeminiClient, GeminiOptions};
use pollux_net::client::{ClientOptions, client};
use pollux_net::google::{CLOUD_PLATFORM, GoogleTokens, find_credentials};
use pollux_test_support::{FakeGemini, FakeHttp, HttpAnswer, Reply, reply};
use serde_json::json;

use super::fixture::{drain, options, prompt};

/// A metadata server whose tokens count up.
fn token_server() -> FakeHttp {
    let count = AtomicUsize::new(0);
    FakeHttp::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        HttpAnswer::json(&json!({"access_token": format!("google-token-{number}"), "expires_in": 3600}))
    })
}

fn vertex(server: &FakeGemini, metadata: &FakeHttp) -> GeminiOptions {
    let vars =
        [("GCE_METADATA_HOST", metadata.authority()), ("GOOGLE_CLOUD_QUOTA_PROJECT", "payer".to_owned())];
    let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value)), "/nonexistent".into());
    let found = find_credentials(&env, Path::new("/nonexistent")).unwrap();
    let http = client(&ClientOptions::new("unused")).unwrap();
    let usual = options(server);
    let mut auth = usual.auth.clone();
    auth.kind = AuthKind::Vertex;
    auth.key = Secret::new("");
    auth.vertex = Some(VertexPlace::Project { project: "p-1".into(), location: "us-central1".into() });
    let mut options = GeminiOptions {
        backoff: usual.backoff,
        max_attempts: usual.max_attempts,
        random: usual.random,
        ..GeminiOptions::new(http.clone(), auth, Arc::clone(&usual.catalogue))
    };
    let scopes = vec![CLOUD_PLATFORM.to_owned()];
    options.tokens = Some(GoogleTokens::new(found, scopes, http, Arc::new(SystemClock)));
    options
}

#[tokio::test]
async fn a_request_names_project_and_location_and_carries_a_token() {
    let (server, metadata) =
        (FakeGemini::start([reply().text("a"), reply().text("b")]).await, token_server());
    let client = GeminiClient::new(vertex(&server, &metadata)).unwrap();
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "a");
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "b");
    let sent = server.request(1);
    assert_eq!(
        sent.path,
        "/v1beta1/projects/p-1/locations/us-central1/publishers/google/models/gemini-2.5-pro:streamGenerateContent"
    );
    assert_eq!(sent.header("authorization"), Some("Bearer google-token-1"));
    assert_eq!(sent.header("x-goog-user-project"), Some("payer"));
    assert_eq!(sent.header("x-goog-api-key"), None);
    assert_eq!(metadata.requests().len(), 1, "the token is kept");
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_once() {
    let refused = || Reply::error(401, "UNAUTHENTICATED", "google-token-2 expired");
    let (server, metadata) = (FakeGemini::start([refused(), reply().text("a")]).await, token_server());
    let client = GeminiClient::new(vertex(&server, &metadata)).unwrap();
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "a");
    assert_eq!(server.request(1).header("authorization"), Some("Bearer google-token-2"));
    let (server, metadata) = (FakeGemini::start([refused(), refused()]).await, token_server());
    let client = GeminiClient::new(vertex(&server, &metadata)).unwrap();
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Auth);
    assert!(told.error().message.contains("*** expired"), "{}", told.error().message);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn express_mode_sends_its_key_to_the_short_path() {
    let server = FakeGemini::start([reply().text("a")]).await;
    let mut options = vertex(&server, &token_server());
    options.tokens = None;
    options.auth.vertex = Some(VertexPlace::Express);
    options.auth.key = Secret::new("express-key");
    let client = GeminiClient::new(options).unwrap();
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "a");
    let sent = server.request(0);
    assert_eq!(sent.path, "/v1beta1/publishers/google/models/gemini-2.5-pro:streamGenerateContent");
    assert_eq!(sent.header("x-goog-api-key"), Some("express-key"));
}

#[tokio::test]
async fn no_token_means_no_request() {
    let metadata = FakeHttp::start(|_| HttpAnswer::status(403).body(r#"{"error": "access_denied"}"#));
    let server = FakeGemini::start([reply().text("a")]).await;
    let client = GeminiClient::new(vertex(&server, &metadata)).unwrap();
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Auth);
    assert!(told.error().message.contains("access_denied"), "{}", told.error().message);
    assert!(server.requests().is_empty());
}
