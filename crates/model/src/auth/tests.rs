use std::path::PathBuf;

use super::*;

const SETTINGS: &str = "/home/me/.gemini/settings.json";

fn env(pairs: &[(&str, &str)]) -> Env {
    Env::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), PathBuf::new())
}

fn selected(kind: &str) -> Security {
    Security { auth_selected: Some(kind.into()), ..Security::default() }
}

fn enforced(kind: &str) -> Security {
    Security { auth_enforced: Some(kind.into()), ..Security::default() }
}

fn pick(vars: &[(&str, &str)], security: &Security, stored: Option<&str>) -> Result<Auth, AuthError> {
    choose(&env(vars), security, || Ok(stored.map(Secret::new)), Path::new(SETTINGS))
}

/// What was chosen, as `kind key url`, or the error's text.
fn outcome(vars: &[(&str, &str)], security: &Security, stored: Option<&str>) -> String {
    match pick(vars, security, stored) {
        Ok(auth) => format!(
            "{} {:?} {}",
            auth.kind.as_str(),
            auth.key.reveal(),
            auth.base_url.as_deref().unwrap_or("google")
        ),
        Err(error) => error.to_string(),
    }
}

/// Variables, settings, stored key, and what is chosen.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a Security, Option<&'a str>, &'a str);

#[test]
fn the_environment_decides_when_the_settings_do_not() {
    let none = Security::default();
    let url = ("GOOGLE_GEMINI_BASE_URL", "http://gw");
    let in_settings = Security { api_key: Some(Secret::new("last")), ..Security::default() };
    let cases: &[Case<'_>] = &[
        (&[("GEMINI_API_KEY", "k")], &none, Some("s"), "gemini-api-key \"k\" google"),
        (&[("GEMINI_API_KEY", " k\n")], &none, None, "gemini-api-key \"k\" google"),
        (&[("GEMINI_API_KEY", ""), ("GOOGLE_API_KEY", "g")], &none, None, "gemini-api-key \"g\" google"),
        (&[("GEMINI_API_KEY", "k"), url], &none, None, "gemini-api-key \"k\" http://gw"),
        (&[url], &none, Some("s"), "gateway \"\" http://gw"),
        (&[url], &in_settings, None, "gemini-api-key \"last\" http://gw"),
        (&[], &none, Some("s"), "gemini-api-key \"s\" google"),
        (&[("CLOUD_SHELL", "true")], &none, Some("s"), "gemini-api-key \"s\" google"),
        (&[], &in_settings, Some("s"), "gemini-api-key \"s\" google"),
        (&[], &in_settings, None, "gemini-api-key \"last\" google"),
    ];
    for (vars, security, stored, expected) in cases {
        assert_eq!(&outcome(vars, security, *stored), expected, "{vars:?}");
    }
}

#[test]
fn the_selected_type_decides_before_the_environment() {
    let key = ("GEMINI_API_KEY", "k");
    let url = ("GOOGLE_GEMINI_BASE_URL", "http://gw");
    assert_eq!(outcome(&[key, url], &selected("gemini-api-key"), None), "gemini-api-key \"k\" http://gw");
    assert_eq!(outcome(&[key, url], &selected("gateway"), None), "gateway \"k\" http://gw");
    let external = Security { auth_external: true, ..selected("gemini-api-key") };
    assert_eq!(outcome(&[], &external, None), "gemini-api-key \"\" google");
    assert!(matches!(pick(&[], &selected("gemini-api-key"), None), Err(AuthError::NoKey)));
    assert!(matches!(pick(&[key], &selected("gateway"), None), Err(AuthError::GatewayWithoutUrl)));
    assert!(outcome(&[key], &selected("magic"), None).starts_with("Invalid auth method selected."));
}

#[test]
fn what_is_not_supported_says_so_and_names_what_works() {
    let cases: &[(&[(&str, &str)], Security)] = &[
        (&[("GOOGLE_GENAI_USE_GCA", "true"), ("GEMINI_API_KEY", "k")], Security::default()),
        (&[("GOOGLE_GENAI_USE_VERTEXAI", "true")], Security::default()),
        (&[("GEMINI_CLI_USE_COMPUTE_ADC", "true")], Security::default()),
        (&[], selected("vertex-ai")),
        (&[], selected("oauth-personal")),
        (&[], selected("cloud-shell")),
    ];
    for (vars, security) in cases {
        let text = outcome(vars, security, None);
        assert!(text.contains("not supported yet") && text.contains("GEMINI_API_KEY"), "{text}");
    }
}

#[test]
fn an_enforced_type_is_checked_first() {
    assert_eq!(
        outcome(
            &[],
            &Security { auth_selected: Some("oauth-personal".into()), ..enforced("gemini-api-key") },
            None
        ),
        "The enforced authentication type is 'gemini-api-key', but the current type is 'oauth-personal'. \
         Please re-authenticate with the correct type."
    );
    assert_eq!(
        outcome(&[], &enforced("gemini-api-key"), None),
        "The auth type 'gemini-api-key' is enforced, but no authentication is configured."
    );
    assert_eq!(
        outcome(&[("GEMINI_API_KEY", "k")], &enforced("gemini-api-key"), None),
        "gemini-api-key \"k\" google"
    );
}

#[test]
fn a_newcomer_is_told_upstreams_sentence_and_then_what_to_do() {
    let text = outcome(&[], &Security::default(), None);
    assert!(text.starts_with(
        "Please set an Auth method in your /home/me/.gemini/settings.json or specify one of the following \
         environment variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI, GOOGLE_GENAI_USE_GCA\n"
    ));
    for way in ["aistudio.google.com", "export GEMINI_API_KEY=", "~/.gemini/.env", "stored", "pollux demo"] {
        assert!(text.contains(way), "{way} in {text}");
    }
}

#[test]
fn the_store_is_asked_once_and_only_without_a_key_in_the_environment() {
    let never = || -> Result<Option<Secret>, CredentialError> { panic!("the store was opened") };
    assert!(choose(&env(&[("GEMINI_API_KEY", "k")]), &Security::default(), never, Path::new("")).is_ok());
    assert!(
        choose(&env(&[("GOOGLE_GEMINI_BASE_URL", "u")]), &Security::default(), never, Path::new("")).is_ok()
    );
    let broken = || Err(CredentialError::Corrupted { path: "/c".into() });
    let error = choose(&env(&[]), &Security::default(), broken, Path::new("")).unwrap_err();
    assert!(error.to_string().starts_with("Corrupted credentials file detected at: /c"));
    let in_settings = Security { api_key: Some(Secret::new("last")), ..Security::default() };
    assert_eq!(choose(&env(&[]), &in_settings, broken, Path::new("")).unwrap().key.reveal(), "last");
}

#[test]
fn a_key_is_never_shown_by_accident() {
    let auth = pick(
        &[("GEMINI_API_KEY", "hunter2"), ("GEMINI_API_KEY_AUTH_MECHANISM", "bearer")],
        &Security::default(),
        None,
    )
    .unwrap();
    assert!(auth.bearer);
    assert!(!format!("{auth:?}").contains("hunter2"));
}
