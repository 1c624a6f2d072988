//! Plain HTTP: each request is checked, rewritten and forwarded.

use std::pin::pin;

use tokio::io::AsyncWriteExt;

use super::stream::{BodyError, copy_body};
use super::tunnel::{Link, relay};
use super::{Core, Meter, Peer, Permit, Purpose, Rejection, Route, Source, Writer, answer, read_response};
use crate::host::Authority;
use crate::http::{Framing, RequestHead, ResponseHead, forward_request, forward_response};
use crate::journal::Outcome;

const HTTP_PORT: u16 = 80;
/// Interim responses before the final one.
const MAX_INTERIM: usize = 16;

/// Where the requests of one connection may go, and the connection that served the last of them.
#[derive(Default)]
pub(super) struct Scope {
    /// The host of the tunnel that the requests come through; without one, each request names its own.
    tunnel: Option<Authority>,
    held: Option<Held>,
}

struct Held {
    permit: Permit,
    link: Link,
}

impl Scope {
    /// The requests inside a tunnel.
    pub(super) fn tunnel(permit: Permit, link: Link) -> Self {
        Self { tunnel: Some(permit.target.clone()), held: Some(Held { permit, link }) }
    }

    /// The target and the path of a request, if the request is consistent.
    fn target(&self, head: &RequestHead) -> Result<(Authority, String), &'static str> {
        let (target, path) = match (&self.tunnel, absolute(&head.target)) {
            (None, Some(found)) => found,
            (Some(target), None) if head.target.starts_with('/') || head.target == "*" => {
                (target.clone(), head.target.clone())
            }
            (Some(target), Some((named, path))) if named == *target => (named, path),
            _ => return Err("the request target is not an absolute http URL"),
        };
        if path.contains('#') {
            return Err("the request target has a fragment");
        }
        match head.fields.count("host") {
            0 if !head.is_1_1 => {}
            1 if host_field(head, HTTP_PORT).is_some_and(|named| named == target) => {}
            _ => return Err("the Host field does not match the request target"),
        }
        Ok((target, path))
    }
}

/// The host that the `Host` field names.
pub(super) fn host_field(head: &RequestHead, default_port: u16) -> Option<Authority> {
    let value = std::str::from_utf8(head.fields.only("host")?).ok()?;
    Authority::parse(value, Some(default_port)).ok()
}

/// The parts of `http://authority/path`.
fn absolute(target: &str) -> Option<(Authority, String)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((Authority::parse(authority, Some(HTTP_PORT)).ok()?, path))
}

/// What became of an exchange.
enum Exchanged {
    /// Complete; whether client and server can be used for another request.
    Done { client: bool, server: bool },
    /// Both sides now speak WebSocket.
    Upgraded,
    /// The server failed; nothing has been sent to the client yet.
    BadServer,
    /// Broken off in the middle.
    Broken,
}

/// Serves one request; returns whether the connection can take another.
pub(super) async fn exchange(
    core: &Core,
    source: &mut Source,
    sink: &mut Writer,
    scope: &mut Scope,
    head: &RequestHead,
    peer: &Peer,
) -> bool {
    let meter = Meter::new();
    let prepared = scope.target(head).and_then(|found| {
        // Refused before anything is sent anywhere.
        let framing = head.framing().map_err(|_| "the length of the request is ambiguous")?;
        Ok((found, framing))
    });
    let ((target, path), framing) = match prepared {
        Ok(prepared) => prepared,
        Err(text) => {
            let _ = sink.write_all(&answer(400, "Bad Request", &[], &format!("pollux: {text}"))).await;
            return false;
        }
    };
    let mut held = match connected(core, scope, &target, peer).await {
        Ok(held) => held,
        Err(rejection) => {
            core.record_rejection(peer, &target, &rejection, &meter);
            let _ = sink.write_all(&rejection.to_http(&target)).await;
            return false;
        }
    };
    let Some(bytes) = outgoing(head, &path, &held.permit, scope.tunnel.is_some()) else {
        let text = "pollux: malformed Connection field";
        let _ = sink.write_all(&answer(400, "Bad Request", &[], text)).await;
        return false;
    };
    let transfer = async {
        let exchanged = transfer(core, source, sink, &mut held.link, head, &bytes, framing, &meter).await;
        match exchanged {
            Exchanged::Upgraded => {
                relay(source, sink, &mut held.link, &meter).await;
                Exchanged::Broken
            }
            other => other,
        }
    };
    let exchanged = core.while_allowed(&held.permit, transfer).await;
    let rule = &held.permit.rule;
    match exchanged {
        None => core.record(peer, &target, Outcome::Refused, "the rules changed", &meter),
        Some(Exchanged::BadServer) => {
            core.record(peer, &target, Outcome::Failed, "invalid response", &meter);
            let text = format!("pollux: {target} sent no valid response");
            let _ = sink.write_all(&answer(502, "Bad Gateway", &[], &text)).await;
        }
        Some(_) => core.record(peer, &target, Outcome::Allowed, rule, &meter),
    }
    let Some(Exchanged::Done { client, server }) = exchanged else { return false };
    let keeps = client && (server || scope.tunnel.is_none());
    if server {
        scope.held = Some(held);
    }
    keeps
}

/// A connection to the target: the one of the last request if it leads there and is still good, or a new one. In
/// both cases the rules are asked again.
async fn connected(
    core: &Core,
    scope: &mut Scope,
    target: &Authority,
    peer: &Peer,
) -> Result<Held, Rejection> {
    if let Some(mut held) = scope.held.take()
        && held.permit.target == *target
        && (scope.tunnel.is_some() || held.link.source.is_quiet())
    {
        core.still_allowed(&held.permit)?;
        return Ok(held);
    }
    if scope.tunnel.is_some() {
        return Err(Rejection::Unreachable(format!("{target} closed the connection")));
    }
    let permit = core.permit(target, Purpose::Plain, peer).await?;
    let link = Link::new(core.open(&permit).await?);
    Ok(Held { permit, link })
}

/// The head as it is sent: in absolute form to the user's own proxy, otherwise with the path alone.
fn outgoing(head: &RequestHead, path: &str, permit: &Permit, in_tunnel: bool) -> Option<Vec<u8>> {
    match &permit.route {
        Route::Via(proxy) if !in_tunnel => {
            let target = format!("http://{}{path}", permit.target);
            let authorization = proxy.authorization.as_deref().map(|value| ("proxy-authorization", value));
            let extra: Vec<(&str, &str)> = authorization.into_iter().collect();
            forward_request(head, &target, &permit.target, HTTP_PORT, &extra).ok()
        }
        Route::Via(_) | Route::Direct(_) => forward_request(head, path, &permit.target, HTTP_PORT, &[]).ok(),
    }
}

/// Sends the request and returns the response, both at once: a server may answer before it has read everything.
#[expect(clippy::too_many_arguments, reason = "both ends of two connections")]
async fn transfer(
    core: &Core,
    source: &mut Source,
    sink: &mut Writer,
    link: &mut Link,
    head: &RequestHead,
    bytes: &[u8],
    framing: Framing,
    meter: &Meter,
) -> Exchanged {
    let Link { source: from, sink: to } = link;
    let mut upload = pin!(async {
        to.write_all(bytes).await.map_err(|_| BodyError::Sink)?;
        meter.add(bytes.len());
        copy_body(source, to, framing, meter).await?;
        to.flush().await.map_err(|_| BodyError::Sink)
    });
    let mut download = pin!(respond(core, from, sink, head, meter));
    let mut uploaded = None;
    let exchanged = loop {
        tokio::select! {
            biased;
            result = &mut upload, if uploaded.is_none() => match result {
                Ok(()) => uploaded = Some(true),
                // It may have answered first: the response says why it stopped reading.
                Err(BodyError::Sink) => uploaded = Some(false),
                Err(BodyError::Source) => return Exchanged::Broken,
            },
            exchanged = &mut download => break exchanged,
        }
    };
    match exchanged {
        // The rest of the request would be read as the next one.
        Exchanged::Done { .. } if uploaded != Some(true) => Exchanged::Done { client: false, server: false },
        other => other,
    }
}

async fn respond(
    core: &Core,
    from: &mut Source,
    sink: &mut Writer,
    head: &RequestHead,
    meter: &Meter,
) -> Exchanged {
    for _ in 0..MAX_INTERIM {
        let Ok(response) = read_response(from, &core.limits).await else { return Exchanged::BadServer };
        let Some((framing, keep, bytes)) = incoming(head, &response) else { return Exchanged::BadServer };
        if sink.write_all(&bytes).await.is_err() {
            return Exchanged::Broken;
        }
        meter.add(bytes.len());
        match response.status {
            101 => return Exchanged::Upgraded,
            100..200 => continue,
            _ => {}
        }
        return match copy_body(from, sink, framing, meter).await {
            Ok(()) => {
                Exchanged::Done { client: keep, server: response.keeps_open() && framing != Framing::Close }
            }
            Err(_) => Exchanged::Broken,
        };
    }
    Exchanged::Broken
}

/// How a response is passed on; `None` if it must not be.
fn incoming(head: &RequestHead, response: &ResponseHead) -> Option<(Framing, bool, Vec<u8>)> {
    if response.status == 101 && !head.is_websocket() {
        return None;
    }
    let framing = response.framing(&head.method).ok()?;
    if framing == Framing::Chunked && !head.is_1_1 {
        return None;
    }
    let keep = head.keeps_open() && framing != Framing::Close;
    let bytes = forward_response(response, framing, keep).ok()?;
    Some((framing, keep, bytes))
}
