//! Where a provider is reached, and whether its key may travel there.

use std::net::IpAddr;

use pollux_domain::model::Dialect;
use pollux_net::address::is_near;
use reqwest::Url;

use super::{Provider, Providers, variable_part};

/// A provider's address with what decides about its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub base: Url,
    pub dialect: Dialect,
    pub source: AddressSource,
}

/// Who named an address. Only sources that belong to the user are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    BuiltIn,
    Settings,
    Variable(String),
}

/// Why a provider has no usable address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    #[error("no base URL for provider `{0}`; set `providers.{0}.baseUrl`")]
    Missing(String),
    #[error("invalid base URL for provider `{provider}`: `{value}` (from {from}): {reason}")]
    Invalid { provider: String, value: String, from: String, reason: &'static str },
    #[error(
        "refusing to send the key for `{provider}` to {origin} without encryption; use https, or set \
         `providers.{provider}.allowInsecure` in your user settings"
    )]
    Insecure { provider: String, origin: String },
}

impl Providers<'_> {
    /// The address of a provider: a variable, then the settings, then the table.
    pub fn locate(&self, provider: &Provider<'_>) -> Result<Location, LocationError> {
        let (value, source) =
            self.address(provider).ok_or_else(|| LocationError::Missing(provider.id.to_owned()))?;
        let base = parse(provider, &value, &source)?;
        let dialect = provider.dialect(base.host_str());
        Ok(Location { base, dialect, source })
    }

    fn address(&self, provider: &Provider<'_>) -> Option<(String, AddressSource)> {
        let own = format!("POLLUX_{}_BASE_URL", variable_part(provider.id));
        let built_in = provider.built_in.map_or(&[][..], |row| row.addresses);
        let names = std::iter::once(own.as_str()).chain(built_in.iter().copied());
        let variable = names.into_iter().find_map(|name| {
            let value = self.env().non_empty(name)?.trim();
            Some((complete(name, value), AddressSource::Variable(name.to_owned())))
        });
        let settings = || {
            let base = provider.settings?.base_url.clone()?;
            Some((base, AddressSource::Settings))
        };
        let table = || {
            let base = provider.built_in?.base;
            (!base.is_empty()).then(|| (base.to_owned(), AddressSource::BuiltIn))
        };
        variable.or_else(settings).or_else(table)
    }
}

impl Location {
    /// Checks that a key may be sent there: over https, to this machine or a private network, or where the user
    /// said so.
    pub fn check_key(&self, provider: &Provider<'_>) -> Result<(), LocationError> {
        let allowed = provider.settings.is_some_and(|settings| settings.allow_insecure);
        if self.base.scheme() == "https" || allowed || is_near(&self.base) {
            return Ok(());
        }
        let origin = self.base.origin().ascii_serialization();
        Err(LocationError::Insecure { provider: provider.id.to_owned(), origin })
    }
}

impl Location {
    /// Whether this is a server of the user's own on this machine.
    pub fn is_own_server(&self, provider: &Provider<'_>) -> bool {
        !provider.is_built_in() && is_loopback(&self.base)
    }
}

/// An address as a tool's own variable has it, completed to the root of the API.
fn complete(name: &str, value: &str) -> String {
    let trimmed = value.trim_end_matches('/');
    match name {
        // Ollama's variable says where the server listens, which may be every interface.
        "OLLAMA_HOST" => {
            let url = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
            let url = url.replacen("://0.0.0.0", "://127.0.0.1", 1);
            let (scheme, rest) = url.split_once("://").unwrap_or(("http", &url));
            let port =
                rest.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
            let port = if port || scheme == "https" { "" } else { ":11434" };
            format!("{url}{port}/v1")
        }
        "AZURE_RESOURCE_NAME" => format!("https://{trimmed}.openai.azure.com/openai/v1"),
        "AZURE_OPENAI_ENDPOINT" if !trimmed.contains("/openai") => format!("{trimmed}/openai/v1"),
        _ => trimmed.to_owned(),
    }
}

fn parse(provider: &Provider<'_>, value: &str, source: &AddressSource) -> Result<Url, LocationError> {
    let invalid = |reason| {
        let from = match source {
            AddressSource::BuiltIn => "the built-in table".to_owned(),
            AddressSource::Settings => format!("providers.{}.baseUrl", provider.id),
            AddressSource::Variable(name) => name.clone(),
        };
        LocationError::Invalid { provider: provider.id.to_owned(), value: shown(value), from, reason }
    };
    let url = Url::parse(value).map_err(|_| invalid("expected a URL such as https://host/v1"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => {}
        _ => return Err(invalid("expected a URL such as https://host/v1")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(LocationError::Invalid {
            provider: provider.id.to_owned(),
            value: url.origin().ascii_serialization(),
            from: "the address".to_owned(),
            reason: "put the key in an environment variable or the credential store, not in the URL",
        });
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("use `query` for URL parameters"));
    }
    Ok(url)
}

/// An address without what may be a secret in it.
fn shown(value: &str) -> String {
    let value = value.split(['?', '#']).next().unwrap_or_default();
    match (value.split_once("://"), value.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        (None, Some((_, host))) => format!("***@{host}"),
        (_, None) => value.to_owned(),
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}
