//! Running a program and what it cost.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one run of a program cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Time of all its threads and children on a processor, in its own code and in the system's.
    pub(crate) processor: Duration,
    /// Pages that the system had to map or make while it ran.
    pub(crate) faults: u64,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
    /// Bytes given to `write` calls of any kind.
    pub(crate) written: u64,
    pub(crate) code: i32,
}

/// Runs a program to its end; its output goes nowhere.
pub(crate) fn run(command: &mut Command) -> Cost {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let pid = start(command);
    wait_without_reaping(pid);
    cost(pid, started.elapsed())
}

/// Runs a program of others to its end, or until the limit has passed; whatever it started in its process group ends
/// with it. A program that was killed has no exit code (-1).
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Cost {
    let started = Instant::now();
    let pid = start(command.process_group(0));
    let (running, is_over) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let _ = is_over.recv_timeout(limit);
        let group = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
    });
    wait_without_reaping(pid);
    let wall = started.elapsed();
    drop(running);
    guard.join().expect("the guard ends");
    cost(pid, wall)
}

/// [`cost`] waits for the process, after its counters were read.
fn start(command: &mut Command) -> u32 {
    command.spawn().expect("start the program").id()
}

/// Takes a process that is over out of the table.
fn cost(pid: u32, wall: Duration) -> Cost {
    let written = written(pid);
    let (code, usage) = reap(pid);
    Cost {
        wall,
        processor: duration(usage.ru_utime) + duration(usage.ru_stime),
        faults: usage.ru_minflt.unsigned_abs() + usage.ru_majflt.unsigned_abs(),
        peak_kib: usage.ru_maxrss.unsigned_abs(),
        written,
        code,
    }
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

/// Resident memory of a process at this moment.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}

fn reap(pid: u32) -> (i32, libc::rusage) {
    #[expect(unsafe_code, reason = "the standard library does not tell what a process used")]
    // SAFETY: both out-parameters are valid, and the pid is a child of ours that has ended.
    unsafe {
        let mut status = 0;
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage);
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
        (code, usage)
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
        self.median_of(|cost| cost.wall)
    }

    pub(crate) fn processor(&self) -> Duration {
        self.median_of(|cost| cost.processor)
    }

    fn median_of<T: Ord>(&self, field: impl Fn(&Cost) -> T) -> T {
        let mut all: Vec<T> = self.costs.iter().map(field).collect();
        all.sort();
        all.swap_remove(all.len() / 2)
    }

    fn peak_kib(&self) -> u64 {
        self.costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0)
    }
}

/// Prints a table; ratios are against the first row.
pub(crate) fn table(title: &str, series: &[Series]) {
    println!("\n{title}");
    println!(
        "  {:<30} {:>10} {:>9} {:>10} {:>9} {:>7} {:>10}",
        "program", "median", "ratio", "processor", "ratio", "faults", "peak RSS"
    );
    let Some(first) = series.first() else { return };
    let (wall, processor) = (first.median().as_secs_f64(), first.processor().as_secs_f64());
    for one in series {
        let (median, used) = (one.median().as_secs_f64(), one.processor().as_secs_f64());
        println!(
            "  {:<30} {:>7.2} ms {:>8.2}x {:>7.2} ms {:>8.2}x {:>7} {:>6.1} MiB",
            one.name,
            median * 1e3,
            median / wall,
            used * 1e3,
            used / processor,
            one.median_of(|cost| cost.faults),
            one.peak_kib() as f64 / 1024.0
        );
    }
}
