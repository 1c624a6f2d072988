//! Messages of SOCKS clients: any bytes are read, and no message is longer than what was sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pollux_egress::socks::{method, request, user};

fuzz_target!(|bytes: &[u8]| {
    let _ = (method(bytes, true), method(bytes, false), user(bytes));
    if let Ok(Some(((host, port), length))) = request(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(request(&bytes[..length]), Ok(Some(((host, port), length))));
    }
});
