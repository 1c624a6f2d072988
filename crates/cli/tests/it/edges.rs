//! Files and places that are not as they should be.

use std::fs::{self, File};
use std::process::Command;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, binary, lines, of_type, panicked, read_json, scripted};

/// The results of these calls, run without questions, and the scene.
fn results(scene: &Scene, calls: &[(&str, Value)]) -> Vec<Value> {
    let step = calls.iter().fold(reply(), |reply, (name, args)| reply.call(name, args.clone()));
    scene.server.push([step, reply().text("ok")]);
    let run = scene.run(&["-p", "x", "--yolo", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!panicked(&run), "{}", run.stderr);
    let events = lines(&run.stdout);
    of_type(&events, "tool_result").into_iter().cloned().collect()
}

#[test]
fn odd_files_get_clear_answers() {
    let scene = Scene::with(TestHome::new().file("empty.txt", "").file("adir/x", "x"), []);
    let project = scene.home.project();
    File::create(project.join("huge.log")).unwrap().set_len(3 << 30).unwrap();
    fs::write(project.join("binary.dat"), [0u8, 159, 146, 150, 0, 1]).unwrap();
    assert!(Command::new("mkfifo").arg(project.join("pipe")).status().unwrap().success());
    let read = |path: &str| ("read_file", json!({"file_path": path}));
    let found = results(
        &scene,
        &[
            read("huge.log"),
            read("empty.txt"),
            read("adir"),
            read("binary.dat"),
            read("pipe"),
            read("/dev/zero"),
            read(""),
            ("read_file", json!({})),
            ("write_file", json!({"file_path": "adir", "content": "x"})),
            ("write_file", json!({"file_path": "pipe", "content": "x"})),
            ("list_directory", json!({"dir_path": "empty.txt"})),
        ],
    );
    let kinds: Vec<&str> =
        found.iter().map(|result| result["error"]["type"].as_str().unwrap_or("ok")).collect();
    assert_eq!(
        kinds,
        [
            "file_too_large",
            "ok",
            "target_is_directory",
            "ok",
            "read_content_failure",
            "invalid_tool_params",
            "invalid_tool_params",
            "invalid_tool_params",
            "invalid_tool_params",
            "file_write_failure",
            "path_is_not_a_directory",
        ],
        "{found:#?}"
    );
}

#[test]
fn a_context_file_that_is_a_folder_or_no_text_stops_nothing() {
    let scene = Scene::with(TestHome::new().file("GEMINI.md/x", "x"), [reply().text("ok")]);
    fs::create_dir_all(scene.home.gemini_dir()).unwrap();
    fs::write(scene.home.gemini_dir().join("GEMINI.md"), [0xff, 0xfe, 0, 1]).unwrap();
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
}

#[test]
fn a_home_that_cannot_be_written_costs_the_recording_only() {
    let scene = Scene::new([reply().text("ok")]);
    let file = scene.home.home().join("a-file");
    fs::write(&file, "").unwrap();
    let run = scene.prompt(&["-p", "x"]).env("GEMINI_CLI_HOME", file.to_str().unwrap()).run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert!(run.stderr.contains("no longer recorded"), "{}", run.stderr);
}

/// Runs the program where a small disk is mounted on `disk/`; `None` where that is not allowed.
fn on_a_small_disk(home: &TestHome, kilobytes: u32, script: &str) -> Option<pollux_test_support::Run> {
    let disk = home.project().join("disk");
    fs::create_dir_all(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size={kilobytes}k tmpfs disk || exit 99; {script}");
    let run = home
        .command(
            "unshare".as_ref(),
            ["--user", "--map-root-user", "--mount", "sh", "-c", &mount, binary().to_str().unwrap()],
        )
        .run();
    let allowed = run.code != Some(99) && !run.stderr.contains("unshare");
    allowed.then_some(run)
}

#[test]
fn a_full_disk_under_the_project_is_exit_54_and_the_old_file_stays() {
    let call = json!({"functionCall": {"name": "write_file", "args": {"file_path": "a.txt", "content": "new ".repeat(5000)}}});
    let home =
        TestHome::new().file("script.jsonl", &scripted(&[call])).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let script = "cd disk && echo old > a.txt && head -c 100000 /dev/zero > fill; \"$0\" -m m -p x --yolo --fake-responses ../script.jsonl; code=$?; cat a.txt; exit $code";
    let Some(run) = on_a_small_disk(&home, 64, script) else { return };
    assert_eq!(run.code, Some(54), "{} {}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "old\n");
    assert!(run.stderr.contains("No space left on device"), "{}", run.stderr);
}

#[test]
fn a_disk_that_fills_up_under_the_session_leaves_a_valid_file() {
    let step = |n: u64| {
        let words: Vec<String> = (1..200).map(|k| (n * 7919 * k).to_string()).collect();
        let call = json!({"functionCall": {"name": "glob", "args": {"pattern": format!("{n}*")}}});
        scripted(&[json!({"text": words.join(" ")}), call])
    };
    let script: String = (1..30).map(step).chain([scripted(&[json!({"text": "The end."})])]).collect();
    let home = TestHome::new().file("script.jsonl", &script).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let script = "GEMINI_CLI_HOME=\"$PWD/disk\" \"$0\" -m m -p x --fake-responses script.jsonl; code=$?; cp -r disk copy; exit $code";
    let Some(run) = on_a_small_disk(&home, 32, script) else { return };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.ends_with("The end.\n"), "the conversation goes on");
    assert_eq!(run.stderr.matches("no longer recorded").count(), 1, "{}", run.stderr);
    let files = crate::scene::all_files(&home.project().join("copy"));
    let session = files.iter().find(|file| file.to_string_lossy().contains("session-")).unwrap();
    let messages = read_json(session)["messages"].as_array().unwrap().len();
    assert!(messages > 3, "{messages}");
}

#[test]
fn a_command_is_over_when_it_exits_even_if_something_it_started_goes_on() {
    let scene = Scene::new([]);
    let command = "sleep 600 & echo $! > pid.txt; echo started";
    let started = std::time::Instant::now();
    let found = results(&scene, &[("run_shell_command", json!({"command": command}))]);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert_eq!(found[0]["status"], "success");
    assert!(found[0]["output"].as_str().unwrap().contains("started"), "{}", found[0]);
    let pid = scene.home.read("pid.txt");
    // It may rightly live on; this test has no further use for it.
    let _ = Command::new("kill").args(["-KILL", pid.trim()]).output();
}

#[test]
fn two_runs_at_once_keep_apart() {
    let scene = Scene::new([reply().text("same"), reply().text("same")]);
    let first = scene.prompt(&["-p", "from the first", "--session-id", "one"]).spawn();
    let second = scene.prompt(&["-p", "from the second", "--session-id", "two"]).spawn();
    assert_eq!((first.wait().code, second.wait().code), (Some(0), Some(0)));
    let mut found: Vec<(String, usize)> = scene
        .session_files()
        .iter()
        .map(|file| read_json(file))
        .map(|session| {
            (session["sessionId"].as_str().unwrap().to_owned(), session["messages"].as_array().unwrap().len())
        })
        .collect();
    found.sort();
    assert_eq!(found, [("one".to_owned(), 2), ("two".to_owned(), 2)]);
}

#[test]
fn a_long_answer_in_many_chunks_arrives_whole() {
    let expected: String = (0..2000u64).map(|n| format!("{} ", n * 7919)).collect();
    let reply = (0..2000u64).fold(reply(), |reply, n| reply.text(&format!("{} ", n * 7919)));
    let scene = Scene::new([reply]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.stdout, format!("{expected}\n"));
    assert_eq!(scene.session()["messages"][1]["content"].as_str().unwrap().trim(), expected.trim());
}

#[test]
fn a_deleted_working_directory_ends_the_run_before_anything_happens() {
    let home = TestHome::new();
    let run = |args: &[&str]| {
        let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\"";
        let args = ["-c", script, binary().to_str().unwrap()].into_iter().chain(args.iter().copied());
        home.command("/bin/sh".as_ref(), args).run()
    };
    for args in [&["-p", "hi", "--yolo"][..], &["sessions", "list"], &["trust", "show"]] {
        let run = run(args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.starts_with("the working directory no longer exists\n"), "{}", run.stderr);
    }
    assert!(!home.gemini_dir().join("tmp").exists());
    assert_eq!(run(&["--version"]).code, Some(0));
}
