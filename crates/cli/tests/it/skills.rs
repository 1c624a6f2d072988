//! Skills in conversations and headless runs.

use std::fs;

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene};

fn home() -> TestHome {
    let skill =
        "---\nname: triage\ndescription: Groups errors in logs\n---\nRead references/codes.md first.\n";
    TestHome::new()
        .home_file(".gemini/skills/triage/SKILL.md", skill)
        .home_file(".gemini/skills/triage/references/codes.md", "E17 is the disk")
}

fn at_terminal(scene: &Scene) -> pollux_test_support::Terminal {
    scene.prepare(&["-m", MODEL]).on_terminal()
}

#[test]
fn the_model_activates_a_skill_after_a_yes_and_reads_its_files() {
    let file =
        |home: &TestHome| home.gemini_dir().join("skills/triage/references/codes.md").display().to_string();
    let home = home();
    let codes = file(&home);
    let scene = Scene::with(
        home,
        [
            reply().call("read_file", json!({"file_path": codes})),
            reply().call("activate_skill", json!({"name": "triage"})),
            reply().call("read_file", json!({"file_path": codes})),
            reply().text("It is the disk."),
        ],
    );
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("what is E17?");
    terminal
        .expect("Activate Skill: triage")
        .expect("Groups errors in logs")
        .expect("codes.md")
        .expect("Answer");
    terminal.say("1").expect("It is the disk.").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    let first = scene.server.request(0).body.to_string();
    assert!(
        first.contains("# Available Agent Skills") && first.contains("<name>triage</name>"),
        "the prompt lists it"
    );
    assert!(!first.contains("Read references/codes.md first."), "but not its instructions");
    let body = |index: usize| scene.server.request(index).function_responses().last().unwrap().to_string();
    assert!(body(1).contains("Path not in workspace"), "closed before: {}", body(1));
    assert!(
        body(2).contains("<activated_skill name=") && body(2).contains("Read references/codes.md first."),
        "{}",
        body(2)
    );
    assert!(body(3).contains("E17 is the disk"), "{}", body(3));
}

#[test]
fn a_built_in_skill_needs_no_yes() {
    let scene = Scene::with(
        home(),
        [reply().call("activate_skill", json!({"name": "review-change"})), reply().text("reviewed")],
    );
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("review it").expect("reviewed").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.server.request(1).body.to_string().contains("# Reviewing a change"));
}

#[test]
fn a_person_calls_a_skill_by_name_also_headless_and_with_piped_text() {
    let scene = Scene::with(home(), [reply().text("one"), reply().text("two"), reply().text("three")]);
    let sent = |index: usize| scene.server.request(index).body["contents"].to_string();
    assert_eq!(scene.run(&["-p", "/triage why E17?"]).stdout, "one\n");
    assert!(sent(0).contains("<activated_skill name=") && sent(0).contains("why E17?"), "{}", sent(0));
    assert_eq!(scene.prompt(&["-p", "/triage"]).stdin("E17 E17 E17").run().stdout, "two\n");
    assert!(sent(1).contains("E17 E17 E17") && sent(1).contains("Use the skill triage"), "{}", sent(1));
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("/triage").expect("three").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(sent(2).contains("Use the skill triage"));
}

#[test]
fn skills_are_listed_switched_and_looked_for_anew_while_one_talks() {
    let scene = Scene::with(home(), [reply().text("before"), reply().text("after")]);
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("hello").expect("before").expect("User: ");
    terminal.say("/skills").expect("triage [Enabled]").expect("Groups errors in logs").expect("User: ");
    terminal.say("/skills disable nope").expect("Skill \"nope\" not found.").expect("User: ");
    terminal
        .say("/skills disable triage")
        .expect("disabled by adding it")
        .expect("/skills reload")
        .expect("User: ");
    fs::create_dir_all(scene.home.gemini_dir().join("skills/late")).unwrap();
    let late = "---\nname: late\ndescription: Came later\n---\nx";
    fs::write(scene.home.gemini_dir().join("skills/late/SKILL.md"), late).unwrap();
    terminal.say("/skills reload").expect("Agent skills reloaded successfully.");
    terminal.expect("1 newly available skill and 1 skill no longer available.").expect("User: ");
    terminal.say("hello again").expect("after").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    let prompt = |index: usize| scene.server.request(index).body["systemInstruction"].to_string();
    assert!(prompt(0).contains("<name>triage</name>") && !prompt(0).contains("<name>late</name>"));
    assert!(prompt(1).contains("<name>late</name>") && !prompt(1).contains("<name>triage</name>"));
}

#[test]
fn a_project_that_is_not_trusted_brings_no_skill() {
    let skill = "---\nname: theirs\ndescription: Of the project\n---\nx";
    let home = TestHome::new().file(".gemini/skills/theirs/SKILL.md", skill);
    let scene = Scene::with(home, [reply().text("one"), reply().text("two")]);
    scene.prompt(&["-p", "/theirs do"]).env("GEMINI_CLI_TRUST_WORKSPACE", "false").run();
    let is_activated =
        |number: usize| scene.server.request(number).body["contents"].to_string().contains("activated_skill");
    assert!(!is_activated(0));
    assert!(!scene.server.request(0).body.to_string().contains("<name>theirs</name>"));
    scene.prompt(&["-p", "/theirs do"]).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run();
    assert!(is_activated(1));
    let request = scene.server.request(1);
    assert!(request.tool_names().contains(&"activate_skill".to_owned()), "also without a person");
    assert!(request.body["systemInstruction"].to_string().contains("<name>theirs</name>"));
}
