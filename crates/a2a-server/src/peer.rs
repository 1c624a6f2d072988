//! Which process is behind a connection of this machine, where no token says it.
//!
//! Linux tells it in `/proc`; elsewhere every local process is served.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pollux_host::confinement;

/// A socket as the kernel lists it.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// Why the process behind a connection may not be served; `None` if it may.
pub(crate) fn objection(peer: SocketAddr) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let lists = ["/proc/net/tcp", "/proc/net/tcp6"].map(|list| fs::read_to_string(list).unwrap_or_default());
    // Several connections to other places may have the same address; those without an owner are closed already.
    let sockets: Vec<Socket> =
        lists.iter().flat_map(|list| find(list, peer)).filter(|socket| socket.inode > 0).collect();
    if sockets.is_empty() {
        return Some("a process that cannot be seen");
    }
    let own = fs::metadata("/proc/self").map(|own| own.uid()).ok();
    if sockets.iter().any(|socket| socket.uid != 0 && Some(socket.uid) != own) {
        return Some("another user");
    }
    sockets.iter().find_map(|socket| holder(socket.inode))
}

/// Looks at every process that has a socket open. One that hides its files counts if it is sandboxed.
fn holder(inode: u64) -> Option<&'static str> {
    let wanted = format!("socket:[{inode}]");
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
                if let Some(why) = confinement::objection(Some(pid)) {
                    return Some(why);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                hidden = hidden.or(confinement::objection(Some(pid)));
            }
            Err(_) => {}
        }
    }
    if is_found { None } else { hidden }
}

fn has_open(process: &Path, wanted: &str) -> io::Result<bool> {
    for file in fs::read_dir(process.join("fd"))? {
        if fs::read_link(file?.path()).is_ok_and(|target| target.as_os_str() == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The sockets whose own address this is.
fn find(list: &str, address: SocketAddr) -> Vec<Socket> {
    let wanted = forms(address);
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if !wanted.iter().any(|form| fields.get(1) == Some(&form.as_str())) {
            return None;
        }
        Some(Socket { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? })
    };
    list.lines().filter_map(socket).collect()
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
        drop(client);
        assert!(objection(peer).is_some());
    }

    #[test]
    fn sockets_are_found_by_their_own_address() {
        let list = "  sl  local_address rem_address   st\n   \
                    0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 77 1\n   \
                    1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 88 1\n";
        if cfg!(target_endian = "little") {
            let found = find(list, ([127, 0, 0, 1], 0xC001).into());
            assert_eq!(found, [Socket { uid: 1001, inode: 88 }]);
            assert_eq!(find(list, ([127, 0, 0, 1], 1).into()), []);
        }
    }
}
