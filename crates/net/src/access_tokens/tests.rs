use std::sync::atomic::{AtomicI64, Ordering};

use base64::engine::general_purpose::STANDARD;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pollux_config::groups::Secret;
use pollux_test_support::{FakeHttp, HttpAnswer};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
    RsaPublicKeyComponents,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use super::*;
use crate::client::{ClientOptions, client};
use crate::jwt;

const RSA: &str = include_str!("../../tests/fixtures/service-account-test-key.pem");
const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://issuer.example";

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A key pair: the private half in PEM, the public half as the issuer publishes it.
#[derive(Clone)]
struct Pair {
    pem: Secret,
    public: Value,
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn pem(der: &[u8]) -> Secret {
    let body = STANDARD.encode(der);
    Secret::new(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
}

fn p256(id: &str) -> Pair {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let public = json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": text(x), "y": text(y)});
    Pair { pem: pem(der.as_ref()), public }
}

fn ed25519(id: &str) -> Pair {
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
    let public = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA", "x": text(pair.public_key().as_ref())});
    Pair { pem: pem(der.as_ref()), public }
}

fn rsa(id: &str) -> Pair {
    let PrivateKeyDer::Pkcs8(der) = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap() else { panic!() };
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let parts: RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
    let public = json!({"kty": "RSA", "kid": id, "n": text(&parts.n), "e": text(&parts.e)});
    Pair { pem: Secret::new(RSA), public }
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "pollux", "sub": "anna", "exp": NOW + 600, "nbf": NOW - 10})
}

fn changed(key: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[key] = value;
    claims
}

fn signed(pair: &Pair, claims: &Value) -> String {
    let id = pair.public["kid"].as_str();
    jwt::sign(claims, &pair.pem, id).unwrap().reveal().to_owned()
}

fn set(pairs: &[&Pair]) -> Value {
    json!({"keys": pairs.iter().map(|pair| pair.public.clone()).collect::<Vec<_>>()})
}

fn rules() -> TokenRules {
    TokenRules { issuer: ISSUER.into(), audience: "pollux".into() }
}

fn verify(keys: &Value, token: &str) -> Result<Claims, TokenError> {
    KeySet::read(keys).verify(token, &rules(), Timestamp::from_millis(NOW * 1000))
}

#[test]
fn tokens_of_every_algorithm_are_accepted() {
    let all = [p256("ec"), ed25519("ed"), rsa("rsa")];
    let keys = set(&all.iter().collect::<Vec<_>>());
    for pair in &all {
        assert_eq!(verify(&keys, &signed(pair, &claims())), Ok(Claims { subject: "anna".into() }));
        let many = changed("aud", json!(["other", "pollux"]));
        assert!(verify(&keys, &signed(pair, &many)).is_ok());
        // Without a key's name, the only key for the algorithm is used.
        let token = jwt::sign(&claims(), &pair.pem, None).unwrap();
        assert!(verify(&keys, token.reveal()).is_ok());
    }
}

#[test]
fn what_a_token_says_must_be_right() {
    let pair = p256("ec");
    let keys = set(&[&pair]);
    for (key, value, error) in [
        ("exp", json!(NOW - 60), TokenError::Expired),
        ("exp", json!(null), TokenError::Malformed),
        ("exp", json!("never"), TokenError::Malformed),
        ("nbf", json!(NOW + 61), TokenError::NotYet),
        ("nbf", json!("now"), TokenError::Malformed),
        ("iss", json!("https://issuer.example/"), TokenError::Issuer),
        ("iss", json!("https://evil.example"), TokenError::Issuer),
        ("iss", json!([ISSUER]), TokenError::Issuer),
        ("aud", json!("other"), TokenError::Audience),
        ("aud", json!(["other"]), TokenError::Audience),
        ("aud", json!({"pollux": true}), TokenError::Audience),
        ("sub", json!(""), TokenError::Subject),
        ("sub", json!(7), TokenError::Subject),
    ] {
        assert_eq!(verify(&keys, &signed(&pair, &changed(key, value.clone()))), Err(error), "{key} {value}");
    }
    for (key, value) in [("exp", json!(NOW - 59)), ("nbf", json!(NOW + 60)), ("exp", json!(NOW as f64 + 0.5))]
    {
        assert!(verify(&keys, &signed(&pair, &changed(key, value.clone()))).is_ok(), "{key} {value}: leeway");
    }
}

#[test]
fn a_token_cannot_choose_how_it_is_checked() {
    let (ec, rsa) = (p256("ec"), rsa("rsa"));
    let keys = set(&[&ec, &rsa]);
    let with_header = |header: Value, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let text =
            format!("{}.{}", text(header.to_string().as_bytes()), text(claims().to_string().as_bytes()));
        format!("{text}.{}", self::text(&sign(text.as_bytes())))
    };
    let nothing = |_: &[u8]| Vec::new();
    for algorithm in ["none", "None", "NONE", "", "HS256", "HS512", "RS512", "ES384"] {
        let token = with_header(json!({"alg": algorithm, "kid": "rsa"}), &nothing);
        assert_eq!(verify(&keys, &token), Err(TokenError::Algorithm), "{algorithm}");
    }
    assert_eq!(verify(&keys, &with_header(json!({"kid": "rsa"}), &nothing)), Err(TokenError::Algorithm));
    // The public key as a shared secret, in the forms in which it is published.
    let modulus = URL_SAFE_NO_PAD.decode(rsa.public["n"].as_str().unwrap()).unwrap();
    for secret in [rsa.public.to_string().into_bytes(), modulus, ec.public.to_string().into_bytes()] {
        let mac =
            |text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text).as_ref().to_vec();
        let token = with_header(json!({"alg": "HS256", "kid": "rsa"}), &mac);
        assert_eq!(verify(&keys, &token), Err(TokenError::Algorithm));
    }
    // The algorithm of another key.
    let token = with_header(json!({"alg": "ES256", "kid": "rsa"}), &|_| vec![0; 64]);
    assert_eq!(verify(&keys, &token), Err(TokenError::Algorithm));
    let token =
        with_header(json!({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false}), &|_| vec![0; 64]);
    assert_eq!(verify(&keys, &token), Err(TokenError::Algorithm));
    // A key inside the token itself.
    let own = p256("own");
    let token = with_header(json!({"alg": "ES256", "kid": "own", "jwk": own.public}), &|_| vec![0; 64]);
    assert_eq!(verify(&keys, &token), Err(TokenError::UnknownKey));
}

#[test]
fn changed_and_malformed_tokens_are_refused() {
    let (pair, other) = (p256("ec"), p256("ec"));
    let keys = set(&[&pair]);
    let token = signed(&pair, &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let forged = text(changed("sub", json!("ben")).to_string().as_bytes());
    assert_eq!(verify(&keys, &[parts[0], &forged, parts[2]].join(".")), Err(TokenError::Signature));
    assert_eq!(verify(&keys, &signed(&other, &claims())), Err(TokenError::Signature));
    assert_eq!(verify(&keys, &[parts[0], parts[1], ""].join(".")), Err(TokenError::Signature));
    for wrong in
        ["", "a", "a.b", "a.b.c", "..", "é.é.é", &[parts[0], parts[1]].join("."), &"a".repeat(20_000)]
    {
        let refused = verify(&keys, wrong).unwrap_err();
        assert!(matches!(refused, TokenError::Malformed | TokenError::Algorithm), "{wrong}: {refused:?}");
    }
    assert!(verify(&keys, &format!("{token}.x")).is_err());
}

#[test]
fn keys_for_other_purposes_are_left_out() {
    let pair = p256("ec");
    let with = |key: &str, value: Value| {
        let mut public = pair.public.clone();
        public[key] = value;
        KeySet::read(&json!({"keys": [public]})).is_empty()
    };
    assert!(!with("key_ops", json!(["verify"])));
    for (key, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("alg", json!("RS256")),
        ("kty", json!("oct")),
        ("crv", json!("P-384")),
        ("x", json!("AA")),
        ("x", json!("not base64!")),
    ] {
        assert!(with(key, value.clone()), "{key} {value}");
    }
    for wrong in [json!(null), json!({"keys": {}}), json!({"keys": [1, null, {}]})] {
        assert!(KeySet::read(&wrong).is_empty());
    }
}

/// An issuer whose keys can be replaced.
struct Issuer {
    http: FakeHttp,
    keys: Arc<Mutex<Value>>,
    clock: Arc<TestClock>,
}

fn issuer(pair: &Pair, named: Option<&'static str>) -> Issuer {
    let keys = Arc::new(Mutex::new(set(&[pair])));
    let published = Arc::clone(&keys);
    let http = FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/.well-known/openid-configuration" => {
            HttpAnswer::json(&json!({"issuer": named.unwrap_or(url), "jwks_uri": format!("{url}/keys")}))
        }
        "/keys" => HttpAnswer::json(&published.lock().unwrap()),
        _ => HttpAnswer::status(404),
    });
    Issuer { http, keys, clock: Arc::new(TestClock(AtomicI64::new(NOW * 1000))) }
}

impl Issuer {
    fn verifier(&self, source: KeySource) -> TokenVerifier {
        let rules = TokenRules { issuer: self.http.url(), audience: "pollux".into() };
        let http = client(&ClientOptions::new("test")).unwrap();
        TokenVerifier::new(rules, source, http, Arc::clone(&self.clock) as Arc<dyn Clock>).unwrap()
    }

    fn token(&self, pair: &Pair) -> String {
        let mut claims = changed("iss", json!(self.http.url()));
        claims["exp"] = json!(NOW + 1_000_000);
        signed(pair, &claims)
    }

    fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    fn replace(&self, pair: &Pair) {
        *self.keys.lock().unwrap() = set(&[pair]);
    }

    fn fetches(&self) -> usize {
        self.http.requests_to("/keys").len()
    }
}

#[tokio::test]
async fn keys_are_found_kept_and_read_again_once_a_minute_for_an_unknown_one() {
    let (first, second) = (p256("first"), ed25519("second"));
    let issuer = issuer(&first, None);
    let verifier = issuer.verifier(KeySource::Discovery);
    for _ in 0..3 {
        assert!(verifier.verify(&issuer.token(&first)).await.is_ok());
    }
    assert_eq!(issuer.fetches(), 1);
    issuer.replace(&second);
    for _ in 0..3 {
        assert_eq!(verifier.verify(&issuer.token(&second)).await, Err(TokenError::UnknownKey));
    }
    assert_eq!(issuer.fetches(), 1, "a minute has not passed");
    issuer.pass(61);
    assert!(verifier.verify(&issuer.token(&second)).await.is_ok());
    assert_eq!(issuer.fetches(), 2);
    assert_eq!(verifier.verify(&issuer.token(&first)).await, Err(TokenError::UnknownKey), "it was withdrawn");
}

#[tokio::test]
async fn a_withdrawn_key_counts_for_an_hour_and_an_issuer_may_be_away() {
    let (first, second) = (p256("first"), p256("second"));
    let issuer = issuer(&first, None);
    let verifier = issuer.verifier(KeySource::Url(format!("{}/keys", issuer.http.url())));
    assert!(verifier.verify(&issuer.token(&first)).await.is_ok());
    *issuer.keys.lock().unwrap() = json!({"keys": []});
    issuer.pass(3_600);
    assert!(verifier.verify(&issuer.token(&first)).await.is_ok(), "no keys are no answer");
    issuer.pass(60);
    issuer.replace(&second);
    assert!(verifier.verify(&issuer.token(&first)).await.is_err());
    assert!(verifier.verify(&issuer.token(&second)).await.is_ok());
    *issuer.keys.lock().unwrap() = json!({"keys": []});
    issuer.pass(24 * 3_600);
    assert_eq!(verifier.verify(&issuer.token(&second)).await, Err(TokenError::UnknownKey));
}

#[tokio::test]
async fn an_issuer_that_says_it_is_another_is_not_believed() {
    let pair = p256("first");
    let issuer = issuer(&pair, Some("https://issuer.example"));
    let verifier = issuer.verifier(KeySource::Discovery);
    assert!(matches!(verifier.refresh().await, Err(KeysError::OtherIssuer { .. })));
    assert!(verifier.verify(&issuer.token(&pair)).await.is_err());
    assert_eq!(issuer.fetches(), 0);
}

#[tokio::test]
async fn keys_may_be_in_a_file() {
    let pair = rsa("first");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys.json");
    let issuer = issuer(&pair, None);
    let verifier = issuer.verifier(KeySource::File(file.clone()));
    let error = verifier.refresh().await.unwrap_err();
    assert!(error.to_string().contains("keys.json"), "{error}");
    tokio::fs::write(&file, set(&[&pair]).to_string()).await.unwrap();
    issuer.pass(61);
    assert!(verifier.verify(&issuer.token(&pair)).await.is_ok());
    assert_eq!(issuer.fetches(), 0);
}

#[test]
fn keys_are_not_read_over_plain_http_from_other_machines() {
    let http = client(&ClientOptions::new("test")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(TestClock(AtomicI64::new(0)));
    for (issuer, url, is_usable) in [
        ("https://issuer.example", "https://issuer.example/keys", true),
        ("http://127.0.0.1:1", "http://localhost:1/keys", true),
        ("http://issuer.example", "https://issuer.example/keys", false),
        ("https://issuer.example", "http://issuer.example/keys", false),
        ("https://issuer.example", "http://10.0.0.1/keys", false),
        ("issuer.example", "https://issuer.example/keys", false),
        ("file:///etc/passwd", "https://issuer.example/keys", false),
    ] {
        let rules = TokenRules { issuer: issuer.into(), audience: "a".into() };
        let source = KeySource::Url(url.into());
        let made = TokenVerifier::new(rules, source, http.clone(), Arc::clone(&clock));
        assert_eq!(made.is_ok(), is_usable, "{issuer} {url}");
    }
}
