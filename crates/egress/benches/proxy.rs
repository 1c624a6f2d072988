//! Measures the proxy against direct connections on loopback, in one run.
//!
//! Run with `cargo bench -p pollux-egress --bench proxy`. Prints the copy rate of one tunnel in both directions and the
//! time to the first byte of a new connection, direct and through the proxy; nothing passes or fails. The targets are
//! 500 MB/s and 1 ms over direct.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench reports to a person")]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::BoxFuture;
use pollux_domain::time::SystemClock;
use pollux_egress::journal::Journal;
use pollux_egress::pattern::HostPattern;
use pollux_egress::proxy::ProxyOptions;
use pollux_egress::resolve::{Dialer, Resolver};
use pollux_egress::rules::{Allow, Origin, Reach, RuleBook, RuleSet};
use pollux_egress::server::{Listen, Server};

/// Bytes of one transfer.
const TRANSFER: usize = 512 * 1024 * 1024;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 400;

/// Resolves every name and leads every address to one server.
struct Net(SocketAddr);

impl Resolver for Net {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::new(1, 2, 3, 4))]) })
    }
}

impl Dialer for Net {
    fn dial(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<tokio::net::TcpStream>> {
        Box::pin(tokio::net::TcpStream::connect(self.0))
    }
}

fn main() {
    let target = server();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("net.sock");
    let _proxy = proxy(target, &socket);
    for (what, order) in [("download", b'd'), ("upload", b'u')] {
        let mut rates = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            rates.0.push(rate(TcpStream::connect(target).unwrap(), order));
            rates.1.push(rate(tunnel(&socket), order));
        }
        let (direct, proxied) = (best(&rates.0), best(&rates.1));
        let share = 100.0 * proxied / direct;
        println!("{what:10} direct {direct:6.0} MB/s   proxy {proxied:6.0} MB/s   {share:3.0} % of direct");
    }
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        times.0.push(first_byte(|| TcpStream::connect(target).unwrap()));
        times.1.push(first_byte(|| tunnel(&socket)));
    }
    let (direct, proxied) = (Times::of(times.0), Times::of(times.1));
    println!("first byte direct {direct}   proxy {proxied}");
    println!("           {:.2} ms over direct at the median", (proxied.median - direct.median).max(0.0));
}

/// A server that does what the first byte says: send, receive and confirm, or answer.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut order = [0];
    if stream.read_exact(&mut order).is_err() {
        return;
    }
    let mut buffer = vec![7; 256 * 1024];
    match order[0] {
        b'd' => (0..TRANSFER / buffer.len()).all(|_| stream.write_all(&buffer).is_ok()),
        b'u' => {
            let mut left = TRANSFER;
            while let Ok(count) = stream.read(&mut buffer) {
                left = left.saturating_sub(count);
                if count == 0 || left == 0 {
                    break;
                }
            }
            stream.write_all(b"k").is_ok()
        }
        _ => stream.write_all(b"k").is_ok(),
    };
}

fn proxy(target: SocketAddr, socket: &Path) -> Server {
    let mut rules = RuleSet::default();
    let pattern = HostPattern::parse("bench.example:9000").unwrap();
    rules.allow(Allow { pattern, reach: Reach::Public, origin: Origin::Settings });
    let journal = Arc::new(Journal::new(Arc::new(SystemClock)));
    let mut options = ProxyOptions::new(Arc::new(RuleBook::new(rules)), journal);
    options.resolver = Arc::new(Net(target));
    options.dialer = Arc::new(Net(target));
    Server::start(&Listen::Unix(socket.to_owned()), options).unwrap()
}

fn tunnel(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"CONNECT bench.example:9000 HTTP/1.1\r\n\r\n").unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
    stream
}

/// MB/s of one transfer.
fn rate(mut stream: impl Read + Write, order: u8) -> f64 {
    let mut buffer = vec![7; 256 * 1024];
    let start = Instant::now();
    stream.write_all(&[order]).unwrap();
    if order == b'u' {
        for _ in 0..TRANSFER / buffer.len() {
            stream.write_all(&buffer).unwrap();
        }
        stream.read_exact(&mut [0]).unwrap();
    } else {
        let mut left = TRANSFER;
        while left > 0 {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0);
            left -= count;
        }
    }
    TRANSFER as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// Time of a new connection until its first byte.
fn first_byte<S: Read + Write>(connect: impl FnOnce() -> S) -> Duration {
    let start = Instant::now();
    let mut stream = connect();
    stream.write_all(b"p").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    start.elapsed()
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// The 10th percentile and the median, in milliseconds.
struct Times {
    tenth: f64,
    median: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
        Self { tenth: at(10), median: at(50) }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ms (p10 {:.2})", self.median, self.tenth)
    }
}
