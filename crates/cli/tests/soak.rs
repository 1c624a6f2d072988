//! A working day in fast motion: one process lives through thousands of turns with tool calls, sub-agents, compression,
//! MCP servers that die, a network that fails, hooks that hang, and a terminal that changes its size, with memory on.
//! Afterwards it uses no more than in the morning. Over pipes the day is one session, at the screen it has many.
//!
//! `POLLUX_SOAK_TURNS` is the number of turns over pipes (60), a tenth of it at the screen; `POLLUX_SOAK_SEED` repeats a
//! run, `POLLUX_TEST_BINARY` names another program. The report with its plots is in `target/soak`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(clippy::print_stderr, reason = "a long run reports to a person")]

#[path = "soak/day.rs"]
mod day;
#[path = "soak/front.rs"]
mod front;
#[path = "soak/model.rs"]
mod model;
#[path = "soak/samples.rs"]
mod samples;

use std::time::Instant;

use pollux_test_support::chance::Chance;
use pollux_test_support::mcp::serve_if_asked;

use day::{TurnKind, home};
use front::{Front, Pipes, Window};
use samples::Samples;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Lives through a day and compares its evening with its morning.
fn live(name: &str, turns: usize, start: impl Fn(&pollux_test_support::TestHome, &str) -> Box<dyn Front>) {
    let seed = number("POLLUX_SOAK_SEED", 1);
    eprintln!("POLLUX_SOAK_SEED={seed}: {turns} turns, {name}");
    let server = model::start();
    let home = home(&server.url());
    let mut front = start(&home, &server.url());
    let mut chance = Chance::new(seed as u64);
    let mut samples = Samples::new(name, turns, &home, front.has_many_sessions());
    for turn in 1..=turns {
        let kind = match TurnKind::by_chance(&mut chance, turn) {
            TurnKind::Clear if !front.has_many_sessions() => TurnKind::Talk,
            kind => kind,
        };
        let began = Instant::now();
        front.turn(turn, kind, &mut chance);
        samples.take(turn, kind, began.elapsed(), front.pid());
    }
    front.end();
    samples.report(seed);
    let wrong = samples.growth();
    assert!(wrong.is_empty(), "POLLUX_SOAK_SEED={seed}, {turns} turns, {name}:\n{}", wrong.join("\n"));
}

#[test]
fn a_day_over_pipes_leaves_nothing_behind() {
    let turns = number("POLLUX_SOAK_TURNS", 60);
    live("pipes", turns, |home, url| Box::new(Pipes::start(home, url)));
}

#[test]
fn a_day_at_the_screen_leaves_nothing_behind() {
    let turns = (number("POLLUX_SOAK_TURNS", 60) / 10).max(30);
    live("screen", turns, |home, url| Box::new(Window::start(home, url)));
}

#[test]
fn fake_mcp_server() {
    serve_if_asked();
}
