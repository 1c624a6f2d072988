//! The dialect of S3, with buckets in the path.

use serde_json::Value;

use super::{Object, State, Upload, listed};
use crate::http::{HttpAnswer, HttpRequest};

pub(super) fn serve(state: &mut State, request: &HttpRequest) -> HttpAnswer {
    let signed = request.header("authorization").is_some_and(|value| {
        value.starts_with("AWS4-HMAC-SHA256 Credential=") && value.contains("x-amz-content-sha256")
    });
    if !signed || request.header("x-amz-date").is_none() {
        return error(403, "AccessDenied");
    }
    let path = request.path.trim_start_matches('/');
    let (bucket, name) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() && request.method == "PUT" {
        let is_new = state.buckets.insert(bucket.to_owned());
        return if is_new { HttpAnswer::status(200) } else { error(409, "BucketAlreadyOwnedByYou") };
    }
    if !state.buckets.contains(bucket) {
        return error(404, "NoSuchBucket");
    }
    let place = (bucket.to_owned(), name.to_owned());
    let upload = request.parameter("uploadId");
    match (request.method.as_str(), name.is_empty()) {
        ("HEAD", true) => HttpAnswer::status(200),
        ("GET", true) => list(state, bucket, request),
        ("GET" | "HEAD", false) => match state.objects.get(&place) {
            None => error(404, "NoSuchKey"),
            Some(object) if request.header("if-none-match") == Some(&object.etag) => HttpAnswer::status(304),
            Some(object) => described(object).body(object.bytes.clone()),
        },
        ("PUT", false) => match upload {
            Some(id) => part(state, &id, request),
            None => put(state, bucket, name, request),
        },
        ("POST", false) => match upload {
            Some(id) => complete(state, &id, request),
            None => begin(state, bucket, name, request),
        },
        ("DELETE", false) => match upload {
            Some(id) => {
                state.uploads.remove(&id);
                HttpAnswer::status(204)
            }
            None => match refusal(state, state.objects.get(&place), request) {
                Some(refusal) => refusal,
                None => {
                    state.objects.remove(&place);
                    HttpAnswer::status(204)
                }
            },
        },
        _ => error(405, "MethodNotAllowed"),
    }
}

fn kept(request: &HttpRequest) -> Vec<(String, String)> {
    request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-meta-")).cloned().collect()
}

fn described(object: &Object) -> HttpAnswer {
    let answer = HttpAnswer::status(200).header("etag", &object.etag);
    object.headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value))
}

fn refusal(state: &State, present: Option<&Object>, request: &HttpRequest) -> Option<HttpAnswer> {
    if state.ignores_conditions {
        return None;
    }
    if request.header("if-none-match") == Some("*") && present.is_some() {
        return Some(error(412, "PreconditionFailed"));
    }
    let wanted = request.header("if-match")?;
    match present {
        None => Some(error(404, "NoSuchKey")),
        Some(object) if object.etag != wanted => Some(error(412, "PreconditionFailed")),
        Some(_) => None,
    }
}

fn put(state: &mut State, bucket: &str, name: &str, request: &HttpRequest) -> HttpAnswer {
    let place = (bucket.to_owned(), name.to_owned());
    if let Some(refusal) = refusal(state, state.objects.get(&place), request) {
        return refusal;
    }
    let object = state.write(bucket, name, request.body.clone(), kept(request), Value::Null);
    HttpAnswer::status(200).header("etag", &object.etag)
}

fn begin(state: &mut State, bucket: &str, name: &str, request: &HttpRequest) -> HttpAnswer {
    let id = format!("upload-{}", state.number());
    let upload = Upload {
        bucket: bucket.to_owned(),
        name: name.to_owned(),
        parts: Default::default(),
        condition: None,
        headers: kept(request),
        metadata: Value::Null,
    };
    state.uploads.insert(id.clone(), upload);
    HttpAnswer::status(200).body(format!("<R><UploadId>{id}</UploadId></R>"))
}

fn part(state: &mut State, id: &str, request: &HttpRequest) -> HttpAnswer {
    let Some(upload) = state.uploads.get_mut(id) else { return error(404, "NoSuchUpload") };
    let number = request.parameter("partNumber").and_then(|text| text.parse().ok()).unwrap_or(0);
    upload.parts.insert(number, request.body.clone());
    HttpAnswer::status(200).header("etag", &format!("\"part-{number}\""))
}

fn complete(state: &mut State, id: &str, request: &HttpRequest) -> HttpAnswer {
    let Some(upload) = state.uploads.get(id) else { return error(404, "NoSuchUpload") };
    let place = (upload.bucket.clone(), upload.name.clone());
    if let Some(refusal) = refusal(state, state.objects.get(&place), request) {
        return refusal;
    }
    let wanted = String::from_utf8_lossy(&request.body).matches("<Part>").count();
    let Some(upload) = state.uploads.remove(id) else { return error(404, "NoSuchUpload") };
    assert_eq!(wanted, upload.parts.len(), "every part is named at the end");
    let bytes: Vec<u8> = upload.parts.into_values().flatten().collect();
    let object = state.write(&upload.bucket, &upload.name, bytes, upload.headers, Value::Null);
    HttpAnswer::status(200).body(format!("<R><ETag>{}</ETag></R>", object.etag.replace('"', "&quot;")))
}

fn list(state: &State, bucket: &str, request: &HttpRequest) -> HttpAnswer {
    let parameter = |name: &str| request.parameter(name).unwrap_or_default();
    let limit = parameter("max-keys").parse().unwrap_or(1000);
    let after = parameter("start-after");
    let (found, more) = listed(state, bucket, &parameter("prefix"), limit, |name| name > after.as_str());
    let entry = |(name, object): &(String, Object)| {
        let (name, tag, size) = (escaped(name), escaped(&object.etag), object.bytes.len());
        format!("<Contents><Key>{name}</Key><ETag>{tag}</ETag><Size>{size}</Size></Contents>")
    };
    let entries: String = found.iter().map(entry).collect();
    HttpAnswer::status(200).body(format!("<R><IsTruncated>{more}</IsTruncated>{entries}</R>"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

fn error(status: u16, code: &str) -> HttpAnswer {
    HttpAnswer::status(status).body(format!("<Error><Code>{code}</Code><Message>no</Message></Error>"))
}
