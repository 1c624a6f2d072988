use std::net::Ipv4Addr;

use super::*;

fn verdict(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    judge(&url, &AllowedHosts::default()).map(|_| ()).map_err(|refusal| refusal.to_string())
}

/// Addresses that lead inside, in every spelling that resolvers and parsers accept, or are none.
const REFUSED: &[&str] = &[
    // IPv4, in every spelling that resolvers accept.
    "http://127.0.0.1/",
    "http://127.0.0.1./",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0x7f.0.0.1/",
    "http://0x7f000001/",
    "http://0X7F.1/",
    "http://127.255.255.254/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://127。0。0。1/",
    "http://127.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://10.255.255.255:8080/x",
    "http://012.1.2.3/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.1.254/",
    "http://3232235777/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://169.254.170.2/",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://100.127.255.255/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.7/",
    "http://203.0.113.7/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    // IPv6, and IPv4 inside it.
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:c0a8:101::1]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2606:4700::5efe:127.0.0.1]/",
    "http://[2606:4700::200:5efe:10.0.0.1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[fe80::1%25eth0]/",
    // Names.
    "http://localhost/",
    "http://LOCALHOST:3000/",
    "http://localhost./",
    "http://a.b.localhost/",
    "http://printer.local/",
    "http://printer.local./",
    "http://metadata.google.internal/",
    "http://METADATA.GOOGLE.INTERNAL./computeMetadata/v1/",
    "http://metadata/",
    "http://metadata.azure.com/",
    "http://db.corp/",
    "http://router.lan/",
    "http://nas.home.arpa/",
    "http://intranet/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://localhost.localdomain/",
    // Not what it seems.
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1\\@example.com/",
    "http://evil%00.google.com/",
    "http://evil\0.google.com/",
    "http://exa%mple.com/",
    "http://exa mple.com/",
    "http:///etc/passwd",
    "http://./",
    "http://",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "//example.com/",
    "http://256.256.256.256/",
    "http://1.2.3.4.5/",
    "http://example.com:99999/",
];

#[test]
fn no_spelling_of_an_inner_address_passes() {
    for text in REFUSED {
        assert!(verdict(text).is_err(), "{text:?} passed");
    }
}

#[test]
fn public_servers_pass() {
    let passing = [
        "http://example.com/",
        "https://example.com:8443/a?b=c#d",
        "https://EXAMPLE.com./",
        "https://bücher.example/",
        "https://localhost.example.com/",
        "https://mylocalhost.dev/",
        "https://notlocal.com/local",
        "http://8.8.8.8/",
        "http://134744072/",
        "http://172.32.0.1/",
        "http://172.15.0.1/",
        "http://100.63.0.1/",
        "http://100.128.0.1/",
        "http://192.0.1.1/",
        "http://198.20.0.1/",
        "http://223.255.255.255/",
        "http://[2606:4700:4700::1111]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[64:ff9b::8.8.8.8]/",
        "http://[2002:808:808::1]/",
        "http://[2001:4860:4860::8888]/",
    ];
    for text in passing {
        assert_eq!(verdict(text), Ok(()), "{text}");
    }
}

#[test]
fn the_user_can_let_hosts_through_by_name_or_address() {
    let names = ["Wiki.Internal.", "127.0.0.1", "::1", "0x0a000001", "nonsense host"];
    let allowed = AllowedHosts::new(names.map(str::to_owned));
    let passes = |text: &str| judge(&Url::parse(text).unwrap(), &allowed).is_ok();
    for text in ["http://wiki.internal/", "http://127.1:9/", "http://[::1]/", "http://10.0.0.1/"] {
        assert!(passes(text), "{text}");
    }
    for text in ["http://x.wiki.internal/", "http://127.0.0.2/", "http://[::2]/", "ftp://127.0.0.1/"] {
        assert!(!passes(text), "{text}");
    }
    assert!(!passes("http://me@127.0.0.1/"));
}

proptest::proptest! {
    #[test]
    fn every_spelling_of_a_number_gets_the_same_verdict(number: u32) {
        let [a, b, c, d] = number.to_be_bytes();
        let expected = is_public(IpAddr::V4(Ipv4Addr::from(number)));
        let tail = number & 0xff_ffff;
        let spellings = [
            format!("{a}.{b}.{c}.{d}"),
            format!("{a}.{b}.{c}.{d}."),
            format!("{number}"),
            format!("{number:#x}"),
            format!("0{number:o}"),
            format!("{a}.{tail}"),
            format!("{a:#x}.0{b:o}.{}", u16::from_be_bytes([c, d])),
            format!("[::ffff:{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b::{a}.{b}.{c}.{d}]"),
            format!("[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1]"),
        ];
        for host in spellings {
            proptest::prop_assert_eq!(verdict(&format!("http://{host}/")).is_ok(), expected, "{}", host);
        }
    }

    #[test]
    fn whatever_is_parsed_is_judged_without_a_panic(text in "(https?://)?([a-z0-9.:@%\\[\\]/\\\\]|é|\u{ff10}|\u{3002}){0,40}") {
        if let Ok(url) = Url::parse(&text)
            && let Ok(Host::Address(address)) = judge(&url, &AllowedHosts::default())
        {
            proptest::prop_assert!(is_public(address));
        }
    }
}
