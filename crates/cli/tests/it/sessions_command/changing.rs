//! `pollux sessions`: exporting, importing, deleting, pruning, repairing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pollux_domain::content::Part;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock};
use pollux_session::{NewSession, Recorder, SessionFormat, SessionKind};
use pollux_test_support::{TestHome, reply};
use serde_json::json;

use super::archive::{CLAUDE_ID, Home, OTHER, agent, user};
use crate::scene::{Scene, all_files, keys, read_json};

fn one() -> (Home, PathBuf) {
    let home = Home::new();
    let file =
        home.session("alpha-0001", "2026-01-02T03:04:05.000Z", &[user("u1", "hello"), agent("g1", "Hi.")]);
    (home, file)
}

#[test]
fn an_export_is_the_whole_record_and_replaces_nothing_by_accident() {
    let (home, _) = one();
    let run = home.run(&["sessions", "export", "1", "--output", "out.json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = home.test.read("out.json");
    assert!(text.starts_with("{\n  \"sessionId\": \"alpha-0001\""), "{text}");
    let record = read_json(&home.test.project().join("out.json"));
    for key in [
        "projectHash",
        "startTime",
        "lastUpdated",
        "kind",
        "messages",
        "messageCount",
        "userMessageCount",
        "firstUserMessage",
        "hasResumableContent",
    ] {
        assert!(record.get(key).is_some(), "{key} in {:?}", keys(&record));
    }
    assert_eq!(record["messages"][1]["content"], "Hi.");
    fs::write(home.test.project().join("out.json"), "mine").unwrap();
    let again = home.run(&["sessions", "export", "1", "-o", "out.json"]);
    assert_eq!((again.code, home.test.read("out.json").as_str()), (Some(42), "mine"));
    let told = home.json(&["sessions", "export", "1", "-o", "out.json", "--yes", "--json"]);
    assert_eq!(told["sessionId"], "alpha-0001");
    assert!(home.test.read("out.json").contains("Hi."));
}

#[test]
fn a_file_is_imported_as_a_session_of_this_project() {
    let (home, file) = one();
    home.run(&["sessions", "export", "1", "--output", "out.json"]);
    let told = home.json(&["sessions", "import", "out.json", "--json"]);
    let id = told["sessionId"].as_str().unwrap();
    assert_ne!(id, "alpha-0001");
    assert!(home.run(&["sessions", "transcript", id]).stdout.ends_with("user: hello\n\nagent: Hi.\n"));
    assert!(file.exists());
    for (what, code) in [("no-such.json", 42), ("note.txt", 42)] {
        fs::write(home.test.project().join("note.txt"), "no session").unwrap();
        let run = home.run(&["sessions", "import", what]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(code), ""), "{what}");
        assert!(run.stderr.contains("hint: "), "{}", run.stderr);
    }
}

#[test]
fn a_session_of_another_agent_is_gone_on_with_here() {
    let scene = Scene::new([reply().text("Going on.")]);
    let home = Home::new();
    let source = home.claude("fix the parser");
    let before = fs::read(&source).unwrap();
    let told = home.json(&["sessions", "import", CLAUDE_ID, "--source", "claude", "--json"]);
    let id = told["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(fs::read(&source).unwrap(), before);
    let run = home
        .test
        .command(crate::scene::binary(), ["-m", "test-model", "--resume", &id, "-p", "and now?"])
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .against(&scene.server)
        .run();
    assert_eq!((run.stdout.as_str(), run.code), ("Going on.\n", Some(0)), "{}", run.stderr);
    let sent = scene.server.request(0).body["contents"].to_string();
    assert!(sent.contains("fix the parser") && sent.contains("[tool Bash: make; failed: no rule]"), "{sent}");
    // A file that was copied from the store is as good.
    fs::copy(&source, home.test.project().join("copy.jsonl")).unwrap();
    assert_eq!(home.run(&["sessions", "import", "copy.jsonl", "--source", "claude"]).code, Some(0));
    assert_eq!(home.run(&["sessions", "import", "copy.jsonl", "--source", "codex"]).code, Some(42));
}

#[test]
fn deleting_names_what_goes_and_asks_first() {
    let (home, file) = one();
    let outputs = home.chats().with_file_name("tool-outputs").join("session-alpha-0001");
    fs::create_dir_all(&outputs).unwrap();
    fs::write(outputs.join("out.txt"), "x").unwrap();
    let asked = home.run(&["sessions", "delete", "1"]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(42), ""));
    for path in [&file, &outputs] {
        assert!(asked.stderr.contains(path.to_str().unwrap()), "{}", asked.stderr);
        assert!(path.exists());
    }
    let done = home.json(&["sessions", "delete", "alph", "--yes", "--json"]);
    assert_eq!(
        (&done["sessions"][0]["sessionId"], &done["sessions"][0]["deleted"]),
        (&json!("alpha-0001"), &json!(true))
    );
    assert!(!file.exists() && !outputs.exists());
    let gone = home.run(&["sessions", "delete", "1", "--yes"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(42), ""));
}

#[test]
fn a_question_on_a_terminal_is_answered_by_a_person() {
    let (home, file) = one();
    for (answer, is_left) in [("n", true), ("y", false)] {
        let mut terminal =
            home.test.command(crate::scene::binary(), ["sessions", "delete", "1"]).on_terminal();
        terminal.expect("Delete it? [y/N] ").say(answer);
        terminal.expect(if is_left { "Nothing was changed." } else { "Deleted session alpha-0001" });
        let (code, _) = terminal.end();
        assert_eq!((code, file.exists()), (Some(i32::from(is_left)), is_left));
    }
}

#[test]
fn a_session_in_use_and_those_of_others_are_not_deleted() {
    let (home, _) = one();
    let mut recorder = Recorder::create(NewSession {
        id: SessionId::parse("busy-0001").unwrap(),
        project_hash: pollux_config::paths::sha256_hex(home.project().as_bytes()),
        chats_dir: home.chats(),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now: SystemClock.now(),
    })
    .unwrap();
    recorder.user(&[Part::text("working")], None, SystemClock.now()).unwrap();
    let run = home.run(&["sessions", "delete", "busy-0001", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{}", run.stderr);
    assert!(run.stderr.contains("in use"), "{}", run.stderr);
    assert!(recorder.path().unwrap().exists());
    let store = home.claude("theirs");
    let run = home.run(&["sessions", "delete", CLAUDE_ID, "--source", "claude", "--yes"]);
    assert_eq!(run.code, Some(42));
    assert!(run.stderr.starts_with("sessions of Claude Code are read-only") && store.exists());
    // What is of another project is deleted only when that is said.
    let other = home.session_in(OTHER, "gamma-0003", "2026-03-02T03:04:05.000Z", &[user("u", "x")]);
    assert_eq!(home.run(&["sessions", "delete", "gamma-0003", "--yes"]).code, Some(42));
    assert!(other.exists());
    assert_eq!(home.run(&["sessions", "delete", "gamma-0003", "--all-projects", "--yes"]).code, Some(0));
    assert!(!other.exists());
}

#[test]
fn pruning_says_why_and_keeps_to_the_settings() {
    let home =
        Home::with(TestHome::new().settings(json!({"general": {"sessionRetention": {"maxAge": "30d"}}})));
    let old = home.session("alpha-0001", "2020-01-02T03:04:05.000Z", &[user("u1", "old")]);
    let other = home.session_in(OTHER, "gamma-0003", "2020-03-02T03:04:05.000Z", &[user("u", "older")]);
    let new = home.session("beta-0002", &SystemClock.now().to_iso(), &[user("u1", "new")]);
    let dry = home.run(&["sessions", "prune", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    for path in [&old, &other] {
        assert!(dry.stdout.contains(path.to_str().unwrap()) && path.exists(), "{}", dry.stdout);
    }
    assert!(dry.stdout.contains(", too old, ") && !dry.stdout.contains("beta-0002"), "{}", dry.stdout);
    assert_eq!(home.run(&["sessions", "prune"]).code, Some(42));
    assert!(old.exists());
    let done = home.json(&["sessions", "prune", "--yes", "--json"]);
    assert_eq!((done["sessions"].as_array().unwrap().len(), &done["kept"]), (2, &json!(1)));
    assert!(!old.exists() && !other.exists() && new.exists());
    assert!(home.run(&["sessions", "prune", "--yes"]).stdout.starts_with("Nothing to delete ("));
}

#[test]
fn pruning_refuses_limits_that_contradict_each_other() {
    let retention = json!({"maxAge": "1d", "minRetention": "7d"});
    let home = Home::with(TestHome::new().settings(json!({"general": {"sessionRetention": retention}})));
    let old = home.session("alpha-0001", "2020-01-02T03:04:05.000Z", &[user("u1", "old")]);
    let run = home.run(&["sessions", "prune", "--yes"]);
    assert_eq!((run.code, old.exists()), (Some(52), true), "{}", run.stderr);
    let told =
        "`general.sessionRetention.minRetention` `7d` is longer than `maxAge` `1d`; no sessions were deleted";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_session_of_another_machine_is_left_alone_and_its_lock_named() {
    let (home, file) = one();
    let name = file.file_name().unwrap().to_str().unwrap();
    let lock = file.with_file_name(format!(".{name}.lock"));
    fs::write(&lock, r#"{"pid":7,"host":"elsewhere.example"}"#).unwrap();
    for args in [
        &["sessions", "delete", "1", "--yes"][..],
        &["sessions", "rewind", "1", "--to", "1", "--conversation", "--yes"],
    ] {
        let run = home.run(args);
        assert_eq!((run.code, file.exists()), (Some(42), true), "{args:?}: {}", run.stderr);
        let told = format!(
            "in use by process 7 on `elsewhere.example` (if it is no longer running, delete `{}`)",
            lock.display()
        );
        assert!(run.stderr.contains(&told), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn pruning_does_nothing_where_sessions_are_kept_for_ever() {
    let home =
        Home::with(TestHome::new().settings(json!({"general": {"sessionRetention": {"enabled": false}}})));
    let old = home.session("alpha-0001", "2020-01-02T03:04:05.000Z", &[user("u1", "old")]);
    let run = home.run(&["sessions", "prune", "--yes"]);
    assert_eq!((run.code, old.exists()), (Some(42), true));
    assert!(run.stderr.contains("hint: set `enabled`"), "{}", run.stderr);
}

/// A session of another year.
fn place_old_session(scene: &Scene) -> PathBuf {
    let old = scene.chats().join("session-2020-01-02T03-04-alpha-00.json");
    let hash = scene.session()["projectHash"].clone();
    let time = "2020-01-02T03:04:05.000Z";
    let record = json!({"sessionId": "alpha-0001", "projectHash": hash, "startTime": time, "lastUpdated": time,
        "messages": [{"id": "u", "timestamp": time, "type": "user", "content": "old"}]});
    fs::write(&old, record.to_string()).unwrap();
    set_modified(&old, SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_934_245));
    old
}

fn set_modified(file: &Path, time: SystemTime) {
    fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_clock_that_may_have_jumped_deletes_no_session_before_the_next_day() {
    let settings = json!({"general": {"sessionRetention": {"maxAge": "30d"}}});
    let replies = ["a", "b", "c"].map(|text| reply().text(text));
    let scene = Scene::with(TestHome::new().settings(settings), replies);
    scene.run(&["--session-id", "first", "-p", "x"]);
    let log = scene.home.gemini_dir().join("pollux/retention.log");
    let old = place_old_session(&scene);
    let day = Duration::from_secs(24 * 60 * 60);
    set_modified(&log, SystemTime::now() - 15 * day);
    scene.run(&["--session-id", "second", "-p", "x"]);
    let text = fs::read_to_string(&log).unwrap();
    assert!(old.exists() && text.contains("deletes nothing until tomorrow"), "{text}");
    // However rarely the program runs, it is put off only once.
    set_modified(&log, SystemTime::now() - 20 * day);
    scene.run(&["--session-id", "third", "-p", "x"]);
    assert!(!old.exists());
}

#[test]
fn old_sessions_go_after_a_run_only_where_somebody_chose_that() {
    for (settings, stays) in [
        (json!({}), true),
        (json!({"general": {"sessionRetention": {"maxAge": "30d"}}}), false),
        (json!({"general": {"sessionRetention": {"enabled": false, "maxAge": "30d"}}}), true),
    ] {
        let scene =
            Scene::with(TestHome::new().settings(settings.clone()), [reply().text("a"), reply().text("b")]);
        scene.run(&["--session-id", "first", "-p", "x"]);
        let log = scene.home.gemini_dir().join("pollux/retention.log");
        assert_eq!(log.exists(), !stays, "{settings}");
        let _ = fs::remove_file(&log);
        let old = place_old_session(&scene);
        let run = scene.run(&["--session-id", "second", "-p", "x"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        assert_eq!(old.exists(), stays, "{settings}");
        if !stays {
            let text = fs::read_to_string(&log).unwrap();
            assert!(text.contains("deleted session alpha-0001 (too old"), "{text}");
        }
        assert_eq!(scene.session_files().len(), if stays { 3 } else { 2 });
    }
}

#[test]
fn invalid_limits_are_reported_once_and_delete_nothing() {
    for (limits, expected) in [
        (json!({"maxAge": "abc"}), "invalid `general.sessionRetention.maxAge` `abc`"),
        (json!({"maxAge": "30"}), "invalid `general.sessionRetention.maxAge` `30`"),
        (json!({"maxAge": "1d", "minRetention": "7d"}), "`minRetention` `7d` is longer than `maxAge` `1d`"),
        (json!({"maxCount": -1}), "invalid `general.sessionRetention.maxCount` -1"),
    ] {
        let settings = json!({"general": {"sessionRetention": limits.clone()}});
        let replies = ["a", "b"].map(|text| reply().text(text));
        let scene = Scene::with(TestHome::new().settings(settings), replies);
        assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
        let old = place_old_session(&scene);
        let run = scene.run(&["-p", "x"]);
        let stderr =
            run.stderr.replace("`general.sessionRetention.minRetention` `7d`", "`minRetention` `7d`");
        assert_eq!((run.code, stderr.matches(expected).count()), (Some(0), 1), "{limits}: {}", run.stderr);
        assert!(old.exists(), "{limits}");
    }
}

#[test]
fn a_damaged_file_is_found_and_repaired_with_a_copy_kept() {
    let (home, file) = one();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    let torn = fs::read(&file).unwrap();
    let found = home.run(&["sessions", "verify"]);
    assert_eq!(found.code, Some(1));
    assert!(
        found.stdout.contains("  damaged: the file is cut off at byte ")
            && found.stdout.ends_with("1 session files checked, 1 damaged.\n"),
        "{}",
        found.stdout
    );
    assert!(found.stderr.contains("hint: run `pollux sessions verify --repair`"), "{}", found.stderr);
    assert_eq!(fs::read(&file).unwrap(), torn);
    let mended = home.json(&["sessions", "verify", "--repair", "--json"]);
    assert_eq!(
        (&mended["checked"], &mended["damaged"], &mended["repaired"]),
        (&json!(1), &json!(0), &json!(1))
    );
    let backup = mended["files"][0]["backup"].as_str().unwrap();
    assert_eq!(fs::read(backup).unwrap(), torn);
    let again = home.run(&["sessions", "verify"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "1 session files checked, 0 damaged.\n"));
}

#[test]
fn what_is_no_session_is_told_and_left_alone() {
    let (home, _) = one();
    let bad = home.chats().join("session-2026-01-01T00-00-bad.json");
    fs::write(&bad, "not json").unwrap();
    let before = all_files(&home.chats());
    let run = home.run(&["sessions", "verify", "--repair"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains(bad.to_str().unwrap()), "{}", run.stdout);
    let list = home.run(&["sessions", "list"]);
    assert!(list.stdout.contains("alpha-0001") && list.stderr.starts_with("Warning: "), "{}", list.stderr);
    assert_eq!(
        (all_files(&home.chats()), fs::read_to_string(&bad).unwrap()),
        (before, "not json".to_owned())
    );
}
