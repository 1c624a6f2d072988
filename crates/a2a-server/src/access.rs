//! Who asks: bearer tokens and the owners behind them.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::hex;
use pollux_serve::{Head, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::options::{is_loopback, is_name};

/// The owner of everything where no token is set.
const LOCAL: &str = "local";
/// The shortest token that is accepted.
const MIN_TOKEN: usize = 16;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) owner: String,
    pub(crate) peer: SocketAddr,
}

/// The tokens that open the server.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Owners with the digests of their tokens.
    tokens: Vec<(String, [u8; 32])>,
    /// Behind a proxy the header `Host` is the proxy's.
    any_host: bool,
}

impl Access {
    /// Reads the token file, and the variable `POLLUX_A2A_TOKEN`.
    pub(crate) fn load(file: Option<&Path>, env: &Env, any_host: bool) -> Result<Self, Failure> {
        let mut access = Self { tokens: Vec::new(), any_host };
        if let Some(token) = env.get("POLLUX_A2A_TOKEN").filter(|token| !token.is_empty()) {
            access.add("default", token).map_err(|why| bad("`POLLUX_A2A_TOKEN`", &why))?;
        }
        let Some(file) = file else { return Ok(access) };
        let file = env.cwd().join(file);
        let shown = format!("token file `{}`", file.display());
        let unreadable = |error: std::io::Error| {
            Failure::new(ExitKind::Config, format!("could not read {shown}")).because(&error)
        };
        let mode = std::fs::metadata(&file).map_err(unreadable)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(
                bad(&shown, "other users can read it").hint(format!("run `chmod 600 {}`", file.display()))
            );
        }
        let text = std::fs::read_to_string(&file).map_err(unreadable)?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (owner, token) = line.split_once(char::is_whitespace).unwrap_or(("default", line));
            access
                .add(owner, token.trim())
                .map_err(|why| bad(&shown, &format!("line {}: {why}", number + 1)))?;
        }
        if access.tokens.is_empty() {
            return Err(bad(&shown, "it contains no tokens").hint("write one `NAME TOKEN` pair per line"));
        }
        Ok(access)
    }

    fn add(&mut self, owner: &str, token: &str) -> Result<(), String> {
        if !is_name(owner) {
            return Err("invalid name (use up to 64 letters, digits, `-`, `_` and `.`)".to_owned());
        }
        if token.len() < MIN_TOKEN || token.contains(char::is_whitespace) {
            return Err(format!("a token needs at least {MIN_TOKEN} characters without spaces"));
        }
        self.tokens.push((owner.to_owned(), digest(token)));
        Ok(())
    }

    /// Whether callers must show a token.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The caller of a request, or the response that refuses it.
    pub(crate) fn admit(&self, head: &Head) -> Result<Caller, Box<Response>> {
        self.check_browser(head)?;
        if self.tokens.is_empty() {
            return Ok(Caller { owner: LOCAL.to_owned(), peer: head.peer });
        }
        let given = head.header("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| digest(token.trim()))
        });
        let owner = given.and_then(|given| {
            // Every token is compared, so that the time tells nothing about them.
            let matching = self.tokens.iter().filter(|(_, known)| equal(known, &given));
            matching.map(|(owner, _)| owner.clone()).fold(None, |_, owner| Some(owner))
        });
        owner.map(|owner| Caller { owner, peer: head.peer }).ok_or_else(|| Box::new(unauthorized()))
    }

    /// A page in a browser on this machine must not reach a server without tokens, also not by a name of its own that
    /// leads here.
    fn check_browser(&self, head: &Head) -> Result<(), Box<Response>> {
        let forbidden = |why: &str| Err(Box::new(Response::text(StatusCode::FORBIDDEN, format!("{why}\n"))));
        if self.has_tokens() || self.any_host {
            return Ok(());
        }
        let host = head.header("host").map(host_of).unwrap_or_default();
        if !is_loopback(host) {
            return forbidden("the `Host` header does not name this machine");
        }
        match head.header("origin") {
            Some(origin) if !is_loopback(host_of(origin.split("://").nth(1).unwrap_or_default())) => {
                forbidden("cross-site requests are not allowed")
            }
            _ => Ok(()),
        }
    }
}

/// A host without its port.
fn host_of(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    }
}

fn unauthorized() -> Response {
    Response::json(
        StatusCode::UNAUTHORIZED,
        &serde_json::json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "a valid bearer token is required"}}),
    )
    .header(header::WWW_AUTHENTICATE, "Bearer")
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

fn bad(what: &str, why: &str) -> Failure {
    Failure::new(ExitKind::Config, format!("cannot use {what}: {why}"))
}

/// A short name for any text that can be part of an object's name.
pub(crate) fn short_digest(text: &str) -> String {
    hex::encode(&digest(text)).chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::path::PathBuf;

    use pollux_serve::{HeaderMap, Method, Query};

    use super::*;

    fn head(headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Head {
            method: Method::POST,
            path: "/".into(),
            query: Query::default(),
            headers: map,
            peer: ([127, 0, 0, 1], 1).into(),
        }
    }

    fn env() -> Env {
        Env::new(std::iter::empty::<(String, String)>(), PathBuf::from("/"))
    }

    #[test]
    fn a_token_names_its_owner_and_nothing_else_is_admitted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        fs::write(&file, "# people\nanna aaaaaaaaaaaaaaaaaaaa\nben bbbbbbbbbbbbbbbbbbbb\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let access = Access::load(Some(&file), &env(), false).unwrap();
        let owner = |value: &str| access.admit(&head(&[("authorization", value)])).map(|caller| caller.owner);
        assert_eq!(owner("Bearer aaaaaaaaaaaaaaaaaaaa").unwrap(), "anna");
        assert_eq!(owner("bearer bbbbbbbbbbbbbbbbbbbb").unwrap(), "ben");
        for wrong in ["Bearer cccccccccccccccccccc", "Basic aaaaaaaaaaaaaaaaaaaa", "Bearer", "", "Bearer "] {
            assert_eq!(owner(wrong).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert_eq!(access.admit(&head(&[])).unwrap_err().status, StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn unusable_token_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        for (text, mode) in [
            ("anna aaaaaaaaaaaaaaaaaaaa", 0o644),
            ("", 0o600),
            ("anna short", 0o600),
            ("a/b aaaaaaaaaaaaaaaaaaaa", 0o600),
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert!(Access::load(Some(&file), &env(), false).is_err(), "{text} {mode:o}");
        }
        assert!(Access::load(Some(&dir.path().join("missing")), &env(), false).is_err());
    }

    #[test]
    fn pages_of_other_sites_do_not_reach_a_server_without_tokens() {
        let access = Access::default();
        for host in ["127.0.0.1:80", "localhost", "[::1]:41242", "LOCALHOST:1"] {
            assert_eq!(access.admit(&head(&[("host", host)])).unwrap().owner, LOCAL, "{host}");
        }
        let with = |host, origin| access.admit(&head(&[("host", host), ("origin", origin)]));
        assert!(with("localhost:1", "http://localhost:3000").is_ok());
        for (host, origin) in [
            ("evil.example:80", "http://localhost"),
            ("localhost:1", "https://evil.example"),
            ("localhost:1", "null"),
            ("127.0.0.1.evil.example", "http://localhost"),
        ] {
            assert_eq!(with(host, origin).unwrap_err().status, StatusCode::FORBIDDEN, "{host} {origin}");
        }
    }
}
