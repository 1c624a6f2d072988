//! Classifies addresses: public servers, or this machine and its network.
//!
//! A URL is parsed once, and the parsed form is both checked and used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Names that only mean something inside a network, with everything below them.
const INSIDE: &[&str] = &["localhost", "local", "internal", "localdomain", "intranet", "lan", "home", "corp"];
/// Cloud metadata hosts beyond the names and ranges that are refused anyway.
const METADATA_NAMES: &[&str] = &["metadata.azure.com", "home.arpa"];
const METADATA_ADDRESSES: &[Ipv4Addr] = &[Ipv4Addr::new(168, 63, 129, 16)];

/// Non-public hosts that the user allows: names or addresses, without a port.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts(Vec<String>);

/// Why an address is not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("only http and https URLs can be fetched")]
    Scheme,
    #[error("the URL contains a user name or password")]
    UserInfo,
    #[error("the URL has no host")]
    NoHost,
    #[error("`{0}` is a private network name")]
    PrivateName(String),
    #[error("`{0}` is not a public address")]
    PrivateAddress(String),
    #[error("`{host}` resolves to {address}, which is not a public address")]
    LeadsInside { host: String, address: IpAddr },
}

/// A host as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Address(IpAddr),
    /// In lower case, without a final dot.
    Name(String),
}

impl AllowedHosts {
    /// Takes names and addresses in any spelling; what is no host matches nothing.
    pub fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        let canonical = |text: String| {
            let bare = text.parse::<Ipv6Addr>().map_or(text, |address| format!("[{address}]"));
            let url = Url::parse(&format!("http://{bare}/")).ok()?;
            Some(host_text(url.host_str()?))
        };
        Self(hosts.into_iter().filter_map(canonical).collect())
    }

    /// Whether this host is let through.
    pub fn contains(&self, host: &str) -> bool {
        let host = host_text(host);
        self.0.contains(&host)
    }
}

/// The spelling under which hosts are compared.
fn host_text(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

/// Checks a parsed URL; a host name must be checked again after resolution.
pub fn judge(url: &Url, allowed: &AllowedHosts) -> Result<Host, Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::UserInfo);
    }
    // The parser has brought every spelling of an IPv4 address (octal, hex, one number) to the usual one.
    let text = url.host_str().map(host_text).filter(|host| !host.is_empty()).ok_or(Refusal::NoHost)?;
    let is_allowed = allowed.contains(&text);
    match text.parse::<IpAddr>() {
        Ok(address) if is_allowed || is_public(address) => Ok(Host::Address(address)),
        Ok(_) => Err(Refusal::PrivateAddress(text)),
        Err(_) if is_allowed || is_public_name(&text) => Ok(Host::Name(text)),
        Err(_) => Err(Refusal::PrivateName(text)),
    }
}

/// Whether a name can be a public server's. One without a dot is completed by the local network.
fn is_public_name(name: &str) -> bool {
    let is_within =
        |zone: &str| name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    plain && name.contains('.') && !INSIDE.iter().chain(METADATA_NAMES).any(|zone| is_within(zone))
}

/// Whether an address is a public server's.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let refused = match address.octets() {
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => true,
        [172, second, ..] => (16..32).contains(&second),
        // Shared by the customers of a provider (CGNAT).
        [100, second, ..] => (64..128).contains(&second),
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            true
        }
        // Multicast, reserved, broadcast.
        [224..=255, ..] => true,
        _ => METADATA_ADDRESSES.contains(&address),
    };
    !refused
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // Forms that carry an IPv4 address are as public as that is: mapped, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Special purposes (Teredo among them), documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // ISATAP: IPv4 inside an ordinary prefix.
        [0x2000..0x4000, _, _, _, 0 | 0x200, 0x5efe, high, low] => is_public_v4(embedded(high, low)),
        // Only this block is handed out; loopback, link-local, unique local and multicast lie outside.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests;
