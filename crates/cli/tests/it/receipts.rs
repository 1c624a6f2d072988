//! `--receipt`, `/receipt` and `sessions verify --receipt`.

use std::fs;
use std::process::{Command, Stdio};

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::Scene;

fn scene() -> Scene {
    Scene::new([
        reply().call("write_file", json!({"file_path": "made.txt", "content": "one\ntwo\n"})),
        reply().call("run_shell_command", json!({"command": "exit 3"})),
        reply().text("Done."),
    ])
}

#[test]
fn a_receipt_says_what_a_run_did_and_matches_its_session() {
    let scene = scene();
    let run = scene.prepare(&["-p", "x", "--yolo", "--sandbox=false", "--receipt", "receipt.json"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = scene.home.read("receipt.json");
    let receipt: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(receipt["turns"], 1);
    assert_eq!(receipt["files"][0]["added"], 2, "{text}");
    assert!(receipt["files"][0]["path"].as_str().unwrap().ends_with("made.txt"));
    let calls = receipt["calls"].as_array().unwrap();
    assert_eq!((&calls[1]["command"], &calls[1]["exitCode"]), (&json!("exit 3"), &json!(3)));
    assert!(calls.iter().all(|call| call["allowedBy"].is_object()), "{text}");
    assert!(receipt["tokens"]["total"].as_u64().is_some());

    let verified = scene.prepare(&["sessions", "verify", "--receipt", "receipt.json"]).run();
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    assert!(verified.stdout.contains("2 calls compared"), "{}", verified.stdout);

    for (from, to, what) in [
        ("\"askedTool\": \"run_shell_command\"", "\"askedTool\": \"read_file\"", "another tool"),
        ("\"error\"", "\"success\"", "ended differently"),
        (calls[0]["askedSha256"].as_str().unwrap(), "0000", "other arguments"),
        (calls[0]["id"].as_str().unwrap(), "invented", "not in the session"),
    ] {
        fs::write(scene.home.project().join("forged.json"), text.replace(from, to)).unwrap();
        let verified = scene.prepare(&["sessions", "verify", "--receipt", "forged.json"]).run();
        assert_eq!(verified.code, Some(1), "{what}");
        assert!(verified.stderr.contains(what), "{what}: {}", verified.stderr);
    }
    let missing = scene.prepare(&["sessions", "verify", "--receipt", "none.json"]).run();
    assert_eq!(missing.code, Some(42), "{}", missing.stderr);
}

#[test]
fn a_receipt_that_cannot_be_written_is_a_warning() {
    let scene = Scene::new([reply().text("Done.")]);
    let run = scene.prepare(&["-p", "x", "--receipt", "/dev/null/receipt.json"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("the receipt was not written"), "{}", run.stderr);
}

#[test]
fn reports_into_pipes_and_devices_leave_them_in_place() {
    use std::os::unix::fs::FileTypeExt as _;
    let home = TestHome::new().env("GEMINI_WRITE_SYSTEM_MD", "prompt.md");
    let scene = Scene::with(home, [reply().text("Done."), reply().text("Done.")]);
    let project = scene.home.project();
    for name in ["receipt", "report", "prompt.md"] {
        assert!(Command::new("mkfifo").arg(project.join(name)).status().unwrap().success());
    }
    let args = ["-p", "x", "--receipt", "receipt", "--sandbox-report", "report"];
    let run = scene.prepare(&args).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("receipt`: no process reads from this pipe"), "{}", run.stderr);
    assert!(run.stderr.contains("prompt.md`: no process reads from this pipe"), "{}", run.stderr);

    let readers: Vec<_> = ["receipt", "prompt.md"]
        .map(|name| Command::new("cat").arg(project.join(name)).stdout(Stdio::piped()).spawn().unwrap())
        .into_iter()
        .collect();
    let run = scene.prepare(&["-p", "x", "--receipt", "receipt"]).run();
    assert_eq!((run.code, run.stderr.contains("pipe")), (Some(0), false), "{}", run.stderr);
    let read: Vec<String> = readers
        .into_iter()
        .map(|reader| String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert!(read[0].contains("\"turns\": 1"), "{read:?}");
    assert!(!read[1].is_empty());
    for name in ["receipt", "report", "prompt.md"] {
        assert!(fs::metadata(project.join(name)).unwrap().file_type().is_fifo(), "{name}");
    }
}

#[test]
fn a_session_shows_its_receipt_and_writes_it() {
    let scene = scene();
    let args = ["--yolo", "--sandbox=false", "-i", "do it"];
    let mut terminal = scene.prepare(&args).env("TERM", "dumb").on_terminal();
    terminal.expect("Done.").say("/receipt").expect("Files changed").expect("made.txt (new)  +2 -0");
    terminal.expect("exit 3  exit 3").say("/receipt r.txt").expect("Receipt written to");
    terminal.end_of_input();
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.home.read("r.txt").contains("Commands run"));
}
