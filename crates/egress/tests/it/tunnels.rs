//! `CONNECT` and SOCKS tunnels.

use std::io::Write;

use pollux_test_support::client_hello;

use crate::world::{
    Received, World, echo_server, read_all, read_exactly, read_head, rules, server, web_server,
};

fn secure_site(world: &World) -> Received {
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    let server = echo_server(&received);
    world.net.place("1.2.3.4:443", server);
    world.net.place("1.2.3.4:80", server);
    received
}

#[test]
fn a_tunnel_copies_bytes_after_the_hello() {
    let world = World::new(&["good.example"]);
    secure_site(&world);
    for name in ["good.example", "GOOD.example"] {
        let mut stream = world.tunnel("good.example:443");
        let hello = client_hello(Some(name));
        stream.write_all(&hello).unwrap();
        stream.write_all(b"and more").unwrap();
        assert!(read_exactly(&mut stream, hello.len() + 8).ends_with("and more"));
    }
    let (reply, mut stream) = world.socks(b"good.example", 443);
    assert_eq!(reply, 0);
    let hello = client_hello(Some("good.example"));
    stream.write_all(&hello).unwrap();
    read_exactly(&mut stream, hello.len());
}

#[test]
fn a_hello_for_another_host_reaches_nobody() {
    let world = World::new(&["good.example"]);
    let received = secure_site(&world);
    let malformed = [22, 3, 1, 0, 2, 1, 0];
    for (bytes, rule) in [
        (client_hello(Some("evil.example")), "TLS for another server name"),
        (client_hello(Some("good.example.evil.example")), "TLS for another server name"),
        (client_hello(Some("good.example\0")), "TLS for another server name"),
        (client_hello(None), "TLS without a server name"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "not TLS"),
        (b"SSH-2.0-x\r\n".to_vec(), "not TLS"),
        (malformed.to_vec(), "incomplete TLS ClientHello"),
    ] {
        let mut stream = world.tunnel("good.example:443");
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut stream), "", "{rule}");
        world.wait_for_denial(rule);
    }
    assert_eq!(received.text(), "");
}

#[test]
fn a_split_hello_is_put_together_before_it_is_judged() {
    let world = World::new(&["good.example"]);
    let received = secure_site(&world);
    for name in ["good.example", "evil.example"] {
        let whole = client_hello(Some(name));
        let message = &whole[5..];
        // One record for every ten bytes, and one write for every three.
        let records: Vec<u8> = message
            .chunks(10)
            .flat_map(|part| [&[22, 3, 1, 0, u8::try_from(part.len()).unwrap()][..], part].concat())
            .collect();
        let mut stream = world.tunnel("good.example:443");
        for part in records.chunks(3) {
            if stream.write_all(part).is_err() {
                break;
            }
            std::thread::yield_now();
        }
        if name == "good.example" {
            read_exactly(&mut stream, records.len());
        } else {
            assert_eq!(read_all(&mut stream), "");
        }
    }
    assert_eq!(received.text().matches("example").count(), 0, "the name is split by record headers");
    world.wait_for_denial("TLS for another server name");
}

#[test]
fn an_address_needs_no_server_name() {
    let world = World::new(&["9.9.9.9"]);
    let received = Received::default();
    world.net.place("9.9.9.9:443", echo_server(&received));
    let hello = client_hello(None);
    let mut stream = world.tunnel("9.9.9.9:443");
    stream.write_all(&hello).unwrap();
    read_exactly(&mut stream, hello.len());
    let mut stream = world.tunnel("9.9.9.9:443");
    stream.write_all(&client_hello(Some("evil.example"))).unwrap();
    assert_eq!(read_all(&mut stream), "");
}

#[test]
fn http_in_a_tunnel_to_port_80_is_judged_like_any_other() {
    let world = World::new(&["good.example"]);
    world.net.name("good.example", &[&["1.2.3.4"]]);
    let received = Received::default();
    world.net.place("1.2.3.4:80", web_server(&received, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let (reply, mut stream) = world.socks(b"good.example", 80);
    assert_eq!(reply, 0);
    for _ in 0..2 {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: good.example\r\n\r\n").unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
        assert_eq!(read_exactly(&mut stream, 2), "ok");
    }
    stream.write_all(b"GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 400"));
    let mut stream = world.tunnel("good.example:80");
    stream.write_all(b"GET http://evil.example/secret HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 400"));
    assert!(!received.text().contains("secret"));
}

#[test]
fn other_ports_need_a_rule_and_let_the_server_speak_first() {
    let world = World::new(&["good.example", "git.example:22"]);
    world.net.name("git.example", &[&["5.6.7.8"]]);
    let greeting = server(|mut stream| {
        stream.write_all(b"SSH-2.0-server\r\n").unwrap();
        let line = read_exactly(&mut stream, 4);
        write!(stream, "got {line}").unwrap();
    });
    world.net.place("5.6.7.8:22", greeting);
    let mut stream = world.tunnel("git.example:22");
    assert_eq!(read_exactly(&mut stream, 16), "SSH-2.0-server\r\n");
    stream.write_all(b"ping").unwrap();
    assert_eq!(read_all(&mut stream), "got ping");
    let mut stream = world.tunnel("git.example:22");
    stream.write_all(&client_hello(Some("evil.example"))).unwrap();
    read_all(&mut stream);
    world.wait_for_denial("TLS for another server name");
    assert_eq!(world.socks(b"good.example", 22).0, 2);
    assert_eq!(world.socks(b"git.example", 443).0, 2);
}

#[test]
fn socks_says_why() {
    let world = World::new(&["good.example", "gone.example"]);
    world.net.name("good.example", &[&["1.2.3.4"]]);
    assert_eq!(world.socks(b"evil.example", 443).0, 2, "not allowed");
    assert_eq!(world.socks(b"good.example", 443).0, 4, "nobody listens");
    assert_eq!(world.socks(b"gone.example", 443).0, 4, "no address");
    assert_eq!(world.socks(b"good@evil.example", 443).0, 1, "no host");
    for command in [2, 3] {
        let mut stream = world.connect();
        stream.write_all(&[5, 1, 0, 5, command, 0, 1, 1, 2, 3, 4, 0, 80]).unwrap();
        assert_eq!(read_all(&mut stream).as_bytes()[3], 7, "command {command}");
    }
}

/// A grant that ends takes its connections with it.
#[test]
fn a_rule_change_ends_tunnels_that_are_no_longer_allowed() {
    let world = World::new(&["good.example", "other.example"]);
    secure_site(&world);
    world.net.name("other.example", &[&["1.2.3.4"]]);
    let open = |name: &str| {
        let mut stream = world.tunnel(&format!("{name}:443"));
        let hello = client_hello(Some(name));
        stream.write_all(&hello).unwrap();
        read_exactly(&mut stream, hello.len());
        stream
    };
    let (mut ended, mut kept) = (open("good.example"), open("other.example"));
    assert_eq!(world.replace(rules(&["other.example"])).unwrap(), 2);
    assert_eq!(read_all(&mut ended), "");
    kept.write_all(b"still").unwrap();
    assert_eq!(read_exactly(&mut kept, 5), "still");
    assert_eq!(world.socks(b"good.example", 443).0, 2);
}
