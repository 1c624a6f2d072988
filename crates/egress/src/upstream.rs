//! The proxy of the user's own network, which our proxy uses for allowed hosts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pollux_domain::percent;

use crate::host::{Authority, Host, HostError};

/// Proxies by the kind of connection, as in `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
#[derive(Clone, Default)]
pub struct UpstreamProxies {
    https: Option<UpstreamProxy>,
    http: Option<UpstreamProxy>,
    except: Vec<String>,
}

/// One proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UpstreamProxy {
    pub(crate) authority: Authority,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<String>,
}

/// Why a proxy address cannot be used. The address is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    #[error("`{0}` proxies are not supported inside the sandbox; use an `http://` proxy")]
    Scheme(String),
    #[error("invalid proxy URL in `{variable}`: {source}")]
    Host { variable: &'static str, source: HostError },
}

impl UpstreamProxies {
    /// Reads proxy addresses; `except` has the syntax of `NO_PROXY`.
    pub fn parse(https: Option<&str>, http: Option<&str>, except: &str) -> Result<Self, UpstreamError> {
        let entries = except.split([',', ' ']).map(|entry| entry.trim().to_ascii_lowercase());
        Ok(Self {
            https: https.map(|text| UpstreamProxy::parse("HTTPS_PROXY", text)).transpose()?,
            http: http.map(|text| UpstreamProxy::parse("HTTP_PROXY", text)).transpose()?,
            except: entries.filter(|entry| !entry.is_empty()).collect(),
        })
    }

    /// The proxy for a tunnel to this host.
    pub(crate) fn for_tunnel(&self, target: &Authority) -> Option<&UpstreamProxy> {
        self.https.as_ref().filter(|_| !self.is_excepted(target))
    }

    /// The proxy for plain HTTP to this host.
    pub(crate) fn for_plain(&self, target: &Authority) -> Option<&UpstreamProxy> {
        self.http.as_ref().filter(|_| !self.is_excepted(target))
    }

    fn is_excepted(&self, target: &Authority) -> bool {
        let host = target.host.to_string();
        let bare = host.trim_matches(['[', ']']);
        self.except.iter().any(|entry| {
            let (name, port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') => (name, Some(port)),
                _ => (entry.as_str(), None),
            };
            let name = name.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
            let below = target.host.name().is_some_and(|host| host.ends_with(&format!(".{name}")));
            let ported = port.is_none_or(|port| port == target.port.to_string());
            entry == "*" || (ported && !name.is_empty() && (bare == name || host == name || below))
        })
    }
}

impl UpstreamProxy {
    fn parse(variable: &'static str, text: &str) -> Result<Self, UpstreamError> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => return Err(UpstreamError::Scheme(scheme.to_ascii_lowercase())),
            None => text,
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let authorization = user.map(|user| format!("Basic {}", STANDARD.encode(percent::decode(user))));
        let authority =
            Authority::parse(host, Some(80)).map_err(|source| UpstreamError::Host { variable, source })?;
        Ok(Self { authority, authorization })
    }
}

/// Whether the host is one that a proxy elsewhere cannot reach.
pub(crate) fn is_local(host: &Host) -> bool {
    matches!(host, Host::Address(ip) if !pollux_domain::address::is_public(*ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Authority {
        Authority::parse(text, None).unwrap()
    }

    #[test]
    fn proxy_addresses_are_read_with_their_credentials() {
        let proxies =
            UpstreamProxies::parse(Some("http://me:p%40ss@proxy.corp:3128/"), Some("other"), "").unwrap();
        let https = proxies.for_tunnel(&target("a.example:443")).unwrap();
        assert_eq!(https.authority.to_string(), "proxy.corp:3128");
        assert_eq!(https.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(proxies.for_plain(&target("a.example:80")).unwrap().authority.to_string(), "other:80");
        for text in ["https://proxy", "socks5://proxy:1080"] {
            assert!(
                matches!(UpstreamProxies::parse(Some(text), None, ""), Err(UpstreamError::Scheme(_))),
                "{text}"
            );
        }
        assert!(UpstreamProxies::parse(Some("http://a b"), None, "").is_err());
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let proxies =
            UpstreamProxies::parse(Some("p:1"), None, ".corp.example, b.example:8443 ,10.0.0.1,[::1]")
                .unwrap();
        let proxied = |text| proxies.for_tunnel(&target(text)).is_some();
        for text in ["corp.example:443", "a.corp.example:443", "b.example:8443", "10.0.0.1:443", "[::1]:443"]
        {
            assert!(!proxied(text), "{text}");
        }
        for text in ["badcorp.example:443", "b.example:443", "10.0.0.2:443"] {
            assert!(proxied(text), "{text}");
        }
        let all = UpstreamProxies::parse(Some("p:1"), None, "*").unwrap();
        assert!(all.for_tunnel(&target("a.example:443")).is_none());
    }
}
