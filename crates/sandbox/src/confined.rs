//! Finds confined processes that left their process group, such as daemons.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::process_table::{self, ProcessEntry};

/// Properties of a process that the kernel reports and that cannot be undone.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    user: String,
    no_new_privileges: bool,
    filters: u32,
    user_namespace: Option<OsString>,
}

/// A time in kernel ticks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let per_second = rustix::param::clock_ticks_per_second();
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or_default();
        let part = nanoseconds.saturating_mul(per_second) / 1_000_000_000;
        Self(u64::try_from(now.tv_sec).unwrap_or_default().saturating_mul(per_second).saturating_add(part))
    }
}

/// Whether a process that began since then has lost its parent and has, for good, fewer rights than this one.
///
/// Whatever a command starts in a session of its own becomes such a process, unless it has ended. A program that
/// confines itself can look the same; who asks has to bear a "yes" too many.
pub(crate) fn is_any_alive(since: Tick) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let table = process_table::processes();
    let Some(own_marks) = Marks::of(own) else { return false };
    // Orphans are adopted by one of these; our own children may still be about to exit.
    let mut ancestors = vec![1, own];
    let mut next = own;
    while let Some(entry) = table.iter().find(|entry| entry.id == next && entry.parent > 0) {
        ancestors.push(entry.parent);
        next = entry.parent;
    }
    let is_orphan = |entry: &&ProcessEntry| {
        entry.is_alive && entry.id != own && entry.started >= since.0 && ancestors.contains(&entry.parent)
    };
    let mut marks = table.iter().filter(is_orphan).filter_map(|entry| Marks::of(entry.id));
    marks.any(|marks| marks.is_below(&own_marks))
}

impl Marks {
    fn of(process: i32) -> Option<Self> {
        let folder = Path::new("/proc").join(process.to_string());
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let user_namespace = fs::read_link(folder.join("ns/user")).ok().map(Into::into);
        Self::parse(&status, user_namespace)
    }

    fn parse(status: &str, user_namespace: Option<OsString>) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()
        };
        Some(Self {
            user: field("Uid:")?.to_owned(),
            no_new_privileges: field("NoNewPrivs:")? == "1",
            filters: field("Seccomp_filters:").and_then(|count| count.parse().ok()).unwrap_or_default(),
            user_namespace,
        })
    }

    fn is_below(&self, own: &Self) -> bool {
        self.user == own.user
            && self.no_new_privileges
            && (!own.no_new_privileges
                || self.filters > own.filters
                || self.user_namespace != own.user_namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_count_matches_the_process_table() {
        let before = Tick::now();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let after = Tick::now();
        let id = i32::try_from(child.id()).unwrap();
        let started =
            process_table::processes().iter().find(|entry| entry.id == id).map(|entry| Tick(entry.started));
        child.kill().unwrap();
        child.wait().unwrap();
        let started = started.unwrap();
        assert!(before <= started && started <= after, "{before:?} {started:?} {after:?}");
    }

    #[test]
    fn a_confined_process_is_recognised_by_its_irrevocable_limits() {
        let marks = |privileges: u8, filters: u8, namespace: &str| {
            let status = format!(
                "Name:\tx\nUid:\t7\t7\t7\t7\nNoNewPrivs:\t{privileges}\nSeccomp_filters:\t{filters}\n"
            );
            Marks::parse(&status, Some(namespace.into())).unwrap()
        };
        let (plain, in_container) = (marks(0, 0, "a"), marks(1, 1, "a"));
        assert!(marks(1, 0, "a").is_below(&plain) && marks(1, 1, "b").is_below(&plain));
        assert!(!plain.is_below(&plain) && !in_container.is_below(&in_container));
        assert!(marks(1, 2, "a").is_below(&in_container) && marks(1, 1, "b").is_below(&in_container));
        let other = Marks { user: "8".to_owned(), ..marks(1, 0, "a") };
        assert!(!other.is_below(&plain));
    }
}
