//! Plain HTTP through the proxy.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use pollux_egress::upstream::UpstreamProxies;

use crate::world::{
    Received, World, echo_server, read_all, read_exactly, read_head, rules, server, web_server,
};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: 5\r\nX-A: b\r\n\r\nhello";

fn site(world: &World, name: &str, response: &'static str) -> Received {
    let received = Received::default();
    world.net.name(name, &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:80", web_server(&received, response));
    received
}

#[test]
fn a_request_is_forwarded_in_origin_form_without_hop_fields() {
    let world = World::new(&["good.example"]);
    let received = site(&world, "good.example", HELLO);
    let answer = world.exchange(
        "GET http://Good.example:80/path?q=1 HTTP/1.1\r\nHost: good.EXAMPLE\r\nProxy-Connection: close\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nAccept: */*\r\n\r\n",
    );
    assert_eq!(answer, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: b\r\nconnection: close\r\n\r\nhello");
    assert_eq!(received.text(), "GET /path?q=1 HTTP/1.1\r\nhost: good.example\r\naccept: */*\r\n\r\n");
}

#[test]
fn a_refusal_says_so_in_a_header_and_one_line() {
    let world = World::new(&["good.example"]);
    let answer = world.exchange("GET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
    assert!(head.contains("\r\nx-pollux-refused: host\r\n"), "{head}");
    assert_eq!(body, "pollux: the sandbox does not allow evil.example:80 (no rule)\n");
    assert_eq!(world.denials(), ["evil.example:80 no rule"]);
    assert!(world.net.looked_up.lock().unwrap().is_empty(), "no look-up for a refused name");
}

#[test]
fn each_request_of_a_kept_connection_is_judged() {
    let world = World::new(&["good.example"]);
    let received = site(&world, "good.example", HELLO);
    let mut stream = world.connect();
    for _ in 0..3 {
        write!(stream, "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n").unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
        assert_eq!(read_exactly(&mut stream, 5), "hello");
    }
    assert_eq!(world.net.dialed(), ["1.2.3.4:80"], "the connection to the server is kept");
    write!(stream, "GET http://evil.example/secret HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 403"));
    assert!(!received.text().contains("secret"));
}

#[test]
fn pipelined_requests_are_judged_one_by_one() {
    let world = World::new(&["good.example"]);
    let received = site(&world, "good.example", HELLO);
    let request = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let answer = world.exchange(format!("{0}{0}{1}{0}", request("good.example"), request("evil.example")));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 403").count(), 1, "{answer}");
    assert_eq!(received.text().matches("GET").count(), 2);
}

#[test]
fn a_refusal_arrives_although_the_body_was_not_read() {
    let world = World::new(&[]);
    let head = "POST http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100000\r\n\r\n";
    let answer = world.exchange(format!("{head}{}", "x".repeat(100_000)));
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn a_rule_change_is_seen_by_the_next_request_of_a_kept_connection() {
    let world = World::new(&["good.example"]);
    let received = site(&world, "good.example", HELLO);
    let mut stream = world.connect();
    let request = "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    read_head(&mut stream);
    read_exactly(&mut stream, 5);
    world.replace(rules(&["!good.example"])).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 403"));
    assert_eq!(received.text().matches("GET").count(), 1);
}

/// Nothing ambiguous reaches a server.
#[test]
fn ambiguous_requests_get_400() {
    let world = World::new(&["good.example", "evil.example"]);
    let received = site(&world, "good.example", HELLO);
    let start = "POST http://good.example/ HTTP/1.1\r\n";
    let host = "Host: good.example\r\n";
    for request in [
        format!("{start}Host: evil.example\r\n\r\n"),
        format!("{start}Host: good.example:81\r\n\r\n"),
        format!("{start}{host}{host}\r\n"),
        format!("{start}\r\n"),
        format!("{start}{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}{host}Content-Length: 4\r\nContent-Length: 5\r\n\r\naaaa"),
        format!("{start}{host}Transfer-Encoding: chunked, identity\r\n\r\n"),
        format!("{start}{host}X: a\r\n folded\r\n\r\n"),
        format!("{start}Host: good.example\nX: y\r\n\r\n"),
        format!("{start}{host}X : y\r\n\r\n"),
        format!("{start}{host}Connection: host\r\n\r\n"),
        format!("POST http://good.example@evil.example/ HTTP/1.1\r\n{host}\r\n"),
        format!("POST http://evil.example\\@good.example/ HTTP/1.1\r\n{host}\r\n"),
        format!("POST https://good.example/ HTTP/1.1\r\n{host}\r\n"),
        format!("POST ftp://good.example/ HTTP/1.1\r\n{host}\r\n"),
        format!("POST / HTTP/1.1\r\n{host}\r\n"),
        format!("POST http://good.example/#x HTTP/1.1\r\n{host}\r\n"),
        format!("POST http://good.example/ HTTP/1.1 x\r\n{host}\r\n"),
    ] {
        let answer = world.exchange(&request);
        assert!(answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
    }
    assert_eq!(received.text(), "");
}

#[test]
fn a_body_ends_where_its_length_says() {
    let world = World::new(&["good.example"]);
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    // An answer before the body has ended would end the exchange.
    let noted = received.clone();
    let patient = server(move |mut stream| {
        let mut buffer = [0; 4096];
        while !noted.text().ends_with("\r\n0\r\n\r\n") {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => noted.add(&buffer[..count]),
                _ => return,
            }
        }
        stream.write_all(HELLO.as_bytes()).unwrap();
    });
    world.net.place("1.2.3.4:80", patient);
    let mut stream = world.connect();
    let body = "GET /inner HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    write!(
        stream,
        "POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x};x=y\r\n{body}\r\n0\r\nTrailer: 1\r\n\r\n",
        body.len()
    )
    .unwrap();
    received.wait_for("chunked\r\n\r\n2b\r\nGET /inner");
    assert!(!received.text().contains("x=y"));
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
}

#[test]
fn responses_of_all_framings_are_passed_on() {
    for (response, expected) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
    ] {
        let world = World::new(&["good.example"]);
        site(&world, "good.example", response);
        let request = "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n";
        let answer = world.exchange(request);
        assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
    }
    for broken in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        "nonsense\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    ] {
        let world = World::new(&["good.example"]);
        site(&world, "good.example", broken);
        let answer = world.exchange("GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    }
}

#[test]
fn a_websocket_is_the_only_upgrade() {
    let world = World::new(&["good.example"]);
    world.net.name("good.example", &[&["1.2.3.4"]]);
    let switching = server(|mut stream| {
        let head = read_head(&mut stream);
        let upgraded = head.contains("upgrade: websocket");
        let answer = if upgraded {
            "101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade"
        } else {
            "200 OK\r\nContent-Length: 0"
        };
        write!(stream, "HTTP/1.1 {answer}\r\n\r\n").unwrap();
        let mut byte = [0; 4];
        if upgraded && stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte).unwrap();
        }
    });
    world.net.place("1.2.3.4:80", switching);
    let request = |protocol: &str| {
        format!(
            "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        )
    };
    let mut stream = world.connect();
    stream.write_all(request("websocket").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
    stream.write_all(b"ping").unwrap();
    assert_eq!(read_exactly(&mut stream, 4), "ping");
    let mut stream = world.connect();
    stream.write_all(request("h2c").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_redirect_leads_nowhere_by_itself() {
    let world = World::new(&["good.example"]);
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n";
    site(&world, "good.example", moved);
    let answer = world
        .exchange("GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 302"), "{answer}");
    let answer =
        world.exchange("GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("cloud metadata"), "{answer}");
}

#[test]
fn the_users_own_proxy_is_used_for_allowed_hosts() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heads = Arc::clone(&seen);
    let company = server(move |mut stream| {
        let head = read_head(&mut stream);
        let is_connect = head.starts_with("CONNECT");
        heads.lock().unwrap().push(head);
        let answer = if is_connect { "HTTP/1.1 200 OK\r\n\r\n" } else { HELLO };
        stream.write_all(answer.as_bytes()).unwrap();
        let _ = stream.read(&mut [0; 1]);
    });
    let address = Some("http://me:pw@proxy.corp:3128");
    let upstream = UpstreamProxies::parse(address, address, "direct.example").unwrap();
    let world = World::with(rules(&["**.example"]), |options| options.upstream = upstream);
    world.net.name("proxy.corp", &[&["10.0.0.9"]]);
    world.net.place("10.0.0.9:3128", company);
    // Names of the internet are often unknown inside a company; a private answer still refuses.
    world.tunnel("good.example:443");
    let answer = world
        .exchange("GET http://good.example/p HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("hello"), "{answer}");
    let seen = seen.lock().unwrap().clone();
    let secret = "proxy-authorization: Basic bWU6cHc=\r\n";
    assert_eq!(
        seen[0],
        format!("CONNECT good.example:443 HTTP/1.1\r\nhost: good.example:443\r\n{secret}\r\n")
    );
    assert_eq!(
        seen[1],
        format!("GET http://good.example:80/p HTTP/1.1\r\nhost: good.example\r\n{secret}\r\n")
    );
    world.net.name("inside.example", &[&["10.0.0.1"]]);
    let answer = world.exchange("CONNECT inside.example:443 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let received = Received::default();
    world.net.name("direct.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:8080", echo_server(&received));
    world.replace(rules(&["direct.example:8080"])).unwrap();
    let mut stream = world.tunnel("direct.example:8080");
    stream.write_all(b"x").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), "x");
}
