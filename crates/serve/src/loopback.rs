//! Servers that only this machine reaches.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::StatusCode;
use tokio::net::TcpListener;

use crate::message::{Head, Response};

/// Ports that are tried until one is free on both loopback addresses.
const TRIES: usize = 16;

/// Listens on this port of both loopback addresses, or on the first where there is no IPv6; 0 is any port. If another
/// program had the port on the second, `localhost` could lead a client to it.
pub async fn bind_loopback(port: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let bound = first.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, bound)).await {
            Ok(second) => return Ok((bound, vec![first, second])),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Ok((bound, vec![first])),
            Err(error) => last = error,
        }
        if port != 0 {
            break;
        }
    }
    Err(last)
}

/// Checks that a request names this server, and not another name that was made to lead here.
pub fn check_loopback_host(head: &Head, port: u16) -> Result<(), Box<Response>> {
    let known = ["127.0.0.1", "[::1]", "localhost"].map(|name| format!("{name}:{port}"));
    match head.only("host") {
        Some(host) if known.iter().any(|known| known == host) => Ok(()),
        _ => {
            let why = serde_json::json!({"error": "this is not the server of that host"});
            Err(Box::new(Response::json(StatusCode::MISDIRECTED_REQUEST, &why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, Method};

    use super::*;
    use crate::message::Query;

    #[test]
    fn only_our_own_names_and_port_are_served() {
        let head = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append("host", host.parse().unwrap());
            }
            let (path, query, peer) = ("/".to_owned(), Query::default(), ([127, 0, 0, 1], 1).into());
            Head { method: Method::POST, path, query, headers, peer, local: peer }
        };
        for host in ["127.0.0.1:80", "[::1]:80", "localhost:80"] {
            assert!(check_loopback_host(&head(&[host]), 80).is_ok(), "{host}");
        }
        let wrong: [&[&str]; 9] = [
            &[],
            &["evil.test:80"],
            &["evil.test"],
            &["localhost"],
            &["localhost:81"],
            &["127.0.0.1.evil.test:80"],
            &["127.1:80"],
            &["0.0.0.0:80"],
            &["localhost:80", "evil.test:80"],
        ];
        for hosts in wrong {
            let refused = check_loopback_host(&head(hosts), 80).unwrap_err();
            assert_eq!(refused.status, StatusCode::MISDIRECTED_REQUEST, "{hosts:?}");
        }
    }
}
