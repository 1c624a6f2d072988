//! Tests of how entries are read.

use serde_json::json;

use super::*;

fn kind(entry: &Value) -> String {
    match ServerConfig::parse("s", entry).map(|config| config.link) {
        Ok(Link::Stdio { command, args, .. }) => format!("stdio {command} {}", args.join(" ")),
        Ok(Link::Http { url, or_sse, .. }) => format!("http {url} {or_sse}"),
        Ok(Link::Sse { url, .. }) => format!("sse {url}"),
        Ok(Link::Client(_)) => "client".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_transport_follows_from_the_keys() {
    for (entry, expected) in [
        (json!({"command": "npx", "args": ["-y", "x"]}), "stdio npx -y x"),
        (json!({"command": "srv", "type": "stdio"}), "stdio srv "),
        (json!({"url": "https://e/mcp"}), "http https://e/mcp true"),
        (json!({"url": "https://e/mcp", "type": "http"}), "http https://e/mcp false"),
        (json!({"url": "http://e/sse", "type": "sse"}), "sse http://e/sse"),
        (json!({"httpUrl": "http://a/", "url": "http://b/", "command": "c"}), "http http://a/ false"),
        (json!({"url": "ftp://e"}), "`ftp://e` is not an http:// or https:// URL"),
        (json!({"url": "http://e", "type": "ws"}), "invalid `type` `ws` (expected `stdio`, `http` or `sse`)"),
        (json!({"command": ["x"]}), "`command` must be a string"),
        (json!({"command": "x", "args": "y"}), "`args` must be a list of strings"),
        (json!({"command": "x", "env": {"A": []}}), "`env.A` must be a string"),
        (json!("x"), "`s` must be an object"),
    ] {
        assert_eq!(kind(&entry), expected, "{entry}");
    }
    let overlay = ServerConfig::parse("s", &json!({"includeTools": ["a"]})).unwrap_err();
    assert_eq!(overlay, ConfigError::NoTransport);
}

#[test]
fn excluded_tools_stay_out_and_included_names_may_carry_arguments() {
    let entry = json!({"command": "x", "includeTools": ["a", "b(x)", "c"], "excludeTools": ["c"]});
    let config = ServerConfig::parse("s", &entry).unwrap();
    let through: Vec<&str> =
        ["a", "b", "c", "d", "ab"].into_iter().filter(|tool| config.lets_through(tool)).collect();
    assert_eq!(through, ["a", "b"]);
}

#[test]
fn a_process_sees_what_its_entry_gives_it_and_no_other_secret() {
    let vars =
        [("PATH", "/bin"), ("MY_AUTH", "x"), ("GITHUB_TOKEN", "t"), ("EDITOR", "vi"), ("GEMINI_CLI", "0")];
    let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
    let entry =
        json!({"command": "x", "env": {"EDITOR": "ed", "API_KEY": "pa$$word", "GONE": "${MISSING}", "N": 3}});
    let Link::Stdio { env: own, .. } = ServerConfig::parse("s", &entry).unwrap().link else { panic!() };
    let mut seen = child_environment(&env, &Redaction::default(), &own);
    seen.sort();
    let seen: Vec<String> = seen.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(seen, ["API_KEY=pa$$word", "EDITOR=ed", "GEMINI_CLI=1", "GONE=", "N=3", "PATH=/bin"]);
}

#[test]
fn the_oauth_block_says_who_signs_in_and_how() {
    let read = |oauth: Value| {
        ServerConfig::parse("s", &json!({"url": "https://e", "oauth": oauth})).map(|config| config.auth.oauth)
    };
    assert_eq!(read(json!({})).unwrap(), OAuthConfig::default());
    let program = json!({"grantType": "client_credentials", "clientId": "c", "clientSecret": "$UNSET_SECRET",
        "privateKeyFile": "/etc/key.pem", "keyId": "k"});
    let program = read(program).unwrap();
    assert!(program.grant.is_unattended() && program.client_secret.is_none());
    assert_eq!(
        (program.key_id.as_deref(), program.private_key_file),
        (Some("k"), Some("/etc/key.pem".into()))
    );
    let vouched = json!({"grantType": "cross_app_access",
        "identityProvider": {"issuer": "https://idp", "clientId": "c", "idToken": "eyJ"}});
    let provider = read(vouched).unwrap().identity_provider.unwrap();
    assert_eq!(
        (provider.issuer.as_deref(), provider.id_token),
        (Some("https://idp"), Some(Secret::new("eyJ")))
    );
    for (bad, expected) in [
        (json!({"grantType": "password"}), "invalid `oauth.grantType` `password`"),
        (json!({"privateKeyFile": "key.pem"}), "`privateKeyFile` must be an absolute path"),
        (json!({"identityProvider": "x"}), "`identityProvider` must be an object"),
    ] {
        let error = read(bad).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn debug_output_contains_no_secrets() {
    let entry = json!({"url": "http://e", "headers": {"Authorization": "Bearer tops3cret"}, "oauth": {"clientSecret": "hush1234"}});
    let config = ServerConfig::parse("s", &entry).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("tops3cret") && !shown.contains("hush1234"), "{shown}");
    assert!(config.secrets().contains(&"tops3cret".to_owned()));
}

#[test]
fn a_type_that_does_not_fit_the_other_keys_is_named() {
    for (entry, expected) in [
        (json!({"url": "http://e", "type": "stdio"}), "`type: stdio` needs `command`"),
        (json!({"httpUrl": "http://e", "type": "stdio"}), "`type: stdio` needs `command`"),
        (json!({"type": "stdio"}), "`type: stdio` needs `command`"),
        (json!({"command": " ", "type": "stdio"}), "`type: stdio` needs `command`"),
        (json!({"command": "x", "type": "http"}), "`type: http` needs `url`"),
        (json!({"command": "x", "type": "sse"}), "`type: sse` needs `url`"),
        (json!({"type": "sse"}), "`type: sse` needs `url`"),
        (json!({"httpUrl": "http://e", "type": "sse"}), "`type: sse` needs `url`"),
        (
            json!({"url": "http://e", "command": "x", "type": "stdio"}),
            "`type: stdio` cannot be combined with `url`",
        ),
        (json!({"command": "x", "type": "ws"}), "invalid `type` `ws` (expected `stdio`, `http` or `sse`)"),
        (json!({"httpUrl": "http://e/", "type": "http"}), "http http://e/ false"),
    ] {
        assert_eq!(kind(&entry), expected, "{entry}");
    }
}

#[test]
fn whole_numbers_in_other_spellings_are_timeouts() {
    let read = |timeout: Value| {
        ServerConfig::parse("s", &json!({"command": "x", "timeout": timeout})).map(|config| config.timeout)
    };
    for timeout in [json!(30_000), json!(30_000.0), json!("30000"), json!(" 3e4 ")] {
        assert_eq!(read(timeout.clone()), Ok(Duration::from_secs(30)), "{timeout}");
    }
    for timeout in [json!(1.5), json!(-1), json!("-1"), json!("30s"), json!(""), json!(true), json!(1e300)] {
        let error = read(timeout.clone()).unwrap_err().to_string();
        assert_eq!(error, "`timeout` must be a whole number of milliseconds", "{timeout}");
    }
}

#[test]
fn a_header_that_is_only_an_unset_variable_is_not_sent() {
    let entry = json!({"url": "http://e", "headers": {
        "X-Y": "$UNSET", "X-Z": "${UNSET}", "Authorization": "Bearer $UNSET", "X-Price": "costs $UNSET",
        "X-Set": "pa$$word", "X-Number": 3,
    }});
    let Link::Http { headers, .. } = ServerConfig::parse("s", &entry).unwrap().link else { panic!() };
    let sent: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.reveal())).collect();
    assert_eq!(sent, ["X-Price: costs $UNSET", "X-Set: pa$$word", "X-Number: 3"]);
    let unset = ServerConfig::unset_headers(&entry);
    let unset: Vec<_> = unset.iter().map(|header| (header.name.as_str(), header.variable.as_str())).collect();
    assert_eq!(unset, [("X-Y", "$UNSET"), ("X-Z", "${UNSET}"), ("Authorization", "$UNSET")]);
}
