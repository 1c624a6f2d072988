//! What runs at all: settings, commands, trust, mistakes.

use std::fs;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use super::{World, hook, says};
use crate::scene::{Scene, binary};

fn touching() -> Value {
    json!({"SessionStart": hook("t", "touch ran")})
}

fn ran(world: &World) -> bool {
    world.home.project().join("ran").exists()
}

#[test]
fn each_switch_turns_hooks_off_and_none_does_by_default() {
    let with = |key: &str, value: Value| {
        let mut settings = json!({"hooks": touching()});
        settings[key] = value;
        World::with(TestHome::new(), settings, &[says("Done.")])
    };
    let seeds = |key: &str, value: Value| {
        let mut hooks = touching();
        hooks[key] = value;
        World::new(&hooks, &[says("Done.")])
    };
    let both = |older: Value, newer: Value| {
        let mut settings = json!({"hooks": touching(), "hooksConfig": newer});
        settings["hooks"].as_object_mut().unwrap().extend(older.as_object().unwrap().clone());
        World::with(TestHome::new(), settings, &[says("Done.")])
    };
    for (world, runs) in [
        (with("hooksConfig", json!({})), true),
        (with("hooksConfig", json!({"enabled": false})), false),
        (with("hooksConfig", json!({"disabled": ["t"]})), false),
        (with("hooksConfig", json!({"disabled": ["other"]})), true),
        (with("tools", json!({"enableHooks": false})), false),
        (seeds("enabled", json!(false)), false),
        (seeds("disabled", json!(["t"])), false),
        (seeds("enabled", json!(true)), true),
        (both(json!({"disabled": ["t"]}), json!({"disabled": ["other"]})), false),
        (both(json!({"enabled": false}), json!({"enabled": true})), false),
        (both(json!({"disabled": ["other"]}), json!({"notifications": false})), true),
    ] {
        let run = world.fine(&[]);
        assert_eq!(ran(&world), runs, "{}", world.home.home().join(".gemini/settings.json").display());
        assert_eq!(world.hook_calls().len(), usize::from(runs));
        assert!(!run.stderr.contains("Warning"), "{}", run.stderr);
    }
}

#[test]
fn a_hook_that_was_disabled_by_command_does_not_run() {
    let world = World::new(&touching(), &[says("Done.")]);
    let off = world.home.command(binary(), ["hooks", "disable", "t"]).run();
    assert_eq!(off.code, Some(0), "{}", off.stderr);
    world.fine(&[]);
    assert!(!ran(&world));
    assert_eq!(world.home.command(binary(), ["hooks", "enable", "t"]).run().code, Some(0));
    world.fine(&[]);
    assert!(ran(&world));
}

#[test]
fn a_mistake_is_told_with_its_place_and_the_other_hooks_run() {
    let mut hooks = touching();
    hooks["BeforTool"] = hook("x", "true");
    hooks["AfterTool"] = json!([{"matcher": 5, "command": "true"}, null]);
    let world = World::new(&hooks, &[says("Done.")]);
    let run = world.fine(&[]);
    assert!(ran(&world));
    assert!(
        run.stderr.contains("settings.json: `hooks.BeforTool`: Invalid hook event name: \"BeforTool\""),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("`hooks.AfterTool[0]`") && run.stderr.contains("`hooks.AfterTool[1]`"),
        "{}",
        run.stderr
    );
}

#[test]
fn hooks_of_a_folder_run_once_it_is_trusted_and_again_only_after_a_look_at_what_changed() {
    let project = |command: &str| json!({"hooks": {"SessionStart": hook("theirs", command)}});
    let home = TestHome::new()
        .settings(json!({"hooks": {"SessionStart": hook("mine", "touch mine")}}))
        .project_settings(project("touch theirs"));
    let scene = Scene::untrusted(home, (0..3).map(|_| reply().text("Hi.")));
    let is_there = |name: &str| scene.home.project().join(name).exists();
    let run = scene.run(&["-p", "one"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(is_there("mine") && !is_there("theirs"), "the user's own hooks run everywhere: {}", run.stderr);

    let shown = scene.prepare(&["trust", "show"]).run();
    assert!(shown.stdout.contains("hook SessionStart: touch theirs"), "{}", shown.stdout);
    assert_eq!(scene.prepare(&["trust", "allow", "--yes"]).run().code, Some(0));
    assert_eq!(scene.run(&["-p", "two"]).code, Some(0));
    assert!(is_there("theirs"));

    let settings = scene.home.project().join(".gemini/settings.json");
    fs::write(&settings, project("touch wild").to_string()).unwrap();
    let run = scene.run(&["-p", "three"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!is_there("wild"), "a changed hook waits for a yes: {}", run.stderr);
    let diff = scene.prepare(&["trust", "diff"]).run();
    assert!(diff.stdout.contains("touch theirs") && diff.stdout.contains("touch wild"), "{}", diff.stdout);
}
