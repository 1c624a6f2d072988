//! What is accepted as a host reads the same again in its canonical form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pollux_egress::host::{Authority, Host};

fuzz_target!(|text: &str| {
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
    if let Ok(authority) = Authority::parse(text, Some(443)) {
        assert_eq!(Authority::parse(&authority.to_string(), None), Ok(authority));
    }
});
