//! The system's process table, with parents.

/// A row of the process table.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only its sandboxes look at all of it"))]
pub struct ProcessEntry {
    pub id: i32,
    pub parent: i32,
    pub group: i32,
    pub is_alive: bool,
    /// When it began, in the kernel's ticks.
    pub started: u64,
}

/// Descendants of a group's leader that are in other groups.
pub fn strays_of(leader: i32) -> Vec<i32> {
    let table = processes();
    let family = descendants(leader, &table);
    table.iter().filter(|p| p.group != leader && family.contains(&p.id)).map(|p| p.id).collect()
}

/// All descendants of a process.
pub fn family_of(process: i32) -> Vec<i32> {
    descendants(process, &processes())
}

fn descendants(process: i32, table: &[ProcessEntry]) -> Vec<i32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        next += 1;
        let children = table.iter().filter(|p| p.parent == parent && !family.contains(&p.id));
        let children: Vec<i32> = children.map(|p| p.id).collect();
        family.extend(children);
    }
    family.remove(0);
    family
}

/// Whether a process has a child that still runs.
pub fn has_living_child(process: i32) -> bool {
    living_children(process) > 0
}

/// The number of its children that still run.
pub fn living_children(process: i32) -> usize {
    let Ok(listed) = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")) else {
        return processes().iter().filter(|child| child.parent == process && child.is_alive).count();
    };
    let children = listed.split_ascii_whitespace().filter_map(|id| id.parse::<i32>().ok());
    let is_alive = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
        stat.ok().and_then(|stat| parse_stat(*id, &stat)).is_some_and(|child| child.is_alive)
    };
    children.filter(is_alive).count()
}

/// The process ID in the process's innermost PID namespace, as the process itself sees it.
pub fn own_number(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|line| line.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(process)
}

/// When a process started, in ticks since the system did.
pub fn start_of(process: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_stat(process, &stat).filter(|entry| entry.is_alive).map(|entry| entry.started)
}

/// All processes; empty where the system has no `/proc`.
pub fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            parse_stat(id, &stat)
        })
        .collect()
}

/// Parses `pid (name) state ppid pgrp … starttime …`; the name may contain spaces and parentheses.
fn parse_stat(id: i32, stat: &str) -> Option<ProcessEntry> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Sixteen fields about the terminal, faults, times and priority are in between.
    let started = fields.nth(16).and_then(|ticks| ticks.parse().ok()).unwrap_or_default();
    Some(ProcessEntry { id, parent, group, is_alive: !matches!(state, "Z" | "X"), started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_parents() {
        let entry = parse_stat(7, "7 (evil) R 1 1 ) S 42 43 43 0 -1").unwrap();
        assert_eq!((entry.parent, entry.group, entry.is_alive), (42, 43, true));
        assert!(!parse_stat(7, "7 (x) Z 1 2 3").unwrap().is_alive);
        assert!(parse_stat(7, "nonsense").is_none());
        let own = i32::try_from(std::process::id()).unwrap();
        let table = processes();
        let (us, first) = (table.iter().find(|p| p.id == own).unwrap(), table.iter().find(|p| p.id == 1));
        assert!(us.started > 0 && first.is_none_or(|first| first.started <= us.started), "{us:?} {first:?}");
    }
}
