//! `pollux memory` from the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::memory::{memory, remembering, state, with_vectors};
use crate::scene::{Scene, all_files, keys, parse, read_json};

#[test]
fn it_is_switched_in_the_users_own_settings() {
    let scene = Scene::with(TestHome::new().home_file(".gemini/settings.json", "{\n  // mine\n}\n"), []);
    let status = memory(&scene, &["status"]);
    assert!(status.stdout.starts_with("Durable memory is off"), "{}", status.stdout);
    assert_eq!(parse(&memory(&scene, &["status", "--json"]).stdout)["enabled"], false);
    for args in [&["search", "x"][..], &["index"], &["get", "MEMORY.md"]] {
        let run = memory(&scene, args);
        assert_eq!(run.code, Some(1), "{args:?}");
        assert!(run.stderr.contains("pollux memory enable") && run.stdout.is_empty(), "{}", run.stderr);
    }
    assert!(!state(&scene).exists(), "a question opens nothing while it is off");

    let on = memory(&scene, &["enable"]);
    assert_eq!(on.code, Some(0), "{}", on.stderr);
    assert!(
        on.stdout.starts_with("Durable memory is on") && on.stdout.contains("sent to gemini"),
        "{}",
        on.stdout
    );
    let file = scene.home.gemini_dir().join("settings.json");
    assert!(fs::read_to_string(&file).unwrap().contains("// mine"));
    assert_eq!(memory(&scene, &["enable"]).stdout, "Durable memory is already on.\n");
    let off = memory(&scene, &["disable"]);
    assert!(off.stdout.starts_with("Durable memory is off"), "{}", off.stdout);
}

#[test]
fn what_an_administrator_switches_off_stays_off_and_that_is_said() {
    let home = TestHome::new().home_file("system.json", r#"{"memory": {"enabled": false}}"#);
    let system = home.home().join("system.json");
    let scene = Scene::with(home.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", system.to_str().unwrap()), []);
    let run = memory(&scene, &["enable"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("is still off") && run.stderr.contains("system.json"), "{}", run.stderr);
}

#[test]
fn without_a_provider_search_goes_by_words_and_says_so() {
    let home = remembering().file("MEMORY.md", "# Facts\n\nThe mascot is an otter called Bruno.\n");
    let scene = Scene::with(home, []);
    let run = memory(&scene, &["search", "who", "is", "the", "mascot"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("1. MEMORY.md#L1-L") && run.stdout.contains("Bruno"), "{}", run.stdout);
    assert_eq!(run.stderr.matches("Keyword search only").count(), 1, "{}", run.stderr);
    assert!(scene.server.requests().is_empty());
}

#[test]
fn an_index_is_made_brought_up_to_date_and_made_anew() {
    let home = with_vectors()
        .file("MEMORY.md", "The mascot is an otter.\n")
        .file("memory/a.md", "Lunch is at noon.\n");
    let scene = Scene::with(home, []);
    let first = parse(&memory(&scene, &["index", "--json"]).stdout);
    assert_eq!(first["changed"], 2, "{first}");
    assert!(first["embedded"].as_u64().unwrap() >= 2, "{first}");
    let second = parse(&memory(&scene, &["index", "--json"]).stdout);
    assert_eq!((&second["changed"], &second["embedded"]), (&json!(0), &json!(0)), "{second}");
    let forced = parse(&memory(&scene, &["index", "--force", "--json"]).stdout);
    assert!(forced["reindexed"].is_string() && forced["embedded"] == 0, "{forced}");
    let status = parse(&memory(&scene, &["status", "--json"]).stdout);
    assert_eq!((&status["enabled"], &status["provider"]), (&json!(true), &json!("gemini")), "{status}");
    assert!(status["chunks"].as_u64().unwrap() >= 2 && status["dirty"] == false, "{status}");
    let text = memory(&scene, &["status"]).stdout;
    assert!(text.contains("Vectors by       gemini"), "{text}");
}

#[test]
fn a_search_for_programs_has_the_documented_form() {
    let home = with_vectors().file("memory/2026-03-01.md", "We dropped the cache because it was stale.\n");
    let scene = Scene::with(home, []);
    let run = memory(&scene, &["search", "why did we drop the cache", "--json"]);
    let found = parse(&run.stdout);
    let hit = &found["results"][0];
    for key in ["path", "startLine", "endLine", "score", "snippet", "source", "citation", "provenance"] {
        assert!(keys(hit).contains(&key), "{key} {found}");
    }
    assert!(!keys(hit).contains(&"explain"));
    assert_eq!((&found["provider"], &found["mode"]), (&json!("gemini"), &json!("v2")), "{found}");
    assert_eq!(hit["citation"], "memory/2026-03-01.md#L1-L2", "{found}");
    let explained =
        parse(&memory(&scene, &["search", "cache", "--json", "--explain", "--mode", "seed"]).stdout);
    assert_eq!(explained["mode"], "seed");
    for hit in parse(&memory(&scene, &["search", "cache", "--json", "--explain"]).stdout)["results"]
        .as_array()
        .unwrap()
    {
        let part = |name: &str| hit["explain"][name].as_f64().unwrap();
        let sum: f64 = ["vector", "text", "recency", "name", "superseded"].into_iter().map(part).sum();
        assert!((sum - hit["score"].as_f64().unwrap()).abs() < 1e-6, "{hit}");
    }
    let none = parse(&memory(&scene, &["search", "cache", "--json", "--source", "sessions"]).stdout);
    assert_eq!(none["results"], json!([]));
}

#[test]
fn notes_are_shown_by_lines() {
    let home = remembering().file("memory/a.md", "one\ntwo\nthree\nfour\n").file("other.md", "no note");
    let scene = Scene::with(home, []);
    assert_eq!(
        memory(&scene, &["get", "memory/a.md", "--lines", "2-3"]).stdout.lines().take(2).collect::<Vec<_>>(),
        ["two", "three"]
    );
    for (path, said) in [
        ("other.md", "is not a note"),
        ("memory/x.md", "note `memory/x.md` not found"),
        ("memory/../other.md", "is not a note"),
    ] {
        let run = memory(&scene, &["get", path]);
        assert_eq!(run.code, Some(42), "{path}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{path}: {}", run.stderr);
    }
    for lines in ["0-3", "5-2", "x", "1-x"] {
        let run = memory(&scene, &["get", "memory/a.md", "--lines", lines]);
        assert!(run.code == Some(1) && run.stderr.contains("`--lines`"), "{lines}: {}", run.stderr);
    }
}

#[test]
fn what_is_forgotten_leaves_no_trace() {
    let home = remembering().file("memory/a.md", "Project Falcon ships in May.\n\nLunch is at noon.\n");
    let scene = Scene::with(home, [reply().text("Project Falcon has three engineers.")]);
    assert_eq!(scene.run(&["-p", "how large is project falcon?"]).code, Some(0));
    memory(&scene, &["index"]);
    let asked = memory(&scene, &["forget", "--query", "project falcon"]);
    assert_eq!(asked.code, Some(42), "{}", asked.stderr);
    assert!(
        asked.stderr.contains("Memories to forget:") && asked.stderr.contains("--yes"),
        "{}",
        asked.stderr
    );
    let run = memory(&scene, &["forget", "--query", "project falcon", "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("Forgotten:") && run.stdout.contains("memory/a.md"), "{}", run.stdout);
    for file in all_files(&state(&scene)) {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(!text.contains("project falcon"), "{}", file.display());
    }
    assert!(scene.home.read("memory/a.md").contains("Falcon"), "a file of the user's own is left alone");
    let found = parse(&memory(&scene, &["search", "project falcon", "--json"]).stdout);
    assert!(!found.to_string().to_lowercase().contains("project falcon"), "{found}");
    assert!(memory(&scene, &["search", "lunch", "--json"]).stdout.contains("noon"));
}

#[test]
fn a_session_is_forgotten_with_its_transcript() {
    let scene = Scene::with(remembering(), [reply().text("The code word is heliotrope.")]);
    scene.run(&["-p", "what is the code word?"]);
    let store = read_json(&state(&scene).join("agents/main/sessions/sessions.json"));
    let id = store["agent:main:main"]["sessionId"].as_str().unwrap().to_owned();
    let run = memory(&scene, &["forget", "--session", &id, "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(parse(&run.stdout)["transcripts"].as_array().unwrap().len(), 1, "{}", run.stdout);
    for file in all_files(&state(&scene)) {
        let bytes = fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("heliotrope"), "{}", file.display());
    }
    let both = memory(&scene, &["forget", "--session", &id, "--query", "x"]);
    assert!(both.code == Some(1) && both.stderr.contains("one of `--path`"), "{}", both.stderr);
}

#[test]
fn a_session_is_forgotten_by_number_prefix_or_as_the_latest_and_an_unknown_one_is_an_error() {
    let scene = Scene::with(remembering(), [reply().text("one"), reply().text("two"), reply().text("three")]);
    let empty = memory(&scene, &["forget", "--path", "MEMORY.md", "--yes"]);
    assert_eq!((empty.code, state(&scene).exists()), (Some(42), false), "{}", empty.stderr);
    for word in ["heliotrope", "marigold", "larkspur"] {
        scene.run(&["-p", &format!("what is {word}?")]);
    }
    for (args, said) in [
        (["forget", "--session", "7", "--yes"], "no session of this project matches `7`"),
        (["forget", "--session", "abcdef", "--yes"], "no session in memory matches `abcdef`"),
        (["forget", "--path", "./memory/no.md", "--yes"], "no note in memory matches `./memory/no.md`"),
        (["forget", "--query", "?!", "--yes"], "contains no words"),
    ] {
        let run = memory(&scene, &args);
        assert!(run.code == Some(42) && run.stderr.contains(said), "{args:?}: {}", run.stderr);
    }
    assert!(
        !all_files(&state(&scene)).iter().any(|file| file.ends_with("forgotten.json")),
        "nothing is barred"
    );
    let known = |word: &str| {
        all_files(&state(&scene))
            .iter()
            .any(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).contains(word))
    };
    let store = read_json(&state(&scene).join("agents/main/sessions/sessions.json"));
    let marigold =
        store.as_object().unwrap().values().find(|entry| entry["lastUserMessage"] == "what is marigold?");
    let prefix = marigold.unwrap()["sessionId"].as_str().unwrap().get(..13).unwrap().to_owned();
    for (given, word) in [("latest", "larkspur"), ("1", "heliotrope"), (prefix.as_str(), "marigold")] {
        assert!(known(word), "{word}");
        let run = memory(&scene, &["forget", "--session", given, "--yes"]);
        assert_eq!(run.code, Some(0), "{given}: {}", run.stderr);
        assert!(run.stdout.starts_with("Forgotten:") && run.stdout.contains(".jsonl"), "{}", run.stdout);
        assert!(!known(word), "{word}");
    }
    let again = memory(&scene, &["forget", "--session", "latest", "--yes"]);
    assert!(
        again.code == Some(42) && again.stderr.contains("no session in memory matches"),
        "{}",
        again.stderr
    );
}

#[test]
fn the_export_is_one_document() {
    let home = remembering().file("MEMORY.md", "The mascot is an otter.\n");
    let scene = Scene::with(home, []);
    let none = memory(&scene, &["export"]);
    assert!(none.code == Some(1) && none.stderr.contains("nothing to export"), "{}", none.stderr);
    memory(&scene, &["index"]);
    let run = memory(&scene, &["export", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let document = parse(&run.stdout);
    assert!(document["version"] == 1 && run.stdout.contains("otter"), "{document}");
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let scene = Scene::with(remembering().file("MEMORY.md", "x y z\n"), []);
    memory(&scene, &["index"]);
    let well = memory(&scene, &["doctor"]);
    assert_eq!(well.code, Some(0), "{}{}", well.stdout, well.stderr);
    assert!(well.stdout.starts_with("ok: durable memory is on\n"), "{}", well.stdout);
    fs::write(state(&scene).join("agents/main/agent/memory-index.db"), "this is no database, not at all")
        .unwrap();
    let ill = memory(&scene, &["doctor", "--json"]);
    let findings = parse(&ill.stdout);
    assert!(findings.as_array().unwrap().iter().any(|finding| finding["level"] != "ok"), "{findings}");
}

#[test]
fn a_state_directory_that_cannot_be_written_is_named() {
    let scene = Scene::with(remembering().file("MEMORY.md", "x y z\n"), [reply().text("Still here.")]);
    let folder = scene.home.home().join(".gimli");
    // A file stands where the folder should be: that stops everybody, also a superuser.
    fs::write(&folder, "").unwrap();
    let run = memory(&scene, &["index"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains(".gimli") && run.stderr.contains("hint: set GIMLI_STATE_DIR"),
        "{}",
        run.stderr
    );
    let run = scene.run(&["-p", "hello there"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Still here.\n", Some(0)), "{}", run.stderr);
    assert!(run.stderr.contains("Memory is off for this session"), "{}", run.stderr);
}

#[test]
fn others_cannot_read_what_is_kept() {
    let scene = Scene::with(remembering(), [reply().text("ok")]);
    scene.run(&["-p", "I prefer short answers, always"]);
    for file in all_files(&state(&scene)) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
    let folder = state(&scene).join("agents/main");
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn models_are_listed_and_an_unknown_one_is_refused() {
    let scene = Scene::with(TestHome::new(), []);
    let list = memory(&scene, &["model", "list"]);
    assert!(
        list.code == Some(0) && list.stdout.contains("(not installed)"),
        "{} {}",
        list.stdout,
        list.stderr
    );
    let run = memory(&scene, &["model", "install", "no-such-model"]);
    assert!(run.code == Some(42) && run.stderr.contains("hint: available models:"), "{}", run.stderr);
    assert!(memory(&scene, &["--help"]).stdout.starts_with("Search and manage memory\n"));
    assert!(memory(&scene, &[]).stdout.starts_with("Search and manage memory\n"));
}
