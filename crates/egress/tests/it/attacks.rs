//! Ways out that a hostile program would try, as far as the proxy decides them.
//!
//! Other protocols and sockets are not its business: there is no network inside the namespace, and the proxy offers only
//! TCP by name. Data sent to an allowed host is open and documented.

use std::io::Write;
use std::net::Shutdown;

use pollux_egress::host::Host;
use pollux_egress::pattern::HostPattern;
use pollux_egress::rules::{RuleSet, Unlisted};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use pollux_test_support::client_hello;

use crate::world::{Received, World, echo_server, host, read_all, read_exactly, rules, web_server};

fn connect_status(world: &World, target: &str) -> String {
    let answer = world.exchange(format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
    answer.get(9..12).unwrap_or_default().to_owned()
}

#[test]
fn only_tcp_by_name_is_offered() {
    let world = World::new(&["good.example"]);
    let mut stream = world.connect();
    stream.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 53]).unwrap();
    assert_eq!(read_all(&mut stream).as_bytes()[3], 7);
    let mut stream = world.connect();
    stream.write_all(&[4, 1, 0, 80, 1, 2, 3, 4, 0]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(!read_all(&mut stream).contains("200"), "SOCKS 4 is not spoken");
    for target in ["[::ffff:1.2.3.4]:443", "[::ffff:127.0.0.1]:80", "[2606:4700::1]:443"] {
        assert_eq!(connect_status(&world, target), "403", "{target}");
    }
}

#[test]
fn metadata_services_are_out_of_reach() {
    let world = World::new(&[
        "meta.example",
        "~mirror.example",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "100.100.100.200:*",
    ]);
    world.net.name("meta.example", &[&["169.254.169.254"]]);
    world.net.name("mirror.example", &[&["100.100.100.200"]]);
    for target in [
        "meta.example:80",
        "mirror.example:80",
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "[fd00:ec2::254]:80",
        "100.100.100.200:80",
    ] {
        assert_eq!(connect_status(&world, target), "403", "{target}");
    }
    assert_eq!(world.net.dialed(), Vec::<String>::new());
}

/// The address that was checked is the one that is used.
#[test]
fn rebinding_leads_nowhere() {
    let world = World::new(&["turn.example", "mixed.example"]);
    let received = Received::default();
    world.net.place("1.2.3.4:443", echo_server(&received));
    world.net.place("127.0.0.1:443", echo_server(&received));
    world.net.name("turn.example", &[&["1.2.3.4"], &["127.0.0.1"]]);
    world.net.name("mixed.example", &[&["1.2.3.4", "10.0.0.1"]]);
    let mut stream = world.tunnel("turn.example:443");
    let hello = client_hello(Some("turn.example"));
    stream.write_all(&hello).unwrap();
    read_exactly(&mut stream, hello.len());
    assert_eq!(world.net.looked_up.lock().unwrap().len(), 1, "one look-up for each connection");
    assert_eq!(connect_status(&world, "turn.example:443"), "403");
    assert_eq!(connect_status(&world, "mixed.example:443"), "403");
    assert_eq!(world.net.dialed(), ["1.2.3.4:443"]);
    let denials = world.denials();
    assert_eq!(
        denials[0],
        "turn.example:443 turn.example resolves to 127.0.0.1, which is not a public address"
    );
}

#[test]
fn a_mirror_on_a_private_network_is_reached_only_if_a_rule_says_so() {
    let world = World::new(&["~npm.corp.example", "other.corp.example"]);
    let received = Received::default();
    world.net.name("npm.corp.example", &[&["10.0.0.7"]]);
    world.net.name("other.corp.example", &[&["10.0.0.7"]]);
    world.net.place("10.0.0.7:443", echo_server(&received));
    world.tunnel("npm.corp.example:443");
    assert_eq!(connect_status(&world, "other.corp.example:443"), "403");
}

#[test]
fn disputed_spellings_of_hosts_are_refused() {
    let world = World::new(&["good.example"]);
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    for target in ["good.example:443", "GOOD.example:443", "good.example.:443"] {
        world.tunnel(target);
    }
    for target in [
        "evil\0.good.example:443",
        "good@evil:443",
        "0x7f.1:443",
        "2130706433:443",
        "0177.0.0.1:443",
        "good.example:443:80",
        "good.example",
        "good.example:",
        "good.example:0443",
        "good%2eexample:443",
        "good.example/x:443",
        "http://good.example:443",
        "::1:443",
        "[::1%lo]:443",
        "good..example:443",
        "xn--a:443",
    ] {
        assert_eq!(connect_status(&world, target), "400", "{target:?}");
    }
    for target in [
        "good.example.evil:443",
        "evil.good.example:443",
        "[::1]:443",
        "127.0.0.1:443",
        "xn--bcher-kva.example:443",
    ] {
        assert_eq!(connect_status(&world, target), "403", "{target}");
    }
    for name in [&b"evil\0.good.example"[..], b"good.example\0", b"\xff\xfe", b"good.example:443", b"127.1"] {
        assert_eq!(world.socks(name, 443).0, 1, "{name:?}");
    }
    let answer = world.exchange("CONNECT good.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// A proxy of the attacker's inside cannot be reached through ours, nor ours through itself.
#[test]
fn proxies_cannot_be_chained() {
    let world = World::new(&["good.example"]);
    for target in ["127.0.0.1:3128", "localhost:3128", "[::1]:3128", "0.0.0.0:3128"] {
        assert_eq!(connect_status(&world, target), "403", "{target}");
    }
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:80", web_server(&received, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let mut stream = world.tunnel("good.example:80");
    stream.write_all(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 400"));
    assert_eq!(received.text(), "");
}

#[test]
fn changed_rules_do_not_open_what_they_do_not_name() {
    let world = World::new(&["good.example"]);
    for generation in 2..5 {
        assert_eq!(world.replace(rules(&["good.example", "more.example"])).unwrap(), generation);
        assert_eq!(connect_status(&world, "evil.example:443"), "403");
    }
}

/// A proxy that would let the canary through is closed, and stays so.
#[test]
fn a_failed_self_test_closes_the_proxy() {
    let world = World::new(&["good.example"]);
    let failed = world.replace(rules(&["**.invalid"])).unwrap_err();
    let text =
        "the egress proxy failed its self-test and was closed: it did not refuse `pollux-canary.invalid:443`";
    assert_eq!(failed.to_string(), text);
    while world.server.is_running() {
        std::thread::yield_now();
    }
    let refused = std::os::unix::net::UnixStream::connect(world.socket()).map(|mut stream| {
        let _ = stream.write_all(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n");
        read_all(&mut stream)
    });
    assert!(refused.is_err() || refused.is_ok_and(|text| text.is_empty()));
    assert!(world.replace(rules(&[])).is_err(), "closed for good");
    assert!(world.denials().is_empty(), "the canary is not a denial of a command");
}

/// The mode without a host list still refuses this machine and its network.
#[test]
fn the_public_mode_reaches_public_servers_only() {
    let world = World::with(RuleSet::new(Unlisted::Public), |_| {});
    let received = Received::default();
    world.net.name("any.example", &[&["1.2.3.4"]]);
    world.net.name("inside.example", &[&["192.168.0.1"]]);
    world.net.name("localhost", &[&["127.0.0.1"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    world.tunnel("any.example:443");
    for target in
        ["inside.example:443", "localhost:443", "127.0.0.1:443", "169.254.169.254:80", "10.0.0.1:22"]
    {
        assert_eq!(connect_status(&world, target), "403", "{target}");
    }
}

/// No pattern stands for everything.
#[test]
fn a_rule_for_everything_cannot_be_written() {
    for text in ["*", "**", "*:443", "*.*", "/", "~", "*.", "0.0.0.0/0"] {
        assert!(HostPattern::parse(text).is_err(), "{text}");
    }
}

/// Denials come from the proxy's own decisions; nothing that a program prints becomes one.
#[test]
fn denials_name_hosts_in_canonical_form() {
    let world = World::new(&[]);
    connect_status(&world, "EVIL.Example.:443");
    world.exchange("CONNECT ~/.ssh:443 HTTP/1.1\r\n\r\n");
    assert_eq!(world.denials(), ["evil.example:443 no rule"]);
    assert_eq!(host("EVIL.Example."), Host::Name("evil.example".to_owned()));
}

/// Whatever bytes arrive, nothing is looked up or connected to, and the proxy goes on.
#[test]
fn random_bytes_reach_nobody() {
    let world = World::new(&["good.example"]);
    let starts = [
        "",
        "CONNECT ",
        "GET http://",
        "\u{5}\u{1}\u{0}\u{5}\u{1}\u{0}\u{3}",
        "CONNECT evil.example:443 HTTP/1.1\r\n",
    ];
    let inputs = (prop::sample::select(starts.to_vec()), prop::collection::vec(any::<u8>(), 0..200));
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&inputs, |(start, rest)| {
        let mut stream = world.connect();
        let _ = stream.write_all(&[start.as_bytes(), &rest].concat());
        let _ = stream.shutdown(Shutdown::Write);
        let answer = read_all(&mut stream);
        prop_assert!(!answer.contains(" 200 "), "{}", answer);
        Ok(())
    });
    ran.unwrap();
    assert!(world.net.looked_up.lock().unwrap().is_empty() && world.net.dialed().is_empty());
    assert!(world.server.is_running());
}
