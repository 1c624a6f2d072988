//! What the operator says about a server, checked before anything is opened.

use std::net::IpAddr;
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use uuid::Uuid;

/// The flags of `pollux a2a serve`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub store: Option<String>,
    pub workspace_root: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    /// No token is created where none is given: every process of this user is served.
    pub no_token: bool,
    pub replica_id: Option<String>,
    pub behind_proxy: bool,
    /// The address that clients use, if it is not the one that is bound.
    pub public_url: Option<String>,
    pub audit_log: Option<PathBuf>,
    /// Sandboxed commands may use the network.
    pub allow_network: bool,
    /// Tasks that an owner may have at work at a time.
    pub max_tasks: Option<usize>,
    /// Tokens that an owner's tasks may use in a day.
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar that an owner's tasks may cost in a day.
    pub max_micro_usd: Option<u64>,
    /// MiB that an owner's workspaces may take on this machine.
    pub max_disk: Option<u64>,
    /// The certificate that is shown, and its key.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Clients may register webhooks.
    pub push: bool,
    /// Whose access tokens are accepted, and for whom they must be.
    pub oidc_issuer: Option<String>,
    pub oidc_audience: Option<String>,
    /// A URL or file with the issuer's keys.
    pub jwks: Option<String>,
    /// The file of the key that signs the card.
    pub signing_key: Option<PathBuf>,
    /// A task whose server died goes on by itself.
    pub resume_tasks: bool,
}

/// How a server runs.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) store: String,
    /// New workspaces are created here.
    pub(crate) workspace_root: PathBuf,
    /// Clients may also name workspaces below this folder.
    pub(crate) allowed_root: Option<PathBuf>,
    /// There are several owners, who must not reach each other's workspaces.
    pub(crate) has_owners: bool,
    /// The workspace of every task that names none.
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) replica: String,
    pub(crate) public_url: Option<String>,
    pub(crate) audit_log: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate and key of the server itself.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) limits: OwnerLimits,
    pub(crate) resume_tasks: bool,
}

/// What an owner may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerLimits {
    /// Tasks at work at a time.
    pub(crate) tasks: usize,
    /// Tokens in a day, and millionths of a dollar.
    pub(crate) tokens: Option<u64>,
    pub(crate) micro_usd: Option<u64>,
    /// Bytes of workspaces on this machine.
    pub(crate) disk: Option<u64>,
}

impl OwnerLimits {
    /// Whether something is counted by the day.
    pub(crate) fn is_daily(self) -> bool {
        self.tokens.is_some() || self.micro_usd.is_some()
    }
}

/// Tasks that an owner may have at work, unless the operator says otherwise.
const MAX_TASKS: usize = 64;

impl Config {
    /// Combines flags and variables. `owners` counts those that may show a token; 0 if callers need none.
    pub(crate) fn new(options: &ServeOptions, env: &Env, owners: usize) -> Result<Self, Failure> {
        let host = options.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
        let tls = match (&options.tls_cert, &options.tls_key) {
            (Some(certificate), Some(key)) => Some((env.cwd().join(certificate), env.cwd().join(key))),
            (None, None) => None,
            _ => {
                let text = "`--tls-cert` and `--tls-key` must be used together";
                return Err(Failure::new(ExitKind::Input, text).hint("pass `--tls-cert FILE --tls-key FILE`"));
            }
        };
        if !is_loopback(&host) {
            check_exposed(&host, owners > 0, options.behind_proxy || tls.is_some())?;
        }
        let home = PathBuf::from(env.get("HOME").unwrap_or("/"));
        let absolute = |path: PathBuf| env.cwd().join(path);
        let root = options.workspace_root.clone().map(absolute);
        let allowed_root = match root {
            Some(_) => None,
            None => env.non_empty("CODER_AGENT_ALLOWED_ROOT").map(|path| absolute(path.into())),
        };
        let workspace_root = root.unwrap_or_else(|| home.join(".gemini/tmp/a2a-workspaces"));
        let replica = match &options.replica_id {
            Some(id) if is_name(id) => id.clone(),
            Some(id) => {
                let text = format!("invalid replica id `{}`", id.escape_debug());
                return Err(Failure::new(ExitKind::Input, text)
                    .hint("use up to 64 letters, digits, `-`, `_` and `.`"));
            }
            None => "replica".to_owned(),
        };
        Ok(Self {
            port: port(options, env)?,
            host,
            store: store(options, env),
            workspace_root,
            allowed_root,
            has_owners: owners > 1,
            workspace: env.get("CODER_AGENT_WORKSPACE_PATH").map(|path| absolute(path.into())),
            // A process that starts again under the same name is another holder.
            replica: format!("{replica}-{}", Uuid::new_v4().simple()),
            public_url: options.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
            audit_log: options.audit_log.clone().map(absolute),
            token_file: options.token_file.clone().map(absolute),
            tls,
            limits: OwnerLimits {
                tasks: options.max_tasks.unwrap_or(MAX_TASKS),
                tokens: options.max_tokens,
                micro_usd: options.max_micro_usd,
                disk: options.max_disk.map(|mib| mib.saturating_mul(1024 * 1024)),
            },
            resume_tasks: options.resume_tasks,
        })
    }

    /// Whether tasks end with the process.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.store == "memory:"
    }

    /// What commands of a task must not see: workspaces of other tasks, tokens of other owners, and what is recorded.
    pub(crate) fn hidden_places(&self) -> Vec<PathBuf> {
        // With one owner, what the operator opened are the operator's own projects.
        let opened = self.allowed_root.iter().filter(|_| self.has_owners);
        let tls_key = self.tls.iter().map(|(_, key)| key);
        let files = self.token_file.iter().chain(&self.audit_log).chain(tls_key);
        [&self.workspace_root].into_iter().chain(opened).chain(files).cloned().collect()
    }
}

fn check_exposed(host: &str, has_token: bool, is_encrypted: bool) -> Result<(), Failure> {
    let refused = |why: &str, hint: &str| {
        let text = format!("refusing to listen on `{}`: {why}", host.escape_debug());
        Err(Failure::new(ExitKind::Config, text).hint(hint))
    };
    if !has_token {
        return refused(
            "it is reachable from other machines and no token is set",
            "pass `--token-file FILE`, or `--oidc-issuer URL --oidc-audience NAME`",
        );
    }
    if !is_encrypted {
        let hint = "pass `--tls-cert FILE --tls-key FILE`, or `--behind-proxy` if a proxy terminates TLS";
        return refused("tokens would be sent without TLS", hint);
    }
    Ok(())
}

fn port(options: &ServeOptions, env: &Env) -> Result<u16, Failure> {
    let named = env.get("CODER_AGENT_PORT").filter(|text| !text.is_empty());
    match (options.port, named) {
        (Some(port), _) => Ok(port),
        (None, None) => Ok(0),
        (None, Some(text)) => text.trim().parse().map_err(|_| {
            let text = format!("invalid port `{}` in `CODER_AGENT_PORT`", text.escape_debug());
            Failure::new(ExitKind::Config, text)
        }),
    }
}

fn store(options: &ServeOptions, env: &Env) -> String {
    let bucket = env.get("GCS_BUCKET_NAME").filter(|name| !name.is_empty());
    options
        .store
        .clone()
        .or_else(|| bucket.map(|name| format!("gs://{name}")))
        .unwrap_or_else(|| "memory:".into())
}

/// Whether only this machine can reach it.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a text can name an owner or a replica.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(vars, PathBuf::from("/w"))
    }

    #[test]
    fn only_loopback_is_served_without_token_and_proxy() {
        let host = |host: &str, behind_proxy| ServeOptions {
            host: Some(host.to_owned()),
            behind_proxy,
            ..ServeOptions::default()
        };
        for name in ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.0.1"] {
            assert!(Config::new(&host(name, false), &env(&[]), 0).is_ok(), "{name}");
        }
        for name in ["0.0.0.0", "::", "10.0.0.7", "example.org"] {
            assert!(Config::new(&host(name, true), &env(&[]), 0).is_err(), "{name} without a token");
            assert!(Config::new(&host(name, false), &env(&[]), 1).is_err(), "{name} without TLS");
            assert!(Config::new(&host(name, true), &env(&[]), 1).is_ok(), "{name}");
            let files = (Some(PathBuf::from("cert")), Some(PathBuf::from("key")));
            let tls = ServeOptions { tls_cert: files.0, tls_key: files.1, ..host(name, false) };
            assert!(Config::new(&tls, &env(&[]), 0).is_err(), "{name} without a token");
            let config = Config::new(&tls, &env(&[]), 1).unwrap();
            assert!(config.hidden_places().contains(&PathBuf::from("/w/key")), "{name}");
            let half = ServeOptions { tls_key: None, ..tls };
            assert!(Config::new(&half, &env(&[]), 1).is_err(), "{name} without the key");
        }
    }

    #[test]
    fn variables_of_upstream_count_unless_flags_say_otherwise() {
        let env = env(&[
            ("CODER_AGENT_PORT", "41242"),
            ("GCS_BUCKET_NAME", "tasks"),
            ("CODER_AGENT_WORKSPACE_PATH", "project"),
            ("HOME", "/home/a"),
        ]);
        let config = Config::new(&ServeOptions::default(), &env, 0).unwrap();
        assert_eq!((config.port, config.store.as_str()), (41242, "gs://tasks"));
        assert_eq!(config.workspace, Some(PathBuf::from("/w/project")));
        assert_eq!(config.allowed_root, None, "a home is not for clients");
        let flags = ServeOptions {
            port: Some(1),
            store: Some("file:/s".into()),
            workspace_root: Some("/r".into()),
            ..ServeOptions::default()
        };
        let config = Config::new(&flags, &env, 0).unwrap();
        assert_eq!((config.port, config.store.as_str()), (1, "file:/s"));
        assert_eq!((config.workspace_root, config.allowed_root), (PathBuf::from("/r"), None));
    }
}
