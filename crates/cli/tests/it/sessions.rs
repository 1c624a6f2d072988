//! Recorded sessions: their files, listing, resuming, deleting, importing.

use std::fs;
use std::path::PathBuf;

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, keys, lines, panicked, read_json};

/// A session with one tool round under the id `first`.
fn recorded() -> Scene {
    let scene = Scene::with(
        TestHome::new().file("a.txt", "alpha\n"),
        [
            reply()
                .thought("**Plan** secret thinking")
                .text("Reading.")
                .call_with_id("c1", "read_file", json!({"file_path": "a.txt"}))
                .signature("sig-1"),
            reply().text("It says alpha.").usage(50, 5),
        ],
    );
    let run = scene.run(&["--session-id", "first-session-0001", "-p", "read a.txt"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    scene
}

#[test]
fn a_session_file_has_the_documented_name_place_and_shape() {
    let scene = recorded();
    let file = scene.session_files().remove(0);
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("session-20") && name.ends_with("-first-se.json"), "{name}");
    assert_eq!(name.len(), "session-2026-01-02T03-04-first-se.json".len());
    let hash = file.parent().unwrap().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(hash.len(), 64);
    let session = scene.session();
    assert_eq!(session["sessionId"], "first-session-0001");
    assert_eq!(session["projectHash"], hash);
    assert_eq!(session["kind"], "main");
    let messages = session["messages"].as_array().unwrap();
    let kinds: Vec<&str> = messages.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "gemini", "gemini"]);
    assert_eq!(messages[0]["content"], "read a.txt");
    assert_eq!(messages[2]["content"], "It says alpha.");
    assert_eq!(messages[2]["tokens"]["total"], 55);
    assert_eq!(messages[1]["thoughts"][0]["subject"], "Plan");
    let call = &messages[1]["toolCalls"][0];
    assert_eq!((&call["id"], &call["status"]), (&json!("read_file__c1"), &json!("success")));
    assert!(call["result"][0]["functionResponse"]["response"]["output"].as_str().unwrap().contains("alpha"));
    for key in ["name", "args", "timestamp", "displayName", "description", "renderOutputAsMarkdown"] {
        assert!(call.get(key).is_some(), "{key} in {:?}", keys(call));
    }
    assert!(messages.iter().all(|message| message["id"].is_string() && message["timestamp"].is_string()));
}

#[test]
fn a_session_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scene = recorded();
    let mode = fs::metadata(scene.session_files().remove(0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn sessions_are_listed_oldest_first_without_a_key_or_a_request() {
    let scene = recorded();
    scene.server.push([reply().text("ok")]);
    scene.run(&["--session-id", "second-session", "-p", &format!("{}\n second line", "w".repeat(120))]);
    let before = scene.server.requests().len();
    let list = scene.prepare(&["--list-sessions"]).without_env("GEMINI_API_KEY").run();
    let title = format!("{}...", "w".repeat(97));
    assert_eq!(
        list.stdout,
        format!(
            "\nAvailable sessions for this project (2):\n  1. read a.txt (Just now) [first-session-0001]\n  2. {title} (Just now) [second-session]\n"
        )
    );
    assert_eq!((list.stderr.as_str(), list.code), ("", Some(0)));
    assert_eq!(scene.server.requests().len(), before);
}

#[test]
fn no_sessions_is_no_failure_when_listing() {
    let scene = Scene::new([]);
    let list = scene.prepare(&["--list-sessions"]).run();
    assert_eq!(
        (list.stdout.as_str(), list.code),
        ("No previous sessions found for this project.\n", Some(0))
    );
    assert!(!scene.home.gemini_dir().exists(), "listing writes nothing");
}

#[test]
fn resuming_sends_the_history_with_each_answer_once_and_its_signatures() {
    let ways: [&[&str]; 5] =
        [&["--resume", "latest"], &["-r", "1"], &["--resume", "first-session-0001"], &["-r"], &["--resume="]];
    for way in ways {
        let scene = recorded();
        scene.server.push([reply().text("Again.")]);
        let args: Vec<&str> =
            ["-p", "and now?", "-o", "stream-json"].into_iter().chain(way.iter().copied()).collect();
        let run = scene.run(&args);
        assert_eq!(run.code, Some(0), "{way:?}: {}", run.stderr);
        assert_eq!(lines(&run.stdout)[0]["sessionId"], "first-session-0001", "{way:?}");
        let request = scene.server.request(2);
        let whole = request.body["contents"].to_string();
        assert_eq!(whole.matches("\"functionResponse\"").count(), 1, "{way:?}: {whole}");
        assert_eq!(whole.matches("\"thoughtSignature\":\"sig-1\"").count(), 1, "{way:?}: {whole}");
        assert!(whole.contains("It says alpha.") && !whole.contains("secret thinking"), "{whole}");
        assert!(request.last_texts().contains(&"and now?".to_owned()));
        let messages = scene.session()["messages"].as_array().unwrap().len();
        assert_eq!(messages, 5, "{way:?}: the same file goes on");
    }
}

#[test]
fn latest_is_the_session_that_was_updated_last() {
    let scene = recorded();
    scene.server.push([reply().text("b"), reply().text("c"), reply().text("d")]);
    scene.run(&["--session-id", "younger", "-p", "younger prompt"]);
    scene.run(&["--resume", "first-session-0001", "-p", "once more"]);
    let run = scene.run(&["--resume", "latest", "-p", "which?", "-o", "stream-json"]);
    assert_eq!(lines(&run.stdout)[0]["sessionId"], "first-session-0001");
}

#[test]
fn a_session_that_is_not_there_is_exit_42_and_says_how_many_there_are() {
    let scene = recorded();
    for which in ["7", "0", "nope", "first-sessions", "1x"] {
        let run = scene.run(&["--resume", which, "-p", "x"]);
        assert_eq!((run.stdout.as_str(), run.code), ("", Some(42)), "{which}");
        let text = format!("Error resuming session: Invalid session identifier \"{which}\".");
        assert!(run.stderr.contains(&text), "{}", run.stderr);
        assert!(
            run.stderr.contains("  Searched the only session of this project.")
                && run.stderr.contains("  Use --list-sessions"),
            "{}",
            run.stderr
        );
    }
    assert_eq!(scene.server.requests().len(), 2);
}

#[test]
fn resuming_where_nothing_is_starts_a_session_only_if_asked() {
    let scene = Scene::new([reply().text("ok")]);
    let other = scene.run(&["--resume", "3", "-p", "x"]);
    assert_eq!(other.code, Some(42));
    assert!(other.stderr.contains("Error resuming session: No previous sessions found for this project."));
    for args in [&["--resume", "latest", "-p", "x"][..], &["--resume", "-p", "x"]] {
        let latest = scene.run(args);
        assert_eq!((latest.stdout.as_str(), latest.code), ("", Some(42)));
        assert!(latest.stderr.contains("omit `--resume`"), "{}", latest.stderr);
    }
    assert!(scene.server.requests().is_empty());
    let new = scene.run(&["--resume-or-new", "-p", "x"]);
    assert_eq!((new.stdout.as_str(), new.code), ("ok\n", Some(0)), "{}", new.stderr);
    assert!(new.stderr.contains("No previous sessions found for this project."));
}

#[test]
fn an_id_can_be_used_once() {
    let scene = recorded();
    let run = scene.run(&["--session-id", "first-session-0001", "-p", "x"]);
    assert_eq!(run.code, Some(42));
    assert!(run.stderr.contains(
        "Error starting session: Session ID \"first-session-0001\" already exists. Use --resume to resume it, or provide a different ID."
    ));
    assert_eq!(scene.session_files().len(), 1);
}

#[test]
fn of_two_runs_at_once_with_one_id_the_second_is_refused() {
    let scene =
        Scene::new([reply().text("Begun").text("more").stall_after(1), Reply::error(400, "X", "unused")]);
    let args = ["--session-id", "shared-id", "-p", "first", "-o", "stream-json"];
    let running = scene.prompt(&args).spawn();
    running.wait_for_stdout("Begun");
    let second = scene.run(&["--session-id", "shared-id", "-p", "second"]);
    assert_eq!((second.stdout.as_str(), second.code), ("", Some(42)), "{}", second.stderr);
    let told = "Error starting session: Session ID \"shared-id\" already exists.";
    assert!(second.stderr.contains(told), "{}", second.stderr);
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(143));
    let kept = scene.session()["messages"].to_string();
    assert!(kept.contains("first") && !kept.contains("second"), "{kept}");
}

#[test]
fn ids_that_name_files_of_the_project_are_refused_and_never_deleted_with_a_session() {
    let scene = recorded();
    let temp = scene.chats().parent().unwrap().to_path_buf();
    fs::create_dir_all(temp.join("memory")).unwrap();
    fs::write(temp.join("memory/MEMORY.md"), "remembered\n").unwrap();
    let run = scene.run(&["--session-id", "memory", "-p", "x"]);
    assert_eq!(run.code, Some(42));
    let told = "Error starting session: session ID \"memory\" is reserved for files of the project; choose another one";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    // Earlier releases accepted such ids.
    let file = scene.session_files().remove(0);
    let text = fs::read_to_string(&file).unwrap().replace("first-session-0001", "memory");
    fs::write(&file, text).unwrap();
    scene.server.push([reply().text("still here")]);
    let resumed = scene.run(&["--resume", "memory", "-p", "and now"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let run = scene.prepare(&["sessions", "delete", "memory", "--yes"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(scene.session_files().is_empty());
    assert_eq!(fs::read_to_string(temp.join("memory/MEMORY.md")).unwrap(), "remembered\n");
}

#[test]
fn sessions_are_deleted_by_index_or_id_and_a_miss_fails() {
    let scene = recorded();
    for which in ["9", "2abc", "nope", "1abc", "-1", "0"] {
        let run = scene.prepare(&[&format!("--delete-session={which}")]).run();
        assert_ne!(run.code, Some(0), "{which}");
        let text =
            format!("Invalid session identifier \"{which}\". Use --list-sessions to see available sessions.");
        assert!(run.stderr.contains(&text), "{}", run.stderr);
        assert_eq!(scene.session_files().len(), 1);
    }
    scene.server.push([reply().text("ok")]);
    scene.run(&["--session-id", "first-session-0002", "-p", "twin with the same eight letters"]);
    let run = scene.prepare(&["--delete-session", "1"]).without_env("GEMINI_API_KEY").run();
    assert_eq!((run.stdout.trim_end(), run.code), ("Deleted session 1: read a.txt (Just now)", Some(0)));
    assert_eq!(scene.session()["sessionId"], "first-session-0002", "the twin stays");
    let run = scene.prepare(&["--delete-session", "first-session-0002"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(scene.session_files().is_empty());
    let none = scene.prepare(&["--delete-session", "1"]).run();
    assert!(
        none.code != Some(0) && none.stderr.contains("No sessions found for this project."),
        "{}",
        none.stderr
    );
}

#[test]
fn a_file_from_elsewhere_is_imported_under_a_fresh_id_and_left_alone() {
    let scene = recorded();
    let source = scene.home.project().join("theirs.json");
    fs::rename(scene.session_files().remove(0), &source).unwrap();
    let before = fs::read(&source).unwrap();
    scene.server.push([reply().text("Imported.")]);
    let run = scene.run(&["--session-file", "theirs.json", "-p", "go on", "-o", "stream-json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_ne!(lines(&run.stdout)[0]["sessionId"], "first-session-0001");
    assert!(scene.server.request(2).body.to_string().contains("It says alpha."));
    assert_eq!(fs::read(&source).unwrap(), before);
    assert_eq!(scene.session_files().len(), 1);

    let missing = scene.run(&["--session-file", "no-such.json", "-p", "x"]);
    assert_eq!(missing.code, Some(42), "{}", missing.stderr);
    assert!(missing.stderr.contains("no-such.json"), "{}", missing.stderr);
}

#[test]
fn a_start_that_fails_leaves_no_copy() {
    let scene = recorded();
    let own = scene.session_files();
    fs::copy(&own[0], scene.home.project().join("theirs.json")).unwrap();
    for source in [&["--resume", "latest", "--fork"][..], &["--session-file", "theirs.json"]] {
        let args = |more: &[&'static str]| -> Vec<&str> { [source, more].concat() };
        let run = scene.prompt(&args(&["-p", "x"])).without_env("GEMINI_API_KEY");
        let run = run.without_env("GOOGLE_GEMINI_BASE_URL").run();
        assert_eq!(run.code, Some(41), "{source:?}: {}", run.stderr);
        let run = scene.prompt(&args(&["-p", ""])).run();
        assert_eq!(run.code, Some(42), "{source:?}: {}", run.stderr);
        assert_eq!(scene.session_files(), own, "{source:?}");
    }
    scene.server.push([reply().text("Copied.")]);
    let run = scene.run(&["--resume", "latest", "--fork", "-p", "go on"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.session_files().len(), 2);
}

#[test]
fn upstreams_record_log_is_written_on_request_and_read_by_both() {
    let home = TestHome::new().settings(json!({"general": {"sessionFormat": "jsonl"}}));
    let scene = Scene::with(home, [reply().text("one"), reply().text("two")]);
    scene.run(&["--session-id", "log", "-p", "first"]);
    let file = scene.session_files().remove(0);
    assert!(file.to_string_lossy().ends_with(".jsonl"));
    let records = lines(&fs::read_to_string(&file).unwrap());
    assert_eq!(records[0]["sessionId"], "log");
    assert!(records.iter().any(|record| record["type"] == "user"));
    scene.run(&["--resume", "log", "-p", "second"]);
    let sent = scene.server.request(1).body["contents"].to_string();
    assert!(sent.contains("first") && sent.contains("one"), "{sent}");
    assert_eq!(scene.session_files(), [file]);
}

/// Puts a file among the sessions.
fn put(scene: &Scene, name: &str, bytes: &[u8]) -> PathBuf {
    let path = scene.chats().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn broken_session_files_are_reported_and_never_touched() {
    let scene = recorded();
    let whole = fs::read(scene.session_files().remove(0)).unwrap();
    let future =
        json!({"version": 9, "format": "next", "sessionId": {"new": true}, "turns": [1, 2]}).to_string();
    let bad = [
        ("session-2026-01-01T00-00-00000000.json", Vec::new()),
        ("session-2026-01-01T00-01-11111111.json", vec![0xff, 0x00, 0xfe, 0x07]),
        ("session-2026-01-01T00-02-22222222.json", whole[..20].to_vec()),
        ("session-2026-01-01T00-03-33333333.json", future.into_bytes()),
        ("session-2026-01-01T00-04-44444444.json", b"[]".to_vec()),
        ("session-2026-01-01T00-05-55555555.jsonl", b"\n\nnot json\n".to_vec()),
    ];
    let paths: Vec<PathBuf> = bad.iter().map(|(name, bytes)| put(&scene, name, bytes)).collect();
    fs::create_dir(scene.chats().join("session-2026-01-01T00-06-66666666.json")).unwrap();
    let list = scene.prepare(&["--list-sessions"]).run();
    assert_eq!(list.code, Some(0));
    assert!(list.stdout.contains("(1):\n  1. read a.txt"), "{}", list.stdout);
    for (name, _) in &bad {
        assert!(list.stderr.contains(name), "{name} is not reported: {}", list.stderr);
    }
    scene.server.push([reply().text("ok")]);
    let resumed = scene.run(&["--resume", "latest", "-p", "x"]);
    assert_eq!((resumed.stdout.as_str(), resumed.code), ("ok\n", Some(0)), "{}", resumed.stderr);
    for (path, (name, bytes)) in paths.iter().zip(&bad) {
        assert_eq!(&fs::read(path).unwrap(), bytes, "{name}");
    }
    assert!(!panicked(&list) && !panicked(&resumed));
}

#[test]
fn a_file_cut_anywhere_after_its_first_message_can_be_resumed() {
    let source = recorded();
    let whole = fs::read(source.session_files().remove(0)).unwrap();
    let name = source.session_files().remove(0).file_name().unwrap().to_owned();
    let text = String::from_utf8(whole.clone()).unwrap();
    let after_first = text.find("\"type\":\"gemini\"").unwrap();
    let step = (whole.len() - after_first) / 6;
    for cut in (0..6).map(|n| after_first + n * step).chain([whole.len() - 1, whole.len() - 3]) {
        let scene = recorded();
        let file = scene.chats().join(&name);
        for old in scene.session_files() {
            fs::remove_file(old).unwrap();
        }
        fs::write(&file, &whole[..cut]).unwrap();
        let list = scene.prepare(&["--list-sessions"]).run();
        assert!(list.stdout.contains("read a.txt"), "cut at {cut}: {} {}", list.stdout, list.stderr);
        assert_eq!(fs::read(&file).unwrap(), &whole[..cut], "listing changes nothing");
        scene.server.push([reply().text("Going on.")]);
        let run = scene.run(&["--resume", "-p", "go on"]);
        assert_eq!((run.stdout.as_str(), run.code), ("Going on.\n", Some(0)), "cut at {cut}: {}", run.stderr);
        let session = read_json(&scene.session_files().remove(0));
        let contents: Vec<&Value> =
            session["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
        assert_eq!(contents[0], "read a.txt", "cut at {cut}");
        assert_eq!(contents.last().unwrap(), &"Going on.", "cut at {cut}");
        assert!(scene.server.requests().last().unwrap().body.to_string().contains("read a.txt"));
    }
}

#[test]
fn a_session_in_use_is_not_written_by_a_second_program() {
    let scene = recorded();
    scene.server.push([reply().text("Begun").text("more").stall_after(1), Reply::error(400, "X", "unused")]);
    let running = scene.prompt(&["--resume", "-p", "slow", "-o", "stream-json"]).spawn();
    running.wait_for_stdout("Begun");
    let second = scene.run(&["--resume", "-p", "me too"]);
    assert_eq!(second.code, Some(42), "{}", second.stderr);
    assert!(second.stderr.contains("Error resuming session: "), "{}", second.stderr);
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(143));
    let kept = scene.session()["messages"].to_string();
    assert!(kept.contains("slow") && !kept.contains("me too"));
}

#[test]
fn sessions_of_a_project_known_to_upstream_go_to_its_folder() {
    let scene = Scene::new([reply().text("ok")]);
    let root = fs::canonicalize(scene.home.project()).unwrap();
    let projects = json!({"projects": {root.to_str().unwrap(): "my-project"}});
    fs::create_dir_all(scene.home.gemini_dir()).unwrap();
    fs::write(scene.home.gemini_dir().join("projects.json"), projects.to_string()).unwrap();
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    assert!(scene.chats().ends_with("tmp/my-project/chats"), "{:?}", scene.chats());
}

#[test]
fn each_turn_writes_only_what_is_new() {
    let scene = recorded();
    let file = scene.session_files().remove(0);
    let before = fs::read_to_string(&file).unwrap();
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(&file).unwrap().ino();
    scene.server.push([reply().text("Short.")]);
    scene.run(&["--resume", "-p", "more"]);
    let after = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "the file is not replaced");
    // All that stood stays in place, but for the closing brackets and the time of the last update.
    let tail = before.rfind("\n  ]").unwrap();
    let head = before.find("\"messages\"").unwrap();
    assert_eq!(before.get(head..tail).unwrap(), after.get(head..tail).unwrap());
}
