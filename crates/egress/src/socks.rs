//! SOCKS 5 as programs use it: `CONNECT` by name or address; no `BIND`, no UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host::{Host, HostError};

/// The first byte of a SOCKS 5 connection.
pub(crate) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_PASSWORD: u8 = 2;
pub(crate) const NO_METHOD: u8 = 0xff;

/// Answers to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    Succeeded = 0,
    Failure = 1,
    /// The rules do not allow the connection.
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

impl Reply {
    /// The answer as it is sent; the bound address is not told.
    pub fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Why bytes are not a request that can be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    #[error("malformed SOCKS message")]
    Malformed,
    #[error("SOCKS command {0} is not supported")]
    Command(u8),
    #[error("SOCKS address type {0} is not supported")]
    AddressType(u8),
    #[error("invalid SOCKS host: {0}")]
    Host(#[from] HostError),
}

impl SocksError {
    /// The answer to the client.
    pub fn reply(&self) -> Reply {
        match self {
            Self::Malformed | Self::Host(_) => Reply::Failure,
            Self::Command(_) => Reply::CommandNotSupported,
            Self::AddressType(_) => Reply::AddressNotSupported,
        }
    }
}

/// A value and how many bytes it took; `None` while bytes are missing.
pub type Parsed<T> = Result<Option<(T, usize)>, SocksError>;

/// The authentication method for a greeting: with a token only user and password, otherwise none.
pub fn method(bytes: &[u8], needs_token: bool) -> Parsed<u8> {
    let [version, count, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION || *count == 0 {
        return Err(SocksError::Malformed);
    }
    let count = usize::from(*count);
    let Some(offered) = rest.get(..count) else { return Ok(None) };
    let wanted = if needs_token { USER_PASSWORD } else { NO_AUTHENTICATION };
    let chosen = if offered.contains(&wanted) { wanted } else { NO_METHOD };
    Ok(Some((chosen, 2 + count)))
}

/// The user name of a user and password message.
pub fn user(bytes: &[u8]) -> Parsed<Vec<u8>> {
    let [version, length, rest @ ..] = bytes else { return Ok(None) };
    if *version != 1 {
        return Err(SocksError::Malformed);
    }
    let length = usize::from(*length);
    let (Some(user), Some(password)) = (rest.get(..length), rest.get(length)) else { return Ok(None) };
    let total = 3 + length + usize::from(*password);
    if bytes.len() < total {
        return Ok(None);
    }
    Ok(Some((user.to_vec(), total)))
}

/// The target of a request.
pub fn request(bytes: &[u8]) -> Parsed<(Host, u16)> {
    let [version, command, reserved, kind, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION || *reserved != 0 {
        return Err(SocksError::Malformed);
    }
    if *command != 1 {
        return Err(SocksError::Command(*command));
    }
    let (start, length) = match kind {
        1 => (0, 4),
        4 => (0, 16),
        3 => match rest.first() {
            Some(length) => (1, usize::from(*length)),
            None => return Ok(None),
        },
        other => return Err(SocksError::AddressType(*other)),
    };
    let (Some(target), Some(port)) =
        (rest.get(start..start + length), rest.get(start + length..start + length + 2))
    else {
        return Ok(None);
    };
    let port = u16::from_be_bytes([port[0], port[1]]);
    if port == 0 {
        return Err(SocksError::Malformed);
    }
    Ok(Some(((host(target, *kind)?, port), 4 + start + length + 2)))
}

fn host(target: &[u8], kind: u8) -> Result<Host, SocksError> {
    if kind == 3 {
        let text = std::str::from_utf8(target).map_err(|_| SocksError::Host(HostError::Character))?;
        return Ok(Host::parse(text)?);
    }
    let v4 = <[u8; 4]>::try_from(target).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    let v6 = || <[u8; 16]>::try_from(target).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)));
    v4.or_else(|_| v6()).map(Host::from_address).map_err(|_| SocksError::Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn connect(kind: u8, target: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, kind][..], target, &port.to_be_bytes()].concat()
    }

    fn named(name: &str) -> Vec<u8> {
        [&[u8::try_from(name.len()).unwrap()][..], name.as_bytes()].concat()
    }

    #[test]
    fn names_and_addresses_become_hosts() {
        let target = |bytes: &[u8]| request(bytes).unwrap().map(|((host, port), _)| format!("{host}:{port}"));
        assert_eq!(target(&connect(3, &named("Good.Example."), 443)).as_deref(), Some("good.example:443"));
        assert_eq!(target(&connect(1, &[10, 0, 0, 1], 22)).as_deref(), Some("10.0.0.1:22"));
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(target(&connect(4, &mapped, 80)).as_deref(), Some("127.0.0.1:80"));
    }

    #[test]
    fn other_commands_and_broken_names_are_refused() {
        assert_eq!(request(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]), Err(SocksError::Command(2)));
        assert_eq!(request(&[5, 3, 0, 1, 1, 1, 1, 1, 0, 80]), Err(SocksError::Command(3)));
        assert_eq!(request(&[5, 1, 0, 9, 1]), Err(SocksError::AddressType(9)));
        for name in ["evil\0.good", "good@evil", "0x7f.1", "2130706433", "good:443", "", "[::1]x"] {
            assert!(request(&connect(3, &named(name), 443)).is_err(), "{name:?}");
        }
        assert_eq!(SocksError::Command(2).reply().bytes()[1], 7);
        assert_eq!(Reply::NotAllowed.bytes()[1], 2);
    }

    #[test]
    fn a_token_is_asked_for_where_it_is_needed() {
        assert_eq!(method(&[5, 2, 0, 2], false), Ok(Some((0, 4))));
        assert_eq!(method(&[5, 2, 0, 2], true), Ok(Some((2, 4))));
        assert_eq!(method(&[5, 1, 0], true), Ok(Some((NO_METHOD, 3))));
        assert_eq!(user(&[1, 3, b'a', b'b', b'c', 0]), Ok(Some((b"abc".to_vec(), 6))));
        assert_eq!(user(&[1, 3, b'a', b'b', b'c', 2, b'x']), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (method(&bytes, true), user(&bytes), request(&bytes));
        }

        #[test]
        fn a_prefix_of_a_request_is_never_a_request(name in "[a-z]{1,20}\\.[a-z]{2,5}", port in 1u16.., cut in 0usize..40) {
            let bytes = connect(3, &named(&name), port);
            let expected = ((Host::Name(name), port), bytes.len());
            prop_assert_eq!(request(&bytes), Ok(Some(expected)));
            if cut < bytes.len() {
                prop_assert_eq!(request(&bytes[..cut]), Ok(None));
            }
        }
    }
}
