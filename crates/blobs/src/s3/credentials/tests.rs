use std::sync::atomic::{AtomicI64, Ordering};

use pollux_net::client::{ClientOptions, client};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::json;

use super::*;

struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Scene {
    home: tempfile::TempDir,
    clock: Arc<SetClock>,
}

impl Scene {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), clock: Arc::new(SetClock(AtomicI64::new(0))) }
    }

    fn chain(&self, variables: &[(&str, &str)], profile: Option<&str>) -> AwsCredentials {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env = Env::new(variables, self.home.path().to_owned());
        let http = client(&ClientOptions::new("test")).unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        AwsCredentials::new(env, self.home.path().to_owned(), profile.map(str::to_owned), http, clock)
    }

    fn file(&self, text: &str) {
        let path = self.home.path().join(".aws/credentials");
        files::replace(&path, text.as_bytes(), files::Mode::Private).unwrap();
    }
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "V"), ("AWS_SECRET_ACCESS_KEY", "vs")];
const FILE: &str = "[default]\naws_access_key_id=D\naws_secret_access_key=ds\n\
                    [work]\naws_access_key_id=W\naws_secret_access_key=ws\n";
const NO_METADATA: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "true");

fn answer(id: &str, end: i64) -> HttpAnswer {
    HttpAnswer::json(&json!({"AccessKeyId": id, "SecretAccessKey": "s", "Token": "t",
                             "Expiration": Timestamp::from_millis(end).to_iso()}))
}

#[tokio::test]
async fn variables_come_before_files_unless_the_address_names_a_profile() {
    let scene = Scene::new();
    scene.file(FILE);
    let work = [KEYS[0], KEYS[1], ("AWS_PROFILE", "work")];
    let cases = [
        (&KEYS[..], None, "V"),
        (&work, None, "V"),
        (&KEYS, Some("work"), "W"),
        (&[("AWS_PROFILE", "work")], None, "W"),
        (&[], None, "D"),
    ];
    for (variables, profile, expected) in cases {
        assert_eq!(scene.chain(variables, profile).keys().await.unwrap().id, expected, "{variables:?}");
    }
    let missing = scene.chain(&[], Some("other")).keys().await.unwrap_err();
    assert!(missing.message.contains("no profile `other`"), "{missing:?}");
    scene.file("[default]\nrole_arn = arn:x\n");
    let unsupported = scene.chain(&[NO_METADATA], None).keys().await.unwrap_err();
    assert!(unsupported.message.contains("role_arn"), "{unsupported:?}");
}

#[tokio::test]
async fn a_container_is_asked_with_its_token_and_again_before_the_keys_end() {
    let scene = Scene::new();
    let server = FakeHttp::start(|_| answer("C", 3_600_000));
    let url = format!("{}/creds", server.url());
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"),
    ];
    let chain = scene.chain(&variables, None);
    let keys = chain.keys().await.unwrap();
    assert_eq!((keys.id.as_str(), keys.token.as_ref().unwrap().reveal()), ("C", "t"));
    chain.keys().await.unwrap();
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.requests()[0].header("authorization"), Some("container-token"));
    scene.clock.0.store(3_600_000 - MARGIN, Ordering::SeqCst);
    chain.keys().await.unwrap();
    chain.discard(&keys).await;
    chain.keys().await.unwrap();
    assert_eq!(server.requests().len(), 3);
    for far in ["http://example.com/creds", "http://169.254.169.254/", "nonsense"] {
        let variables = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", far)];
        let error = scene.chain(&variables, None).keys().await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Denied, "{far}");
    }
}

#[tokio::test]
async fn a_machine_is_asked_for_a_token_its_role_and_its_keys() {
    let scene = Scene::new();
    let server = FakeHttp::start(|request| match (request.method.as_str(), request.path.as_str()) {
        ("PUT", "/latest/api/token") => HttpAnswer::status(200).body("imds-token"),
        (_, _) if request.header("x-aws-ec2-metadata-token") != Some("imds-token") => HttpAnswer::status(401),
        (_, "/latest/meta-data/iam/security-credentials/") => HttpAnswer::status(200).body("role-1\n"),
        (_, "/latest/meta-data/iam/security-credentials/role-1") => answer("M", 7_200_000),
        _ => HttpAnswer::status(404),
    });
    let url = server.url();
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    assert_eq!(scene.chain(&variables, None).keys().await.unwrap().id, "M");
    let off = [variables[0], NO_METADATA];
    let error = scene.chain(&off, None).keys().await.unwrap_err();
    assert!(error.message.contains("AWS_ACCESS_KEY_ID"), "{error:?}");
    assert_eq!(server.requests().len(), 3);
}
