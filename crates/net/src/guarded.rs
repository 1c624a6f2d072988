//! Fetches pages from public servers only, checking host names and redirects.
//!
//! A name is resolved once per connection; its addresses are checked, and the connection uses one of
//! these addresses, which defeats DNS rebinding. Redirects are followed
//! here, each checked like the first URL.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Request, Response, StatusCode, Url};

use crate::address::{AllowedHosts, Host, Refusal, is_public, judge};
use crate::client::{ClientError, ClientOptions, builder, check_proxies};
use crate::transport;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
/// How long a look-up may take before a page is fetched at all.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

/// Addresses of a name.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Turns names into addresses.
pub type Resolver = Arc<dyn Fn(String) -> Lookup + Send + Sync>;

/// The system's resolver.
pub fn system_resolver() -> Resolver {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// What one fetch may cost.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// From the first byte sent to the last one read, redirects included.
    pub time: Duration,
    /// Of the body as it is after decompression.
    pub bytes: usize,
}

/// How pages are fetched.
pub struct GuardedOptions {
    pub client: ClientOptions,
    pub allowed: AllowedHosts,
    pub limits: FetchLimits,
    pub resolver: Resolver,
}

/// A client for untrusted URLs.
pub struct GuardedClient {
    options: ClientOptions,
    /// Built for the first page: most runs fetch none.
    http: OnceLock<reqwest::Client>,
    guard: Arc<Guard>,
    limits: FetchLimits,
    has_proxy: bool,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it was found in the end.
    pub url: Url,
    /// The media type in lower case without parameters; empty if the server did not say.
    pub media_type: String,
    pub body: Vec<u8>,
}

/// A response with any status.
#[derive(Debug, Clone)]
pub struct GuardedResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Why a page was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the page redirects to an invalid URL")]
    BadRedirect,
    #[error("the page redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("Request failed with status code {}", .0.as_str())]
    Status(StatusCode),
    #[error("Content exceeds the size limit of {0} bytes")]
    TooLarge(usize),
    #[error("Request timed out after {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("{0}")]
    Transport(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

struct Guard {
    allowed: AllowedHosts,
    resolver: Resolver,
    /// Proxies stand inside the network more often than not, and the user chose them.
    proxies: AllowedHosts,
}

impl GuardedClient {
    /// Makes a client. Nothing is sent, but proxies are checked.
    pub fn new(options: GuardedOptions) -> Result<Self, ClientError> {
        let proxies = &options.client.proxies;
        let addresses = [&proxies.https, &proxies.http];
        let hosts = addresses.into_iter().flatten().filter_map(|address| {
            let url = Url::parse(address).or_else(|_| Url::parse(&format!("http://{address}"))).ok()?;
            url.host_str().map(str::to_owned)
        });
        let has_proxy = addresses.into_iter().any(Option::is_some);
        let guard = Arc::new(Guard {
            allowed: options.allowed,
            resolver: options.resolver,
            proxies: AllowedHosts::new(hosts),
        });
        check_proxies(&options.client)?;
        Ok(Self { options: options.client, http: OnceLock::new(), guard, limits: options.limits, has_proxy })
    }

    fn http(&self) -> Result<&reqwest::Client, ClientError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let built = builder(&self.options)?
            .redirect(Policy::none())
            .dns_resolver(Arc::new(GuardedResolver(Arc::clone(&self.guard))))
            .build()
            .map_err(ClientError::Build)?;
        Ok(self.http.get_or_init(|| built))
    }

    /// Judges an address and, for a name, everything it leads to at this moment. A name that cannot be
    /// resolved passes: the connection will be judged again.
    pub async fn screen(&self, url: &Url) -> Result<(), Refusal> {
        let Host::Name(name) = judge(url, &self.guard.allowed)? else { return Ok(()) };
        if self.guard.allowed.contains(&name) {
            return Ok(());
        }
        match tokio::time::timeout(LOOKUP_LIMIT, (self.guard.resolver)(name.clone())).await {
            Ok(Ok(addresses)) => all_public(&name, &addresses),
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Fetches a page.
    pub async fn get(&self, url: Url) -> Result<Page, FetchError> {
        tokio::time::timeout(self.limits.time, self.follow(url))
            .await
            .unwrap_or(Err(FetchError::TimedOut(self.limits.time)))
    }

    /// Sends one request and reads its answer; redirects are answers, too.
    pub async fn exchange(&self, request: Request) -> Result<GuardedResponse, FetchError> {
        tokio::time::timeout(self.limits.time, self.exchanged(request))
            .await
            .unwrap_or(Err(FetchError::TimedOut(self.limits.time)))
    }

    async fn exchanged(&self, request: Request) -> Result<GuardedResponse, FetchError> {
        judge(request.url(), &self.guard.allowed)?;
        if self.has_proxy {
            self.screen(request.url()).await?;
        }
        let response = self.http()?.execute(request).await.map_err(|error| failure(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.bounded_body(response).await?;
        Ok(GuardedResponse { status, headers, body })
    }

    async fn follow(&self, mut url: Url) -> Result<Page, FetchError> {
        for _ in 0..=MAX_REDIRECTS {
            judge(&url, &self.guard.allowed)?;
            if self.has_proxy {
                // The proxy resolves the name; ours is the only look that can be taken before it does.
                self.screen(&url).await?;
            }
            let request = self.http()?.get(url.clone());
            let sent = request.header(ACCEPT, "text/html, text/*;q=0.9, */*;q=0.8").send().await;
            let response = sent.map_err(|error| failure(&error))?;
            if !response.status().is_redirection() {
                return self.read(url, response).await;
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location else { return Err(FetchError::Status(response.status())) };
            url = url.join(location).map_err(|_| FetchError::BadRedirect)?;
        }
        Err(FetchError::TooManyRedirects)
    }

    async fn read(&self, url: Url, response: Response) -> Result<Page, FetchError> {
        if !response.status().is_success() {
            return Err(FetchError::Status(response.status()));
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let media_type = header(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
        let media_type = media_type.trim().to_ascii_lowercase();
        let body = self.bounded_body(response).await?;
        Ok(Page { url, media_type, body })
    }

    async fn bounded_body(&self, mut response: Response) -> Result<Vec<u8>, FetchError> {
        let limit = self.limits.bytes;
        let announced = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|value| value.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(FetchError::TooLarge(limit));
        }
        let mut body = Vec::new();
        // Chunks come decompressed, so that a small answer cannot become a large one unnoticed.
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            if body.len() + chunk.len() > limit {
                return Err(FetchError::TooLarge(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn failure(error: &reqwest::Error) -> FetchError {
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if let Some(refusal) = next.downcast_ref::<Refusal>() {
            return FetchError::Refused(refusal.clone());
        }
        cause = next.source();
    }
    FetchError::Transport(transport::describe(error).message)
}

/// A private address among public ones is suspicious, so all are refused.
fn all_public(host: &str, addresses: &[IpAddr]) -> Result<(), Refusal> {
    match addresses.iter().find(|address| !is_public(**address)) {
        Some(&address) => Err(Refusal::LeadsInside { host: host.to_owned(), address }),
        None => Ok(()),
    }
}

/// Gives the connector judged addresses and no others. Numeric hosts do not pass here; [`judge`] has them.
struct GuardedResolver(Arc<Guard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let addresses = (guard.resolver)(host.trim_end_matches('.').to_owned()).await?;
            if !guard.allowed.contains(host) && !guard.proxies.contains(host) {
                all_public(host, &addresses)?;
            }
            // The connector puts the right port in.
            let judged = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(judged) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
