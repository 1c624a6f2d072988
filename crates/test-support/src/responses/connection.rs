//! One connection: HTTP/1.1 by hand, because the tests choose where bytes are split and cut.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Shared;
use super::script::{Ending, ResponsesReply};
use crate::gemini::request::Request;

/// Answers requests until the peer or the script ends the connection.
pub(super) async fn run(socket: TcpStream, number: usize, shared: Arc<Shared>) {
    // Without this the kernel would join the pieces a test wants apart.
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    while let Ok(Some(request)) = read_request(&mut socket, number).await {
        let reply = shared.answer(request);
        match write_reply(&mut socket, reply).await {
            Ok(After::KeepAlive) => {}
            Ok(After::Close) => return,
            Ok(After::HungUp) | Err(_) => {
                shared.state().hang_ups += 1;
                return;
            }
        }
    }
}

enum After {
    KeepAlive,
    Close,
    HungUp,
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

async fn write_reply(socket: &mut BufReader<TcpStream>, reply: ResponsesReply) -> io::Result<After> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Transfer-Encoding: chunked\r\n\r\n");
    socket.get_mut().write_all(head.as_bytes()).await?;
    let ending = reply.ending;
    let pause = reply.pause;
    for piece in reply.pieces() {
        let mut framed = format!("{:x}\r\n", piece.len()).into_bytes();
        framed.extend_from_slice(&piece);
        framed.extend_from_slice(b"\r\n");
        socket.get_mut().write_all(&framed).await?;
        socket.get_mut().flush().await?;
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        }
    }
    match ending {
        Ending::Whole => {
            socket.get_mut().write_all(b"0\r\n\r\n").await?;
            socket.get_mut().flush().await?;
            Ok(After::KeepAlive)
        }
        Ending::Close => Ok(After::Close),
        Ending::Silence => {
            // Returns when the client has closed its side.
            let mut nothing = [0; 1];
            while socket.read(&mut nothing).await? > 0 {}
            Ok(After::HungUp)
        }
    }
}
