//! Who asks: bearer tokens and the owners behind them.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::hex;
use pollux_host::peer;
use pollux_serve::{Head, Response, SecretDigest, StatusCode, header, random_secret, read_secret_file};

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
    tokens: Vec<(String, SecretDigest)>,
    /// Behind a proxy the header `Host` is the proxy's, and pages may come from there only.
    proxy: Option<PublicOrigin>,
    /// Without tokens, sandboxed processes and other users are refused where they can be told.
    checks_peers: bool,
}

/// The address behind which a proxy serves, as browsers name it; none if the operator did not say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicOrigin(Option<String>);

impl PublicOrigin {
    pub(crate) fn of(url: Option<&str>) -> Self {
        let origin = url.and_then(|url| {
            let (scheme, rest) = url.split_once("://")?;
            Some(format!("{scheme}://{}", rest.split('/').next()?).to_ascii_lowercase())
        });
        Self(origin)
    }
}

impl Access {
    /// Reads the token file, and the variable `POLLUX_A2A_TOKEN`.
    pub(crate) fn load(file: Option<&Path>, env: &Env, proxy: Option<PublicOrigin>) -> Result<Self, Failure> {
        let mut access = Self { tokens: Vec::new(), checks_peers: proxy.is_none(), proxy };
        if let Some(token) = env.get("POLLUX_A2A_TOKEN").filter(|token| !token.is_empty()) {
            access.add("default", token).map_err(|why| bad("`POLLUX_A2A_TOKEN`", &why))?;
        }
        let Some(file) = file else { return Ok(access) };
        access.read(&env.cwd().join(file))?;
        Ok(access)
    }

    /// Uses this user's own token, which is created if there is none. For a server that only this machine reaches.
    pub(crate) fn use_own_token(&mut self, file: &Path) -> Result<(), Failure> {
        if let Err(error) = create_token(file) {
            let text = format!("could not create the token file `{}`", file.display());
            return Err(Failure::new(ExitKind::Config, text)
                .because(&error)
                .hint("pass `--token-file FILE`"));
        }
        self.read(file)
    }

    fn read(&mut self, file: &Path) -> Result<(), Failure> {
        let access = self;
        let shown = format!("token file `{}`", file.display());
        let text = read_secret_file(file)?;
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
        Ok(())
    }

    fn add(&mut self, owner: &str, token: &str) -> Result<(), String> {
        if !is_name(owner) {
            return Err("invalid name (use up to 64 letters, digits, `-`, `_` and `.`)".to_owned());
        }
        if token.len() < MIN_TOKEN || token.contains(char::is_whitespace) {
            return Err(format!("a token needs at least {MIN_TOKEN} characters without spaces"));
        }
        self.tokens.push((owner.to_owned(), SecretDigest::of(token)));
        Ok(())
    }

    /// Whether callers must show a token.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The owners with a token, each once.
    pub(crate) fn owners(&self) -> BTreeSet<&str> {
        self.tokens.iter().map(|(owner, _)| owner.as_str()).collect()
    }

    /// The only owner, if there is one.
    pub(crate) fn sole_owner(&self) -> Option<&str> {
        let owners = self.owners();
        match owners.len() {
            0 => Some(LOCAL),
            1 => owners.into_iter().next(),
            _ => None,
        }
    }

    /// The caller of a request, or the response that refuses it.
    pub(crate) fn admit(&self, head: &Head) -> Result<Caller, Box<Response>> {
        self.check_browser(head)?;
        if self.tokens.is_empty() {
            if self.checks_peers
                && let Some(why) = peer::objection(head.peer, head.local)
            {
                let text = format!("{why} may not use this server\n");
                return Err(Box::new(Response::text(StatusCode::FORBIDDEN, text)));
            }
            return Ok(Caller { owner: LOCAL.to_owned(), peer: head.peer });
        }
        let owner = head.bearer().and_then(|given| {
            // Every token is compared, so that the time tells nothing about them.
            let matching = self.tokens.iter().filter(|(_, known)| *known == given);
            matching.map(|(owner, _)| owner.clone()).fold(None, |_, owner| Some(owner))
        });
        owner.map(|owner| Caller { owner, peer: head.peer }).ok_or_else(|| Box::new(unauthorized()))
    }

    /// A page in a browser on this machine must not reach a server without tokens, also not by a name of its own that
    /// leads here.
    fn check_browser(&self, head: &Head) -> Result<(), Box<Response>> {
        let forbidden = |why: &str| Err(Box::new(Response::text(StatusCode::FORBIDDEN, format!("{why}\n"))));
        if self.has_tokens() {
            return Ok(());
        }
        if let Some(PublicOrigin(public)) = &self.proxy {
            // Browsers send it with everything but plain navigation.
            return match head.header("origin") {
                Some(origin) if public.as_deref() != Some(&origin.to_ascii_lowercase()) => {
                    forbidden("cross-site requests are not allowed")
                }
                _ => Ok(()),
            };
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

/// Creates a file with a token, unless another server did.
fn create_token(file: &Path) -> io::Result<()> {
    if file.exists() {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    files::create_folder(folder, Mode::Private).map_err(io::Error::other)?;
    // Readable by its owner only.
    let mut temp = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(temp, "{LOCAL} {}", random_secret())?;
    match temp.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
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

fn bad(what: &str, why: &str) -> Failure {
    Failure::new(ExitKind::Config, format!("cannot use {what}: {why}"))
}

/// A short name for any text that can be part of an object's name.
pub(crate) fn short_digest(text: &str) -> String {
    hex::encode(SecretDigest::of(text).as_bytes()).chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
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
            local: ([127, 0, 0, 1], 2).into(),
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
        let access = Access::load(Some(&file), &env(), None).unwrap();
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
            assert!(Access::load(Some(&file), &env(), None).is_err(), "{text} {mode:o}");
        }
        assert!(Access::load(Some(&dir.path().join("missing")), &env(), None).is_err());
    }

    #[test]
    fn an_own_token_is_created_once_for_this_user_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/token");
        let mut access = Access::default();
        access.use_own_token(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        let token = text.trim().strip_prefix("local ").unwrap();
        assert_eq!(token.len(), 64);
        let mut again = Access::default();
        again.use_own_token(&file).unwrap();
        let bearer = format!("Bearer {token}");
        for access in [access, again] {
            assert_eq!(access.admit(&head(&[("authorization", &bearer)])).unwrap().owner, LOCAL);
            assert!(access.admit(&head(&[])).is_err());
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Access::default().use_own_token(&file).is_err());
    }

    #[test]
    fn tasks_without_an_owner_are_nobodys_among_several() {
        let mut access = Access::default();
        assert_eq!(access.sole_owner(), Some(LOCAL));
        access.add("anna", "aaaaaaaaaaaaaaaaaaaa").unwrap();
        access.add("anna", "cccccccccccccccccccc").unwrap();
        assert_eq!(access.sole_owner(), Some("anna"));
        access.add("ben", "bbbbbbbbbbbbbbbbbbbb").unwrap();
        assert_eq!((access.sole_owner(), access.owners().len()), (None, 2));
    }

    #[test]
    fn behind_a_proxy_only_its_own_pages_reach_a_server_without_tokens() {
        for (url, allowed) in [(Some("https://Agents.Example/a2a"), true), (None, false)] {
            let access = Access { proxy: Some(PublicOrigin::of(url)), ..Access::default() };
            let with = |origin| access.admit(&head(&[("host", "10.0.0.1:80"), ("origin", origin)]));
            assert_eq!(with("https://agents.example").is_ok(), allowed);
            for origin in ["https://evil.example", "null", "http://localhost", "https://agents.example.evil"]
            {
                assert_eq!(with(origin).unwrap_err().status, StatusCode::FORBIDDEN, "{origin}");
            }
            assert!(access.admit(&head(&[("host", "agents.example")])).is_ok(), "programs send no origin");
        }
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
