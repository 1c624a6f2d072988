use super::*;
use crate::scratch::{PROJECT, Scratch, USER};

fn started(scratch: &Scratch, vars: &[(&str, &str)]) -> Start {
    start(StartRequest { env: scratch.env(vars), root: scratch.path("work"), ..StartRequest::default() })
        .unwrap()
}

#[test]
fn variables_of_env_files_reach_the_settings() {
    let scratch = Scratch::new();
    scratch.write("home/.gemini/.env", "NAME=m\nGEMINI_SANDBOX=docker");
    scratch.write(
        USER,
        "{\"model\": {\"name\": \"$NAME\"}, \"security\": {\"folderTrust\": {\"enabled\": false}}}",
    );
    let start = started(&scratch, &[]);
    assert_eq!((start.trust, start.settings.groups.model.name.as_str()), (FolderTrust::Trusted, "m"));
    assert_eq!(start.settings.groups.tools.sandbox.command.as_deref(), Some("docker"));
    assert_eq!(start.env.get("NAME"), Some("m"));
}

#[test]
fn an_undecided_folder_has_no_say() {
    let scratch = Scratch::new();
    scratch.write(
        PROJECT,
        "{\"model\": {\"name\": \"theirs\"}, \"security\": {\"folderTrust\": {\"enabled\": false}}}",
    );
    scratch.write("work/.env", "GEMINI_CLI_TRUST_WORKSPACE=true\nGEMINI_MODEL=theirs");
    let undecided = started(&scratch, &[]);
    assert_eq!(
        (undecided.trust, undecided.settings.groups.model.name.as_str()),
        (FolderTrust::Undecided, "auto")
    );
    let trusted = started(&scratch, &[("GEMINI_CLI_TRUST_WORKSPACE", "true")]);
    assert_eq!(
        (trusted.trust, trusted.settings.groups.model.name.as_str()),
        (FolderTrust::Trusted, "theirs")
    );
}

#[test]
fn settings_decide_which_env_files_count_and_the_flag_adds_to_them() {
    let scratch = Scratch::new();
    scratch.write("work/.env", "LOCAL=1\nMINE=1\nDEBUG=1");
    scratch.write(USER, "{\"advanced\": {\"excludedEnvVars\": [\"MINE\"]}}");
    let trust = [("GEMINI_CLI_TRUST_WORKSPACE", "true")];
    let env = started(&scratch, &trust).env;
    assert_eq!((env.get("LOCAL"), env.get("MINE"), env.get("DEBUG")), (Some("1"), None, None));
    let request = StartRequest {
        env: scratch.env(&trust),
        root: scratch.path("work"),
        ignore_env: true,
        ..StartRequest::default()
    };
    assert_eq!(start(request).unwrap().env.get("LOCAL"), None);
}

#[test]
fn a_bad_file_stops_the_start() {
    let scratch = Scratch::new();
    scratch.write(USER, "{,}");
    let request =
        StartRequest { env: scratch.env(&[]), root: scratch.path("work"), ..StartRequest::default() };
    assert!(matches!(start(request), Err(StartError::Settings(_))));
}
