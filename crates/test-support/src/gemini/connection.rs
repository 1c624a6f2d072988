//! One connection: HTTP/1.1 by hand, because the tests choose where bytes are split and cut.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Shared;
use super::reply::{Body, Chunk, Cut, CutHow, Reply};
use super::request::Request;

/// Answers requests until the peer or the script ends the connection.
pub(super) async fn run(socket: TcpStream, number: usize, shared: Arc<Shared>) {
    // Otherwise the kernel would join the pieces that a test wants separate.
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    while let Ok(Some(request)) = read_request(&mut socket, number).await {
        let streams = request.query.contains("alt=sse");
        let reply = shared.answer(request);
        match write_reply(socket.get_mut(), &reply, streams).await {
            Ok(After::KeepAlive) => {}
            Ok(After::Close) | Err(_) => return,
        }
    }
}

enum After {
    KeepAlive,
    Close,
}

async fn read_request(socket: &mut BufReader<TcpStream>, connection: usize) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if socket.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse::<usize>().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Request { method, path, query, headers, body, connection }))
}

async fn write_reply(socket: &mut TcpStream, reply: &Reply, streams: bool) -> io::Result<After> {
    // Even a sleep of no length waits for the clock's next tick.
    if reply.delivery.before > Duration::ZERO {
        tokio::time::sleep(reply.delivery.before).await;
    }
    wait_after(reply, 0).await;
    let events = match &reply.body {
        Body::Never => {
            std::future::pending::<()>().await;
            return Ok(After::Close);
        }
        Body::Raw(bytes) => vec![bytes.clone()],
        Body::Count(total) => vec![json!({"totalTokens": total}).to_string().into_bytes()],
        Body::Chunks(_) if streams => reply.chunks().into_iter().map(event).collect(),
        Body::Chunks(_) => vec![reply.unary().to_string().into_bytes()],
    };
    let sse = streams && matches!(reply.body, Body::Chunks(_));
    socket.write_all(head(reply, sse).as_bytes()).await?;
    let (sent, cut) = until_cut(events, reply.delivery.cut);
    let mut writer = BodyWriter { socket, chunked: !reply.delivery.until_close };
    for (index, piece) in pieces(sent, &reply.delivery.split).enumerate() {
        if index > 0 {
            wait_after(reply, index).await;
            if reply.delivery.between > Duration::ZERO {
                tokio::time::sleep(reply.delivery.between).await;
            }
        }
        writer.write(&piece).await?;
    }
    writer.end(cut.map(|cut| cut.how)).await
}

/// Waits as long as the reply is held after so many pieces.
async fn wait_after(reply: &Reply, sent: usize) {
    let Some((_, file)) = reply.delivery.hold.as_ref().filter(|(after, _)| *after == sent) else { return };
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn event(chunk: Chunk) -> Vec<u8> {
    match chunk {
        Chunk::Json(value) => format!("data: {value}\r\n\r\n").into_bytes(),
        Chunk::Bytes(bytes) => bytes,
    }
}

fn head(reply: &Reply, sse: bool) -> String {
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    if !reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        let content_type = if sse { "text/event-stream" } else { "application/json" };
        head.push_str(&format!("Content-Type: {content_type}\r\n"));
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let framing = if reply.delivery.until_close { "Connection: close" } else { "Transfer-Encoding: chunked" };
    head.push_str(framing);
    head.push_str("\r\n\r\n");
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}

/// The bytes actually sent, and how the body ends if it is cut.
fn until_cut(events: Vec<Vec<u8>>, cut: Option<Cut>) -> (Vec<Vec<u8>>, Option<Cut>) {
    let Some(cut) = cut else { return (events, None) };
    let mut sent: Vec<Vec<u8>> = events.iter().take(cut.after).cloned().collect();
    if let Some(next) = events.get(cut.after).filter(|_| cut.half_of_next) {
        sent.push(next.iter().copied().take(next.len() / 2).collect());
    }
    (sent, Some(cut))
}

fn pieces<'a>(events: Vec<Vec<u8>>, split: &'a [usize]) -> Box<dyn Iterator<Item = Vec<u8>> + Send + 'a> {
    if split.is_empty() {
        return Box::new(events.into_iter());
    }
    let mut rest = events.concat();
    let mut sizes = split.iter().copied().cycle();
    Box::new(std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let size = sizes.next().unwrap_or(1).min(rest.len());
        let tail = rest.split_off(size);
        Some(std::mem::replace(&mut rest, tail))
    }))
}

struct BodyWriter<'a> {
    socket: &'a mut TcpStream,
    chunked: bool,
}

impl BodyWriter<'_> {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.chunked {
            let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
            framed.extend_from_slice(bytes);
            framed.extend_from_slice(b"\r\n");
            self.socket.write_all(&framed).await?;
        } else {
            self.socket.write_all(bytes).await?;
        }
        self.socket.flush().await
    }

    async fn end(self, cut: Option<CutHow>) -> io::Result<After> {
        match cut {
            Some(CutHow::Reset) => {
                // The peer should have read the data before, as it would over a real network.
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.socket.set_zero_linger()?;
                return Ok(After::Close);
            }
            Some(CutHow::Close) => return Ok(After::Close),
            Some(CutHow::Stall) => std::future::pending::<()>().await,
            Some(CutHow::EndBody) | None => {}
        }
        if !self.chunked {
            self.socket.shutdown().await?;
            return Ok(After::Close);
        }
        self.socket.write_all(b"0\r\n\r\n").await?;
        self.socket.flush().await?;
        Ok(After::KeepAlive)
    }
}
