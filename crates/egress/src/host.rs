//! Host names and addresses, in the one spelling that every decision is made with.
//!
//! Rules, HTTP targets, `Host` fields, SOCKS names and TLS server names all pass through [`Host::parse`], so two
//! spellings of one host cannot be judged differently. Does not resolve names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::AsciiDenyList;

/// Maximum length of a name and of one of its labels.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Longer texts are refused before anything else looks at them.
const MAX_TEXT: usize = 1024;

/// A host in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// Lower-case ASCII labels without a final dot.
    Name(String),
    /// An IPv6 address that carries a mapped IPv4 address is that IPv4 address.
    Address(IpAddr),
}

/// A host and a port, as in `CONNECT` or a `Host` field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    pub host: Host,
    pub port: u16,
}

/// Why a text is not a host or an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("the host is empty")]
    Empty,
    #[error("the host name is too long")]
    TooLong,
    #[error("the host contains an invalid character")]
    Character,
    #[error("the host has an empty label or one longer than {MAX_LABEL} bytes")]
    Label,
    #[error("invalid internationalized host name")]
    Idna,
    #[error("an IPv4 address needs four decimal parts")]
    Ipv4,
    #[error("invalid IPv6 address")]
    Ipv6,
    #[error("invalid port")]
    Port,
    #[error("the port is missing")]
    NoPort,
}

impl Host {
    /// Reads a host name, an IPv4 address in four decimal parts or an IPv6 address in brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(HostError::TooLong);
        }
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::Ipv6)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::Ipv6)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let ascii = to_ascii(text)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        check_labels(name)?;
        if ends_in_number(name) {
            let address: Ipv4Addr = name.parse().map_err(|_| HostError::Ipv4)?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(name.to_owned()))
    }

    /// An address as a host.
    pub fn from_address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }

    /// The name; `None` for an address.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl Authority {
    /// Reads `host:port`; without a port, `default_port` is taken if there is one.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split_port(text)?;
        let port = match port {
            Some(digits) => parse_port(digits)?,
            None => default_port.ok_or(HostError::NoPort)?,
        };
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Splits `host[:port]` without reading either part; brackets keep the colons of an IPv6 address together.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<&str>), HostError> {
    if text.starts_with('[') {
        let (inner, after) = text.split_once(']').ok_or(HostError::Ipv6)?;
        let host = text.get(..=inner.len()).ok_or(HostError::Ipv6)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(HostError::Port),
        };
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// A port in plain digits: no sign, no leading zero.
pub(crate) fn parse_port(digits: &str) -> Result<u16, HostError> {
    let plain = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || digits.starts_with('0') {
        return Err(HostError::Port);
    }
    digits.parse().map_err(|_| HostError::Port)
}

/// The text in lower-case ASCII. Names with other letters, or with labels that stand for such, go through IDNA;
/// what comes out is checked like any other text.
fn to_ascii(text: &str) -> Result<String, HostError> {
    let lower = text.to_ascii_lowercase();
    if lower.is_ascii() && !lower.split('.').any(|label| label.starts_with("xn--")) {
        return Ok(lower);
    }
    let ascii = idna::domain_to_ascii_cow(lower.as_bytes(), AsciiDenyList::URL);
    ascii.map(std::borrow::Cow::into_owned).map_err(|_| HostError::Idna)
}

fn check_labels(name: &str) -> Result<(), HostError> {
    if name.is_empty() {
        return Err(HostError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(HostError::TooLong);
    }
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    if !name.bytes().all(allowed) {
        return Err(HostError::Character);
    }
    if name.split('.').any(|label| label.is_empty() || label.len() > MAX_LABEL) {
        return Err(HostError::Label);
    }
    Ok(())
}

/// Whether some resolver would read the text as a number: such a text is an IPv4 address or nothing.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let digits = last.bytes().all(|byte| byte.is_ascii_digit());
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits || hex
}

#[cfg(test)]
mod tests;
