//! Servers, addresses and proxies that do not work: one clear message and the right exit code on every wire.

use std::io::{Read, Write};
use std::net::TcpListener;

use pollux_test_support::wires::{FakeWire, Said, Wire};
use pollux_test_support::{HttpAnswer, Run, SelfSigned, TestHome};
use serde_json::{Value, json};

use crate::scene::{binary, panicked, parse};

const KEY: &str = "key-0123456789";

/// A prompt against an address.
fn ask(wire: Wire, url: &str, attempts: u64, more: &[(&str, &str)]) -> Run {
    let mut settings = wire.settings(url);
    settings["general"] = json!({"maxAttempts": attempts});
    let home = TestHome::new().settings(settings);
    let run = home.command(binary(), ["-m", wire.model(), "-o", "json", "-p", "hi"]);
    let run = wire.variables(url, KEY).iter().fold(run, |run, (name, value)| run.env(name, value));
    more.iter().fold(run, |run, (name, value)| run.env(name, value)).run()
}

/// An error in the words of the wire.
fn refusal(wire: Wire, status: u16, message: &str) -> HttpAnswer {
    let body = match (wire, status) {
        (Wire::Gemini, 404) => json!({"error": {"code": 404, "status": "NOT_FOUND", "message": message}}),
        (Wire::Gemini, _) => {
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}})
        }
        (Wire::Messages, 404) => {
            json!({"type": "error", "error": {"type": "not_found_error", "message": message}})
        }
        (Wire::Messages, _) => {
            json!({"type": "error", "error": {"type": "authentication_error", "message": message}})
        }
        (Wire::Chat | Wire::Responses, 404) => {
            json!({"error": {"message": message, "type": "invalid_request_error", "code": "model_not_found"}})
        }
        (Wire::Chat | Wire::Responses, _) => {
            json!({"error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}})
        }
    };
    let status = if wire == Wire::Gemini && status == 401 { 400 } else { status };
    HttpAnswer::status(status).body(body.to_string())
}

/// The one message of a run that failed; the same on stderr, and short.
fn message(wire: Wire, case: &str, run: &Run) -> String {
    assert_eq!(run.code, Some(1), "{wire:?} {case}: {run:?}");
    assert!(!panicked(run), "{wire:?} {case}: {}", run.stderr);
    let document: Value = parse(&run.stdout);
    let message = document["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(!message.is_empty() && message.len() < 4_200, "{wire:?} {case}: {document}");
    assert!(run.stdout.len() < 10_000 && run.stderr.len() < 6_000, "{wire:?} {case}: {}", run.stderr);
    for noise in ["<html", "builder error", "error sending request", KEY] {
        assert!(
            !message.contains(noise) && !run.stderr.contains(noise),
            "{wire:?} {case}: {message} {}",
            run.stderr
        );
    }
    message
}

fn server(wire: Wire, answer: HttpAnswer) -> FakeWire {
    FakeWire::start(wire, std::iter::repeat_n(Said::raw(answer), 12))
}

#[test]
fn refusals_are_said_once_and_not_repeated() {
    let page = "<html><head><title>Log in</title></head><body>please</body></html>";
    for wire in Wire::ALL {
        let long = "z".repeat(10 << 20);
        let cases = [
            (
                "wrong key",
                refusal(wire, 401, &format!("Incorrect API key provided: {KEY}")),
                "Incorrect API key",
            ),
            ("unknown model", refusal(wire, 404, "the model `test-model` does not exist"), "does not exist"),
            ("web page", HttpAnswer::status(200).header("Content-Type", "text/html").body(page), "web page"),
            (
                "web page, refused",
                HttpAnswer::status(404).header("Content-Type", "text/html").body(page),
                "web page",
            ),
            ("long error", refusal(wire, 401, &long), "zzz"),
            (
                "long page",
                HttpAnswer::status(400).header("Content-Type", "text/plain").body(long.clone()),
                "zzz",
            ),
        ];
        for (case, answer, expected) in cases {
            let server = server(wire, answer);
            let run = ask(wire, &server.url(), 10, &[]);
            let message = message(wire, case, &run);
            assert!(message.contains(expected), "{wire:?} {case}: {message}");
            if case == "web page, refused" {
                let names_it = message.contains(&server.url()) && message.contains("answered 404");
                let hints = message.contains("base URL") || message.contains("BASE_URL");
                assert!(
                    names_it && hints && !run.stderr.contains("list available models"),
                    "{wire:?}: {message}"
                );
            }
            assert_eq!(server.requests().len(), 1, "{wire:?} {case}: {message}");
        }
    }
}

#[test]
fn a_wrong_path_names_the_address() {
    for wire in Wire::ALL {
        let server = server(wire, HttpAnswer::status(500));
        let url = format!("{}/wrong", server.url());
        let run = ask(wire, &url, 1, &[]);
        let message = message(wire, "wrong path", &run);
        assert!(message.contains("500") || message.contains("404"), "{wire:?}: {message}");
    }
}

#[test]
fn an_empty_stream_is_tried_again_and_then_an_error() {
    std::thread::scope(|scope| {
        for wire in Wire::ALL {
            scope.spawn(move || {
                let empty = HttpAnswer::status(200).header("Content-Type", "text/event-stream");
                let server = server(wire, empty);
                // The agent's own attempts, not those of the network.
                let run = ask(wire, &server.url(), 10, &[]);
                message(wire, "empty stream", &run);
                let count = server.requests().len();
                assert_eq!(count, 4, "{wire:?}: {}", run.stderr);
            });
        }
    });
}

#[test]
fn a_certificate_that_nobody_trusts_ends_the_run_at_once() {
    for wire in Wire::ALL {
        let server = SelfSigned::start();
        let run = ask(wire, &server.url(), 10, &[]);
        let message = message(wire, "certificate", &run);
        assert!(
            message.contains("certificate") && message.contains("NODE_EXTRA_CA_CERTS"),
            "{wire:?}: {message}"
        );
        assert_eq!((server.connections(), server.requests()), (1, 0), "{wire:?}");
    }
}

#[test]
fn a_proxy_that_does_not_work_is_named_as_the_cause() {
    // A proxy that refuses every tunnel.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let _ = socket.read(&mut [0; 2048]);
            let _ =
                socket.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    for wire in Wire::ALL {
        for proxy in ["http://127.0.0.1:9", refusing.as_str()] {
            let run = ask(wire, "https://model.invalid", 1, &[("HTTPS_PROXY", proxy)]);
            let message = message(wire, proxy, &run);
            assert!(message.contains("proxy"), "{wire:?} {proxy}: {message}");
        }
        for bad in [
            "http://me:hunter2@ho st:99999999",
            "http://[::1",
            "socks5://127.0.0.1:1080",
            "http://x:notaport",
        ] {
            let run = ask(wire, "https://model.invalid", 1, &[("HTTPS_PROXY", bad)]);
            assert_eq!(run.code, Some(52), "{wire:?} {bad}: {run:?}");
            let said = format!("{}{}", run.stdout, run.stderr);
            assert!(said.contains("proxy") || said.contains("prox"), "{wire:?} {bad}: {said}");
            assert!(!said.contains("builder error") && !said.contains("hunter2"), "{wire:?} {bad}: {said}");
        }
    }
}
