//! Limits, tokens and the end of a proxy.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pollux_domain::time::SystemClock;
use pollux_egress::client::{TunnelError, open_tunnel};
use pollux_egress::host::Authority;
use pollux_egress::journal::Journal;
use pollux_egress::proxy::ProxyOptions;
use pollux_egress::rules::RuleBook;
use pollux_egress::server::{Listen, ProxyAddress, Server};

use pollux_test_support::client_hello;

use crate::world::{Received, World, echo_server, read_all, read_exactly, rules};

#[test]
fn more_connections_than_allowed_are_closed_at_once() {
    let world = World::with(rules(&["good.example"]), |options| options.limits.connections = 3);
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    let held: Vec<_> = (0..3).map(|_| world.tunnel("good.example:443")).collect();
    assert_eq!(read_all(&mut world.connect()), "", "the fourth is closed");
    drop(held);
    // The slots come back when the proxy has noticed.
    loop {
        let mut stream = world.connect();
        let asked = write!(stream, "CONNECT good.example:443 HTTP/1.1\r\n\r\n");
        let mut byte = [0];
        if asked.is_ok() && stream.read(&mut byte).is_ok_and(|count| count == 1) {
            break;
        }
    }
}

#[test]
fn slow_and_large_heads_are_refused() {
    let world = World::with(rules(&[]), |options| options.limits.head = Duration::from_secs(5));
    assert!(world.exchange("GET http://good.example/ HTTP/1.1\r\nHost:").starts_with("HTTP/1.1 408"));
    assert_eq!(world.exchange([5, 1]), "", "a slow SOCKS greeting");
    assert_eq!(world.exchange(""), "", "a silent client");
    let world = World::new(&[]);
    let mut stream = world.connect();
    let long = format!("GET http://good.example/ HTTP/1.1\r\nX: {}", "a".repeat(70 * 1024));
    let _ = stream.write_all(long.as_bytes());
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 431"));
}

#[test]
fn a_silent_tunnel_to_a_web_port_is_closed() {
    let world = World::with(rules(&["good.example"]), |options| options.limits.head = Duration::from_secs(5));
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    let mut stream = world.tunnel("good.example:443");
    stream.write_all(&client_hello(Some("good.example"))[..20]).unwrap();
    assert_eq!(read_all(&mut stream), "");
    world.wait_for_denial("no ClientHello in time");
    assert_eq!(received.text(), "");
}

#[test]
fn on_loopback_every_request_needs_the_token() {
    let world = World::on_loopback(rules(&["good.example"]));
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    let ProxyAddress::Loopback { port, token } = world.server.address().clone() else { panic!("no port") };
    assert!(token.len() >= 32);
    let exchange = |bytes: &[u8], count: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut out = vec![0; count];
        let read = stream.read_exact(&mut out).map(|()| out);
        read.unwrap_or_default()
    };
    let connect = |user: &str| {
        let field = format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(user));
        let text = format!("CONNECT good.example:443 HTTP/1.1\r\n{field}\r\n");
        String::from_utf8(exchange(text.as_bytes(), 12)).unwrap()
    };
    assert_eq!(exchange(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n", 12), b"HTTP/1.1 407");
    assert_eq!(
        exchange(b"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", 12),
        b"HTTP/1.1 407"
    );
    assert_eq!(connect("wrong:"), "HTTP/1.1 407");
    assert_eq!(connect(&format!("{token}x:")), "HTTP/1.1 407");
    assert_eq!(connect(&format!("{token}:")), "HTTP/1.1 200");
    let socks = |user: &str| {
        let login = [&[5, 1, 2, 1, u8::try_from(user.len()).unwrap()][..], user.as_bytes(), &[0]].concat();
        exchange(&login, 4)
    };
    assert_eq!(socks(&token), [5, 2, 1, 0]);
    assert_eq!(socks("wrong"), [5, 2, 1, 1]);
    assert_eq!(exchange(&[5, 1, 0], 2), [5, 0xff]);
}

#[test]
fn a_dropped_proxy_is_gone_with_its_connections() {
    let world = World::new(&["good.example"]);
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    let socket = world.socket();
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = world.tunnel("good.example:443");
    let hello = client_hello(Some("good.example"));
    stream.write_all(&hello).unwrap();
    read_exactly(&mut stream, hello.len());
    drop(world);
    assert_eq!(read_all(&mut stream), "");
    assert!(!socket.exists());
}

#[test]
fn a_socket_left_by_a_killed_process_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let start = || {
        let journal = Arc::new(Journal::new(Arc::new(SystemClock)));
        let options = ProxyOptions::new(Arc::new(RuleBook::new(rules(&[]))), journal);
        Server::start(&Listen::Unix(path.clone()), options)
    };
    let first = start().unwrap();
    assert!(start().is_err());
    assert!(first.is_running() && path.exists());
}

#[test]
fn our_own_programs_open_tunnels_with_the_client() {
    let world = World::on_loopback(rules(&["git.example:22"]));
    let received = Received::default();
    world.net.name("git.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:22", echo_server(&received));
    let ProxyAddress::Loopback { port, token } = world.server.address().clone() else { panic!("no port") };
    let open = |target: &str, token: Option<&str>| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        open_tunnel(&mut stream, &Authority::parse(target, None).unwrap(), token).map(|()| stream)
    };
    let mut stream = open("git.example:22", Some(&token)).unwrap();
    stream.write_all(b"ping").unwrap();
    assert_eq!(read_exactly(&mut stream, 4), "ping");
    assert!(matches!(open("evil.example:22", Some(&token)), Err(TunnelError::Refused(_))));
    assert!(matches!(open("git.example:22", None), Err(TunnelError::Failed { status: 407, .. })));
}
