//! Who listens on a port of this machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::peer::{listeners, tables};

/// Whether a port belongs to this user, or to the system; `None` where the kernel does not tell.
pub(super) fn is_own(port: u16) -> Option<bool> {
    let user = fs::metadata("/proc/self").ok()?.uid();
    judge(&tables(), port, user)
}

fn judge(table: &str, port: u16, user: u32) -> Option<bool> {
    let listeners: Vec<(u16, u32)> = listeners(table).map(|(port, socket)| (port, socket.uid)).collect();
    if listeners.is_empty() {
        return None;
    }
    let mut owners = listeners.iter().filter(|(found, _)| *found == port).map(|(_, owner)| *owner).peekable();
    Some(owners.peek().is_some() && owners.all(|owner| owner == user || owner == 0))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_own_if_all_its_listeners_are() {
        let line = |port: &str, state: &str, owner: u32| {
            format!(
                "   0: 0100007F:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {owner} 0 7\n"
            )
        };
        let table = format!(
            "  sl  local_address rem_address   st\n{}{}{}{}",
            line("1F90", "0A", 1000),
            line("1F91", "0A", 65534),
            line("1F92", "01", 1000),
            line("1F93", "0A", 0)
        );
        let is_own = |port| judge(&table, port, 1000);
        assert_eq!([0x1F90, 0x1F91, 0x1F92, 0x1F93].map(is_own), [true, false, false, true].map(Some));
        let both = format!("{table}{}", line("1F90", "0A", 65534));
        assert_eq!(judge(&both, 0x1F90, 1000), Some(false));
        assert_eq!(judge("", 0x1F90, 1000), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listener_of_this_process_is_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(is_own(listener.local_addr().unwrap().port()), Some(true));
    }
}
