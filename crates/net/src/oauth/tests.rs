use std::sync::atomic::{AtomicI64, Ordering};

use pollux_domain::time::Timestamp;
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::*;
use crate::credentials::StoreOptions;
use crate::random::url_safe;

const NOW: i64 = 1_800_000_000_000;

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A home with sign-ins, and a server with its own authorization server.
struct Scene {
    folder: tempfile::TempDir,
    idp: FakeHttp,
    clock: Arc<TestClock>,
    metadata_url: Option<String>,
}

/// How the authorization server behaves where it is not the usual way.
#[derive(Clone, Default)]
struct Ways {
    /// Answers to renewals instead of a new token.
    renewal: Option<HttpAnswer>,
    rotates: bool,
    methods: Vec<&'static str>,
    resource: Option<&'static str>,
    challenges_pkce: Vec<&'static str>,
    reads_descriptions: bool,
}

impl Scene {
    fn new(ways: Ways) -> Self {
        let idp = FakeHttp::start_with_url(move |url, request| answer(url, request, &ways));
        let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
        Self { folder: tempfile::tempdir().unwrap(), idp, clock, metadata_url: None }
    }

    fn store(&self) -> CredentialStore {
        CredentialStore::new(StoreOptions {
            gemini_dir: self.folder.path().to_owned(),
            host: "h".into(),
            user: "u".into(),
            force_file: true,
            ..StoreOptions::default()
        })
    }

    fn oauth(&self) -> OAuth {
        OAuth::new(OAuthOptions {
            client: ClientOptions::new("test"),
            store: Arc::new(self.store()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            callback_port: None,
            client_metadata_url: self.metadata_url.clone(),
        })
    }

    fn server(&self) -> OAuthServer {
        let url = Url::parse(&format!("{}/mcp", self.idp.url())).unwrap();
        OAuthServer { name: "my server".into(), url, config: OAuthConfig::default() }
    }

    /// A sign-in that ends in this many seconds.
    fn signed_in(&self, seconds: i64) {
        let credentials = OAuthCredentials::read(&json!({
            "serverName": "my server",
            "token": {"accessToken": "old-access", "refreshToken": "old-refresh", "tokenType": "Bearer",
                      "expiresAt": NOW + seconds * 1000},
            "clientId": "client-1", "tokenUrl": format!("{}/token", self.idp.url()),
            "mcpServerUrl": self.server().url.as_str(), "updatedAt": NOW
        }));
        self.store().set_credentials(MCP_SERVICE, &credentials.unwrap()).unwrap();
    }

    fn stored(&self) -> OAuthCredentials {
        self.store().credentials(MCP_SERVICE, "my server").unwrap().unwrap()
    }
}

fn answer(url: &str, request: &HttpRequest, ways: &Ways) -> HttpAnswer {
    match request.path.as_str() {
        "/mcp" => HttpAnswer::status(401).header(
            "WWW-Authenticate",
            &format!("Bearer resource_metadata=\"{url}/described\", scope=\"read write\""),
        ),
        "/described" => {
            let resource = ways.resource.map_or_else(|| format!("{url}/mcp"), str::to_owned);
            HttpAnswer::json(
                &json!({"resource": resource, "authorization_servers": [format!("{url}/tenant")]}),
            )
        }
        "/.well-known/openid-configuration/tenant" => HttpAnswer::json(&json!({
            "issuer": format!("{url}/tenant"),
            "authorization_endpoint": format!("{url}/authorize?tenant=1"),
            "token_endpoint": format!("{url}/token"),
            "registration_endpoint": format!("{url}/register"),
            "token_endpoint_auth_methods_supported": ways.methods,
            "code_challenge_methods_supported": ways.challenges_pkce,
            "client_id_metadata_document_supported": ways.reads_descriptions,
        })),
        "/register" if ways.methods.is_empty() => HttpAnswer::json(&json!({"client_id": "client-9"})),
        "/register" => HttpAnswer::json(&json!({"client_id": "client-9", "client_secret": "secret 9"})),
        "/token" if request.form("grant_type").as_deref() == Some("refresh_token") => {
            if let Some(answer) = &ways.renewal {
                return answer.clone();
            }
            let mut token = json!({"access_token": "new-access", "token_type": "Bearer", "expires_in": 3600});
            if ways.rotates {
                token["refresh_token"] = json!("new-refresh");
            }
            HttpAnswer::json(&token)
        }
        "/token" => HttpAnswer::json(&json!({
            "access_token": "first-access", "refresh_token": "first-refresh", "token_type": "bearer",
            "expires_in": 3600, "scope": "read write"
        })),
        _ => HttpAnswer::status(404),
    }
}

fn parameter(url: &str, name: &str) -> String {
    let url = Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_else(|| panic!("{name} in {url}"))
}

#[tokio::test]
async fn a_person_signs_in_with_the_browser_and_the_token_is_kept() {
    let scene = Scene::new(Ways::default());
    let (oauth, server) = (scene.oauth(), scene.server());
    assert_eq!(oauth.valid_token(&server).await.unwrap(), None);
    let mut login = oauth.begin_login(&server, None).await.unwrap();
    let url = login.url().to_owned();
    assert!(url.starts_with(&format!("{}/authorize?tenant=1&client_id=client-9&", scene.idp.url())), "{url}");
    assert_eq!(parameter(&url, "resource"), server.url.as_str());
    assert_eq!(parameter(&url, "scope"), "read write");
    assert_eq!(parameter(&url, "code_challenge_method"), "S256");
    let registered = scene.idp.requests_to("/register").pop().unwrap().json();
    assert_eq!(registered["redirect_uris"], json!([login.redirect_uri()]));
    assert_eq!(registered["client_name"], "Gemini CLI MCP Client");
    assert_eq!(registered["token_endpoint_auth_method"], "none");

    let back = format!("{}?code=the-code&state={}", login.redirect_uri(), parameter(&url, "state"));
    let browser = crate::client::client(&ClientOptions::new("browser")).unwrap();
    let forged = back.replace("state=", "state=x");
    let visit = async {
        assert_eq!(browser.get(forged).send().await.unwrap().status(), 404);
        browser.get(back).send().await.unwrap().text().await.unwrap()
    };
    let (granted, page) = tokio::join!(login.browser(), visit);
    assert!(page.contains("Signed in"), "{page}");
    login.finish(granted.unwrap()).await.unwrap();

    assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "first-access");
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    let verifier = asked.form("code_verifier").unwrap();
    assert_eq!(url_safe(digest(&SHA256, verifier.as_bytes()).as_ref()), parameter(&url, "code_challenge"));
    assert_eq!(verifier.len(), 86);
    assert_eq!(asked.form("code").as_deref(), Some("the-code"));
    assert_eq!(asked.form("resource").as_deref(), Some(server.url.as_str()));
    assert_eq!(asked.form("client_id").as_deref(), Some("client-9"));
    let stored = scene.stored();
    assert_eq!(
        (stored.client_id.as_deref(), stored.token.expires_at),
        (Some("client-9"), Some(NOW + 3_600_000))
    );
    let file = std::fs::read_to_string(scene.folder.path().join("gemini-credentials.json")).unwrap();
    assert!(!file.contains("first-access"));
}

#[tokio::test]
async fn without_a_browser_the_url_is_pasted() {
    let scene = Scene::new(Ways { methods: vec!["client_secret_basic"], ..Ways::default() });
    let (oauth, server) = (scene.oauth(), scene.server());
    let login = oauth.begin_login(&server, None).await.unwrap();
    let state = parameter(login.url(), "state");
    assert!(login.pasted("http://localhost/oauth/callback?code=c&state=other").is_err());
    let granted = login.pasted(&format!("{}?code=c&state={state}", login.redirect_uri())).unwrap();
    login.finish(granted).await.unwrap();
    // A client with a secret proves itself in the header, and again when it renews.
    let header = format!("Basic {}", "Y2xpZW50LTk6c2VjcmV0Kzk=");
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    assert_eq!(asked.header("authorization"), Some(header.as_str()));
    assert_eq!(asked.form("client_secret"), None);
    scene.clock.0.store(NOW + 3_600_000, Ordering::SeqCst);
    let renewed = scene.oauth().valid_token(&server).await.unwrap().unwrap();
    assert_eq!(renewed.reveal(), "new-access");
    let asked = scene.idp.requests_to("/token").pop().unwrap();
    assert_eq!(asked.header("authorization"), Some(header.as_str()));
}

#[tokio::test]
async fn a_token_near_expiry_is_refreshed_and_keeps_omitted_fields() {
    for rotates in [false, true] {
        let scene = Scene::new(Ways { rotates, ..Ways::default() });
        scene.signed_in(301);
        let (oauth, server) = (scene.oauth(), scene.server());
        assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "old-access");
        scene.clock.0.store(NOW + 2_000, Ordering::SeqCst);
        assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "new-access");
        let asked = scene.idp.requests_to("/token");
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].form("refresh_token").as_deref(), Some("old-refresh"));
        let stored = scene.stored();
        let refresh = stored.token.refresh_token.unwrap();
        assert_eq!(refresh.reveal(), if rotates { "new-refresh" } else { "old-refresh" });
        assert_eq!(oauth.valid_token(&server).await.unwrap().unwrap().reveal(), "new-access");
        assert_eq!(scene.idp.requests_to("/token").len(), 1, "it is remembered");
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_whatever_its_age_says() {
    let scene = Scene::new(Ways::default());
    scene.signed_in(3600);
    let (oauth, server) = (scene.oauth(), scene.server());
    let refused = oauth.valid_token(&server).await.unwrap().unwrap();
    let fresh = oauth.replace_refused(&server, &refused).await.unwrap().unwrap();
    assert_eq!(fresh.reveal(), "new-access");
    // Another process that holds the old one finds the new one in the store.
    let other = scene.oauth();
    assert_eq!(other.replace_refused(&server, &refused).await.unwrap().unwrap().reveal(), "new-access");
    assert_eq!(scene.idp.requests_to("/token").len(), 1);
}

#[tokio::test]
async fn two_processes_renew_once() {
    let scene = Scene::new(Ways { rotates: true, ..Ways::default() });
    scene.signed_in(10);
    let (one, two, server) = (scene.oauth(), scene.oauth(), scene.server());
    let (first, second) = tokio::join!(one.valid_token(&server), two.valid_token(&server));
    assert_eq!(first.unwrap().unwrap().reveal(), "new-access");
    assert_eq!(second.unwrap().unwrap().reveal(), "new-access");
    assert_eq!(scene.idp.requests_to("/token").len(), 1);
}

#[tokio::test]
async fn a_renewal_that_fails_loses_nothing() {
    let refusal =
        json!({"error": "invalid_grant", "error_description": "old-refresh was used up"}).to_string();
    let cases = [
        (HttpAnswer::status(400).body(refusal), true),
        (HttpAnswer::status(503).body("<html>"), false),
        (HttpAnswer::status(200).body("{}"), false),
        (
            HttpAnswer::status(400)
                .body(json!({"error": "slow_down", "error_description": "old-refresh"}).to_string()),
            false,
        ),
    ];
    for (renewal, sign_in_needed) in cases {
        let scene = Scene::new(Ways { renewal: Some(renewal), ..Ways::default() });
        scene.signed_in(10);
        match scene.oauth().valid_token(&scene.server()).await {
            Ok(None) => assert!(sign_in_needed),
            Err(error) => {
                assert!(!sign_in_needed);
                let text = format!("{error:?} {error} {:?}", std::error::Error::source(&error));
                assert!(!text.contains("old-refresh"), "{text}");
            }
            Ok(Some(_)) => panic!("a token"),
        }
        assert_eq!(scene.stored().token.refresh_token.unwrap().reveal(), "old-refresh");
    }
}

#[tokio::test]
async fn a_sign_in_counts_for_its_own_address_alone() {
    let scene = Scene::new(Ways::default());
    scene.signed_in(3600);
    let mut elsewhere = scene.server();
    elsewhere.url = Url::parse(&format!("{}/other", scene.idp.url())).unwrap();
    assert_eq!(scene.oauth().valid_token(&elsewhere).await.unwrap(), None);
    let mut namesake = scene.server();
    namesake.name = "my_server".into();
    namesake.url = Url::parse("https://evil.example/mcp").unwrap();
    assert_eq!(scene.oauth().valid_token(&namesake).await.unwrap(), None);
    assert!(scene.oauth().forget(&scene.server()).await.unwrap().removed);
    assert!(!scene.oauth().has_token(&scene.server()).await);
}

#[tokio::test]
async fn a_sign_in_that_is_not_safe_is_not_begun() {
    let plain = Scene::new(Ways { challenges_pkce: vec!["plain"], ..Ways::default() });
    let error = plain.oauth().begin_login(&plain.server(), None).await.err().unwrap();
    assert!(matches!(error, LoginError::Discovery(DiscoveryError::NoPkce(_))), "{error:?}");
    let foreign = Scene::new(Ways { resource: Some("https://other.example/mcp"), ..Ways::default() });
    let error = foreign.oauth().begin_login(&foreign.server(), None).await.err().unwrap();
    assert!(matches!(error, LoginError::Discovery(DiscoveryError::OtherResource { .. })), "{error:?}");
}

#[tokio::test]
async fn servers_that_describe_nothing_have_the_places_of_the_first_version() {
    let idp = FakeHttp::start(|request| match request.path.as_str() {
        "/register" => HttpAnswer::status(201).body(json!({"client_id": "c"}).to_string()),
        _ => HttpAnswer::status(404),
    });
    let scene = Scene::new(Ways::default());
    let url = Url::parse(&format!("{}/mcp", idp.url())).unwrap();
    let server = OAuthServer { name: "bare".into(), url, config: OAuthConfig::default() };
    let login = scene.oauth().begin_login(&server, None).await.unwrap();
    assert!(login.url().starts_with(&format!("{}/authorize?client_id=c&", idp.url())), "{}", login.url());
    assert!(!login.url().contains("scope="));
}

#[test]
fn addresses_are_encrypted_and_public_unless_the_user_named_them() {
    let endpoints = |url: &str, config: OAuthConfig| {
        let server = OAuthServer { name: "s".into(), url: Url::parse(url).unwrap(), config };
        Endpoints::new(&ClientOptions::new("test"), &server).unwrap()
    };
    let public = endpoints("https://mcp.example.com/mcp", OAuthConfig::default());
    assert!(public.check("https://login.example.org/token").is_ok());
    for bad in [
        "http://login.example.org/token",
        "https://127.0.0.1/token",
        "http://localhost:1/token",
        "https://10.0.0.1/token",
        "https://idp.internal/token",
        "https://metadata.google.internal/token",
        "https://user:pw@login.example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "",
    ] {
        assert!(public.check(bad).is_err(), "{bad}");
    }
    let named =
        OAuthConfig { token_url: Some("https://idp.internal/token".into()), ..OAuthConfig::default() };
    assert!(endpoints("https://mcp.example.com/mcp", named).check("https://idp.internal/token").is_ok());
    let local = endpoints("http://127.0.0.1:3000/mcp", OAuthConfig::default());
    assert!(local.check("http://localhost:4000/token").is_ok());
    assert!(local.check("http://login.example.org/token").is_err());
}

#[test]
fn nothing_secret_is_shown_by_debug() {
    let config = OAuthConfig { client_secret: Some(Secret::new("hunter2")), ..OAuthConfig::default() };
    let server = OAuthServer { name: "s".into(), url: Url::parse("https://x.example").unwrap(), config };
    assert!(!format!("{server:?}").contains("hunter2"));
}

mod rights;
mod unattended;
