//! Uploads of large objects in parts.

use reqwest::Method;

use super::{Call, S3, code, fault, media_type, xml};
use crate::fault::{Fault, header};
use crate::key::Key;
use crate::payload::{PART, Payload};
use crate::port::{Condition, Version};
use crate::remote::{Stamp, own_version};
use crate::retry::{Attempted, Retry, Written};

/// Sends the parts one after another; only the last request makes the object, under its condition.
pub(super) async fn upload(
    s3: &S3,
    key: &Key,
    payload: Payload<'_>,
    stamp: &Stamp,
    condition: &Condition,
    retry: &Retry,
) -> Result<Written, Fault> {
    let upload = retry.run(|| begin(s3, key, stamp)).await?;
    let sent = send(s3, key, payload, &upload, retry).await;
    let written = match sent {
        Ok(tags) => {
            let list = completion(&tags);
            let complete = || complete(s3, key, &upload, &list, condition);
            retry.write(complete, || own_version(s3, key, stamp)).await
        }
        Err(fault) => Err(fault),
    };
    if !matches!(written, Ok(Written::Done(_))) {
        // Parts that stay would be paid for. A bucket may also have a rule that removes them.
        let _ = s3.send(Call::new(Method::DELETE, &s3.name(key), &[("uploadId", &upload)])).await;
    }
    written
}

async fn begin(s3: &S3, key: &Key, stamp: &Stamp) -> Result<String, Fault> {
    let name = s3.name(key);
    let call = Call::new(Method::POST, &name, &[("uploads", "")]).stamped(stamp);
    let answer = s3.send(call.header("content-type", media_type(key))).await?;
    if answer.status != 200 {
        return Err(fault(&answer));
    }
    let id = xml::text(&String::from_utf8_lossy(&answer.body), "UploadId");
    id.ok_or_else(|| Fault::unusable("the server returned no upload id"))
}

async fn send(
    s3: &S3,
    key: &Key,
    payload: Payload<'_>,
    upload: &str,
    retry: &Retry,
) -> Result<Vec<String>, Fault> {
    let name = s3.name(key);
    let mut tags = Vec::new();
    let mut offset = 0;
    while offset < payload.size() {
        let part = payload.part(offset).await;
        let part = part.map_err(|error| Fault::unusable(format!("could not read the file: {error}")))?;
        let number = (tags.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", upload)];
        let attempt = || async {
            let answer = s3.send(Call::new(Method::PUT, &name, &query).body(part.clone())).await?;
            match answer.status {
                200 => header(&answer.headers, "etag").map(str::to_owned).ok_or_else(super::no_etag),
                _ => Err(fault(&answer)),
            }
        };
        tags.push(retry.run(attempt).await?);
        offset += PART;
    }
    Ok(tags)
}

fn completion(tags: &[String]) -> String {
    let part = |(index, tag): (usize, &String)| {
        let number = index + 1;
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>", xml::encode(tag))
    };
    let parts: String = tags.iter().enumerate().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

async fn complete(
    s3: &S3,
    key: &Key,
    upload: &str,
    list: &str,
    condition: &Condition,
) -> Result<Attempted, Fault> {
    let name = s3.name(key);
    let query = [("uploadId", upload)];
    let call = Call::new(Method::POST, &name, &query).conditional(condition);
    let answer =
        s3.send(call.header("content-type", "application/xml").body(list.as_bytes().to_vec())).await?;
    let text = String::from_utf8_lossy(&answer.body);
    match (answer.status, code(&answer).as_deref()) {
        // The status is sent before the work is done: a failure may follow in the body.
        (200, _) if text.contains("<Error>") => {
            Err(Fault::of_status(500, xml::text(&text, "Code").as_deref()))
        }
        (200, _) => {
            let tag = xml::text(&text, "ETag").ok_or_else(super::no_etag)?;
            Ok(Attempted::Done(Version::new(tag)))
        }
        (404, Some("NoSuchUpload")) => Ok(Attempted::Gone),
        _ => S3::written(&answer, condition),
    }
}
