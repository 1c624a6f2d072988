//! Amazon S3 and servers that speak its protocol.

mod credentials;
mod parts;
mod profile;
mod sign;
mod xml;

use std::path::Path;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::time::Clock;
use pollux_net::client::HttpClient;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};

pub(crate) use credentials::AwsCredentials;

use crate::checksum::{Checksum, ChecksumKind, sha256};
use crate::fault::{Fault, header};
use crate::key::Key;
use crate::payload::{Payload, Sink};
use crate::port::{Condition, StoreErrorKind, Version};
use crate::remote::{Dialect, FoundObject, RawPage, Stamp, Stat, verify};
use crate::retry::{Attempted, Retry, Written};
use crate::wire::{StoreAnswer, begin, download, exchange, finish};

const MARK: &str = "x-amz-meta-pollux-write";
const CHECKSUM: &str = "x-amz-meta-pollux-sha256";
const DEFAULT_REGION: &str = "us-east-1";

/// A bucket, or a part of one.
pub(crate) struct S3 {
    pub(crate) http: HttpClient,
    pub(crate) credentials: AwsCredentials,
    pub(crate) clock: Arc<dyn Clock>,
    /// Of the bucket, with a slash at its end.
    pub(crate) base: Url,
    pub(crate) region: String,
    pub(crate) bucket: String,
    /// Empty, or with a slash at its end.
    pub(crate) prefix: String,
    pub(crate) max_object: u64,
}

/// A request before it is signed.
struct Call<'a> {
    method: Method,
    /// Name in the bucket; empty for the bucket itself.
    name: &'a str,
    query: &'a [(&'a str, &'a str)],
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl<'a> Call<'a> {
    fn new(method: Method, name: &'a str, query: &'a [(&'a str, &'a str)]) -> Self {
        Self { method, name, query, headers: Vec::new(), body: Vec::new() }
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn stamped(self, stamp: &Stamp) -> Self {
        self.header(MARK, &stamp.mark).header(CHECKSUM, &stamp.checksum)
    }

    fn conditional(self, condition: &Condition) -> Self {
        match condition {
            Condition::Any => self,
            Condition::Absent => self.header("if-none-match", "*"),
            Condition::Version(version) => self.header("if-match", version.as_str()),
        }
    }

    fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }
}

impl S3 {
    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Signs a call.
    async fn request(&self, call: Call<'_>) -> Result<(Request, sign::AwsKeys), Fault> {
        let keys = self.credentials.keys().await?;
        let mut url = self.base.join(call.name).map_err(|_| Fault::unusable("invalid address"))?;
        let query = sign::query(call.query);
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        let body_hash = sha256(&call.body);
        let now = self.clock.now();
        let mut headers: Vec<(String, String)> =
            call.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        headers.push(("x-amz-date".to_owned(), sign::stamp(now)));
        headers.push(("x-amz-content-sha256".to_owned(), body_hash.clone()));
        if let Some(token) = &keys.token {
            headers.push(("x-amz-security-token".to_owned(), token.reveal().to_owned()));
        }
        let what = sign::Signable {
            method: call.method.as_str(),
            url: &url,
            headers: &headers,
            body_hash: &body_hash,
            region: &self.region,
            now,
        };
        let authorization = sign::authorization(&what, &keys);
        headers.push(("authorization".to_owned(), authorization.reveal().to_owned()));
        let has_body = matches!(call.method, Method::PUT | Method::POST);
        let mut request = Request::new(call.method, url);
        for (name, value) in headers {
            let is_secret = matches!(name.as_str(), "authorization" | "x-amz-security-token");
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
                return Err(Fault::new(StoreErrorKind::Denied, "the credentials contain invalid characters"));
            };
            value.set_sensitive(is_secret);
            request.headers_mut().insert(name, value);
        }
        *request.body_mut() = has_body.then(|| call.body.into());
        Ok((request, keys))
    }

    async fn send(&self, call: Call<'_>) -> Result<StoreAnswer, Fault> {
        let (request, keys) = self.request(call).await?;
        let answer = exchange(&self.http, request).await?;
        self.forget_expired(&answer, &keys).await?;
        Ok(answer)
    }

    /// Keys from a service may end early; the next attempt asks for others.
    async fn forget_expired(&self, answer: &StoreAnswer, keys: &sign::AwsKeys) -> Result<(), Fault> {
        if keys.token.is_some() && code(answer).as_deref() == Some("ExpiredToken") {
            self.credentials.discard(keys).await;
            return Err(Fault::later("the credentials have expired"));
        }
        Ok(())
    }

    fn written(answer: &StoreAnswer, condition: &Condition) -> Result<Attempted, Fault> {
        match (answer.status, condition) {
            (200..300, _) => Ok(Attempted::Done(etag(answer)?)),
            (412, _) => Ok(Attempted::Refused),
            // The object to overwrite was deleted.
            (404, Condition::Version(_)) if code(answer).as_deref() == Some("NoSuchKey") => {
                Ok(Attempted::Refused)
            }
            _ => Err(fault(answer)),
        }
    }
}

impl Dialect for S3 {
    const CHECKSUM: ChecksumKind = ChecksumKind::Sha256;

    async fn fetch(&self, key: &Key, known: Option<&Version>, sink: &mut Sink) -> Result<FoundObject, Fault> {
        let name = self.name(key);
        let mut call = Call::new(Method::GET, &name, &[]);
        if let Some(version) = known {
            call = call.header("if-none-match", version.as_str());
        }
        let (request, keys) = self.request(call).await?;
        let response = begin(&self.http, request).await?;
        if response.status().as_u16() != 200 {
            let answer = finish(response).await?;
            self.forget_expired(&answer, &keys).await?;
            return match (answer.status, code(&answer).as_deref()) {
                (304, _) => Ok(FoundObject::Unchanged),
                (404, Some("NoSuchKey")) => Ok(FoundObject::Missing),
                _ => Err(fault(&answer)),
            };
        }
        let headers = response.headers().clone();
        let version = header(&headers, "etag").map(Version::new).ok_or_else(no_etag)?;
        let sum = download(response, sink, Checksum::new(Self::CHECKSUM), self.max_object).await?;
        verify(header(&headers, CHECKSUM), &sum)?;
        Ok(FoundObject::Object(version))
    }

    async fn stat(&self, key: &Key) -> Result<Option<Stat>, Fault> {
        let answer = self.send(Call::new(Method::HEAD, &self.name(key), &[])).await?;
        match answer.status {
            200 => {
                let mark = header(&answer.headers, MARK).map(str::to_owned);
                Ok(Some(Stat { version: etag(&answer)?, mark }))
            }
            404 => Ok(None),
            _ => Err(fault(&answer)),
        }
    }

    async fn write(
        &self,
        key: &Key,
        bytes: &[u8],
        stamp: &Stamp,
        condition: &Condition,
    ) -> Result<Attempted, Fault> {
        let name = self.name(key);
        let call = Call::new(Method::PUT, &name, &[]).stamped(stamp).conditional(condition);
        let call = call.header("content-type", media_type(key)).body(bytes.to_vec());
        Self::written(&self.send(call).await?, condition)
    }

    async fn write_parts(
        &self,
        key: &Key,
        payload: Payload<'_>,
        stamp: &Stamp,
        condition: &Condition,
        retry: &Retry,
    ) -> Result<Written, Fault> {
        parts::upload(self, key, payload, stamp, condition, retry).await
    }

    async fn remove(&self, key: &Key, condition: &Condition) -> Result<Attempted, Fault> {
        let name = self.name(key);
        let call = Call::new(Method::DELETE, &name, &[]).conditional(condition);
        let answer = self.send(call).await?;
        match (answer.status, code(&answer).as_deref()) {
            (200..300, _) => Ok(Attempted::Done(Version::new(""))),
            (412, _) => Ok(Attempted::Refused),
            (404, Some("NoSuchKey")) if *condition == Condition::Any => Ok(Attempted::Done(Version::new(""))),
            (404, Some("NoSuchKey")) => Ok(Attempted::Refused),
            _ => Err(fault(&answer)),
        }
    }

    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<RawPage, Fault> {
        let prefix = format!("{}{prefix}", self.prefix);
        let after = after.map(|after| format!("{}{after}", self.prefix));
        let limit = limit.to_string();
        let mut query = vec![("list-type", "2"), ("prefix", &prefix), ("max-keys", &limit)];
        if let Some(after) = &after {
            query.push(("start-after", after));
        }
        let answer = self.send(Call::new(Method::GET, "", &query)).await?;
        if answer.status != 200 {
            return Err(fault(&answer));
        }
        let text = String::from_utf8_lossy(&answer.body);
        let mut page = RawPage { entries: Vec::new(), more: false };
        page.more = xml::text(&text, "IsTruncated").as_deref() == Some("true");
        for object in xml::elements(&text, "Contents") {
            let (Some(name), Some(tag)) = (xml::text(object, "Key"), xml::text(object, "ETag")) else {
                return Err(Fault::unusable("invalid listing"));
            };
            let size = xml::text(object, "Size").and_then(|size| size.parse().ok()).unwrap_or(0);
            if let Some(name) = name.strip_prefix(&self.prefix) {
                page.entries.push((name.to_owned(), Version::new(tag), size));
            }
        }
        Ok(page)
    }

    async fn ensure_bucket(&self) -> Result<(), Fault> {
        let answer = self.send(Call::new(Method::HEAD, "", &[])).await?;
        match answer.status {
            200..=299 => return Ok(()),
            404 => {}
            301 | 307 | 400 => {
                if let Some(region) = header(&answer.headers, "x-amz-bucket-region") {
                    let region = crate::fault::tame(region);
                    return Err(Fault::unusable(format!(
                        "the bucket is in region `{region}`; add `?region={region}`"
                    )));
                }
                return Err(fault(&answer));
            }
            _ => return Err(fault(&answer)),
        }
        let mut call = Call::new(Method::PUT, "", &[]);
        if self.region != DEFAULT_REGION {
            let place = xml::encode(&self.region);
            let body = format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{place}</LocationConstraint></CreateBucketConfiguration>"
            );
            call = call.body(body.into_bytes());
        }
        let answer = self.send(call).await?;
        match (answer.status, code(&answer).as_deref()) {
            (200..300, _) | (409, Some("BucketAlreadyOwnedByYou")) => Ok(()),
            _ => Err(fault(&answer)),
        }
    }

    fn place(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }
}

/// The region that the variables or the profile name.
pub(crate) fn usual_region(env: &Env, user_home: &Path, profile: Option<&str>) -> String {
    let variables = ["AWS_REGION", "AWS_DEFAULT_REGION"];
    let named = variables.iter().find_map(|name| env.non_empty(name)).map(str::to_owned);
    let profile = profile.or_else(|| env.non_empty("AWS_PROFILE")).unwrap_or("default");
    // What is wrong with the files is said when the keys are asked for.
    let in_files = || profile::read(env, user_home, profile).ok()?.region;
    named.or_else(in_files).unwrap_or_else(|| DEFAULT_REGION.to_owned())
}

/// What upstream's server says of its archives.
pub(crate) fn media_type(key: &Key) -> &'static str {
    if key.as_str().ends_with(".gz") { "application/gzip" } else { "application/octet-stream" }
}

fn etag(answer: &StoreAnswer) -> Result<Version, Fault> {
    header(&answer.headers, "etag").map(Version::new).ok_or_else(no_etag)
}

fn no_etag() -> Fault {
    Fault::unusable("the server returned no ETag")
}

fn code(answer: &StoreAnswer) -> Option<String> {
    if answer.status < 300 {
        return None;
    }
    xml::text(&String::from_utf8_lossy(&answer.body), "Code")
}

fn fault(answer: &StoreAnswer) -> Fault {
    Fault::of_status(answer.status, code(answer).as_deref())
}
