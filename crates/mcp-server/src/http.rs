//! Clients that connect over Streamable HTTP. Only this machine is served, and only with the token.
//!
//! Each request of a client is answered by a stream of events that ends with the answer; what the server asks meanwhile
//! comes on the same stream. There are no streams without a request: `GET` is not allowed, as the protocol permits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_front::rpc::{Incoming, Peer, RpcError, message};
use pollux_front::signals::Signals;
use pollux_front::stdio::{InputLine, Outbox};
use pollux_serve::{
    EventSender, Head, Limits, Method, Request, Response, SecretDigest, Site, StatusCode, bind_loopback,
    check_loopback_host, events, header, random_secret, read_secret_file, serve,
};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::LEAVING;
use crate::handler::{Handler, VERSIONS};
use crate::program::Program;
use crate::sessions::PromptSlots;

const PATH: &str = "/mcp";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// A prompt is the longest body.
const LIMITS: Limits = Limits {
    body: 4 * 1024 * 1024,
    bodies: 32 * 1024 * 1024,
    connections: 64,
    per_peer: 64,
    draining: Duration::from_millis(500),
};
/// The shortest token that is accepted.
const MIN_TOKEN: usize = 16;
/// Clients at the same time. The one that was silent longest makes room for another.
const MAX_CLIENTS: usize = 16;
/// Clients that say nothing for so long are forgotten.
const SILENCE: Duration = Duration::from_secs(60 * 60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(60);
/// A client that reads nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(30);

/// Where to listen, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// 0 is any free port.
    pub port: u16,
    /// The file with the token; without one, a token is made for this run.
    pub token_file: Option<PathBuf>,
}

/// Serves clients on a loopback address until a signal arrives. `tell` shows a line to the person.
pub fn serve_http(program: Program, options: &HttpOptions, tell: &dyn Fn(&str)) -> Result<ExitKind, Failure> {
    let (token, is_new) = token(options)?;
    let cannot =
        |error: &std::io::Error| Failure::new(ExitKind::Failure, "could not start the server").because(error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| cannot(&error))?;
    let exit = LocalSet::new().block_on(&runtime, async {
        let (port, listeners) = bind_loopback(options.port).await.map_err(|error| {
            Failure::new(ExitKind::Failure, "could not listen on a loopback address").because(&error)
        })?;
        let mut signals = Signals::listen().map_err(|error| cannot(&error))?;
        let site = Rc::new(McpSite::new(port, &token, program));
        let stop = CancellationToken::new();
        let serving: Vec<_> = listeners
            .into_iter()
            .map(|listener| tokio::task::spawn_local(serve(listener, Rc::clone(&site), LIMITS, stop.clone())))
            .collect();
        tell(&format!("Listening on http://127.0.0.1:{port}{PATH}"));
        if is_new {
            tell(&format!("Token: {token}"));
        }
        let mut look = interval(LOOK);
        let exit = loop {
            tokio::select! {
                received = signals.next() => break Received::exit(received),
                _ = look.tick() => site.forget_silent(),
            }
        };
        stop.cancel();
        let _ = tokio::time::timeout(LEAVING, site.close()).await;
        for served in serving {
            let _ = served.await;
        }
        Ok(exit)
    });
    runtime.shutdown_background();
    exit
}

/// The token that clients must show, and whether it was made now.
fn token(options: &HttpOptions) -> Result<(String, bool), Failure> {
    let Some(file) = &options.token_file else { return Ok((random_secret(), true)) };
    let text = read_secret_file(file, "token file")?;
    let token = text.trim();
    if token.len() < MIN_TOKEN || token.contains(char::is_whitespace) {
        let why = format!(
            "cannot use token file `{}`: it needs one token of at least {MIN_TOKEN} characters",
            file.display()
        );
        return Err(Failure::new(ExitKind::Config, why));
    }
    Ok((token.to_owned(), false))
}

/// The server behind the address.
struct McpSite {
    port: u16,
    token: SecretDigest,
    program: Arc<Program>,
    /// Shared by all clients.
    slots: PromptSlots,
    clients: RefCell<HashMap<String, Rc<HttpClient>>>,
}

/// A client that has introduced itself.
struct HttpClient {
    handler: Handler,
    last: Cell<Instant>,
    /// Requests that are being answered.
    busy: Cell<usize>,
}

/// What an admitted request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Message,
    Leave,
}

impl Site for McpSite {
    type Caller = Wish;

    async fn admit(&self, head: &Head) -> Result<Wish, Box<Response>> {
        check_loopback_host(head, self.port)?;
        check_origin(head)?;
        if head.path != PATH {
            return Err(refuse(StatusCode::NOT_FOUND, "not found"));
        }
        let wish = match head.method {
            Method::POST => Wish::Message,
            Method::DELETE => Wish::Leave,
            _ => {
                let refused = *refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST or DELETE");
                return Err(Box::new(refused.header(header::ALLOW, "POST, DELETE")));
            }
        };
        if head.bearer().map(SecretDigest::of) != Some(self.token) {
            let refused = *refuse(StatusCode::UNAUTHORIZED, "a valid bearer token is required");
            return Err(Box::new(refused.header(header::WWW_AUTHENTICATE, "Bearer")));
        }
        let version = head.header(VERSION);
        if version.is_some_and(|version| !VERSIONS.contains(&version)) {
            return Err(refuse(StatusCode::BAD_REQUEST, "unsupported protocol version"));
        }
        Ok(wish)
    }

    fn takes_body(&self, wish: &Wish) -> bool {
        *wish == Wish::Message
    }

    async fn answer(self: Rc<Self>, request: Request, wish: Wish) -> Response {
        let answered = match wish {
            Wish::Message => self.message(&request),
            Wish::Leave => self.leave(&request.head),
        };
        answered.unwrap_or_else(|refused| *refused)
    }

    fn complete(&self, response: Response) -> Response {
        let response = response.header(header::HeaderName::from_static("x-content-type-options"), "nosniff");
        response.header(header::CACHE_CONTROL, "no-store")
    }
}

impl McpSite {
    fn new(port: u16, token: &str, program: Program) -> Self {
        Self {
            port,
            token: SecretDigest::of(token),
            program: Arc::new(program),
            slots: PromptSlots::default(),
            clients: RefCell::default(),
        }
    }

    fn message(self: &Rc<Self>, request: &Request) -> Result<Response, Box<Response>> {
        let head = &request.head;
        let kind = head.only("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case("application/json") {
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be `application/json`"));
        }
        let Some(message) = message(&InputLine::Whole(request.body.to_vec()), LIMITS.body) else {
            return Err(refuse(StatusCode::BAD_REQUEST, "a message must be a JSON object"));
        };
        match message {
            Incoming::Bad { error, .. } => Err(refuse(StatusCode::BAD_REQUEST, &error.message)),
            Incoming::Request { id, method, params } if method == "initialize" => {
                self.introduce(&id, &params)
            }
            Incoming::Request { id, method, params } => {
                let client = self.client(head)?;
                Ok(client.respond(id, method, params))
            }
            Incoming::Notification { method, params } => {
                self.client(head)?.handler.notified(&method, &params);
                Ok(Response::empty(StatusCode::ACCEPTED))
            }
            Incoming::Answer { id, result } => {
                self.client(head)?.handler.client().answered(id, result);
                Ok(Response::empty(StatusCode::ACCEPTED))
            }
        }
    }

    /// A new client.
    fn introduce(&self, id: &str, params: &Value) -> Result<Response, Box<Response>> {
        self.make_room()?;
        let name = random_secret();
        // Nothing is sent outside of a request.
        let peer = Peer::new(Outbox::unwritten(), "notifications/cancelled");
        let handler = Handler::new(Arc::clone(&self.program), peer, self.slots.clone());
        let result = handler.initialize(params);
        let client = HttpClient { handler, last: Cell::new(Instant::now()), busy: Cell::new(0) };
        self.clients.borrow_mut().insert(name.clone(), Rc::new(client));
        let id: Value = serde_json::from_str(id).unwrap_or_default();
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        Ok(Response::json(StatusCode::OK, &answer).header(header::HeaderName::from_static(SESSION), &name))
    }

    /// Forgets the client that was silent longest, if there are too many.
    fn make_room(&self) -> Result<(), Box<Response>> {
        if self.clients.borrow().len() < MAX_CLIENTS {
            return Ok(());
        }
        let idle = {
            let clients = self.clients.borrow();
            let idle = clients.iter().filter(|(_, client)| client.busy.get() == 0);
            idle.min_by_key(|(_, client)| client.last.get()).map(|(name, _)| name.clone())
        };
        let Some(name) = idle else {
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "too many clients"));
        };
        self.forget(&name);
        Ok(())
    }

    fn client(&self, head: &Head) -> Result<Rc<HttpClient>, Box<Response>> {
        let Some(name) = head.only(SESSION) else {
            return Err(refuse(StatusCode::BAD_REQUEST, "missing header `Mcp-Session-Id`"));
        };
        let client = self.clients.borrow().get(name).cloned();
        let client = client.ok_or_else(|| refuse(StatusCode::NOT_FOUND, "unknown session"))?;
        client.last.set(Instant::now());
        Ok(client)
    }

    fn leave(&self, head: &Head) -> Result<Response, Box<Response>> {
        self.client(head)?;
        self.forget(head.only(SESSION).unwrap_or_default());
        Ok(Response::empty(StatusCode::NO_CONTENT))
    }

    fn forget(&self, name: &str) {
        let client = self.clients.borrow_mut().remove(name);
        if let Some(client) = client {
            tokio::task::spawn_local(async move { client.handler.close().await });
        }
    }

    fn forget_silent(&self) {
        let silent: Vec<String> = {
            let clients = self.clients.borrow();
            let silent = clients.iter().filter(|(_, client)| client.is_silent());
            silent.map(|(name, _)| name.clone()).collect()
        };
        silent.iter().for_each(|name| self.forget(name));
    }

    async fn close(&self) {
        let clients: Vec<_> = self.clients.borrow_mut().drain().map(|(_, client)| client).collect();
        for client in clients {
            client.handler.close().await;
        }
    }
}

impl HttpClient {
    fn is_silent(&self) -> bool {
        self.busy.get() == 0 && self.last.get().elapsed() >= SILENCE
    }

    /// Answers a request with a stream that ends with it.
    fn respond(self: Rc<Self>, id: String, method: String, params: Value) -> Response {
        let (sender, receiver) = events();
        let cancelled = self.handler.begin(&id);
        self.busy.set(self.busy.get() + 1);
        tokio::task::spawn_local(async move {
            let outbox = Outbox::unwritten();
            let client = self.handler.client().through(outbox.clone());
            let work = self.handler.respond(&id, &method, &params, &client, cancelled.clone());
            pump(work, &outbox, &sender, &cancelled).await;
            self.busy.set(self.busy.get() - 1);
            self.last.set(Instant::now());
        });
        Response::events(receiver)
    }
}

/// Sends what a request leads to until it is answered. A client that is gone can neither answer nor come back for the
/// result, so its request is cancelled.
async fn pump(
    work: impl Future<Output = ()>,
    outbox: &Outbox,
    sender: &EventSender,
    cancelled: &CancellationToken,
) {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            () = sender.gone() => {
                cancelled.cancel();
                return work.await;
            }
            line = outbox.next_line() => {
                if !send_in_time(sender, &line).await {
                    cancelled.cancel();
                    return work.await;
                }
            }
            () = &mut work => break,
        }
    }
    while let Some(line) = outbox.try_next_line() {
        if !send_in_time(sender, &line).await {
            return;
        }
    }
}

/// False if the client is gone or takes nothing.
async fn send_in_time(sender: &EventSender, line: &str) -> bool {
    matches!(tokio::time::timeout(STALLED, sender.send(line)).await, Ok(true))
}

/// Pages in browsers may not use the server, whatever they know.
fn check_origin(head: &Head) -> Result<(), Box<Response>> {
    let own = format!("http://{}", head.only("host").unwrap_or_default());
    let says = |name: &str, own: &[&str]| {
        !head.headers.contains_key(name) || head.only(name).is_some_and(|value| own.contains(&value))
    };
    if says("origin", &[&own]) && says("sec-fetch-site", &["same-origin", "none"]) {
        return Ok(());
    }
    Err(refuse(StatusCode::FORBIDDEN, "requests from web pages are not allowed"))
}

/// A refusal in the words of the protocol.
fn refuse(status: StatusCode, why: &str) -> Box<Response> {
    let error = RpcError::invalid_request(why).to_json();
    Box::new(Response::json(status, &json!({"jsonrpc": "2.0", "id": null, "error": error})))
}

#[cfg(test)]
mod tests;
