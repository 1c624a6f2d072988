use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Host {
    Host::Name(text.to_owned())
}

#[test]
fn spellings_of_one_name_become_one_host() {
    for text in ["good.example", "GOOD.example", "good.example.", "Good.Example."] {
        assert_eq!(Host::parse(text), Ok(name("good.example")), "{text}");
    }
    assert_eq!(Host::parse("bücher.example"), Ok(name("xn--bcher-kva.example")));
    assert_eq!(Host::parse("XN--BCHER-KVA.example"), Ok(name("xn--bcher-kva.example")));
    assert_eq!(Host::parse("good。example"), Ok(name("good.example")));
    assert_eq!(Host::parse("_dmarc.a-b.example"), Ok(name("_dmarc.a-b.example")));
}

#[test]
fn addresses_have_one_spelling() {
    let v4 = Host::Address("127.0.0.1".parse().unwrap());
    for text in ["127.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127。0。0。1"] {
        assert_eq!(Host::parse(text), Ok(v4.clone()), "{text}");
    }
    assert_eq!(Host::parse("[::1]").unwrap().to_string(), "[::1]");
    assert_eq!(Host::parse("[0:0:0:0:0:0:0:1]"), Host::parse("[::1]"));
}

/// Row 65 of the attack list, and relatives.
#[test]
fn texts_that_parsers_disagree_about_are_refused() {
    let long_label = "a".repeat(64);
    let long_name = ["a".repeat(60).as_str(); 5].join(".");
    for text in [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a.b..",
        "evil\0.good.example",
        "good.example\0",
        "good@evil",
        "good example",
        "good\\evil",
        "good/evil",
        "good%2eexample",
        "good%00",
        "good\r\n",
        "good\tx",
        "good:443",
        "0x7f.1",
        "0x7f.0.0.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.1",
        "127.0.0.01",
        "127.0.0.256",
        "1.2.3.4.5",
        "good.0x",
        "good.1",
        "[::1",
        "::1",
        "[::1%lo]",
        "[fe80::1%25eth0]",
        "[]",
        "[1.2.3.4]",
        "[::1]x",
        "xn--a",
        "xn--\u{0}",
        "xn--zzzzzzzzzzz99999999",
        "a\u{200d}b",
        "℀.example",
        "a\u{ad}\u{0}",
        long_label.as_str(),
        long_name.as_str(),
    ] {
        assert!(Host::parse(text).is_err(), "{text:?} became {:?}", Host::parse(text));
    }
}

#[test]
fn an_authority_has_one_port() {
    let parsed = |text| Authority::parse(text, None).map(|found| found.to_string());
    assert_eq!(parsed("Good.Example.:443").as_deref(), Ok("good.example:443"));
    assert_eq!(parsed("[::1]:8080").as_deref(), Ok("[::1]:8080"));
    assert_eq!(parsed("good"), Err(HostError::NoPort));
    assert_eq!(Authority::parse("good", Some(80)).unwrap().port, 80);
    for text in [
        "good:443:80",
        "good:",
        "good:0",
        "good:+1",
        "good:0443",
        "good:65536",
        "good:4 3",
        "[::1]443",
        ":443",
    ] {
        assert!(Authority::parse(text, Some(80)).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_parsed_host_is_canonical(text in "\\PC{0,80}") {
        if let Ok(host) = Host::parse(&text) {
            let shown = host.to_string();
            prop_assert_eq!(Host::parse(&shown), Ok(host.clone()));
            if let Host::Name(name) = &host {
                prop_assert!(name.len() <= MAX_NAME);
                prop_assert!(name.split('.').all(|label| (1..=MAX_LABEL).contains(&label.len())));
                prop_assert!(name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')));
                prop_assert!(name.parse::<IpAddr>().is_err());
            }
        }
    }

    #[test]
    fn plain_names_are_accepted(text in "[a-z][a-z0-9_]{0,20}(\\.[a-z][a-z0-9_]{0,20}){0,4}") {
        let upper = format!("{}.", text.to_ascii_uppercase());
        prop_assert_eq!(Host::parse(&upper), Ok(Host::Name(text)));
    }

    #[test]
    fn any_bytes_are_refused_or_canonical(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(authority) = Authority::parse(&text, Some(443)) {
            prop_assert_eq!(Authority::parse(&authority.to_string(), None), Ok(authority));
        }
    }

    #[test]
    fn addresses_survive(bits in any::<u128>()) {
        let host = Host::from_address(IpAddr::V6(Ipv6Addr::from(bits)));
        prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
}
