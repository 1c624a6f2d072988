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

/// Times that a connection is looked for. A list that changes while it is read may lack some.
const LOOKS: usize = 5;

/// Why the process at the other end of a connection may not be served; `None` if it may. `local` is our own end.
pub fn objection(peer: SocketAddr, local: SocketAddr) -> Option<&'static str> {
    objection_with(peer, local, &confinement::objection)
}

/// The same for a browser, which a package format may confine.
pub fn browser_objection(peer: SocketAddr, local: SocketAddr) -> Option<&'static str> {
    let own_is_packaged = is_packaged("self");
    objection_with(peer, local, &|pid| {
        let why = confinement::objection(pid)?;
        let is_packaged = pid.is_some_and(|pid| is_packaged(&pid.to_string()));
        (own_is_packaged || !is_packaged).then_some(why)
    })
}

type Check<'a> = &'a dyn Fn(Option<i32>) -> Option<&'static str>;

fn objection_with(peer: SocketAddr, local: SocketAddr, check: Check<'_>) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let socket = (0..LOOKS).find_map(|_| {
        let read = |list: &str| fs::read_to_string(list).unwrap_or_default();
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|list| find(&read(list), peer, local))
    });
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

/// The socket that connects these addresses. One without an owner was closed already.
fn find(list: &str, own: SocketAddr, other: SocketAddr) -> Option<Socket> {
    let (own, other) = (forms(own), forms(other));
    let is = |field: Option<&&str>, forms: &[String]| forms.iter().any(|form| field == Some(&form.as_str()));
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if !is(fields.get(1), &own) || !is(fields.get(2), &other) {
            return None;
        }
        let socket = Socket { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? };
        (socket.inode > 0).then_some(socket)
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
        let (server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        assert_eq!(objection(peer, local), None);
        assert_eq!(browser_objection(peer, local), None);
        drop(client);
        assert!(objection(peer, local).is_some());
    }

    #[test]
    fn the_user_of_a_process_is_known() {
        assert_eq!(user(Path::new("/proc/self")), Some(account::uid()));
    }

    #[test]
    fn sockets_are_found_by_their_own_address() {
        let line = |number: usize, own: &str, other: &str, uid: u32, inode: u64| {
            format!(
                "   {number}: {own} {other} 01 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1\n"
            )
        };
        let (server, client) = ("0100007F:1F90", "0100007F:C001");
        let list = [
            "  sl  local_address rem_address   st\n".to_owned(),
            line(0, server, client, 1000, 77),
            // The same port, to another server, and a connection that is over.
            line(1, client, "0100007F:0050", 1002, 99),
            line(2, client, server, 0, 0),
            line(3, client, server, 1001, 88),
        ];
        if cfg!(target_endian = "little") {
            let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
            let found = find(&list.concat(), address(0xC001), address(0x1F90));
            assert_eq!(found, Some(Socket { uid: 1001, inode: 88 }));
            assert_eq!(find(&list.concat(), address(1), address(0x1F90)), None);
        }
    }
}
