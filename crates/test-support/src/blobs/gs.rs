//! The dialect of Google's JSON API.

use serde_json::{Value, json};

use super::{Object, State, Upload, listed};
use crate::http::{HttpAnswer, HttpRequest};

pub(super) fn serve(state: &mut State, url: &str, request: &HttpRequest) -> HttpAnswer {
    let is_upload = request.path.starts_with("/upload/");
    let path = request.path.trim_start_matches("/upload").trim_start_matches("/storage/v1/b");
    let segments: Vec<String> =
        path.split('/').filter(|part| !part.is_empty()).map(|part| part.replace("%2F", "/")).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let (true, Some(id)) = (is_upload, request.parameter("upload_id")) {
        return piece(state, &id, request);
    }
    match (request.method.as_str(), segments.as_slice()) {
        ("POST", []) => {
            let name = request.json()["name"].as_str().unwrap_or_default().to_owned();
            if state.buckets.insert(name) { HttpAnswer::json(&json!({})) } else { HttpAnswer::status(409) }
        }
        (_, [bucket, ..]) if !state.buckets.contains(*bucket) => {
            let message = "The specified bucket does not exist.";
            HttpAnswer::json(&json!({"error": {"code": 404, "message": message}})).with_status(404)
        }
        ("POST", [bucket, "o"]) if is_upload => match request.parameter("uploadType").as_deref() {
            Some("multipart") => put(state, bucket, request),
            Some("resumable") => begin(state, bucket, url, request),
            _ => HttpAnswer::status(400),
        },
        ("GET", [bucket, "o"]) => list(state, bucket, request),
        ("GET", [bucket, "o", name]) => get(state, bucket, name, request),
        ("DELETE", [bucket, "o", name]) => {
            let place = ((*bucket).to_owned(), (*name).to_owned());
            if !state.objects.contains_key(&place) {
                return HttpAnswer::status(404);
            }
            if is_refused(state, &place, condition(request)) {
                return HttpAnswer::status(412);
            }
            state.objects.remove(&place);
            HttpAnswer::status(204)
        }
        _ => HttpAnswer::status(405),
    }
}

fn condition(request: &HttpRequest) -> Option<u64> {
    request.parameter("ifGenerationMatch").and_then(|text| text.parse().ok())
}

fn is_refused(state: &State, place: &(String, String), condition: Option<u64>) -> bool {
    let present = state.objects.get(place).map_or(0, |object| object.generation);
    !state.ignores_conditions && condition.is_some_and(|wanted| wanted != present)
}

fn described(name: &str, object: &Object) -> Value {
    json!({"name": name, "generation": object.generation.to_string(), "size": object.bytes.len().to_string(),
           "metadata": object.metadata.get("metadata"), "crc32c": object.metadata.get("crc32c")})
}

fn get(state: &State, bucket: &str, name: &str, request: &HttpRequest) -> HttpAnswer {
    let Some(object) = state.objects.get(&(bucket.to_owned(), name.to_owned())) else {
        return HttpAnswer::status(404).body(format!("No such object: {bucket}/{name}"));
    };
    let generation = object.generation.to_string();
    if request.parameter("ifGenerationNotMatch").as_ref() == Some(&generation) {
        return HttpAnswer::status(304);
    }
    if request.parameter("alt").as_deref() != Some("media") {
        return HttpAnswer::json(&described(name, object));
    }
    let mut answer = HttpAnswer::status(200).header("x-goog-generation", &generation);
    if let Some(sum) = object.metadata.get("crc32c").and_then(Value::as_str) {
        answer = answer.header("x-goog-hash", &format!("crc32c={sum},md5=none"));
    }
    answer.header("content-type", "application/octet-stream").body(object.bytes.clone())
}

fn finish(
    state: &mut State,
    bucket: &str,
    metadata: Value,
    bytes: Vec<u8>,
    condition: Option<u64>,
) -> HttpAnswer {
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    if is_refused(state, &(bucket.to_owned(), name.clone()), condition) {
        return HttpAnswer::status(412);
    }
    let object = state.write(bucket, &name, bytes, Vec::new(), metadata);
    HttpAnswer::json(&described(&name, &object))
}

fn put(state: &mut State, bucket: &str, request: &HttpRequest) -> HttpAnswer {
    let kind = request.header("content-type").unwrap_or_default();
    let Some((_, boundary)) = kind.split_once("boundary=") else { return HttpAnswer::status(400) };
    let body = &request.body;
    let find = |from: usize, what: &str| {
        let rest = &body[from..];
        rest.windows(what.len()).position(|window| window == what.as_bytes()).map(|at| from + at)
    };
    let ends = || {
        let json = find(0, "\r\n\r\n")? + 4;
        let json_end = find(json, &format!("\r\n--{boundary}"))?;
        let content = find(json_end + 2, "\r\n\r\n")? + 4;
        let content_end = body.len().checked_sub(format!("\r\n--{boundary}--\r\n").len())?;
        Some((json, json_end, content, content_end))
    };
    let Some((json, json_end, content, content_end)) = ends() else { return HttpAnswer::status(400) };
    let metadata: Value = serde_json::from_slice(&body[json..json_end]).unwrap();
    finish(state, bucket, metadata, body[content..content_end].to_vec(), condition(request))
}

fn begin(state: &mut State, bucket: &str, url: &str, request: &HttpRequest) -> HttpAnswer {
    let id = format!("session-{}", state.number());
    let metadata = request.json();
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    let upload = Upload {
        bucket: bucket.to_owned(),
        name,
        parts: Default::default(),
        condition: condition(request),
        headers: Vec::new(),
        metadata,
    };
    state.uploads.insert(id.clone(), upload);
    let place = format!("{url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={id}");
    HttpAnswer::status(200).header("location", &place)
}

/// A part of an upload, or the question how far it is.
fn piece(state: &mut State, id: &str, request: &HttpRequest) -> HttpAnswer {
    let Some(upload) = state.uploads.get_mut(id) else { return HttpAnswer::status(404) };
    let range = request.header("content-range").unwrap_or_default().trim_start_matches("bytes ");
    let (range, total) = range.split_once('/').unwrap_or((range, "0"));
    let total: u64 = total.parse().unwrap();
    let held = |upload: &Upload| upload.parts.values().map(|part| part.len() as u64).sum::<u64>();
    if let Some((start, _)) = range.split_once('-') {
        let start: u64 = start.parse().unwrap();
        if start > held(upload) {
            return HttpAnswer::status(503);
        }
        upload.parts.insert(start, request.body.clone());
    }
    let have = held(upload);
    if have < total {
        let answer = HttpAnswer::status(308);
        return if have == 0 { answer } else { answer.header("range", &format!("bytes=0-{}", have - 1)) };
    }
    let place = (upload.bucket.clone(), upload.name.clone());
    let condition = upload.condition;
    if is_refused(state, &place, condition) {
        return HttpAnswer::status(412);
    }
    let Some(upload) = state.uploads.remove(id) else { return HttpAnswer::status(404) };
    let bytes: Vec<u8> = upload.parts.into_values().flatten().collect();
    finish(state, &upload.bucket, upload.metadata, bytes, None)
}

fn list(state: &State, bucket: &str, request: &HttpRequest) -> HttpAnswer {
    let parameter = |name: &str| request.parameter(name).unwrap_or_default();
    let limit = parameter("maxResults").parse().unwrap_or(1000);
    let start = parameter("startOffset");
    let (found, more) = listed(state, bucket, &parameter("prefix"), limit, |name| name >= start.as_str());
    let items: Vec<Value> = found.iter().map(|(name, object)| described(name, object)).collect();
    let mut answer = json!({"items": items});
    if more {
        answer["nextPageToken"] = json!("more");
    }
    HttpAnswer::json(&answer)
}
