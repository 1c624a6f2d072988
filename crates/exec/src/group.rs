//! A process group started here: sends signals to it and kills it when dropped.

use std::io;

use pollux_sandbox::Armed;
use pollux_sandbox::process_table::{ProcessEntry, processes};
use rustix::process::{Pid, Signal};
use tokio::process::Child;

/// A process group that was started here. Killed when dropped, unless released.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    armed: bool,
    /// Resources that live as long as the group.
    _watched: Option<Armed>,
}

impl Group {
    /// The group of a child that leads it.
    pub(crate) fn led_by(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { id, armed: true, _watched: None })
    }

    /// Keeps a watcher for the lifetime of the group.
    pub(crate) fn watched_by(self, watch: Armed) -> Self {
        let mut group = self;
        group._watched = Some(watch);
        group
    }

    /// The group's number, which is its leader's process id.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Whether any process of the group is alive, or dead but not yet collected.
    pub(crate) fn exists(&self) -> bool {
        group_id(self.id).is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    /// Sends a signal to every member.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = group_id(self.id) {
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }

    /// The members that no other member started: the background jobs of a shell that is gone.
    pub(crate) fn orphans(&self) -> Vec<u32> {
        let members: Vec<ProcessEntry> = processes().into_iter().filter(|p| p.group == self.id).collect();
        members
            .iter()
            .filter(|p| p.is_alive && !members.iter().any(|other| other.id == p.parent))
            .filter_map(|p| u32::try_from(p.id).ok())
            .collect()
    }

    /// Lets the group outlive this value.
    pub(crate) fn release(mut self) {
        self.armed = false;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.armed {
            self.signal(Signal::KILL);
        }
    }
}

/// A group that can be signalled: 0 and 1 would mean our own group and everyone.
fn group_id(group: i32) -> Option<Pid> {
    if group > 1 { Pid::from_raw(group) } else { None }
}

pub(crate) fn signal_each(processes: &[i32], signal: Signal) {
    for id in processes.iter().filter_map(|id| group_id(*id)) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_groups_0_and_1_are_never_signalled() {
        assert_eq!([-1, 0, 1].map(group_id), [None; 3]);
        assert!(group_id(2).is_some());
    }
}
