//! A server for other machines: certificates, access tokens and webhooks as operators set them up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pollux_test_support::{FakeHttp, HttpAnswer, reply};
use serde_json::{Value, json};

use crate::server::{Stage, message};

const PYTHON: &str = "/usr/bin/python3";
/// The public half of a key, and tokens that were signed with it: one that ends in the year 2096, and one that has ended.
const KEYS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "first", "x": "uEL3mADRkGd54a89nPxZtMZXfQsJBnjdwiPsnqGGBbk", "y": "ICRgc-4OCtlTVhOHQlETF4U7zXgqqRB-RlRiawRc4uI"}]}"#;
const VALID: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImZpcnN0In0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjoicG9sbHV4Iiwic3ViIjoiYW5uYSIsImV4cCI6NDAwMDAwMDAwMH0.BDyPIq8Ao2DqMdi9iSx5cXcvxQ5LPnjSCQud-96YjWo8TnniqtSCP33QhPR25enTxbKbDZJfKzQDM_RFQQkxmg";
const EXPIRED: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImZpcnN0In0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjoicG9sbHV4Iiwic3ViIjoiYW5uYSIsImV4cCI6MTAwMH0.4Z2ioTPzgXAzK84Yg3xO87oqhVygSvgAjWOfQOxCD-T3H4c3IDNcJfXPjnGWTopUQJz8JoJyzehUFfo_pH2BMg";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/tests/fixtures")
}

/// Certificate and key in the home of a stage.
fn install(stage: &Stage, name: &str, mode: u32) -> [String; 2] {
    ["pem", "key"].map(|kind| {
        let place = stage.home.home().join(format!("server.{kind}"));
        let _ = fs::remove_file(&place);
        fs::copy(fixtures().join(format!("{name}.{kind}")), &place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        place.to_str().unwrap().to_owned()
    })
}

/// Gets the card over TLS and prints the name of the certificate, and the address that the card names.
const ASK: &str = "
import json, socket, ssl, sys, urllib.request
port, authority = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=authority)
with context.wrap_socket(socket.create_connection(('127.0.0.1', port)), server_hostname='localhost') as stream:
    print(dict(field[0] for field in stream.getpeercert()['subject'])['commonName'])
card = urllib.request.urlopen(f'https://localhost:{port}/.well-known/agent-card.json', context=context)
print(json.load(card)['url'])
";

fn ask(port: u16) -> String {
    let authority = fixtures().join("authority.pem");
    let args = ["-c", ASK, &port.to_string(), authority.to_str().unwrap()];
    let asked = std::process::Command::new(PYTHON).args(args).env_remove("HTTPS_PROXY").output().unwrap();
    assert!(asked.status.success(), "{asked:?}");
    String::from_utf8_lossy(&asked.stdout).into_owned()
}

#[test]
fn a_server_with_a_certificate_serves_other_machines_and_reads_a_new_one() {
    let stage = Stage::new([]);
    let [certificate, key] = install(&stage, "first", 0o644);
    let flags = ["--host", "0.0.0.0", "--tls-cert", &certificate, "--tls-key", &key];
    let said = stage.try_serve(&flags).err().unwrap();
    assert!(said.contains("no token is set"), "{said}");
    let tokens = stage.home.home().join("tokens");
    fs::write(&tokens, "anna anna-token-0123456789\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let flags = [&flags[..], &["--token-file", tokens.to_str().unwrap()]].concat();
    let said = stage.try_serve(&flags).err().unwrap();
    assert!(said.contains("other users can read it") && said.contains("chmod 600"), "{said}");
    install(&stage, "first", 0o600);
    let server = stage.serve(&flags);
    if !Path::new(PYTHON).exists() {
        return eprintln!("skipped: no {PYTHON}");
    }
    assert!(ask(server.port).starts_with("first\nhttps://"), "{}", ask(server.port));
    install(&stage, "second", 0o600);
    server.until_said("the certificate was read again");
    assert!(ask(server.port).starts_with("second\n"));
}

#[test]
fn access_tokens_of_an_issuer_are_accepted() {
    let stage = Stage::new([reply().text("ok")]);
    let (keys, log) = (stage.home.home().join("keys.json"), stage.home.home().join("audit.jsonl"));
    fs::write(&keys, KEYS).unwrap();
    let half = stage.try_serve(&["--oidc-issuer", "https://issuer.example"]).err().unwrap();
    assert!(half.contains("the audience is missing"), "{half}");
    let settings = json!({"a2a": {"auth": {"issuer": "https://issuer.example", "jwks": keys}}});
    fs::create_dir_all(stage.home.home().join(".gemini")).unwrap();
    fs::write(stage.home.home().join(".gemini/settings.json"), settings.to_string()).unwrap();
    let flags = ["--oidc-audience", "pollux", "--audit-log", log.to_str().unwrap()];
    let mut server = stage.serve(&flags);
    for (token, status) in [(None, 401), (Some(EXPIRED), 401), (Some("a.b.c"), 401), (Some(VALID), 200)] {
        server.token = token.map(str::to_owned);
        assert_eq!(server.get("/tasks").status, status, "{token:?}");
    }
    let task = server.rpc("message/send", message("hi"))["result"].clone();
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let card = server.get("/.well-known/agent-card.json").json();
    let scheme = &card["securitySchemes"]["openIdConnect"];
    assert_eq!(scheme["openIdConnectUrl"], "https://issuer.example/.well-known/openid-configuration");
    assert_eq!(card["security"], json!([{"openIdConnect": []}]));
    let lines = fs::read_to_string(&log).unwrap();
    let line: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&line["subject"], &line["result"]), (&json!("anna"), &json!("ok")));
    assert!(line["owner"].as_str().unwrap().starts_with("oidc-"), "{line}");
}

#[test]
fn webhooks_are_called_where_the_operator_allows_them() {
    let stage = Stage::new([reply().text("ok"), reply().text("ok")]);
    let hook = FakeHttp::start(|_| HttpAnswer::status(200));
    let with_webhook = || {
        let mut params = message("hi");
        params["configuration"] = json!({"pushNotificationConfig": {"url": hook.url(), "token": "t"}});
        params
    };
    let server = stage.serve(&[]);
    assert_eq!(server.rpc("message/send", with_webhook())["error"]["code"], -32003);
    drop(server);
    let server = stage.serve(&["--push"]);
    assert_eq!(server.rpc("message/send", with_webhook())["error"]["code"], -32602);
    drop(server);
    let settings = json!({"a2a": {"push": true, "pushHosts": ["127.0.0.1"]}});
    fs::create_dir_all(stage.home.home().join(".gemini")).unwrap();
    fs::write(stage.home.home().join(".gemini/settings.json"), settings.to_string()).unwrap();
    let store = format!("file:{}", stage.home.home().join("store").display());
    let server = stage.serve(&["--store", &store]);
    assert_eq!(server.get("/.well-known/agent-card.json").json()["capabilities"]["pushNotifications"], true);
    let id = server.rpc("message/send", with_webhook())["result"]["id"].clone();
    let end = Instant::now() + Duration::from_secs(120);
    while hook.requests().len() < 3 {
        assert!(Instant::now() < end, "{:?}", hook.requests());
        std::thread::sleep(Duration::from_millis(20));
    }
    let states: Vec<Value> =
        hook.requests().iter().map(|request| request.json()["status"]["state"].clone()).collect();
    assert_eq!(states, ["submitted", "working", "input-required"]);
    let key = stage.home.home().join(".gemini/a2a-server-key");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let path = format!("/tasks/{}/pushNotificationConfigs", id.as_str().unwrap());
    let listed = server.get(&path).json();
    assert_eq!(listed["configs"][0]["url"], hook.url() + "/");
    let one = format!("{path}/{}", listed["configs"][0]["id"].as_str().unwrap());
    assert_eq!(server.get(&one).json()["taskId"], id);
    assert_eq!(server.request("DELETE", &one, &[], None).status, 200);
    assert_eq!(server.get(&one).status, 404);
    let created = server.post(&path, &json!({"id": "mine", "url": hook.url()})).json();
    assert_eq!((&created["id"], &created["taskId"]), (&json!("mine"), &id));
    let old = server.get(&format!("/v1{path}/mine")).json();
    assert_eq!(old["pushNotificationConfig"]["id"], "mine");
}

#[test]
fn a_signed_card_names_its_key() {
    let stage = Stage::new([]);
    let [_, key] = install(&stage, "first", 0o600);
    let server = stage.serve(&["--signing-key", &key]);
    let card = server.get("/.well-known/agent-card.json");
    let (tag, card) = (card.header("etag").map(str::to_owned), card.json());
    assert!(card["signatures"][0]["signature"].as_str().unwrap().len() > 80, "{card}");
    assert_eq!(
        server.get("/.well-known/agent-card.json").header("etag"),
        tag.as_deref(),
        "it stays the same"
    );
    let keys = server.get("/.well-known/jwks.json").json();
    assert_eq!((&keys["keys"][0]["crv"], keys["keys"][0].get("d")), (&json!("P-256"), None));
    assert_eq!(stage.serve(&[]).get("/.well-known/jwks.json").status, 404);
}
