//! Ports of this machine: one that nobody listens on, and one for a program that must be told its port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// How often another port is tried.
const ATTEMPTS: usize = 5;

/// A port of 127.0.0.1 that refuses connections. Nobody else gets it while this value lives.
pub struct ClosedPort {
    _socket: OwnedFd,
    port: u16,
}

impl ClosedPort {
    #[expect(clippy::new_without_default, reason = "it takes a port of the machine")]
    pub fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("make a socket");
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).expect("keep it from children");
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind a loopback port");
        let address = getsockname(&socket).expect("read the socket's address");
        let address = SocketAddr::try_from(address).expect("an address of IPv4");
        Self { _socket: socket, port: address.port() }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, as of a server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A program that listens on a port it was told. Killed when dropped.
pub struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    /// Starts the program and waits until it accepts connections. If it ends, another program may have taken the port
    /// first, so it is started with another one.
    pub fn start(limit: Duration, command: impl Fn(u16) -> Command) -> Self {
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let port = free.expect("find a free port").port();
            let child = command(port).spawn().expect("start the server");
            let mut server = Self { child, port };
            if server.accepts_within(limit) {
                return server;
            }
        }
        panic!("the server ended {ATTEMPTS} times before it listened");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it came to accept connections; it did not if it ended.
    fn accepts_within(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        loop {
            let accepts = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
            if self.child.try_wait().expect("look at the server").is_some() {
                return false;
            }
            if accepts {
                return true;
            }
            assert!(began.elapsed() < limit, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_port_refuses_connections_and_is_taken() {
        let closed = ClosedPort::new();
        let address = (Ipv4Addr::LOCALHOST, closed.port());
        for _ in 0..3 {
            let error = TcpStream::connect(address).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_program_that_ends_gets_another_port() {
        let ports = std::cell::RefCell::new(Vec::new());
        let listener = std::cell::RefCell::new(None);
        let server = Listening::start(Duration::from_secs(60), |port| {
            let is_first = ports.borrow().is_empty();
            ports.borrow_mut().push(port);
            if !is_first {
                // In place of the program.
                *listener.borrow_mut() = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
            }
            let mut command = Command::new("/bin/sh");
            command.args(["-c", if is_first { "exit 1" } else { "exec sleep 600" }]);
            command
        });
        assert_eq!(ports.borrow().len(), 2);
        assert_eq!(server.port(), ports.borrow()[1]);
    }
}
