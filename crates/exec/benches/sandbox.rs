//! Measures the overhead of a sandbox: `cargo bench -p pollux-exec --bench sandbox`.
//!
//! The levels are measured alternately, so that load on the machine affects all of them alike.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot go on should end")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_exec::background::Background;
use pollux_exec::shell::{ShellCommand, run};
use pollux_sandbox::{Level, Sandbox, SandboxRequest};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 200;

fn main() {
    // A bench is its own holder.
    if let Some(code) = pollux_sandbox::run_holder_if_asked(&mut std::env::args_os().skip(1)) {
        std::process::exit(code.into());
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(measure());
}

async fn measure() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let base = folder.path();
    for path in ["w", "home/.ssh", "home/.gemini"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    for number in 0..100 {
        fs::create_dir(base.join(format!("home/{number}"))).unwrap();
    }
    let mut variants: Vec<(String, Option<Arc<Sandbox>>, Vec<Duration>)> =
        vec![("none".to_owned(), None, Vec::new())];
    for level in [Level::Namespaces, Level::Landlock, Level::Bubblewrap] {
        let started = Instant::now();
        match Sandbox::open(&request(base, level)) {
            Ok(sandbox) => {
                println!("{level}: opened in {:.1} ms", millis(started.elapsed()));
                variants.push((level.to_string(), Some(Arc::new(sandbox)), Vec::new()));
            }
            Err(error) => println!("{error}"),
        }
    }
    let background = Background::new(base.join("logs"));
    for _ in 0..ROUNDS {
        for (_, sandbox, times) in &mut variants {
            let command = command(base, sandbox.clone());
            let started = Instant::now();
            run(&command, &background, &|_| {}, &CancellationToken::new()).await.unwrap();
            times.push(started.elapsed());
        }
    }
    let mut plain = 0.0;
    for (name, sandbox, times) in &mut variants {
        times.sort();
        let median = times.get(ROUNDS / 2).copied().map_or(0.0, millis);
        let slow = times.get(ROUNDS * 95 / 100).copied().map_or(0.0, millis);
        if sandbox.is_none() {
            plain = median;
        }
        println!("{name}: median {median:.2} ms, 95 % below {slow:.2} ms, adds {:.2} ms", median - plain);
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn command(base: &Path, sandbox: Option<Arc<Sandbox>>) -> ShellCommand {
    ShellCommand {
        text: "true".to_owned(),
        directory: base.join("w"),
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        inactivity: None,
        background_after: None,
        sandbox,
    }
}

fn request(base: &Path, level: Level) -> SandboxRequest {
    SandboxRequest {
        roots: vec![base.join("w")],
        allowed: Vec::new(),
        homes: vec![base.join("home")],
        gemini_dir: base.join("home/.gemini"),
        temp: "/tmp".into(),
        search_path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        network: true,
        level: Some(level),
        grants: pollux_sandbox::Grants::default(),
    }
}
