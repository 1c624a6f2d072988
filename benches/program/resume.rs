//! Going on with sessions of many megabytes.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::content::{FunctionResponse, Part};
use pollux_domain::event::CallStatus;
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use pollux_session::{CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind};
use serde_json::{Value, json};

use crate::measure::{Series, run, table};
use crate::scenes::{Bench, Runs, interleaved, put};

/// Resumes a long session for one turn: of 20 and of 60 MB, in both forms. Every run has a fresh copy.
pub(crate) fn resume(bench: &Bench) {
    let place = bench.place("resume");
    let project = fs::canonicalize(place.project()).unwrap();
    let hash = pollux_config::paths::sha256_hex(project.as_os_str().as_encoded_bytes());
    let temp = place.home().join(".gemini/tmp").join(&hash);
    let script = place.project().join("script.jsonl");
    put(&script, &script_lines());
    let sizes = [(20, SessionFormat::Json), (60, SessionFormat::Json), (60, SessionFormat::Jsonl)];
    let sessions = sizes.map(|(megabytes, format)| {
        let kept = place.project().join(format!("{megabytes}-{format:?}"));
        (format!("{megabytes} MB {format:?}"), write_session(&kept, &hash, megabytes, format))
    });
    let growth: Vec<Cell<u64>> = sessions.iter().map(|_| Cell::new(0)).collect();
    let builds = bench.builds();
    let mut runs: Runs<'_> = Vec::new();
    runs.push((Series::new("empty program"), Box::new(|| run(&mut place.command(&bench.empty, None, &[])))));
    let both =
        sessions.iter().zip(&growth).flat_map(|session| builds.iter().map(move |build| (session, build)));
    for (((name, kept), growth), (build, program)) in both {
        let (place, temp, script) = (&place, &temp, &script);
        runs.push((
            Series::new(&format!("{build}, {name}")),
            Box::new(move || {
                let _ = fs::remove_dir_all(temp);
                fs::create_dir_all(temp.join("chats")).unwrap();
                let file = temp.join("chats").join(kept.file_name().unwrap());
                let before = fs::copy(kept, &file).unwrap();
                let script = script.to_str().unwrap();
                let args = ["--resume", "latest", "-p", "go on", "-m", "gemini-2.5-flash"];
                let mut command = place.command(program, None, &args);
                let cost = run(command.args(["--fake-responses-non-strict", script]));
                growth.set(fs::metadata(&file).unwrap().len() - before);
                cost
            }),
        ));
    }
    table("resuming a long session for one turn", &interleaved(bench, runs));
    for ((name, _), growth) in sessions.iter().zip(&growth) {
        println!("  {name}: {} bytes added to the file", growth.get());
    }
}

/// An answer, and a summary for a conversation that no window holds.
fn script_lines() -> String {
    let candidates = |text: &str| json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]});
    let snapshot = candidates("<state_snapshot><overall_goal>to be fast</overall_goal></state_snapshot>");
    let answer: Value = json!([candidates("Done.")]);
    let lines = [
        json!({"method": "generateContent", "response": snapshot}),
        json!({"method": "generateContentStream", "response": answer}),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}

/// 8 KiB of a program's source, another piece each time.
fn excerpt(turn: usize) -> String {
    const SOURCE: &str =
        concat!(include_str!("scenes.rs"), include_str!("measure.rs"), include_str!("resume.rs"));
    let lines = SOURCE.lines().cycle().skip(turn % 300);
    let mut text = String::new();
    lines
        .take_while(|line| {
            text.push_str(line);
            text.push('\n');
            text.len() < 8 * 1024
        })
        .for_each(drop);
    text
}

/// Prompts, and replies with a call whose result is a piece of code.
pub(crate) fn write_session(folder: &Path, hash: &str, megabytes: u64, format: SessionFormat) -> PathBuf {
    let now = Timestamp::from_millis(1_767_225_600_000);
    let mut recorder = Recorder::create(NewSession {
        id: SessionId::random(),
        project_hash: hash.to_owned(),
        chats_dir: folder.to_path_buf(),
        format,
        kind: SessionKind::Main,
        now,
    })
    .unwrap();
    let mut turn = 0;
    let size =
        |recorder: &Recorder| recorder.path().and_then(|path| fs::metadata(path).ok()).map_or(0, |m| m.len());
    while size(&recorder) < megabytes * 1_000_000 {
        turn += 1;

        recorder.user(&[Part::text(format!("prompt {turn}"))], None, now).unwrap();
        let id = CallId::from_file(format!("read_file__{turn}"));
        let args = json!({"file_path": format!("src/part{turn}.rs")});
        let call = CallRecord {
            id: id.clone(),
            name: "read_file".into(),
            args: args.as_object().cloned().unwrap_or_default(),
            seal: None,
            display_name: "ReadFile".into(),
            description: "src".into(),
            markdown: false,
        };
        let record = ReplyRecord {
            parts: vec![Part::text("I read it.")],
            thoughts: Vec::new(),
            usage: None,
            model: "m".into(),
            origin: None,
            calls: vec![call],
        };
        recorder.reply(&record, now).unwrap();
        let response = json!({"output": excerpt(turn)});
        let response = FunctionResponse {
            id: Some(id.as_str().to_owned()),
            name: "read_file".into(),
            response: response.as_object().cloned().unwrap_or_default().into(),
            parts: Vec::new(),
        };
        let result = CallResult {
            id,
            status: CallStatus::Success,
            result: vec![Part::response(response)],
            display: Display::Nothing,
        };
        recorder.results(&[result], now).unwrap();
    }
    recorder.path().unwrap().to_path_buf()
}
