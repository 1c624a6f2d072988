use proptest::prelude::*;

use super::*;
use crate::host::Authority;

fn request(text: &str) -> Result<RequestHead, HeadError> {
    let length = head_length(text.as_bytes())?.ok_or(HeadError::StartLine)?;
    RequestHead::parse(&text.as_bytes()[..length])
}

fn framed(fields: &str) -> Result<Framing, HeadError> {
    request(&format!("POST http://a/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))?.framing()
}

#[test]
fn a_plain_request_is_read() {
    let head = request("GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nX-Y:  z \r\n\r\n").unwrap();
    assert_eq!((head.method.as_str(), head.target.as_str()), ("GET", "http://a.example/x?y"));
    assert_eq!(head.fields.only("x-y"), Some(&b"z"[..]));
    assert_eq!(head.framing(), Ok(Framing::Empty));
    assert!(head.keeps_open());
}

/// Row 68 of the attack list: whatever two readers may understand differently.
#[test]
fn smuggling_is_refused() {
    for text in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\tX: folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET /\tx HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "GET /\r\n\r\n",
        "G(T / HTTP/1.1\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\n\r\n",
    ] {
        assert!(request(text).is_err(), "{text:?}");
    }
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
    ] {
        assert!(framed(fields).is_err(), "{fields:?}");
    }
    assert_eq!(framed("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
    assert_eq!(framed("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
    let old = request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert!(old.framing().is_err());
}

#[test]
fn fields_of_the_connection_are_not_forwarded() {
    let head = request(
        "GET http://a/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n\
         Connection: x-private, close\r\nX-Private: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: x\r\nAccept: */*\r\n\r\n",
    )
    .unwrap();
    let authority = Authority::parse("a:80", None).unwrap();
    let out = forward_request(&head, "/", &authority, 80, &[]).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n");
    assert!(!head.keeps_open());
    let tricky = request("GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\n\r\n").unwrap();
    assert_eq!(forward_request(&tricky, "/", &authority, 80, &[]), Err(HeadError::Connection));
}

#[test]
fn only_websocket_upgrades_are_forwarded() {
    let head = |protocol: &str| {
        let text = format!(
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        request(&text).unwrap()
    };
    assert!(head("websocket").is_websocket());
    assert!(!head("h2c").is_websocket() && !head("websocket, h2c").is_websocket());
    let authority = Authority::parse("a:8080", None).unwrap();
    let out = forward_request(&head("websocket"), "/", &authority, 80, &[]).unwrap();
    let expected = "GET / HTTP/1.1\r\nhost: a:8080\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn responses_are_framed_by_status_and_method() {
    let framing = |text: &str, method: &str| ResponseHead::parse(text.as_bytes()).unwrap().framing(method);
    assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "GET"), Ok(Framing::Length(3)));
    assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD"), Ok(Framing::Empty));
    assert_eq!(framing("HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n", "GET"), Ok(Framing::Empty));
    assert_eq!(framing("HTTP/1.1 200\r\n\r\n", "GET"), Ok(Framing::Close));
    assert!(
        framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "GET").is_err()
    );
    for text in
        ["HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1\r\n\r\n", "ICY 200 OK\r\n\r\n"]
    {
        assert!(ResponseHead::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = head_length(&bytes);
        let whole = [&bytes[..], b"\r\n\r\n"].concat();
        let _ = (RequestHead::parse(&whole), ResponseHead::parse(&whole));
    }

    #[test]
    fn a_forwarded_head_is_one_head_and_reads_the_same(
        fields in prop::collection::vec(("[A-Za-z][A-Za-z-]{0,12}", "[ -~]{0,20}"), 0..8),
    ) {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("GET http://a/ HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let authority = Authority::parse("a:80", None).unwrap();
        if let Ok(head) = request(&text)
            && let Ok(out) = forward_request(&head, "/", &authority, 80, &[])
        {
            prop_assert_eq!(head_length(&out), Ok(Some(out.len())));
            let again = RequestHead::parse(&out).unwrap();
            prop_assert_eq!(again.framing(), head.framing());
            prop_assert_eq!(again.fields.count("host"), 1);
            prop_assert_eq!(forward_request(&again, "/", &authority, 80, &[]), Ok(out));
        }
    }

    #[test]
    fn bytes_after_an_accepted_head_are_left_alone(rest in prop::collection::vec(any::<u8>(), 0..50)) {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let bytes = [&head[..], &rest].concat();
        prop_assert_eq!(head_length(&bytes), Ok(Some(head.len())));
    }
}
