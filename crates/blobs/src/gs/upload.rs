//! Uploads of large objects in a session that can be resumed.

use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName};
use reqwest::{Method, Url};

use super::{Call, Gs, fault};
use crate::fault::{Fault, header};
use crate::key::Key;
use crate::payload::{PART, Payload};
use crate::port::Condition;
use crate::remote::{Stamp, own_version};
use crate::retry::{Attempted, Retry, Written};
use crate::wire::StoreAnswer;

/// Parameters of a write with its condition.
pub(super) fn query<'a>(own: &[(&'a str, &'a str)], condition: &'a Condition) -> Vec<(&'a str, &'a str)> {
    let mut query = own.to_vec();
    match condition {
        Condition::Any => {}
        Condition::Absent => query.push(("ifGenerationMatch", "0")),
        Condition::Version(version) => query.push(("ifGenerationMatch", version.as_str())),
    }
    query
}

/// How far an upload is.
enum Progress {
    /// The server has so many bytes.
    At(u64),
    Ended(Attempted),
}

/// Sends the parts one after another; the object exists from the last one on.
pub(super) async fn upload(
    gs: &Gs,
    key: &Key,
    payload: Payload<'_>,
    stamp: &Stamp,
    condition: &Condition,
    retry: &Retry,
) -> Result<Written, Fault> {
    let session = match retry.run(|| begin(gs, key, payload.size(), stamp, condition)).await? {
        Some(session) => session,
        None => return Ok(Written::Refused),
    };
    let size = payload.size();
    let mut offset = 0;
    // Every part but the last only moves on: repeating it is harmless, and the server says how far it is.
    while size - offset > PART {
        let part = read(payload, offset).await?;
        let attempt = || async {
            let answer = gs.send(piece(&session, offset, size, part.clone())).await;
            match answer {
                Ok(answer) => progress(&answer, condition),
                Err(fault) => match gs.send(question(&session, size)).await {
                    Ok(answer) if answer.status == 308 => progress(&answer, condition),
                    Ok(_) | Err(_) => Err(fault),
                },
            }
        };
        match retry.run(attempt).await? {
            Progress::At(next) if next > offset && next <= offset + PART => offset = next,
            Progress::At(_) => return Err(Fault::later("the upload does not advance")),
            Progress::Ended(Attempted::Refused) => return Ok(Written::Refused),
            Progress::Ended(Attempted::Done(_) | Attempted::Gone) => {
                return Err(Fault::later("the upload ended early"));
            }
        }
    }
    let last = read(payload, offset).await?;
    let attempt = || async {
        match progress(&gs.send(piece(&session, offset, size, last.clone())).await?, condition)? {
            Progress::Ended(ended) => Ok(ended),
            Progress::At(_) => Err(Fault::later("the upload is incomplete")),
        }
    };
    retry.write(attempt, || own_version(gs, key, stamp)).await
}

/// Opens a session; `None` if the condition is refused already.
async fn begin(
    gs: &Gs,
    key: &Key,
    size: u64,
    stamp: &Stamp,
    condition: &Condition,
) -> Result<Option<Url>, Fault> {
    let query = query(&[("uploadType", "resumable")], condition);
    let url = gs.url("/upload/storage/v1/b", &[&gs.bucket, "o"], &query)?;
    let call = Call::new(Method::POST, url)
        .header(CONTENT_TYPE, "application/json; charset=UTF-8")
        .header(HeaderName::from_static("x-upload-content-type"), crate::s3::media_type(key))
        .header(HeaderName::from_static("x-upload-content-length"), size.to_string())
        .body(gs.metadata(key, stamp).to_string().into_bytes());
    let answer = gs.send(call).await?;
    match answer.status {
        200 | 201 => {}
        412 => return Ok(None),
        _ => return Err(fault(&answer)),
    }
    let session = header(&answer.headers, "location").and_then(|text| gs.base.join(text).ok());
    let session = session.ok_or_else(|| Fault::unusable("the server did not start an upload"))?;
    // The token goes along, and so does the content.
    if session.origin() != gs.base.origin() {
        return Err(Fault::unusable("the server redirected the upload to another server"));
    }
    Ok(Some(session))
}

async fn read(payload: Payload<'_>, offset: u64) -> Result<Vec<u8>, Fault> {
    let part = payload.part(offset).await;
    part.map_err(|error| Fault::unusable(format!("could not read the file: {error}")))
}

fn piece(session: &Url, offset: u64, size: u64, part: Vec<u8>) -> Call {
    let end = offset + (part.len() as u64).saturating_sub(1);
    Call::new(Method::PUT, session.clone())
        .header(CONTENT_RANGE, format!("bytes {offset}-{end}/{size}"))
        .body(part)
}

/// Asks how far an upload is.
fn question(session: &Url, size: u64) -> Call {
    Call::new(Method::PUT, session.clone()).header(CONTENT_RANGE, format!("bytes */{size}"))
}

fn progress(answer: &StoreAnswer, condition: &Condition) -> Result<Progress, Fault> {
    match answer.status {
        308 => {
            // `bytes=0-8388607`; without it the server has nothing yet.
            let last = header(&answer.headers, "range").and_then(|range| range.rsplit_once('-'));
            let last = last.and_then(|(_, last)| last.trim().parse::<u64>().ok());
            Ok(Progress::At(last.map_or(0, |last| last.saturating_add(1))))
        }
        404 | 410 => Ok(Progress::Ended(Attempted::Gone)),
        _ => Gs::written(answer, condition).map(Progress::Ended),
    }
}
