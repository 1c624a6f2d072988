//! Which process is behind a TCP connection of this machine.
//!
//! Linux tells it in `/proc`; elsewhere every local process is served.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::{account, confinement};

/// A socket as the kernel lists it.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// Why the process behind a connection may not be served; `None` if it may.
pub fn objection(peer: SocketAddr) -> Option<&'static str> {
    objection_with(peer, &confinement::objection)
}

/// The same for a browser, which a package format may confine.
pub fn browser_objection(peer: SocketAddr) -> Option<&'static str> {
    let own_is_packaged = is_packaged("self");
    objection_with(peer, &|pid| {
        let why = confinement::objection(pid)?;
        let is_packaged = pid.is_some_and(|pid| is_packaged(&pid.to_string()));
        (own_is_packaged || !is_packaged).then_some(why)
    })
}

type Check<'a> = &'a dyn Fn(Option<i32>) -> Option<&'static str>;

fn objection_with(peer: SocketAddr, check: Check<'_>) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let lists = ["/proc/net/tcp", "/proc/net/tcp6"].map(|list| fs::read_to_string(list).unwrap_or_default());
    // Without an owner it was closed already.
    let socket = lists.iter().find_map(|list| find(list, peer)).filter(|socket| socket.inode > 0);
    let Some(socket) = socket else { return Some("a process that cannot be seen") };
    let own = account::uid();
    match socket.uid {
        // Root may do everything anyway.
        0 if own != 0 => None,
        uid if uid != own => Some("another user"),
        _ => holder(&socket, check),
    }
}

/// Looks at every process that has a socket open. One of the same user that hides its files counts if it is sandboxed.
fn holder(socket: &Socket, check: Check<'_>) -> Option<&'static str> {
    let wanted = format!("socket:[{}]", socket.inode);
    let (mut is_found, mut hidden) = (false, None);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        match has_open(&process.path(), &wanted) {
            Ok(false) => {}
            Ok(true) => {
                is_found = true;
                if let Some(why) = check(Some(pid)) {
                    return Some(why);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let is_same = user(&process.path()) == Some(socket.uid);
                hidden = hidden.or_else(|| check(Some(pid)).filter(|_| is_same));
            }
            Err(_) => {}
        }
    }
    if is_found { None } else { hidden }
}

/// The user of a process. The owner of its folder is root where it hides its files.
fn user(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether snap or flatpak started a process.
fn is_packaged(process: &str) -> bool {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    groups.contains("/snap.") || groups.contains("/app-flatpak-")
}

fn has_open(process: &Path, wanted: &str) -> io::Result<bool> {
    for file in fs::read_dir(process.join("fd"))? {
        if fs::read_link(file?.path()).is_ok_and(|target| target.as_os_str() == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The socket whose own address this is.
fn find(list: &str, address: SocketAddr) -> Option<Socket> {
    let wanted = forms(address);
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if !wanted.iter().any(|form| fields.get(1) == Some(&form.as_str())) {
            return None;
        }
        Some(Socket { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? })
    })
}

/// An address as the kernel writes it; one of version 4 may belong to a socket of version 6.
fn forms(address: SocketAddr) -> Vec<String> {
    let words = |bytes: &[u8]| -> String {
        let word = |four: &[u8]| four.try_into().map_or(0, u32::from_ne_bytes);
        bytes.chunks(4).map(|four| format!("{:08X}", word(four))).collect()
    };
    let with_port = |words: String| format!("{words}:{:04X}", address.port());
    match address.ip() {
        IpAddr::V4(ip) => {
            vec![with_port(words(&ip.octets())), with_port(words(&ip.to_ipv6_mapped().octets()))]
        }
        IpAddr::V6(ip) => vec![with_port(words(&ip.octets()))],
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_process_is_served_and_a_closed_one_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        assert_eq!(objection(peer), None);
        assert_eq!(browser_objection(peer), None);
        drop(client);
        assert!(objection(peer).is_some());
    }

    #[test]
    fn the_user_of_a_process_is_known() {
        assert_eq!(user(Path::new("/proc/self")), Some(account::uid()));
    }

    #[test]
    fn sockets_are_found_by_their_own_address() {
        let list = "  sl  local_address rem_address   st\n   \
                    0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 77 1\n   \
                    1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 88 1\n";
        if cfg!(target_endian = "little") {
            let found = find(list, ([127, 0, 0, 1], 0xC001).into());
            assert_eq!(found, Some(Socket { uid: 1001, inode: 88 }));
            assert_eq!(find(list, ([127, 0, 0, 1], 1).into()), None);
        }
    }
}
