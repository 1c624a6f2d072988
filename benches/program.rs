//! How fast the program is, as ratios taken in one interleaved run.
//!
//! `cargo bench -p pollux-cli --bench program -- [--rounds N] [--gemini PATH] [--against PATH] [SCENARIO…]`
//!
//! Every scenario runs the programs in turn, so that a busy machine slows all of them alike. The trivial
//! process is an empty Rust program compiled here; with `--gemini` an installed gemini-cli takes part, with `--against`
//! another build of this program. Nothing here passes or fails: it prints medians, peak memory and ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench reports to a person"
)]

#[path = "program/acp.rs"]
mod acp;
#[path = "../crates/cli/tests/a2a/http.rs"]
#[expect(dead_code, reason = "the tests of the server need more of it")]
mod http;
#[path = "program/measure.rs"]
#[expect(dead_code, reason = "the comparison with other agents needs more of it")]
mod measure;
#[path = "program/replicas.rs"]
mod replicas;
#[path = "program/resident.rs"]
mod resident;
#[path = "program/resume.rs"]
mod resume;
#[path = "program/scenes.rs"]
mod scenes;
#[path = "program/screen.rs"]
mod screen;
#[path = "program/servers.rs"]
mod servers;
#[path = "program/skills.rs"]
mod skills;
#[path = "program/wires.rs"]
mod wires;

use std::path::PathBuf;

use scenes::Bench;

/// One thing that is measured.
type Scene = fn(&Bench);

fn main() {
    let mut rounds = 15;
    let mut gemini = None;
    let mut against = None;
    let mut wanted = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo passes this to every bench.
            "--bench" => {}
            "--rounds" => rounds = args.next().and_then(|n| n.parse().ok()).expect("--rounds takes a number"),
            "--gemini" => gemini = Some(PathBuf::from(args.next().expect("--gemini takes a path"))),
            "--against" => against = Some(PathBuf::from(args.next().expect("--against takes a path"))),
            name => wanted.push(name.to_owned()),
        }
    }
    let bench = Bench::new(rounds, gemini, against);
    let scenes: [(&str, Scene); 15] = [
        ("start", scenes::start),
        ("scripted", scenes::scripted),
        ("round-trip", scenes::round_trip),
        ("chain", scenes::chain),
        ("stream", scenes::stream),
        ("list", scenes::list),
        ("bytes", scenes::bytes),
        ("resume", resume::resume),
        ("servers", servers::servers),
        ("skills", skills::skills),
        ("screen", screen::screen),
        ("wires", wires::wires),
        ("acp", acp::initialize),
        ("core", resident::core),
        ("a2a", replicas::a2a),
    ];
    for (name, scene) in scenes {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            scene(&bench);
        }
    }
}
