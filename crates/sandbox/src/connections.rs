//! Connections and servers in the commands' own network, and the processes behind them.

use std::fs;
use std::path::Path;

use crate::Level;
use crate::holder::view_of;
use crate::levels::Sandbox;
use crate::process_table;

/// The state of a TCP socket that waits for connections, as `/proc/net/tcp` has it.
const LISTENING: &str = "0A";
/// Programs that are known by the scripts they run.
const INTERPRETERS: &[&str] = &["node", "perl", "python", "ruby"];

/// A line of `/proc/net/tcp`.
struct Socket {
    port: u16,
    /// The port at the other end.
    to: u16,
    state: String,
    inode: u64,
}

impl Sandbox {
    /// Ports on which something in the commands' own network listens, except for the ways out of it.
    pub fn listening(&self) -> Vec<u16> {
        let Some(holder) = self.holder_id().filter(|_| self.has_own_network()) else { return Vec::new() };
        let mut ports: Vec<u16> = ["tcp", "tcp6"]
            .into_iter()
            .flat_map(|table| sockets(holder, table))
            .filter(|socket| socket.state == LISTENING)
            .map(|socket| socket.port)
            .filter(|port| !self.door_ports().contains(port))
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The process with the connection between these ports of the commands' own loopback, whatever rights it has.
    pub fn client(&self, from: u16, to: u16) -> Option<i32> {
        let holders = if self.has_own_network() { self.holder_ids() } else { Vec::new() };
        holders.into_iter().find_map(|holder| client_in(holder, from, to))
    }

    /// Whether the connection between these ports comes from a process with these rights, and they open the second
    /// port. Nothing else can be in the network of a container.
    pub fn lets_through(&self, from: u16, to: u16) -> bool {
        let is_own = || self.client(from, to).is_some_and(|client| self.is_of_these_rights(client));
        self.door_ports().contains(&to) && (matches!(self.level(), Level::Container(_)) || is_own())
    }

    /// Whether a process has the view of the file system of these rights.
    pub fn is_of_these_rights(&self, process: i32) -> bool {
        let view = view_of(process);
        view.is_some() && self.holder_ids().into_iter().any(|holder| view_of(holder) == view)
    }
}

/// The process in the network of a holder with the connection between these ports.
fn client_in(holder: i32, from: u16, to: u16) -> Option<i32> {
    // Programs that speak both versions use the second table.
    let all = ["tcp", "tcp6"].into_iter().flat_map(|table| sockets(holder, table));
    let is_it = |socket: &Socket| {
        (socket.port, socket.to) == (from, to) && socket.state != LISTENING && socket.inode != 0
    };
    let link = format!("socket:[{}]", all.into_iter().find(is_it)?.inode);
    let network = network_of(holder)?;
    let has_it = |id: i32| {
        let open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|opened| opened.as_os_str() == link.as_str())
    };
    let inside = process_table::processes().into_iter().map(|process| process.id);
    inside.filter(|id| network_of(*id) == Some(network)).find(|id| has_it(*id))
}

/// The name of the program that a process runs. What a process calls itself is not believed, except for scripts, which
/// are named after their interpreter.
pub fn program_of(process: i32) -> Option<String> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let program = name(&fs::read_link(format!("/proc/{process}/exe")).ok()?)?;
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let script = line.split(|byte| *byte == 0).nth(1).and_then(|word| std::str::from_utf8(word).ok());
    let is_interpreter = INTERPRETERS.iter().any(|known| program.starts_with(known));
    let script = script.filter(|word| is_interpreter && word.contains('/'));
    match script.and_then(|script| name(Path::new(script))) {
        Some(script) => Some(format!("{program} {script}")),
        None => Some(program),
    }
}

fn network_of(process: i32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|network| network.ino())
}

fn sockets(process: i32, table: &str) -> Vec<Socket> {
    let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
    text.lines().skip(1).filter_map(parse).collect()
}

/// Parses `sl local_address rem_address st …:… …:… retrnsmt uid timeout inode`.
fn parse(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let port = |field: usize| {
        let (_, port) = fields.get(field)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    Some(Socket {
        port: port(1)?,
        to: port(2)?,
        state: (*fields.get(3)?).to_owned(),
        inode: fields.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_socket_table_are_read() {
        let line = "   0: 0100007F:0C38 00000000:0050 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        let socket = parse(line).unwrap();
        assert_eq!((socket.port, socket.to, socket.state.as_str()), (3128, 80, LISTENING));
        assert_eq!(socket.inode, 4711);
        assert!(parse("nonsense").is_none());
    }

    #[test]
    fn a_process_is_named_by_its_file_and_not_by_what_it_calls_itself() {
        use std::os::unix::process::CommandExt as _;
        let mut sleeping =
            std::process::Command::new("/bin/sleep").arg0("/usr/bin/git").arg("30").spawn().unwrap();
        let id = i32::try_from(sleeping.id()).unwrap();
        let named = program_of(id);
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
        // Several programs can be one file, but none is git.
        assert!(named.as_deref().is_some_and(|name| !name.contains("git")), "{named:?}");
    }
}
