//! Where and how to send: the endpoint of the settings, and the variables that every exporter knows.

use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use pollux_domain::percent;
use pollux_domain::plural::counted;
use pollux_domain::redact::is_secret_name;
use pollux_net::client::ClientOptions;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const FLUSH_TIMEOUT: &str = "OTEL_BSP_EXPORT_TIMEOUT";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

const USUAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the end of the program waits for the last records.
const USUAL_FLUSH: Duration = Duration::from_secs(2);
const MAX_FLUSH: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Grpc,
    /// Protobuf over HTTP.
    Http,
}

impl Protocol {
    /// Where a collector listens unless it is told otherwise.
    pub fn usual_endpoint(self) -> &'static str {
        match self {
            Self::Grpc => "http://localhost:4317",
            Self::Http => "http://localhost:4318",
        }
    }
}

/// A collector and how it is asked.
#[derive(Clone)]
pub struct Options {
    pub(crate) endpoint: Url,
    pub(crate) protocol: Protocol,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) flush_limit: Duration,
    pub(crate) client: ClientOptions,
}

// The address may hold a password, and a header is usually a key.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("place", &self.place()).field("protocol", &self.protocol).finish()
    }
}

impl Options {
    /// Reads the endpoint, and the rest from the environment. Also returns a message for each variable that was
    /// ignored.
    pub fn new(
        endpoint: &str,
        protocol: Protocol,
        env: &Env,
        version: &str,
    ) -> Result<(Self, Vec<String>), String> {
        let mut problems = Vec::new();
        let (headers, wrong) = headers(env);
        if wrong > 0 {
            // Not quoted: a header is usually a key.
            problems.push(format!(
                "`{HEADERS}`: ignored {} (expected `name=value,…`)",
                counted(wrong, "invalid header")
            ));
        }
        let mut limit = |name: &str, usual: Duration, most: Duration| match env
            .non_empty(name)
            .map(|text| text.trim().parse::<u64>())
        {
            None => usual,
            Some(Ok(millis)) if millis > 0 => Duration::from_millis(millis).min(most),
            Some(_) => {
                problems.push(format!("`{name}` is not a number of milliseconds"));
                usual
            }
        };
        let timeout = limit(TIMEOUT, USUAL_TIMEOUT, MAX_TIMEOUT);
        let flush_limit = limit(FLUSH_TIMEOUT, USUAL_FLUSH, MAX_FLUSH);
        let client = ClientOptions {
            connect_timeout: timeout,
            ..ClientOptions::from_env(env, format!("pollux/{version}"))
        };
        let endpoint = address(endpoint)?;
        let options = Self { endpoint, protocol, headers, timeout, flush_limit, client };
        Ok((options, problems))
    }

    /// The collector for people: no password, path or query.
    pub fn place(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }

    /// What must not be in a record: the values of the headers and the credentials in the address.
    pub fn secrets(&self) -> Vec<Secret> {
        let headers = self.headers.values().filter_map(|value| value.to_str().ok());
        // `Bearer KEY`: the key alone is a secret as well.
        let words = headers.flat_map(|value| std::iter::once(value).chain(value.split_whitespace().skip(1)));
        let address = [Some(self.endpoint.username()), self.endpoint.password()].into_iter().flatten();
        let decoded = address.clone().filter_map(|part| String::from_utf8(percent::decode(part)).ok());
        let query = self.endpoint.query_pairs().filter(|(name, _)| is_secret_name(name));
        let query = query.map(|(_, value)| value.into_owned());
        words.chain(address).map(str::to_owned).chain(decoded).chain(query).map(Secret::new).collect()
    }

    /// The address that one kind of record is sent to.
    pub(crate) fn target(&self, of_http: &str, of_grpc: &str) -> Url {
        let mut url = self.endpoint.clone();
        let path = match self.protocol {
            Protocol::Http => format!("{}/{of_http}", url.path().trim_end_matches('/')),
            // Names of services are not below anything.
            Protocol::Grpc => of_grpc.to_owned(),
        };
        url.set_path(&path);
        url
    }
}

fn address(endpoint: &str) -> Result<Url, String> {
    const EXPECTED: &str = "use a URL such as `http://localhost:4317`";
    // Variables often contain quotes by mistake.
    let text = endpoint.trim().trim_matches(['"', '\'']);
    let url = Url::parse(text).map_err(|error| format!("{error}; {EXPECTED}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(format!("not an http or https address; {EXPECTED}")),
    }
}

fn headers(env: &Env) -> (HeaderMap, usize) {
    let mut headers = HeaderMap::new();
    let (pairs, mut wrong) = pairs(env.get(HEADERS).unwrap_or_default());
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes());
        match (name, HeaderValue::from_str(&value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => wrong += 1,
        }
    }
    (headers, wrong)
}

/// What the records are about: the program, its version and the session, and what the user adds.
pub fn resource(env: &Env, version: &str, session: &str) -> JsonObject {
    let mut attributes = JsonObject::from_iter([
        ("service.name".to_owned(), Value::from("gemini-cli")),
        ("service.version".to_owned(), Value::from(version)),
    ]);
    let (pairs, _) = pairs(env.get(RESOURCE_ATTRIBUTES).unwrap_or_default());
    attributes.extend(pairs.into_iter().map(|(name, value)| (name, Value::from(value))));
    if let Some(name) = env.non_empty(SERVICE_NAME) {
        attributes.insert("service.name".to_owned(), Value::from(name));
    }
    attributes.insert("session.id".to_owned(), Value::from(session));
    attributes
}

/// `name=value,name=value` with encoded values, and how many entries were something else.
fn pairs(text: &str) -> (Vec<(String, String)>, usize) {
    let mut pairs = Vec::new();
    let mut wrong = 0;
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let decoded = entry.split_once('=').and_then(|(name, value)| {
            let value = String::from_utf8(percent::decode(value.trim())).ok()?;
            Some((name.trim().to_owned(), value)).filter(|(name, _)| !name.is_empty())
        });
        match decoded {
            Some(pair) => pairs.push(pair),
            None => wrong += 1,
        }
    }
    (pairs, wrong)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        Env::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), PathBuf::new())
    }

    fn options(endpoint: &str, protocol: Protocol, vars: &[(&str, &str)]) -> (Options, Vec<String>) {
        Options::new(endpoint, protocol, &env(vars), "1").unwrap()
    }

    #[test]
    fn http_appends_its_paths_and_grpc_names_services() {
        let (http, _) = options("https://c.example/otlp/", Protocol::Http, &[]);
        assert_eq!(http.target("v1/logs", "/s/Export").as_str(), "https://c.example/otlp/v1/logs");
        let (bare, _) = options(" \"http://localhost:4318\" ", Protocol::Http, &[]);
        assert_eq!(bare.target("v1/logs", "/s/Export").as_str(), "http://localhost:4318/v1/logs");
        let (grpc, _) = options("http://localhost:4317/x", Protocol::Grpc, &[]);
        assert_eq!(grpc.target("v1/logs", "/s/Export").as_str(), "http://localhost:4317/s/Export");
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_and_its_password_is_not_shown() {
        for wrong in ["localhost:4317", "", "ftp://x", "/v1", "http://"] {
            assert!(Options::new(wrong, Protocol::Grpc, &env(&[]), "1").is_err(), "{wrong}");
        }
        let (options, _) = options("https://me:hunter22@c.example/x?k=v", Protocol::Http, &[]);
        assert_eq!(options.place(), "https://c.example");
        assert!(!format!("{options:?}").contains("hunter22"));
        assert!(options.secrets().iter().any(|secret| secret.reveal() == "hunter22"));
    }

    #[test]
    fn headers_are_decoded_kept_secret_and_told_when_they_are_wrong() {
        let vars = [(HEADERS, "api-key=k%20y, authorization=Bearer abc,broken,=x,b@d=1"), (TIMEOUT, "250")];
        let (options, problems) = options("http://x", Protocol::Http, &vars);
        assert_eq!(options.headers.get("api-key").unwrap(), "k y");
        assert_eq!(options.headers.get("authorization").unwrap(), "Bearer abc");
        assert_eq!(options.timeout, Duration::from_millis(250));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("3 invalid") && !problems[0].contains("broken"), "{problems:?}");
        assert!(!format!("{options:?}").contains("abc"));
        let secrets: Vec<String> = options.secrets().iter().map(|s| s.reveal().to_owned()).collect();
        assert!(secrets.contains(&"abc".to_owned()) && secrets.contains(&"k y".to_owned()));
    }

    #[test]
    fn a_timeout_that_is_none_is_told() {
        let (options, problems) = options("http://x", Protocol::Http, &[(TIMEOUT, "soon")]);
        assert_eq!((options.timeout, problems.len()), (USUAL_TIMEOUT, 1));
    }

    #[test]
    fn the_user_names_the_service_but_not_the_session() {
        let vars =
            [(RESOURCE_ATTRIBUTES, "service.name=a,team=x%2Cy,session.id=forged"), (SERVICE_NAME, "mine")];
        assert_eq!(
            Value::Object(resource(&env(&vars), "2", "s1")),
            json!({"service.name": "mine", "service.version": "2", "team": "x,y", "session.id": "s1"})
        );
        assert_eq!(resource(&env(&[]), "2", "s1")["service.name"], "gemini-cli");
    }
}
