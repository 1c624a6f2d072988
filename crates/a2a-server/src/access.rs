//! Who asks: bearer tokens of the operator, access tokens of an issuer, and the owners behind them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::hex;
use pollux_host::peer;
use pollux_net::access_tokens::{Claims, TokenError, TokenVerifier};
use pollux_serve::{Head, Response, SecretDigest, StatusCode, header, random_secret, read_secret_file};

use crate::options::{is_loopback, is_name};
use crate::secret_file;

/// The owner of everything where no token is set.
const LOCAL: &str = "local";
/// The shortest token that is accepted.
const MIN_TOKEN: usize = 16;
/// How names of owners begin that an issuer vouches for. No token has such a name.
const BY_ISSUER: &str = "oidc-";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) owner: String,
    /// Whom an access token was issued to.
    pub(crate) subject: Option<String>,
    pub(crate) peer: SocketAddr,
}

/// The tokens that open the server.
#[derive(Default)]
pub(crate) struct Access {
    /// Owners with the digests of their tokens.
    tokens: Vec<(String, SecretDigest)>,
    /// Checks access tokens, if there is an issuer.
    issuer: Option<TokenVerifier>,
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
        let mut access = Self { checks_peers: proxy.is_none(), proxy, ..Self::default() };
        if let Some(token) = env.get("POLLUX_A2A_TOKEN").filter(|token| !token.is_empty()) {
            access.add("default", token).map_err(|why| bad("`POLLUX_A2A_TOKEN`", &why))?;
        }
        let Some(file) = file else { return Ok(access) };
        access.read(&env.cwd().join(file))?;
        Ok(access)
    }

    /// Accepts access tokens, too.
    pub(crate) fn use_issuer(&mut self, issuer: Option<TokenVerifier>) {
        self.issuer = issuer;
    }

    pub(crate) fn issuer(&self) -> Option<&TokenVerifier> {
        self.issuer.as_ref()
    }

    /// Uses this user's own token, which is created if there is none. For a server that only this machine reaches.
    pub(crate) fn use_own_token(&mut self, file: &Path) -> Result<(), Failure> {
        if let Err(error) = secret_file::create(file, &format!("{LOCAL} {}", random_secret())) {
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
        let text = read_secret_file(file, "token file")?;
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
        if owner.starts_with(BY_ISSUER) {
            return Err(format!("names beginning with `{BY_ISSUER}` are reserved for access tokens"));
        }
        if token.len() < MIN_TOKEN || token.contains(char::is_whitespace) {
            return Err(format!("a token needs at least {MIN_TOKEN} characters without spaces"));
        }
        self.tokens.push((owner.to_owned(), SecretDigest::of(token)));
        Ok(())
    }

    /// Whether there are tokens of the operator.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether callers must show a token.
    pub(crate) fn needs_token(&self) -> bool {
        self.has_tokens() || self.issuer.is_some()
    }

    /// The owners with a token, each once.
    fn owners(&self) -> BTreeSet<&str> {
        self.tokens.iter().map(|(owner, _)| owner.as_str()).collect()
    }

    /// How many owners there may be; 0 if callers need no token.
    pub(crate) fn owner_count(&self) -> usize {
        if self.issuer.is_some() { usize::MAX } else { self.owners().len() }
    }

    /// Where the issuer of access tokens describes itself.
    pub(crate) fn discovery_url(&self) -> Option<String> {
        self.issuer.as_ref().map(TokenVerifier::discovery_url)
    }

    /// The only owner, if there is one.
    pub(crate) fn sole_owner(&self) -> Option<&str> {
        let owners = self.owners();
        match self.owner_count() {
            0 => Some(LOCAL),
            1 => owners.into_iter().next(),
            _ => None,
        }
    }

    /// The caller of a request, or the response that refuses it.
    pub(crate) async fn admit(&self, head: &Head) -> Result<Caller, Box<Response>> {
        self.check_browser(head)?;
        if !self.needs_token() {
            if self.checks_peers
                && let Some(why) = peer::objection(head.peer, head.local)
            {
                let text = format!("{why} may not use this server\n");
                return Err(Box::new(Response::text(StatusCode::FORBIDDEN, text)));
            }
            return Ok(Caller { owner: LOCAL.to_owned(), subject: None, peer: head.peer });
        }
        let Some(token) = head.bearer() else { return Err(Box::new(unauthorized(None))) };
        let digest = SecretDigest::of(token);
        // Every token is compared, so that the time tells nothing about them.
        let matching = self.tokens.iter().filter(|(_, known)| *known == digest);
        let owner = matching.map(|(owner, _)| owner.clone()).fold(None, |_, owner| Some(owner));
        if let Some(owner) = owner {
            return Ok(Caller { owner, subject: None, peer: head.peer });
        }
        // An access token has three parts.
        match &self.issuer {
            Some(issuer) if token.matches('.').count() == 2 => match issuer.verify(token).await {
                Ok(Claims { subject }) => {
                    let owner = owner_of(issuer.issuer(), &subject);
                    Ok(Caller { owner, subject: Some(subject), peer: head.peer })
                }
                Err(error) => Err(Box::new(unauthorized(Some(error)))),
            },
            _ => Err(Box::new(unauthorized(None))),
        }
    }

    /// A page in a browser on this machine must not reach a server without tokens, also not by a name of its own that
    /// leads here.
    fn check_browser(&self, head: &Head) -> Result<(), Box<Response>> {
        let forbidden = |why: &str| Err(Box::new(Response::text(StatusCode::FORBIDDEN, format!("{why}\n"))));
        if self.needs_token() {
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

/// A host without its port.
fn host_of(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    }
}

/// The owner that a subject of an issuer is. Subjects may be any text, and owners name folders.
fn owner_of(issuer: &str, subject: &str) -> String {
    format!("{BY_ISSUER}{}", short_digest(&format!("{issuer}\n{subject}")))
}

/// Refuses a request, because of its access token if it has one.
fn unauthorized(error: Option<TokenError>) -> Response {
    let challenge = match error {
        Some(error) => format!("Bearer error=\"invalid_token\", error_description=\"{error}\""),
        None => "Bearer".to_owned(),
    };
    Response::json(
        StatusCode::UNAUTHORIZED,
        &serde_json::json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "a valid bearer token is required"}}),
    )
    .header(header::WWW_AUTHENTICATE, &challenge)
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

    /// What is decided without asking anyone.
    fn admit(access: &Access, head: &Head) -> Result<Caller, Box<Response>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(access.admit(head))
    }

    #[test]
    fn a_token_names_its_owner_and_nothing_else_is_admitted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        fs::write(&file, "# people\nanna aaaaaaaaaaaaaaaaaaaa\nben bbbbbbbbbbbbbbbbbbbb\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let access = Access::load(Some(&file), &env(), None).unwrap();
        let owner =
            |value: &str| admit(&access, &head(&[("authorization", value)])).map(|caller| caller.owner);
        assert_eq!(owner("Bearer aaaaaaaaaaaaaaaaaaaa").unwrap(), "anna");
        assert_eq!(owner("bearer bbbbbbbbbbbbbbbbbbbb").unwrap(), "ben");
        for wrong in ["Bearer cccccccccccccccccccc", "Basic aaaaaaaaaaaaaaaaaaaa", "Bearer", "", "Bearer "] {
            assert_eq!(owner(wrong).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert_eq!(admit(&access, &head(&[])).unwrap_err().status, StatusCode::UNAUTHORIZED);
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
            ("oidc-anna aaaaaaaaaaaaaaaaaaaa", 0o600),
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
            assert_eq!(admit(&access, &head(&[("authorization", &bearer)])).unwrap().owner, LOCAL);
            assert!(admit(&access, &head(&[])).is_err());
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
            let with = |origin| admit(&access, &head(&[("host", "10.0.0.1:80"), ("origin", origin)]));
            assert_eq!(with("https://agents.example").is_ok(), allowed);
            for origin in ["https://evil.example", "null", "http://localhost", "https://agents.example.evil"]
            {
                assert_eq!(with(origin).unwrap_err().status, StatusCode::FORBIDDEN, "{origin}");
            }
            assert!(admit(&access, &head(&[("host", "agents.example")])).is_ok(), "programs send no origin");
        }
    }

    #[test]
    fn pages_of_other_sites_do_not_reach_a_server_without_tokens() {
        let access = Access::default();
        for host in ["127.0.0.1:80", "localhost", "[::1]:41242", "LOCALHOST:1"] {
            assert_eq!(admit(&access, &head(&[("host", host)])).unwrap().owner, LOCAL, "{host}");
        }
        let with = |host, origin| admit(&access, &head(&[("host", host), ("origin", origin)]));
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

    #[test]
    fn subjects_of_different_issuers_are_different_owners_that_can_name_folders() {
        let all = [
            owner_of("https://a.example", "anna"),
            owner_of("https://b.example", "anna"),
            owner_of("https://a.example", "../../etc"),
            owner_of("https://a.example", "local"),
        ];
        assert!(all.iter().all(|owner| is_name(owner) && owner.len() == 37), "{all:?}");
        assert_eq!(BTreeSet::from(all).len(), 4);
    }

    const ISSUER: &str = "https://issuer.example";

    /// A key of the issuer, and the tokens that it signs.
    fn issuer_key() -> pollux_net::jws::SigningKey {
        let pem = include_str!("../../serve/tests/fixtures/first.key");
        pollux_net::jws::SigningKey::read(&pollux_config::groups::Secret::new(pem)).unwrap()
    }

    fn access_token(changes: &[(&str, serde_json::Value)]) -> String {
        use base64::Engine as _;
        let mut claims =
            serde_json::json!({"iss": ISSUER, "aud": "pollux", "sub": "anna", "exp": 4_000_000_000_u64});
        changes.iter().for_each(|(key, value)| claims[*key] = value.clone());
        let text = claims.to_string();
        let signed = issuer_key().sign(text.as_bytes(), "").unwrap();
        let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("{}.{payload}.{}", signed.protected, signed.signature)
    }

    #[test]
    fn access_tokens_and_tokens_of_the_operator_name_different_owners() {
        use std::sync::Arc;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.json");
        fs::write(&file, issuer_key().public_keys().to_string()).unwrap();
        let rules =
            pollux_net::access_tokens::TokenRules { issuer: ISSUER.into(), audience: "pollux".into() };
        let source = pollux_net::access_tokens::KeySource::File(file);
        let http = pollux_net::client::client(&pollux_net::client::ClientOptions::new("test")).unwrap();
        let clock = Arc::new(pollux_domain::time::SystemClock);
        let mut access = Access::default();
        access.add("anna", "aaaaaaaaaaaaaaaaaaaa").unwrap();
        access.use_issuer(Some(TokenVerifier::new(rules, source, http, clock).unwrap()));
        assert!(access.needs_token() && access.sole_owner().is_none() && access.owner_count() > 1);
        let with = |token: &str| admit(&access, &head(&[("authorization", &format!("Bearer {token}"))]));
        let caller = with(&access_token(&[])).unwrap();
        assert_eq!(
            (caller.owner.as_str(), caller.subject.as_deref()),
            (&*owner_of(ISSUER, "anna"), Some("anna"))
        );
        let operators = with("aaaaaaaaaaaaaaaaaaaa").unwrap();
        assert_eq!((operators.owner.as_str(), operators.subject), ("anna", None));
        let ben = with(&access_token(&[("sub", "ben".into())])).unwrap();
        assert_ne!(ben.owner, caller.owner);
        for (changes, why) in [
            (("exp", serde_json::json!(1_000)), "the token has expired"),
            (("iss", serde_json::json!("https://evil.example")), "the token is from another issuer"),
            (("aud", serde_json::json!("other")), "the token is for another audience"),
        ] {
            let refused = with(&access_token(&[changes])).unwrap_err();
            let challenge = refused.headers.get("www-authenticate").unwrap().to_str().unwrap();
            assert!(refused.status == StatusCode::UNAUTHORIZED && challenge.contains(why), "{challenge}");
        }
        for wrong in ["", "a.b.c", "aaaa", "oidc-anna"] {
            assert_eq!(with(wrong).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong}");
        }
    }
}
