//! Whether a process is confined more than this one: a command in a sandbox must not reach a server that runs outside,
//! which could approve its calls or carry them out itself.
//!
//! Every sandbox level adds a system-call filter, and a filter can neither be removed nor passed to a process outside.

use std::fs;

/// Why a process with this id may not connect; `None` if it may.
pub fn objection(pid: Option<i32>) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    // 0 stands for a process of a namespace that cannot be seen from here.
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return Some("a process that cannot be seen") };
    let Some(theirs) = filters(&pid.to_string()) else { return Some("a process that is gone") };
    (theirs > filters("self").unwrap_or(0)).then_some("a sandboxed process")
}

/// The number of system-call filters of a process.
fn filters(process: &str) -> Option<u64> {
    count(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn count(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u64>().ok()
    };
    // Older kernels tell only whether there is a filter.
    field("Seccomp_filters:").or_else(|| field("Seccomp:").map(|mode| u64::from(mode > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(count("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n"), Some(3));
        assert_eq!(count("Seccomp:\t2\n"), Some(1));
        assert_eq!(count("Seccomp:\t0\n"), Some(0));
        assert_eq!(count("Name:\tx\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_equal_process_may_connect_and_an_unknown_one_may_not() {
        assert_eq!(objection(i32::try_from(std::process::id()).ok()), None);
        assert!(objection(Some(0)).is_some() && objection(None).is_some());
        assert!(objection(Some(i32::MAX)).is_some());
    }
}
