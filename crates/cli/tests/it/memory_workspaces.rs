//! Durable memory in two projects: each finds its own.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_test_support::{Run, TestHome, reply};
use serde_json::{Value, json};

use crate::memory::{memory, remembering, state};
use crate::scene::{Scene, parse};

/// Another project beside the first.
fn other(scene: &Scene) -> PathBuf {
    let folder = scene.home.home().join("other project");
    fs::create_dir_all(folder.join("memory")).unwrap();
    folder
}

fn memory_in(scene: &Scene, folder: &Path, args: &[&str]) -> Run {
    let args: Vec<&str> = ["memory"].into_iter().chain(args.iter().copied()).collect();
    scene.prepare(&args).in_dir(folder).run()
}

fn found(run: &Run) -> usize {
    parse(&run.stdout)["results"].as_array().unwrap_or_else(|| panic!("{}", run.stderr)).len()
}

#[test]
fn what_was_said_in_one_project_is_neither_found_nor_told_in_another() {
    let home = remembering().file("MEMORY.md", "The kumquat grows in the first project.\n");
    let scene = Scene::with(
        home,
        [
            reply().text("The kumquat is ripe."),
            reply()
                .call("memory_search", json!({"query": "kumquat"}))
                .call("memory_get", json!({"path": "agent/LEARNINGS.md"})),
            reply().text("Nothing."),
        ],
    );
    assert_eq!(scene.run(&["-p", "Don't pick the kumquat before June"]).code, Some(0));
    assert!(found(&memory(&scene, &["search", "kumquat", "--json"])) >= 2);
    let here = memory(&scene, &["learnings"]);
    assert!(here.stdout.contains("kumquat") && here.stderr.is_empty(), "{} {}", here.stdout, here.stderr);

    let folder = other(&scene);
    let run = scene.prompt(&["-p", "what do we know?"]).in_dir(&folder).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for request in scene.server.requests().iter().skip(1) {
        let text = request.system_text();
        assert!(!text.contains("kumquat"), "{text}");
    }
    let answers = scene.server.requests().last().unwrap().function_responses();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(!Value::from(answers.clone()).to_string().contains("kumquat is ripe"), "{answers:?}");
    assert!(answers[0]["response"]["output"].as_str().unwrap().contains("Found 0 passages"), "{answers:?}");

    assert_eq!(
        found(&memory_in(
            &scene,
            &folder,
            &["search", "ripe kumquat June", "--json", "--source", "sessions"]
        )),
        0
    );
    let there = memory_in(&scene, &folder, &["learnings"]);
    assert!(
        !there.stdout.contains("kumquat") && there.stderr.contains("1 more in"),
        "{} {}",
        there.stdout,
        there.stderr
    );
    let first = scene.home.project().join("MEMORY.md");
    for path in [first.to_str().unwrap(), "../project/MEMORY.md", "memory/../../project/MEMORY.md"] {
        let run = memory_in(&scene, &folder, &["get", path]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{path}");
    }
    let export = memory_in(&scene, &folder, &["export"]).stdout;
    assert!(!export.contains("Don't pick"), "{export}");
    assert!(
        parse(&export)["sessions"]
            .as_object()
            .unwrap()
            .values()
            .all(|entry| entry["lastUserMessage"] != "Don't pick the kumquat before June")
    );
    let status = parse(&memory_in(&scene, &folder, &["status", "--json"]).stdout);
    assert_eq!(
        (&status["agentId"], &status["shared"], &status["sessions"]),
        (&json!("main"), &json!(false), &json!(1)),
        "{status}"
    );
    let forgotten = memory_in(&scene, &folder, &["forget", "--query", "before June", "--yes"]);
    assert!(
        forgotten.stdout.contains("Also found in 1 other workspace; `--all-workspaces`"),
        "{}",
        forgotten.stdout
    );
    assert!(
        found(&memory(&scene, &["search", "kumquat before June", "--json", "--source", "sessions"])) >= 1
    );
    let everywhere =
        memory_in(&scene, &folder, &["forget", "--query", "kumquat", "--all-workspaces", "--yes"]);
    assert_eq!(everywhere.code, Some(0), "{}", everywhere.stderr);
    assert_eq!(found(&memory(&scene, &["search", "kumquat", "--json"])), 0);
}

#[test]
fn notes_of_the_same_name_do_not_throw_each_other_out() {
    let home = remembering().file("MEMORY.md", "The mascot is an otter.\n");
    let scene = Scene::with(home, []);
    let folder = other(&scene);
    fs::write(folder.join("MEMORY.md"), "The mascot is a heron.\n").unwrap();
    for round in 0..2 {
        for place in [scene.home.project(), folder.clone()] {
            let indexed = parse(&memory_in(&scene, &place, &["index", "--json"]).stdout);
            let expected = if round == 0 { 1 } else { 0 };
            assert_eq!(
                (&indexed["changed"], &indexed["removed"]),
                (&json!(expected), &json!(0)),
                "{indexed}"
            );
        }
    }
    let there = memory_in(&scene, &folder, &["search", "mascot"]).stdout;
    assert!(there.contains("heron") && !there.contains("otter"), "{there}");
}

#[test]
fn sharing_is_the_users_to_switch_on_and_no_projects() {
    let home = remembering().file("MEMORY.md", "x\n");
    let scene = Scene::with(home, [reply().text("The kumquat is ripe.")]);
    assert_eq!(scene.run(&["-p", "how is the kumquat?"]).code, Some(0));
    let folder = other(&scene);
    fs::create_dir_all(folder.join(".gemini")).unwrap();
    fs::write(
        folder.join(".gemini/settings.json"),
        r#"{"memory": {"shareAcrossWorkspaces": true, "agent": "x"}}"#,
    )
    .unwrap();
    let run = memory_in(&scene, &folder, &["search", "kumquat", "--json"]);
    assert_eq!(found(&run), 0, "{}", run.stdout);
    let settings = json!({"memory": {"enabled": true, "provider": "local", "shareAcrossWorkspaces": true}});
    fs::write(scene.home.gemini_dir().join("settings.json"), settings.to_string()).unwrap();
    assert!(found(&memory_in(&scene, &folder, &["search", "kumquat", "--json"])) >= 1);
    assert!(state(&scene).join("agents/main/agent/memory-index.db").is_file());
}

#[test]
fn another_agent_has_a_memory_of_its_own() {
    let scene = Scene::with(
        remembering(),
        [reply().text("The kumquat is ripe."), reply().text("The durian is ripe.")],
    );
    assert_eq!(scene.run(&["-p", "how is the kumquat?"]).code, Some(0));
    assert_eq!(found(&memory(&scene, &["search", "kumquat", "--json", "--agent", "work"])), 0);
    assert!(state(&scene).join("agents/work").is_dir());
    let settings = json!({"memory": {"enabled": true, "provider": "local", "agent": "work"}});
    fs::write(scene.home.gemini_dir().join("settings.json"), settings.to_string()).unwrap();
    assert_eq!(scene.run(&["-p", "how is the durian?"]).code, Some(0));
    assert!(found(&memory(&scene, &["search", "durian", "--json"])) >= 1);
    assert_eq!(found(&memory(&scene, &["search", "kumquat", "--json"])), 0);
    assert!(found(&memory(&scene, &["search", "kumquat", "--json", "--agent", "main"])) >= 1);
    for name in ["../../../escape", "Main", "a/b", ".."] {
        let run = memory(&scene, &["search", "x", "--agent", name]);
        assert!(run.code != Some(0) && run.stderr.contains("invalid agent name"), "{name}: {}", run.stderr);
    }
    let agents: Vec<String> = fs::read_dir(state(&scene).join("agents"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(agents.len(), 2, "{agents:?}");
}

#[test]
fn a_moved_project_takes_its_memory_along() {
    let scene = Scene::with(remembering(), [reply().text("The kumquat is ripe.")]);
    let (old, new) = (other(&scene), scene.home.home().join("moved"));
    assert_eq!(scene.prompt(&["-p", "how is the kumquat?"]).in_dir(&old).run().code, Some(0));
    let refused = memory(&scene, &["adopt", old.to_str().unwrap()]);
    assert!(refused.code == Some(1) && refused.stderr.contains("still exists"), "{}", refused.stderr);
    fs::rename(&old, &new).unwrap();
    assert_eq!(found(&memory_in(&scene, &new, &["search", "kumquat", "--json"])), 0);
    let unknown = memory_in(&scene, &new, &["adopt", "/no/such/folder"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("no memory found"), "{}", unknown.stderr);
    let adopted = memory_in(&scene, &new, &["adopt", old.to_str().unwrap()]);
    assert!(
        adopted.code == Some(0) && adopted.stdout.contains("1 session"),
        "{} {}",
        adopted.stdout,
        adopted.stderr
    );
    assert!(found(&memory_in(&scene, &new, &["search", "kumquat", "--json"])) >= 1);
}

#[test]
fn a_search_says_that_it_built_a_damaged_index_anew() {
    let home = remembering().file("MEMORY.md", "The mascot is an otter.\n");
    let scene = Scene::with(home, []);
    for json in [&["search", "mascot"][..], &["search", "mascot", "--json"]] {
        memory(&scene, &["index"]);
        let index =
            parse(&memory(&scene, &["status", "--json"]).stdout)["dbPath"].as_str().unwrap().to_owned();
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{index}{end}"));
        }
        fs::write(&index, vec![0xA7; 20_000]).unwrap();
        let run = memory(&scene, json);
        assert!(run.code == Some(0) && run.stdout.contains("otter"), "{}", run.stdout);
        assert!(run.stderr.contains("is damaged") && run.stderr.contains(".corrupt-"), "{}", run.stderr);
        let again = memory(&scene, json);
        assert!(!again.stderr.contains("damaged"), "{}", again.stderr);
    }
}

#[test]
fn a_changed_way_to_cut_makes_the_index_out_of_date() {
    let home = remembering().file("MEMORY.md", "The mascot is an otter.\n");
    let scene = Scene::with(home, []);
    memory(&scene, &["index"]);
    assert_eq!(parse(&memory(&scene, &["status", "--json"]).stdout)["dirty"], false);
    let settings = json!({"memory": {"enabled": true, "provider": "local", "chunking": {"tokens": 100}}});
    fs::write(scene.home.gemini_dir().join("settings.json"), settings.to_string()).unwrap();
    let status = memory(&scene, &["status"]).stdout;
    assert!(status.contains("Out of date      yes"), "{status}");
    memory(&scene, &["index"]);
    assert_eq!(parse(&memory(&scene, &["status", "--json"]).stdout)["dirty"], false);
}

#[test]
fn an_index_of_an_earlier_version_is_divided() {
    let shared = json!({"memory": {"enabled": true, "provider": "local", "shareAcrossWorkspaces": true}});
    let scene = Scene::with(TestHome::new().settings(shared), [reply().text("The kumquat is ripe.")]);
    assert_eq!(scene.run(&["-p", "how is the kumquat?"]).code, Some(0));
    let lost = state(&scene).join("agents/main/sessions/lost.jsonl");
    fs::write(
        &lost,
        "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a lychee of nowhere\"}}\n",
    )
    .unwrap();
    memory(&scene, &["index"]);
    let apart = json!({"memory": {"enabled": true, "provider": "local"}});
    fs::write(scene.home.gemini_dir().join("settings.json"), apart.to_string()).unwrap();
    let folder = other(&scene);
    assert_eq!(found(&memory_in(&scene, &folder, &["search", "kumquat lychee", "--json"])), 0);
    assert!(found(&memory(&scene, &["search", "kumquat", "--json"])) >= 1);
    assert_eq!(found(&memory(&scene, &["search", "lychee", "--json"])), 0);
    let run = memory(&scene, &["search", "lychee kumquat", "--unassigned", "--json"]);
    assert_eq!(found(&run), 1, "{}", run.stdout);
    assert!(run.stdout.contains("a lychee of nowhere"), "{}", run.stdout);
}
