//! GitHub releases: selects a release and its file for this platform, and downloads it.

use std::path::Path;
use std::time::Duration;

use pollux_domain::percent;
use pollux_net::client::{ClientError, ClientOptions, client};
use pollux_net::transport::describe;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::source::GitHubRepo;

/// The address of the interface.
pub const API: &str = "https://api.github.com";

/// A description of a release is a few kilobytes.
const MAX_JSON: usize = 8 * 1024 * 1024;
/// No extension is larger, packed.
const MAX_ARCHIVE: u64 = 256 * 1024 * 1024;
const MAX_REDIRECTS: usize = 10;
/// Of silence.
const PATIENCE: Duration = Duration::from_secs(60);

/// How releases are reached.
pub struct Releases<'a> {
    /// [`API`], or a test server.
    pub api: String,
    pub http: ClientOptions,
    /// Only sent to the API.
    pub token: Option<String>,
    pub cancel: &'a CancellationToken,
}

/// A release and the file of it that suits this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub tag: String,
    url: String,
    /// Whether it is an attached file, not the source code.
    attached: bool,
}

/// Why no release could be obtained.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error("could not reach GitHub")]
    Client(#[from] ClientError),
    #[error("could not reach `{url}`: {reason}")]
    Transport { url: String, reason: String },
    #[error("`{url}` answered with status {status}")]
    Status { url: String, status: u16 },
    #[error("unexpected response from `{url}`: not a release")]
    Nonsense { url: String },
    #[error("the release `{tag}` has no files for this platform")]
    NoFile { tag: String },
    #[error("`{url}` is larger than {} MiB", MAX_ARCHIVE / (1024 * 1024))]
    TooLarge { url: String },
    #[error("`{url}` redirects to an unencrypted address")]
    Downgrade { url: String },
    #[error("could not write `{}`: {source}", file.display())]
    Write { file: std::path::PathBuf, source: std::io::Error },
    #[error("cancelled")]
    Cancelled,
}

impl Releases<'_> {
    /// The release of a tag, else the latest; `None` if none exists.
    pub async fn find(
        &self,
        repo: &GitHubRepo,
        tag: Option<&str>,
        pre_releases: bool,
    ) -> Result<Option<Release>, ReleaseError> {
        let base = format!("{}/repos/{}/{}/releases", self.api, repo.owner, repo.repo);
        if let Some(tag) = tag {
            let tag = percent::encode(tag.as_bytes(), percent::PATH);
            return self.json(&format!("{base}/tags/{tag}")).await?.as_ref().map(release).transpose();
        }
        if !pre_releases && let Some(latest) = self.json(&format!("{base}/latest")).await? {
            return release(&latest).map(Some);
        }
        let newest = self.json(&format!("{base}?per_page=1")).await?;
        newest.as_ref().and_then(|all| all.get(0)).map(release).transpose()
    }

    /// Fetches a release's file.
    pub async fn download(&self, release: &Release, into: &Path) -> Result<(), ReleaseError> {
        let accept =
            if release.attached { "application/octet-stream" } else { "application/vnd.github+json" };
        let work = async {
            let mut response = self.get(&release.url, accept).await?;
            let status = response.status().as_u16();
            if status != 200 {
                return Err(ReleaseError::Status { url: release.url.clone(), status });
            }
            let write = |source| ReleaseError::Write { file: into.to_owned(), source };
            let mut file = tokio::fs::File::create(into).await.map_err(write)?;
            let mut total = 0;
            loop {
                let chunk = tokio::time::timeout(PATIENCE, response.chunk()).await;
                let chunk =
                    chunk.map_err(|_| silent(&release.url))?.map_err(|error| failed(&release.url, &error))?;
                let Some(chunk) = chunk else { break };
                total += chunk.len() as u64;
                if total > MAX_ARCHIVE {
                    return Err(ReleaseError::TooLarge { url: release.url.clone() });
                }
                file.write_all(&chunk).await.map_err(write)?;
            }
            file.flush().await.map_err(write)
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ReleaseError::Cancelled),
            done = work => done,
        }
    }

    /// The document at a URL; `None` if it does not exist.
    async fn json(&self, url: &str) -> Result<Option<Value>, ReleaseError> {
        let work = async {
            let mut response = self.get(url, "application/vnd.github+json").await?;
            match response.status().as_u16() {
                200 => {}
                404 => return Ok(None),
                status => return Err(ReleaseError::Status { url: url.to_owned(), status }),
            }
            let mut bytes = Vec::new();
            loop {
                let chunk = tokio::time::timeout(PATIENCE, response.chunk()).await;
                let chunk = chunk.map_err(|_| silent(url))?.map_err(|error| failed(url, &error))?;
                let Some(chunk) = chunk else { break };
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_JSON {
                    return Err(ReleaseError::Nonsense { url: url.to_owned() });
                }
            }
            serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|_| ReleaseError::Nonsense { url: url.to_owned() })
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ReleaseError::Cancelled),
            done = work => done,
        }
    }

    /// Follows redirects manually: the token is only for the API.
    async fn get(&self, url: &str, accept: &str) -> Result<Answer, ReleaseError> {
        let http = client(&self.http)?;
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = http.get(&url).header("accept", accept);
            if let Some(token) = self.token.as_deref().filter(|_| self.is_interface(&url)) {
                request = request.header("authorization", format!("token {token}"));
            }
            let answer = tokio::time::timeout(PATIENCE, request.send()).await.map_err(|_| silent(&url))?;
            let answer = answer.map_err(|error| failed(&url, &error))?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let target = answer.headers().get("location").and_then(|value| value.to_str().ok());
            let next = target.and_then(|target| answer.url().join(target).ok());
            let next = next.ok_or_else(|| ReleaseError::Nonsense { url: url.clone() })?.to_string();
            if url.starts_with("https://") && !next.starts_with("https://") {
                return Err(ReleaseError::Downgrade { url });
            }
            url = next;
        }
        Err(ReleaseError::Transport { url, reason: "too many redirects".to_owned() })
    }

    fn is_interface(&self, url: &str) -> bool {
        url.strip_prefix(&self.api).is_some_and(|rest| rest.starts_with('/'))
    }
}

type Answer = pollux_net::client::HttpResponse;

fn silent(url: &str) -> ReleaseError {
    let reason = format!("no response within {} s", PATIENCE.as_secs());
    ReleaseError::Transport { url: url.to_owned(), reason }
}

fn failed(url: &str, error: &pollux_net::client::HttpError) -> ReleaseError {
    ReleaseError::Transport { url: url.to_owned(), reason: describe(error).message }
}

fn release(found: &Value) -> Result<Release, ReleaseError> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let tag = text(found, "tag_name").unwrap_or_default();
    let assets: Vec<(String, String)> = found
        .get("assets")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|asset| Some((text(asset, "name")?, text(asset, "url")?)))
        .collect();
    let names: Vec<&str> = assets.iter().map(|(name, _)| name.as_str()).collect();
    let chosen = choose(&names, platform(), architecture()).and_then(|at| assets.get(at));
    let (url, attached) = match chosen {
        Some((_, url)) => (Some(url.clone()), true),
        None => (text(found, "tarball_url").or_else(|| text(found, "zipball_url")), false),
    };
    match url {
        Some(url) => Ok(Release { tag, url, attached }),
        None => Err(ReleaseError::NoFile { tag }),
    }
}

/// The file for this machine: by platform and processor, by platform, or the only one if it names neither.
fn choose(names: &[&str], platform: &str, architecture: &str) -> Option<usize> {
    let starting = |start: String| names.iter().position(|name| name.to_lowercase().starts_with(&start));
    let neutral =
        |name: &str| !["darwin", "linux", "win32"].iter().any(|word| name.to_lowercase().contains(word));
    // A file for another processor cannot be used.
    let of_platform = |name: &str| {
        let mut words = name.split('.').map(str::to_lowercase);
        words.next().as_deref() == Some(platform)
            && words.next().is_some_and(|word| !["arm", "arm64", "ia32", "x64"].contains(&word.as_str()))
    };
    starting(format!("{platform}.{architecture}."))
        .or_else(|| names.iter().position(|name| of_platform(name)))
        .or_else(|| matches!(names, [only] if neutral(only)).then_some(0))
}

/// Node's names for systems and processors.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_for_this_machine_is_chosen() {
        let all = ["linux.arm64.x.zip", "Linux.X64.x.tar.gz", "linux.x.tar.gz", "darwin.x64.x.zip"];
        for (names, platform, architecture, chosen) in [
            (&all[..], "linux", "x64", Some(1)),
            (&all[..], "linux", "s390x", Some(2)),
            (&all[..], "darwin", "arm64", None),
            (&["x.tar.gz"][..], "linux", "x64", Some(0)),
            (&["x-darwin.tar.gz"][..], "linux", "x64", None),
            (&["x.zip", "y.zip"][..], "linux", "x64", None),
            (&[][..], "linux", "x64", None),
        ] {
            assert_eq!(choose(names, platform, architecture), chosen, "{names:?} {platform}");
        }
    }

    #[test]
    fn a_tag_is_escaped_in_the_release_url() {
        assert_eq!(percent::encode("v1?x=#\n é".as_bytes(), percent::PATH), "v1%3Fx%3D%23%0A%20%C3%A9");
    }
}
