//! The way back from the browser: a listener on loopback, or the address that the user copied.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use pollux_config::groups::Secret;
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::endpoint::shown;
use super::login::LoginError;

const MAX_REQUEST: usize = 16 * 1024;
/// How long a browser may take for its request once it is connected.
const REQUEST_TIME: Duration = Duration::from_secs(20);
/// Browsers open a few connections in advance; more are refused.
const MAX_CONNECTIONS: usize = 16;

/// The authorization that the user granted.
pub struct Granted {
    pub(super) code: Secret,
}

/// The values that a genuine response must contain.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) path: String,
    pub(super) state: String,
    pub(super) issuer: Option<String>,
    pub(super) names_issuer: bool,
}

impl Expected {
    /// Judges an answer. `None`: it is none, or not to our question.
    fn judge(&self, url: &Url) -> Option<Result<Granted, LoginError>> {
        let get = |name: &str| {
            let found = url.query_pairs().find(|(known, _)| known == name);
            found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
        };
        if url.path() != self.path || get("state").as_deref() != Some(self.state.as_str()) {
            return None;
        }
        if let Some(error) = get("error") {
            let description = get("error_description").map(|text| format!(": {}", shown(&text)));
            let description = description.unwrap_or_default();
            return Some(Err(LoginError::Denied { error: shown(&error), description }));
        }
        let code = get("code")?;
        Some(match (&self.issuer, get("iss")) {
            (Some(expected), Some(found)) if !same_issuer(expected, &found) => Err(LoginError::OtherIssuer),
            (Some(_), None) if self.names_issuer => Err(LoginError::OtherIssuer),
            _ => Ok(Granted { code: Secret::new(code) }),
        })
    }

    /// Checks the pasted text: the final URL of the browser, its query, or the code alone.
    pub(super) fn pasted(&self, text: &str) -> Result<Granted, LoginError> {
        let text = text.trim().trim_matches(['"', '\'', '<', '>']);
        // A code without state is accepted because the user pasted it; PKCE binds it to this sign-in.
        if is_code(text) && !self.names_issuer {
            return Ok(Granted { code: Secret::new(text) });
        }
        let query = text.split_once('?').map_or(text, |(_, query)| query);
        let query = query.split('#').next().unwrap_or(query);
        let mut url = Url::parse("http://localhost/").map_err(|_| LoginError::NotTheAnswer)?;
        url.set_path(&self.path);
        url.set_query(Some(query));
        self.judge(&url).unwrap_or(Err(LoginError::NotTheAnswer))
    }
}

/// Whether a text can be nothing but a code; an answer such as "yes" is too short for one.
fn is_code(text: &str) -> bool {
    text.len() >= 8 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c))
}

fn same_issuer(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Listens on loopback in both protocols, as far as the machine has them.
pub(super) async fn listen(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let port = first.local_addr()?.port();
    let mut all = vec![first];
    // `localhost` may mean either to a browser.
    all.extend(TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await);
    Ok((all, port))
}

/// Waits for the true answer. Strangers' requests are turned away and change nothing.
pub(super) async fn wait(listeners: &[TcpListener], expected: &Expected) -> Result<Granted, LoginError> {
    let mut connections: JoinSet<Option<Result<Granted, LoginError>>> = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accept(listeners) => {
                // A failed accept is a broken connection of the peer.
                if let Ok(socket) = accepted && connections.len() < MAX_CONNECTIONS {
                    let expected = expected.clone();
                    connections.spawn(async move {
                        tokio::time::timeout(REQUEST_TIME, answer(socket, &expected)).await.ok().flatten()
                    });
                }
            }
            Some(done) = connections.join_next() => {
                if let Ok(Some(result)) = done {
                    return result;
                }
            }
        }
    }
}

async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    match listeners {
        [] => std::future::pending().await,
        [only] => only.accept().await.map(|(socket, _)| socket),
        [first, second, ..] => tokio::select! {
            accepted = first.accept() => accepted.map(|(socket, _)| socket),
            accepted = second.accept() => accepted.map(|(socket, _)| socket),
        },
    }
}

async fn answer(mut socket: TcpStream, expected: &Expected) -> Option<Result<Granted, LoginError>> {
    let target = read_target(&mut socket).await?;
    let url = Url::parse("http://localhost/").ok()?.join(&target).ok()?;
    let judged = expected.judge(&url);
    let (status, title, text) = match &judged {
        Some(Ok(_)) => ("200 OK", "Signed in", "You can close this window and return to the terminal."),
        Some(Err(_)) => (
            "400 Bad Request",
            "Not signed in",
            "See the terminal for the reason. You can close this window.",
        ),
        None => ("404 Not Found", "Not found", "This page only receives sign-in responses."),
    };
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title>\
         <body style=\"font-family:sans-serif;margin:4em\"><h1>{title}</h1><p>{text}</p>"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
        page.len()
    );
    // The response is used even if the browser does not wait for its page.
    let _ = socket.write_all(format!("{head}{page}").as_bytes()).await;
    let _ = socket.shutdown().await;
    judged
}

/// The target of a GET request, once its head is complete.
async fn read_target(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = socket.read(&mut buffer).await.ok()?;
        if count == 0 || bytes.len() + count > MAX_REQUEST {
            return None;
        }
        bytes.extend_from_slice(buffer.get(..count)?);
    }
    let head = String::from_utf8_lossy(&bytes);
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        Expected {
            path: "/oauth/callback".into(),
            state: "s-1".into(),
            issuer: Some("https://i/".into()),
            names_issuer: false,
        }
    }

    #[test]
    fn only_the_answer_to_our_question_is_taken() {
        let right = [
            "http://localhost:1/oauth/callback?code=c&state=s-1",
            "code=c&state=s-1&iss=https://i",
            " 'x?state=s-1&code=c#' ",
        ];
        for text in right {
            assert_eq!(expected().pasted(text).ok().unwrap().code.reveal(), "c", "{text}");
        }
        assert_eq!(expected().pasted(" 4/0AX4XfWh-code ").ok().unwrap().code.reveal(), "4/0AX4XfWh-code");
        let strict = Expected { names_issuer: true, ..expected() };
        assert!(strict.pasted("4/0AX4XfWh-code").is_err(), "nobody knows whose code it is");
        for text in [
            "",
            "c",
            "yes",
            "two words",
            "code=c",
            "code=c&state=other",
            "state=s-1",
            "code=&state=s-1",
            "\0",
        ] {
            assert!(matches!(expected().pasted(text), Err(LoginError::NotTheAnswer)), "{text}");
        }
        let denied =
            expected().pasted("error=access_denied&error_description=no%0Away&state=s-1").err().unwrap();
        assert_eq!(denied.to_string(), "the sign-in was refused with `access_denied`: noway");
    }

    #[test]
    fn an_answer_of_another_issuer_is_refused() {
        let other = expected().pasted("code=c&state=s-1&iss=https://evil");
        assert!(matches!(other, Err(LoginError::OtherIssuer)));
        let silent = Expected { names_issuer: true, ..expected() }.pasted("code=c&state=s-1");
        assert!(matches!(silent, Err(LoginError::OtherIssuer)));
    }
}
