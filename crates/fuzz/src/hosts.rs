//! What clients of the sandbox's proxy send.

use pollux_egress::host::{Authority, Host};
use pollux_egress::http::{RequestHead, ResponseHead, head_length};
use pollux_egress::socks::{method, request, user};

/// What is accepted as a host reads the same again in its canonical form.
pub(crate) fn host(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
    if let Ok(authority) = Authority::parse(text, Some(443)) {
        assert_eq!(Authority::parse(&authority.to_string(), None), Ok(authority));
    }
}

/// A head ends where it says, whatever follows it.
pub(crate) fn http(bytes: &[u8]) {
    let Ok(Some(length)) = head_length(bytes) else { return };
    let (head, _) = bytes.split_at(length);
    assert_eq!(head_length(head), Ok(Some(length)));
    if let Ok(request) = RequestHead::parse(head) {
        let _ = (request.framing(), request.is_websocket(), request.keeps_open());
        assert!(!request.target.contains([' ', '\r', '\n']), "{:?}", request.target);
    }
    let _ = ResponseHead::parse(head);
}

/// No message is longer than what was sent, and it reads the same without what follows.
pub(crate) fn socks(bytes: &[u8]) {
    let _ = (method(bytes, true), method(bytes, false), user(bytes));
    if let Ok(Some(((host, port), length))) = request(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(request(bytes.split_at(length).0), Ok(Some(((host, port), length))));
    }
}
