//! A remote agent built with the public A2A server library.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The agent's process; it leaves when its input ends.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// The address of its card.
    pub card: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the agent; `None`, with a notice, where `scripts/python-peers.sh` has not installed the library.
pub fn peer(args: &[&str]) -> Option<Peer> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("target/a2a-server");
    if !folder.join("installed").exists() {
        let _ = writeln!(std::io::stderr(), "skipped: scripts/python-peers.sh has not installed the library");
        return None;
    }
    let mut child = Command::new(folder.join("python/bin/python"))
        .arg(root.join("crates/cli/tests/peers/a2a_agent.py"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut card = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut card).unwrap();
    Some(Peer { child, card: card.trim().to_owned() })
}
