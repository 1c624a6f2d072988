//! From the address of a store to the store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_domain::time::Clock;
use pollux_net::address::is_near;
use pollux_net::client::{ClientError, ClientOptions, Proxies, client};
use pollux_net::google::{GoogleTokens, find_credentials};
use reqwest::Url;

use crate::file::FileBlobs;
use crate::gs::{self, Access, Gs};
use crate::key::Prefix;
use crate::memory::MemoryBlobs;
use crate::port::Blobs;
use crate::remote::Remote;
use crate::retry::Retry;
use crate::s3::{AwsCredentials, S3, usual_region};

/// What opening a store needs from outside.
#[derive(Clone)]
pub struct StoreOptions {
    /// Variables of the process, for credentials and endpoints. Never those of a project's `.env`.
    pub env: Env,
    pub user_home: PathBuf,
    pub client: ClientOptions,
    pub clock: Arc<dyn Clock>,
    /// Pauses before the second and later attempts of a call.
    pub retries: Vec<Duration>,
    /// Size limit of an object that is read.
    pub max_object: u64,
}

impl StoreOptions {
    /// The usual retries (after 0.2, 1 and 3 s) and limits.
    pub fn new(env: Env, user_home: PathBuf, client: ClientOptions, clock: Arc<dyn Clock>) -> Self {
        let retries = [200, 1000, 3000].map(Duration::from_millis).to_vec();
        Self { env, user_home, client, clock, retries, max_object: 1 << 30 }
    }
}

/// Why a store could not be opened. Nothing was sent yet.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "unknown store `{given}`: expected `memory:`, `file:DIR`, `gs://BUCKET/PREFIX` or `s3://BUCKET/PREFIX`"
    )]
    Unknown { given: String },
    #[error("invalid store `{given}`: {why}")]
    Invalid { given: String, why: String },
    #[error(
        "refusing plain HTTP to {origin} for store `{given}`: credentials would be sent unencrypted; use https, \
         or add `?allow-http=true`"
    )]
    Insecure { given: String, origin: String },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Opens `memory:`, `file:DIR`, `gs://bucket/prefix` or `s3://bucket/prefix?endpoint=…&region=…&path-style=true`.
/// Sends nothing. Both kinds of bucket also take `allow-http=true`; S3 also takes `profile=NAME`.
pub fn open(url: &str, options: &StoreOptions) -> Result<Arc<dyn Blobs>, OpenError> {
    let unknown = || OpenError::Unknown { given: shown(url) };
    if url == "memory:" {
        return Ok(Arc::new(MemoryBlobs::new()));
    }
    if let Some(folder) = url.strip_prefix("file:") {
        let folder = folder.strip_prefix("//").unwrap_or(folder);
        if folder.is_empty() {
            return Err(invalid(url, "missing folder"));
        }
        let root = match folder.strip_prefix("~/") {
            Some(below) => options.user_home.join(below),
            None => options.env.cwd().join(folder),
        };
        return Ok(Arc::new(FileBlobs::new(root, options.max_object)));
    }
    let (scheme, _) = url.split_once("://").ok_or_else(unknown)?;
    let retry = Retry::new(options.retries.clone());
    match scheme {
        "s3" => {
            let address =
                Address::parse(url, &["endpoint", "region", "path-style", "profile", "allow-http"])?;
            Ok(Arc::new(Remote::new(open_s3(&address, options)?, retry)))
        }
        "gs" => {
            let address = Address::parse(url, &["endpoint", "project", "allow-http"])?;
            Ok(Arc::new(Remote::new(open_gs(&address, options)?, retry)))
        }
        _ => Err(unknown()),
    }
}

/// The parts of a bucket's address.
struct Address<'a> {
    url: &'a str,
    bucket: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    parameters: Vec<(String, String)>,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str, known: &[&str]) -> Result<Self, OpenError> {
        let parsed = Url::parse(url).map_err(|_| invalid(url, "not a URL"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(invalid(url, "put keys in environment variables or files, not in the URL"));
        }
        let bucket = parsed.host_str().unwrap_or_default().to_owned();
        let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if !(3..=222).contains(&bucket.len()) || !bucket.bytes().all(valid) || parsed.port().is_some() {
            return Err(invalid(
                url,
                "a bucket name needs at least 3 characters from `a-z`, `0-9`, `.`, `_` and `-`",
            ));
        }
        // As it was written: the parser has resolved `..` in its own.
        let written = url.split(['?', '#']).next().and_then(|bare| bare.split_once("://"));
        let written = written.and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let prefix = written.trim_matches('/');
        Prefix::parse(prefix).map_err(|error| invalid(url, error.to_string()))?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let parameters: Vec<(String, String)> =
            parsed.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            let name = name.escape_debug();
            return Err(invalid(url, format!("unknown parameter `{name}` (known: {})", known.join(", "))));
        }
        Ok(Self { url, bucket, prefix, parameters })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn switch(&self, name: &str) -> Result<Option<bool>, OpenError> {
        match self.parameter(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(invalid(self.url, format!("`{name}` must be `true` or `false`"))),
        }
    }

    /// A server's address that credentials may travel to.
    fn server(&self, text: &str) -> Result<Url, OpenError> {
        let wrong = || invalid(self.url, "the endpoint must be a URL such as `https://host`");
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.path() == "/";
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
            return Err(wrong());
        }
        if url.scheme() == "http" && !is_near(&url) && self.switch("allow-http")? != Some(true) {
            let origin = url.origin().ascii_serialization();
            return Err(OpenError::Insecure { given: shown(self.url), origin });
        }
        Ok(url)
    }
}

fn open_s3(address: &Address<'_>, options: &StoreOptions) -> Result<S3, OpenError> {
    let env = &options.env;
    let profile = address.parameter("profile");
    let region = address.parameter("region").map(str::to_owned);
    let region = region.unwrap_or_else(|| usual_region(env, &options.user_home, profile));
    let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !region.bytes().all(named) {
        return Err(invalid(address.url, "a region contains only letters, digits and `-`"));
    }
    let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    let variable = || variables.iter().find_map(|name| env.non_empty(name));
    let endpoint = address.parameter("endpoint").or_else(variable);
    let own = endpoint.map_or_else(|| format!("https://s3.{region}.amazonaws.com"), str::to_owned);
    let server = address.server(&own)?;
    let host = server.host_str().unwrap_or_default();
    // A name in front of an address is no name, and certificates cover one more label only.
    let is_name =
        host.parse::<std::net::Ipv4Addr>().is_err() && !host.starts_with('[') && host != "localhost";
    let path_style = match address.switch("path-style")? {
        Some(chosen) => chosen,
        None => !is_name || address.bucket.contains(['.', '_']),
    };
    let mut base = server.clone();
    let joined = if path_style {
        base.set_path(&format!("/{}/", address.bucket));
        true
    } else {
        base.set_host(Some(&format!("{}.{host}", address.bucket))).is_ok()
    };
    if !joined {
        return Err(invalid(address.url, "this bucket needs `path-style=true`"));
    }
    // What these servers send is secret, and a proxy would not reach them.
    let near = client(&ClientOptions { proxies: Proxies::default(), ..options.client.clone() })?;
    let clock = Arc::clone(&options.clock);
    Ok(S3 {
        http: client(&options.client)?,
        credentials: AwsCredentials::new(
            env.clone(),
            options.user_home.clone(),
            profile.map(str::to_owned),
            near,
            Arc::clone(&clock),
        ),
        clock,
        base,
        region,
        bucket: address.bucket.clone(),
        prefix: address.prefix.clone(),
        max_object: options.max_object,
    })
}

fn open_gs(address: &Address<'_>, options: &StoreOptions) -> Result<Gs, OpenError> {
    let env = &options.env;
    let http = client(&options.client)?;
    let emulator = env
        .non_empty("STORAGE_EMULATOR_HOST")
        .map(|host| if host.contains("://") { host.to_owned() } else { format!("http://{host}") });
    let server = address.parameter("endpoint").or(emulator.as_deref()).unwrap_or(gs::SERVER);
    let base = address.server(server.trim_end_matches('/'))?;
    let access = if emulator.is_some() && address.parameter("endpoint").is_none() {
        Access::Emulator
    } else {
        match find_credentials(env, &options.user_home) {
            Ok(found) => {
                let scopes = vec![gs::SCOPE.to_owned()];
                Access::Tokens(GoogleTokens::new(found, scopes, http.clone(), Arc::clone(&options.clock)))
            }
            Err(error) => Access::Missing(error.to_string()),
        }
    };
    let variables = ["GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID"];
    let variable = || variables.iter().find_map(|name| env.non_empty(name));
    let project = address.parameter("project").or_else(variable).map(str::to_owned);
    Ok(Gs {
        http,
        access,
        base,
        bucket: address.bucket.clone(),
        prefix: address.prefix.clone(),
        project,
        max_object: options.max_object,
    })
}

fn invalid(url: &str, why: impl Into<String>) -> OpenError {
    OpenError::Invalid { given: shown(url), why: why.into() }
}

/// An address without its parameters and user, which may hold what should not be shown.
fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let bare = match (bare.split_once("://"), bare.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => bare.to_owned(),
    };
    bare.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests;
