//! `a2a.*` in the operator's settings. A flag of the same meaning counts more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_config::settings::Settings;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::SystemClock;
use pollux_host::VERSION;
use pollux_net::access_tokens::{KeySource, TokenRules, TokenVerifier};
use pollux_net::client::{ClientOptions, client};
use pollux_net::guarded::system_resolver;
use pollux_net::jws::SigningKey;
use pollux_serve::{random_secret, read_secret_file};
use serde_json::Value;

use crate::options::ServeOptions;
use crate::secret_file;
use crate::webhooks::{self, WebhookOptions, Webhooks};

/// The shortest secret that servers may share.
const MIN_SECRET: usize = 32;

/// What the settings say.
#[derive(Debug, Default)]
pub(crate) struct A2aSettings {
    push: bool,
    push_hosts: Vec<String>,
    secret: Option<Secret>,
    issuer: Option<String>,
    audience: Option<String>,
    jwks: Option<String>,
    signing_key: Option<PathBuf>,
}

impl A2aSettings {
    /// Combines settings and flags.
    pub(crate) fn new(settings: &Settings, options: &ServeOptions) -> Self {
        let value = |key: &str| settings.get(key).map(|(value, _)| value);
        let text = |key: &str| value(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let either = |flag: &Option<String>, key: &str| flag.clone().or_else(|| text(key).map(str::to_owned));
        let hosts = value("a2a.pushHosts").and_then(Value::as_array).into_iter().flatten();
        Self {
            push: options.push || value("a2a.push") == Some(&Value::Bool(true)),
            push_hosts: hosts.filter_map(|host| host.as_str().map(str::to_owned)).collect(),
            secret: text("a2a.cluster.secret").map(Secret::new),
            issuer: either(&options.oidc_issuer, "a2a.auth.issuer"),
            audience: either(&options.oidc_audience, "a2a.auth.audience"),
            jwks: either(&options.jwks, "a2a.auth.jwks"),
            signing_key: options.signing_key.clone().or_else(|| text("a2a.signing.key").map(PathBuf::from)),
        }
    }

    /// Files with secrets that commands of tasks must not see.
    pub(crate) fn secret_files(&self, env: &Env) -> Vec<PathBuf> {
        self.signing_key.iter().map(|file| env.cwd().join(file)).collect()
    }

    /// What checks the access tokens of callers, if an issuer is named.
    pub(crate) fn token_verifier(&self, env: &Env) -> Result<Option<TokenVerifier>, Failure> {
        let incomplete = |what: &str, hint: &str| {
            let text = format!("cannot check access tokens: {what} is missing");
            Err(Failure::new(ExitKind::Config, text).hint(hint))
        };
        let (issuer, audience) = match (&self.issuer, &self.audience, &self.jwks) {
            (None, None, None) => return Ok(None),
            (None, ..) => {
                return incomplete("the issuer", "pass `--oidc-issuer URL` or set `a2a.auth.issuer`");
            }
            (_, None, _) => {
                return incomplete("the audience", "pass `--oidc-audience NAME` or set `a2a.auth.audience`");
            }
            (Some(issuer), Some(audience), _) => (issuer.clone(), audience.clone()),
        };
        let source = match &self.jwks {
            None => KeySource::Discovery,
            Some(url) if url.contains("://") => KeySource::Url(url.clone()),
            Some(file) => KeySource::File(env.cwd().join(file)),
        };
        let http =
            client(&client_options(env)).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
        let rules = TokenRules { issuer, audience };
        let made = TokenVerifier::new(rules, source, http, Arc::new(SystemClock));
        made.map(Some).map_err(|error| Failure::from_error(ExitKind::Config, &error))
    }

    /// The key that signs the card, if one is named.
    pub(crate) fn signing_key(&self, env: &Env) -> Result<Option<SigningKey>, Failure> {
        let Some(file) = &self.signing_key else { return Ok(None) };
        let pem = Secret::new(read_secret_file(&env.cwd().join(file), "signing key")?);
        let hint = "create one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`";
        let key = SigningKey::read(&pem);
        key.map(Some).map_err(|error| Failure::from_error(ExitKind::Config, &error).hint(hint))
    }

    /// What calls webhooks, if clients may register them. Tasks in memory need no key that outlives the process;
    /// otherwise it is made of the shared secret, or of one in `key_file`, which is created.
    pub(crate) fn webhooks(&self, env: &Env, key_file: Option<&Path>) -> Result<Option<Webhooks>, Failure> {
        if !self.push {
            return Ok(None);
        }
        let secret = match (&self.secret, key_file) {
            (Some(secret), _) if secret.reveal().len() < MIN_SECRET => {
                let text =
                    format!("`a2a.cluster.secret` is too short: it needs at least {MIN_SECRET} characters");
                return Err(
                    Failure::new(ExitKind::Config, text).hint("generate one with `openssl rand -hex 32`")
                );
            }
            (Some(secret), _) => secret.clone(),
            (None, None) => Secret::new(random_secret()),
            (None, Some(file)) => {
                secret_file::create(file, &random_secret()).map_err(|error| {
                    let text = format!("could not create the key file `{}`", file.display());
                    Failure::new(ExitKind::Config, text).because(&error).hint("set `a2a.cluster.secret`")
                })?;
                Secret::new(read_secret_file(file, "key file")?.trim())
            }
        };
        let failed = || Failure::new(ExitKind::Failure, "could not derive the webhook key");
        let webhooks = Webhooks::new(WebhookOptions {
            client: client_options(env),
            allowed: self.push_hosts.clone(),
            resolver: system_resolver(),
            key: webhooks::key(&secret).ok_or_else(failed)?,
            pauses: webhooks::PAUSES,
        });
        webhooks.map(Some).map_err(|error| Failure::from_error(ExitKind::Config, &error))
    }
}

/// How this server asks others.
pub(crate) fn client_options(env: &Env) -> ClientOptions {
    ClientOptions::from_env(env, format!("pollux/{VERSION}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn env() -> Env {
        Env::new(std::iter::empty::<(String, String)>(), PathBuf::from("/w"))
    }

    #[test]
    fn webhooks_need_a_secret_that_nobody_guesses() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let webhooks = |settings: &A2aSettings| settings.webhooks(&env(), Some(&file)).map(|it| it.is_some());
        assert!(matches!(webhooks(&A2aSettings::default()), Ok(false)));
        assert!(!file.exists(), "nothing is created without the switch");
        let short = A2aSettings { push: true, secret: Some(Secret::new("short")), ..A2aSettings::default() };
        assert!(webhooks(&short).is_err());
        let long = A2aSettings { secret: Some(Secret::new("x".repeat(32))), ..short };
        assert!(matches!(webhooks(&long), Ok(true)) && !file.exists());
        let none = A2aSettings { secret: None, ..long };
        assert!(matches!(none.webhooks(&env(), None), Ok(Some(_))), "tasks in memory");
        assert!(matches!(webhooks(&none), Ok(true)));
        let created = std::fs::metadata(&file).unwrap();
        assert_eq!((created.permissions().mode() & 0o777, created.len()), (0o600, 65));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(webhooks(&none).is_err(), "others can read it");
    }

    #[test]
    fn an_issuer_is_complete_or_refused() {
        let settings = |issuer: Option<&str>, audience: Option<&str>, jwks: Option<&str>| {
            let [issuer, audience, jwks] = [issuer, audience, jwks].map(|text| text.map(str::to_owned));
            A2aSettings { issuer, audience, jwks, ..A2aSettings::default() }.token_verifier(&env())
        };
        let issuer = Some("https://issuer.example");
        assert!(matches!(settings(None, None, None), Ok(None)));
        assert!(matches!(settings(issuer, Some("a"), None), Ok(Some(_))));
        assert!(matches!(settings(issuer, Some("a"), Some("keys.json")), Ok(Some(_))));
        for (issuer, audience, jwks) in [
            (issuer, None, None),
            (None, Some("a"), None),
            (None, None, Some("keys.json")),
            (issuer, Some("a"), Some("http://issuer.example/keys")),
            (Some("http://issuer.example"), Some("a"), None),
        ] {
            assert!(settings(issuer, audience, jwks).is_err(), "{issuer:?} {audience:?} {jwks:?}");
        }
    }
}
