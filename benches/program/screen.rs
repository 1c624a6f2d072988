//! The screen, on a real terminal that is read through an emulator.
//!
//! Times contain what the terminal's two ends and the emulator cost.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pollux_session::SessionFormat;
use pollux_test_support::{Exhausted, FakeGemini, Screen, reply};
use serde_json::{Value, json};

use crate::resume::write_session;
use crate::scenes::{Bench, Place, put};
use crate::skills::fill;

const MODEL: &str = "gemini-2.5-flash";
/// What every program shows in an empty composer.
const PLACEHOLDER: &str = "Type your message or @path/to/file";
/// How long an idle program is watched.
const WATCHED: Duration = Duration::from_secs(10);
const CHUNKS: usize = 8_000;
/// So many chunks go out together, with a pause after them: about 2,000 in a second.
const TOGETHER: usize = 20;
const PAUSE: Duration = Duration::from_millis(9);

pub(crate) fn screen(bench: &Bench) {
    first_prompt(bench);
    idle(bench);
    typing(bench);
    streaming(bench);
}

/// A program as it is started on the screen.
struct Program<'a> {
    name: &'static str,
    binary: &'a Path,
    place: &'a Place,
    is_slow: bool,
}

impl Program<'_> {
    fn open(&self, server: Option<&FakeGemini>, args: &[&str]) -> Screen {
        let mut command: Command = self.place.command(self.binary, server, &["-m", MODEL]);
        command.args(args).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        Screen::start(&command, 100, 40)
    }
}

/// The program with an empty home and with one that has been used; another build and gemini-cli if they take part.
fn programs<'a>(bench: &'a Bench, binary: &'a Path, plain: &'a Place, full: &'a Place) -> Vec<Program<'a>> {
    let mut programs = vec![
        Program { name: "pollux", binary, place: plain, is_slow: false },
        Program { name: "pollux, full home", binary, place: full, is_slow: false },
    ];
    if let Some(other) = &bench.against {
        programs.push(Program { name: "pollux, other build", binary: other, place: plain, is_slow: false });
    }
    if let Some(gemini) = &bench.gemini {
        programs.push(Program { name: "gemini-cli", binary: gemini, place: plain, is_slow: true });
    }
    programs
}

/// Ten extensions, 200 skills, and five megabytes of earlier prompts.
fn live_in(place: &Place) {
    fill(place, 10, 200);
    let entry = |number: usize| {
        json!({"sessionId": "00000000-0000-4000-8000-000000000000", "messageId": number, "type": "user",
            "message": format!("prompt {number}: {}", "please look at what is there ".repeat(8)),
            "timestamp": "2026-01-01T00:00:00.000Z"})
    };
    let entries: Vec<Value> = (0..14_000).map(entry).collect();
    let log = Value::from(entries).to_string();
    assert!(log.len() > 5_000_000, "{}", log.len());
    let folder = place.home().join(".gemini/tmp").join(hash(place));
    fs::create_dir_all(&folder).unwrap();
    put(&folder.join("logs.json"), &log);
}

fn hash(place: &Place) -> String {
    let project = fs::canonicalize(place.project()).unwrap();
    pollux_config::paths::sha256_hex(project.as_os_str().as_encoded_bytes())
}

/// From the start of the process until a letter that was typed stands in the composer.
fn first_prompt(bench: &Bench) {
    let (plain, full) = (bench.place("screen-plain"), bench.place("screen-full"));
    live_in(&full);
    let binary = bench.pollux();
    let programs = programs(bench, &binary, &plain, &full);
    let mut times: Vec<(Vec<Duration>, Vec<Duration>)> =
        programs.iter().map(|_| Default::default()).collect();
    for round in 0..bench.rounds {
        for (program, (shown, typed)) in programs.iter().zip(&mut times) {
            if program.is_slow && round % 5 != 0 {
                continue;
            }
            let started = Instant::now();
            let screen = program.open(None, &[]);
            screen.expect(PLACEHOLDER);
            shown.push(started.elapsed());
            screen.type_text("z").expect("> z");
            typed.push(started.elapsed());
        }
    }
    println!("\nfirst prompt");
    println!("  {:<22} {:>10} {:>10} {:>9}", "program", "shown", "editable", "ratio");
    let base = times.first().map_or(1.0, |(_, typed)| millis(median(typed)));
    for (program, (shown, typed)) in programs.iter().zip(&times) {
        let (shown, typed) = (millis(median(shown)), millis(median(typed)));
        println!("  {:<22} {shown:>7.1} ms {typed:>7.1} ms {:>8.2}x", program.name, typed / base);
    }
}

/// A program that nobody talks to.
fn idle(bench: &Bench) {
    let (plain, full) = (bench.place("screen-idle"), bench.place("screen-idle-full"));
    live_in(&full);
    let binary = bench.pollux();
    println!("\nidle, watched for {} s", WATCHED.as_secs());
    println!("  {:<22} {:>11} {:>8} {:>10}", "program", "resident", "CPU", "peak RSS");
    for program in programs(bench, &binary, &plain, &full) {
        let screen = program.open(None, &[]);
        screen.expect(PLACEHOLDER);
        // What begins beside the first prompt is over then.
        std::thread::sleep(Duration::from_secs(2));
        let before = cpu(screen.pid());
        std::thread::sleep(WATCHED);
        let spent = (cpu(screen.pid()) - before).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
        let (resident, peak) = (kib(screen.pid(), "VmRSS"), kib(screen.pid(), "VmHWM"));
        println!("  {:<22} {:>7.1} MiB {spent:>6.2} % {:>6.1} MiB", program.name, mib(resident), mib(peak));
    }
}

/// Letters in a session of 60 MB.
fn typing(bench: &Bench) {
    let place = bench.place("screen-typing");
    let chats = place.home().join(".gemini/tmp").join(hash(&place)).join("chats");
    write_session(&chats, &hash(&place), 60, SessionFormat::Jsonl);
    let program = Program { name: "pollux", binary: &bench.pollux(), place: &place, is_slow: false };
    let started = Instant::now();
    let screen = program.open(None, &["--resume", "latest"]);
    screen.expect(PLACEHOLDER).type_text("z").expect("> z");
    let editable = started.elapsed();
    // The session is there when its last words are.
    screen.expect_anywhere("I read it.");
    let opened = started.elapsed();
    let mut text = "z".to_owned();
    let mut times = Vec::new();
    for letter in ('a'..='y').cycle().take(75) {
        text.push(letter);
        let typed = Instant::now();
        screen.type_text(&letter.to_string()).expect(&text);
        times.push(typed.elapsed());
    }
    println!("\na session of 60 MB, opened");
    println!(
        "  editable after {:.1} ms, shown after {:.1} ms; a letter: median {:.2} ms, slowest {:.2} ms; resident {:.1} MiB, peak {:.1} MiB",
        millis(editable),
        millis(opened),
        millis(median(&times)),
        times.iter().max().map_or(0.0, |slowest| millis(*slowest)),
        mib(kib(screen.pid(), "VmRSS")),
        mib(kib(screen.pid(), "VmHWM")),
    );
}

/// An answer in thousands of chunks.
fn streaming(bench: &Bench) {
    let (plain, full) = (bench.place("screen-stream"), bench.place("screen-stream-full"));
    let binary = bench.pollux();
    println!("\nan answer in {CHUNKS} chunks, about 2,000 in a second");
    println!("  {:<22} {:>9} {:>10} {:>12} {:>10}", "program", "CPU", "chunks/s", "words lost", "peak RSS");
    for program in programs(bench, &binary, &plain, &full) {
        if program.name == "pollux, full home" {
            continue;
        }
        let server = FakeGemini::start_with([answer()], Exhausted::Fail(400));
        let screen = program.open(Some(&server), &[]);
        screen.expect(PLACEHOLDER).type_text("go").expect("> go").key("Enter").expect_anywhere("w00001");
        let (before, begun) = (cpu(screen.pid()), Instant::now());
        screen.expect_anywhere(&word(CHUNKS - 1));
        let (spent, lasted) = (cpu(screen.pid()) - before, begun.elapsed());
        let text = screen.whole_text();
        let lost = (0..CHUNKS).filter(|number| !text.contains(&word(*number))).count();
        println!(
            "  {:<22} {:>7.1} % {:>10.0} {lost:>12} {:>6.1} MiB",
            program.name,
            spent.as_secs_f64() / lasted.as_secs_f64() * 100.0,
            CHUNKS as f64 / lasted.as_secs_f64(),
            mib(kib(screen.pid(), "VmHWM")),
        );
    }
}

fn word(number: usize) -> String {
    format!("w{number:05}")
}

/// Words, one in a chunk, with a paragraph now and then.
fn answer() -> pollux_test_support::Reply {
    let event = |number: usize| {
        let end = if number % 60 == 59 { "\n\n" } else { " " };
        let mut chunk =
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": word(number) + end}]}}]});
        if number + 1 == CHUNKS {
            chunk["candidates"][0]["finishReason"] = json!("STOP");
        }
        format!("data: {chunk}\r\n\r\n")
    };
    let numbers: Vec<usize> = (0..CHUNKS).collect();
    let pieces = numbers.chunks(TOGETHER).map(|few| few.iter().copied().map(event).collect::<String>());
    pieces.fold(reply().without_finish(), |reply, piece| reply.bytes(piece)).pause(PAUSE)
}

/// The processor time that a process and all its threads have had.
fn cpu(pid: u32) -> Duration {
    const TICKS: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1_000 / TICKS)
}

fn kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
