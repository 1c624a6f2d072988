//! What a machine can do to a program: a clock that is wrong, a disk that is slow, file systems of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use pollux_test_support::TestRun;
use pollux_test_support::chance::Chance;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// How far clocks jump, in seconds.
const JUMPS: [i64; 8] = [-20_000 * DAY, -400 * DAY, -DAY, -HOUR, -1, HOUR, 40 * DAY, 4_000 * DAY];

/// Moves the time that a program is told; times of files stay the system's.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, id, now);
    const char *offset = getenv("POLLUX_TEST_CLOCK");
    if (!failed && id == CLOCK_REALTIME && offset) now->tv_sec += atol(offset);
    return failed;
}
"#;

/// The calls that a slow disk makes wait, and for how many microseconds.
const SLOW_CALLS: &str = "write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,linkat,ftruncate";
const DELAY: &str = "1500";

fn succeeds(command: &mut Command) -> bool {
    let tried = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Whether a process may mount something in a world of its own; otherwise two kinds of trouble are left out.
pub(super) fn may_mount() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    let script = "mount -t tmpfs -o size=64k tmpfs /tmp";
    *MAY.get_or_init(|| succeeds(Command::new("unshare").args(["-m", "sh", "-c", script])))
}

/// The library that moves clocks; none without a C compiler.
fn clock_library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = format!("clock-{}", std::process::id());
        let (source, draft) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
        fs::write(&source, CLOCK).ok()?;
        let built = succeeds(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&draft).arg(&source));
        let library = folder.join("clock.so");
        let placed = built && fs::rename(&draft, &library).is_ok();
        let _ = fs::remove_file(&source);
        placed.then_some(library)
    });
    built.as_deref()
}

fn may_trace() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| succeeds(Command::new("strace").args(["--seccomp-bpf", "-f", "true"])))
}

/// What this machine does not allow to be tried.
pub(super) fn omitted() -> Vec<&'static str> {
    let tools = [
        (may_trace(), "slow disks (strace)"),
        (clock_library().is_some(), "clocks that jump (cc)"),
        (may_mount(), "full file systems and read-only folders (unshare)"),
    ];
    tools.into_iter().filter(|(is_there, _)| !is_there).map(|(_, what)| what).collect()
}

/// The machine of one walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    jumps: bool,
    slow: bool,
}

impl World {
    pub(super) fn new(chance: &mut Chance) -> Self {
        let (jumps, slow) = (chance.one_in(3), chance.one_in(12));
        Self { jumps: jumps && clock_library().is_some(), slow: slow && may_trace() }
    }

    pub(super) fn is_slow(self) -> bool {
        self.slow
    }

    /// The words before a program that make its disk slow.
    pub(super) fn before(self) -> Vec<String> {
        if !self.slow {
            return Vec::new();
        }
        let inject = format!("inject={SLOW_CALLS}:delay_enter={DELAY}");
        let trace = format!("trace={SLOW_CALLS}");
        let words = ["strace", "--seccomp-bpf", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        words.map(str::to_owned).to_vec()
    }

    /// A run at another time, and whether it is one.
    pub(super) fn at_some_time(self, run: TestRun, chance: &mut Chance) -> (TestRun, bool) {
        match clock_library() {
            Some(library) if self.jumps && chance.one_in(2) => {
                let offset = chance.pick(&JUMPS).to_string();
                let library = library.display().to_string();
                (run.env("LD_PRELOAD", &library).env("POLLUX_TEST_CLOCK", &offset), true)
            }
            _ => (run, false),
        }
    }
}
