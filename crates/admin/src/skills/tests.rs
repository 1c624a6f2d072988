use pollux_host::skills::{change, list};

use super::*;
use crate::test_home::TestHome;

fn row(name: &str, origin: &'static str, enabled: bool) -> SkillRow {
    let (description, location) = (format!("about {name}"), format!("/s/{name}/SKILL.md"));
    SkillRow { name: name.into(), description, location, origin, extension: None, enabled }
}

fn rows() -> Vec<SkillRow> {
    vec![row("alpha", "built-in", true), row("beta", "user", true), row("Zeta", "workspace", false)]
}

/// A project with a skill and a folder that holds none.
fn home() -> TestHome {
    TestHome::new()
        .file(".gemini/skills/beta/SKILL.md", "---\nname: beta\ndescription: about beta\n---\nDo it.\n")
        .file("src/good/SKILL.md", "---\nname: good\ndescription: about good\n---\nDo it well.\n")
        .file("src/bad/SKILL.md", "---\ndescription: no name\n---\nDo it.\n")
}

fn install(consent: bool) -> SkillsCommand {
    let source = "src/good".to_owned();
    SkillsCommand::Install(SkillSource { source, scope: SkillScope::User, path: None, consent })
}

#[test]
fn the_list_hides_what_is_built_in_unless_asked() {
    assert_eq!(
        list(&rows(), false, true),
        "Discovered Agent Skills:\n\nbeta [Enabled]\n  Description: about beta\n  Location:    /s/beta/SKILL.md\n\n\
         Zeta [Disabled]\n  Description: about Zeta\n  Location:    /s/Zeta/SKILL.md\n\n"
    );
    let mut err = Vec::new();
    tell(&mut err, &["odd\u{1b}[2J".to_owned()]);
    assert_eq!(String::from_utf8(err).unwrap(), "odd\n");
    assert!(list(&rows(), true, true).ends_with(
        "alpha [Enabled] [Built-in]\n  Description: about alpha\n  Location:    /s/alpha/SKILL.md\n\n"
    ));
    assert_eq!(list(&[], true, true), "No skills discovered.\n");
    assert_eq!(list(&rows()[..1], false, true), "No skills discovered besides the built-in ones: alpha.\n");
    assert_eq!(
        page::list_json(&rows(), false)[0],
        serde_json::json!({"name": "beta", "description": "about beta", "location": "/s/beta/SKILL.md", "origin": "user", "enabled": true})
    );
}

#[test]
fn a_skill_is_shown_or_the_nearest_is_named() {
    let home = home();
    let out = home.run(SkillsCommand::Show { name: "beta".into(), json: false }, "").out;
    assert!(out.ends_with("SKILL.md\n\nDo it.\n"), "{out}");
    let failure = home.run(SkillsCommand::Show { name: "betta".into(), json: false }, "").result.unwrap_err();
    assert_eq!((failure.summary.as_str(), failure.exit), ("Skill \"betta\" not found.", ExitKind::Failure));
    assert_eq!(failure.hint.as_deref(), Some("did you mean \"beta\"?"));
}

#[test]
fn nothing_is_installed_without_a_yes() {
    let installed = |home: &TestHome| {
        let out = home.run(SkillsCommand::List { all: false, json: false }, "").out;
        out.contains("good [Enabled]")
    };
    for typed in ["\n", "y\n", "YES\n"] {
        let home = home();
        let (done, screen) = home.answered(install(false), &mut typed.as_bytes(), true);
        assert!(done.result.is_ok() && installed(&home), "{typed:?}");
        assert!(
            done.out.starts_with("Successfully installed skill: good (scope: user, location: "),
            "{}",
            done.out
        );
        assert!(screen.contains("Do you want to continue? [Y/n]: "), "{screen}");
    }
    let home = home();
    let failure = home.run(install(false), "n\n").result.unwrap_err();
    assert_eq!(
        (failure.summary.as_str(), installed(&home)),
        ("Skill installation cancelled by user.", false)
    );
    let (done, screen) = home.answered(install(false), &mut "".as_bytes(), false);
    assert!(done.result.unwrap_err().hint.unwrap().contains("--consent") && !installed(&home));
    assert!(screen.ends_with("Do you want to continue? [Y/n]: "), "{screen}");
    let (done, screen) = home.answered(install(true), &mut "".as_bytes(), false);
    assert!(done.result.is_ok() && installed(&home));
    assert!(screen.contains("\nYou have consented to the following:\n"), "{screen}");
    assert!(!screen.contains("Do you want to continue?"), "{screen}");
}

#[test]
fn an_invalid_skill_fails_in_words_and_in_json() {
    let home = home();
    let validate = |path: &str, json| home.run(SkillsCommand::Validate { path: path.into(), json }, "");
    assert_eq!(validate("src/good", false).out, "Valid skill: src/good\n");
    let done = validate("src/bad", false);
    let summary = done.result.unwrap_err().summary;
    assert_eq!(done.out, "");
    assert!(summary.starts_with("Validation failed for src/bad:\n  - "), "{summary}");
    let done = validate("src/bad", true);
    assert!(done.out.contains("\"valid\": false") && done.result.is_err());
    let checked = Checked { errors: vec!["no name".to_owned()], advice: Vec::new() };
    let failure = validated("bad", &checked, false, &mut Vec::new()).unwrap_err();
    assert_eq!(failure.summary, "Validation failed for bad:\n  - no name");
}

#[test]
fn what_came_and_went_is_counted() {
    assert_eq!(change(0, 0), "Agent skills reloaded successfully.\n");
    assert_eq!(
        change(2, 1),
        "Agent skills reloaded successfully. 2 newly available skills and 1 skill no longer available.\n"
    );
}
