//! Chaos on the wire: the real program talks to a model over a line that delays, cuts, corrupts, drops, doubles and
//! reorders bytes, on every wire. A run ends with the same result, after a retry or without one, or with a clear error.
//! Half a call never runs, and discarded text is never final.
//!
//! A case is a wire, a framing, a fault and a place in the bytes that the server sends. Every case is a process of its
//! own: only then exit codes, messages, files and the end of the program are those that a user gets. A run takes a few
//! hundredths of a second with an optimised program, so every offset can be tried.
//!
//! `POLLUX_CHAOS_CASES` is the number of cases for each wire and fault, or `all` for every offset; `POLLUX_CHAOS_SEED`
//! repeats a run, `POLLUX_CHAOS_CASE` one case of it or those whose names begin so, `POLLUX_TEST_BINARY` names another program, `POLLUX_CHAOS_JOBS`
//! is how many run at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(clippy::print_stderr, reason = "a long run reports to a person")]

#[path = "it/crash/chance.rs"]
#[expect(dead_code, reason = "walks need more of it")]
mod chance;
#[path = "chaos/conversation.rs"]
mod conversation;
#[path = "chaos/fault.rs"]
mod fault;
#[path = "chaos/line.rs"]
mod line;
#[path = "chaos/oracle.rs"]
mod oracle;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollux_test_support::wires::Wire;
use pollux_test_support::{TestHome, program};
use serde_json::json;

use chance::Chance;
use conversation::{Framing, clean};
use fault::Fault;
use line::Line;
use oracle::{Format, Outcome};

/// Where and how one run is disturbed.
#[derive(Debug, Clone, Copy)]
struct Case {
    wire: Wire,
    framing: Framing,
    fault: Fault,
    /// The reply that is disturbed, from 0.
    reply: usize,
    /// The byte of the reply, or for faults of whole events the event.
    at: usize,
    seed: u64,
}

impl Case {
    fn name(self) -> String {
        let Self { wire, framing, fault, reply, at, .. } = self;
        format!("{}:{framing:?}:{fault:?}:{reply}:{at}", wire.name())
    }

    /// Choices inside the case depend on nothing but the seed and its name.
    fn chance(self) -> Chance {
        let mixed = self.name().bytes().fold(self.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        Chance::new(mixed)
    }

    /// Runs the program; what is wrong with the outcome, and what kind of outcome it is.
    fn run(self) -> (Vec<String>, &'static str) {
        let mut chance = self.chance();
        let format = *chance.pick(&[Format::Text, Format::Json, Format::StreamJson]);
        let line = Line::start(self, &mut chance);
        let mut settings = self.wire.settings(&line.url());
        if self.fault == Fault::Silence {
            settings["providers"]["lab"]["timeouts"] = json!({"firstByteMs": 1500, "stallMs": 1500});
        }
        settings["tools"] = json!({"sandbox": false});
        let home = TestHome::new().settings(settings).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        let args = ["-m", self.wire.model(), "--yolo", "-o", format.name(), "-p", conversation::PROMPT];
        let run = home.command(&program(env!("CARGO_BIN_EXE_pollux")), args).limit(Duration::from_secs(300));
        let variables = self.wire.variables(&line.url(), "key-0123456789");
        let run = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run();
        let outcome = Outcome::of(format, &run, &home, &line);
        let wrong = oracle::check(self, &outcome, &line);
        if !wrong.is_empty() && variable("POLLUX_CHAOS_CASE").is_some() {
            eprintln!(
                "{}: {outcome:#?}\nsent: {:?}",
                self.name(),
                String::from_utf8_lossy(&line.disturbed())
            );
        }
        (wrong, outcome.kind())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn seed() -> u64 {
    variable("POLLUX_CHAOS_SEED").and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Every place of a fault on a wire.
fn places(wire: Wire, framing: Framing, fault: Fault) -> Vec<(usize, usize)> {
    let count = |reply| match fault.is_of_events() {
        true => conversation::events(wire, reply, 0).len(),
        false => clean(wire, framing, reply, 0).len(),
    };
    (0..2).flat_map(|reply| (0..count(reply)).map(move |at| (reply, at))).collect()
}

/// The cases of one fault: all, or some by chance.
fn cases(wire: Wire, fault: Fault) -> Vec<Case> {
    let seed = seed();
    let case = |framing, (reply, at)| Case { wire, framing, fault, reply, at, seed };
    if variable("POLLUX_CHAOS_CASES").as_deref() == Some("all") {
        // Where the end of the connection ends the body, a cut looks like the end.
        let framings = if fault == Fault::Cut {
            &[Framing::Chunked, Framing::UntilClose][..]
        } else {
            &[Framing::Chunked]
        };
        let all = framings
            .iter()
            .flat_map(|framing| places(wire, *framing, fault).into_iter().map(|place| case(*framing, place)));
        return all.collect();
    }
    let count = variable("POLLUX_CHAOS_CASES").and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut chance = Chance::new(seed ^ ((wire as u64) << 40) ^ ((fault as u64) << 48));
    let mut pick = |_| {
        let framing = *chance.pick(&Framing::ALL);
        case(framing, *chance.pick(&places(wire, framing, fault)))
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
        let framings = Framing::ALL.into_iter();
        let any = framings.flat_map(|framing| {
            Fault::ALL.into_iter().flat_map(move |fault| {
                let case = move |(reply, at)| Case { wire, framing, fault, reply, at, seed: seed() };
                places(wire, framing, fault).into_iter().map(case)
            })
        });
        all = any.filter(|case| format!("{}:", case.name()).starts_with(&format!("{only}:"))).collect();
    }
    let jobs = variable("POLLUX_CHAOS_JOBS").and_then(|text| text.parse().ok()).unwrap_or(6);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let counts = Mutex::new(BTreeMap::<(Fault, &str), usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = all.get(number) else { return };
                    if number > 0 && number % 1000 == 0 {
                        eprintln!("{number} of {} cases: {}", all.len(), case.name());
                    }
                    let (wrong, kind) = case.run();
                    *counts.lock().unwrap().entry((case.fault, kind)).or_default() += 1;
                    if !wrong.is_empty() {
                        let again =
                            format!("POLLUX_CHAOS_SEED={} POLLUX_CHAOS_CASE={}", case.seed, case.name());
                        eprintln!("FAILED {again}\n  {}", wrong.join("\n  "));
                        failed.lock().unwrap().push(format!("{again}\n  {}", wrong.join("\n  ")));
                    }
                }
            });
        }
    });
    for ((fault, kind), count) in counts.into_inner().unwrap() {
        eprintln!("{:<10} {fault:<14?} {kind:<12} {count:>6}", wire.name());
    }
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), all.len(), failed.join("\n"));
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
