//! When processes started. A process id alone does not name the owner of a lock file: another process may have it by now.

use std::time::{Duration, SystemTime};

/// Of the times that Linux tells programs, on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// When a process started, in clock ticks since boot; `None` if it is gone or the system does not say.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// The same by the clock on the wall.
pub fn started_at(pid: u32) -> Option<SystemTime> {
    let ticks = start_ticks(pid)?;
    let started = Duration::from_millis(ticks.checked_mul(1000 / TICKS_PER_SECOND)?);
    SystemTime::now().checked_sub(since_boot()?.checked_sub(started)?)
}

/// Not `/proc/uptime`, which may be that of a container.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some(Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_started_when_it_was_started() {
        let tick = Duration::from_millis(20);
        let before = SystemTime::now() - tick;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = started_at(child.id());
        let after = SystemTime::now() + tick;
        child.kill().unwrap();
        child.wait().unwrap();
        let started = started.unwrap();
        assert!(before <= started && started <= after, "{before:?} {started:?} {after:?}");
        assert_eq!(started_at(0), None);
    }
}
