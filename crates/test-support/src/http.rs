//! A small HTTP server whose responses are a function of the request: token endpoints, metadata, well-known
//! documents.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The next request of a connection; nothing at its end.
    pub fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { method, path: path.to_owned(), query: query.to_owned(), headers, body })
    }

    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A field of a form in the body, decoded.
    pub fn form(&self, name: &str) -> Option<String> {
        field(&String::from_utf8_lossy(&self.body), name)
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        field(&self.query, name)
    }

    /// The body as JSON; null if it is not valid JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A field of `a=1&b=2`, decoded.
fn field(text: &str, name: &str) -> Option<String> {
    let pair = text.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name)?;
    let mut bytes = Vec::new();
    let mut rest = pair.1.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// So many bytes of the body are sent; then the server is silent until the client hangs up.
    pub stalls_after: Option<usize>,
    /// Nothing is sent; the server ends the connection.
    pub hangs_up: bool,
}

impl HttpAnswer {
    /// JSON with status 200.
    pub fn json(value: &Value) -> Self {
        Self::status(200).body(value.to_string())
    }

    /// An empty answer.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), stalls_after: None, hangs_up: false }
    }

    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// No answer at all: the connection ends.
    pub fn hang_up() -> Self {
        Self { hangs_up: true, ..Self::status(0) }
    }

    #[must_use]
    pub fn stall_after(mut self, bytes: usize) -> Self {
        self.stalls_after = Some(bytes);
        self
    }
}

type Handler = dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync;

/// A server on loopback. Stops when dropped.
pub struct FakeHttp {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<HttpRequest>>>,
    hung_up: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHttp {
    /// Starts a server that answers with `handler`.
    pub fn start(handler: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static) -> Self {
        Self::start_with_url(move |_, request| handler(request))
    }

    /// The same without keeping requests, for programs that run for long.
    pub fn start_forgetful(handler: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static) -> Self {
        Self::serve(move |_, request| handler(request), false)
    }

    /// The same for answers that name the server itself; `handler` gets its address first.
    pub fn start_with_url(
        handler: impl Fn(&str, &HttpRequest) -> HttpAnswer + Send + Sync + 'static,
    ) -> Self {
        Self::serve(handler, true)
    }

    fn serve(
        handler: impl Fn(&str, &HttpRequest) -> HttpAnswer + Send + Sync + 'static,
        keeps_requests: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the port");
        let url = format!("http://{address}");
        let handler: Arc<Handler> = Arc::new(move |request| handler(&url, request));
        let requests = Arc::<Mutex<Vec<HttpRequest>>>::default();
        let stopping = Arc::new(AtomicBool::new(false));
        let hung_up = Arc::<AtomicUsize>::default();
        let (log, stop, ended) = (Arc::clone(&requests), Arc::clone(&stopping), Arc::clone(&hung_up));
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (handler, log, ended) = (Arc::clone(&handler), Arc::clone(&log), Arc::clone(&ended));
                // Ends with its connection.
                std::thread::spawn(move || {
                    serve(socket, &*handler, keeps_requests.then_some(&*log), &ended);
                });
            }
        });
        Self { address, requests, hung_up, stopping, thread: Some(thread) }
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many clients hung up while the server was silent in the middle of an answer.
    pub fn hung_up(&self) -> usize {
        self.hung_up.load(Ordering::SeqCst)
    }

    /// The requests to a path.
    pub fn requests_to(&self, path: &str) -> Vec<HttpRequest> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }
}

impl Drop for FakeHttp {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: TcpStream, handler: &Handler, log: Option<&Mutex<Vec<HttpRequest>>>, hung_up: &AtomicUsize) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(30)));
    let mut reader = BufReader::new(socket);
    while let Some(request) = HttpRequest::read(&mut reader) {
        let answer = handler(&request);
        let is_head = request.method == "HEAD";
        let is_last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if let Some(log) = log {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
        if answer.hangs_up {
            return;
        }
        let mut head =
            format!("HTTP/1.1 {} Scripted\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            head.push_str("Content-Type: application/json\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        let sent = answer.stalls_after.unwrap_or(usize::MAX);
        if !is_head {
            bytes.extend(answer.body.iter().take(sent));
        }
        if reader.get_mut().write_all(&bytes).is_err() {
            return;
        }
        if answer.stalls_after.is_some() {
            let _ = reader.read(&mut [0]);
            hung_up.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if is_last {
            return;
        }
    }
}
