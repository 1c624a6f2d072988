//! Accepts connections and answers their requests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::ResponseBody;
use crate::message::{Head, Query, Request, Response};
use crate::patient::Patient;
use crate::tls::TlsIdentity;

/// How long a client may take to send the head of a request, and a whole one.
const HEAD_TIME: Duration = Duration::from_secs(30);
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long a client may take to agree on encryption.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The longest request line and headers together.
const HEAD_SIZE: usize = 64 * 1024;
/// Pause after a connection that could not be accepted, such as for a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Room for bodies is taken in pieces of so many bytes.
const UNIT: usize = 64 * 1024;
/// How long a client may not read what it asked for.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// Room for the bodies of a connection's requests.
#[derive(Clone)]
struct Room {
    body: usize,
    bodies: Arc<Semaphore>,
}

/// What answers requests.
pub trait Site: 'static {
    /// Who asks.
    type Caller;

    /// Decides on a request before its body is read.
    fn admit(&self, head: &Head) -> impl Future<Output = Result<Self::Caller, Box<Response>>>;

    /// Whether the body of a caller's request is read; one that is not read must be empty.
    fn takes_body(&self, _caller: &Self::Caller) -> bool {
        true
    }

    /// Answers a request.
    fn answer(self: Rc<Self>, request: Request, caller: Self::Caller) -> impl Future<Output = Response>;

    /// Completes every response, also those to requests that were refused.
    fn complete(&self, response: Response) -> Response {
        response
    }
}

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub body: usize,
    /// Bytes of all bodies of requests that are being answered.
    pub bodies: usize,
    pub connections: usize,
    /// Connections from one address.
    pub per_peer: usize,
    /// How long requests under way may take once the server stops.
    pub draining: Duration,
}

/// Serves until `stop` is cancelled, then finishes the requests under way. Needs a `LocalSet`.
pub async fn serve<S: Site>(listener: TcpListener, site: Rc<S>, limits: Limits, stop: CancellationToken) {
    accept(listener, None, site, limits, stop).await;
}

/// The same over TLS.
pub async fn serve_tls<S: Site>(
    listener: TcpListener,
    identity: Rc<TlsIdentity>,
    site: Rc<S>,
    limits: Limits,
    stop: CancellationToken,
) {
    accept(listener, Some(identity), site, limits, stop).await;
}

async fn accept<S: Site>(
    listener: TcpListener,
    identity: Option<Rc<TlsIdentity>>,
    site: Rc<S>,
    limits: Limits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let bodies = Arc::new(Semaphore::new(limits.bodies / UNIT));
    let peers = Peers::default();
    let connections = TaskTracker::new();
    loop {
        let permit = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(place) = peers.take(peer.ip(), limits.per_peer) else { continue };
        let (site, stop, bodies) = (Rc::clone(&site), stop.clone(), Arc::clone(&bodies));
        let acceptor = identity.as_ref().map(|identity| identity.acceptor());
        connections.spawn_local(async move {
            let room = Room { body: limits.body, bodies };
            let Ok(local) = stream.local_addr() else { return };
            // Events are small and should not wait for more.
            let _ = stream.set_nodelay(true);
            match acceptor {
                None => connection(stream, [peer, local], site, room, stop).await,
                Some(acceptor) => {
                    // A client that does not speak TLS gets no answer.
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                        connection(stream, [peer, local], site, room, stop).await;
                    }
                }
            }
            drop((permit, place));
        });
    }
    drop(listener);
    connections.close();
    let _ = timeout(limits.draining, connections.wait()).await;
}

async fn connection<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ends: [SocketAddr; 2],
    site: Rc<S>,
    room: Room,
    stop: CancellationToken,
) {
    let service = service_fn(|request| {
        let (site, room) = (Rc::clone(&site), room.clone());
        async move { Ok::<_, Infallible>(respond(request, ends, site, room).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_SIZE);
    let stream = TokioIo::new(Patient::new(stream, WRITE_TIME));
    let mut connection = std::pin::pin!(builder.serve_connection(stream, service));
    // A client that breaks off or sends something else than HTTP is not told more than hyper does.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn respond<S: Site>(
    request: hyper::Request<Incoming>,
    [peer, local]: [SocketAddr; 2],
    site: Rc<S>,
    room: Room,
) -> hyper::Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let head = Head {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::read(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        peer,
        local,
    };
    let is_old = parts.version == Version::HTTP_10;
    let response = match site.admit(&head).await {
        // The rest of the request is not worth reading.
        Err(refused) => refused.header(CONNECTION, "close"),
        Ok(caller) => {
            let most = if site.takes_body(&caller) { room.body } else { 0 };
            match read(body, most, &room.bodies).await {
                Ok((body, _held)) => Rc::clone(&site).answer(Request { head, body }, caller).await,
                Err(refused) => refused.header(CONNECTION, "close"),
            }
        }
    };
    let response = site.complete(response);
    let mut written = hyper::Response::new(response.body);
    *written.status_mut() = response.status;
    *written.headers_mut() = response.headers;
    if is_old {
        written.headers_mut().insert(CONNECTION, hyper::header::HeaderValue::from_static("close"));
    }
    written
}

/// Reads a body, and takes as much of the room for all of them as it has.
async fn read(
    body: Incoming,
    most: usize,
    bodies: &Arc<Semaphore>,
) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Box<Response>> {
    let refuse = |status, text: &str| Box::new(Response::text(status, format!("{text}\n")));
    let too_large = || {
        let text = format!("request body exceeds {} MiB", most / 1024 / 1024);
        refuse(StatusCode::PAYLOAD_TOO_LARGE, &text)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let (mut body, mut bytes, mut held) = (Limited::new(body, most), Vec::new(), Vec::new());
    let reading = async {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            bytes.extend_from_slice(&data);
            while held.len() * UNIT < bytes.len() {
                match Arc::clone(bodies).try_acquire_owned() {
                    Ok(permit) => held.push(permit),
                    Err(_) => return Ok(false),
                }
            }
        }
        Ok::<bool, Box<dyn std::error::Error + Send + Sync>>(true)
    };
    let read = timeout(BODY_TIME, reading).await;
    match read {
        Ok(Ok(true)) => Ok((bytes.into(), held)),
        Ok(Ok(false)) => {
            Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "too many large requests at the same time"))
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(refuse(StatusCode::BAD_REQUEST, "the request body was cut off")),
        Err(_) => Err(refuse(StatusCode::REQUEST_TIMEOUT, "the request body took too long")),
    }
}

/// Connections by address.
#[derive(Debug, Clone, Default)]
struct Peers(Rc<RefCell<HashMap<IpAddr, usize>>>);

/// One connection of an address.
struct PeerPlace(Peers, IpAddr);

impl Peers {
    fn take(&self, peer: IpAddr, most: usize) -> Option<PeerPlace> {
        let mut counts = self.0.borrow_mut();
        let count = counts.entry(peer).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(PeerPlace(self.clone(), peer))
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut counts = self.0.0.borrow_mut();
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
