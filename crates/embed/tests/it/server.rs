//! A server on loopback that answers as told, in the order in which requests come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What was asked.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    head: String,
    pub(crate) body: Value,
}

/// What is answered.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
    delay: Duration,
}

pub(crate) struct Server {
    url: String,
    shared: Arc<Mutex<(VecDeque<Reply>, Vec<Request>)>>,
    task: JoinHandle<()>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Reply {
    pub(crate) fn http(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: String::new(), body: body.into(), delay: Duration::ZERO }
    }

    pub(crate) fn error(status: u16, word: &str, message: &str) -> Self {
        let error = json!({ "error": { "code": status, "status": word, "message": message } });
        Self::http(status, error.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Server {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new((replies.into_iter().collect(), Vec::new())));
        let state = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        Self { url, shared, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().1.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<(VecDeque<Reply>, Vec<Request>)>>) {
    let mut bytes = Vec::new();
    let end = loop {
        let mut block = [0; 4096];
        let count = stream.read(&mut block).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&block[..count]);
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let mut request = Request { path, head, body: Value::Null };
    let length: usize = request.header("content-length").unwrap().parse().unwrap();
    let mut body = bytes.split_off(end);
    let have = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[have..]).await.unwrap();
    request.body = serde_json::from_slice(&body).unwrap();
    let reply = {
        let mut state = state.lock().unwrap();
        state.1.push(request);
        state.0.pop_front().unwrap_or_else(|| Reply::http(418, "the script is exhausted"))
    };
    tokio::time::sleep(reply.delay).await;
    let Reply { status, headers, body, .. } = reply;
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
}
