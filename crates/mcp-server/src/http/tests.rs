use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server, its port, and what stops it.
async fn server() -> (u16, CancellationToken) {
    let program = Program::new("/bin/false".into(), Vec::new(), None, "/".into(), None).unwrap();
    let (port, listeners) = bind_loopback(0).await.unwrap();
    let (site, stop) = (Rc::new(McpSite::new(port, TOKEN, program)), CancellationToken::new());
    for listener in listeners {
        tokio::task::spawn_local(serve(listener, Rc::clone(&site), LIMITS, stop.clone()));
    }
    (port, stop)
}

/// Sends a request as it is written and reads until the connection is closed.
async fn exchange(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

fn post(port: u16, headers: &[(&str, &str)], body: &str) -> String {
    let mut given = vec![
        ("Host", format!("127.0.0.1:{port}")),
        ("Authorization", format!("Bearer {TOKEN}")),
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "application/json, text/event-stream".to_owned()),
        ("Content-Length", body.len().to_string()),
        ("Connection", "close".to_owned()),
    ];
    for (name, value) in headers {
        given.retain(|(known, _)| known != name);
        if !value.is_empty() {
            given.push((name, (*value).to_owned()));
        }
    }
    let lines: String = given.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST /mcp HTTP/1.1\r\n{lines}\r\n{body}")
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;

/// The status, which every answer has, without a header that lets pages read it.
fn status(answer: &str) -> u16 {
    assert!(!answer.to_ascii_lowercase().contains("access-control"), "{answer}");
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

async fn introduced(port: u16) -> String {
    let answer = exchange(port, &post(port, &[], HELLO)).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id: ")).unwrap();
    line.split_once(": ").unwrap().1.to_owned()
}

/// Runs a test where the server can spawn its tasks.
async fn locally(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn only_clients_of_this_machine_with_the_token_are_served() {
    locally(async {
        let (port, _stop) = server().await;
        let cases: [(&[(&str, &str)], u16); 12] = [
            (&[("Authorization", "")], 401),
            (&[("Authorization", "Bearer 0123456789abcdef0123456789abcdeX")], 401),
            (&[("Authorization", "Basic 0123456789abcdef0123456789abcdef")], 401),
            (&[("Host", "evil.test")], 421),
            (&[("Host", "127.0.0.1:1")], 421),
            (&[("Origin", "http://evil.test")], 403),
            (&[("Origin", "null")], 403),
            (&[("Sec-Fetch-Site", "cross-site")], 403),
            (&[("Content-Type", "text/plain")], 415),
            (&[("Mcp-Protocol-Version", "1999-01-01")], 400),
            (&[("Content-Length", "104857600")], 413),
            (&[], 200),
        ];
        for (headers, expected) in cases {
            let answer = exchange(port, &post(port, headers, HELLO)).await;
            assert_eq!(status(&answer), expected, "{headers:?}\n{answer}");
        }
        let host =
            format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n");
        for (line, expected) in [
            ("GET /mcp", 405),
            ("PUT /mcp", 405),
            ("OPTIONS /mcp", 405),
            ("DELETE /mcp", 400),
            ("GET /", 404),
            ("POST /mcp/../etc/passwd", 404),
        ] {
            let answer = exchange(port, &format!("{line} HTTP/1.1\r\n{host}\r\n")).await;
            assert_eq!(status(&answer), expected, "{line}\n{answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_belongs_to_the_client_that_opened_it_until_it_is_deleted() {
    locally(async {
        let (port, _stop) = server().await;
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        assert_eq!(status(&exchange(port, &post(port, &[], ping)).await), 400, "no session");
        let unknown = [("Mcp-Session-Id", "x")];
        assert_eq!(status(&exchange(port, &post(port, &unknown, ping)).await), 404);
        let session = introduced(port).await;
        let own: &[(&str, &str)] = &[("Mcp-Session-Id", &session)];
        let answer = exchange(port, &post(port, own, ping)).await;
        assert!(answer.contains("text/event-stream") && answer.contains(r#""id":"p","result":{}"#), "{answer}");
        for bad in ["{", "[]", "7", "", "[{}]"] {
            assert_eq!(status(&exchange(port, &post(port, own, bad)).await), 400, "{bad:?}");
        }
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(status(&exchange(port, &post(port, own, note)).await), 202);
        let stray = r#"{"jsonrpc":"2.0","id":99,"result":{}}"#;
        assert_eq!(status(&exchange(port, &post(port, own, stray)).await), 202);
        let yolo = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pollux_run","arguments":{"prompt":"x","mode":"yolo"}}}"#;
        let answer = exchange(port, &post(port, own, yolo)).await;
        assert!(answer.contains("yolo") && answer.contains(r#""isError":true"#), "{answer}");
        let delete = post(port, own, "").replacen("POST", "DELETE", 1);
        assert_eq!(status(&exchange(port, &delete).await), 204);
        assert_eq!(status(&exchange(port, &post(port, own, ping)).await), 404);
    })
    .await;
}

#[tokio::test]
async fn clients_are_limited_and_the_silent_one_makes_room() {
    locally(async {
        let (port, _stop) = server().await;
        let first = introduced(port).await;
        for _ in 0..MAX_CLIENTS {
            introduced(port).await;
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let answer = exchange(port, &post(port, &[("Mcp-Session-Id", &first)], ping)).await;
        assert_eq!(status(&answer), 404, "{answer}");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_come_holds_up_nobody_else() {
    locally(async {
        let (port, _stop) = server().await;
        let mut slow = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = post(port, &[("Content-Length", "1000")], "{");
        slow.write_all(head.as_bytes()).await.unwrap();
        introduced(port).await;
    })
    .await;
}
