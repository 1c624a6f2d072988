//! What `--resume` and `--delete-session` take.

use std::fs;

use pollux_session::{Recorder, load};
use pollux_test_support::reply;
use serde_json::json;

use crate::scene::{Scene, all_files, lines, read_json};

fn recorded(id: &str) -> Scene {
    let scene = Scene::new([reply().text("First."), reply().text("Second.")]);
    let run = scene.run(&["--session-id", id, "-p", "hello"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    scene
}

#[test]
fn a_session_in_use_is_refused_and_a_copy_goes_on() {
    let scene = recorded("busy-session-1");
    let file = scene.session_files().remove(0);
    let holder = Recorder::resume(&load(&file).unwrap()).unwrap();
    let before = fs::read(&file).unwrap();
    let refused = scene.run(&["--resume", "busy", "-p", "again"]);
    assert_eq!(refused.code, Some(42));
    assert!(
        refused.stderr.contains("is in use by process") && refused.stderr.contains("add `--fork`"),
        "{}",
        refused.stderr
    );
    let run = scene.run(&["--resume", "busy", "--fork", "-p", "again", "-o", "stream-json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let id = lines(&run.stdout)[0]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(id, "busy-session-1");
    assert!(
        run.stderr.contains(&format!("Session busy-session-1 continues in a new session: {id}")),
        "{}",
        run.stderr
    );
    assert_eq!(fs::read(&file).unwrap(), before, "the original is as it was");
    drop(holder);
    let copy = scene
        .session_files()
        .into_iter()
        .map(|file| read_json(&file))
        .find(|copy| copy["sessionId"] == id.as_str());
    let text = copy.unwrap()["messages"].to_string();
    assert!(
        text.contains("hello")
            && text.contains("again")
            && text.contains("Forked from session busy-session-1"),
        "{text}"
    );
    assert!(scene.server.request(1).body["contents"].to_string().contains("First."));
}

#[test]
fn a_conversation_goes_on_the_same_whether_its_answers_had_to_be_read_or_not() {
    let scene = recorded("long-session-1");
    let file = scene.session_files().remove(0);
    let mut document = read_json(&file);
    for n in 0..60 {
        let id = format!("read_file__{n}");
        // The space in front can be written in two ways; only one of them is left as it is.
        let output = format!(" {n}: {}", "let é = \"\\t\\\u{1}日\";\n".repeat(250 + n));
        let result =
            json!([{"functionResponse": {"id": id, "name": "read_file", "response": {"output": output}}}]);
        let call = json!({"id": id, "name": "read_file", "args": {}, "status": "success", "result": result});
        let messages = document["messages"].as_array_mut().unwrap();
        messages.push(json!({"id": format!("u{n}"), "type": "user", "content": format!("prompt {n}")}));
        messages.push(json!({"id": format!("r{n}"), "type": "gemini", "content": "", "toolCalls": [call]}));
    }
    let lines = |line: &mut dyn FnMut(&serde_json::Value) -> String| {
        let messages: Vec<String> = document["messages"].as_array().unwrap().iter().map(line).collect();
        let head =
            "{\n  \"sessionId\": \"long-session-1\",\n  \"lastUpdated\": \"2026-01-01T00:00:00.000Z\",\n";
        format!("{head}  \"messages\": [\n    {}\n  ]\n}}\n", messages.join(",\n    "))
    };
    let left = lines(&mut ToString::to_string);
    let read = lines(&mut |message| message.to_string().replace("\"output\":\" ", "\"output\":\"\\u0020"));
    assert_ne!(left, read);
    let mut seen = Vec::new();
    for text in [left, read] {
        fs::write(&file, text).unwrap();
        scene.server.push([reply().text("Done.")]);
        let run = scene.run(&["--resume", "long", "-p", "go on"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let contents = scene.server.requests().last().unwrap().body["contents"].to_string();
        assert!(contents.contains("<tool_output_masked>") && contents.contains("let é"), "{contents}");
        let outputs: Vec<_> = all_files(&scene.home.gemini_dir())
            .into_iter()
            .filter(|path| path.to_string_lossy().contains("tool-outputs"))
            .map(|path| {
                let text = fs::read_to_string(&path).unwrap();
                fs::remove_file(&path).unwrap();
                (path, text)
            })
            .collect();
        assert!(outputs.iter().any(|(_, text)| text.contains("日")));
        seen.push((contents, outputs));
    }
    let [left, read] = seen.as_slice() else { panic!("two runs") };
    assert_eq!(left.0, read.0);
    assert_eq!(left.1, read.1);
}

#[test]
fn a_session_is_resumed_from_another_folder_when_that_is_said() {
    let scene = recorded("far-session-1");
    let elsewhere = scene.home.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let resume = |args: &[&str]| scene.prompt(args).in_dir(&elsewhere).run();
    assert_eq!(resume(&["--resume", "far-session-1", "-p", "x"]).code, Some(42));
    let run = resume(&["--resume", "far-s", "--all-projects", "-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Second.\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.session_files().len(), 1, "the same file goes on");
    for flag in ["--fork", "--all-projects"] {
        let run = scene.run(&[flag, "-p", "x"]);
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.starts_with(&format!("`{flag}` requires `--resume`")), "{}", run.stderr);
    }
}

#[test]
fn a_session_is_deleted_by_the_beginning_of_its_id_but_never_by_nothing() {
    let scene = recorded("prefix-session-1");
    scene.run(&["--session-id", "prefix-session-2", "-p", "hello"]);
    for which in ["", "latest", "prefix", "pre"] {
        let run = scene.prepare(&["--delete-session", which]).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{which:?}: {}", run.stderr);
    }
    assert_eq!(scene.session_files().len(), 2);
    let run = scene.prepare(&["--delete-session", "prefix-session-1"]).run();
    assert_eq!(run.stdout, "Deleted session 1: hello (Just now)\n");
    let run = scene.prepare(&["--delete-session", "prefix"]).run();
    assert_eq!(run.stdout, "Deleted session 1: hello (Just now)\n", "{}", run.stderr);
}
