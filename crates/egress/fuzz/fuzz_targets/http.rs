//! Heads of requests and responses: any bytes are read, and what is accepted as a head ends where it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pollux_egress::http::{RequestHead, ResponseHead, head_length};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(length)) = head_length(bytes) else { return };
    let head = &bytes[..length];
    assert_eq!(head_length(head), Ok(Some(length)));
    if let Ok(request) = RequestHead::parse(head) {
        let _ = (request.framing(), request.is_websocket(), request.keeps_open());
        assert!(!request.target.contains([' ', '\r', '\n']));
    }
    let _ = ResponseHead::parse(head);
});
