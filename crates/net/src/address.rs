//! Classifies addresses: public servers, or this machine and its network.
//!
//! A URL is parsed once, and the parsed form is both checked and used.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

pub use pollux_domain::address::is_public;

/// Names that only mean something inside a network, with everything below them.
const INSIDE: &[&str] = &["localhost", "local", "internal", "localdomain", "intranet", "lan", "home", "corp"];
/// Cloud metadata hosts beyond the names and ranges that are refused anyway.
const METADATA_NAMES: &[&str] = &["metadata.azure.com", "home.arpa"];

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

/// Host and port of a server's address; `http` if it names no scheme.
pub fn host_and_port(address: &str) -> Option<(String, u16)> {
    let url = match address.contains("://") {
        true => Url::parse(address),
        false => Url::parse(&format!("http://{address}")),
    };
    let url = url.ok()?;
    Some((host_text(url.host_str()?), url.port_or_known_default()?))
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

/// Whether an address is on this machine or in a private network: plain http may carry a key there.
pub fn is_near(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests;
