//! A process group started here: sends signals to it and kills it when dropped.

use std::io;

use pollux_sandbox::Armed;
use pollux_sandbox::process_table::{ProcessEntry, own_number, processes};
use rustix::process::{Pid, Signal};
use tokio::process::Child;

/// A process group that was started here. Killed when dropped, unless released.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    own_id: u32,
    held: bool,
    armed: bool,
    /// Resources that live as long as the group.
    _watched: Option<Armed>,
}

impl Group {
    /// The group of a child that leads it.
    pub(crate) fn led_by(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { id, own_id: id.cast_unsigned(), held: false, armed: true, _watched: None })
    }

    /// The group of a child that a holder started, which ends it if this program is gone.
    #[cfg(target_os = "linux")]
    pub(crate) fn held(id: i32, own_id: u32, watched: Option<Armed>) -> Self {
        Self { id, own_id, held: true, armed: true, _watched: watched }
    }

    /// Whether a holder ends it if this program is gone.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The number by which the leader knows itself: another one in a sandbox with processes of its own.
    pub(crate) fn own_id(&self) -> u32 {
        self.own_id
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

    /// The members that no other member started: the background jobs of a shell that is gone, by the numbers by
    /// which they know themselves.
    pub(crate) fn orphans(&self) -> Vec<u32> {
        let members: Vec<ProcessEntry> = processes().into_iter().filter(|p| p.group == self.id).collect();
        members
            .iter()
            .filter(|p| p.is_alive && !members.iter().any(|other| other.id == p.parent))
            .filter_map(|p| u32::try_from(p.id).ok())
            .map(|id| if self.held { own_number(id) } else { id })
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
