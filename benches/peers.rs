//! Pollux and other agents at the same scripted work, on one loopback server that speaks all their wires.
//!
//! `scripts/bench-peers.sh` installs the others, builds Pollux and runs this:
//!
//! `peers --pollux FILE [--peers DIR] [--rounds N] [--only SCENARIO]… [--draw]`
//!
//! All programs run in turn in each round, so that a busy machine slows all of them alike. The medians go to
//! `docs/src/benchmarks.json`; the tables of `docs/src/benchmarks.md` and the plots in `docs/src/pictures` are made of
//! them. `--draw` only does the latter. A program that is not installed or fails at a scenario has a reason instead of a
//! figure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench reports to a person"
)]

#[path = "program/measure.rs"]
#[allow(dead_code, reason = "the bench of the program alone needs more of it")]
mod measure;
#[path = "peers/page.rs"]
mod page;
#[path = "peers/paint.rs"]
mod paint;
#[path = "peers/programs.rs"]
mod programs;
#[path = "peers/results.rs"]
mod results;
#[path = "peers/scenes.rs"]
mod scenes;

use std::path::PathBuf;

use results::Results;

const ROUNDS: usize = 7;

fn main() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut peers = root.join("target/peers");
    let (mut pollux, mut rounds, mut only, mut draws) = (None, ROUNDS, Vec::new(), false);
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo passes this to every bench.
            "--bench" => {}
            "--peers" => {
                if let Some(folder) = args.next_if(|next| !next.starts_with('-')) {
                    peers = PathBuf::from(folder);
                }
            }
            "--pollux" => pollux = args.next().map(PathBuf::from),
            "--rounds" => rounds = args.next().and_then(|n| n.parse().ok()).expect("--rounds takes a number"),
            "--only" => only.extend(args.next()),
            "--draw" => draws = true,
            other => panic!("unknown argument {other}"),
        }
    }
    let file = root.join("docs/src/benchmarks.json");
    if !draws {
        let pollux = pollux.expect("--pollux FILE: a release build");
        let pollux = std::fs::canonicalize(&pollux).expect("the program of --pollux");
        let (programs, missing) = programs::all(&pollux, &peers);
        for name in missing {
            println!("{name} takes no part: it is not installed below {}", peers.display());
        }
        let results = scenes::measure(&programs, rounds, &only);
        // A run of some scenarios replaces only their figures.
        Results::read(&file).updated_with(results).write(&file);
    }
    page::draw(&Results::read(&file), &root.join("docs/src"));
}
