use pollux_domain::remote_agent::{CardSource, RemoteAuth, RemoteError};
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use serde_json::json;

use crate::scene::{agent, call, card, result, status, stream, with};

/// An agent whose card and calls need this header.
fn guarded(header: &'static str, value: &'static str) -> FakeHttp {
    FakeHttp::start_with_url(move |url, request: &HttpRequest| {
        if request.header(header) != Some(value) {
            return HttpAnswer::status(401);
        }
        match request.path.as_str() {
            "/card.json" => HttpAnswer::json(&card(url, &json!({}))),
            _ => stream(&[result(&status("completed", "let in", true))]),
        }
    })
}

#[tokio::test]
async fn every_static_credential_type_is_supported() {
    let text = |text: &str| text.to_owned();
    let cases = [
        (RemoteAuth::ApiKey { key: text("$AGENT_KEY"), header: None }, "x-api-key", "from-env"),
        (RemoteAuth::ApiKey { key: text("$$raw"), header: Some(text("X-Mine")) }, "x-mine", "$raw"),
        (RemoteAuth::Bearer { token: text("!!t") }, "authorization", "Bearer !t"),
        (RemoteAuth::Basic { username: text("u"), password: text("p:w") }, "authorization", "Basic dTpwOnc="),
        (RemoteAuth::Scheme { scheme: text("Digest"), value: text("v") }, "authorization", "Digest v"),
    ];
    for (auth, header, value) in cases {
        let server = guarded(header, value);
        let agent = agent(&format!("{}/card.json", server.url()), Some(auth));
        assert_eq!(call(&*agent, "go").await.0.as_deref(), Ok("let in"), "{header}: {value}");
        let requests = server.requests();
        assert_eq!(requests[0].header(header), None, "the card is asked for without credentials first");
    }
}

#[tokio::test]
async fn a_rejected_command_credential_is_requested_again() {
    let server = guarded("authorization", "Bearer key-1");
    let agent =
        agent(&format!("{}/card.json", server.url()), Some(RemoteAuth::Bearer { token: "!rotate".into() }));
    assert_eq!(call(&*agent, "go").await.0.as_deref(), Ok("let in"));
    let server = guarded("authorization", "Bearer never");
    let agent = crate::scene::agent(
        &format!("{}/card.json", server.url()),
        Some(RemoteAuth::Bearer { token: "!rotate".into() }),
    );
    let refused = call(&*agent, "go").await.0.unwrap_err();
    assert!(
        matches!(&refused, RemoteError::SignIn(why) if why.contains("rejected the credentials (HTTP 401)")),
        "{refused}"
    );
    assert_eq!(server.requests().len(), 4, "one without, one with, two more tries");
}

#[tokio::test]
async fn an_unchanged_credential_is_not_resent() {
    let server = guarded("authorization", "Bearer never");
    let agent =
        agent(&format!("{}/card.json", server.url()), Some(RemoteAuth::Bearer { token: "fixed".into() }));
    call(&*agent, "go").await.0.unwrap_err();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn missing_credentials_are_named() {
    let server = guarded("authorization", "Bearer x");
    let url = format!("{}/card.json", server.url());
    for (auth, why) in [
        (None, "requires credentials (HTTP 401)"),
        (Some(RemoteAuth::Bearer { token: "$NOT_SET".into() }), "Environment variable 'NOT_SET' is not set"),
        (Some(RemoteAuth::Bearer { token: "! ".into() }), "Empty command in auth value"),
        (Some(RemoteAuth::Bearer { token: "!silent".into() }), "printed nothing"),
        (Some(RemoteAuth::Bearer { token: "!broken".into() }), "failed: exit code 1"),
        (Some(RemoteAuth::Bearer { token: "a\nb".into() }), "not allowed in the header"),
        (Some(RemoteAuth::OAuth(Box::default())), "not signed in to"),
    ] {
        let error = call(&*agent(&url, auth), "go").await.0.unwrap_err();
        assert!(matches!(&error, RemoteError::SignIn(text) if text.contains(why)), "{error}");
    }
}

#[tokio::test]
async fn credentials_stay_with_the_origin_of_the_card() {
    let other = FakeHttp::start(|_| stream(&[result(&status("completed", "stolen", true))]));
    let elsewhere = other.url();
    let server =
        FakeHttp::start_with_url(move |url, _| HttpAnswer::json(&card(url, &json!({"url": elsewhere}))));
    let bearer = || Some(RemoteAuth::Bearer { token: "secret".into() });
    let fetched = agent(&format!("{}/card.json", server.url()), bearer());
    let error = call(&*fetched, "go").await.0.unwrap_err();
    assert!(matches!(&error, RemoteError::SignIn(why) if why.contains("credentials are only")), "{error}");
    assert_eq!(other.requests().len(), 0);
    // With the card in the definition, the user has chosen the destination.
    let written = card(&server.url(), &json!({"url": other.url()})).to_string();
    assert_eq!(call(&*with(CardSource::Json(written), bearer()), "go").await.0.as_deref(), Ok("stolen"));
    assert_eq!(other.requests()[0].header("authorization"), Some("Bearer secret"));
}

#[tokio::test]
async fn a_redirect_to_another_server_is_not_followed() {
    let other = FakeHttp::start(|_| HttpAnswer::status(200));
    let target = format!("{}/x", other.url());
    let server = FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/card.json" => HttpAnswer::json(&card(url, &json!({}))),
        _ => HttpAnswer::status(307).header("location", &target),
    });
    let agent =
        agent(&format!("{}/card.json", server.url()), Some(RemoteAuth::Bearer { token: "secret".into() }));
    let error = call(&*agent, "go").await.0.unwrap_err().to_string();
    assert!(error.contains("HTTP 307: redirect to another server"), "{error}");
    assert_eq!(other.requests().len(), 0);
}
