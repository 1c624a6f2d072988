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
pub(crate) struct Socket {
    pub(crate) uid: u32,
    inode: u64,
}

/// What is said of a process that cannot be found.
const UNSEEN: &str = "a process that cannot be seen";

/// The state of a socket that waits for connections.
const LISTENING: &str = "0A";
/// Times that a connection is looked for. A list that changes while it is read may lack some.
const LOOKS: usize = 5;

/// Why the process at the other end of a connection may not be served; `None` if it may. `local` is our own end.
pub fn objection(peer: SocketAddr, local: SocketAddr) -> Option<&'static str> {
    objection_with(peer, local, &Check { objection: &confinement::objection, hidden: Hidden::Refused })
}

/// The same for a browser, which a package format may confine.
pub fn browser_objection(peer: SocketAddr, local: SocketAddr) -> Option<&'static str> {
    objection_with(peer, local, &Check { objection: &packaged_objection, hidden: Hidden::Served })
}

/// The same for the program that listens on a port of the loopback addresses, such as an editor.
pub fn listener_objection(port: u16) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let tables = tables();
    let mut sockets = listeners(&tables).filter(|(known, _)| *known == port).peekable();
    if sockets.peek().is_none() {
        return Some(UNSEEN);
    }
    let check = Check { objection: &packaged_objection, hidden: Hidden::Served };
    sockets.find_map(|(_, socket)| socket_objection(&socket, &check))
}

/// The lists of TCP sockets.
pub(crate) fn tables() -> String {
    ["/proc/net/tcp", "/proc/net/tcp6"].map(|list| fs::read_to_string(list).unwrap_or_default()).concat()
}

/// The sockets in these lists that wait for connections, with their ports.
pub(crate) fn listeners(tables: &str) -> impl Iterator<Item = (u16, Socket)> {
    tables.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let port = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        let socket = Socket { uid: fields.get(7)?.parse().ok()?, inode: fields.get(9)?.parse().ok()? };
        (fields.get(3) == Some(&LISTENING)).then_some((port, socket))
    })
}

/// What a package format confines is no command in a sandbox.
fn packaged_objection(pid: Option<i32>) -> Option<&'static str> {
    let why = confinement::objection(pid)?;
    let is_packaged_one = pid.is_some_and(|pid| is_packaged(&pid.to_string()));
    (is_packaged("self") || !is_packaged_one).then_some(why)
}

/// Who may be served.
struct Check<'a> {
    objection: &'a dyn Fn(Option<i32>) -> Option<&'static str>,
    hidden: Hidden,
}

/// What a socket without a visible owner means, if processes of the same user hide their files.
#[derive(PartialEq, Eq)]
enum Hidden {
    /// It is one of theirs; they are not sandboxed, and there is another secret to know.
    Served,
    Refused,
}

fn objection_with(peer: SocketAddr, local: SocketAddr, check: &Check<'_>) -> Option<&'static str> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let socket = (0..LOOKS).find_map(|_| find(&tables(), peer, local));
    socket.map_or(Some(UNSEEN), |socket| socket_objection(&socket, check))
}

fn socket_objection(socket: &Socket, check: &Check<'_>) -> Option<&'static str> {
    let own = account::uid();
    match socket.uid {
        // Root may do everything anyway.
        0 if own != 0 => None,
        uid if uid != own => Some("another user"),
        _ => holder(socket, check),
    }
}

/// Looks at every process that has a socket open. A socket that nobody is seen to have may be a sandboxed command's: its
/// descriptor may just be on its way to another process.
fn holder(socket: &Socket, check: &Check<'_>) -> Option<&'static str> {
    let wanted = format!("socket:[{}]", socket.inode);
    let mut is_hidden = false;
    // Most threads have the files of their process.
    for files in [files_of_process, files_of_threads] {
        let (mut is_found, processes) = (false, fs::read_dir("/proc").into_iter().flatten().flatten());
        for process in processes {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let why = match files(&process.path(), &wanted) {
                Ok(false) => continue,
                Ok(true) => {
                    is_found = true;
                    (check.objection)(Some(pid))
                }
                // One that hides its files may be the owner.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    if user(&process.path()) != Some(socket.uid) {
                        continue;
                    }
                    is_hidden = true;
                    (check.objection)(Some(pid))
                }
                Err(_) => continue,
            };
            if why.is_some() {
                return why;
            }
        }
        if is_found {
            return None;
        }
    }
    let is_served = is_hidden && check.hidden == Hidden::Served;
    (!is_served).then_some(UNSEEN)
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

/// Whether a process has a file open.
fn files_of_process(process: &Path, wanted: &str) -> io::Result<bool> {
    let mut files = fs::read_dir(process.join("fd"))?.flatten();
    Ok(files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == wanted)))
}

/// Whether one of its threads has.
fn files_of_threads(process: &Path, wanted: &str) -> io::Result<bool> {
    for thread in fs::read_dir(process.join("task"))?.flatten() {
        match files_of_process(&thread.path(), wanted) {
            // A thread may end at any time.
            Ok(false) => {}
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {}
            done => return done,
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

    /// A child that another test starts holds copies of all descriptors until its program begins.
    fn eventually(holds: impl Fn() -> bool) -> bool {
        let start = std::time::Instant::now();
        while !holds() {
            if start.elapsed() > std::time::Duration::from_secs(60) {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        true
    }

    #[test]
    fn a_connection_of_this_process_is_served_and_a_closed_one_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        assert_eq!(objection(peer, local), None);
        assert_eq!(browser_objection(peer, local), None);
        drop(client);
        assert!(eventually(|| objection(peer, local).is_some()));
    }

    #[test]
    fn the_program_behind_a_port_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_objection(port), None);
        drop(listener);
        assert!(eventually(|| listener_objection(port).is_some()));
    }

    #[test]
    fn a_thread_with_files_of_its_own_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, done) = std::sync::mpsc::channel::<()>();
        let (ready, connected) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Allowed in every sandbox: the socket is in no other table of this process.
            #[expect(deprecated, reason = "this thread uses no files of others")]
            let apart = rustix::thread::unshare(rustix::thread::UnshareFlags::FILES);
            let client = TcpStream::connect(address).unwrap();
            ready.send(apart).unwrap();
            let _ = done.recv();
            drop(client);
        });
        let (server, peer) = listener.accept().unwrap();
        let _ = connected.recv().unwrap();
        assert_eq!(objection(peer, server.local_addr().unwrap()), None);
        drop(sender);
        thread.join().unwrap();
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
