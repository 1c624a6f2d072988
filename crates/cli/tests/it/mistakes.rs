//! The corpus of mistakes: what people type and break, and the answer they get, word for word.
//!
//! A file in `mistakes/` holds cases. A case is a title (`# …`), what is prepared, a command line (`$ …`) and the
//! snapshot: `1> ` lines of stdout, `2> ` lines of stderr, and the exit code. `UPDATE_MISTAKES=1 cargo test -p
//! pollux-cli --test it mistakes` writes the snapshots again; read the difference as text before you commit it.
//!
//! Preparations: `file PATH TEXT` and `home PATH TEXT` write a file in the project or the home, `dir PATH` makes a
//! folder, `env NAME=VALUE` and `unset NAME` change the environment, `stdin TEXT` pipes a text in, `script JSON`
//! adds a part of a scripted reply (`--fake-responses script.jsonl` reads them), `server STATUS BODY` adds a reply
//! of the fake server, `untrusted` leaves the folder untrusted. `\n` in a text is a line break.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use pollux_test_support::{FakeGemini, Reply, Run, TestHome};
use regex::Regex;
use serde_json::{Value, json};

use crate::scene::{binary, panicked};

/// Fewer cases than this means that some got lost.
const LEAST: usize = 80;

#[test]
fn every_mistake_gets_the_answer_on_record() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/mistakes");
    let update = std::env::var_os("UPDATE_MISTAKES").is_some();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases = 0;
    let mut differences = String::new();
    for file in files {
        let recorded = fs::read_to_string(&file).unwrap();
        let mut played = String::new();
        for case in split(&recorded) {
            cases += 1;
            played.push_str(&play(&case));
        }
        if update {
            fs::write(&file, &played).unwrap();
        } else {
            describe(&recorded, &played, &mut differences);
        }
    }
    assert!(cases >= LEAST, "{cases} cases");
    assert!(differences.is_empty(), "UPDATE_MISTAKES=1 accepts these:\n{differences}");
}

/// The cases of a file, without their snapshots.
fn split(text: &str) -> Vec<Vec<&str>> {
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        let recorded = ["1>", "2>", "exit "].iter().any(|mark| line.starts_with(mark));
        if line.starts_with("# ") {
            cases.push(vec![line]);
        } else if !recorded && !line.is_empty() {
            cases.last_mut().unwrap_or_else(|| panic!("before the first title: {line}")).push(line);
        }
    }
    cases
}

/// Runs a case and writes it with its snapshot.
fn play(case: &[&str]) -> String {
    let mut home = TestHome::new();
    let mut changes: Vec<(&str, Option<&str>)> = vec![("GEMINI_CLI_TRUST_WORKSPACE", Some("true"))];
    let mut parts: Vec<Value> = Vec::new();
    let mut replies: Vec<Reply> = Vec::new();
    let mut stdin: Option<String> = None;
    let mut line = None;
    for step in &case[1..] {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "file" => home = home.file(name, &value.replace("\\n", "\n")),
            "home" => home = home.home_file(name, &value.replace("\\n", "\n")),
            "dir" => fs::create_dir_all(home.project().join(name)).unwrap(),
            "env" => changes.push(rest.split_once('=').map(|(name, value)| (name, Some(value))).unwrap()),
            "unset" => changes.push((name, None)),
            "untrusted" => changes.push(("GEMINI_CLI_TRUST_WORKSPACE", None)),
            "stdin" => stdin = Some(rest.replace("\\n", "\n")),
            "script" => parts.push(serde_json::from_str(rest).unwrap()),
            "server" => replies.push(Reply::http(name.parse().unwrap(), value.to_owned())),
            "$" => line = Some(rest),
            other => panic!("unknown preparation `{other}` in {}", case[0]),
        }
    }
    if !parts.is_empty() {
        let home_of_script = home.project().join("script.jsonl");
        fs::write(home_of_script, script(&parts)).unwrap();
    }
    let words = words(line.unwrap_or_else(|| panic!("no command line in {}", case[0])));
    assert_eq!(words.first().map(String::as_str), Some("pollux"), "{}", case[0]);
    let server = FakeGemini::start_blocking_thread(replies);
    let mut run = home.command(binary(), &words[1..]).against(&server);
    for (name, value) in changes {
        run = match value {
            Some(value) => run.env(name, value),
            None => run.without_env(name),
        };
    }
    if let Some(text) = stdin {
        run = run.stdin(text);
    }
    let run = run.run();
    assert!(!panicked(&run), "{}: {}", case[0], run.stderr);
    snapshot(case, &run, &home)
}

/// One reply for each part, then a last word.
fn script(parts: &[Value]) -> String {
    let reply = |part: &Value| {
        let chunk =
            json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]});
        format!("{}\n", json!({"method": "generateContentStream", "response": [chunk]}))
    };
    let last = json!({"text": "Done."});
    parts.iter().chain([&last]).map(reply).collect()
}

/// The words of a command line; quotation marks keep some together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in line.chars() {
        let word = words.last_mut().unwrap();
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(mark), _) if mark == letter => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, letter) => word.push(letter),
        }
    }
    // `''` is an empty argument, two blanks in a row are a slip.
    words
}

fn snapshot(case: &[&str], run: &Run, home: &TestHome) -> String {
    let mut text = String::new();
    for line in case {
        writeln!(text, "{line}").unwrap();
    }
    for (mark, stream) in [("1>", &run.stdout), ("2>", &run.stderr)] {
        for line in steady(stream, home).lines() {
            writeln!(text, "{}", format!("{mark} {line}").trim_end()).unwrap();
        }
    }
    let code = run.code.map_or("by a signal".to_owned(), |code| code.to_string());
    writeln!(text, "exit {code}\n").unwrap();
    text
}

/// The text without what differs from run to run.
fn steady(text: &str, home: &TestHome) -> String {
    let mut text = text.to_owned();
    for (path, name) in [(home.home(), "HOME"), (home.project(), "PROJECT")] {
        text = text.replace(path.to_str().unwrap(), name);
    }
    text = text.replace(include_str!("../../src/launch/main_help.txt"), "[main help page]\n");
    let patterns = [
        (r"\.pollux-\w{6}", ".pollux-STAGING"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "SESSION"),
        (r"\d{4}-\d{2}-\d{2}T[\d:.]+Z?", "TIME"),
        (r"pollux \d+\.\d+\.\d+\S*", "pollux VERSION"),
        (r"tmp/[0-9a-f]{64}", "tmp/PROJECT-HASH"),
        // Which sandbox there is depends on the machine.
        (r"(?m)^Sandbox \(.*\n", ""),
    ];
    for (pattern, name) in patterns {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    text
}

/// Adds the cases that differ.
fn describe(recorded: &str, played: &str, differences: &mut String) {
    let cases = |text: &str| -> Vec<String> {
        text.split("\n# ").map(|case| case.trim_start_matches("# ").trim().to_owned()).collect()
    };
    let (recorded, played) = (cases(recorded), cases(played));
    for case in played.iter().filter(|case| !recorded.contains(case)) {
        writeln!(differences, "# {case}\n").unwrap();
    }
}
