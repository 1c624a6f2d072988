//! The proxy: who may connect where, and the connections themselves.
//!
//! [`Core`] is what all connections share. Each connection is served by `connection`; `plain` forwards HTTP
//! requests, `tunnel` copies bytes after it has seen the name they are meant for.

mod canary;
mod connection;
mod plain;
mod stream;
mod tunnel;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::host::{Authority, Host};
use crate::http::{RequestHead, ResponseHead};
use crate::journal::{Caller, ConnectionEntry, Journal, Outcome};
use crate::question::{Asker, GrantStore, Question, Questions, Verdict};
use crate::resolve::{AddressError, Dialer, Resolver, System, checked_addresses, connect};
use crate::rules::{Decision, Reach, RuleBook};
use crate::upstream::{UpstreamProxies, UpstreamProxy, is_local};

pub use canary::CanaryError;
pub(crate) use connection::serve;
pub(crate) use stream::{Reader, Source, Writer};

/// Limits of a proxy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; more are closed at once.
    pub connections: usize,
    /// Time for looking up a name and connecting.
    pub connect: Duration,
    /// Time for a complete head, handshake or ClientHello.
    pub head: Duration,
    /// Size of a head.
    pub head_bytes: usize,
    /// Time between two requests of a kept connection.
    pub idle: Duration,
    /// Time for an answer to a question.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connect: Duration::from_secs(30),
            head: Duration::from_secs(10),
            head_bytes: 64 * 1024,
            idle: Duration::from_secs(60),
            answer: Duration::from_secs(60),
        }
    }
}

/// Names the command behind a connection.
pub trait Identify: Send + Sync {
    /// The caller, given the process at the other end of a Unix socket. Called for each connection on the proxy's own
    /// thread, so it must be quick.
    fn caller(&self, pid: Option<i32>) -> Caller;

    /// Whether the process with a connection from this port may use the proxy at all.
    fn admits(&self, _port: Option<u16>) -> bool {
        true
    }

    /// Whether the process with a connection from one port may use the way to a port of this machine.
    fn admits_to(&self, _to: u16, _from: Option<u16>) -> bool {
        true
    }
}

/// What a proxy is made of.
pub struct ProxyOptions {
    pub rules: Arc<RuleBook>,
    pub journal: Arc<Journal>,
    pub resolver: Arc<dyn Resolver>,
    pub dialer: Arc<dyn Dialer>,
    /// Without one, unlisted hosts are refused at once.
    pub asker: Option<Arc<dyn Asker>>,
    pub store: Option<Arc<dyn GrantStore>>,
    pub identify: Option<Arc<dyn Identify>>,
    pub upstream: UpstreamProxies,
    pub limits: Limits,
}

impl ProxyOptions {
    /// A proxy that uses the system's resolver and asks nobody.
    pub fn new(rules: Arc<RuleBook>, journal: Arc<Journal>) -> Self {
        Self {
            rules,
            journal,
            resolver: Arc::new(System),
            dialer: Arc::new(System),
            asker: None,
            store: None,
            identify: None,
            upstream: UpstreamProxies::default(),
            limits: Limits::default(),
        }
    }
}

/// What all connections share.
pub(crate) struct Core {
    pub(crate) rules: Arc<RuleBook>,
    pub(crate) limits: Limits,
    pub(crate) identify: Option<Arc<dyn Identify>>,
    journal: Arc<Journal>,
    resolver: Arc<dyn Resolver>,
    dialer: Arc<dyn Dialer>,
    questions: Arc<Questions>,
    upstream: UpstreamProxies,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    pub(crate) caller: Caller,
    /// The proxy's own test: not asked about, not recorded.
    pub(crate) is_canary: bool,
}

/// The permission to connect to a target.
struct Permit {
    target: Authority,
    route: Route,
    rule: String,
    /// Given by an answer for this connection only, so no rule stands behind it.
    once: bool,
}

enum Route {
    /// To one of these addresses, which were checked.
    Direct(Vec<IpAddr>),
    Via(UpstreamProxy),
}

/// The kind of connection that is to be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Tunnel,
    Plain,
}

/// Why a target is not connected to.
enum Rejection {
    Refused(String),
    /// Refused for an address that the client is not told.
    Inside(String),
    Unreachable(String),
    TimedOut,
}

/// A measured connection for the journal.
struct Meter {
    started: Instant,
    bytes: AtomicU64,
}

impl Meter {
    fn new() -> Self {
        Self { started: Instant::now(), bytes: AtomicU64::new(0) }
    }

    fn add(&self, count: usize) {
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Core {
    pub(crate) fn new(options: ProxyOptions) -> Self {
        let ProxyOptions { rules, journal, resolver, dialer, asker, store, identify, upstream, limits } =
            options;
        let questions = Questions::new(asker, store, Arc::clone(&rules), limits.answer);
        Self { rules, limits, identify, journal, resolver, dialer, questions: Arc::new(questions), upstream }
    }

    /// Decides about a target, asks if no rule names it, and checks its addresses.
    async fn permit(&self, target: &Authority, purpose: Purpose, peer: &Peer) -> Result<Permit, Rejection> {
        let is_listed = self.rules.snapshot().lists(&target.host, target.port);
        if !is_listed && !peer.is_canary {
            self.questions.settle().await;
        }
        let (reach, rule, once) = match self.decided(target)? {
            Some((reach, rule)) => (reach, rule, false),
            None if peer.is_canary => return Err(Rejection::Refused("no rule".to_owned())),
            None => self.asked(target, peer).await?,
        };
        let route = self.route(target, purpose, reach).await?;
        Ok(Permit { target: target.clone(), route, rule, once })
    }

    /// What the rules say; `None` if they do not name the target.
    fn decided(&self, target: &Authority) -> Result<Option<(Reach, String)>, Rejection> {
        match self.rules.snapshot().decide(&target.host, target.port) {
            Decision::Allow { reach, rule } => Ok(Some((reach, rule))),
            Decision::Deny { rule } => Err(Rejection::Refused(rule)),
            Decision::Unlisted => Ok(None),
        }
    }

    /// What the user says.
    async fn asked(&self, target: &Authority, peer: &Peer) -> Result<(Reach, String, bool), Rejection> {
        let Authority { host, port } = target.clone();
        match self.questions.ask(Question { host, port, caller: peer.caller.clone() }).await {
            Verdict::Once => Ok((Reach::Public, "allowed once".to_owned(), true)),
            // The rules may have changed in the meantime: a deny still wins.
            Verdict::Granted => match self.decided(target)? {
                Some((reach, rule)) => Ok((reach, rule, false)),
                None => Err(Rejection::Refused("no rule".to_owned())),
            },
            Verdict::Refused(reason) => Err(Rejection::Refused(reason.to_owned())),
        }
    }

    async fn route(&self, target: &Authority, purpose: Purpose, reach: Reach) -> Result<Route, Rejection> {
        let proxy = match purpose {
            Purpose::Tunnel => self.upstream.for_tunnel(target),
            Purpose::Plain => self.upstream.for_plain(target),
        };
        let proxy = proxy.filter(|_| !is_local(&target.host));
        let checked = checked_addresses(&target.host, reach, self.resolver.as_ref());
        match (tokio::time::timeout(self.limits.connect, checked).await, proxy) {
            (Ok(Err(inside @ AddressError::Inside { .. })), _) => Err(Rejection::Inside(inside.to_string())),
            // Behind a company's proxy, names of the internet often cannot be resolved here; the proxy does it.
            (_, Some(proxy)) => Ok(Route::Via(proxy.clone())),
            (Ok(Ok(addresses)), None) => Ok(Route::Direct(addresses)),
            (Ok(Err(error @ AddressError::Unresolved { .. })), None) => {
                Err(Rejection::Unreachable(error.to_string()))
            }
            (Err(_), None) => Err(Rejection::TimedOut),
        }
    }

    /// Decides again about a connection that is already open.
    fn still_allowed(&self, permit: &Permit) -> Result<(), Rejection> {
        match self.rules.snapshot().decide(&permit.target.host, permit.target.port) {
            Decision::Allow { .. } => Ok(()),
            Decision::Unlisted if permit.once => Ok(()),
            Decision::Unlisted => Err(Rejection::Refused("no rule".to_owned())),
            Decision::Deny { rule } => Err(Rejection::Refused(rule)),
        }
    }

    /// Connects to exactly what was permitted.
    async fn open(&self, permit: &Permit) -> Result<TcpStream, Rejection> {
        let opened = match &permit.route {
            Route::Direct(addresses) => {
                connect(addresses, permit.target.port, self.dialer.as_ref(), self.limits.connect).await
            }
            Route::Via(proxy) => self.open_proxy(proxy).await,
        };
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Rejection::TimedOut,
            _ => Rejection::Unreachable(format!("could not connect to {}: {error}", permit.target)),
        })
    }

    /// Connects to the user's own proxy, wherever it is.
    async fn open_proxy(&self, proxy: &UpstreamProxy) -> io::Result<TcpStream> {
        let Authority { host, port } = &proxy.authority;
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.resolve(name).await?,
        };
        connect(&addresses, *port, self.dialer.as_ref(), self.limits.connect).await
    }

    /// Runs a transfer for as long as the rules allow its target; a grant that is taken back ends it.
    async fn while_allowed<T>(&self, permit: &Permit, transfer: impl Future<Output = T>) -> Option<T> {
        let mut snapshots = self.rules.subscribe();
        let revoked = async {
            loop {
                snapshots.mark_unchanged();
                if self.still_allowed(permit).is_err() || snapshots.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = revoked => None,
            done = transfer => Some(done),
        }
    }

    fn record(&self, peer: &Peer, target: &Authority, outcome: Outcome, rule: &str, meter: &Meter) {
        if peer.is_canary {
            return;
        }
        self.journal.record(&ConnectionEntry {
            caller: peer.caller.clone(),
            host: target.host.to_string(),
            port: target.port,
            outcome,
            rule: rule.to_owned(),
            bytes: meter.bytes.load(Ordering::Relaxed),
            time: meter.started.elapsed(),
        });
    }

    fn record_rejection(&self, peer: &Peer, target: &Authority, rejection: &Rejection, meter: &Meter) {
        let (outcome, rule) = match rejection {
            Rejection::Refused(rule) | Rejection::Inside(rule) => (Outcome::Refused, rule.as_str()),
            Rejection::Unreachable(reason) => (Outcome::Failed, reason.as_str()),
            Rejection::TimedOut => (Outcome::Failed, "timed out"),
        };
        self.record(peer, target, outcome, rule, meter);
    }
}

impl Rejection {
    /// The answer to an HTTP client, in one line of text.
    fn to_http(&self, target: &Authority) -> Vec<u8> {
        match self {
            Self::Refused(rule) => refusal(target, rule),
            Self::Inside(_) => refusal(target, "it does not resolve to public addresses"),
            Self::Unreachable(reason) => answer(502, "Bad Gateway", &[], &format!("pollux: {reason}")),
            Self::TimedOut => answer(504, "Gateway Timeout", &[], &format!("pollux: {target} timed out")),
        }
    }
}

fn refusal(target: &Authority, reason: &str) -> Vec<u8> {
    let text = format!("pollux: the sandbox does not allow {target} ({reason})");
    answer(403, "Forbidden", &[("x-pollux-refused", "host")], &text)
}

/// A complete response of the proxy itself, after which it closes the connection.
fn answer(status: u16, reason: &str, fields: &[(&str, &str)], text: &str) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n");
    for (name, value) in fields {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n{text}\n", text.len() + 1));
    out.into_bytes()
}

/// Why a head could not be read.
enum HeadFailure {
    /// The connection ended or was silent before a head began.
    Ended,
    /// The answer to send.
    Answer(Vec<u8>),
}

/// Reads the bytes of one head within a time.
async fn read_head(source: &mut Source, limits: &Limits, time: Duration) -> Result<Vec<u8>, HeadFailure> {
    let bad = |text: &str| HeadFailure::Answer(answer(400, "Bad Request", &[], &format!("pollux: {text}")));
    let complete = async {
        loop {
            match crate::http::head_length(source.bytes()) {
                Ok(Some(length)) if length <= limits.head_bytes => return Ok(source.take(length)),
                Ok(None) if source.bytes().len() <= limits.head_bytes => {}
                Ok(_) => {
                    let text = "pollux: the request head exceeds the size limit";
                    let out = answer(431, "Request Header Fields Too Large", &[], text);
                    return Err(HeadFailure::Answer(out));
                }
                Err(error) => return Err(bad(&error.to_string())),
            }
            if source.fill().await.map_or(0, |count| count) == 0 {
                return Err(HeadFailure::Ended);
            }
        }
    };
    match tokio::time::timeout(time, complete).await {
        Ok(result) => result,
        Err(_) => {
            let text = "pollux: the request head took too long";
            Err(HeadFailure::Answer(answer(408, "Request Timeout", &[], text)))
        }
    }
}

async fn read_request(
    source: &mut Source,
    limits: &Limits,
    time: Duration,
) -> Result<RequestHead, HeadFailure> {
    let bytes = read_head(source, limits, time).await?;
    RequestHead::parse(&bytes)
        .map_err(|error| HeadFailure::Answer(answer(400, "Bad Request", &[], &format!("pollux: {error}"))))
}

async fn read_response(source: &mut Source, limits: &Limits) -> io::Result<ResponseHead> {
    // A server may think for as long as it likes.
    let bytes = match read_head(source, limits, Duration::from_secs(24 * 60 * 60)).await {
        Ok(bytes) => bytes,
        Err(HeadFailure::Ended) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        Err(HeadFailure::Answer(_)) => return Err(io::Error::from(io::ErrorKind::InvalidData)),
    };
    ResponseHead::parse(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
