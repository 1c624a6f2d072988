//! Running a program and what it cost.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one run of a program cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
    /// Bytes given to `write` calls of any kind.
    pub(crate) written: u64,
    pub(crate) code: i32,
}

/// Runs a program to its end; its output goes nowhere.
#[expect(clippy::zombie_processes, reason = "`reap` waits for it, after its counters were read")]
pub(crate) fn run(command: &mut Command) -> Cost {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let child = command.spawn().expect("start the program");
    let pid = child.id();
    wait_without_reaping(pid);
    let wall = started.elapsed();
    let written = written(pid);
    let (code, peak_kib) = reap(pid);
    Cost { wall, peak_kib, written, code }
}

/// Waits until the process is over but still in the table, so that its counters can be read.
fn wait_without_reaping(pid: u32) {
    #[expect(unsafe_code, reason = "the standard library cannot wait without reaping")]
    // SAFETY: `info` is a valid out-parameter, and the pid is a child of ours.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid, &raw mut info, libc::WEXITED | libc::WNOWAIT);
    }
}

fn written(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn reap(pid: u32) -> (i32, u64) {
    #[expect(unsafe_code, reason = "the standard library does not tell the peak memory")]
    // SAFETY: both out-parameters are valid, and the pid is a child of ours that has ended.
    unsafe {
        let mut status = 0;
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage);
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
        (code, usage.ru_maxrss.unsigned_abs())
    }
}

/// The costs of several runs.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) name: String,
    costs: Vec<Cost>,
}

impl Series {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), costs: Vec::new() }
    }

    pub(crate) fn push(&mut self, cost: Cost) {
        assert_eq!(cost.code, 0, "{} failed in a bench", self.name);
        self.costs.push(cost);
    }

    pub(crate) fn median(&self) -> Duration {
        let mut walls: Vec<Duration> = self.costs.iter().map(|cost| cost.wall).collect();
        walls.sort();
        walls[walls.len() / 2]
    }

    fn peak_kib(&self) -> u64 {
        self.costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0)
    }
}

/// Prints a table; ratios are against the first row.
pub(crate) fn table(title: &str, series: &[Series]) {
    println!("\n{title}");
    println!("  {:<22} {:>10} {:>9} {:>10}", "program", "median", "ratio", "peak RSS");
    let Some(base) = series.first().map(|first| first.median().as_secs_f64()) else { return };
    for one in series {
        let median = one.median().as_secs_f64();
        println!(
            "  {:<22} {:>7.2} ms {:>8.2}x {:>6.1} MiB",
            one.name,
            median * 1e3,
            median / base,
            one.peak_kib() as f64 / 1024.0
        );
    }
}
