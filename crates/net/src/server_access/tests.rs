use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pollux_config::env::Env;
use pollux_domain::time::{Clock, SystemClock};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::json;

use super::*;
use crate::client::{ClientOptions, client};
use crate::google::find_credentials;

/// Tokens from a metadata server that is ours.
fn tokens(server: &FakeHttp, scopes: &[&str]) -> GoogleTokens {
    let vars =
        [("GCE_METADATA_HOST", server.authority()), ("GOOGLE_CLOUD_QUOTA_PROJECT", "payer".to_owned())];
    let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value)), "/nonexistent".into());
    let found = find_credentials(&env, Path::new("/nonexistent")).unwrap();
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    GoogleTokens::new(found, scopes, client(&ClientOptions::new("test")).unwrap(), Arc::new(SystemClock))
}

fn metadata() -> FakeHttp {
    FakeHttp::start(|request| match request.path.as_str() {
        "/v1/projects/-/serviceAccounts/bot@p.iam:generateIdToken" => {
            let end = SystemClock.now().millis() / 1000 + 3600;
            let claims = URL_SAFE_NO_PAD.encode(json!({"exp": end}).to_string());
            HttpAnswer::json(&json!({"token": format!("h.{claims}.s")}))
        }
        _ => HttpAnswer::json(&json!({"access_token": "machine-token", "expires_in": 3600})),
    })
}

#[tokio::test]
async fn google_credentials_go_to_googles_hosts_alone() {
    let server = metadata();
    let access = |url: &str, scopes: &[&str]| {
        ServerAccess::google(tokens(&server, scopes), &Url::parse(url).unwrap(), None)
    };
    for url in [
        "https://evil.example/mcp",
        "https://googleapis.com.evil.example/",
        "https://evilgoogleapis.com/",
        "http://x.googleapis.com/",
        "https://googleapis.com/",
    ] {
        assert!(matches!(access(url, &["s"]), Err(AccessError::NotGoogle(_))), "{url}");
    }
    assert!(matches!(access("https://x.googleapis.com/mcp", &[]), Err(AccessError::NoScopes)));
    assert!(server.requests().is_empty());
    let access = access("https://x.googleapis.com/mcp", &["s"]).unwrap();
    let headers = access.headers().await.unwrap();
    assert_eq!(headers.get("authorization").unwrap(), "Bearer machine-token");
    assert_eq!(headers.get("x-goog-user-project").unwrap(), "payer");
    assert!(!format!("{headers:?}").contains("machine-token"));
    assert!(access.refused(&headers).await.unwrap());
    access.headers().await.unwrap();
    assert_eq!(server.requests().len(), 2, "the refused token is not given again");
}

#[tokio::test]
async fn a_service_account_is_impersonated_for_one_audience() {
    let server = metadata();
    let tokens = tokens(&server, &["s"]);
    assert!(ServerAccess::impersonation(tokens.clone(), "bot@p.iam", "").is_err());
    assert!(ServerAccess::impersonation(tokens.clone(), "", "aud").is_err());
    let access = ServerAccess::impersonation_at(&server.url(), tokens, "bot@p.iam", "aud").unwrap();
    for _ in 0..2 {
        let headers = access.headers().await.unwrap();
        assert!(headers.get("authorization").unwrap().to_str().unwrap().starts_with("Bearer h."));
    }
    let asked = server.requests_to("/v1/projects/-/serviceAccounts/bot@p.iam:generateIdToken");
    assert_eq!(asked.len(), 1, "it is kept until near its end");
    assert_eq!(asked[0].json(), json!({"audience": "aud", "includeEmail": true}));
    assert_eq!(asked[0].header("authorization"), Some("Bearer machine-token"));
}
