//! One server as settings describe it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::{Redaction, Secret};
use pollux_config::trust::scripts::NamedScripts;
use pollux_exec::environment::sanitised;
use pollux_net::oauth::{GrantType, IdentityProvider, OAuthConfig};
use serde_json::{Map, Value};

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

/// Why an entry is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Ignored silently: it may adjust a server defined elsewhere.
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

fn link(fields: &Fields<'_>) -> Result<Link, ConfigError> {
    let headers = || fields.secrets("headers");
    if let Some(url) = fields.text("httpUrl")? {
        return Ok(Link::Http { url: checked(url)?, headers: headers()?, or_sse: false });
    }
    let kind = fields.text("type")?;
    if let Some(url) = fields.text("url")? {
        let (url, headers) = (checked(url)?, headers()?);
        return match kind.as_deref() {
            Some("sse") => Ok(Link::Sse { url, headers }),
            Some("http") => Ok(Link::Http { url, headers, or_sse: false }),
            None => Ok(Link::Http { url, headers, or_sse: true }),
            Some(given) => Err(ConfigError::UnknownType { given: given.to_owned() }),
        };
    }
    match fields.text("command")? {
        Some(command) if !command.trim().is_empty() => Ok(Link::Stdio {
            command,
            args: fields.texts("args")?.unwrap_or_default(),
            env: fields.secrets("env")?,
            cwd: fields.text("cwd")?.map(PathBuf::from),
        }),
        Some(_) | None => Err(ConfigError::NoTransport),
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

    fn number(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(ConfigError::WrongType {
                    key: key.to_owned(),
                    expected: "a whole number of milliseconds",
                }),
            },
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(entry: &Value) -> String {
        match ServerConfig::parse("s", entry).map(|config| config.link) {
            Ok(Link::Stdio { command, args, .. }) => format!("stdio {command} {}", args.join(" ")),
            Ok(Link::Http { url, or_sse, .. }) => format!("http {url} {or_sse}"),
            Ok(Link::Sse { url, .. }) => format!("sse {url}"),
            Ok(Link::Client(_)) => "client".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_transport_follows_from_the_keys() {
        for (entry, expected) in [
            (json!({"command": "npx", "args": ["-y", "x"]}), "stdio npx -y x"),
            (json!({"command": "srv", "type": "stdio"}), "stdio srv "),
            (json!({"url": "https://e/mcp"}), "http https://e/mcp true"),
            (json!({"url": "https://e/mcp", "type": "http"}), "http https://e/mcp false"),
            (json!({"url": "http://e/sse", "type": "sse"}), "sse http://e/sse"),
            (json!({"httpUrl": "http://a/", "url": "http://b/", "command": "c"}), "http http://a/ false"),
            (json!({"url": "ftp://e"}), "`ftp://e` is not an http:// or https:// URL"),
            (
                json!({"url": "http://e", "type": "ws"}),
                "invalid `type` `ws` (expected `stdio`, `http` or `sse`)",
            ),
            (json!({"command": ["x"]}), "`command` must be a string"),
            (json!({"command": "x", "args": "y"}), "`args` must be a list of strings"),
            (json!({"command": "x", "env": {"A": []}}), "`env.A` must be a string"),
            (json!("x"), "`s` must be an object"),
        ] {
            assert_eq!(kind(&entry), expected, "{entry}");
        }
        let overlay = ServerConfig::parse("s", &json!({"includeTools": ["a"]})).unwrap_err();
        assert_eq!(overlay, ConfigError::NoTransport);
    }

    #[test]
    fn excluded_tools_stay_out_and_included_names_may_carry_arguments() {
        let entry = json!({"command": "x", "includeTools": ["a", "b(x)", "c"], "excludeTools": ["c"]});
        let config = ServerConfig::parse("s", &entry).unwrap();
        let through: Vec<&str> =
            ["a", "b", "c", "d", "ab"].into_iter().filter(|tool| config.lets_through(tool)).collect();
        assert_eq!(through, ["a", "b"]);
    }

    #[test]
    fn a_process_sees_what_its_entry_gives_it_and_no_other_secret() {
        let vars = [
            ("PATH", "/bin"),
            ("MY_AUTH", "x"),
            ("GITHUB_TOKEN", "t"),
            ("EDITOR", "vi"),
            ("GEMINI_CLI", "0"),
        ];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let entry = json!({"command": "x", "env": {"EDITOR": "ed", "API_KEY": "pa$$word", "GONE": "${MISSING}", "N": 3}});
        let Link::Stdio { env: own, .. } = ServerConfig::parse("s", &entry).unwrap().link else { panic!() };
        let mut seen = child_environment(&env, &Redaction::default(), &own);
        seen.sort();
        let seen: Vec<String> = seen.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(seen, ["API_KEY=pa$$word", "EDITOR=ed", "GEMINI_CLI=1", "GONE=", "N=3", "PATH=/bin"]);
    }

    #[test]
    fn the_oauth_block_says_who_signs_in_and_how() {
        let read = |oauth: Value| {
            ServerConfig::parse("s", &json!({"url": "https://e", "oauth": oauth}))
                .map(|config| config.auth.oauth)
        };
        assert_eq!(read(json!({})).unwrap(), OAuthConfig::default());
        let program = json!({"grantType": "client_credentials", "clientId": "c", "clientSecret": "$UNSET_SECRET",
            "privateKeyFile": "/etc/key.pem", "keyId": "k"});
        let program = read(program).unwrap();
        assert!(program.grant.is_unattended() && program.client_secret.is_none());
        assert_eq!(
            (program.key_id.as_deref(), program.private_key_file),
            (Some("k"), Some("/etc/key.pem".into()))
        );
        let vouched = json!({"grantType": "cross_app_access",
            "identityProvider": {"issuer": "https://idp", "clientId": "c", "idToken": "eyJ"}});
        let provider = read(vouched).unwrap().identity_provider.unwrap();
        assert_eq!(
            (provider.issuer.as_deref(), provider.id_token),
            (Some("https://idp"), Some(Secret::new("eyJ")))
        );
        for (bad, expected) in [
            (json!({"grantType": "password"}), "invalid `oauth.grantType` `password`"),
            (json!({"privateKeyFile": "key.pem"}), "`privateKeyFile` must be an absolute path"),
            (json!({"identityProvider": "x"}), "`identityProvider` must be an object"),
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let entry = json!({"url": "http://e", "headers": {"Authorization": "Bearer tops3cret"}, "oauth": {"clientSecret": "hush1234"}});
        let config = ServerConfig::parse("s", &entry).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("tops3cret") && !shown.contains("hush1234"), "{shown}");
        assert!(config.secrets().contains(&"tops3cret".to_owned()));
    }
}
