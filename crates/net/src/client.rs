//! The shared HTTP client.

mod trust;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};
use rustls::ClientConfig;

use trust::LazyTrust;

/// Loopback never goes through a proxy: a proxy could not reach it.
const ALWAYS_DIRECT: &str = "localhost,127.0.0.1,::1";

/// Options of the client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub user_agent: String,
    pub proxies: Proxies,
    /// PEM files with certificates to trust in addition to the system's.
    pub extra_ca_files: Vec<PathBuf>,
    pub connect_timeout: Duration,
}

/// Proxy addresses by the scheme of the target.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    pub https: Option<String>,
    pub http: Option<String>,
    /// Hosts that are reached directly, as in `NO_PROXY`.
    pub except: String,
}

// A proxy address may hold a password.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("except", &self.except)
            .finish()
    }
}

/// Why the client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "invalid proxy URL in `{}_PROXY`: {reason}; use a URL such as `http://host:port`",
        scheme.to_uppercase()
    )]
    Proxy { scheme: &'static str, reason: String },
    #[error("SOCKS proxies are not supported for {scheme} targets; use an HTTP proxy")]
    SocksProxy { scheme: &'static str },
    #[error("could not set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("could not set up the HTTP client")]
    Build(#[source] reqwest::Error),
}

impl ClientOptions {
    /// Plain defaults: no proxy, the system's certificates.
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self {
            user_agent: user_agent.into(),
            proxies: Proxies::default(),
            extra_ca_files: Vec::new(),
            connect_timeout: Duration::from_secs(30),
        }
    }

    /// Takes proxies and extra certificates from the environment.
    pub fn from_env(env: &Env, user_agent: impl Into<String>) -> Self {
        let extra = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];
        let extra_ca_files = extra.iter().filter_map(|name| env.non_empty(name)).map(PathBuf::from).collect();
        Self { proxies: Proxies::from_env(env), extra_ca_files, ..Self::new(user_agent) }
    }
}

impl Proxies {
    /// Reads the usual variables in both cases; as upstream, `HTTP_PROXY` also serves https targets.
    pub fn from_env(env: &Env) -> Self {
        let first = |names: &[&str]| names.iter().find_map(|name| env.non_empty(name)).map(str::to_owned);
        Self {
            https: first(&[
                "HTTPS_PROXY",
                "https_proxy",
                "HTTP_PROXY",
                "http_proxy",
                "ALL_PROXY",
                "all_proxy",
            ]),
            http: first(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
            except: first(&["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }
}

/// A client, for those who only hand it on.
pub type HttpClient = reqwest::Client;
/// Its answers and failures, for the same.
pub type HttpResponse = reqwest::Response;
pub type HttpError = reqwest::Error;

/// Makes a client. Cheap: certificates are loaded at the first TLS handshake, not here.
pub fn client(options: &ClientOptions) -> Result<reqwest::Client, ClientError> {
    builder(options)?.build().map_err(ClientError::Build)
}

/// The same for servers that speak only HTTP/2, also where TLS does not negotiate it.
pub fn http2_client(options: &ClientOptions) -> Result<reqwest::Client, ClientError> {
    builder(options)?.http2_prior_knowledge().build().map_err(ClientError::Build)
}

pub(crate) fn builder(options: &ClientOptions) -> Result<reqwest::ClientBuilder, ClientError> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(options)?)
        .user_agent(&options.user_agent)
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_secs(90))
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(20))
        .redirect(same_origin_only())
        .referer(false)
        .no_proxy();
    for proxy in proxies(options) {
        builder = builder.proxy(proxy?);
    }
    Ok(builder)
}

/// Whether the proxies can be used, for a client that is built later.
pub(crate) fn check_proxies(options: &ClientOptions) -> Result<(), ClientError> {
    proxies(options).try_for_each(|proxy| proxy.map(drop))
}

fn proxies(options: &ClientOptions) -> impl Iterator<Item = Result<Proxy, ClientError>> {
    let addresses = [("https", &options.proxies.https), ("http", &options.proxies.http)];
    let given = addresses.into_iter().filter_map(|(scheme, address)| Some((scheme, address.as_ref()?)));
    given.map(|(scheme, address)| proxy(scheme, address, &options.proxies.except))
}

fn tls(options: &ClientOptions) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = Arc::new(LazyTrust::new(Arc::clone(&provider), options.extra_ca_files.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ClientError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(trust)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn proxy(scheme: &'static str, address: &str, except: &str) -> Result<Proxy, ClientError> {
    if address.trim_start().to_ascii_lowercase().starts_with("socks") {
        return Err(ClientError::SocksProxy { scheme });
    }
    let made = if scheme == "https" { Proxy::https(address) } else { Proxy::http(address) };
    let direct = format!("{ALWAYS_DIRECT},{except}");
    made.map(|proxy| proxy.no_proxy(NoProxy::from_string(&direct)))
        // Only the innermost cause: the others say nothing, or quote the address with its password.
        .map_err(|error| ClientError::Proxy { scheme, reason: innermost(&error) })
}

fn innermost(error: &reqwest::Error) -> String {
    let first: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let last = std::iter::successors(first, |cause| cause.source()).last();
    match last.map(ToString::to_string) {
        Some(reason) if reason == "relative URL without a base" => "missing scheme".to_owned(),
        Some(reason) => reason,
        None => "not a URL".to_owned(),
    }
}

/// Requests carry a key in a header that reqwest would send along; it must not reach another host.
fn same_origin_only() -> Policy {
    Policy::custom(|attempt| {
        let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if same && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        Env::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), PathBuf::new())
    }

    #[test]
    fn proxies_come_from_the_environment_in_order_of_the_names() {
        let proxies = Proxies::from_env(&env(&[("http_proxy", "http://plain:1"), ("NO_PROXY", "a.b")]));
        assert_eq!(proxies.https.as_deref(), Some("http://plain:1"));
        assert_eq!(proxies.http.as_deref(), Some("http://plain:1"));
        assert_eq!(proxies.except, "a.b");
        let proxies = Proxies::from_env(&env(&[("HTTPS_PROXY", "http://tls:2"), ("HTTP_PROXY", "")]));
        assert_eq!(proxies.https.as_deref(), Some("http://tls:2"));
        assert_eq!(proxies.http, None);
    }

    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        let mut options = ClientOptions::new("test");
        options.proxies.https = Some("http://me:hunter2@ho st:99999999".into());
        let error = client(&options).unwrap_err();
        assert!(matches!(error, ClientError::Proxy { scheme: "https", .. }), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("hunter2"));
        assert!(std::error::Error::source(&error).is_none(), "one line says it all: {error}");
        options.proxies.https = Some("socks5://host:1080".into());
        assert!(matches!(client(&options).unwrap_err(), ClientError::SocksProxy { .. }));
        assert!(!format!("{:?}", options.proxies).contains("socks5"));
    }

    #[test]
    fn a_client_is_made_without_looking_at_any_certificate() {
        let mut options = ClientOptions::new("test");
        options.extra_ca_files = vec!["/nonexistent/ca.pem".into()];
        assert!(client(&options).is_ok());
    }
}
