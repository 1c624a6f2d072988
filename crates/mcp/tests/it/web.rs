//! Servers on the network: both transports, signing in, and answers without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_domain::BoxFuture;
use pollux_mcp::{Access, AccessError, Status};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::stage::Stage;

/// How the server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Streamable HTTP; the token `good` is wanted.
    Guarded,
    /// Only the old transport.
    Old,
    /// Answers calls without an end.
    Endless,
}

/// A small web server; its address.
async fn server(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (post, posted) = mpsc::channel::<Value>(16);
    let posted = Arc::new(tokio::sync::Mutex::new(posted));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, manner, post.clone(), Arc::clone(&posted)));
        }
    });
    format!("http://{address}/mcp")
}

async fn serve(
    stream: TcpStream,
    manner: Manner,
    post: mpsc::Sender<Value>,
    posted: Arc<tokio::sync::Mutex<mpsc::Receiver<Value>>>,
) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let before = head.len();
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
            if head.len() - before <= 2 {
                break;
            }
        }
        let lower = head.to_lowercase();
        let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
        stream.read_exact(&mut body).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let out = stream.get_mut();
        match (manner, head.split(' ').next().unwrap()) {
            (Manner::Guarded, _) if !lower.contains("authorization: bearer good") => {
                plain(out, "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"x\"", "").await;
            }
            (Manner::Old, "GET") => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages?s=1\n\n";
                out.write_all(head.as_bytes()).await.unwrap();
                let mut posted = posted.lock().await;
                while let Some(message) = posted.recv().await {
                    if let Some(answer) = answer(&message) {
                        let event = format!("event: message\ndata: {answer}\n\n");
                        out.write_all(event.as_bytes()).await.unwrap();
                    }
                }
                return;
            }
            (Manner::Old, _) if head.contains("/messages?s=1") => {
                post.send(message).await.unwrap();
                plain(out, "202 Accepted", "").await;
            }
            (Manner::Old, _) => plain(out, "404 Not Found", "no such thing").await,
            (_, "GET" | "DELETE") => plain(out, "405 Method Not Allowed", "").await,
            (Manner::Endless, _) if message["method"] == "tools/call" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
                out.write_all(head.as_bytes()).await.unwrap();
                while out.write_all(&[b' '; 1 << 16]).await.is_ok() {}
                return;
            }
            _ => match answer(&message) {
                Some(text) => plain(out, "200 OK\r\nContent-Type: application/json", &text.to_string()).await,
                None => plain(out, "202 Accepted", "").await,
            },
        }
    }
}

async fn plain(out: &mut TcpStream, status: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    out.write_all(text.as_bytes()).await.unwrap();
}

pub(crate) fn answer(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "from the web"}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

#[tokio::test]
async fn the_old_transport_is_found_where_the_new_one_is_not() {
    for kind in [json!(null), json!("sse")] {
        let entry = json!({"url": server(Manner::Old).await, "type": kind});
        let stage = Stage::of(vec![("s", entry.clone())], None).settled().await;
        assert_eq!(stage.report("s").status, Status::Connected, "{entry} {:?}", stage.report("s"));
        assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
        stage.servers.shutdown().await;
    }
    let entry = json!({"url": server(Manner::Old).await, "type": "http"});
    let stage = Stage::of(vec![("s", entry)], None).settled().await;
    assert_eq!(stage.report("s").status, Status::Disconnected);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of_with_the_cause() {
    let stage = Stage::of(vec![("s", json!({"httpUrl": "http://127.0.0.1:9/mcp"}))], None).settled().await;
    let problem = stage.report("s").problem.unwrap();
    assert!(problem.starts_with("could not reach the server: "), "{problem}");
    assert!(problem.contains("refused") && !problem.contains("rmcp::"), "{problem}");
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let url = server(Manner::Endless).await;
    let stage = Stage::of(vec![("s", json!({"httpUrl": url}))], None).settled().await;
    let (said, _) = stage.call("mcp_s_t", json!({})).await;
    assert!(said.contains("exceeds 16 MB"), "{said}");
}

/// Has a stale token first, and a good one once it was refused.
struct Renewing(AtomicUsize, bool);

impl Access for Renewing {
    fn headers(&self) -> BoxFuture<'_, Result<HeaderMap, AccessError>> {
        let token = if self.0.load(Ordering::SeqCst) > 0 && self.1 { "Bearer good" } else { "Bearer stale" };
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(token))]);
        Box::pin(std::future::ready(Ok(headers)))
    }

    fn refused<'a>(&'a self, _sent: &'a HeaderMap) -> BoxFuture<'a, Result<bool, AccessError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(self.1)))
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_used_from_then_on() {
    let url = server(Manner::Guarded).await;
    let access = Arc::new(Renewing(AtomicUsize::new(0), true));
    let stage = Stage::of(vec![("s", json!({"httpUrl": url}))], Some(access.clone())).settled().await;
    assert_eq!(stage.report("s").status, Status::Connected, "{:?}", stage.report("s"));
    assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
    assert_eq!(access.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn who_has_not_signed_in_is_told_how() {
    let url = server(Manner::Guarded).await;
    let stage = Stage::of(vec![("s", json!({"url": url}))], None).settled().await;
    let report = stage.report("s");
    assert_eq!(report.problem.unwrap(), "MCP server 's' requires authentication using: pollux mcp auth s");
    assert_eq!(report.sign_in.as_deref(), Some("Bearer realm=\"x\""));
    let stale = Arc::new(Renewing(AtomicUsize::new(0), false));
    let stage = Stage::of(vec![("s", json!({"url": url}))], Some(stale)).settled().await;
    let problem = stage.report("s").problem.unwrap();
    assert!(problem.starts_with("MCP server 's' rejected stored OAuth token."), "{problem}");
    let headers = json!({"url": url, "headers": {"Authorization": "Bearer good"}});
    let stage = Stage::of(vec![("s", headers)], None).settled().await;
    assert_eq!(stage.report("s").status, Status::Connected);
}
