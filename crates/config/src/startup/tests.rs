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

fn trusted(scratch: &Scratch) {
    let path = scratch.path("work").canonicalize().unwrap();
    scratch
        .write("home/.gemini/trustedFolders.json", &format!("{{\"{}\": \"TRUST_FOLDER\"}}", path.display()));
}

#[test]
fn a_folder_is_kept_at_its_first_use_and_a_later_change_is_not_applied() {
    let scratch = Scratch::new();
    trusted(&scratch);
    scratch.write(PROJECT, "{\"model\": {\"name\": \"first\"}}");
    let first = started(&scratch, &[]);
    assert!(matches!(first.first_use, Some(Ok(1))));
    assert_eq!(first.settings.groups.model.name, "first");
    assert!(started(&scratch, &[]).first_use.is_none());
    scratch.write(PROJECT, "{\"model\": {\"name\": \"second\"}}");
    let changed = started(&scratch, &[]);
    assert_eq!((changed.trust, changed.settings.groups.model.name.as_str()), (FolderTrust::Changed, "auto"));
    let skipped = StartRequest {
        env: scratch.env(&[]),
        root: scratch.path("work"),
        skip_trust: true,
        ..StartRequest::default()
    };
    assert_eq!(start(skipped).unwrap().settings.groups.model.name, "second");
}

#[test]
fn deprecated_keys_of_a_project_count_and_its_file_stays_as_it_is() {
    let scratch = Scratch::new();
    trusted(&scratch);
    scratch.write(PROJECT, "{\"hideTips\": true, \"model\": {\"name\": \"m\"}}");
    let first = started(&scratch, &[]);
    assert!(first.settings.migrated.is_empty() && scratch.read(PROJECT).starts_with("{\"hideTips\": true"));
    assert_eq!(first.settings.get("ui.hideTips").unwrap().0, true);
    assert_eq!(started(&scratch, &[]).trust, FolderTrust::Trusted);
}

#[test]
fn a_folder_that_brings_nothing_costs_no_word_and_is_kept_all_the_same() {
    let scratch = Scratch::new();
    trusted(&scratch);
    assert!(matches!(started(&scratch, &[]).first_use, Some(Ok(0))));
    scratch.write("work/.env", "GEMINI_MODEL=theirs");
    assert_eq!(started(&scratch, &[]).settings.groups.model.name, "auto");
}

#[test]
fn a_projects_own_file_may_name_what_its_env_offers_and_the_users_may_not() {
    let scratch = Scratch::new();
    scratch.write("work/.env", "GEMINI_API_KEY=theirs");
    let server =
        |name: &str| format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x $GEMINI_API_KEY\"}}}}}}");
    scratch.write(PROJECT, &server("project"));
    scratch.write(USER, &server("user"));
    let start = started(&scratch, &[("GEMINI_CLI_TRUST_WORKSPACE", "true")]);
    let command = |name: &str| start.settings.effective["mcpServers"][name]["command"].clone();
    assert_eq!((command("project"), command("user")), ("x theirs".into(), "x $GEMINI_API_KEY".into()));
    assert_eq!(start.env.get("GEMINI_API_KEY"), None);
}

#[test]
fn start_up_fails_without_a_home_or_with_another_users() {
    let scratch = Scratch::new();
    let env = Env::new([("HOME".to_owned(), "relative".to_owned())], scratch.path("work"));
    let request = StartRequest { env, root: scratch.path("work"), ..StartRequest::default() };
    assert!(matches!(start(request), Err(StartError::Home(HomeError::NotFound))));
}

#[test]
fn a_folder_above_that_is_refused_gives_nothing() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("work/app")).unwrap();
    scratch.write("work/.env", "ABOVE=1");
    scratch.write("work/app/.env", "HERE=1");
    let at = |path: &str| scratch.path(path).canonicalize().unwrap();
    let started = || {
        let request = StartRequest {
            env: scratch.env(&[]),
            root: at("work/app"),
            skip_trust: true,
            ..StartRequest::default()
        };
        let env = start(request).unwrap().env;
        (env.get("HERE").is_some(), env.get("ABOVE").is_some())
    };
    assert_eq!(started(), (true, true));
    let rule = format!("{{\"{}\": \"DO_NOT_TRUST\"}}", at("work").display());
    scratch.write("home/.gemini/trustedFolders.json", &rule);
    assert_eq!(started(), (true, false));
}

#[test]
fn a_damaged_register_trusts_no_folder_above_and_is_left_alone() {
    let scratch = Scratch::new();
    scratch.write(".env", "ABOVE=1");
    scratch.write("work/.env", "OWN=1");
    let trust = [("GEMINI_CLI_TRUST_WORKSPACE", "true")];
    let start = started(&scratch, &trust);
    assert_eq!((start.env.get("ABOVE"), start.env.get("OWN")), (Some("1"), Some("1")));
    assert_eq!(start.home_notes, [] as [&str; 0]);
    let torn = "{\"/other\": \"DO_NOT_TRUST\", \"/third\": \"DO_";
    let register = scratch.write("home/.gemini/trustedFolders.json", torn);
    let start = started(&scratch, &trust);
    assert_eq!((start.env.get("ABOVE"), start.env.get("OWN")), (None, Some("1")));
    let [note] = start.home_notes.as_slice() else { panic!("{:?}", start.home_notes) };
    assert!(note.contains(&register.display().to_string()) && note.contains("line 1"), "{note}");
    let request =
        StartRequest { env: scratch.env(&[]), root: scratch.path("work"), ..StartRequest::default() };
    assert!(matches!(super::start(request), Err(StartError::Trust(_))));
    let (env, home) = (scratch.env(&[]), scratch.home());
    assert!(trust::remember(&env, &home, &scratch.path("work"), trust::TrustRule::Folder).is_err());
    assert_eq!(scratch.read("home/.gemini/trustedFolders.json"), torn);
}
