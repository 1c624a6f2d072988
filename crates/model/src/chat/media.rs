//! Pictures, documents and sound in a request, or a note where the model cannot take them.

use pollux_domain::content::{Blob, Body, Part};
use pollux_domain::model::Capabilities;
use serde_json::{Value, json};

const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A medium as a piece of a message; the note for a model that cannot take it.
pub(super) fn piece(part: &Part, caps: &Capabilities) -> Option<Result<Value, String>> {
    match &part.body {
        Body::InlineData(blob) => Some(inline(blob, caps).ok_or_else(|| note(&blob.mime_type))),
        Body::FileData { mime_type, uri } => {
            let public = uri.starts_with("https://") || uri.starts_with("http://");
            if caps.images && public && PICTURES.contains(&mime_type.as_str()) {
                return Some(Ok(json!({"type": "image_url", "image_url": {"url": uri}})));
            }
            Some(Err(format!("{} It is at {uri}", note(mime_type))))
        }
        _ => None,
    }
}

fn inline(blob: &Blob, caps: &Capabilities) -> Option<Value> {
    let Blob { mime_type, data_base64: data } = blob;
    let kind = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let url = || format!("data:{kind};base64,{data}");
    match kind.as_str() {
        _ if PICTURES.contains(&kind.as_str()) => {
            caps.images.then(|| json!({"type": "image_url", "image_url": {"url": url()}}))
        }
        "application/pdf" => caps
            .pdf
            .then(|| json!({"type": "file", "file": {"filename": "document.pdf", "file_data": url()}})),
        "audio/wav" | "audio/x-wav" => sound(data, "wav", caps),
        "audio/mp3" | "audio/mpeg" => sound(data, "mp3", caps),
        _ => None,
    }
}

fn sound(data: &str, format: &str, caps: &Capabilities) -> Option<Value> {
    caps.audio.then(|| json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
}

fn note(mime_type: &str) -> String {
    format!("[{mime_type} attachment omitted: this model does not support it.]")
}
