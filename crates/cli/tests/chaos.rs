//! Chaos on the wire: the real program talks to a model over a line that delays, cuts, corrupts, drops, doubles and
//! reorders bytes, on every wire. A run ends with the same result, after a retry or without one, or with a clear error.
//! Half a call never runs, and discarded text is never final.
//!
//! A case is a wire, a framing, a fault and a place in the bytes that the server sends. Every case is a process of its
//! own: only then exit codes, messages, files and the end of the program are those that a user gets. This is a sample;
//! the client alone is tried at every offset by `cargo test -p pollux-model --test it chaos::`.
//!
//! `POLLUX_CHAOS_CASES` is the number of cases for each wire and fault, or `all` for every offset; `POLLUX_CHAOS_SEED`
//! repeats a run, `POLLUX_CHAOS_CASE` repeats the cases whose names begin so, `POLLUX_TEST_BINARY` names another program,
//! and `POLLUX_CHAOS_JOBS` is how many run at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(clippy::print_stderr, reason = "a long run reports to a person")]

#[path = "chaos/oracle.rs"]
mod oracle;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollux_test_support::bad_line::{BadLine, Case, CaseResults, Fault, Framing, PROMPT};
use pollux_test_support::chance::Chance;
use pollux_test_support::wires::Wire;
use pollux_test_support::{TestHome, program};
use serde_json::json;

use oracle::{Format, Outcome};

/// Runs the program; what is wrong with the outcome, and what kind of outcome it is.
fn run(case: Case) -> (Vec<String>, &'static str) {
    let format = *case.chance().pick(&[Format::Text, Format::Json, Format::StreamJson]);
    let line = BadLine::start(case);
    let mut settings = case.wire.settings(&line.url());
    if case.fault == Fault::Silence {
        settings["providers"]["lab"]["timeouts"] = json!({"firstByteMs": 1500, "stallMs": 1500});
    }
    settings["tools"] = json!({"sandbox": false});
    let home = TestHome::new().settings(settings).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let args = ["-m", case.wire.model(), "--yolo", "-o", format.name(), "-p", PROMPT];
    let run = home.command(program(env!("CARGO_BIN_EXE_pollux")), args).limit(Duration::from_secs(300));
    let variables = case.wire.variables(&line.url(), "key-0123456789");
    let run = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run();
    let outcome = Outcome::of(case, format, &run, &home, &line);
    let wrong = oracle::check(case, &outcome, &line);
    if !wrong.is_empty() && variable("POLLUX_CHAOS_CASE").is_some() {
        eprintln!("{}: {outcome:#?}\nsent: {:?}", case.name(), String::from_utf8_lossy(&line.disturbed()));
    }
    (wrong, outcome.kind())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn seed() -> u64 {
    variable("POLLUX_CHAOS_SEED").and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The cases of one fault: all, or some by chance.
fn cases(wire: Wire, fault: Fault) -> Vec<Case> {
    let seed = seed();
    if variable("POLLUX_CHAOS_CASES").as_deref() == Some("all") {
        let mut all = Case::all(wire, Framing::Chunked, fault, seed);
        if fault == Fault::Cut {
            // Where the end of the connection ends the body, a cut looks like the end.
            all.extend(Case::all(wire, Framing::UntilClose, fault, seed));
        }
        return all;
    }
    let count = variable("POLLUX_CHAOS_CASES").and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut chance = Chance::new(seed ^ ((wire as u64) << 40) ^ ((fault as u64) << 48));
    let mut pick = |_| {
        let framing = *chance.pick(&Framing::ALL);
        *chance.pick(&Case::all(wire, framing, fault, seed))
    };
    (0..count).map(&mut pick).collect()
}

/// Tries the cases of a wire, several at a time: most of the time they wait for a retry.
fn disturb(wire: Wire) {
    let only = variable("POLLUX_CHAOS_CASE");
    let mut all: Vec<Case> = Fault::ALL
        .into_iter()
        .filter(|fault| fault.applies_to(wire))
        .flat_map(|fault| cases(wire, fault))
        .collect();
    if let Some(only) = &only {
        all = Case::named(wire, only, seed());
    }
    let jobs = variable("POLLUX_CHAOS_JOBS").and_then(|text| text.parse().ok()).unwrap_or(6);
    let (next, results) = (AtomicUsize::new(0), CaseResults::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = all.get(number) else { return };
                    if number > 0 && number.is_multiple_of(1000) {
                        eprintln!("{number} of {} cases: {}", all.len(), case.name());
                    }
                    let (wrong, kind) = run(*case);
                    results.note(*case, kind, &wrong);
                }
            });
        }
    });
    results.report(wire);
}

#[test]
fn gemini_survives_chaos() {
    disturb(Wire::Gemini);
}

#[test]
fn chat_survives_chaos() {
    disturb(Wire::Chat);
}

#[test]
fn responses_survives_chaos() {
    disturb(Wire::Responses);
}

#[test]
fn messages_survives_chaos() {
    disturb(Wire::Messages);
}
