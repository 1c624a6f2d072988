//! `pollux sessions rewind`.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use super::archive::{Home, agent, user};
use crate::scene::{Scene, read_json};

/// A session of gemini-cli with two edits of `a.txt`, one for each prompt, and a new file.
fn edited() -> (Home, PathBuf) {
    let home = Home::new();
    let project = home.test.project();
    let edit = |id: &str, file: &str, before: Option<&str>, after: &str| {
        let mut message = agent(&format!("g{id}"), "Editing.");
        message["toolCalls"] = json!([{
            "id": format!("c{id}"), "name": "replace", "args": {"file_path": file}, "status": "success",
            "result": [], "resultDisplay": {"fileDiff": "…", "fileName": file, "filePath": project.join(file),
            "originalContent": before, "newContent": after, "isNewFile": before.is_none()},
        }]);
        message
    };
    fs::write(project.join("a.txt"), "three\n").unwrap();
    fs::write(project.join("new.txt"), "new\n").unwrap();
    let messages = [
        user("prompt-1", "first"),
        edit("1", "a.txt", Some("one\n"), "two\n"),
        user("prompt-2", "second"),
        edit("2", "a.txt", Some("two\n"), "three\n"),
        edit("3", "new.txt", None, "new\n"),
    ];
    let file = home.session("alpha-0001", "2026-01-02T03:04:05.000Z", &messages);
    (home, file)
}

fn ids(file: &Path) -> Vec<String> {
    let messages = read_json(file)["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_conversation_goes_back_to_before_a_prompt() {
    let (home, file) = edited();
    let asked = home.run(&["sessions", "rewind", "1", "--to", "2", "--conversation"]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(42), ""));
    assert!(
        asked.stderr.contains("to before: second [prompt-2]\nConversation: 3 messages will be removed"),
        "{}",
        asked.stderr
    );
    assert_eq!(ids(&file).len(), 5);
    let run = home.run(&["sessions", "rewind", "1", "--to", "2", "--conversation", "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(ids(&file), ["prompt-1", "g1"]);
    assert_eq!(home.test.read("a.txt"), "three\n", "files stay");
}

#[test]
fn files_go_back_by_the_edits_that_a_session_recorded() {
    let (home, file) = edited();
    let run = home.run(&["sessions", "rewind", "alpha-0001", "--to", "prompt-2", "--files", "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("  overwrite: a.txt\n  delete: new.txt\n"), "{}", run.stdout);
    assert!(run.stdout.ends_with("2 paths restored.\n"), "{}", run.stdout);
    assert_eq!(home.test.read("a.txt"), "two\n");
    assert!(!home.test.project().join("new.txt").exists());
    assert_eq!(ids(&file).len(), 5, "the conversation stays");
}

#[test]
fn both_go_back_and_what_others_changed_stays() {
    let (home, file) = edited();
    fs::write(home.test.project().join("a.txt"), "somebody else\n").unwrap();
    let value = home.json(&["sessions", "rewind", "latest", "--to", "1", "--both", "--yes", "--json"]);
    assert_eq!((&value["messages"], &value["files"]["source"]), (&json!(5), &json!("diffs")));
    assert_eq!(value["files"]["steps"], json!([{"action": "delete", "path": "new.txt"}]));
    assert_eq!(value["files"]["conflicts"][0]["path"], "a.txt");
    assert_eq!(home.test.read("a.txt"), "somebody else\n");
    assert_eq!(ids(&file), Vec::<String>::new());
}

#[test]
fn a_session_file_of_a_stranger_reaches_nothing_outside_the_project() {
    let (home, file) = edited();
    let outside = home.test.home().join("victim");
    fs::write(&outside, "after\n").unwrap();
    fs::create_dir_all(home.test.project().join(".git/hooks")).unwrap();
    fs::write(home.test.project().join(".git/hooks/x"), "after\n").unwrap();
    let mut record = read_json(&file);
    for path in [outside.to_str().unwrap(), "../home/victim", ".git/hooks/x"] {
        let mut message = record["messages"][3].clone();
        message["id"] = json!(format!("evil {path}"));
        let display = &mut message["toolCalls"][0]["resultDisplay"];
        (display["filePath"], display["newContent"], display["originalContent"]) =
            (json!(path), json!("after\n"), json!("evil\n"));
        record["messages"].as_array_mut().unwrap().push(message);
    }
    fs::write(&file, record.to_string()).unwrap();
    let value = home.json(&["sessions", "rewind", "1", "--to", "1", "--files", "--yes", "--json"]);
    assert_eq!(value["files"]["lost"].as_array().unwrap().len(), 3, "{value}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "after\n");
    assert_eq!(home.test.read(".git/hooks/x"), "after\n");
    assert_eq!(home.test.read("a.txt"), "one\n");
}

#[test]
fn a_point_that_is_not_there_is_exit_42() {
    let (home, _) = edited();
    for (to, text) in [
        ("3", "no prompt 3: the session has 2"),
        ("0", "no prompt 0"),
        ("nope", "the session has no message `nope`"),
        ("prompt", "`prompt` matches several messages"),
    ] {
        let run = home.run(&["sessions", "rewind", "1", "--to", to, "--both", "--yes"]);
        assert_eq!(run.code, Some(42), "{to}");
        assert!(run.stderr.starts_with(text) && run.stderr.contains("hint: "), "{}", run.stderr);
    }
}

#[test]
fn what_our_own_calls_changed_comes_back_from_the_journal() {
    let write =
        |text: &str| reply().call_with_id("c1", "write_file", json!({"file_path": "a.txt", "content": text}));
    let scene = Scene::with(
        TestHome::new().file("a.txt", "one\n"),
        [
            write("two\n"),
            reply().text("Done."),
            reply().call_with_id(
                "c2",
                "run_shell_command",
                json!({"command": "echo three > a.txt; echo b > b.txt"}),
            ),
            reply().text("Done."),
        ],
    );
    let id = "journal-0001";
    let first = scene.run(&["--yolo", "--sandbox=false", "--session-id", id, "-p", "write two"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let second = scene.run(&["--yolo", "--sandbox=false", "--resume", id, "-p", "run it"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(scene.home.read("a.txt"), "three\n");
    let run = scene.prepare(&["sessions", "rewind", id, "--to", "2", "--both", "--yes", "--json"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let value: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(value["files"]["source"], "journal", "{value}");
    assert_eq!(scene.home.read("a.txt"), "two\n");
    assert!(!scene.home.project().join("b.txt").exists());
    let back = scene.prepare(&["sessions", "rewind", id, "--to", "1", "--files", "--yes"]).run();
    assert_eq!((back.code, scene.home.read("a.txt").as_str()), (Some(0), "one\n"), "{}", back.stderr);
}
