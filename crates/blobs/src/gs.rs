//! Google Cloud Storage, through its JSON API.

mod upload;

use pollux_config::groups::Secret;
use pollux_domain::percent::{UNRESERVED, encode};
use pollux_net::client::{HttpClient, HttpResponse};
use pollux_net::google::{GoogleError, GoogleTokens};
use pollux_net::server_access::bearer;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use serde_json::{Value, json};

use crate::checksum::{Checksum, ChecksumKind};
use crate::fault::{Fault, header};
use crate::key::Key;
use crate::payload::{Payload, Sink};
use crate::port::{Condition, StoreErrorKind, Version};
use crate::remote::{Dialect, FoundObject, RawPage, Stamp, Stat, verify};
use crate::retry::{Attempted, Retry, Written};
use crate::wire::{StoreAnswer, begin, download, finish};

pub(crate) const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.full_control";
pub(crate) const SERVER: &str = "https://storage.googleapis.com";
const MARK: &str = "pollux-write";

/// A bucket, or a part of one.
pub(crate) struct Gs {
    pub(crate) http: HttpClient,
    pub(crate) access: Access,
    /// Scheme, host and port.
    pub(crate) base: Url,
    pub(crate) bucket: String,
    /// Empty, or with a slash at its end.
    pub(crate) prefix: String,
    /// Where a missing bucket is created.
    pub(crate) project: Option<String>,
    pub(crate) max_object: u64,
}

/// Who asks.
pub(crate) enum Access {
    /// An emulator gets no token.
    Emulator,
    Tokens(GoogleTokens),
    /// No credentials were found; said at the first request.
    Missing(String),
}

/// A request before it has a token.
struct Call {
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, String)>,
    body: Vec<u8>,
}

impl Call {
    fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: Vec::new(), body: Vec::new() }
    }

    fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }
}

impl Gs {
    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// An address below the server: segments and parameters are encoded.
    fn url(&self, above: &str, segments: &[&str], query: &[(&str, &str)]) -> Result<Url, Fault> {
        let segments: Vec<String> =
            segments.iter().map(|segment| encode(segment.as_bytes(), UNRESERVED)).collect();
        let path = format!("{above}/{}", segments.join("/"));
        let mut url =
            self.base.join(path.trim_end_matches('/')).map_err(|_| Fault::unusable("invalid address"))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    fn object_url(&self, key: &Key, query: &[(&str, &str)]) -> Result<Url, Fault> {
        self.url("/storage/v1/b", &[&self.bucket, "o", &self.name(key)], query)
    }

    /// A request with a token, and that token.
    async fn request(&self, call: &Call) -> Result<(Request, Option<Secret>), Fault> {
        let mut request = Request::new(call.method.clone(), call.url.clone());
        for (name, value) in &call.headers {
            let value = HeaderValue::from_str(value).map_err(|_| Fault::unusable("invalid header"))?;
            request.headers_mut().insert(name, value);
        }
        if matches!(call.method, Method::PUT | Method::POST) {
            *request.body_mut() = Some(call.body.clone().into());
        }
        let token = match &self.access {
            Access::Emulator => None,
            Access::Missing(why) => return Err(Fault::new(StoreErrorKind::Denied, why)),
            Access::Tokens(tokens) => {
                let token = tokens.token().await.map_err(|error| no_token(&error))?;
                if let Some(value) = bearer(&token) {
                    request.headers_mut().insert(AUTHORIZATION, value);
                }
                if let Some(Ok(payer)) = tokens.quota_project().map(HeaderValue::from_str) {
                    request.headers_mut().insert("x-goog-user-project", payer);
                }
                Some(token)
            }
        };
        Ok((request, token))
    }

    /// Sends a call; once more with another token if the first is refused, since it may have been revoked early.
    async fn begin(&self, call: &Call) -> Result<HttpResponse, Fault> {
        let (request, token) = self.request(call).await?;
        let response = begin(&self.http, request).await?;
        match (response.status().as_u16(), &self.access, token) {
            (401, Access::Tokens(tokens), Some(token)) => {
                tokens.discard(&token).await;
                begin(&self.http, self.request(call).await?.0).await
            }
            _ => Ok(response),
        }
    }

    async fn send(&self, call: Call) -> Result<StoreAnswer, Fault> {
        finish(self.begin(&call).await?).await
    }

    fn written(answer: &StoreAnswer, condition: &Condition) -> Result<Attempted, Fault> {
        match (answer.status, condition) {
            (200 | 201, _) => Ok(Attempted::Done(generation(&json_of(answer))?)),
            (412, _) => Ok(Attempted::Refused),
            _ => Err(fault(answer)),
        }
    }

    fn metadata(&self, key: &Key, stamp: &Stamp) -> Value {
        json!({
            "name": self.name(key),
            "contentType": crate::s3::media_type(key),
            "crc32c": stamp.checksum,
            "metadata": {MARK: stamp.mark},
        })
    }

    /// Of an object whose media carries no generation: two requests that name one generation.
    async fn fetch_by_metadata(
        &self,
        key: &Key,
        known: Option<&Version>,
        sink: &mut Sink,
    ) -> Result<FoundObject, Fault> {
        let Some(stat) = self.stat(key).await? else { return Ok(FoundObject::Missing) };
        if known == Some(&stat.version) {
            return Ok(FoundObject::Unchanged);
        }
        let url = self.object_url(key, &[("alt", "media"), ("generation", stat.version.as_str())])?;
        let response = self.begin(&Call::new(Method::GET, url)).await?;
        if response.status().as_u16() != 200 {
            return Err(fault(&finish(response).await?));
        }
        download(response, sink, Checksum::new(Self::CHECKSUM), self.max_object).await?;
        Ok(FoundObject::Object(stat.version))
    }
}

impl Dialect for Gs {
    const CHECKSUM: ChecksumKind = ChecksumKind::Crc32c;

    async fn fetch(&self, key: &Key, known: Option<&Version>, sink: &mut Sink) -> Result<FoundObject, Fault> {
        let mut query = vec![("alt", "media")];
        if let Some(version) = known {
            query.push(("ifGenerationNotMatch", version.as_str()));
        }
        let response = self.begin(&Call::new(Method::GET, self.object_url(key, &query)?)).await?;
        let status = response.status().as_u16();
        if status != 200 {
            let answer = finish(response).await?;
            return match status {
                304 => Ok(FoundObject::Unchanged),
                404 if !is_bucket_missing(&answer) => Ok(FoundObject::Missing),
                _ => Err(fault(&answer)),
            };
        }
        let headers = response.headers().clone();
        let Some(version) = header(&headers, "x-goog-generation").map(Version::new) else {
            drop(response);
            return self.fetch_by_metadata(key, known, sink).await;
        };
        let sum = download(response, sink, Checksum::new(Self::CHECKSUM), self.max_object).await?;
        let hashes = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
        let mut hashes = hashes.flat_map(|value| value.split(',')).map(str::trim);
        // Content that the server unpacked on its way has another sum than the stored one.
        let is_stored =
            header(&headers, "x-goog-stored-content-encoding").is_none_or(|coding| coding == "identity");
        let expected = hashes.find_map(|hash| hash.strip_prefix("crc32c=")).filter(|_| is_stored);
        verify(expected, &sum)?;
        Ok(FoundObject::Object(version))
    }

    async fn stat(&self, key: &Key) -> Result<Option<Stat>, Fault> {
        let answer = self.send(Call::new(Method::GET, self.object_url(key, &[])?)).await?;
        match answer.status {
            200 => {
                let object = json_of(&answer);
                let mark = object.get("metadata").and_then(|map| map.get(MARK)).and_then(Value::as_str);
                Ok(Some(Stat { version: generation(&object)?, mark: mark.map(str::to_owned) }))
            }
            404 if !is_bucket_missing(&answer) => Ok(None),
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
        let query = upload::query(&[("uploadType", "multipart")], condition);
        let url = self.url("/upload/storage/v1/b", &[&self.bucket, "o"], &query)?;
        // Random, so that no content contains it.
        let boundary = &stamp.mark;
        let head = format!(
            "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{}\r\n\
             --{boundary}\r\nContent-Type: {}\r\n\r\n",
            self.metadata(key, stamp),
            crate::s3::media_type(key)
        );
        let mut body = head.into_bytes();
        body.extend_from_slice(bytes);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let call = Call::new(Method::POST, url)
            .header(CONTENT_TYPE, format!("multipart/related; boundary={boundary}"))
            .body(body);
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
        upload::upload(self, key, payload, stamp, condition, retry).await
    }

    async fn remove(&self, key: &Key, condition: &Condition) -> Result<Attempted, Fault> {
        let query = upload::query(&[], condition);
        let answer = self.send(Call::new(Method::DELETE, self.object_url(key, &query)?)).await?;
        match answer.status {
            200..300 => Ok(Attempted::Done(Version::new(""))),
            412 => Ok(Attempted::Refused),
            404 if is_bucket_missing(&answer) => Err(fault(&answer)),
            404 if *condition == Condition::Any => Ok(Attempted::Done(Version::new(""))),
            404 => Ok(Attempted::Refused),
            _ => Err(fault(&answer)),
        }
    }

    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<RawPage, Fault> {
        let prefix = format!("{}{prefix}", self.prefix);
        // The first name that follows: `!` sorts before everything that a key may contain.
        let after = after.map(|after| format!("{}{after}!", self.prefix));
        let limit = limit.to_string();
        let fields = "items(name,generation,size),nextPageToken";
        let mut query = vec![("prefix", prefix.as_str()), ("maxResults", &limit), ("fields", fields)];
        if let Some(after) = &after {
            query.push(("startOffset", after));
        }
        let url = self.url("/storage/v1/b", &[&self.bucket, "o"], &query)?;
        let answer = self.send(Call::new(Method::GET, url)).await?;
        if answer.status != 200 {
            let missing = answer.status == 404;
            return Err(if missing { no_bucket() } else { fault(&answer) });
        }
        let list = json_of(&answer);
        let mut page = RawPage { entries: Vec::new(), more: list.get("nextPageToken").is_some() };
        for object in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            let name = object.get("name").and_then(Value::as_str).unwrap_or_default();
            let size = object.get("size").and_then(Value::as_str).and_then(|size| size.parse().ok());
            if let Some(name) = name.strip_prefix(&self.prefix) {
                page.entries.push((name.to_owned(), generation(object)?, size.unwrap_or(0)));
            }
        }
        Ok(page)
    }

    async fn ensure_bucket(&self) -> Result<(), Fault> {
        // A listing needs fewer rights than the bucket's own data.
        match self.page("", None, 1).await {
            Err(fault) if fault.kind == StoreErrorKind::NoBucket => {}
            other => return other.map(drop),
        }
        let Some(project) = self.project.as_deref() else {
            return Err(Fault::new(
                StoreErrorKind::NoBucket,
                "the bucket does not exist; set GOOGLE_CLOUD_PROJECT to have it created",
            ));
        };
        let url = self.url("/storage/v1/b", &[], &[("project", project)])?;
        let body = json!({"name": self.bucket}).to_string().into_bytes();
        let call = Call::new(Method::POST, url).header(CONTENT_TYPE, "application/json").body(body);
        let answer = self.send(call).await?;
        match answer.status {
            200..300 => Ok(()),
            // Another process was faster, unless the name belongs to a stranger.
            409 => self.page("", None, 1).await.map(drop),
            _ => Err(fault(&answer)),
        }
    }

    fn place(&self) -> String {
        format!("gs://{}/{}", self.bucket, self.prefix)
    }
}

fn json_of(answer: &StoreAnswer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

fn generation(object: &Value) -> Result<Version, Fault> {
    let text = match object.get("generation") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return Err(Fault::unusable("the server returned no generation")),
    };
    Ok(Version::new(text))
}

/// The service has one status for a missing object and a missing bucket, and only its text tells them apart.
fn is_bucket_missing(answer: &StoreAnswer) -> bool {
    let value = json_of(answer);
    let message = value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    message.is_some_and(|message| message.contains("bucket does not exist"))
}

fn no_bucket() -> Fault {
    Fault::new(StoreErrorKind::NoBucket, "the bucket does not exist")
}

fn fault(answer: &StoreAnswer) -> Fault {
    if answer.status == 404 && is_bucket_missing(answer) {
        return no_bucket();
    }
    let value = json_of(answer);
    let errors = value.get("error").and_then(|error| error.get("errors")).and_then(Value::as_array);
    let reason = errors.and_then(|errors| errors.first()?.get("reason")?.as_str());
    Fault::of_status(answer.status, reason)
}

fn no_token(error: &GoogleError) -> Fault {
    let kind = if error.may_pass() { StoreErrorKind::Unavailable } else { StoreErrorKind::Denied };
    Fault::new(kind, error.to_string())
}
