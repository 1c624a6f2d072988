//! One HTTP exchange with a store, bounded in time and size.

use std::future::Future;
use std::time::Duration;

use pollux_net::client::{HttpClient, HttpResponse};
use pollux_net::transport;
use reqwest::Request;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};

use crate::checksum::Checksum;
use crate::fault::Fault;
use crate::payload::Sink;

/// How long the server may take to begin its response, and between two pieces of it.
const SILENCE: Duration = Duration::from_secs(20);
/// Additional time for each MiB that is sent.
const PER_MIB: Duration = Duration::from_secs(4);
/// Largest response that is not an object.
const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// A response that is not an object.
#[derive(Debug)]
pub(crate) struct StoreAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends a request. The body of the response is not read yet.
pub(crate) async fn begin(http: &HttpClient, mut request: Request) -> Result<HttpResponse, Fault> {
    // Objects are stored as they are; nothing on the way should recode them.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let sent = request.body().and_then(|body| body.as_bytes()).map_or(0, <[u8]>::len);
    let mib = u32::try_from(sent >> 20).unwrap_or(u32::MAX);
    within(SILENCE + PER_MIB.saturating_mul(mib), http.execute(request)).await
}

/// Sends a request and reads its whole response.
pub(crate) async fn exchange(http: &HttpClient, request: Request) -> Result<StoreAnswer, Fault> {
    finish(begin(http, request).await?).await
}

/// Reads the rest of a response that is not an object.
pub(crate) async fn finish(mut response: HttpResponse) -> Result<StoreAnswer, Fault> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = within(SILENCE, response.chunk()).await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(Fault::unusable("the response exceeds the size limit"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(StoreAnswer { status, headers, body })
}

/// Reads an object of at most `limit` bytes.
pub(crate) async fn download(
    mut response: HttpResponse,
    sink: &mut Sink,
    mut sum: Checksum,
    limit: u64,
) -> Result<String, Fault> {
    let announced = response.content_length();
    let too_large = || Fault::unusable(format!("the object is larger than {} MiB", limit >> 20));
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut size = 0;
    while let Some(chunk) = within(SILENCE, response.chunk()).await? {
        size += chunk.len() as u64;
        if size > limit {
            return Err(too_large());
        }
        sum.update(&chunk);
        let written = sink.write(&chunk).await;
        written.map_err(|error| Fault::unusable(format!("could not write the file: {error}")))?;
    }
    if announced.is_some_and(|length| length != size) {
        return Err(Fault::later("the object arrived incomplete"));
    }
    Ok(sum.finish())
}

async fn within<T>(
    time: Duration,
    action: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(time, action).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            let failure = transport::describe(&error);
            Err(if failure.may_pass {
                Fault::later(failure.message)
            } else {
                Fault::unusable(failure.message)
            })
        }
        Err(_) => Err(Fault::later(format!("no response within {} s", time.as_secs()))),
    }
}
