//! `pollux demo` for someone with no key and no network.

use std::path::PathBuf;

use pollux_test_support::{Run, TestHome};

use crate::scene::{all_files, binary, lines, of_type, parse};

/// Runs the demo with its throwaway folder inside the scratch home.
fn demo(args: &[&str]) -> (TestHome, Run) {
    let home = TestHome::new();
    let tmp = home.home().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let args: Vec<&str> = ["demo"].into_iter().chain(args.iter().copied()).collect();
    let run = home
        .command(binary(), args)
        .without_env("GEMINI_API_KEY")
        .env("TMPDIR", tmp.to_str().unwrap())
        // Nobody answers there: the demo must not ask.
        .env("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
        .run();
    (home, run)
}

#[test]
fn the_demo_works_says_that_it_is_scripted_and_touches_nothing_of_the_user() {
    let (home, run) = demo(&[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("The model is scripted"), "{}", run.stdout);
    assert!(run.stdout.contains("\n-") && run.stdout.contains("\n+"), "a diff is shown: {}", run.stdout);
    assert!(run.stdout.contains("--resume "));
    assert!(!home.gemini_dir().exists() && all_files(&home.project()).is_empty());
    assert_eq!(run.stderr, "");
}

#[test]
fn the_demos_last_commands_work() {
    let (home, run) = demo(&[]);
    let command = run.stdout.lines().find(|line| line.contains("--list-sessions")).unwrap().trim().to_owned();
    let command = command.replace(" pollux ", &format!(" {} ", binary().display()));
    let list = home.command(std::path::Path::new("/bin/sh"), ["-c", &command]).run();
    assert!(
        list.stdout.contains("Available sessions for this project (1):"),
        "{} {}",
        list.stdout,
        list.stderr
    );
    let file = run.stdout.lines().map(str::trim).find(|line| line.ends_with(".json")).unwrap();
    let session = parse(&std::fs::read_to_string(PathBuf::from(file)).unwrap());
    let calls: Vec<&str> = session["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["toolCalls"].as_array().into_iter().flatten())
        .filter_map(|call| call["status"].as_str())
        .map(str::trim)
        .collect();
    assert!(calls.len() >= 3 && calls.iter().all(|status| *status == "success"), "{calls:?}");
}

#[test]
fn the_demo_speaks_every_format() {
    let (_home, stream) = demo(&["--output-format", "stream-json"]);
    assert_eq!(stream.code, Some(0), "{}", stream.stderr);
    let events = lines(&stream.stdout);
    assert_eq!(events[0]["type"], "INIT");
    assert_eq!(events.last().unwrap()["success"], true);
    assert!(of_type(&events, "TOOL_RESULT").iter().all(|event| event["status"] == "success"));
    assert!(stream.stderr.contains("The model is scripted"), "{}", stream.stderr);

    let (_home, upstream) = demo(&["-o", "stream-json", "--output-dialect", "gemini-cli"]);
    assert_eq!(lines(&upstream.stdout).last().unwrap()["status"], "success");

    let (_home, json) = demo(&["--output-format", "json"]);
    assert!(parse(&json.stdout)["response"].is_string());
}

#[test]
fn at_a_terminal_the_demo_is_the_screen_with_one_change_to_approve() {
    let home = TestHome::new();
    let tmp = home.home().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let run = home
        .command(binary(), ["demo"])
        .without_env("GEMINI_API_KEY")
        .env("TMPDIR", tmp.to_str().unwrap())
        .env("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9");
    let mut screen = run.on_screen(100, 40);
    screen.expect("Apply this change?").expect("● 1. Allow once");
    let total = || all_files(&tmp).into_iter().find(|file| file.ends_with("total.sh")).unwrap();
    let before = std::fs::read_to_string(total()).unwrap();
    screen.key("1").expect("The test passes: the total is 42.").expect("Type your message");
    assert_ne!(std::fs::read_to_string(total()).unwrap(), before);
    screen.say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    let text = screen.whole_text();
    assert!(text.contains("The model is scripted") && text.contains("What changed on disk:"), "{text}");
    assert!(!home.gemini_dir().exists(), "{text}");
}
