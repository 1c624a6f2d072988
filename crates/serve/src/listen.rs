//! Accepts connections and answers their requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::ResponseBody;
use crate::message::{Head, Query, Request, Response};

/// How long a client may take to send the head of a request, and a whole one.
const HEAD_TIME: Duration = Duration::from_secs(30);
const BODY_TIME: Duration = Duration::from_secs(60);
/// The longest request line and headers together.
const HEAD_SIZE: usize = 64 * 1024;
/// Pause after a connection that could not be accepted, such as for a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers requests.
pub trait Site: 'static {
    /// Who asks.
    type Caller;

    /// Decides on a request before its body is read.
    fn admit(&self, head: &Head) -> Result<Self::Caller, Box<Response>>;

    /// Answers a request.
    fn answer(self: Rc<Self>, request: Request, caller: Self::Caller) -> impl Future<Output = Response>;
}

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub body: usize,
    pub connections: usize,
    /// How long requests under way may take once the server stops.
    pub draining: Duration,
}

/// Serves until `stop` is cancelled, then finishes the requests under way. Needs a `LocalSet`.
pub async fn serve<S: Site>(listener: TcpListener, site: Rc<S>, limits: Limits, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(limits.connections));
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
        let (site, stop) = (Rc::clone(&site), stop.clone());
        connections.spawn_local(async move {
            connection(stream, peer, site, limits, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    let _ = timeout(limits.draining, connections.wait()).await;
}

async fn connection<S: Site>(
    stream: TcpStream,
    peer: SocketAddr,
    site: Rc<S>,
    limits: Limits,
    stop: CancellationToken,
) {
    // Events are small and should not wait for more.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let site = Rc::clone(&site);
        async move { Ok::<_, Infallible>(respond(request, peer, site, limits.body).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_SIZE);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
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
    peer: SocketAddr,
    site: Rc<S>,
    max_body: usize,
) -> hyper::Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let head = Head {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::read(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        peer,
    };
    let is_old = parts.version == Version::HTTP_10;
    let response = match site.admit(&head) {
        // The rest of the request is not worth reading.
        Err(refused) => refused.header(CONNECTION, "close"),
        Ok(caller) => match read(body, max_body).await {
            Ok(body) => site.answer(Request { head, body }, caller).await,
            Err(refused) => refused.header(CONNECTION, "close"),
        },
    };
    let mut written = hyper::Response::new(response.body);
    *written.status_mut() = response.status;
    *written.headers_mut() = response.headers;
    if is_old {
        written.headers_mut().insert(CONNECTION, hyper::header::HeaderValue::from_static("close"));
    }
    written
}

async fn read(body: Incoming, most: usize) -> Result<hyper::body::Bytes, Box<Response>> {
    let too_large = || {
        let text = format!("request body exceeds {} MiB\n", most / 1024 / 1024);
        Box::new(Response::text(StatusCode::PAYLOAD_TOO_LARGE, text))
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    match timeout(BODY_TIME, Limited::new(body, most).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => {
            Err(Box::new(Response::text(StatusCode::BAD_REQUEST, "the request body was cut off\n")))
        }
        Err(_) => {
            Err(Box::new(Response::text(StatusCode::REQUEST_TIMEOUT, "the request body took too long\n")))
        }
    }
}
