//! Connections that wait for an answer.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_egress::journal::Caller;
use pollux_egress::proxy::Identify;
use pollux_egress::question::{Asker, HostAnswer, Question};
use pollux_egress::rules::{RuleBook, RuleSet, Unlisted};
use pollux_egress::server::Door;
use tokio::sync::Semaphore;

use crate::world::{Received, World, echo_server, rules};

struct Person {
    answer: HostAnswer,
    asked: Mutex<Vec<String>>,
    gate: Semaphore,
}

impl Asker for Person {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, HostAnswer> {
        Box::pin(async move {
            let program = question.caller.program.clone().unwrap_or_default();
            self.asked.lock().unwrap().push(format!("{program}: {}:{}", question.host, question.port));
            self.gate.acquire().await.unwrap().forget();
            self.answer
        })
    }
}

struct Npm;

impl Identify for Npm {
    fn caller(&self, pid: Option<i32>) -> Caller {
        assert_eq!(pid, i32::try_from(std::process::id()).ok());
        Caller { command: Some("call-1".to_owned()), program: Some("npm install".to_owned()), port: None }
    }
}

fn world(answer: HostAnswer, open: usize) -> (World, Arc<Person>) {
    let person = Arc::new(Person { answer, asked: Mutex::default(), gate: Semaphore::new(open) });
    let asker = Arc::clone(&person);
    let world = World::with(rules(&[]), |options| {
        options.asker = Some(asker);
        options.identify = Some(Arc::new(Npm));
    });
    let received = Received::default();
    world.net.name("new.example", &[&["1.2.3.4"]]);
    world.net.place("1.2.3.4:443", echo_server(&received));
    (world, person)
}

fn status(stream: &mut impl Read) -> String {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn waiting_connections_share_one_question() {
    let (world, person) = world(HostAnswer::Session, 0);
    let mut waiting: Vec<_> = (0..5)
        .map(|_| {
            let mut stream = world.connect();
            write!(stream, "CONNECT new.example:443 HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    while person.asked.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    person.gate.add_permits(1);
    for stream in &mut waiting {
        assert_eq!(status(stream), "HTTP/1.1 200");
    }
    world.tunnel("new.example:443");
    assert_eq!(*person.asked.lock().unwrap(), ["npm install: new.example:443"]);
}

#[test]
fn once_is_for_the_waiting_connection() {
    let (world, person) = world(HostAnswer::Once, 2);
    world.tunnel("new.example:443");
    world.tunnel("new.example:443");
    assert_eq!(person.asked.lock().unwrap().len(), 2);
}

#[test]
fn no_is_remembered_and_recorded() {
    let (world, person) = world(HostAnswer::No, 9);
    assert_eq!(world.socks(b"new.example", 443).0, 2);
    assert_eq!(world.socks(b"new.example", 443).0, 2);
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    let denials = world.journal.denials(Some("call-1"));
    assert_eq!(denials[0].rule, "refused by the user");
    assert_eq!(denials[0].to_json()["strength"], "certain");
}

#[test]
fn a_granted_name_still_has_its_addresses_checked() {
    let (world, _) = world(HostAnswer::Always, 9);
    world.net.name("inside.example", &[&["127.0.0.1"]]);
    assert_eq!(world.socks(b"inside.example", 443).0, 2);
    assert!(world.net.dialed().is_empty());
}

#[test]
fn metadata_is_refused_without_a_question() {
    let (world, person) = world(HostAnswer::Always, 9);
    assert_eq!(world.socks(b"169.254.169.254", 80).0, 2);
    assert!(person.asked.lock().unwrap().is_empty());
}

/// Admits connections from one port alone.
struct Only(Arc<Mutex<Option<u16>>>);

impl Identify for Only {
    fn caller(&self, _: Option<i32>) -> Caller {
        Caller::default()
    }

    fn admits_to(&self, _: u16, from: Option<u16>) -> bool {
        from.is_some() && from == *self.0.lock().unwrap()
    }
}

#[test]
fn the_way_to_a_port_is_open_for_those_who_were_granted_it_until_it_is_closed() {
    let admitted = Arc::new(Mutex::new(None));
    let only = Only(Arc::clone(&admitted));
    let world = World::with(rules(&[]), |options| options.identify = Some(Arc::new(only)));
    let received = Received::default();
    let outside = echo_server(&received);
    // The same port for two networks.
    let inside = [(); 2].map(|()| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        world.server.hand(Door::Port(listener, outside.port()));
        address
    });
    let send = |stream: &mut std::net::TcpStream| {
        let mut answer = [0; 5];
        stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut answer)).map(|()| answer)
    };
    for address in inside {
        // Held while it connects, so that the answer is for this connection.
        let mut known = admitted.lock().unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        *known = Some(stream.local_addr().unwrap().port());
        drop(known);
        assert_eq!(&send(&mut stream).unwrap(), b"hello");
        let mut other = std::net::TcpStream::connect(address).unwrap();
        assert!(send(&mut other).is_err(), "nobody else is let through");
    }
    assert_eq!(received.text(), "hellohello");
    world.server.close(outside.port());
    for address in inside {
        let is_closed = || std::net::TcpStream::connect(address).is_err();
        while !is_closed() {
            std::thread::yield_now();
        }
    }
}

/// Adds a rule to the book only when its gate opens.
struct Late {
    book: Arc<RuleBook>,
    waiting: Semaphore,
    gate: Semaphore,
}

impl Asker for Late {
    fn is_present(&self) -> bool {
        false
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.waiting.add_permits(1);
            let _open = self.gate.acquire().await.unwrap();
            self.book.grant_all(&rules(&["~new.example:443"]));
        })
    }

    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, HostAnswer> {
        Box::pin(std::future::ready(HostAnswer::No))
    }
}

#[test]
fn a_connection_to_an_unlisted_host_waits_for_pending_rules() {
    for unlisted in [Unlisted::Ask, Unlisted::Public] {
        let mut base = RuleSet::new(unlisted);
        base.extend(rules(&["known.example:443", "!denied.example"]));
        let book = Arc::new(RuleBook::new(base));
        let late = Late { book: Arc::clone(&book), waiting: Semaphore::new(0), gate: Semaphore::new(0) };
        let late = Arc::new(late);
        let asker = Arc::clone(&late);
        let world = World::with(RuleSet::default(), |options| {
            options.rules = book;
            options.asker = Some(asker);
        });
        let received = Received::default();
        for (name, address) in [("new.example", "10.0.0.1"), ("known.example", "1.2.3.4")] {
            world.net.name(name, &[&[address]]);
            world.net.place(&format!("{address}:443"), echo_server(&received));
        }
        let mut waiting = world.connect();
        write!(waiting, "CONNECT new.example:443 HTTP/1.1\r\n\r\n").unwrap();
        while late.waiting.available_permits() == 0 {
            std::thread::yield_now();
        }
        // Others need not wait.
        world.tunnel("known.example:443");
        assert_eq!(world.socks(b"denied.example", 443).0, 2);
        late.gate.add_permits(9);
        assert_eq!(status(&mut waiting), "HTTP/1.1 200", "{unlisted:?}");
        assert_ne!(world.socks(b"other.example", 443).0, 0, "{unlisted:?}");
    }
}
