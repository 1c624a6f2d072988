use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pollux_domain::time::Timestamp;
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::*;
use crate::client::{ClientOptions, client};

// Made for these tests; it opens nothing.
const KEY: &str = include_str!("../../tests/fixtures/service-account-test-key.pem");
const NOW: i64 = 1_800_000_000_000;

pub(crate) struct TestClock(pub(crate) AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Scene {
    folder: tempfile::TempDir,
    server: FakeHttp,
    clock: Arc<TestClock>,
}

impl Scene {
    fn new(answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
        Self { folder: tempfile::tempdir().unwrap(), server: FakeHttp::start(answer), clock }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        files::replace(&path, text.as_bytes(), files::Mode::Private).unwrap();
        path
    }

    fn env(&self, pairs: &[(&str, &str)]) -> Env {
        Env::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), self.folder.path().to_owned())
    }

    /// Tokens from a file with this content.
    fn tokens(&self, file: &Value) -> GoogleTokens {
        self.write("credentials.json", &file.to_string());
        let env = self.env(&[("GOOGLE_APPLICATION_CREDENTIALS", "credentials.json")]);
        self.made(find_credentials(&env, self.folder.path()).unwrap())
    }

    fn made(&self, credentials: GoogleCredentials) -> GoogleTokens {
        let http = client(&ClientOptions::new("test")).unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        GoogleTokens::new(credentials, vec![CLOUD_PLATFORM.to_owned()], http, clock)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }
}

fn service_account(token_url: &str) -> Value {
    json!({"type": "service_account", "client_email": "bot@p.iam", "private_key": KEY, "private_key_id": "k1",
           "token_uri": token_url, "quota_project_id": "payer"})
}

fn counting() -> impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync {
    let count = AtomicUsize::new(0);
    move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        HttpAnswer::json(&json!({"access_token": format!("token-{number}"), "expires_in": 3600}))
    }
}

fn claims(jwt: &str) -> (Value, Value) {
    let parts: Vec<&str> = jwt.split('.').collect();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let der = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref())
        .verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &decode(parts[2]))
        .unwrap();
    let json = |part: &str| serde_json::from_slice(&decode(part)).unwrap();
    (json(parts[0]), json(parts[1]))
}

#[tokio::test]
async fn a_service_account_signs_for_a_token_and_keeps_it_until_near_its_end() {
    let scene = Scene::new(counting());
    let tokens = scene.tokens(&service_account(&scene.url("/token")));
    assert_eq!(tokens.token().await.unwrap().reveal(), "token-1");
    assert_eq!(tokens.quota_project(), Some("payer"));
    let asked = scene.server.requests().pop().unwrap();
    assert_eq!(asked.form("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    let (header, claims) = claims(&asked.form("assertion").unwrap());
    assert_eq!(header, json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    assert_eq!(
        claims,
        json!({"iss": "bot@p.iam", "scope": CLOUD_PLATFORM, "aud": scene.url("/token"),
               "iat": NOW / 1000, "exp": NOW / 1000 + 3600})
    );
    scene.clock.0.store(NOW + 54 * 60_000, Ordering::SeqCst);
    assert_eq!(tokens.token().await.unwrap().reveal(), "token-1");
    scene.clock.0.store(NOW + 55 * 60_000, Ordering::SeqCst);
    let (one, two) = tokio::join!(tokens.token(), tokens.token());
    assert_eq!((one.unwrap().reveal(), two.unwrap().reveal()), ("token-2", "token-2"));
    tokens.discard(&Secret::new("token-1")).await;
    assert_eq!(tokens.token().await.unwrap().reveal(), "token-2");
    tokens.discard(&Secret::new("token-2")).await;
    assert_eq!(tokens.token().await.unwrap().reveal(), "token-3");
}

#[tokio::test]
async fn a_persons_gcloud_login_is_renewed() {
    let scene = Scene::new(counting());
    let file = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
                      "token_uri": scene.url("/token")});
    scene.write(".config/gcloud/application_default_credentials.json", &file.to_string());
    let found = find_credentials(&scene.env(&[]), scene.folder.path()).unwrap();
    assert_eq!(found.kind(), "authorized_user");
    assert_eq!(scene.made(found).token().await.unwrap().reveal(), "token-1");
    let asked = scene.server.requests().pop().unwrap();
    assert_eq!(asked.form("refresh_token").as_deref(), Some("r"));
    assert_eq!(asked.form("client_secret").as_deref(), Some("s"));
}

#[tokio::test]
async fn a_machine_of_google_asks_its_metadata_server() {
    let scene = Scene::new(counting());
    let env =
        scene.env(&[("GCE_METADATA_HOST", &scene.server.authority()), ("GOOGLE_CLOUD_QUOTA_PROJECT", "q")]);
    let tokens = scene.made(find_credentials(&env, scene.folder.path()).unwrap());
    assert_eq!(tokens.token().await.unwrap().reveal(), "token-1");
    assert_eq!(tokens.quota_project(), Some("q"));
    let asked = scene.server.requests().pop().unwrap();
    assert_eq!(asked.path, "/computeMetadata/v1/instance/service-accounts/default/token");
    assert_eq!(asked.header("metadata-flavor"), Some("Google"));
    assert_eq!(asked.parameter("scopes").as_deref(), Some(CLOUD_PLATFORM));
}

#[tokio::test]
async fn somebody_elses_token_is_exchanged_and_then_used_to_impersonate() {
    let scene = Scene::new(|request| match request.path.as_str() {
        "/sts" => HttpAnswer::json(&json!({"access_token": "federated", "expires_in": 3600})),
        "/impersonate" => HttpAnswer::json(
            &json!({"accessToken": "impersonated", "expireTime": Timestamp::from_millis(NOW + 600_000).to_iso()}),
        ),
        _ => HttpAnswer::status(404),
    });
    let subject = scene.write("subject.json", r#"{"id_token": "their-token"}"#);
    let tokens = scene.tokens(&json!({
        "type": "external_account", "audience": "//iam/pool", "subject_token_type": "urn:jwt",
        "token_url": scene.url("/sts"), "service_account_impersonation_url": scene.url("/impersonate"),
        "credential_source": {"file": subject, "format": {"type": "json", "subject_token_field_name": "id_token"}}
    }));
    assert_eq!(tokens.token().await.unwrap().reveal(), "impersonated");
    let exchanged = scene.server.requests_to("/sts").pop().unwrap();
    assert_eq!(exchanged.form("subject_token").as_deref(), Some("their-token"));
    assert_eq!(exchanged.form("audience").as_deref(), Some("//iam/pool"));
    let impersonated = scene.server.requests_to("/impersonate").pop().unwrap();
    assert_eq!(impersonated.header("authorization"), Some("Bearer federated"));
    assert_eq!(impersonated.json()["scope"], json!([CLOUD_PLATFORM]));
    // Ten minutes: renewed five minutes before the end.
    scene.clock.0.store(NOW + 299_000, Ordering::SeqCst);
    tokens.token().await.unwrap();
    assert_eq!(scene.server.requests_to("/sts").len(), 1);
    scene.clock.0.store(NOW + 300_000, Ordering::SeqCst);
    tokens.token().await.unwrap();
    assert_eq!(scene.server.requests_to("/sts").len(), 2);
}

#[tokio::test]
async fn a_refusal_names_the_server_and_nothing_secret() {
    let answers = [
        (
            400,
            json!({"error": "invalid_grant", "error_description": "assertion hunter2 is bad"}).to_string(),
            false,
        ),
        (503, "busy".to_owned(), true),
        (200, "<html>hunter2</html>".to_owned(), false),
    ];
    for (status, body, may_pass) in answers {
        let scene = Scene::new(move |_| HttpAnswer::status(status).body(body.clone()));
        let error = scene.tokens(&service_account(&scene.url("/token"))).token().await.unwrap_err();
        assert_eq!(error.may_pass(), may_pass);
        let text = format!("{error} {error:?}");
        assert!(text.contains(&scene.server.url()) && text.contains(&status.to_string()), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("PRIVATE"), "{text}");
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_an_error() {
    let scene = Scene::new(counting());
    for key in ["", "hunter2", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        let mut file = service_account(&scene.url("/token"));
        file["private_key"] = json!(format!("{key} "));
        let error = scene.tokens(&file).token().await.unwrap_err();
        assert!(matches!(error, GoogleError::Key(_)), "{error:?}");
    }
    assert!(scene.server.requests().is_empty());
}

#[test]
fn credentials_are_looked_for_in_googles_order() {
    let scene = Scene::new(counting());
    let none = find_credentials(&scene.env(&[]), scene.folder.path());
    assert!(none.is_err() || none.unwrap().kind() == "metadata");
    let missing = scene.env(&[("GOOGLE_APPLICATION_CREDENTIALS", "gone.json")]);
    let error = find_credentials(&missing, scene.folder.path()).unwrap_err();
    assert!(matches!(error, GoogleError::Missing { .. }), "{error}");
    scene.write("gcloud/application_default_credentials.json", "{}");
    let bad = scene.env(&[("CLOUDSDK_CONFIG", "gcloud")]);
    let error = find_credentials(&bad, scene.folder.path()).unwrap_err().to_string();
    assert!(error.contains("gcloud/application_default_credentials.json`: `type` is missing"), "{error}");
    scene.write("sa.json", &service_account("https://t.example/t").to_string());
    let both = scene.env(&[("CLOUDSDK_CONFIG", "gcloud"), ("GOOGLE_APPLICATION_CREDENTIALS", "sa.json")]);
    let found = find_credentials(&both, scene.folder.path()).unwrap();
    assert_eq!(found.kind(), "service_account");
    assert!(!format!("{found:?}").contains("PRIVATE"), "{found:?}");
}
