//! The processes above this one, one of which may be the editor.

use rustix::process::{Pid, getppid, test_kill_process};

const MAX_ANCESTORS: usize = 32;

/// The parent, its parent and so on. Where the system has no `/proc`, only the parent.
pub(crate) fn ancestors() -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut next = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    while let Some(pid) = next.filter(|pid| *pid > 1 && found.len() < MAX_ANCESTORS && !found.contains(pid)) {
        found.push(pid);
        next = parent(pid);
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process exists that belongs to this user.
pub(crate) fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_and_alive() {
        let found = ancestors();
        // In a container the parent may be the first process.
        assert!(found.iter().all(|pid| is_alive(*pid)), "{found:?}");
        assert_eq!(parent(std::process::id()), getppid().map(|pid| pid.as_raw_nonzero().get() as u32));
        assert!(!is_alive(u32::MAX) && !is_alive(0));
    }
}
