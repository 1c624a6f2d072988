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
fn what_is_not_offered_says_so_and_names_what_works() {
    let cases: &[(&[(&str, &str)], Security)] = &[
        (&[("GOOGLE_GENAI_USE_GCA", "true"), ("GEMINI_API_KEY", "k")], Security::default()),
        (&[("GEMINI_CLI_USE_COMPUTE_ADC", "true")], Security::default()),
        (&[], selected("oauth-personal")),
        (&[], selected("cloud-shell")),
    ];
    for (vars, security) in cases {
        let text = outcome(vars, security, None);
        assert!(text.contains("not available") && text.contains("GEMINI_API_KEY"), "{text}");
    }
}

#[test]
fn vertex_takes_a_key_or_a_project_with_a_location() {
    let flag = ("GOOGLE_GENAI_USE_VERTEXAI", "true");
    let (project, location) = (("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "us-central1"));
    let place = |vars: &[(&str, &str)], security: &Security| {
        let auth = pick(vars, security, Some("stored"))?;
        assert_eq!(auth.kind, AuthKind::Vertex);
        Ok::<_, AuthError>((auth.vertex.unwrap(), auth.key.reveal().to_owned(), auth.origin))
    };
    let none = Security::default();
    let in_project = VertexPlace::Project { project: "p".into(), location: "us-central1".into() };
    let expected = (in_project.clone(), String::new(), Origin::Nothing);
    assert_eq!(place(&[flag, project, location, ("GEMINI_API_KEY", "g")], &none).unwrap(), expected);
    assert_eq!(
        place(&[("GOOGLE_CLOUD_PROJECT_ID", "p"), location], &selected("vertex-ai")).unwrap(),
        expected
    );
    let express = (VertexPlace::Express, "k".to_owned(), Origin::Variable("GOOGLE_API_KEY"));
    assert_eq!(place(&[flag, project, location, ("GOOGLE_API_KEY", " k ")], &none).unwrap(), express);
    assert!(matches!(place(&[flag, project], &none), Err(AuthError::VertexWithoutPlace)));
    let file = ("GOOGLE_APPLICATION_CREDENTIALS", "/f.json");
    for (vars, named) in [(&[file][..], "GOOGLE_CLOUD_PROJECT"), (&[file, project], "GOOGLE_CLOUD_LOCATION")]
    {
        let refused = pick(vars, &none, None).unwrap_err();
        assert!(refused.to_string().contains(&format!("but {named} is not")), "{refused}");
    }
    // A place alone means Google's own credentials, and a service account's key next to it says which.
    assert_eq!(pick(&[project, location], &none, None).unwrap().vertex, Some(in_project.clone()));
    let file = ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json");
    let auth = pick(&[file, project, location], &none, None).unwrap();
    assert_eq!(auth.vertex, Some(in_project));
    assert_eq!(pick(&[file, project, location], &none, Some("s")).unwrap().kind, AuthKind::ApiKey);
    let elsewhere = [
        flag,
        project,
        location,
        ("GOOGLE_VERTEX_BASE_URL", "http://v"),
        ("GOOGLE_GEMINI_BASE_URL", "http://g"),
    ];
    assert_eq!(pick(&elsewhere, &none, None).unwrap().base_url.as_deref(), Some("http://v"));
}

#[test]
fn a_location_cannot_lead_to_another_server() {
    for location in ["evil.example/", "evil.example#", "a.b", "US", "x@y", "../"] {
        let vars = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", location)];
        let chosen = pick(&vars, &selected("vertex-ai"), None);
        assert!(matches!(chosen, Err(AuthError::BadLocation)), "{location}");
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
         environment variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI\n"
    ));
    for way in ["aistudio.google.com", "export GEMINI_API_KEY=", "stored", "ANTHROPIC_API_KEY", "pollux demo"]
    {
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

#[test]
fn vertex_by_name_prefers_a_project_over_a_key_of_the_other_api() {
    let project = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "l"), ("GOOGLE_API_KEY", "k")];
    let auth = choose_vertex(&env(&project), &Security::default()).unwrap();
    assert!(matches!(auth.vertex, Some(VertexPlace::Project { .. })) && auth.key.reveal().is_empty());
    let express = choose_vertex(&env(&[("GOOGLE_API_KEY", "k")]), &Security::default()).unwrap();
    assert_eq!((express.vertex, express.key.reveal()), (Some(VertexPlace::Express), "k"));
    let none = choose_vertex(&env(&[("GEMINI_API_KEY", "k")]), &Security::default());
    assert!(matches!(none, Err(AuthError::VertexWithoutPlace)));
    assert!(choose_vertex(&env(&project), &enforced("gemini-api-key")).is_err());
}
