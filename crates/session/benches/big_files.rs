//! What large sessions cost: time and the peak of memory. `cargo bench -p pollux-session`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people who measure")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use pollux_domain::content::Part;
use pollux_domain::time::Timestamp;
use pollux_session::{
    Recorder, TranscriptForm, into_history, load, summarise, visit_texts, write_transcript,
};
use serde_json::json;

/// Writes a session of about this size: prompts, replies, results of 8 KiB full of escapes.
fn write_session(path: &Path, megabytes: usize, is_log: bool) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let meta = "\"sessionId\":\"s\",\"projectHash\":\"e1\",\"startTime\":\"2026-01-01T00:00:00.000Z\",\"lastUpdated\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"main\"";
    if is_log {
        writeln!(out, "{{{meta}}}").unwrap();
    } else {
        write!(
            out,
            "{{\n  {},\n  \"messages\": [",
            meta.replace(",\"", ",\n  \"").replace("\":\"", "\": \"")
        )
        .unwrap();
    }
    let output = "fn main() {\n\tprintln!(\"größe {}\", 1);\n}\n".repeat(200);
    let mut written = 0;
    let mut n = 0;
    while written < megabytes << 20 {
        let message = if n % 2 == 0 {
            json!({"id": format!("m{n}"), "timestamp": "2026-01-01T00:00:00.000Z", "type": "user", "content": format!("prompt {n}")})
        } else {
            let result = json!([{"functionResponse": {"id": format!("c{n}"), "name": "read_file", "response": {"output": output}}}]);
            json!({"id": format!("m{n}"), "timestamp": "2026-01-01T00:00:00.000Z", "type": "gemini", "content": "I read it.",
                "thoughts": [], "tokens": {"input": 1, "output": 1, "cached": 0, "thoughts": 0, "tool": 0, "total": 2}, "model": "m",
                "toolCalls": [{"id": format!("c{n}"), "name": "read_file", "args": {"file_path": "a.rs"}, "status": "success", "result": result, "resultDisplay": ""}]})
        };
        let line = message.to_string();
        written += line.len();
        if is_log {
            writeln!(out, "{line}").unwrap();
        } else {
            write!(out, "{}\n    {line}", if n > 0 { "," } else { "" }).unwrap();
        }
        n += 1;
    }
    if !is_log {
        out.write_all(b"\n  ]\n}\n").unwrap();
    }
}

/// What this process used by now: milliseconds of processor time, and the peak of resident memory in MB.
fn used() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let peak = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024;
    // Of all threads, also of those that have ended; in hundredths of a second.
    let times = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = times.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let cpu: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    (cpu * 10, peak)
}

const TASKS: [&str; 4] = ["resume", "index", "texts", "transcript"];

fn run(task: &str, path: &Path) {
    let start = Instant::now();
    match task {
        "resume" => {
            let session = load(path).unwrap();
            let mut recorder = Recorder::resume(&session).unwrap();
            let turns = into_history(session);
            recorder.user(&[Part::text("go on")], None, Timestamp::from_millis(1_800_000_000_000)).unwrap();
            std::hint::black_box(&turns);
            // A program keeps its conversation; freeing it is no part of resuming.
            std::mem::forget(turns);
        }
        "index" => drop(summarise(path).unwrap()),
        "texts" => visit_texts(path, &mut |_, _, _, _| {}).unwrap(),
        _ => drop(write_transcript(path, TranscriptForm::Text, &mut std::io::sink()).unwrap()),
    }
    let (cpu, peak) = used();
    println!("{task:12} {:6} ms, {cpu:6} ms of processor, {peak:5} MB", start.elapsed().as_millis());
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    if let (Some(task), Some(path)) = (arguments.next(), arguments.next()) {
        return run(&task, Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, megabytes, is_log) in
        [("session-20.json", 20, false), ("session-60.json", 60, false), ("session-60.jsonl", 60, true)]
    {
        let path = dir.path().join(name);
        write_session(&path, megabytes, is_log);
        println!("{name}");
        for task in TASKS {
            // A process of its own, so that the peak is this task's.
            Command::new(std::env::current_exe().unwrap()).arg(task).arg(&path).status().unwrap();
        }
    }
}
