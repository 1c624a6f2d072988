#![expect(clippy::string_slice, reason = "a wrong cut fails the test")]

use super::*;
use proptest::prelude::*;

const GOOGLE: &str = "AIzaSyA1234567890abcdefghijklmnopqrstuv";
const GITHUB: &str = "ghp_1234567890abcdefghijklmnopqrstuvwxyz";

#[test]
fn secrets_are_known_by_their_format() {
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----";
    let cases = [
        (GOOGLE.to_owned(), MASK.to_owned()),
        (format!("curl 'x?key={GOOGLE}&alt=sse'"), "curl 'x?key=***&alt=sse'".to_owned()),
        (
            format!("git clone https://{GITHUB}@github.com/a/b"),
            "git clone https://***@github.com/a/b".to_owned(),
        ),
        ("psql postgres://me:hunter2@db:5432/x".to_owned(), "psql postgres://me:***@db:5432/x".to_owned()),
        ("sk-ant-api03-abcdefghijklmnop".to_owned(), MASK.to_owned()),
        ("AKIAIOSFODNN7EXAMPLE!".to_owned(), "***!".to_owned()),
        ("eyJhbGci.eyJzdWIi.c2lnbmF0dXJl".to_owned(), MASK.to_owned()),
        (format!("echo '{pem}' | ssh-add -"), "echo '***' | ssh-add -".to_owned()),
        ("x -----BEGIN PRIVATE KEY-----\nnever closed".to_owned(), "x ***".to_owned()),
        ("ä sk_live_abcdefgh12345678 ö".to_owned(), "ä *** ö".to_owned()),
    ];
    for (given, expected) in &cases {
        assert_eq!(redacted(given), expected.as_str(), "{given}");
        assert!(holds_secret(given), "{given}");
    }
}

#[test]
fn secrets_are_known_by_their_name() {
    let cases = [
        ("mysql --password hunter2 db", "mysql --password *** db"),
        ("tool --api-key=abc --x", "tool --api-key=*** --x"),
        ("FOO_PASSWORD=x y", "FOO_PASSWORD=*** y"),
        ("curl -H 'Authorization: Bearer abc.def' u", "curl -H 'Authorization: Bearer ***' u"),
        ("curl -H \"X-Api-Key: a1b2c3\" u", "curl -H \"X-Api-Key: ***\" u"),
        ("u?access_token=abc&x=1", "u?access_token=***&x=1"),
        (r#"{"clientSecret": "s p", "n": 1}"#, r#"{"clientSecret": "***", "n": 1}"#),
        (r#"-d "{\"password\": \"p\"}""#, r#"-d "{\"password\": \"***\"}""#),
        ("password: hunter2", "password: ***"),
    ];
    for (given, expected) in cases {
        assert_eq!(redacted(given), expected, "{given}");
    }
}

#[test]
fn values_that_look_like_chance_are_secrets_behind_telling_names() {
    for (given, expected) in [
        ("ENCRYPTION_KEY=9f86d081884c7d659a2feaa0c55ad015", "ENCRYPTION_KEY=***"),
        ("SECRET_KEY_BASE: 'a8Zk29xQ0fjE71mvB3tLp'", "SECRET_KEY_BASE: '***'"),
        ("AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==;x", "AccountKey=***;x"),
        ("DB_PASS=hunter2", "DB_PASS=***"),
        ("send `bearer a1b2c3d4e5f6g7h8` along", "send `bearer ***` along"),
        (
            "https://hooks.slack.com/services/T00000000/B00000000/XXXX1234",
            "https://hooks.slack.com/services/***",
        ),
        ("SG.abcdefgh1234567890.ABCDEFGH1234567890", "***"),
    ] {
        assert_eq!(redacted(given), expected, "{given}");
    }
    for text in [
        "cache_key: user-profile-of-somebody",
        "public_key=9f86d081884c7d659a2feaa0c55ad015",
        "bypass=1",
        "key = \"primary\"",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn text_without_secrets_stays_unchanged() {
    for text in [
        "ls -la src",
        "max_tokens=100",
        "echo $GITHUB_TOKEN --token $TOKEN token=${X}",
        "unexpected token: identifier",
        "if token == other { password = read_password() }",
        "https://user@example.org/a:b@c",
        "sk-loading-indicator-with-many-words",
        "AKIA",
        "-----BEGIN PUBLIC KEY-----\nx",
        "git show HEAD~1:src/token.rs",
        "",
    ] {
        assert_eq!(redacted(text), text);
    }
    assert!(!holds_secret("token=abc"));
}

#[test]
fn values_lose_secrets_at_every_depth() {
    let mut value = serde_json::json!({
        "env": [{"API_KEY": "x", "note": format!("uses {GOOGLE}")}], "token": "", "n": 1
    });
    redact_value(&mut value);
    assert_eq!(
        value,
        serde_json::json!({"env": [{"API_KEY": "***", "note": "uses ***"}], "token": "", "n": 1})
    );
}

proptest! {
    #[test]
    fn everything_but_the_secrets_stays(text in "(?s)([a-z =:/@\"'\\\\-]|token|password|://|eyJ|sk-|-----BEGIN |PRIVATE KEY|é|[0-9]{8}){0,60}") {
        let clean = redacted(&text);
        let mut rest = text.as_str();
        for part in clean.split(MASK) {
            let found = rest.find(part);
            prop_assert!(found.is_some(), "{clean:?}");
            rest = &rest[found.unwrap() + part.len()..];
        }
    }

    #[test]
    fn a_key_never_stays_whatever_stands_around_it(before in "[ =:'\"/(,é]{0,4}", after in "[ '\"),&é\n]{0,4}") {
        let text = format!("{before}{GITHUB}{after}");
        prop_assert!(!redacted(&text).contains("1234567890"), "{text}");
    }
}
