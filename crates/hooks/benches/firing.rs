//! Measures the cost of an event: without hooks, and with many in parallel.
//!
//! Run with `cargo bench -p pollux-hooks --bench firing`. Nothing passes or fails. With hooks, the relevant
//! figure is how much later the last one ends than the slowest one alone would.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench reports to a person")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(dead_code, reason = "the tests' scene has more than a bench needs")]

#[path = "../tests/it/scene.rs"]
mod scene;

use std::hint::black_box;
use std::time::{Duration, Instant};

use pollux_hooks::{CompressTrigger, Event, PreCompress};
use serde_json::{Value, json};

use scene::{World, call};

const EVENTS: u32 = 1_000_000;
const HOOKS: usize = 20;
const ROUNDS: usize = 15;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        nothing_configured().await;
        for command in ["true", "sleep 0.2"] {
            side_by_side(command).await;
        }
    });
}

/// The cost of an event without hooks.
async fn nothing_configured() {
    let world = World::new(&json!({}));
    let started = Instant::now();
    for _ in 0..EVENTS {
        black_box(black_box(&world.hooks).listens_to(black_box(Event::AfterModel)));
    }
    each("is asked for", started.elapsed());
    let started = Instant::now();
    for _ in 0..EVENTS {
        black_box(world.fire(PreCompress { trigger: CompressTrigger::Auto }).await);
    }
    each("is fired", started.elapsed());
}

fn each(what: &str, all: Duration) {
    println!("no hooks: an event {what:14} {:8.1} ns", all.as_nanos() as f64 / f64::from(EVENTS));
}

async fn side_by_side(command: &str) {
    let hooks = |count: usize| -> Value {
        let hooks: Vec<Value> = (0..count)
            .map(|n| json!({"type": "command", "name": format!("h{n}"), "command": command}))
            .collect();
        json!({"BeforeTool": [{"hooks": hooks}]})
    };
    let alone = median(&World::new(&hooks(1))).await;
    let together = median(&World::new(&hooks(HOOKS))).await;
    println!(
        "`{command}`: alone {:.1} ms; {HOOKS} side by side {:.1} ms, the slowest of them {:.1} ms, {:.1} ms after it",
        alone.0,
        together.0,
        together.1,
        together.0 - together.1
    );
}

/// Of many rounds: how long all took, and the slowest one.
async fn median(world: &World) -> (f64, f64) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let fired = world.fire(call()).await;
        let all = started.elapsed();
        let slowest = fired.runs.iter().map(|run| run.duration).max().unwrap();
        rounds.push((all, slowest));
    }
    rounds.sort();
    let (all, slowest) = rounds[ROUNDS / 2];
    (all.as_secs_f64() * 1e3, slowest.as_secs_f64() * 1e3)
}
