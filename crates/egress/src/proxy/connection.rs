//! One connection of a program: SOCKS or HTTP, told apart by the first byte.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncWriteExt;

use super::plain::{self, Scope};
use super::{Core, HeadFailure, Meter, Peer, Rejection, Source, Writer, answer, read_request, tunnel};
use crate::host::Authority;
use crate::http::RequestHead;
use crate::socks::{self, Parsed, Reply};

/// How long and how much a client that was answered may still send.
const LINGER: Duration = Duration::from_secs(1);
const MAX_DRAINED: usize = 1024 * 1024;

/// Serves a connection until it ends. With a token, every request must carry it.
pub(crate) async fn serve(
    core: Arc<Core>,
    mut source: Source,
    mut sink: Writer,
    token: Option<Arc<str>>,
    peer: Peer,
) {
    let first = async {
        while source.bytes().is_empty() {
            if source.fill().await.unwrap_or(0) == 0 {
                return None;
            }
        }
        source.bytes().first().copied()
    };
    let first = tokio::time::timeout(core.limits.head, first).await.ok().flatten();
    match first {
        Some(socks::VERSION) => serve_socks(&core, &mut source, &mut sink, token.as_deref(), &peer).await,
        Some(_) => serve_http(&core, &mut source, &mut sink, token.as_deref(), &peer).await,
        None => {}
    }
    if sink.shutdown().await.is_ok() {
        // Closing with unread bytes would reset the connection and take the last answer with it.
        let _ = tokio::time::timeout(LINGER, source.drain(MAX_DRAINED)).await;
    }
}

async fn serve_http(core: &Core, source: &mut Source, sink: &mut Writer, token: Option<&str>, peer: &Peer) {
    let mut scope = Scope::default();
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
        if token.is_some_and(|token| !is_authorized(&head, token)) {
            let text = "pollux: the proxy token is missing or wrong";
            let fields = [("proxy-authenticate", "Basic realm=\"pollux\"")];
            let _ = sink.write_all(&answer(407, "Proxy Authentication Required", &fields, text)).await;
            return;
        }
        if head.method == "CONNECT" {
            serve_connect(core, source, sink, &head, peer).await;
            return;
        }
        if !plain::exchange(core, source, sink, &mut scope, &head, peer).await {
            return;
        }
        time = core.limits.idle;
    }
}

async fn serve_connect(core: &Core, source: &mut Source, sink: &mut Writer, head: &RequestHead, peer: &Peer) {
    let bad = |text: String| answer(400, "Bad Request", &[], &format!("pollux: {text}"));
    let target = match Authority::parse(&head.target, None) {
        Ok(target) => target,
        Err(error) => {
            let _ = sink.write_all(&bad(error.to_string())).await;
            return;
        }
    };
    // Clients differ in whether `Host` has the port; a host that differs is an attempt to confuse.
    let same_host = match head.fields.count("host") {
        0 => true,
        1 => plain::host_field(head, target.port).is_some_and(|named| named.host == target.host),
        _ => false,
    };
    let has_body =
        !matches!(head.framing(), Ok(crate::http::Framing::Empty | crate::http::Framing::Length(0)));
    if !same_host || has_body {
        let _ = sink.write_all(&bad("the request contradicts its target".to_owned())).await;
        return;
    }
    let meter = Meter::new();
    match tunnel::open(core, &target, peer).await {
        Ok((permit, link)) => {
            if sink.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                tunnel::run(core, source, sink, link, permit, peer, &meter).await;
            }
        }
        Err(rejection) => {
            core.record_rejection(peer, &target, &rejection, &meter);
            let _ = sink.write_all(&rejection.to_http(&target)).await;
        }
    }
}

/// Whether a request carries the token as the user of `Proxy-Authorization`.
fn is_authorized(head: &RequestHead, token: &str) -> bool {
    let value = head.fields.only("proxy-authorization").unwrap_or_default();
    let Some((scheme, encoded)) = value.split_at_checked(6) else { return false };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return false;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).unwrap_or_default();
    let user = decoded.split(|byte| *byte == b':').next().unwrap_or_default();
    is_same(user, token.as_bytes())
}

/// Compares without telling by the time how much was right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |seen, (one, other)| seen | (one ^ other));
    given.len() == token.len() && differing == 0
}

async fn serve_socks(core: &Core, source: &mut Source, sink: &mut Writer, token: Option<&str>, peer: &Peer) {
    let limit = core.limits.head;
    let Ok(target) = tokio::time::timeout(limit, socks_target(source, sink, token)).await else { return };
    let Some((host, port)) = target else { return };
    let target = Authority { host, port };
    let meter = Meter::new();
    match tunnel::open(core, &target, peer).await {
        Ok((permit, link)) => {
            if sink.write_all(&Reply::Succeeded.bytes()).await.is_ok() {
                tunnel::run(core, source, sink, link, permit, peer, &meter).await;
            }
        }
        Err(rejection) => {
            core.record_rejection(peer, &target, &rejection, &meter);
            let reply = match rejection {
                Rejection::Refused(_) | Rejection::Inside(_) => Reply::NotAllowed,
                Rejection::Unreachable(_) => Reply::HostUnreachable,
                Rejection::TimedOut => Reply::Failure,
            };
            let _ = sink.write_all(&reply.bytes()).await;
        }
    }
}

/// Goes through the SOCKS handshake; `None` if it failed and was answered.
async fn socks_target(
    source: &mut Source,
    sink: &mut Writer,
    token: Option<&str>,
) -> Option<(crate::host::Host, u16)> {
    let method = message(source, |bytes| socks::method(bytes, token.is_some())).await?.ok()?;
    sink.write_all(&[socks::VERSION, method]).await.ok()?;
    if method == socks::NO_METHOD {
        return None;
    }
    if let Some(token) = token {
        let user = message(source, socks::user).await?.ok()?;
        let right = is_same(&user, token.as_bytes());
        sink.write_all(&[1, u8::from(!right)]).await.ok()?;
        if !right {
            return None;
        }
    }
    match message(source, socks::request).await? {
        Ok(target) => Some(target),
        Err(error) => {
            let _ = sink.write_all(&error.reply().bytes()).await;
            None
        }
    }
}

/// Reads one SOCKS message; `None` if the connection ended.
async fn message<T>(
    source: &mut Source,
    parse: impl Fn(&[u8]) -> Parsed<T>,
) -> Option<Result<T, socks::SocksError>> {
    loop {
        match parse(source.bytes()) {
            Ok(Some((value, used))) => {
                source.take(used);
                return Some(Ok(value));
            }
            Ok(None) => {}
            Err(error) => return Some(Err(error)),
        }
        if source.fill().await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
