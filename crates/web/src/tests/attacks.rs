//! Requests that must be refused.

use std::net::Ipv6Addr;
use std::time::Duration;

use pollux_serve::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Reply, Secrets, Server, USES, with_server};
use crate::site::ROUTES;

/// Every address, with a session where one belongs.
fn addresses() -> Vec<(Method, String)> {
    ROUTES.0.iter().map(|(method, path, _)| (method.clone(), path.replace("{id}", "s1"))).collect()
}

fn assert_headers(reply: &Reply) {
    let expected = [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ];
    for (name, value) in expected {
        assert_eq!(reply.header(name), Some(value), "{reply:?}");
    }
    assert!(!reply.head.to_lowercase().contains("access-control-"), "{reply:?}");
}

/// The headers of a request with one of them replaced or, without a value, left out.
fn with(server: &Server, secrets: Option<&Secrets>, name: &str, value: Option<&str>) -> Vec<String> {
    let mut headers = server.headers(secrets);
    let start = format!("{name}: ");
    headers.retain(|header| !header.starts_with(&start));
    headers.extend(value.map(|value| format!("{start}{value}")));
    headers
}

#[test]
fn every_response_has_the_headers_and_none_lets_other_origins_read_it() {
    with_server(async |server| {
        let mut replies = Vec::new();
        for (method, path) in addresses() {
            for method in [method.as_str(), "OPTIONS", "HEAD", "PUT", "DELETE"] {
                replies.push(server.send(&format!("{method} {path}"), &server.headers(None), "").await);
            }
        }
        for path in ["/favicon.ico", "/api/sessions/s1/mode", "/../../etc/passwd", "/page.js/..", "//"] {
            let reply = server.send(&format!("GET {path}"), &server.own(), "").await;
            assert_eq!(reply.status, 404, "{path}: {reply:?}");
            replies.push(reply);
        }
        let preflight = [
            server.own()[0].clone(),
            "Origin: http://evil.test".to_owned(),
            "Access-Control-Request-Method: POST".to_owned(),
            "Access-Control-Request-Headers: x-pollux".to_owned(),
        ];
        replies.push(server.send("OPTIONS /api/sessions/s1/prompt", &preflight, "").await);
        replies.iter().for_each(assert_headers);
        let page = server.send("GET /", &server.own(), "").await;
        assert!(page.status == 200 && page.body.contains("<title>Pollux</title>"), "{page:?}");
    });
}

#[test]
fn another_host_is_misdirected_before_anything_else() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let mut all = addresses();
        all.push((Method::GET, "/nowhere".to_owned()));
        for (method, path) in all {
            for host in ["evil.test", &format!("evil.test:{}", server.port), "127.0.0.1", "localhost:1"] {
                let headers = with(&server, Some(&secrets), "Host", Some(host));
                let reply = server.send(&format!("{method} {path}"), &headers, "{}").await;
                assert_eq!(reply.status, 421, "{method} {path} {host}: {reply:?}");
                assert_headers(&reply);
            }
        }
    });
}

#[test]
fn other_pages_reach_nothing_but_the_page() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        for (method, path) in addresses() {
            for origin in [None, Some("null"), Some("http://localhost:3000"), Some("https://evil.test")] {
                let headers = with(&server, Some(&secrets), "Origin", origin);
                let body = if method == Method::POST { "{}" } else { "" };
                let reply = server.send(&format!("{method} {path}"), &headers, body).await;
                let expected = if path == "/" { 200 } else { 403 };
                assert_eq!(reply.status, expected, "{method} {path} {origin:?}: {reply:?}");
            }
        }
        assert_eq!(*server.turns.borrow(), 0);
    });
}

#[test]
fn what_forms_and_images_can_send_has_no_effect() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        for (method, path) in addresses().into_iter().filter(|(method, _)| *method == Method::POST) {
            let line = format!("{method} {path}");
            let plain = with(&server, Some(&secrets), "Content-Type", Some("text/plain"));
            assert_eq!(server.send(&line, &plain, "{}").await.status, 415, "{path}");
            let without = with(&server, Some(&secrets), "X-Pollux", None);
            assert_eq!(server.send(&line, &without, "{}").await.status, 403, "{path}");
            let image = server.send(&format!("GET {path}"), &server.headers(Some(&secrets)), "").await;
            assert_eq!((image.status, image.header("allow")), (405, Some("POST")), "{path}");
        }
        assert_eq!(*server.turns.borrow(), 0);
    });
}

#[test]
fn a_code_is_exchanged_once_for_a_cookie_that_scripts_cannot_read() {
    with_server(async |server| {
        let code = server.code(USES).await;
        assert!(code.len() >= 32 && code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let login = async |code: &str| server.post("/api/login", None, json!({"code": code})).await;
        let reply = login(&code).await;
        assert_headers(&reply);
        let cookie = reply.header("set-cookie").unwrap();
        let (pair, rest) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with(&format!("pollux_{}=", server.port)), "{cookie}");
        assert_eq!(rest, "HttpOnly; SameSite=Strict; Path=/");
        let again = login(&code).await;
        assert_eq!((again.status, again.header("set-cookie")), (403, None), "{again:?}");
        for _ in 0..8 {
            assert_eq!(login("0000").await.status, 403);
        }
        assert_eq!(login("0000").await.status, 429);
        let next = server.code(USES).await;
        assert_eq!(login(&next).await.status, 200);
        // A code in the query is no code.
        let code = server.code(USES).await;
        let query = server.post(&format!("/api/login?code={code}"), None, json!({})).await;
        assert_eq!(query.status, 400, "{query:?}");
    });
}

#[test]
fn nothing_is_served_without_both_secrets() {
    with_server(async |server| {
        let (one, other) = (server.log_in(USES).await, server.log_in(USES).await);
        let mixed = Secrets { cookie: one.cookie.clone(), key: other.key.clone() };
        let elsewhere = Secrets { cookie: one.cookie.replace("pollux_", "pollux_1"), key: one.key.clone() };
        for (method, path) in
            addresses().into_iter().filter(|(_, path)| path.starts_with("/api/") && path != "/api/login")
        {
            let line = format!("{method} {path}");
            for secrets in [None, Some(&mixed), Some(&elsewhere)] {
                let reply = server.send(&line, &server.headers(secrets), "{}").await;
                assert_eq!(reply.status, 401, "{line} {secrets:?}: {reply:?}");
            }
            for lacking in ["Cookie", "X-Pollux-Key"] {
                let reply = server.send(&line, &with(&server, Some(&one), lacking, None), "{}").await;
                assert_eq!(reply.status, 401, "{line} without {lacking}: {reply:?}");
            }
        }
    });
}

#[test]
fn session_ids_are_never_paths() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        for id in
            ["..", "%2e%2e%2fevil", "a%20b", "a%0ab", "s1%00", "%3Cscript%3E", &"x".repeat(200), "unknown"]
        {
            let path = format!("/api/sessions/{id}/stop");
            let reply = server.post(&path, Some(&secrets), json!({})).await;
            assert_eq!(reply.status, 404, "{id}: {reply:?}");
            let line = format!("GET /api/events?session={id}");
            let reply = server.send(&line, &server.headers(Some(&secrets)), "").await;
            assert_eq!(reply.status, 404, "{id}: {reply:?}");
        }
        let nested = server.post("/api/sessions/a/b/stop", Some(&secrets), json!({})).await;
        assert_eq!(nested.status, 404);
    });
}

#[test]
fn large_requests_are_refused() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let large = json!({"text": "x".repeat(2 << 20)});
        let reply = server.post("/api/sessions/s1/prompt", Some(&secrets), large).await;
        assert_eq!(reply.status, 413, "{reply:?}");
        assert_headers(&reply);
        // The page takes no body at all.
        assert_eq!(server.send("GET /", &server.own(), "x").await.status, 413);
        let mut headers = server.own().to_vec();
        headers.push(format!("X-Filler: {}", "x".repeat(1_000_000)));
        let reply = server.send("GET /", &headers, "").await;
        assert!(reply.status == 431 || reply.status == 0, "{reply:?}");
        for body in ["", "[]", "{\"text\": 5}", "{\"text\": \"x\"", "\u{0}"] {
            let reply =
                server.send("POST /api/sessions/s1/prompt", &server.headers(Some(&secrets)), body).await;
            assert_eq!(reply.status, 400, "{body}: {reply:?}");
        }
    });
}

#[test]
fn it_listens_on_loopback_addresses_only() {
    with_server(async |server| {
        let port = server.port;
        if let Ok(mut stream) = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await {
            let request = format!("GET / HTTP/1.1\r\nHost: [::1]:{port}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        }
        // Linux answers on all of 127.0.0.0/8 to a listener on every address.
        if cfg!(target_os = "linux") {
            assert!(TcpStream::connect(("127.0.0.2", port)).await.is_err());
        }
    });
}

#[test]
fn a_client_that_never_finishes_its_request_is_cut_off() {
    with_server(async |server| {
        let mut slow = TcpStream::connect(server.address()).await.unwrap();
        slow.write_all(format!("GET / HTTP/1.1\r\n{}\r\n", server.own()[0]).as_bytes()).await.unwrap();
        // Others are served meanwhile.
        assert_eq!(server.send("GET /", &server.own(), "").await.status, 200);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    });
}
