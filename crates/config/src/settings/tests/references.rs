//! References to environment variables whose text must not be used if the variable is not set.

use super::*;

const VARS: &[(&str, &str)] = &[("TEAM_MODEL", "flash"), ("TURNS", "7"), ("GITHUB_TOKEN", "hidden")];

#[test]
fn a_project_refers_to_variables_without_credentials_for_its_models() {
    for (written, name) in [
        ("$TEAM_MODEL", "flash"),
        ("${TEAM_MODEL:-pro}", "flash"),
        ("${UNSET:-pro}", "pro"),
        // A credential counts as unset.
        ("${GITHUB_TOKEN:-pro}", "pro"),
        ("price$5", "price$5"),
    ] {
        let scratch = Scratch::new();
        scratch.write(PROJECT, &json!({"model": {"name": written}}).to_string());
        let settings = scratch.load_with(VARS, ProjectTrust::Trusted, &[]).unwrap();
        assert_eq!(settings.groups.model.name, name, "{written}");
        assert_eq!(settings.warnings, [], "{written}");
    }
}

#[test]
fn a_project_s_reference_is_never_sent_as_the_name_of_a_model() {
    for written in ["$UNSET", "${UNSET}", "$UNSET-pro", "$GITHUB_TOKEN", "x-${GITHUB_TOKEN}"] {
        let scratch = Scratch::new();
        scratch.write(USER, r#"{"model": {"name": "mine"}}"#);
        let file = scratch.write(
            PROJECT,
            &json!({
                "model": {"name": written},
                "agents": {"overrides": {"cli_help": {"modelConfig": {"model": written}}}},
                "modelConfigs": {"customAliases": {"a": {"modelConfig": {"model": written}}}},
            })
            .to_string(),
        );
        let settings = scratch.load_with(VARS, ProjectTrust::Trusted, &[]).unwrap();
        assert_eq!(settings.groups.model.name, "mine", "{written}");
        assert!(!settings.effective.to_string().contains('$'), "{}", settings.effective);
        let warned: Vec<_> = settings
            .warnings
            .iter()
            .map(|warning| (warning.kind.clone(), warning.key.as_str(), warning.file.clone()))
            .collect();
        let expected = [
            "model.name",
            "agents.overrides.cli_help.modelConfig.model",
            "modelConfigs.customAliases.a.modelConfig.model",
        ];
        let expected = expected.map(|key| (WarningKind::UnsetVariable, key, Some(file.clone())));
        assert_eq!(warned, expected, "{written}");
        assert!(!settings.warnings.iter().any(|warning| warning.message.contains("hidden")));
    }
}

#[test]
fn numbers_of_a_project_come_from_variables_and_defaults() {
    for (written, turns) in [("$TURNS", 7), ("${UNSET:-3}", 3), ("${TURNS:-3}", 7)] {
        let scratch = Scratch::new();
        scratch.write(PROJECT, &json!({"model": {"maxSessionTurns": written}}).to_string());
        let settings = scratch.load_with(VARS, ProjectTrust::Trusted, &[]).unwrap();
        assert_eq!(settings.groups.model.max_session_turns, Some(turns), "{written}");
        assert_eq!(settings.warnings, [], "{written}");
    }
}

#[test]
fn a_model_in_an_account_cannot_hide_in_a_default() {
    let scratch = Scratch::new();
    scratch.write(PROJECT, r#"{"model": {"name": "${UNSET:-projects/p/locations/l/endpoints/e}"}}"#);
    let settings = scratch.load();
    assert_eq!(settings.groups.model.name, "auto");
    assert_eq!(settings.warnings[0].kind, WarningKind::NotFromProject);
}

#[test]
fn a_credential_that_is_a_reference_to_an_unset_variable_is_unset() {
    for file in [USER, SYSTEM, DEFAULTS] {
        for written in ["$UNSET", "${UNSET}"] {
            let scratch = Scratch::new();
            let path = scratch.write(
                file,
                &json!({
                    "api": {"key": written},
                    "providers": {"lab": {"apiKey": written, "headers": {
                        "X-Key": format!("Bearer {written}"), "X-Plain": "v",
                    }}},
                    "mcpServers": {"s": {
                        "command": "c",
                        "env": {"TOKEN": written, "PRICE": "$5", "SET": "$TURNS", "HOST": written},
                    }},
                    "ui": {"theme": written},
                })
                .to_string(),
            );
            let settings = scratch.load_with(VARS, ProjectTrust::Trusted, &[]).unwrap();
            assert!(settings.groups.security.api_key.is_none());
            assert_eq!(
                settings.section("providers"),
                &json!({"lab": {"headers": {"X-Plain": "v"}}}),
                "{written}"
            );
            let server = &settings.section("mcpServers")["s"];
            let env = json!({"TOKEN": written, "PRICE": "$5", "SET": "7", "HOST": written});
            assert_eq!(server["env"], env, "empty for the server");
            let unset = settings.warnings.iter().filter(|w| w.kind == WarningKind::UnsetVariable);
            let keys: Vec<_> = unset.map(|warning| warning.key.as_str()).collect();
            let expected =
                ["api.key", "providers.lab.apiKey", "providers.lab.headers.X-Key", "mcpServers.s.env.TOKEN"];
            assert_eq!(keys, expected, "{written}");
            let text = settings.warnings[0].to_string();
            assert!(
                text.starts_with(&path.display().to_string())
                    && text.ends_with(
                        "`api.key`: the environment variable `UNSET` is not set (the value is ignored)"
                    ),
                "{text}"
            );
        }
    }
    // A default and a key with a dollar sign are values.
    for (written, key) in [("${UNSET:-k}", "k"), ("k$UNSET", "k$UNSET"), ("$TURNS", "7")] {
        let scratch = Scratch::new();
        scratch.write(USER, &json!({"api": {"key": written}}).to_string());
        let settings = scratch.load_with(VARS, ProjectTrust::Trusted, &[]).unwrap();
        assert_eq!(settings.groups.security.api_key.unwrap().reveal(), key);
    }
}
