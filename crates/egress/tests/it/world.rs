//! A small internet: names, addresses and servers, and a proxy in front of them.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::time::SystemClock;
use pollux_egress::host::Host;
use pollux_egress::journal::Journal;
use pollux_egress::pattern::HostPattern;
use pollux_egress::proxy::ProxyOptions;
use pollux_egress::resolve::{Dialer, Resolver};
use pollux_egress::rules::{Allow, Deny, Origin, Reach, RuleBook, RuleSet};
use pollux_egress::server::{Listen, ProxyAddress, Server};
use tempfile::TempDir;

/// Patience with a proxy on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names and where their addresses lead.
#[derive(Default)]
pub(crate) struct Net {
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    places: Mutex<HashMap<SocketAddr, SocketAddr>>,
    pub(crate) dialed: Mutex<Vec<SocketAddr>>,
    pub(crate) looked_up: Mutex<Vec<String>>,
}

impl Resolver for Net {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.looked_up.lock().unwrap().push(name.to_owned());
        let mut names = self.names.lock().unwrap();
        let answer = names.get_mut(name).map(|answers| {
            // The last answer stays; those before it are given once each.
            if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
        });
        Box::pin(async move { answer.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)) })
    }
}

impl Dialer for Net {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<tokio::net::TcpStream>> {
        self.dialed.lock().unwrap().push(address);
        let place = self.places.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            let place = place.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            tokio::net::TcpStream::connect(place).await
        })
    }
}

impl Net {
    /// Lets a name resolve to these addresses; each further answer is for one look-up later.
    pub(crate) fn name(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
    }

    /// Puts a server behind an address.
    pub(crate) fn place(&self, address: &str, server: SocketAddr) {
        self.places.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    pub(crate) fn dialed(&self) -> Vec<String> {
        self.dialed.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }
}

/// A server that hands each connection to a function.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                serve(stream);
            });
        }
    });
    address
}

/// Everything that servers received.
#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<Vec<u8>>>);

impl Received {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Waits until the servers have received this text.
    pub(crate) fn wait_for(&self, text: &str) {
        let end = std::time::Instant::now() + PATIENCE;
        while !self.text().contains(text) {
            assert!(std::time::Instant::now() < end, "{text:?} is not in {:?}", self.text());
            std::thread::yield_now();
        }
    }

    pub(crate) fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
}

/// Answers every request head with the same response and keeps the connection.
pub(crate) fn web_server(received: &Received, response: &'static str) -> SocketAddr {
    let received = received.clone();
    server(move |mut stream| {
        let (mut held, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count) = stream.read(&mut buffer) {
            if count == 0 {
                return;
            }
            received.add(&buffer[..count]);
            held.extend_from_slice(&buffer[..count]);
            while let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
                held.drain(..end + 4);
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        }
    })
}

/// Sends back what it gets.
pub(crate) fn echo_server(received: &Received) -> SocketAddr {
    let received = received.clone();
    server(move |mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(count) = stream.read(&mut buffer) {
            received.add(&buffer[..count]);
            if count == 0 || stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// Rules with these patterns; one that begins with `!` denies, one with `~` reaches private networks.
pub(crate) fn rules(patterns: &[&str]) -> RuleSet {
    let mut rules = RuleSet::default();
    for text in patterns {
        let parse = |text: &str| HostPattern::parse(text).unwrap();
        match (text.strip_prefix('!'), text.strip_prefix('~')) {
            (Some(denied), _) => rules.deny(Deny { pattern: parse(denied), origin: Origin::Stored }),
            (_, Some(mirror)) => {
                rules.allow(Allow { pattern: parse(mirror), reach: Reach::Private, origin: Origin::Stored });
            }
            _ => rules.allow(Allow { pattern: parse(text), reach: Reach::Public, origin: Origin::Stored }),
        }
    }
    rules
}

/// A proxy with its surroundings.
pub(crate) struct World {
    pub(crate) net: Arc<Net>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) server: Server,
    _folder: TempDir,
}

impl World {
    pub(crate) fn new(patterns: &[&str]) -> Self {
        Self::with(rules(patterns), |_| {})
    }

    pub(crate) fn with(rules: RuleSet, change: impl FnOnce(&mut ProxyOptions)) -> Self {
        Self::build(rules, change, false)
    }

    pub(crate) fn on_loopback(rules: RuleSet) -> Self {
        Self::build(rules, |_| {}, true)
    }

    fn build(rules: RuleSet, change: impl FnOnce(&mut ProxyOptions), loopback: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let net = Arc::new(Net::default());
        let journal = Arc::new(Journal::new(Arc::new(SystemClock)));
        let mut options = ProxyOptions::new(Arc::new(RuleBook::new(rules)), Arc::clone(&journal));
        options.resolver = Arc::<Net>::clone(&net);
        options.dialer = Arc::<Net>::clone(&net);
        change(&mut options);
        let listen = if loopback { Listen::Loopback } else { Listen::Unix(folder.path().join("net.sock")) };
        let server = Server::start(&listen, options).unwrap();
        Self { net, journal, server, _folder: folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        match self.server.address() {
            ProxyAddress::Unix(path) => path.clone(),
            ProxyAddress::Loopback { .. } | ProxyAddress::Handed => panic!("the proxy has no socket"),
        }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the proxy closes.
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        read_all(&mut stream)
    }

    /// A tunnel by `CONNECT`, after the answer 200.
    pub(crate) fn tunnel(&self, target: &str) -> UnixStream {
        let mut stream = self.connect();
        write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
        let head = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    }

    /// The answer to a SOCKS request for a name, and the connection.
    pub(crate) fn socks(&self, name: &[u8], port: u16) -> (u8, UnixStream) {
        let mut stream = self.connect();
        stream.write_all(&[5, 1, 0]).unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).unwrap();
        assert_eq!(method, [5, 0]);
        let request =
            [&[5, 1, 0, 3, u8::try_from(name.len()).unwrap()][..], name, &port.to_be_bytes()].concat();
        stream.write_all(&request).unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).unwrap();
        (reply[1], stream)
    }

    /// The denials as `target:port rule`.
    pub(crate) fn denials(&self) -> Vec<String> {
        let text = |denial: pollux_egress::journal::Denial| {
            format!("{}:{} {}", denial.target, denial.port, denial.rule)
        };
        self.journal.denials(None).into_iter().map(text).collect()
    }

    /// Waits until the journal has a denial with this rule; it is written after the connection has closed.
    pub(crate) fn wait_for_denial(&self, rule: &str) {
        let end = std::time::Instant::now() + PATIENCE;
        while !self.denials().iter().any(|denial| denial.ends_with(rule)) {
            assert!(std::time::Instant::now() < end, "{rule}: {:?}", self.denials());
            std::thread::yield_now();
        }
    }

    pub(crate) fn replace(&self, rules: RuleSet) -> Result<u64, pollux_egress::server::ServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.server.replace_rules(rules))
    }
}

pub(crate) fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

/// Reads until the end; a reset counts as one.
pub(crate) fn read_all(stream: &mut impl Read) -> String {
    let (mut out, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => out.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&out)),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads one head, byte by byte, so that nothing behind it is lost.
pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let (mut out, mut byte) = (Vec::new(), [0]);
    while !out.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        out.push(byte[0]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn read_exactly(stream: &mut impl Read, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
