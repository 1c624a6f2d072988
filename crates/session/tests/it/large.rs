//! Large sessions of gemini-cli: read and continued without being held as a whole.

use std::fs;

use pollux_session::{Message, Recorder, load};
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, json_of, text};

const PRETTY: &str = include_str!("../fixtures/pretty.json");

/// The fixture with its messages repeated, and answers of this many characters.
fn repeated(times: usize, answer: usize) -> Value {
    let mut session: Value = serde_json::from_str(PRETTY).unwrap();
    let turns = session["messages"].as_array().unwrap().clone();
    let mut messages = Vec::new();
    for number in 0..times {
        for mut message in turns.clone() {
            message["id"] = json!(format!("{}-{number}", message["id"].as_str().unwrap()));
            if let Some(output) =
                message.pointer_mut("/toolCalls/0/result/0/functionResponse/response/output")
            {
                *output = json!(format!("ä \"{number}\"\n").repeat(answer / 8));
            }
            messages.push(message);
        }
    }
    session["messages"] = Value::Array(messages);
    session
}

#[test]
fn a_large_pretty_file_is_read_like_a_small_one_and_continued_without_loss() {
    let session = repeated(400, 4_000);
    let scratch = Scratch::new();
    let path = scratch.put("session-large.json", format!("{session:#}"));
    assert!(fs::metadata(&path).unwrap().len() > 1 << 20);
    let large = load(&path).unwrap();
    // A cut and repaired file is read as a whole; what it says up to there has to be the same.
    let cut = scratch.put("session-cut.json", format!("{session:#}").trim_end().strip_suffix('}').unwrap());
    let whole = load(&cut).unwrap();
    assert!(whole.repaired.is_some() && large.repaired.is_none());
    assert_eq!(large.messages, whole.messages);
    assert_eq!((large.messages.len(), &large.extra, &large.summary), (800, &whole.extra, &whole.summary));

    let mut recorder = Recorder::resume(&large).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{session:#}"), "nothing was added yet");
    recorder.user(&text("on"), None, at(8)).unwrap();
    recorder.user(&text("and on"), None, at(9)).unwrap();
    drop(recorder);
    let rewritten = json_of(&path);
    let old = session["messages"].as_array().unwrap();
    assert_eq!(&rewritten["messages"].as_array().unwrap()[..800], &old[..]);
    assert_eq!(rewritten["messages"].as_array().unwrap().len(), 802);
    for key in ["sessionId", "projectHash", "startTime", "summary", "memoryScratchpad"] {
        assert_eq!(rewritten[key], session[key], "{key}");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap().lines().filter(|line| line.starts_with("    {")).count(),
        802
    );
    let again = load(&path).unwrap();
    assert_eq!(&again.messages[..800], &large.messages[..]);
    assert_eq!(
        scratch.names().iter().filter(|name| name.contains("large")).count(),
        1,
        "{:?}",
        scratch.names()
    );
}

#[test]
fn a_large_file_with_something_unusual_in_it_is_read_as_a_whole() {
    let mut session = repeated(400, 4_000);
    session["messages"][5].as_object_mut().unwrap().shift_remove("id");
    session["messages"][7] = json!("no message at all");
    let scratch = Scratch::new();
    let path = scratch.put("session-odd.json", format!("{session:#}"));
    let stored = load(&path).unwrap();
    assert_eq!(stored.messages.len(), 800);
    assert_eq!(stored.messages[5].id(), "message-6");
    assert!(matches!(&stored.messages[7], Message::Other { .. }), "{:?}", stored.messages[7]);
    let mut recorder = Recorder::resume(&stored).unwrap();
    recorder.user(&text("on"), None, at(8)).unwrap();
    drop(recorder);
    let rewritten = json_of(&path);
    assert_eq!(rewritten["messages"][5]["id"], "message-6");
    assert_eq!(rewritten["messages"].as_array().unwrap().len(), 801);
}

/// The most memory that this process had, in bytes.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Meaningful only in a process of its own.
#[test]
#[ignore = "57 MB, measured in a process of its own: `cargo nextest run -p pollux-session --run-ignored only`"]
fn resuming_57_megabytes_of_gemini_cli_needs_less_than_150() {
    use std::io::Write;

    let scratch = Scratch::new();
    let path = scratch.put("session-57.json", "");
    let mut file = std::io::BufWriter::new(fs::File::options().write(true).open(&path).unwrap());
    write!(file, "{{\n  \"sessionId\": \"s57\",\n  \"projectHash\": \"h\",\n  \"messages\": [").unwrap();
    for number in 0..2_000 {
        let turn = repeated(1, 22_000);
        for (index, message) in turn["messages"].as_array().unwrap().iter().enumerate() {
            let mut message = message.clone();
            message["id"] = json!(format!("m{number}-{index}"));
            let comma = if number + index > 0 { "," } else { "" };
            let lines: Vec<String> =
                format!("{message:#}").lines().map(|line| format!("\n    {line}")).collect();
            write!(file, "{comma}{}", lines.concat()).unwrap();
        }
    }
    writeln!(file, "\n  ]\n}}").unwrap();
    drop(file);
    let size = fs::metadata(&path).unwrap().len();
    assert!(size > 56_000_000, "{size}");
    let before = peak().expect("a system that tells");
    let session = load(&path).unwrap();
    let loaded = peak().unwrap();
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("on"), None, at(8)).unwrap();
    let resumed = peak().unwrap();
    eprintln!("{size} bytes; peak before {before}, loaded {loaded}, continued {resumed}");
    assert!(resumed < 150 << 20, "{resumed}");
}
