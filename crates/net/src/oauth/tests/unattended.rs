//! Tokens without a person.

use std::sync::atomic::AtomicUsize;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pollux_config::files::{self, Mode};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::Value;

use super::*;

/// An authorization server that only serves programs, with an identity provider at the same address.
fn office(methods: &'static [&'static str]) -> Scene {
    let issued = AtomicUsize::new(0);
    let idp = FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/mcp" => HttpAnswer::status(401).header("WWW-Authenticate", "Bearer scope=\"read\""),
        "/.well-known/oauth-protected-resource/mcp" => {
            HttpAnswer::json(&json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]}))
        }
        "/.well-known/oauth-authorization-server" => HttpAnswer::json(&json!({
            "issuer": url, "token_endpoint": format!("{url}/token"),
            "token_endpoint_auth_methods_supported": methods,
        })),
        "/idp/.well-known/openid-configuration" => HttpAnswer::json(
            &json!({"issuer": format!("{url}/idp"), "token_endpoint": format!("{url}/idp/token")}),
        ),
        "/idp/token" if request.form("subject_token").as_deref() == Some("id-token-1") => {
            HttpAnswer::json(&json!({
                "access_token": "the-grant", "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            }))
        }
        "/idp/token" if request.form("subject_token").as_deref() == Some("id-token-2") => {
            HttpAnswer::json(&json!({"access_token": "not-for-strangers", "token_type": "Bearer"}))
        }
        "/idp/token" => HttpAnswer::status(400).body(json!({"error": "invalid_grant"}).to_string()),
        "/token" => {
            let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
            HttpAnswer::json(&json!({"access_token": format!("token-{number}"), "expires_in": 3600}))
        }
        _ => HttpAnswer::status(404),
    });
    let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
    Scene { folder: tempfile::tempdir().unwrap(), idp, clock, metadata_url: None }
}

fn program(scene: &Scene) -> OAuthServer {
    let mut server = scene.server();
    server.config = OAuthConfig {
        grant: GrantType::ClientCredentials,
        client_id: Some("robot".into()),
        client_secret: Some(Secret::new("robots-secret")),
        ..OAuthConfig::default()
    };
    server
}

#[tokio::test]
async fn a_program_gets_tokens_of_its_own_and_keeps_none_on_disk() {
    let scene = office(&["client_secret_basic"]);
    let (oauth, server) = (scene.oauth(), program(&scene));
    assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "token-1");
    assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "token-1", "it is remembered");
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    assert_eq!(asked.form("grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(asked.form("scope").as_deref(), Some("read"));
    assert_eq!(asked.form("resource").as_deref(), Some(server.url.as_str()));
    assert_eq!(asked.header("authorization"), Some("Basic cm9ib3Q6cm9ib3RzLXNlY3JldA=="));
    scene.clock.0.store(NOW + 3_400_000, Ordering::SeqCst);
    let renewed = oauth.valid_token(&server).await.unwrap().unwrap();
    assert_eq!(renewed.reveal(), "token-2", "it ends");
    assert_eq!(oauth.replace_refused(&server, &renewed).await.unwrap().unwrap().reveal(), "token-3");
    assert_eq!(std::fs::read_dir(scene.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn wider_rights_for_a_program_end_at_its_settings() {
    let wider = r#"Bearer error="insufficient_scope", scope="read admin""#;
    let scene = office(&["client_secret_post"]);
    let (oauth, mut server) = (scene.oauth(), program(&scene));
    oauth.valid_token(&server).await.unwrap();
    assert_eq!(oauth.widen(&server, wider).await.unwrap(), WiderScopes::Granted);
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    assert_eq!(asked.form("scope").as_deref(), Some("read admin"));
    assert_eq!(asked.form("client_secret").as_deref(), Some("robots-secret"));
    assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "token-2");
    server.config.scopes = vec!["read".into()];
    assert_eq!(scene.oauth().widen(&server, wider).await.unwrap(), WiderScopes::Refused);
}

#[tokio::test]
async fn a_program_with_a_key_signs_what_it_says() {
    let document =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(document.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----\n");
    let scene = office(&["private_key_jwt"]);
    let file = scene.folder.path().join("key.pem");
    files::replace(&file, pem.as_bytes(), Mode::Private).unwrap();
    let mut server = program(&scene);
    server.config.client_secret = None;
    let error = scene.oauth().valid_token(&server).await.unwrap_err();
    assert!(format!("{error:?}").contains("NoProof"), "{error:?}");
    server.config.key_id = Some("k-1".into());
    for (key, path) in [(Some(Secret::new(pem.as_str())), None), (None, Some(file))] {
        server.config.private_key = key;
        server.config.private_key_file = path;
        scene.oauth().valid_token(&server).await.unwrap().unwrap();
        let asked = scene.idp.requests_to("/token").pop().unwrap();
        assert_eq!(
            asked.form("client_assertion_type").as_deref(),
            Some("urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        );
        assert_eq!(asked.form("client_secret"), None);
        let jwt = asked.form("client_assertion").unwrap();
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            document.as_ref(),
            &SystemRandom::new(),
        )
        .unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        let part = |number: usize| -> Value {
            let text = jwt.split('.').nth(number).unwrap();
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
        };
        assert_eq!(part(0), json!({"alg": "ES256", "typ": "JWT", "kid": "k-1"}));
        let claims = part(1);
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("robot"), &json!("robot")));
        assert_eq!(claims["aud"], json!(scene.idp.url()));
        assert_eq!(claims["exp"], json!(NOW / 1000 + 300));
    }
    server.config.private_key_file = Some("/nonexistent/key.pem".into());
    let error = scene.oauth().valid_token(&server).await.unwrap_err();
    assert!(format!("{error:?}").contains("/nonexistent/key.pem"), "{error:?}");
    server.config.private_key = Some(Secret::new("hunter2"));
    let error = scene.oauth().valid_token(&server).await.unwrap_err();
    assert!(format!("{error:?}").contains("not in PEM") && !format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn an_organisation_vouches_for_its_user() {
    let scene = office(&["client_secret_basic"]);
    let file = scene.folder.path().join("id-token");
    files::replace(&file, b"id-token-1\n", Mode::Private).unwrap();
    let mut server = program(&scene);
    server.config.grant = GrantType::CrossApp;
    let mut provider = IdentityProvider {
        issuer: Some(format!("{}/idp", scene.idp.url())),
        client_id: Some("at-the-idp".into()),
        id_token_file: Some(file.clone()),
        ..IdentityProvider::default()
    };
    server.config.identity_provider = Some(provider.clone());
    assert_eq!(scene.oauth().valid_token(&server).await.unwrap().unwrap().reveal(), "token-1");
    let exchange = scene.idp.requests_to("/idp/token").pop().unwrap();
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", &scene.idp.url()),
        ("resource", server.url.as_str()),
        ("client_id", "at-the-idp"),
    ] {
        assert_eq!(exchange.form(name).as_deref(), Some(value), "{name}");
    }
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    assert_eq!(asked.form("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    assert_eq!(asked.form("assertion").as_deref(), Some("the-grant"));
    assert_eq!(asked.form("subject_token"), None, "the server does not see the identity provider's word");

    // A token for the identity provider itself is not passed on, and a refusal says who refused.
    for (token, expected) in [("id-token-2", "OtherToken"), ("id-token-3", "Exchange")] {
        provider.id_token = Some(Secret::new(token));
        server.config.identity_provider = Some(provider.clone());
        let error = scene.oauth().valid_token(&server).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains(expected) && !text.contains(token) && !text.contains("strangers"), "{text}");
    }
    assert_eq!(scene.idp.requests_to("/token").len(), 1);
    server.config.identity_provider = None;
    let error = scene.oauth().valid_token(&server).await.unwrap_err();
    assert!(format!("{error:?}").contains("NoIdentity"), "{error:?}");
}
