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
/// For the first command of a session, with everything that it starts.
const SESSIONS: usize = 30;
/// Files that are protected, in the workspace's repository.
const PROTECTED: usize = 200;
const LEVELS: [Level; 3] = [Level::Namespaces, Level::Landlock, Level::Bubblewrap];

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
    for path in ["w/.git/hooks", "home/.ssh", "home/.gemini"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    fs::File::create(base.join("w/.git/HEAD")).unwrap();
    for number in 0..PROTECTED {
        fs::File::create(base.join(format!("w/.git/hooks/{number}"))).unwrap();
    }
    for number in 0..100 {
        fs::create_dir(base.join(format!("home/{number}"))).unwrap();
    }
    let mut variants: Vec<(String, Option<Arc<Sandbox>>, Vec<Duration>)> =
        vec![("none".to_owned(), None, Vec::new())];
    for level in LEVELS {
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
    println!("command in a running sandbox:");
    print(&mut variants.into_iter().map(|(name, _, times)| (name, times)).collect::<Vec<_>>());
    let mut first: Vec<(String, Option<Level>, Vec<Duration>)> = vec![("none".to_owned(), None, Vec::new())];
    first.extend(LEVELS.map(|level| (level.to_string(), Some(level), Vec::new())));
    for _ in 0..SESSIONS {
        for (_, level, times) in &mut first {
            let started = Instant::now();
            let sandbox = match level {
                Some(level) => match Sandbox::open(&request(base, *level)) {
                    Ok(sandbox) => Some(Arc::new(sandbox)),
                    Err(_) => continue,
                },
                None => None,
            };
            let command = command(base, sandbox);
            run(&command, &background, &|_| {}, &CancellationToken::new()).await.unwrap();
            times.push(started.elapsed());
        }
    }
    println!("first command, with its set-up:");
    print(&mut first.into_iter().map(|(name, _, times)| (name, times)).collect::<Vec<_>>());
}

/// Prints the times of each, compared with the first.
fn print(variants: &mut [(String, Vec<Duration>)]) {
    let mut plain = 0.0;
    for (number, (name, times)) in variants.iter_mut().enumerate() {
        times.sort();
        let part = |hundredths: usize| times.get(times.len() * hundredths / 100).copied().map_or(0.0, millis);
        let (fast, median, slow) = (part(10), part(50), part(95));
        if number == 0 {
            plain = median;
        }
        println!(
            "  {name}: median {median:.2} ms, 10 % below {fast:.2} ms, 95 % below {slow:.2} ms, adds {:.2} ms, ratio {:.2}",
            median - plain,
            median / plain
        );
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
        container: None,
    }
}
