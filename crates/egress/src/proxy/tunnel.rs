//! Tunnels: `CONNECT` and SOCKS. The first bytes must be meant for the host of the tunnel.
//!
//! On port 443 they must be a TLS ClientHello that names it, on port 80 such a ClientHello or HTTP requests that
//! name it. Other ports need a rule of their own; there a ClientHello is checked if there is one.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::plain::{self, Scope};
use super::stream::pump;
use super::{
    Core, HeadFailure, Meter, Peer, Permit, Purpose, Rejection, Route, Source, Writer, read_request,
    read_response,
};
use crate::hello::{self, Hello};
use crate::host::{Authority, Host};
use crate::journal::Outcome;

/// A connection to a server.
pub(super) struct Link {
    pub(super) source: Source,
    pub(super) sink: Writer,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { source: Source::new(Box::new(reader)), sink: Box::new(writer) }
    }
}

/// Permits and opens a tunnel.
pub(super) async fn open(core: &Core, target: &Authority, peer: &Peer) -> Result<(Permit, Link), Rejection> {
    let permit = core.permit(target, Purpose::Tunnel, peer).await?;
    let mut link = Link::new(core.open(&permit).await?);
    if let Route::Via(proxy) = &permit.route {
        let asked = ask_upstream(core, &mut link, target, proxy.authorization.as_deref());
        match tokio::time::timeout(core.limits.connect, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return Err(Rejection::Unreachable(reason)),
            Err(_) => return Err(Rejection::TimedOut),
        }
    }
    Ok((permit, link))
}

/// Opens the tunnel through the user's own proxy.
async fn ask_upstream(
    core: &Core,
    link: &mut Link,
    target: &Authority,
    authorization: Option<&str>,
) -> Result<(), String> {
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
    if let Some(value) = authorization {
        head.push_str(&format!("proxy-authorization: {value}\r\n"));
    }
    head.push_str("\r\n");
    let failed = |error: std::io::Error| format!("the upstream proxy failed: {error}");
    link.sink.write_all(head.as_bytes()).await.map_err(failed)?;
    let response = read_response(&mut link.source, &core.limits).await.map_err(failed)?;
    if (200..300).contains(&response.status) {
        Ok(())
    } else {
        Err(format!("the upstream proxy answered {}", response.status))
    }
}

/// Checks the first bytes and copies until one side ends or the rules no longer allow it.
pub(super) async fn run(
    core: &Core,
    source: &mut Source,
    sink: &mut Writer,
    mut link: Link,
    permit: Permit,
    peer: &Peer,
    meter: &Meter,
) {
    let target = &permit.target;
    let outcome = match target.port {
        443 | 80 => match opening(core, source, &target.host, target.port).await {
            Opening::Tls => core.while_allowed(&permit, relay(source, sink, &mut link, meter)).await.map(Ok),
            Opening::Plain => {
                serve_plain(core, source, sink, link, permit, peer).await;
                return;
            }
            Opening::Nothing => Some(Ok(())),
            Opening::Refused(reason) => Some(Err(reason)),
        },
        _ => {
            let guarded = relay_guarded(core, source, sink, link, &target.host, meter);
            core.while_allowed(&permit, guarded).await
        }
    };
    match outcome {
        Some(Ok(())) => core.record(peer, target, Outcome::Allowed, &permit.rule, meter),
        Some(Err(reason)) => core.record(peer, target, Outcome::Refused, reason, meter),
        None => core.record(peer, target, Outcome::Refused, "the rules changed", meter),
    }
}

/// What a tunnel begins with.
enum Opening {
    /// A ClientHello for the right host.
    Tls,
    /// HTTP; requests are judged one by one.
    Plain,
    /// The client went away.
    Nothing,
    Refused(&'static str),
}

async fn opening(core: &Core, source: &mut Source, host: &Host, port: u16) -> Opening {
    let checked = async {
        while source.bytes().is_empty() {
            if source.fill().await.unwrap_or(0) == 0 {
                return Opening::Nothing;
            }
        }
        let is_tls = source.bytes().first().is_some_and(|byte| hello::starts_tls(*byte));
        match (is_tls, port) {
            (true, _) => match check_hello(source, host).await {
                Ok(()) => Opening::Tls,
                Err(reason) => Opening::Refused(reason),
            },
            (false, 80) => Opening::Plain,
            (false, _) => Opening::Refused("not TLS"),
        }
    };
    tokio::time::timeout(core.limits.head, checked)
        .await
        .unwrap_or(Opening::Refused("no ClientHello in time"))
}

/// Reads the ClientHello, leaves it in the source and compares its name with the host.
async fn check_hello(source: &mut Source, host: &Host) -> Result<(), &'static str> {
    let server_name = loop {
        match hello::read(source.bytes()) {
            Ok(Hello::Complete { server_name }) => break server_name,
            Ok(Hello::Partial) if source.bytes().len() <= 2 * hello::MAX_HELLO => {}
            Ok(Hello::Partial) | Err(_) => return Err("malformed TLS ClientHello"),
        }
        if source.fill().await.unwrap_or(0) == 0 {
            return Err("incomplete TLS ClientHello");
        }
    };
    match (server_name, host) {
        (None, Host::Address(_)) => Ok(()),
        (None, Host::Name(_)) => Err("TLS without a server name"),
        (Some(name), host) => match Host::parse(&name) {
            Ok(named) if named == *host => Ok(()),
            _ => Err("TLS for another server name"),
        },
    }
}

/// Copies both directions; a direction that ends is closed on the other side, a broken one ends both.
pub(super) async fn relay(source: &mut Source, sink: &mut Writer, link: &mut Link, meter: &Meter) {
    let up = pump(source, &mut link.sink, meter);
    let down = pump(&mut link.source, sink, meter);
    let _ = tokio::try_join!(up, down);
}

/// The same for ports where the server may speak first: what the client says first is checked if it is TLS.
async fn relay_guarded(
    core: &Core,
    source: &mut Source,
    sink: &mut Writer,
    link: Link,
    host: &Host,
    meter: &Meter,
) -> Result<(), &'static str> {
    let Link { source: mut from, sink: mut to } = link;
    let up = async {
        while source.bytes().is_empty() {
            if source.fill().await.unwrap_or(0) == 0 {
                let _ = to.shutdown().await;
                return Ok(());
            }
        }
        if source.bytes().first().is_some_and(|byte| hello::starts_tls(*byte)) {
            let checked = tokio::time::timeout(core.limits.head, check_hello(source, host)).await;
            checked.unwrap_or(Err("no ClientHello in time"))?;
        }
        pump(source, &mut to, meter).await.map_err(|_| "")
    };
    let down = async { pump(&mut from, sink, meter).await.map_err(|_| "") };
    match tokio::try_join!(up, down) {
        Ok(_) | Err("") => Ok(()),
        Err(reason) => Err(reason),
    }
}

/// Serves the HTTP requests of a tunnel to port 80, each judged like a request to the proxy.
async fn serve_plain(
    core: &Core,
    source: &mut Source,
    sink: &mut Writer,
    link: Link,
    permit: Permit,
    peer: &Peer,
) {
    let mut scope = Scope::tunnel(permit, link);
    let mut time = core.limits.head;
    loop {
        let head = match read_request(source, &core.limits, time).await {
            Ok(head) => head,
            Err(HeadFailure::Ended) => return,
            Err(HeadFailure::Answer(bytes)) => {
                let _ = sink.write_all(&bytes).await;
                return;
            }
        };
        if !plain::exchange(core, source, sink, &mut scope, &head, peer).await {
            return;
        }
        time = core.limits.idle;
    }
}
