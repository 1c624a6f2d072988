//! Names to addresses: resolved once, checked, and connected to as checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::address::{self, AddressKind};
use tokio::net::TcpStream;

use crate::host::Host;
use crate::rules::Reach;

/// Addresses of one name that are tried before giving up.
const MAX_ADDRESSES: usize = 6;

/// Turns names into addresses.
pub trait Resolver: Send + Sync {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Opens connections to checked addresses.
pub trait Dialer: Send + Sync {
    /// Connects to exactly this address.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The system's resolver and sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Resolver for System {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Dialer for System {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// Why a host has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("{host} resolves to {address}, which is not a public address")]
    Inside { host: Host, address: IpAddr },
    #[error("could not resolve {host}")]
    Unresolved { host: Host, source: io::Error },
}

/// The addresses of a host that a connection may use. A single address out of reach refuses them all: an answer
/// that mixes public and private addresses is an attack or a mistake.
pub async fn checked_addresses(
    host: &Host,
    reach: Reach,
    resolver: &dyn Resolver,
) -> Result<Vec<IpAddr>, AddressError> {
    let name = match host {
        // The rules have judged the literal itself.
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) => name,
    };
    let unresolved = |source| AddressError::Unresolved { host: host.clone(), source };
    let mut found = resolver.resolve(name).await.map_err(unresolved)?;
    if let Some(address) = found.iter().find(|address| !is_within(**address, reach)) {
        return Err(AddressError::Inside { host: host.clone(), address: *address });
    }
    if found.is_empty() {
        return Err(unresolved(io::Error::from(io::ErrorKind::NotFound)));
    }
    found.truncate(MAX_ADDRESSES);
    Ok(found)
}

fn is_within(ip: IpAddr, reach: Reach) -> bool {
    match address::kind(ip) {
        AddressKind::Public => true,
        AddressKind::Private => reach == Reach::Private,
        AddressKind::Loopback | AddressKind::LinkLocal | AddressKind::Metadata | AddressKind::Special => {
            false
        }
    }
}

/// Connects to the first address that answers, within one limit for all of them.
pub(crate) async fn connect(
    addresses: &[IpAddr],
    port: u16,
    dialer: &dyn Dialer,
    limit: Duration,
) -> io::Result<TcpStream> {
    let attempt = async {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        // A silent address must not use up the time of the next one.
        let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        for address in addresses {
            match tokio::time::timeout(share, dialer.dial(SocketAddr::new(*address, port))).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
            }
        }
        Err(last)
    };
    tokio::time::timeout(limit, attempt).await.unwrap_or(Err(io::Error::from(io::ErrorKind::TimedOut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<IpAddr>);

    impl Resolver for Fixed {
        fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    async fn check(addresses: &[&str], reach: Reach) -> Result<Vec<IpAddr>, AddressError> {
        let resolver = Fixed(addresses.iter().map(|text| text.parse().unwrap()).collect());
        checked_addresses(&Host::parse("a.example").unwrap(), reach, &resolver).await
    }

    #[tokio::test]
    async fn one_address_inside_refuses_all() {
        for inside in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "169.254.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:a00:1::",
        ] {
            let refused = check(&["1.1.1.1", inside], Reach::Public).await;
            assert!(matches!(refused, Err(AddressError::Inside { .. })), "{inside}");
        }
        assert_eq!(check(&["1.1.1.1", "2606:4700::1"], Reach::Public).await.unwrap().len(), 2);
        assert!(matches!(check(&[], Reach::Public).await, Err(AddressError::Unresolved { .. })));
    }

    #[tokio::test]
    async fn a_mirror_reaches_private_networks_but_not_this_machine() {
        for address in ["10.0.0.1", "192.168.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"] {
            assert!(check(&[address], Reach::Private).await.is_ok(), "{address}");
        }
        for address in
            ["127.0.0.1", "::1", "169.254.169.254", "100.100.100.200", "fe80::1", "0.0.0.0", "224.0.0.1"]
        {
            assert!(check(&[address], Reach::Private).await.is_err(), "{address}");
        }
    }
}
