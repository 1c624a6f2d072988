//! Classifies IP addresses: public servers, private networks, this machine, cloud metadata.
//!
//! Pure functions over numbers; names are resolved and checked by their callers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses at which clouds answer with credentials of the machine.
const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0xa9fe, 0xa9fe, 0, 0),
];

/// The part of the network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// A server on the internet.
    Public,
    /// A private network: RFC 1918, shared provider addresses (CGNAT), unique local IPv6.
    Private,
    /// This machine.
    Loopback,
    /// The link: neighbours that no router knows.
    LinkLocal,
    /// A metadata service of a cloud.
    Metadata,
    /// Multicast, broadcast, unspecified, documentation, benchmarks, reserved, tunnels.
    Special,
}

/// The kind of an address. A form that carries an IPv4 address (mapped, NAT64, 6to4, ISATAP) has the kind of
/// that address.
pub fn kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// Whether an address is a public server's.
pub fn is_public(address: IpAddr) -> bool {
    kind(address) == AddressKind::Public
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    if METADATA_V4.contains(&address) {
        return AddressKind::Metadata;
    }
    match address.octets() {
        [127, ..] => AddressKind::Loopback,
        [169, 254, ..] => AddressKind::LinkLocal,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => AddressKind::Private,
        // Shared by the customers of a provider (CGNAT).
        [100, 64..=127, ..] => AddressKind::Private,
        // This network, protocol assignments, documentation, 6to4 relays, benchmarks.
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => AddressKind::Special,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => AddressKind::Special,
        _ => AddressKind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    if METADATA_V6.contains(&address) {
        return AddressKind::Metadata;
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // Forms that carry an IPv4 address: mapped, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => kind_v4(embedded(high, low)),
        // Special purposes (Teredo among them), documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..0x1000, ..] => AddressKind::Special,
        // ISATAP: IPv4 inside an ordinary prefix.
        [0x2000..0x4000, _, _, _, 0 | 0x200, 0x5efe, high, low] => kind_v4(embedded(high, low)),
        [0xfe80..0xfec0, ..] => AddressKind::LinkLocal,
        [0xfc00..0xfe00, ..] => AddressKind::Private,
        // Only this block is handed out.
        [0x2000..0x4000, ..] => AddressKind::Public,
        _ => AddressKind::Special,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(text: &str) -> AddressKind {
        kind(text.parse().unwrap())
    }

    #[test]
    fn addresses_have_the_kind_of_their_block() {
        let table = [
            (AddressKind::Public, &["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1"][..]),
            (AddressKind::Private, &["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1"]),
            (AddressKind::Loopback, &["127.0.0.1", "127.9.9.9", "::1"]),
            (AddressKind::LinkLocal, &["169.254.0.1", "fe80::1"]),
            (
                AddressKind::Metadata,
                &["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"],
            ),
            (
                AddressKind::Special,
                &["0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1", "::", "ff02::1"],
            ),
            (AddressKind::Special, &["2001:db8::1", "::7f00:1", "64:ff9b:1::7f00:1", "fec0::1"]),
        ];
        for (expected, addresses) in table {
            for address in addresses {
                assert_eq!(kind_of(address), expected, "{address}");
            }
        }
    }

    #[test]
    fn an_embedded_ipv4_address_decides() {
        for (text, expected) in [
            ("::ffff:127.0.0.1", AddressKind::Loopback),
            ("::ffff:10.0.0.1", AddressKind::Private),
            ("64:ff9b::a9fe:a9fe", AddressKind::Metadata),
            ("2002:7f00:1::", AddressKind::Loopback),
            ("2001:4860:1:2:0:5efe:c0a8:101", AddressKind::Private),
            ("64:ff9b::808:808", AddressKind::Public),
        ] {
            assert_eq!(kind_of(text), expected, "{text}");
        }
    }
}
