//! One server as settings describe it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::{Redaction, Secret};
use pollux_config::trust::scripts::NamedScripts;
use pollux_exec::environment::sanitised;
use pollux_net::oauth::{GrantType, IdentityProvider, OAuthConfig};
use serde_json::{Map, Number, Value};

use crate::client_link::ClientLink;

/// Upstream's.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// A server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub name: String,
    pub link: Link,
    /// For connecting and for each request.
    pub timeout: Duration,
    pub description: Option<String>,
    /// If set, only these tools.
    pub include_tools: Option<Vec<String>>,
    pub exclude_tools: Vec<String>,
    pub auth: Auth,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Link {
    /// A local program, connected through pipes.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, Secret)>, cwd: Option<PathBuf> },
    /// Streamable HTTP; without an explicit type, SSE is the fallback.
    Http { url: String, headers: Vec<(String, Secret)>, or_sse: bool },
    /// The HTTP transport of the protocol's first version.
    Sse { url: String, headers: Vec<(String, Secret)> },
    /// A server inside the program that drives the session, which carries the messages.
    Client(ClientLink),
}

impl Link {
    /// The files of a project that it runs, as they are now.
    pub(crate) fn scripts(&self, root: &Path) -> NamedScripts {
        let Self::Stdio { command, args, cwd, .. } = self else { return NamedScripts::default() };
        let folder = cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
        let words = [command.as_str()].into_iter().chain(args.iter().map(String::as_str));
        NamedScripts::of_program(words, &folder, root)
    }
}

/// Its sign-in settings.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    pub provider: Option<String>,
    pub oauth: OAuthConfig,
    pub target_audience: Option<String>,
    pub target_service_account: Option<String>,
}

/// A header that is not sent, because its value is only an unset variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetHeader {
    pub name: String,
    /// `$NAME`, as written.
    pub variable: String,
}

/// Why an entry is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It may adjust a server defined elsewhere.
    #[error(
        "Invalid configuration: missing httpUrl (for Streamable HTTP), url (for SSE), and command (for stdio)."
    )]
    NoTransport,
    #[error("`{key}` must be {expected}")]
    WrongType { key: String, expected: &'static str },
    #[error("`{url}` is not an http:// or https:// URL")]
    BadUrl { url: String },
    #[error("invalid `type` `{given}` (expected `stdio`, `http` or `sse`)")]
    UnknownType { given: String },
    #[error("`type: {kind}` needs `{key}`")]
    TypeNeeds { kind: &'static str, key: &'static str },
    #[error("`type: stdio` cannot be combined with `{key}`")]
    TypeExcludes { key: &'static str },
    #[error(
        "invalid `oauth.grantType` `{given}` (expected `authorization_code`, `client_credentials` or `cross_app_access`)"
    )]
    UnknownGrant { given: String },
}

impl ServerConfig {
    /// Reads an entry of `mcpServers`.
    pub fn parse(name: &str, entry: &Value) -> Result<Self, ConfigError> {
        let Value::Object(map) = entry else {
            return Err(ConfigError::WrongType { key: name.to_owned(), expected: "an object" });
        };
        let fields = Fields(map);
        let timeout = fields.number("timeout")?.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        Ok(Self {
            name: name.to_owned(),
            link: link(&fields)?,
            timeout: timeout.max(Duration::from_millis(1)),
            description: fields.text("description")?,
            include_tools: fields.texts("includeTools")?,
            exclude_tools: fields.texts("excludeTools")?.unwrap_or_default(),
            auth: Auth {
                provider: fields.text("authProviderType")?,
                oauth: oauth(&fields)?,
                target_audience: fields.text("targetAudience")?,
                target_service_account: fields.text("targetServiceAccount")?,
            },
        })
    }

    /// The headers of an entry that are not sent. Settings were expanded when they were read.
    pub fn unset_headers(entry: &Value) -> Vec<UnsetHeader> {
        let headers = entry.get("headers").and_then(Value::as_object).into_iter().flatten();
        let unset = headers.filter_map(|(name, value)| {
            let variable = unset_variable(name, value.as_str()?)?.to_owned();
            Some(UnsetHeader { name: name.clone(), variable })
        });
        unset.collect()
    }

    /// A server inside the program that drives the session.
    pub fn of_client(name: &str, link: ClientLink) -> Self {
        Self {
            name: name.to_owned(),
            link: Link::Client(link),
            timeout: DEFAULT_TIMEOUT,
            description: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            auth: Auth::default(),
        }
    }

    /// Whether the filters leave a tool; what is excluded stays out.
    pub fn lets_through(&self, tool: &str) -> bool {
        let names = |entry: &String| {
            entry == tool || entry.strip_prefix(tool).is_some_and(|rest| rest.starts_with('('))
        };
        !self.exclude_tools.iter().any(|entry| entry == tool)
            && self.include_tools.as_ref().is_none_or(|included| included.iter().any(names))
    }

    /// The address of a server that is reached over the network.
    pub fn url(&self) -> Option<&str> {
        match &self.link {
            Link::Http { url, .. } | Link::Sse { url, .. } => Some(url),
            Link::Stdio { .. } | Link::Client(_) => None,
        }
    }

    /// Secrets that must never be shown.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let pairs = match &self.link {
            Link::Stdio { env, .. } => env,
            Link::Http { headers, .. } | Link::Sse { headers, .. } => headers,
            Link::Client(_) => return Vec::new(),
        };
        pairs
            .iter()
            .flat_map(|(_, value)| {
                // `Bearer x` is as secret as `x`.
                let value = value.reveal();
                [value, value.rsplit(' ').next().unwrap_or(value)].map(str::to_owned)
            })
            .collect()
    }
}

/// What a server's process sees: the environment without secrets, and what its entry gives it.
pub fn child_environment(
    env: &Env,
    redaction: &Redaction,
    own: &[(String, Secret)],
) -> Vec<(String, String)> {
    let always = Redaction { enabled: true, ..redaction.clone() };
    let is_own = |name: &str| name == "GEMINI_CLI" || own.iter().any(|(known, _)| known == name);
    let mut variables: Vec<(String, String)> =
        sanitised(env, &always).into_iter().filter(|(name, _)| !is_own(name)).collect();
    variables.push(("GEMINI_CLI".to_owned(), "1".to_owned()));
    variables.extend(own.iter().map(|(name, value)| {
        // Settings were expanded when they were read; what still is a reference has no value. A second pass
        // over values, as upstream makes it, would damage secrets with a `$` in them.
        let value = if is_reference(value.reveal()) { "" } else { value.reveal() };
        (name.clone(), value.to_owned())
    }));
    variables
}

/// Whether a text is nothing but `$NAME` or `${NAME}`.
fn is_reference(text: &str) -> bool {
    let Some(name) = text.strip_prefix('$') else { return false };
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The unset variable that a header's value consists of. `Authorization` may name a scheme before it.
fn unset_variable<'a>(header: &str, value: &'a str) -> Option<&'a str> {
    let value = value.trim();
    let is_authorization = ["authorization", "proxy-authorization"].contains(&header.to_lowercase().as_str());
    let credentials = match value.split_once(' ') {
        Some((_, credentials)) if is_authorization => credentials.trim(),
        Some(_) | None => value,
    };
    is_reference(credentials).then_some(credentials)
}

fn link(fields: &Fields<'_>) -> Result<Link, ConfigError> {
    let headers = || -> Result<Vec<(String, Secret)>, ConfigError> {
        let mut headers = fields.secrets("headers")?;
        headers.retain(|(name, value)| unset_variable(name, value.reveal()).is_none());
        Ok(headers)
    };
    let kind = fields.kind()?;
    let (http_url, url, command) = (fields.text("httpUrl")?, fields.text("url")?, fields.text("command")?);
    let command = command.filter(|command| !command.trim().is_empty());
    if let (Some(Kind::Stdio), Some(key)) =
        (kind, http_url.as_ref().map(|_| "httpUrl").or(url.as_ref().map(|_| "url")))
    {
        return Err(match command {
            Some(_) => ConfigError::TypeExcludes { key },
            None => ConfigError::TypeNeeds { kind: "stdio", key: "command" },
        });
    }
    match (http_url, url, command) {
        (Some(_), None, _) if kind == Some(Kind::Sse) => {
            Err(ConfigError::TypeNeeds { kind: "sse", key: "url" })
        }
        (Some(url), _, _) => Ok(Link::Http { url: checked(url)?, headers: headers()?, or_sse: false }),
        (None, Some(url), _) => {
            let (url, headers) = (checked(url)?, headers()?);
            Ok(match kind {
                Some(Kind::Sse) => Link::Sse { url, headers },
                Some(Kind::Http | Kind::Stdio) => Link::Http { url, headers, or_sse: false },
                None => Link::Http { url, headers, or_sse: true },
            })
        }
        (None, None, command) => match (kind, command) {
            (Some(Kind::Http), _) => Err(ConfigError::TypeNeeds { kind: "http", key: "url" }),
            (Some(Kind::Sse), _) => Err(ConfigError::TypeNeeds { kind: "sse", key: "url" }),
            (Some(Kind::Stdio), None) => Err(ConfigError::TypeNeeds { kind: "stdio", key: "command" }),
            (None, None) => Err(ConfigError::NoTransport),
            (Some(Kind::Stdio) | None, Some(command)) => Ok(Link::Stdio {
                command,
                args: fields.texts("args")?.unwrap_or_default(),
                env: fields.secrets("env")?,
                cwd: fields.text("cwd")?.map(PathBuf::from),
            }),
        },
    }
}

fn checked(url: String) -> Result<String, ConfigError> {
    let known = reqwest::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if known { Ok(url) } else { Err(ConfigError::BadUrl { url }) }
}

fn oauth(fields: &Fields<'_>) -> Result<OAuthConfig, ConfigError> {
    let Some(fields) = fields.inner("oauth")? else { return Ok(OAuthConfig::default()) };
    Ok(OAuthConfig {
        client_id: fields.text("clientId")?,
        client_secret: fields.secret("clientSecret")?,
        authorization_url: fields.text("authorizationUrl")?,
        token_url: fields.text("tokenUrl")?,
        issuer: fields.text("issuer")?,
        registration_url: fields.text("registrationUrl")?,
        redirect_uri: fields.text("redirectUri")?,
        scopes: fields.texts("scopes")?.unwrap_or_default(),
        audiences: fields.texts("audiences")?.unwrap_or_default(),
        grant: grant(&fields)?,
        private_key: fields.secret("privateKey")?,
        private_key_file: fields.file("privateKeyFile")?,
        key_id: fields.text("keyId")?,
        identity_provider: match fields.inner("identityProvider")? {
            Some(fields) => Some(IdentityProvider {
                issuer: fields.text("issuer")?,
                token_url: fields.text("tokenUrl")?,
                client_id: fields.text("clientId")?,
                client_secret: fields.secret("clientSecret")?,
                id_token: fields.secret("idToken")?,
                id_token_file: fields.file("idTokenFile")?,
            }),
            None => None,
        },
    })
}

fn grant(fields: &Fields<'_>) -> Result<GrantType, ConfigError> {
    match fields.text("grantType")?.as_deref() {
        None | Some("authorization_code") => Ok(GrantType::AuthorizationCode),
        Some("client_credentials") => Ok(GrantType::ClientCredentials),
        Some("cross_app_access") => Ok(GrantType::CrossApp),
        Some(given) => Err(ConfigError::UnknownGrant { given: given.to_owned() }),
    }
}

/// `type`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
    Sse,
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The fields of an object within; nothing if it is not there.
    fn inner(&self, key: &str) -> Result<Option<Fields<'a>>, ConfigError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields(map))),
            Some(_) => Err(ConfigError::WrongType { key: key.to_owned(), expected: "an object" }),
        }
    }

    /// A secret; one that is nothing but the name of an unset variable is none.
    fn secret(&self, key: &str) -> Result<Option<Secret>, ConfigError> {
        Ok(self.text(key)?.filter(|text| !text.is_empty() && !is_reference(text)).map(Secret::new))
    }

    fn file(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        match self.text(key)?.map(PathBuf::from) {
            Some(path) if !path.is_absolute() => Err(ConfigError::WrongType {
                key: key.to_owned(),
                expected: "an absolute path, such as `$HOME/key.pem`",
            }),
            other => Ok(other),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(ConfigError::WrongType { key: key.to_owned(), expected: "a string" }),
        }
    }

    /// A whole number; as in other settings, `30.0` and `"30"` are accepted, too.
    fn number(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        let number = match self.0.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.trim().parse::<Number>().ok(),
            Some(value) => value.as_number().cloned(),
        };
        let wrong =
            || ConfigError::WrongType { key: key.to_owned(), expected: "a whole number of milliseconds" };
        number.as_ref().and_then(whole).map(Some).ok_or_else(wrong)
    }

    fn kind(&self) -> Result<Option<Kind>, ConfigError> {
        match self.text("type")?.as_deref() {
            None => Ok(None),
            Some("stdio") => Ok(Some(Kind::Stdio)),
            Some("http") => Ok(Some(Kind::Http)),
            Some("sse") => Ok(Some(Kind::Sse)),
            Some(given) => Err(ConfigError::UnknownType { given: given.to_owned() }),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
        let wrong = || ConfigError::WrongType { key: key.to_owned(), expected: "a list of strings" };
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(wrong()),
        }
    }

    /// Names with values; numbers and switches are taken as they are written.
    fn secrets(&self, key: &str) -> Result<Vec<(String, Secret)>, ConfigError> {
        let wrong = |key: String| ConfigError::WrongType { key, expected: "a string" };
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) => Ok((name.clone(), Secret::new(text.as_str()))),
                    Value::Number(_) | Value::Bool(_) => Ok((name.clone(), Secret::new(value.to_string()))),
                    Value::Null | Value::Array(_) | Value::Object(_) => Err(wrong(format!("{key}.{name}"))),
                })
                .collect(),
            Some(_) => {
                Err(ConfigError::WrongType { key: key.to_owned(), expected: "an object with string values" })
            }
        }
    }
}

fn whole(number: &Number) -> Option<u64> {
    match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => Some(whole),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked on the same line"
        )]
        (None, Some(whole)) if whole.fract() == 0.0 && (0.0..9e15).contains(&whole) => Some(whole as u64),
        (None, Some(_) | None) => None,
    }
}

#[cfg(test)]
mod tests;
